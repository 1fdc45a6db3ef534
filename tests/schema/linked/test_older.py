"""Numbers that are drawn so that everybody who must be older is, in every household."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.schema import LinkedSchema

CHAIN = """
tables:
  households: {key: hid}
  persons:
    parent: households
    key: hid
    at_most: 9
    columns:
      role: {type: categorical, values: [grandparent, parent, child, lodger], outside: clip}
      age: {type: TYPE, missing: true}
    within:
      - older: {role: [parent], than: {role: child}, by: 12, column: age}
      - older: {role: grandparent, than: {role: [parent]}, by: 15.5, column: age}
"""
TYPES = {
    "integer": "integer, min: 0, max: 99, width: 5",
    "real": "real, min: 0, max: 100, bins: 20",
    "decimals": "real, min: 0, max: 100, bins: 20, decimals: 1",
}


def linked_of(schema, rows):
    persons = Dataset.from_codes(
        np.array([row[:2] for row in rows], int).reshape(-1, 2), schema.parts["persons"].schema.domain
    )
    parents = LinkedTable(Dataset.from_codes(np.empty((3, 0)), {}))
    child = LinkedTable(persons, "households", np.array([row[2] for row in rows], int), 9)
    return LinkedDataset({"households": parents, "persons": child}, schema.rules)


def keeps(persons):
    for _, one in persons.dropna().groupby("hid"):
        ages = {role: one.loc[one["role"] == role, "age"] for role in ("grandparent", "parent", "child")}
        for (above, below), by in ((("parent", "child"), 12), (("grandparent", "parent"), 15.5)):
            if len(ages[above]) and len(ages[below]) and ages[above].min() - ages[below].max() < by - 1e-9:
                return False
    return True


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(TYPES)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 2)), max_size=9),
)
def test_all_who_can_be_older_are(kind, rows):
    schema = LinkedSchema.parse(CHAIN.replace("TYPE", TYPES[kind]))
    linked = linked_of(schema, rows)
    assume(not any(rule.broken(linked).any() for rule in linked.rules))
    persons = schema.decode(linked, seed=0)["persons"]
    assert keeps(persons)
    bins = [
        (grand, young)
        for (g, grand, a), (c, young, b) in itertools.product(rows, rows)
        if a == b and (g, c) == (0, 2) and 20 not in (grand, young)
    ]
    if all(5 * grand - 5 * young >= 30 for grand, young in bins):  # far apart, so that those between fit, too
        found = schema.encode({"persons": persons}).tables["persons"].dataset
        assert found == linked.in_order().tables["persons"].dataset


def test_bins_without_a_solution_are_left_for_values_that_keep_the_rules():
    schema = LinkedSchema.parse(
        CHAIN.replace("TYPE", TYPES["integer"]).replace("15.5", "13").replace("by: 12", "by: 13")
    )
    rows = [(0, 7, 0), (1, 5, 0), (2, 3, 0)]  # 35..39, 25..29 and 15..19: each pair fits, all three do not
    linked = linked_of(schema, rows)
    assert not any(rule.broken(linked).any() for rule in linked.rules)
    ages = schema.decode(linked, seed=0)["persons"]["age"].tolist()
    assert ages[0] - ages[1] >= 13
    assert ages[1] - ages[2] >= 13


def test_ages_are_uniform_among_those_that_keep_the_rule():
    schema = LinkedSchema.parse(CHAIN.replace("TYPE", TYPES["integer"]))
    made = Dataset.from_codes(np.tile([[1, 3], [2, 0]], (4000, 1)), schema.parts["persons"].schema.domain)
    parents = LinkedTable(Dataset.from_codes(np.empty((4000, 0)), {}))
    linked = LinkedDataset(
        {"households": parents, "persons": LinkedTable(made, "households", np.repeat(range(4000), 2), 9)}
    )
    persons = schema.decode(linked, seed=0)["persons"]
    pairs = pd.crosstab(
        persons.loc[persons["role"] == "parent", "age"].to_numpy(),
        persons.loc[persons["role"] == "child", "age"].to_numpy(),
    )
    possible = [(a, b) for a in range(15, 20) for b in range(5) if a - b >= 12]
    counts = np.array([pairs.loc[a, b] for a, b in possible])
    assert counts.sum() == 4000
    assert ((counts - 4000 / len(possible)) ** 2 / (4000 / len(possible))).sum() < 50  # chi square of 22 degrees


@pytest.mark.parametrize("by", [30, -5])
def test_many_persons_are_placed_at_once(by):
    schema = LinkedSchema.parse(CHAIN.replace("TYPE", TYPES["integer"]).replace("by: 12", f"by: {by}"))
    rows = [(1, 10, 0)] * 4 + [(2, 4, 0)] * 5
    ages = schema.decode(linked_of(schema, rows), seed=0)["persons"]["age"].to_numpy(float)
    assert ages[:4].min() - ages[4:].max() >= by
    assert (ages // 5).astype(int).tolist() == [row[1] for row in rows]
