"""The store: what is recognized after lines were edited, cut, exchanged or copied; and locks on every platform."""

import json
import shutil
import stat
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import BudgetExceeded, FileFormatError, JournalError
from pgmest.privacy import Curator, Rho, locks, store
from pgmest.privacy.journal import Journal
from pgmest.privacy.store import Kind, Store, adopt_file, sync_folder

DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, (3, 4), (500, 2)), {"a": 3, "b": 4})


def ask(path, requests=3):
    """Answers None to all requests, and how often the records were looked at."""
    looked = []
    curator = Curator(DATA, Rho(1.0), journal=path)
    try:
        for number in range(requests):
            assert curator.release(lambda data, rng: looked.append(1), Rho(0.25), label=f"request {number}") is None
    finally:
        curator.close()
    return len(looked), curator.spent


def test_an_answer_of_none_is_remembered(tmp_path):
    assert ask(tmp_path / "run") == (3, Rho(0.75))
    assert ask(tmp_path / "run") == (0, Rho(0.75))
    assert ask(tmp_path / "run", 4) == (1, Rho(1.0))
    with pytest.raises(BudgetExceeded):
        ask(tmp_path / "run", 5)
    journal = Journal(tmp_path / "own", {}, bytes.hex)
    assert journal.following("x", "d") == (1, None)
    journal.append("x", "d", None)
    journal.close()
    number, line = Journal(tmp_path / "own", {}, bytes.hex).following("x", "d")
    assert number == 1
    assert line is not None
    assert line["answer"] is None


def changed(change):
    """A change of the lines of a file; `change` may return None to leave the file and do something else."""

    def apply(path):
        with path.open("rb") as file:
            path.write_bytes(b"".join(change(file.readlines())))

    return apply


def edited(lines):
    record = json.loads(lines[2])
    return [*lines[:2], json.dumps({**record, "answer": 7}).encode() + b"\n", *lines[3:]]


