"""A run with a journal and a ledger that is killed at any moment is finished later, and paid for once."""

import contextlib
import gc
import json
import multiprocessing
import os
import pathlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import BudgetExceeded, JournalError, LedgerError
from pgmest.mechanisms import Independent
from pgmest.privacy import Curator, DatasetLedger, Rho
from pgmest.privacy.store import adopt_file

DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, 3, (50, 3)), {"a": 3, "b": 3, "c": 3})
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")


def run(folder, ledger: str | None = "people.ledger"):
    """Three requests that spend the budget; each answer is noted once it is handed out."""
    path = None if ledger is None else folder / ledger
    curator = Curator(DATA, Rho(0.75), journal=folder / "run", ledger=path, label="run")
    answers = []
    for name in "abc":
        answers.append(curator.measure(name, Rho(0.25)).values.tolist())
        with (folder / "seen").open("a") as seen:
            seen.write(json.dumps([name, answers[-1]]) + "\n")
    curator.close()
    return answers


def killed(folder, at):
    """Run in a process that dies before its operation of this number on a file."""
    left = [at]

    def counted(operation):
        def call(*arguments, **options):
            if not left[0]:
                os._exit(9)
            left[0] -= 1
            return operation(*arguments, **options)

        return call

    for name in ("write", "fsync", "replace"):
        setattr(os, name, counted(getattr(os, name)))
    run(folder)
    os._exit(0)


@FORK
def test_a_run_that_dies_anywhere_is_finished_and_paid_for_once(tmp_path):
    context, at = multiprocessing.get_context("fork"), 0
    codes: list[int | None] = [9]
    while codes[-1] == 9:
        folder = tmp_path / str(at)
        folder.mkdir()
        DatasetLedger.create(folder / "people.ledger", Rho(0.75)).close()
        process = context.Process(target=killed, args=(folder, at))
        process.start()
        process.join()
        codes.append(process.exitcode)
        answers = run(folder)
        seen = [json.loads(line) for line in (folder / "seen").read_text().splitlines()]
        assert {json.dumps(entry) for entry in seen} == {
            json.dumps([n, a]) for n, a in zip("abc", answers, strict=True)
        }
        ledger = DatasetLedger(folder / "people.ledger")
        assert ledger.committed == Rho(0.75)
        (account,) = ledger.runs
        assert [charge.number for charge in account.charges] == [1, 2, 3]
        assert all(charge.answer for charge in account.charges)
        ledger.close()
        at += 1
    assert at > 30


def test_answers_that_a_ledger_has_not_seen_are_charged_to_it(tmp_path):
    """A run without a ledger, then with one, then with another: each has all that was released under it."""
    answers = run(tmp_path, None)
    for name in ("people.ledger", "other.ledger"):
        DatasetLedger.create(tmp_path / name, Rho(0.75)).close()
        for _ in range(2):
            assert run(tmp_path, name) == answers
            assert DatasetLedger(tmp_path / name).committed == Rho(0.75)
            assert len(DatasetLedger(tmp_path / name).runs[0].charges) == 3
        with pytest.raises(BudgetExceeded):
            Independent(rho=0.75).fit(DATA, progress=False, ledger=tmp_path / name)
    with pytest.raises(JournalError, match="this run charges the ledger of its dataset"):
        run(tmp_path, None)


def test_a_journal_is_not_replayed_under_a_ledger_that_cannot_pay(tmp_path):
    run(tmp_path, None)
    DatasetLedger.create(tmp_path / "small.ledger", Rho(0.5)).close()
    with pytest.raises(BudgetExceeded):
        run(tmp_path, "small.ledger")
    assert DatasetLedger(tmp_path / "small.ledger").runs == ()


def test_two_copies_of_a_journal_pay_for_their_own_answers(tmp_path):
    """Both restored by their owner: what the second one asks again has another answer, and is charged again."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    path = tmp_path / "people.ledger"
    DatasetLedger.create(path, Rho(0.5)).close()

    def ask(name, requests):
        curator = Curator(DATA, Rho(0.5), journal=tmp_path / name / "run", ledger=path)
        try:
            return [curator.measure(a, Rho(0.25)).values.tolist() for a in "ab"[:requests]]
        finally:
            curator.close()

    ask("one", 1)
    for file in ("run", "run.key"):
        (tmp_path / "two" / file).write_bytes((tmp_path / "one" / file).read_bytes())
    adopt_file(tmp_path / "two" / "run")
    ask("one", 2)
    with pytest.raises(BudgetExceeded):
        ask("two", 2)
    assert DatasetLedger(path).committed == Rho(0.5)
    assert ask("two", 1) == ask("one", 1)


# -- files ------------------------------------------------------------------------------------------------------------


def test_of_many_that_create_a_ledger_at_once_one_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(pathlib.Path, "exists", lambda self, **options: False)  # all of them look before any writes

    def create(number):
        try:
            DatasetLedger.create(tmp_path / "l", Rho(1.0 + number)).close()
        except LedgerError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        made = [number for number in pool.map(create, range(8)) if number is not None]
    assert len(made) == 1
    assert DatasetLedger(tmp_path / "l").budget == Rho(1.0 + made[0])


def test_a_creation_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda *arguments: 0)
    with pytest.raises(LedgerError, match="cannot be written"):
        DatasetLedger.create(tmp_path / "l", Rho(1.0))
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    DatasetLedger.create(tmp_path / "l", Rho(1.0))


def test_a_header_without_its_head_is_not_taken_for_a_new_file(tmp_path):
    DatasetLedger.create(tmp_path / "l", Rho(0.5)).close()
    header = (tmp_path / "l").read_bytes()
    Curator(DATA, Rho(0.5), ledger=tmp_path / "l").measure("a", Rho(0.5))
    gc.collect()
    (tmp_path / "l").write_bytes(header)
    (tmp_path / "l.head").unlink()
    with pytest.raises(LedgerError, match=r"l\.head is missing"):
        DatasetLedger(tmp_path / "l")
    (tmp_path / "l").write_bytes(b"")
    with pytest.raises(LedgerError, match="is empty"):
        DatasetLedger(tmp_path / "l")


@pytest.mark.parametrize("link", [False, True])
def test_the_folder_may_change_while_files_are_open(tmp_path, monkeypatch, link):
    """Heads are written beside the files, wherever the process is, and by whichever name they were opened."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    DatasetLedger.create("people.ledger", Rho(1.0)).close()
    if link:
        (tmp_path / "there" / "link.ledger").symlink_to(tmp_path / "here" / "people.ledger")
    curator = Curator(DATA, Rho(1.0), journal="run", ledger="../there/link.ledger" if link else "people.ledger")
    monkeypatch.chdir(tmp_path / "there")
    for name in "abc":
        curator.measure(name, Rho(0.25))
    curator.close()
    assert {path.name for path in (tmp_path / "there").iterdir()} == ({"link.ledger"} if link else set())
    assert DatasetLedger(tmp_path / "here" / "people.ledger").committed == Rho(0.75)
    assert len((tmp_path / "here" / "run").read_text().splitlines()) == 5  # header, ledger, answers


