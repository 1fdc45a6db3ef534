"""There is one curator, one ledger, one journal: no copies, no pickles, no forks, and threads charge one by one."""

import copy
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import BudgetExceeded, CopyError, ProcessError
from pgmest.privacy import Curator, DatasetLedger, Entry, Ledger, Rho
from pgmest.privacy.journal import Journal
from pgmest.privacy.ledger_runs import Charge

DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, (3, 4), (100, 2)), {"a": 3, "b": 4})
NAMES = [
    "Curator",
    "Curator through a transform",
    "Ledger",
    "Journal",
    "DatasetLedger",
    "LedgerRun",
    "Account",
]
SAME = pg.transforms.merge(DATA.domain, ("a", "b"), "ab")


def made(folder):
    """Everything that holds records, a budget, or the file of either."""
    book = DatasetLedger.create(folder / "people.ledger", Rho(5.0))
    curator = Curator(DATA, Rho(1.0), journal=folder / "run", ledger=book)
    return {
        "Curator": curator,
        "Curator through a transform": Curator(DATA, Rho(1.0)).through(SAME),
        "Ledger": Ledger(Rho(1.0)),
        "Journal": Journal(folder / "other", {}, bytes.hex),
        "DatasetLedger": book,
        "LedgerRun": curator._account.run,
        "Account": curator._account,
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps, lambda one: pickle.dumps([one], protocol=0)])
def test_what_holds_records_or_a_budget_is_neither_copied_nor_pickled(tmp_path, name, how):
    holder = made(tmp_path)[name]
    with pytest.raises(CopyError, match=f"a {name.split()[0]} can be neither copied nor pickled"):
        how(holder)
    with pytest.raises(TypeError):
        how({"inside": holder, "of": "something"} if how in (copy.deepcopy, pickle.dumps) else holder)


def charged_by_threads(charge, threads=8, times=40):
    """Return how often each thread was admitted."""
    together = threading.Barrier(threads)

    def work(_):
        together.wait()
        done = 0
        for _ in range(times):
            try:
                charge()
                done += 1
            except BudgetExceeded:
                pass
        return done

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def test_eight_threads_charge_what_is_there_and_no_more():
    ledger = Ledger(Rho(1.0))
    assert charged_by_threads(lambda: ledger.charge(Entry("part", "charge", Rho(0.0078125)))) == 128
    assert ledger.total == ledger.budget
    assert len(ledger) == 128


@pytest.mark.parametrize("backend", ["simulation", "opendp"])
def test_eight_threads_ask_a_curator(tmp_path, backend):
    curator = Curator(DATA, Rho(1.0), backend=backend, journal=tmp_path / "run", seed=0)
    view = curator.through(SAME)
    asked = [lambda: curator.measure("a", Rho(0.0625)), lambda: view.count(Rho(0.0625))]
    turns = iter(range(10**6))
    assert charged_by_threads(lambda: asked[next(turns) % 2](), times=4) == 16
    assert curator.ledger.total == curator.budget
    assert len(curator.measurements) == 16


def in_a_fork(task):
    """Return the result of a task in a forked process: the name of the error, or "done"."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            task()
            said = "done"
        except BaseException as error:
            said = type(error).__name__
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_spends_nothing(tmp_path):
    book = DatasetLedger.create(tmp_path / "people.ledger", Rho(5.0))
    curator = Curator(DATA, Rho(1.0), journal=tmp_path / "run", ledger=book)
    curator.measure("a", Rho(0.25))
    requests = {
        "measure": lambda: curator.measure("a", Rho(0.25)),
        "all": lambda: curator.measure_all(["a", "b"], Rho(0.25)),
        "select": lambda: curator.select("xy", lambda data: [0, 1], 1.0, Rho(0.25)),
        "release": lambda: curator.release(lambda data, rng: 1, Rho(0.25), label="x"),
        "count": lambda: curator.count(Rho(0.25)),
        "draw": lambda: curator.draw(lambda data: np.zeros(2, int), 2, 1, -20, 1, Rho(0.25), label="x"),
        "values": lambda: curator.measure_values(lambda data: [0.0], 1, 1.0, Rho(0.25), label="x"),
        "recoded": lambda: curator.through(SAME).measure("ab", Rho(0.25)),
        "ledger": lambda: curator.ledger.charge(Entry("x", "charge", Rho(0.25))),
        "journal": lambda: curator._account.journal.append("x", "y", None),
        "dataset": lambda: book.charge(curator._account.run.name, Charge("x", "charge", Rho(0.25))),
        "run": lambda: curator._account.run.charge(Entry("x", "charge", Rho(0.25))),
    }
    assert {name: in_a_fork(task) for name, task in requests.items()} == dict.fromkeys(requests, ProcessError.__name__)
    assert in_a_fork(curator.close) == "done"
    book.refresh()
    assert book.runs[0].open  # the fork did not end the run of its parent
    curator.measure("b", Rho(0.75))
    assert curator.remaining == Rho(0.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_refuses_while_a_thread_holds_the_lock():
    curator, holds, done = Curator(DATA, Rho(1.0)), threading.Event(), threading.Event()

    def slow(data, rng):
        holds.set()
        done.wait(30)

    asking = threading.Thread(target=lambda: curator.release(slow, Rho(0.5), label="slow"))
    asking.start()
    holds.wait(30)
    said = in_a_fork(lambda: curator.measure("a", Rho(0.5)))
    done.set()
    asking.join()
    assert said == ProcessError.__name__
