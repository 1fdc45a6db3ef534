"""Structural zeros in LAMP, against the joint table of all attributes."""

from __future__ import annotations

from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import zeros
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.synthesis.local_search import Descent, ForbiddenCells, TargetTable
from tests.mechanisms.presence import households, questionnaire

DOMAIN = pg.Domain({"a": 3, "b": 4, "c": 2, "d": 5})


def random_rules(rng):
    """Return rules on random pairs, under which the record of codes 0 is possible."""
    rules = []
    for pair in combinations(DOMAIN, 2):
        if rng.random() < 0.5:
            mask = rng.random(DOMAIN.project(pair).shape) < 0.4
            mask[0, 0] = False
            rules.append(zeros.impossible(pair, mask))
    return rules


def possible_records(rules):
    """Return a boolean table over all attributes, False for impossible records."""
    codes = np.indices(DOMAIN.shape)
    broken = [rule.mask(DOMAIN)[tuple(codes[DOMAIN.axes((n,))[0]] for n in rule.attributes)] for rule in rules]
    return ~reduce(np.logical_or, broken, np.zeros(DOMAIN.shape, dtype=bool))


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_implied_tables_exclude_what_cannot_occur_and_agree_with_each_other(seed):
    rng = np.random.default_rng(seed)
    rules = random_rules(rng)
    possible = PossibleCells.of(DOMAIN, rules, 8.0)
    if possible is None:
        assert not rules
        return
    records = possible_records(rules)
    true = np.where(records, rng.exponential(100.0, DOMAIN.shape), 0.0)
    counts = {
        name: true.sum(axis=tuple(axis for axis in range(4) if axis != DOMAIN.axes((name,))[0])) for name in DOMAIN
    }
    total = float(true.sum())
    counts = {name: np.maximum(values, 1e-6 * total) for name, values in counts.items()}
    tied = possible.tables(counts, {name: (values, 5.0) for name, values in counts.items()}, total)
    for pair in combinations([name for name in DOMAIN if tied.holds(name)], 2):
        others = tuple(axis for axis in range(4) if DOMAIN.attributes[axis] not in pair)
        table = tied.table(pair)
        assert not table[~records.any(axis=others)].any()
        assert table.sum() == pytest.approx(total)
        for axis, name in enumerate(pair):
            assert table.sum(axis=1 - axis) == pytest.approx(tied.table((name,)), abs=1e-6 * total)
            assert tied.table((name,)) == pytest.approx(counts[name], abs=0.02 * total)


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_groups_are_divided_where_the_zeros_change(seed):
    rng = np.random.default_rng(seed)
    rules = [*random_rules(rng), zeros.impossible("d", [4])]
    possible = PossibleCells.of(DOMAIN, rules, 8.0)
    assert possible is not None
    groups = possible.refined({name: np.zeros(size, dtype=np.int64) for name, size in DOMAIN.items()})
    coarse = pg.Domain({name: int(labels[-1]) + 1 for name, labels in groups.items()})
    over = possible.over_groups(groups, coarse)
    for clique, factor in possible.potentials.items():
        assert np.array_equal(over[clique].values[np.ix_(*(groups[name] for name in clique))], factor.values)


@pytest.mark.parametrize("asked", ["triples", "ranges", "a biased public table"])
def test_every_kind_of_run_keeps_the_rules(asked):
    data, rules = questionnaire(500)
    rng = np.random.default_rng(0)
    mask = np.zeros((7, 4, 8), dtype=bool)
    mask[:2, 2] = mask[6, 3] = True
    rules = [*rules, zeros.impossible(("age", "status", "years"), mask), zeros.impossible("region", [5])]
    workload = {
        "triples": list(combinations(data.domain.attributes[:5], 3)),
        "ranges": pg.workloads.prefixes(data.domain, [("age", "years"), ("age", "industry")], ["years", "industry"]),
    }.get(asked)
    prior = pg.Dataset.from_codes([rng.integers(0, size, 200) for size in data.domain.shape], data.domain)
    mechanism = pg.mechanisms.LAMP(
        epsilon=3.0,
        records=1000,
        max_megabytes=0.3,
        backend="simulation",
        structural_zeros=rules,
        prior=prior if asked == "a biased public table" else None,
    )
    records = mechanism.fit(data, workload, seed=0).sample(seed=0)
    for rule in rules:
        names = data.domain.clique(rule.attributes)
        assert not rule.mask(data.domain)[tuple(records.column(name) for name in names)].any()


def test_rules_that_no_tree_holds_are_kept_by_the_records():
    data, rules = households(800, 3)
    large = zeros.impossible(data.domain.attributes[:4], np.zeros((3, 5, 5, 4), dtype=bool))
    possible = PossibleCells.of(data.domain, [*rules, large], 0.001)
    assert possible is not None
    assert possible.others
    mechanism = pg.mechanisms.LAMP(
        epsilon=1.0, records=2000, max_megabytes=0.001, backend="simulation", structural_zeros=[*rules, large]
    )
    result = mechanism.fit(data, seed=0)
    assert result.details["structural_zeros"].startswith("honored")
    assert result.details["rejected_zeros"] == tuple(map(repr, possible.others))


def test_no_change_enters_a_forbidden_cell():
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, size, 500) for size in DOMAIN.shape], axis=1).astype(np.uint16)
    mask = np.zeros((3, 4), dtype=bool)
    mask[1, 2:] = True
    rows[mask[rows[:, 0], rows[:, 1]], 1] = 0
    goals = [TargetTable(("a", "b"), np.where(mask, 100.0, 10.0)), TargetTable(("b", "d"), np.full((4, 5), 25.0))]
    Descent.of(free := rows.copy(), DOMAIN, goals).sweep(free, np.arange(500))
    Descent.of(rows, DOMAIN, [*goals, ForbiddenCells(("a", "b"), mask)]).sweep(rows, np.arange(500))
    assert mask[free[:, 0], free[:, 1]].any()
    assert not mask[rows[:, 0], rows[:, 1]].any()
