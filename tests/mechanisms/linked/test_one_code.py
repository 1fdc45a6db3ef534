"""Attributes of one code in linked tables cost nothing, and the result has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import Exactly, Impossible, Rule
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.tables.domain import Domain
from tests.mechanisms.linked.examples import households

SIZES = np.random.default_rng(1).integers(0, 5, size=120)
NARROW = households(SIZES, {"r": 3, "s": 2}, {"a": 5, "b": 2}, 4)
MORE = {"households": {"year": 1, "r": 3, "s": 2}, "persons": {"a": 5, "k": 1, "b": 2, "version": 1}}


def widened(linked: LinkedDataset, rules: Sequence[Rule] = ()) -> LinkedDataset:
    """Return linked tables with further attributes of one code."""
    tables = {}
    for name, table in linked.tables.items():
        domain, own = Domain(MORE[name]), table.dataset
        columns = [own.column(one) if one in own.domain else np.zeros(own.records, dtype=int) for one in domain]
        tables[name] = replace(table, dataset=Dataset.from_codes(columns, domain))
    return LinkedDataset(tables, rules)


def fitted(linked: LinkedDataset) -> Any:
    return LinkedLAMP(epsilon=1.0, backend="simulation").fit(linked, seed=0, progress=False)


def check_same(wide: Any, narrow: Any) -> None:
    """Check that two results have the same ledgers and tables, but for attributes of one code."""
    assert [entry.label for entry in wide.ledger] == [entry.label for entry in narrow.ledger]
    assert [entry.cost for entry in wide.ledger] == [entry.cost for entry in narrow.ledger]
    for name, table in narrow.model.tables.items():
        made = wide.model.tables[name].dataset
        assert dict(made.domain) == MORE[name]
        assert made.select(table.domain) == table.dataset


def check_answers(wide: Any, narrow: Any) -> None:
    """Check that answers and intervals agree, also those that name attributes of one code."""
    for asked, more in [
        (("a", "r"), ("a", "persons.k", "r", "households.year")),
        (("households.r", "number of persons"), ("households.year", "households.r", "number of persons")),
        (("persons.a", "another of persons.b"), ("persons.a", "another of persons.b", "another of persons.version")),
    ]:
        expected, found = narrow.interval(asked), wide.interval(more)
        assert found.low.values.ravel() == pytest.approx(expected.low.values.ravel(), rel=1e-6, abs=1e-6)
        assert found.high.values.ravel() == pytest.approx(expected.high.values.ravel(), rel=1e-6, abs=1e-6)
        assert wide.project(more).values.ravel() == pytest.approx(narrow.project(asked).values.ravel())
    units = np.arange(len(wide.model)) % 3 == 0
    ends = [result.unit_interval(units) for result in (wide, narrow)]
    assert ends[0].low == pytest.approx(ends[1].low)


def test_runs_and_answers_are_the_same(tmp_path):
    wide, narrow = fitted(widened(NARROW)), fitted(NARROW)
    check_same(wide, narrow)
    check_answers(wide, narrow)
    wide.save(tmp_path / "wide.npz")
    loaded = pg.load(tmp_path / "wide.npz")
    assert loaded.sample(seed=0).tables["persons"].domain == Domain(MORE["persons"])
    check_answers(loaded, narrow)


def test_rules_and_structural_zeros_may_name_them():
    rule = Impossible("persons", "k", (0,), beside=(("a", (4,)),), above=(("year", (0,)), ("r", (2,))))
    same = Impossible("persons", "a", (4,), above=(("r", (2,)),))
    wide, narrow = widened(NARROW, [rule]), replace(NARROW, rules=(same,))
    mask = np.zeros((5, 2), dtype=bool)
    mask[0, 1] = True
    for linked, zeros in ((wide, {("a", "version", "b"): mask[:, None, :]}), (narrow, {("a", "b"): mask})):
        tables = dict(linked.tables)
        tables["persons"] = replace(tables["persons"], structural_zeros=zeros)
        object.__setattr__(linked, "tables", tables)
    made, expected = fitted(wide), fitted(narrow)
    check_same(made, expected)
    assert not rule.broken(made.model).any()
    assert made.model.tables["persons"].dataset.project(("a", "b")).values[0, 1] == 0


def test_a_rule_that_counts_rows_of_such_an_attribute_holds():
    sizes = np.ones(100, dtype=int)
    rule = Exactly("persons", "k", (0,), 1)
    made = fitted(widened(households(sizes, {"r": 3, "s": 2}, {"a": 5, "b": 2}, 4), [rule]))
    assert not rule.broken(made.model).any()


def test_tables_of_such_attributes_only():
    parents = LinkedTable(Dataset.from_codes(np.zeros((120, 1), dtype=int), {"year": 1}))
    children = Dataset.from_codes(np.zeros((int(SIZES.sum()), 1), dtype=int), {"k": 1})
    linked = LinkedDataset(
        {"households": parents, "persons": LinkedTable(children, "households", np.repeat(np.arange(120), SIZES), 4)}
    )
    made = fitted(linked)
    assert {name: dict(table.domain) for name, table in made.model.tables.items()} == {
        "households": {"year": 1},
        "persons": {"k": 1},
    }
    assert made.interval(("persons.k",)).low.values.shape == (1,)
    assert all("k" not in entry.label.split(".") for entry in made.ledger)


def test_trees_of_tables():
    visits = LinkedTable(
        Dataset.from_codes([np.arange(300) % 3, np.zeros(300, dtype=int)], {"c": 3, "year": 1}),
        "persons",
        np.arange(300) % int(SIZES.sum()),
        4,
    )
    wide = widened(NARROW)
    made = fitted(replace(wide, tables={**wide.tables, "visits": visits}))
    few = replace(visits, dataset=visits.dataset.select(("c",)))
    expected = fitted(replace(NARROW, tables={**NARROW.tables, "visits": few}))
    for name, table in expected.model.tables.items():
        assert made.model.tables[name].dataset.select(table.domain) == table.dataset
    assert dict(made.model.tables["visits"].domain) == {"c": 3, "year": 1}