def test_a_file_that_is_replaced_while_it_is_open_takes_no_more_charges(tmp_path):
    ledger = DatasetLedger.create(tmp_path / "l", Rho(1.0))
    curator = Curator(DATA, Rho(0.5), ledger=ledger)
    (tmp_path / "copy").write_bytes((tmp_path / "l").read_bytes())
    (tmp_path / "copy").replace(tmp_path / "l")
    with pytest.raises(LedgerError, match="was moved or replaced while it was open"):
        curator.measure("a", Rho(0.5))


# -- moments ----------------------------------------------------------------------------------------------------------


def in_time(work):
    """Run something that would wait for ever if it waited for itself."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for itself"


def test_a_run_may_be_collected_while_its_ledger_is_locked(tmp_path):
    ledger = DatasetLedger.create(tmp_path / "l", Rho(1.0))

    def work():
        curator = Curator(DATA, Rho(0.5), ledger=ledger)
        vars(curator)["me"] = curator  # a cycle, which only the collector finds
        curator.measure("a", Rho(0.125))
        del curator
        with ledger._file.locked():
            gc.collect()

    in_time(work)
    ledger.refresh()  # the next use gives back what was not spent
    assert ledger.committed == Rho(0.125)


def test_a_signal_handler_gets_an_error_where_it_would_wait_for_what_it_interrupted(tmp_path):
    ledger, found = DatasetLedger.create(tmp_path / "l", Rho(1.0)), []

    def work():
        with ledger._file.locked():
            try:
                ledger.refresh()
            except LedgerError as error:
                found.append(str(error))

    in_time(work)
    assert "is being written by this thread" in found[0]


def test_runs_that_are_open_at_the_end_of_the_process_are_ended(tmp_path):
    import subprocess
    import sys

    program = (
        "import numpy as np, pgmest as pg\nfrom pgmest.privacy import *\n"
        "data = pg.Dataset.from_codes(np.zeros((5, 1), int), {'a': 3})\n"
        f"c = Curator(data, Rho(0.5), ledger=DatasetLedger.create({str(tmp_path / 'l')!r}, Rho(1.0)))\n"
        "c.me = c; c.measure('a', Rho(0.25)); kept = [c]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert DatasetLedger(tmp_path / "l").committed == Rho(0.25)


@pytest.mark.parametrize("operation", ["write", "fsync", "replace"])
def test_an_interruption_while_a_line_is_written_leaves_a_file_that_goes_on(tmp_path, monkeypatch, operation):
    """Ctrl-C at any moment of writing: what is on disk counts, and the next line follows it."""
    for number in range(4):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        DatasetLedger.create(folder / "l", Rho(1.0)).close()
        curator = Curator(DATA, Rho(1.0), journal=folder / "run", ledger=folder / "l")
        curator.measure("a", Rho(0.125))
        left, real = [number], getattr(os, operation)

        def interrupted(*arguments, left=left, real=real, **options):
            left[0] -= 1
            found = real(*arguments, **options)
            if left[0] == -1:
                raise KeyboardInterrupt
            return found

        with monkeypatch.context() as patch:
            patch.setattr(os, operation, interrupted)
            with contextlib.suppress(KeyboardInterrupt):
                curator.measure("b", Rho(0.125))
        second = (
            curator.measure("b", Rho(0.125)) if curator._account.journal._position == 1 else curator.measurements[-1]
        )
        curator.measure("c", Rho(0.125))
        curator.close()
        again = Curator(DATA, Rho(1.0), journal=folder / "run", ledger=folder / "l")
        repeated = [again.measure(name, Rho(0.125)).values.tolist() for name in "abc"]
        assert repeated[1] == second.values.tolist()
        again.close()
        assert DatasetLedger(folder / "l").committed == Rho(0.375)
