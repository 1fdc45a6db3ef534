"""Impossible combinations of linked tables: in households, in persons, and between both."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import Exactly, Impossible
from pgmest.errors import SchemaError
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.search import FamilySearch
from pgmest.mechanisms.linked.trees import family_table
from pgmest.mechanisms.linked.zeros import family_zeros
from pgmest.schema import LinkedSchema
from tests.mechanisms.linked.examples import households, random_families, random_table
from tests.mechanisms.linked.test_search import targets_of

RULES = (
    Impossible("persons", "a", (0, 1), above=(("r", (1,)),)),
    Impossible("persons", "a", (2,), beside=(("b", (0,)),), sizes=(1, 2)),
    Exactly("persons", "b", (1,), 1),
)
PARENT_ZEROS = {("r", "d"): np.array([[False, True, False], [False, False, True]])}
CHILD_ZEROS = {("b", "a"): np.array([[True, False, False, False], [False, False, False, True]])}


def tables(sizes: list[int], seed: int = 0) -> LinkedDataset:
    """Return households with random codes that keep nothing."""
    linked = households(sizes, {"r": 2, "d": 3}, {"a": 4, "b": 2}, 4, RULES, seed)
    held = {"households": PARENT_ZEROS, "persons": CHILD_ZEROS}
    found = {name: replace(table, structural_zeros=held[name]) for name, table in linked.tables.items()}
    return LinkedDataset(found, linked.rules)


def impossible(linked: LinkedDataset) -> list[int]:
    """Return how many rows of each table have an impossible combination, and how many households break each rule."""
    found = []
    for table in linked.tables.values():
        for clique, mask in table.structural_zeros.items():
            found.append(int(mask[tuple(table.dataset.column(name) for name in clique)].sum()))
    return [*found, *(int(rule.broken(linked).sum()) for rule in linked.rules)]


def test_broken_combinations_are_those_of_brute_force() -> None:
    linked = tables([0, 1, 2, 3, 4] * 8)
    families = family_table(linked, "persons")
    above, persons = linked.tables["households"].dataset.codes, linked.tables["persons"].dataset.codes
    sizes, rows = linked.sizes("persons"), linked.link("persons")[1]
    first = np.array([above[h, 0] == 1 and a in (0, 1) for h, (a, _) in zip(rows, persons, strict=True)])
    second = np.array([sizes[h] in (1, 2) and a == 2 and b == 0 for h, (a, b) in zip(rows, persons, strict=True)])
    inside = np.array([CHILD_ZEROS["b", "a"][b, a] for a, b in persons])
    for rule, broken in zip(RULES, (first, second), strict=False):
        assert np.array_equal(np.flatnonzero(rule.broken(linked)), np.unique(rows[broken]))
    counts = np.bincount(rows[persons[:, 1] == 1], minlength=len(linked)) != 1
    known = FamilyRules.of(linked.rules, families.layout, family_zeros(linked, families.layout))
    wanted = counts.copy()
    wanted[rows[first | second | inside]] = True
    assert np.array_equal(known.broken(families), wanted)


def test_the_search_makes_nothing_impossible() -> None:
    generator = np.random.default_rng(1)
    families = random_families(generator, 300, 4)
    layout = families.layout
    zeros = {
        (layout.members[0], layout.members[1]): np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], dtype=bool),
        (layout.parents[0], layout.members[0]): np.array([[1, 0, 0, 0], [0, 0, 1, 0]], dtype=bool),
    }
    known = FamilyRules.of((), layout, zeros)
    assert known.broken(families).mean() > 0.5
    repaired = known.repaired(families, generator)
    assert not known.broken(repaired).any()
    search = FamilySearch.of(repaired, targets_of(random_families(generator, 300, 4)), known, generator)
    before = search.distance
    made = search.run(2, 5)
    assert search.distance < before
    assert not known.broken(made).any()


def test_families_that_cannot_be_repaired_become_others_with_their_parent() -> None:
    families = random_families(np.random.default_rng(1), 100, 4)
    layout = families.layout
    zeros = {(layout.parents[0], layout.members[0]): np.array([[1, 1, 1, 0], [0, 0, 0, 0]], dtype=bool)}
    known = FamilyRules.of((), layout, zeros)
    repaired = known.repaired(families, np.random.default_rng(0))
    assert not known.broken(repaired).any()
    assert len(repaired.sizes) == 100
    assert (repaired.parents[repaired.sizes > 0, 0] == 1).all()


@pytest.mark.parametrize("epsilon", [0.3, 10.0])
def test_nothing_impossible_is_drawn(epsilon: float) -> None:
    linked = tables([0, 1, 2, 3, 4] * 20)
    result = LinkedLAMP(epsilon=epsilon, backend="simulation").fit(linked, seed=0, progress=False)
    sample = result.sample(seed=0)
    assert sum(impossible(linked)) > 50
    assert impossible(replace(sample, tables={**with_zeros(sample, linked)})) == [0] * 5
    for clique, mask in PARENT_ZEROS.items():
        table = result.project([f"households.{name}" for name in clique])
        assert not table.values[mask].any()


def with_zeros(sample: LinkedDataset, linked: LinkedDataset) -> dict:
    return {n: replace(t, structural_zeros=linked.tables[n].structural_zeros) for n, t in sample.tables.items()}


SCHEMA = """
tables:
  homes:
    key: hid
    columns:
      tenure: {type: categorical, values: [rent, own], outside: clip}
      region: {type: categorical, values: [N, S], outside: clip}
      size: {type: count, of: persons}
  persons:
    parent: homes
    key: hid
    at_most: 3
    columns:
      role: {type: categorical, values: [head, child], outside: clip}
      region: {type: categorical, values: [N, S], outside: clip}
      age: {type: integer, min: 0, max: 99, width: 10}
    within:
