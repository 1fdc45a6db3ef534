"""A checkpoint belongs to one table: with the same one the result is made again, with another nothing is asked."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import pgmest as pg
from pgmest.data.linked import LinkedDataset
from pgmest.errors import BudgetExceeded, JournalError
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.notices import EndedRunWarning
from pgmest.privacy import DatasetLedger, Rho
from tests.mechanisms.auditing import DATA, DOMAIN, RECORDS
from tests.mechanisms.every import EVERY, made
from tests.mechanisms.linked.examples import small_tree
from tests.mechanisms.repeating import MachineFails

OTHERS = {
    "of the same size": np.roll(RECORDS, 1, axis=1) % DOMAIN.shape,
    "with one code changed": np.vstack([RECORDS[:-1], [0, 2, 0]]),
    "with the columns of others": np.column_stack([RECORDS[:, 0], RECORDS[::-1, 1], RECORDS[:, 2]]),
    "with one record more": np.vstack([RECORDS, RECORDS[:1]]),
    "without records": RECORDS[:0],
}


def again(fit, data):
    """Return the result of a run that has ended, which says so and makes no charge."""
    with pytest.warns(EndedRunWarning, match=r"run: this run ended on \d{4}-\d\d-\d\d at .* UTC"):
        return fit(data)


@pytest.mark.parametrize("name", EVERY)
def test_a_run_that_ended_is_repeated_on_its_own_table_alone(name, tmp_path):
    mechanism, path = made(name), tmp_path / "run"

    def fit(data):
        return mechanism.fit(data, seed=0, progress=False, checkpoint=path)

    with warnings.catch_warnings():
        warnings.simplefilter("error", EndedRunWarning)
        first = fit(DATA)
    text = path.read_bytes()
    for same in (DATA, pg.Dataset.from_codes(RECORDS[::-1], DOMAIN)):
        assert np.array_equal(again(fit, same).project(("a", "b")).values, first.project(("a", "b")).values)
    for codes in OTHERS.values():
        with pytest.raises(JournalError, match="answers of a run on other records: nothing was asked or paid"):
            fit(pg.Dataset.from_codes(codes, DOMAIN))
    assert path.read_bytes() == text


@pytest.mark.parametrize("other", OTHERS)
def test_a_run_that_did_not_end_is_not_continued_on_another_table(other, tmp_path):
    def fail(curator):
        raise MachineFails

    options = {"seed": 0, "checkpoint": tmp_path / "run", "ledger": tmp_path / "l"}
    DatasetLedger.create(tmp_path / "l", Rho(1.0)).close()
    mechanism = pg.mechanisms.Independent(rho=0.5)
    with pytest.raises(MachineFails):
        mechanism.fit(DATA, progress=fail, **options)
    spent = DatasetLedger(tmp_path / "l").committed
    with pytest.raises(JournalError, match="run on other records"):
        mechanism.fit(pg.Dataset.from_codes(OTHERS[other], DOMAIN), progress=False, **options)
    assert DatasetLedger(tmp_path / "l").committed == spent
    assert mechanism.fit(DATA, progress=False, **options).ledger.total <= Rho(0.5)
    assert DatasetLedger(tmp_path / "l").committed <= Rho(0.5)


def tree(seed: int = 0, children: int = 3) -> LinkedDataset:
    linked = small_tree(seed)
    return LinkedDataset({name: linked.tables[name] for name in linked.order[: children + 1]})


def changed(linked: LinkedDataset, name: str) -> LinkedDataset:
    """Return linked tables with another code in one row of one table."""
    table = linked.tables[name]
    codes = np.array(table.dataset.codes)
    codes[7, 0] = 1 - codes[7, 0]
    return LinkedDataset({**linked.tables, name: replace(table, dataset=pg.Dataset.from_codes(codes, table.domain))})


@pytest.mark.parametrize("children", [1, 3])
def test_linked_tables_that_ended_are_repeated_on_themselves_alone(children, tmp_path):
    mechanism, linked = LinkedLAMP(rho=0.5, backend="simulation"), tree(0, children)

    def fit(data):
        return mechanism.fit(data, seed=0, progress=False, checkpoint=tmp_path / "run")

    first, text = fit(linked), (tmp_path / "run").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error", EndedRunWarning)
        with pytest.raises(EndedRunWarning) as failed:
            fit(linked)
    assert failed.value  # its traceback is alive, and its journal must be closed all the same
    assert again(fit, linked).model == first.model
    hung = replace(linked.tables["persons"], parent_rows=np.roll(linked.link("persons")[1], 1))
    others = [changed(linked, name) for name in linked.order]
    others += [LinkedDataset({**linked.tables, "persons": hung}), tree(1, children)]
    for other in others:
        with pytest.raises(JournalError, match="run on other records"):
            fit(other)
    assert (tmp_path / "run").read_bytes() == text
    assert {path.name for path in tmp_path.iterdir()} == {"run", "run.head", "run.key"}


@pytest.mark.parametrize("edge", ["persons", "cars", "jobs"])
def test_a_tree_that_dies_in_any_edge_is_finished_and_paid_for_once(edge, tmp_path):
    linked, mechanism = tree(), LinkedLAMP(rho=0.5)
    label = {"persons": "persons.a", "cars": "cars.k", "jobs": "jobs.j"}[edge]
    options = {"seed": 0, "checkpoint": tmp_path / "run", "ledger": tmp_path / "l"}
    ledger = DatasetLedger.create(tmp_path / "l", Rho(0.5), unit="homes")

    def fail(curator):
        if curator.ledger[-1].label.startswith(label):
            raise MachineFails

    for _ in range(2):  # the second time at the same answer, from the journal
        with pytest.raises(MachineFails):
            mechanism.fit(linked, progress=fail, **options)
    with pytest.raises(BudgetExceeded):
        DatasetLedger(tmp_path / "l").begin(Rho(0.5), ledger.relation, "another run")
    result = mechanism.fit(linked, progress=False, **options)
    ledger.refresh()
    (run,) = ledger.runs
    assert [charge.number for charge in run.charges] == list(range(1, len(run.charges) + 1))
    assert len(run.charges) == sum(len(one.ledger) for one in result.results.values())
    assert all(charge.answer for charge in run.charges)
    assert Rho(0.499) < ledger.committed <= Rho(0.5)
    assert again(lambda data: mechanism.fit(data, progress=False, **options), linked).model == result.model
    assert DatasetLedger(tmp_path / "l").committed == ledger.committed


def test_a_tree_that_stopped_early_goes_on_in_the_edge_that_it_left(tmp_path):
    linked, mechanism = tree(), LinkedLAMP(rho=0.5, backend="simulation")

    def stop(curator):
        curator.stopped = len(curator.ledger) > 8

    early = mechanism.fit(linked, seed=0, checkpoint=tmp_path / "run", progress=stop)
    assert early.interrupted
    whole = mechanism.fit(linked, seed=0, checkpoint=tmp_path / "run", progress=False)
    assert not whole.interrupted
    for name, run in whole.results.items():
        asked, before = ([entry.label for entry in one.ledger] for one in (run, early.results[name]))
        assert asked[: len(before)] == before
        assert len(asked) > len(before)


def test_a_tree_reserves_all_of_its_budget_before_it_asks(tmp_path):
    ledger, left = DatasetLedger.create(tmp_path / "l", Rho(0.7), unit="homes"), []

    def noted(curator):
        ledger.refresh()
        left.append(ledger.remaining)

    LinkedLAMP(rho=0.5).fit(tree(), seed=0, progress=noted, ledger=ledger)
    assert max(left) <= Rho(0.7) - Rho(0.5)


@pytest.mark.parametrize("checkpoint", [None, "run"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_ledger_that_cannot_pay_all_edges_pays_none(checkpoint, share, tmp_path):
    ledger = DatasetLedger.create(tmp_path / "l", Rho(1.0), unit="homes")
    other = ledger.begin(Rho(1 - 0.5 * share), ledger.relation, "another run")
    asked = []
    options = {"seed": 0, "ledger": ledger, "checkpoint": None if checkpoint is None else tmp_path / checkpoint}
    with pytest.raises(BudgetExceeded, match="Nothing was spent"):
        LinkedLAMP(rho=0.5).fit(tree(), progress=asked.append, **options)
    assert asked == []
    assert [run.name for run in ledger.runs] == [other.name]
    ledger.close()
