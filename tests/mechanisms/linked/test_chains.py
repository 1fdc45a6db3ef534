"""Chains: children of ordered families that follow one another as the tables say."""

from __future__ import annotations

import numpy as np

from pgmest.mechanisms.linked.chains import Chains
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.search import FamilySearch
from pgmest.tables.domain import Domain
from tests.mechanisms.linked.test_search import targets_of

SIZE = 5


def walks(count: int, rising: bool) -> Families:
    """Return families of five children: a code that mostly stays or grows by one, from 0 on, and a constant."""
    generator = np.random.default_rng(0)
    steps = generator.random((count, 6)) < 0.4
    steps[:, 0] = generator.random(count) < 0.1
    codes = np.minimum(steps.cumsum(axis=1), SIZE - 1)
    layout = Layout(Domain({}), Domain({"a": SIZE, "b": 1}), ("patients", "visits"), 6, True, "a" if rising else None)
    children = np.column_stack([codes.ravel(), np.zeros(codes.size, dtype=np.int64)])
    return Families(layout, np.full((count, 1), 6), children)


def transitions(families: Families) -> np.ndarray:
    codes = families.children[:, 0].reshape(-1, 6)
    return np.stack([np.bincount(codes[:, t] * SIZE + codes[:, t + 1], minlength=SIZE**2) for t in range(5)]).sum(0)


def test_chains_have_the_transitions_and_the_first_children_of_the_tables() -> None:
    for rising in (False, True):
        true = walks(3000, rising)
        generator = np.random.default_rng(1)
        mixed = Families(true.layout, true.parents, generator.permutation(true.children))
        counts = {
            name: true.tables((name,), [np.arange(true.layout.domain[name])])[1]
            for name in (*true.layout.members, *true.layout.others)
        }
        made = Chains.of(true.layout, targets_of(true), counts).drawn(mixed, generator)
        assert 0.5 * np.abs(transitions(mixed) - transitions(true)).sum() / transitions(true).sum() > 0.4
        assert 0.5 * np.abs(transitions(made) - transitions(true)).sum() / transitions(true).sum() < 0.12
        first = [np.bincount(one.children[::6, 0], minlength=SIZE) for one in (true, made)]
        assert np.abs(first[0] - first[1]).sum() < 0.05 * len(true.sizes)
        rules = FamilyRules.of((), true.layout)
        search = FamilySearch.of(rules.repaired(made, generator), targets_of(true), rules, generator)
        found = search.run(2, 4)
        assert 0.5 * np.abs(transitions(found) - transitions(true)).sum() / transitions(true).sum() < 0.03
        assert not rising or (np.diff(found.children[:, 0].reshape(-1, 6), axis=1) >= 0).all()