"""


def test_a_schema_states_what_cannot_occur_between_tables() -> None:
    schema = LinkedSchema.parse(
        SCHEMA + "      - impossible: {size: 1, role: child}\n"
        "      - impossible: {tenure: own, persons.region: S, age: {max: 9}}\n"
    )
    assert schema.rules == (
        Impossible("persons", "role", (1,), sizes=(1,)),
        Impossible("persons", "region", (1,), beside=(("age", (0,)),), above=(("tenure", (1,)),)),
    )
    homes = pd.DataFrame({"hid": [1, 2], "tenure": "own", "region": "N", "size": [1, 2]})
    persons = pd.DataFrame({"hid": [1, 2, 2], "role": "child", "region": ["N", "S", "N"], "age": [3, 4, 50]})
    check = schema.check({"homes": homes, "persons": persons})
    assert [rule.broken for rule in check.rules[:2]] == [1, 1]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{tenure: own}", "must name a column of 'persons'"),
        ("{region: N, role: child}", "which both tables have: write persons.region or homes.region"),
        ("{place: N, role: child}", r"no attribute of the table or of its parent \(.*homes.size"),
        ("{role: aunt, size: 1}", "aunt"),
        ("{role: child, size: 7}", "7"),
    ],
)
def test_rules_that_name_nothing_are_refused(rule: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        LinkedSchema.parse(f"{SCHEMA}      - impossible: {rule}\n")


def test_exchanges_leave_the_distance_that_a_recount_finds() -> None:
    generator = np.random.default_rng(0)
    layout = random_families(generator, 1, 3).layout
    for size, codes in itertools.product((1, 2, 3), range(3)):
        children = generator.integers(2, size=(12 * size, 2))
        children[:, 0] = np.minimum(children[:, 0], codes)
        parents = np.column_stack([generator.integers(2, size=(12, 2)), np.full(12, size)])
        families = Families(layout, parents, children)
        targets = targets_of(random_families(generator, 12, 3))
        search = FamilySearch.of(families, targets, FamilyRules.of((), layout), generator)
        for _ in range(3):
            before = search.distance
            search._exchange()
            again = FamilySearch.of(search.families, targets, search.rules, generator)
            assert search.distance == pytest.approx(again.distance)
            assert search.distance <= before + 1e-9


def test_rules_between_tables_hold_in_trees_of_tables() -> None:
    generator = np.random.default_rng(0)
    linked = households([3, 0, 1, 2] * 25, {"r": 2}, {"a": 4, "b": 2}, 3)
    rows = np.repeat(np.arange(linked.tables["persons"].rows), 2)
    trips = LinkedTable(random_table(len(rows), {"c": 3}, generator), "persons", rows, 2)
    dogs = LinkedTable(random_table(100, {"c": 3}, generator), "households", np.arange(100), 1)
    rules = (
        Impossible("trips", "c", (0, 1), above=(("a", (0, 2)),)),
        Impossible("dogs", "c", (1, 2), above=(("r", (1,)),)),
    )
    whole = LinkedDataset({**linked.tables, "trips": trips, "dogs": dogs}, rules)
    sample = LinkedLAMP(epsilon=0.5, backend="simulation").fit(whole, seed=0, progress=False).sample(seed=0)
    assert [int(rule.broken(whole).sum()) > 0 for rule in rules] == [True, True]
    assert [int(rule.broken(sample).sum()) for rule in rules] == [0, 0]
