"""The ledger of a dataset: all runs together spend no more than its total, whoever runs them, and however they end."""

import contextlib
import errno
import gc
import json
import multiprocessing
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import pgmest as pg
from pgmest.cli.main import main
from pgmest.errors import ArgumentError, BudgetExceeded, BudgetTypeError, LedgerError
from pgmest.privacy import GDP, AddRemove, ApproxDP, Curator, DatasetLedger, Entry, Epsilon, Replace, Rho, locks
from pgmest.privacy.budgets import at_most_text
from pgmest.privacy.store import adopt_file, chained
from tests.privacy.amounts import rho
from tests.privacy.interrupted import interrupted_after

DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, (3, 4), (100, 2)), {"a": 3, "b": 4})


@pytest.fixture
def path(tmp_path):
    DatasetLedger.create(tmp_path / "people.ledger", Rho(1.0), table="people").close()
    return tmp_path / "people.ledger"


def test_a_second_run_that_would_exceed_it_is_refused_before_it_looks(path):
    first = Curator(DATA, Rho(0.75), ledger=path, label="first")
    message = r"second, a run on .* would cost epsilon 6.\d+ \(rho 0.5\), but only epsilon 4.\d+ \(rho 0.25\) of"
    with pytest.raises(BudgetExceeded, match=message):
        Curator(DATA, Rho(0.5), ledger=path, label="second")
    first.measure("a", Rho(0.5))
    first.close()  # gives back a quarter
    Curator(DATA, Rho(0.5), ledger=path, label="second").measure("a", Rho(0.5))
    ledger = DatasetLedger(path)
    assert (ledger.committed, ledger.remaining) == (Rho(1.0), Rho(0.0))
    assert [run.label for run in ledger.runs] == ["first", "second"]
    assert all(run.name[:8] in str(ledger) for run in ledger.runs)
    short = ledger.details(1)
    assert "  ... 1 earlier runs" in short.splitlines()
    assert [run.name[:8] in short for run in ledger.runs] == [False, True]
    with pytest.raises(BudgetExceeded):
        Curator(DATA, Rho(1e-9), ledger=path)


def test_mechanisms_charge_it(path):
    for _ in range(2):
        result = pg.mechanisms.MST(rho=0.5).fit(DATA, ledger=path, progress=False)
        assert rho(result.ledger.remaining) < 1e-9
    with pytest.raises(BudgetExceeded):
        pg.mechanisms.MST(rho=0.01).fit(DATA, ledger=path, progress=False)
    assert [len(run.charges) for run in DatasetLedger(path).runs] == [4, 4]


def test_a_run_that_is_dropped_or_raises_gives_back_what_it_did_not_spend(path):
    curator = Curator(DATA, Rho(0.75), ledger=path)
    curator.measure("a", Rho(0.25))
    del curator
    gc.collect()
    assert DatasetLedger(path).committed == Rho(0.25)