DAMAGES = {
    "an answer edited": (changed(edited), "line 3 of 4 is not as it was written"),
    "a line removed": (changed(lambda lines: [*lines[:1], *lines[2:]]), "line 2 of 3 is not as it was written"),
    "lines exchanged": (changed(lambda lines: [lines[0], lines[2], lines[1], lines[3]]), "line 2 of 4 is not as"),
    "a line twice": (changed(lambda lines: [*lines, lines[-1]]), "line 5 of 5 is not as"),
    "the last line cut off": (changed(lambda lines: lines[:-1]), "rolled back or truncated"),
    "half of the last line": (changed(lambda lines: [*lines[:-1], lines[-1][:20]]), "rolled back or truncated"),
    "all but the header": (changed(lambda lines: lines[:1]), "rolled back or truncated"),
    "emptied": (changed(lambda lines: []), "rolled back or truncated"),
    "no head file": (lambda path: path.with_name("run.head").unlink(), "run.head is missing"),
    "a head file of nonsense": (lambda path: path.with_name("run.head").write_bytes(b"\0{"), "rolled back or"),
    "a head file of a list": (lambda path: path.with_name("run.head").write_text("[1]"), "rolled back or"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_not_as_it_was_written_is_recognized(tmp_path, name):
    damage, message = DAMAGES[name]
    ask(tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(JournalError, match=message):
        ask(tmp_path / "run")


def test_a_head_file_that_cannot_be_read_is_not_taken_for_a_sign_of_tampering(tmp_path):
    ask(tmp_path / "run")
    head = tmp_path / "run.head"
    head.unlink()
    head.mkdir()  # like a file without the permission to read it, which root has always
    with pytest.raises(JournalError, match=r"run\.head cannot be read: ") as caught:
        ask(tmp_path / "run")
    assert "rolled back" not in str(caught.value)


def test_a_copy_is_recognized_and_a_file_that_was_moved_is_not_taken_for_one(tmp_path):
    ask(tmp_path / "run", 2)
    for name in ("run", "run.head", "run.key"):
        shutil.copy(tmp_path / name, tmp_path / f"copy{name[3:]}")
    with pytest.raises(JournalError, match="is a copy"):
        ask(tmp_path / "copy")
    for name in ("run", "run.head", "run.key"):
        (tmp_path / name).rename(tmp_path / f"moved{name[3:]}")
    assert ask(tmp_path / "moved")[0] == 1
    head = adopt_file(tmp_path / "copy")
    assert head == adopt_file(tmp_path / "copy")
    assert ask(tmp_path / "copy")[0] == 1  # the owner has said that this is the one


def test_both_files_of_yesterday_are_not_recognized_from_themselves(tmp_path):
    """The documented limit: this attack cannot be detected, and nobody must rely on that."""
    ask(tmp_path / "run", 1)
    old = {name: (tmp_path / name).read_bytes() for name in ("run", "run.head")}
    ask(tmp_path / "run", 2)
    for name, content in old.items():
        (tmp_path / name).write_bytes(content)  # in place: the file is the same
    assert ask(tmp_path / "run", 2)[0] == 1


def test_what_the_head_file_lags_behind_is_kept(tmp_path):
    """A process that died between an answer and its head: the answer was paid for, and counts."""
    ask(tmp_path / "run", 1)
    head = (tmp_path / "run.head").read_bytes()
    ask(tmp_path / "run", 2)
    (tmp_path / "run.head").write_bytes(head)
    assert ask(tmp_path / "run", 2)[0] == 0
    (tmp_path / "run.head").write_bytes(head)
    with (tmp_path / "run").open("ab") as file:
        file.write(b'{"label": "request 2", "dig')  # never handed out
    assert ask(tmp_path / "run", 3)[0] == 1


def test_a_head_that_cannot_be_written_pays_for_nothing_and_names_the_file_once(tmp_path, monkeypatch):
    ask(tmp_path / "run", 1)
    before = (tmp_path / "run").read_bytes()

    def full(path, content):
        raise FileFormatError.of(path, "cannot be written: No space left on device.", "Check the free space.")

    monkeypatch.setattr(store, "write_atomically", full)
    with pytest.raises(JournalError, match=r"Check the free space\. No answer was handed out"):
        ask(tmp_path / "run", 2)
    monkeypatch.undo()
    assert (tmp_path / "run").read_bytes() == before
    assert ask(tmp_path / "run", 2)[0] == 1


class Msvcrt(SimpleNamespace):
    """Windows' locks as its documentation has them: of bytes, from the position of the file, by process."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        super().__init__(taken={}, places=[])

    def locking(self, file, mode, count):
        import os

        at = (os.fstat(file).st_ino, os.lseek(file, 0, os.SEEK_CUR))
        self.places.append(at[1])
        if mode == self.LK_UNLCK:
            if self.taken.get(at) != file:
                raise PermissionError(13, "Permission denied")
            del self.taken[at]
        elif at in self.taken:
            raise PermissionError(13, "Permission denied")
        else:
            self.taken[at] = file


@pytest.fixture
def windows(monkeypatch):
    module = Msvcrt()
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it raises ImportError
    monkeypatch.setitem(sys.modules, "msvcrt", module)
    return module


def test_locks_hold_on_windows(tmp_path, windows):
    ask(tmp_path / "run", 2)
    first = Curator(DATA, Rho(1.0), journal=tmp_path / "run")
    with pytest.raises(JournalError, match="in use"):
        Curator(DATA, Rho(1.0), journal=tmp_path / "run")
    assert set(windows.places) == {locks.PLACE}  # beyond what is written, which others could not read
    first.close()


def test_a_moment_s_lock_is_given_back_on_windows(tmp_path, windows):
    from pgmest.privacy import DatasetLedger

    one = DatasetLedger.create(tmp_path / "people.ledger", Rho(1.0))
    two = DatasetLedger(tmp_path / "people.ledger")
    for ledger in (one, two, one):
        ledger.refresh()
    assert not windows.taken


def test_a_system_without_locks_is_refused(tmp_path, monkeypatch):
    for module in ("fcntl", "msvcrt"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(JournalError, match="cannot be locked: this system has no file locks"):
        Curator(DATA, Rho(1.0), journal=tmp_path / "run")


def test_the_folder_is_synced_when_the_file_is_made(tmp_path, monkeypatch):
    import os

    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_mode), fsync(file)))
    file = Store(tmp_path / "x", Kind("kind", 1, "file", JournalError), "create")
    file.append({})
    file.close()
    import stat

    assert any(map(stat.S_ISDIR, synced))
    sync_folder(tmp_path / "nowhere")  # where a system cannot open folders, nothing is raised


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_paid_answers_are_readable_by_their_owner_alone(tmp_path):
    ask(tmp_path / "run")
    pg.privacy.DatasetLedger.create(tmp_path / "people.ledger", Rho(1.0)).close()
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("run", "people.ledger")] == [0o600, 0o600]