def test_a_crash_keeps_what_was_reserved_until_the_journal_goes_on(path, tmp_path):
    program = (
        "import os, sys, numpy as np, pgmest as pg\nfrom pgmest.privacy import Curator, Rho\n"
        "data = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, (3, 4), (100, 2)), {'a': 3, 'b': 4})\n"
        f"c = Curator(data, Rho(0.5), ledger={str(path)!r}, journal={str(tmp_path / 'run')!r})\n"
        "c.measure('a', Rho(0.25)); os._exit(1)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=os.getcwd(), check=False).returncode == 1
    assert DatasetLedger(path).committed == Rho(0.5)
    with pytest.raises(BudgetExceeded):
        Curator(DATA, Rho(0.75), ledger=path)
    again = Curator(DATA, Rho(0.5), ledger=path, journal=tmp_path / "run")
    again.measure("a", Rho(0.25))  # from the journal
    assert len(DatasetLedger(path).runs[0].charges) == 1
    again.measure("b", Rho(0.125))
    again.close()
    assert DatasetLedger(path).committed == Rho(0.375)


def test_a_journal_that_was_rolled_back_is_charged_for_its_second_answers(path, tmp_path):
    """The journal itself cannot detect this: the ledger counts every new answer of a run."""
    for fresh in (True, False):
        curator = Curator(DATA, Rho(0.5), ledger=path, journal=tmp_path / "run")
        curator.measure("a", Rho(0.25))
        curator.close()
        assert len(DatasetLedger(path).runs[0].charges) == 1, fresh
    interrupted_after(tmp_path / "run", 1)
    curator = Curator(DATA, Rho(0.5), ledger=path, journal=tmp_path / "run")
    curator.measure("a", Rho(0.25))
    curator.close()
    assert DatasetLedger(path).committed == Rho(0.5)
    interrupted_after(tmp_path / "run", 1)
    curator = Curator(DATA, Rho(0.5), ledger=path, journal=tmp_path / "run")
    with pytest.raises(BudgetExceeded):
        curator.measure("a", Rho(0.25))


def spend_in_small_parts(path, spent):
    ledger, count = DatasetLedger(path), 0
    while True:
        try:
            run = ledger.begin(Rho(1 / 64), AddRemove(), "part")
        except BudgetExceeded:
            break
        run.charge(Entry("x", "charge", Rho(1 / 64)))
        run.end()
        count += 1
    spent.put(count)


def test_processes_share_it(path):
    context = multiprocessing.get_context("spawn")
    spent = context.Queue()
    workers = [context.Process(target=spend_in_small_parts, args=(path, spent)) for _ in range(2)]
    for worker in workers:
        worker.start()
    counts = [spent.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(counts) == 64
    assert DatasetLedger(path).remaining == Rho(0.0)


def test_types_are_converted_where_that_is_a_bound(path, tmp_path):
    for budget in (Epsilon(0.5), GDP(0.25)):
        curator = Curator(DATA, budget, ledger=path)
        curator.measure("a", curator.remaining)
        curator.close()
    committed = DatasetLedger(path).committed
    assert rho(committed) == pytest.approx(Epsilon(0.5).to_rho().rho + 0.125, rel=1e-9)
    with pytest.raises(BudgetTypeError, match=r"Use Rho\.of"):
        Curator(DATA, ApproxDP(0.1, 1e-9), ledger=path)
    basic = DatasetLedger.create(tmp_path / "basic.ledger", ApproxDP(1.0, 1e-6))
    Curator(DATA, Epsilon(0.5), ledger=basic).close()
    with pytest.raises(BudgetTypeError, match=r"Convert it with rho\.to_approx"):
        Curator(DATA, Rho(0.1), ledger=basic)


def test_what_cannot_be_put_on_it(path):
    with pytest.raises(LedgerError, match="their costs cannot be added up"):
        Curator(DATA, Rho(0.1), ledger=path, neighbors=Replace())
    with pytest.raises(ArgumentError, match="simulated noise protects nobody"):
        Curator(DATA, Rho(0.1), ledger=path, backend="simulation")
    with pytest.raises(LedgerError, match="exists already"):
        DatasetLedger.create(path, Rho(9.0))
    assert DatasetLedger(path).runs == ()


@pytest.mark.parametrize(
    "forged", [{"budget": None}, {"budget": {"type": "Rho", "rho": -1}}, {"relation": 3}, {"table": ...}]
)
def test_a_first_line_without_valid_facts_is_no_ledger_although_its_digest_is_right(path, forged):
    header = {**json.loads(path.read_text().splitlines()[0]), **forged}
    header = {name: value for name, value in header.items() if name != "check" and value is not ...}
    path.write_text(json.dumps({**header, "check": chained("", header)}) + "\n")
    adopt_file(path)
    for read_only in (True, False):
        with pytest.raises(LedgerError, match="is not a ledger: its first line has no valid budget"):
            DatasetLedger(path, read_only=read_only)


def test_a_head_kept_elsewhere_shows_that_both_files_were_replaced(path):
    old = {file: file.read_bytes() for file in (path, path.with_name("people.ledger.head"))}
    Curator(DATA, Rho(0.5), ledger=path, label="one").close()
    head = DatasetLedger(path).head
    Curator(DATA, Rho(0.25), ledger=path, label="two").close()
    assert DatasetLedger(path, expect=head[:16]).runs  # it has grown from there
    for file, content in old.items():
        file.write_bytes(content)
    assert DatasetLedger(path).runs == ()
    for expected in (head, head[:16], "", "00"):
        with pytest.raises(LedgerError, match="no line with the digest"):
            DatasetLedger(path, expect=expected)


def test_an_edited_ledger_is_refused(path):
    text = path.read_text()
    path.write_text(text.replace('"rho": 1.0', '"rho": 9.0'))
    with pytest.raises(LedgerError, match="line 1 of 1 is not as it was written"):
        Curator(DATA, Rho(0.5), ledger=path)


def in_folder(folder):
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir() if file.is_file()}


@pytest.mark.parametrize("with_head", [False, True])
def test_a_copy_is_shown_and_said_to_be_one(path, tmp_path, monkeypatch, capsys, with_head):
    with contextlib.closing(Curator(DATA, Rho(0.5), ledger=path, label="one")) as curator:
        curator.measure("a", Rho(0.25))
    released = tmp_path / "released"
    released.mkdir()
    for name in ["people.ledger", *(["people.ledger.head"] if with_head else [])]:
        shutil.copy(path.with_name(name), released / name)
    with (released / path.name).open("ab") as file:
        file.write(b'{"event": "beg')  # the line of a run that was writing while the file was copied
    monkeypatch.setattr(locks, "lock", None)  # no lock, which a read-only file system may not have
    before = in_folder(released), in_folder(tmp_path)
    monkeypatch.setattr(os, "open", reads_only(os.open))
    for shown in (path, released / path.name):
        assert main(["ledger", "show", str(shown)]) == 0
        text = capsys.readouterr().out
        assert ("COPY" in text) == (shown != path)
        promised = at_most_text(Rho(0.5).to_approx(1e-9).epsilon, 4)
        assert f"one row added or removed  epsilon {promised} (rho 0.5)  rho 0.25         1  ended" in text
        assert main(["ledger", "show", str(shown), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert bool(facts["copied"]) == (shown != path)
        assert facts["runs"][0]["charges"] == [{"label": "a", "cost": {"type": "Rho", "rho": 0.25}}]
    monkeypatch.undo()
    assert (in_folder(released), in_folder(tmp_path)) == before
    with pytest.raises(LedgerError):
        DatasetLedger(released / path.name, read_only=True).begin(Rho(0.1), AddRemove(), "a run")
    looking = DatasetLedger(path, read_only=True)
    with path.open("ab") as file:
        file.write(b'{"event": "beg')
    for request in (looking.refresh, lambda: looking.begin(Rho(0.1), AddRemove(), "a run"), lambda: looking.end("one")):
        with pytest.raises(LedgerError, match="was opened to be looked at"):
            request()
    assert len(DatasetLedger(path).runs) == 1


def reads_only(opened):
    """Return `os.open` of a file system that cannot be written to."""

    def open_only(path, flags, *more, **options):
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *more, **options)

    return open_only


def test_what_was_changed_or_cut_off_is_not_shown(path):
    Curator(DATA, Rho(0.5), ledger=path, label="one").close()
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (lines[:-1], [lines[0].replace(b"1.0", b"9.0"), *lines[1:]], [], [b"{}\n"]):
        path.write_bytes(b"".join(damaged))
        with pytest.raises(LedgerError):
            DatasetLedger(path, read_only=True)


def test_a_pipe_is_no_ledger_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="is not a plain file"):
        DatasetLedger(tmp_path / "pipe", read_only=True)


def test_mu_is_printed_as_mu(tmp_path):
    ledger = DatasetLedger.create(tmp_path / "l", GDP.of(1.0, 1e-9))
    curator = Curator(DATA, GDP(0.01), ledger=ledger)
    curator.measure("a", GDP(0.01))
    for text in (str(ledger), str(curator.ledger), ledger.details(delta=1e-6)):
        assert "mu 0.1" in text
        assert "GDP(" not in text
    assert "epsilon 1 (mu 0.182), at delta 1e-09" in str(ledger)
    assert "(mu 0.152) for another run; runs add up in mu squared, not in epsilon" in str(ledger)  # of 0.15203
    assert "of epsilon 0.7537 (mu 0.182), at delta 1e-06" in ledger.details(delta=1e-6)


def test_the_command_line(path, tmp_path, capsys):
    new = str(tmp_path / "new.ledger")
    assert main(["ledger", "create", new, "--epsilon", "1", "--delta", "1e-9", "--table", "x"]) == 0
    assert main(["ledger", "show", new]) == 0
    out = capsys.readouterr().out
    assert "Ledger of x\n" in out
    assert "epsilon 0 (rho 0) of epsilon 1 (rho 0.01498), at delta 1e-09, by 0 runs" in out
    head = out.split()[-1]
    assert main(["ledger", "show", new, "--expect", head[:12], "--json"]) == 0
    assert main(["ledger", "show", new, "--expect", "0" * 64]) == 1
    assert main(["ledger", "adopt", new]) == 0
    assert main(["ledger", "create", new, "--rho", "1"]) == 5
    assert main(["ledger", "create", str(tmp_path / "other.ledger")]) == 1
    assert main(["ledger", "show", str(tmp_path / "none.ledger")]) == 1


# -- the delta of values that nobody listed ---------------------------------------------------------------------------


def bought_labels(path, delta, asked=None, journal=None):
    curator = Curator(DATA, Rho(0.25), ledger=path, label="labels", threshold_delta=delta, journal=journal)
    asked = delta if asked is None else asked
    curator.frequent(lambda data: {"many": data.records}, Rho(0.125), asked, label="labels")
    return curator


def test_runs_share_its_delta_for_thresholds(tmp_path):
    path = tmp_path / "people.ledger"
    DatasetLedger.create(path, Rho(1.0), threshold_delta=1e-6).close()
    bought_labels(path, 2**-20, 2**-22).close()  # gives back three quarters
    ledger = DatasetLedger(path)
    assert ledger.threshold_delta_left == 1e-6 - 2**-22
    assert "of delta" not in str(ledger)
    assert "a delta of 7.62e-07 of 1e-06 for thresholds" in str(ledger)
    assert ledger.to_json()["threshold_delta"] == {"most": 1e-6, "left": 1e-6 - 2**-22}
    with pytest.raises(BudgetExceeded, match=r"a delta of 9\.5.* for values that nobody listed, but only 7\.6"):
        bought_labels(path, 2**-20)
    running = bought_labels(path, 2**-21, 2**-22)  # reserves all of it
    with pytest.raises(BudgetExceeded):
        bought_labels(path, 2**-21)
    running.close()
    assert DatasetLedger(path).threshold_delta_left == 1e-6 - 2**-21
    assert [run.exactly_spent[-1] for run in DatasetLedger(path).runs] == [2**-22, 2**-22]


def test_a_ledger_without_such_a_delta_refuses_before_it_looks(path):
    with pytest.raises(BudgetExceeded, match="threshold_delta"):
        bought_labels(path, 1e-9)
    assert not DatasetLedger(path).runs
    with pytest.raises(ArgumentError, match="threshold_delta"):
        DatasetLedger.create(path.with_name("other"), Rho(1.0), threshold_delta=1.0)


def test_a_journal_does_not_pay_a_delta_twice(tmp_path):
    path, journal = tmp_path / "people.ledger", tmp_path / "run.journal"
    DatasetLedger.create(path, Rho(1.0), threshold_delta=1e-6).close()
    bought_labels(path, 2**-20, journal=journal).close()
    bought_labels(path, 2**-20, journal=journal).close()
    (run,) = DatasetLedger(path).runs
    assert run.exactly_spent[-1] == 2**-20
    with pytest.raises(LedgerError, match=r"has Rho.* and a delta of"):
        bought_labels(path, 2**-21, journal=journal)


def test_the_command_makes_a_ledger_with_a_delta(tmp_path, capsys):
    path = tmp_path / "people.ledger"
    assert main(["ledger", "create", str(path), "--rho", "1", "--threshold-delta", "1e-9"]) == 0
    assert "a delta of 1e-09 of 1e-09 for thresholds" in capsys.readouterr().out


def test_a_ledger_that_cannot_be_written_at_the_end_loses_no_answer(path):
    def moved_at_the_last_charge(curator):
        if len(curator.ledger) == 2:
            os.rename(path, path.with_name("elsewhere"))

    mechanism = pg.mechanisms.Independent(rho=0.5)
    with pytest.warns(UserWarning, match="the unspent budget of the run stays reserved: .* was moved"):
        result = mechanism.fit(DATA, ledger=path, progress=moved_at_the_last_charge)
    assert len(result.measurements) == 2


def test_a_resumed_run_states_what_its_later_charges_reserve_again(path, tmp_path):
    """Its statement says what all runs take, as the ledger does, and no less."""
    options = {"ledger": path, "journal": tmp_path / "run.journal"}
    first = Curator(DATA, Rho(0.5), **options)
    first.measure("a", Rho(0.125))
    first.close()
    resumed = Curator(DATA, Rho(0.5), **options)
    resumed.measure("a", Rho(0.125))
    resumed.measure("b", Rho(0.25))
    standing, taken = resumed.ledger.statement().standing, DatasetLedger(path).taken()
    resumed.close()
    assert standing.taken == taken


def test_what_runs_take_is_that_of_the_runs_that_are_counted(path, monkeypatch):
    """Another thread may begin a run between two looks at the ledger."""
    ledger = DatasetLedger(path)
    first = Curator(DATA, Rho(0.25), ledger=ledger)
    one = ledger.taken()
    second = Curator(DATA, Rho(0.25), ledger=ledger)
    looks = iter([ledger.runs[:1], ledger.runs])
    monkeypatch.setattr(DatasetLedger, "runs", property(lambda _: next(looks)))
    assert ledger.taken() == one
    monkeypatch.undo()
    for curator in (first, second):
        curator.close()
