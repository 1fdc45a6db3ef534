"""LAMP on attributes with hierarchies: the order of the tree, groups along branches, and counts of all levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import zeros
from pgmest.mechanisms.lamp.answers import RangeAnswers
from pgmest.mechanisms.lamp.candidates import NoiseModel
from pgmest.mechanisms.lamp.evidence import evidence_of
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.initial_measurements import InitialMeasurements
from pgmest.mechanisms.lamp.one_way import OneWayEstimate
from pgmest.mechanisms.lamp.rounds import Rounds
from pgmest.mechanisms.lamp.tree_counts import (
    TreeAnswers,
    level_parts,
    levels_together,
    measured_levels,
)
from pgmest.mechanisms.lamp.tree_order import TreeOrder
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand

BLOCK = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 4])
CHAPTER = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
MIXED = np.array([0, 5, 9, 1, 6, 2, 7, 10, 4, 3, 8, 11])
"""A code book in which the values of a branch are no neighbors; in the order of its tree it is BLOCK."""
PLACE = np.argsort(MIXED)


def records(seed: int = 0, count: int = 3000) -> pg.Dataset:
    """Return records of codes in the order of their tree."""
    rng = np.random.default_rng(seed)
    code = rng.choice(12, count, p=np.arange(12, 0, -1) / 78)
    sex = (rng.random(count) < (0.2 + 0.3 * CHAPTER[code])).astype(int)
    stay = (BLOCK[code] + rng.integers(3, size=count)) % 4
    tree = pg.Hierarchy("code", {"chapter": CHAPTER, "block": BLOCK})
    return pg.Dataset.from_codes([code, sex, stay], pg.Domain({"code": 12, "sex": 2, "stay": 4}).with_hierarchies(tree))


def mixed(data: pg.Dataset) -> pg.Dataset:
    """Return the same records with the codes of the mixed code book."""
    tree = pg.Hierarchy("code", {"chapter": CHAPTER[PLACE], "block": BLOCK[PLACE]})
    domain = pg.Domain(dict(data.domain)).with_hierarchies(tree)
    return pg.Dataset.from_codes([MIXED[data.column("code")], *data.columns[1:]], domain)


def test_the_order_of_the_mixed_code_book_is_that_of_the_tree():
    order = TreeOrder.of(mixed(records()).domain)
    assert order.orders["code"].tolist() == MIXED.tolist()
    assert order.ordered.hierarchies["code"].levels["block"].tolist() == BLOCK.tolist()
    assert TreeOrder.of(records().domain).orders == {}


@pytest.mark.parametrize("workload", [None, [("code@block", "stay"), ("code@chapter", "sex")]])
def test_levels_that_a_workload_asks_for_are_branches_in_the_order_of_the_tree(workload):
    data = mixed(records(count=300))
    curator = TreeOrder.of(data.domain).curator(pg.privacy.Curator(data, pg.privacy.Rho(1.0), backend="simulation"))
    demand = Rounds.start(pg.mechanisms.LAMP(rho=1.0, backend="simulation"), curator, workload).demand
    asked = [item.factors["code"] for item in (*demand.items, *demand.at_levels) if "code" in item.factors]
    assert asked
    assert all((np.count_nonzero(np.diff(rows, axis=1), axis=1) <= 2).all() for rows in asked)


def _plain() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    return None, {}, {}


def _zeros() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return two rules that no record breaks, for the first code book and for the mixed one."""
    possible = records().project(("code", "stay")).values > 0
    found = []
    for table in (possible, possible[PLACE]):
        found.append({"structural_zeros": [zeros.only(("code", "stay"), table)]})
    return None, found[0], found[1]


def _public() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    public = records(seed=5)
    return None, {"prior": public}, {"prior": mixed(public)}


def _invariant() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    counts = records().project(("code",)).values
    found = [pg.LinearMeasurement.exact(table, ("code",)) for table in (counts, counts[PLACE])]
    return None, {"invariants": [found[0]]}, {"invariants": [found[1]]}


def _workload() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    return [("code@block", "stay"), ("code", "sex")], {}, {}


@pytest.mark.parametrize("epsilon", [0.3, 10.0])
@pytest.mark.parametrize("known", [_plain, _zeros, _public, _invariant, _workload])
def test_results_do_not_depend_on_the_order_of_the_code_book(known, epsilon):
    workload, options, others = known()
    data, made = records(), []
    for own, given_options in ((data, options), (mixed(data), others)):
        run = pg.mechanisms.LAMP(epsilon=epsilon, delta=1e-9, backend="simulation", records=3000, **given_options)
        made.append(run.fit(own, workload, seed=1, progress=False))
    first, second = made
    for clique in (("code", "stay"), ("code", "sex")):
        off = first.project(clique).values - second.project(clique).values[MIXED]
        assert np.abs(off).sum() < 0.03 * data.records  # rounding errors may decide between equally good shares
    for result, own in ((first, data), (second, mixed(data))):
        for one in result.measurements:
            off = one.values - one.answer(own.project(one.clique))
            assert np.abs(off).max() < 6 * float(np.max(one.stddev))
        low, high = result.interval("code@chapter")
        assert (low.values <= high.values).all()


def test_details_name_the_branches_whose_codes_cannot_be_distinguished():
    tree = pg.Hierarchy("code", {"block": ["B", "A"] * 6})
    data = pg.Dataset.from_codes([np.r_[np.zeros(3000, int), np.arange(12)]], pg.Domain({"code": 12}))
    data = pg.Dataset(data.domain.with_hierarchies(tree), data.columns, data.records)
    run = pg.mechanisms.LAMP(epsilon=0.1, delta=1e-9, backend="simulation", records=3000)
    details = [run.fit(data, [("code",)], seed=seed, progress=False).details["not_distinguished"] for seed in range(8)]
    assert all("B" not in found["code"] for found in details)
    assert any(found["code"] == ("A",) for found in details)


def test_invariants_about_branches_are_answers_about_the_codes():
    data = mixed(records())
    chapters = pg.LinearMeasurement.exact(data.project("code@chapter").values, ("code@chapter",))
    options: dict[str, Any] = {"backend": "simulation", "invariants": [chapters]}
    curator = TreeOrder.of(data.domain).curator(pg.privacy.Curator(data, pg.privacy.Rho(1e-4), seed=0, **options))
    (known,) = curator.known_branches
    assert known.query.matrices[0].groups.tolist() == CHAPTER.tolist()
    curator.measure_all([("code",)], curator.budget, weights=[1.0], queries=[None])
    found = evidence_of(curator).counts("code")
    assert np.allclose(np.bincount(CHAPTER, found), chapters.values, atol=1)
    result = pg.mechanisms.LAMP(epsilon=1.0, delta=1e-9, **options).fit(data, seed=0, progress=False)
    assert np.allclose(result.project("code@chapter").values, chapters.values)


def test_interrupted_runs_have_the_codes_of_the_domain():
    data, seen = mixed(records()), []

    def stop(curator: Any) -> None:
        seen.append(curator)
        if len(seen) == 6:
            raise KeyboardInterrupt

    run = pg.mechanisms.LAMP(epsilon=10.0, delta=1e-9, backend="simulation", records=3000)
    result = run.fit(data, seed=0, progress=stop)
    assert result.interrupted
    assert np.abs(result.project("code").values - data.project("code").values).max() < 60


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(0, 50)), min_size=2, max_size=30))
def test_groups_never_straddle_branches(entries):
    entries = sorted(entries, key=lambda entry: entry[:2])
    chapter = np.unique([entry[0] for entry in entries], return_inverse=True)[1]
    block = np.unique([4 * entry[0] + entry[1] for entry in entries], return_inverse=True)[1]
    levels = nested_groups(np.array([entry[2] for entry in entries]), [chapter, block])
    for labels in levels:
        for branches in (chapter, block):
            for group in range(int(labels[-1]) + 1):
                inside = branches[labels == group]
                whole = all((labels[branches == branch] == group).all() for branch in set(inside.tolist()))
                assert whole or len(set(inside.tolist())) == 1
    assert levels[-1].tolist() == list(range(len(entries)))


def _answers(counts: np.ndarray, levels: list[np.ndarray], stddev: float, seed: int) -> list[RangeAnswers]:
    rng, found = np.random.default_rng(seed), []
    for labels in levels:
        matrix = (np.arange(int(labels[-1]) + 1)[:, None] == labels).astype(float)
        found.append(RangeAnswers(matrix, matrix @ counts + rng.normal(0, stddev, len(matrix)), stddev**2))
    return found


@pytest.mark.parametrize("stddev", [2.0, 20.0, 100.0])
def test_answers_about_branches_help_at_every_level(stddev):
    rng = np.random.default_rng(0)
    block = np.sort(np.r_[np.arange(30), rng.integers(30, size=270)])
    chapter = block // 5
    shares = 1 / np.arange(1, 301) ** 1.1
    counts = rng.permutation(np.round(8000 * shares / shares.sum()))
    off: dict[str, list[list[float]]] = {"tree": [], "codes": []}
    for seed in range(5):
        noisy = counts + np.random.default_rng(seed + 10).normal(0, stddev, 300)
        groups = _answers(counts, [chapter, block], stddev, seed)
        tree = TreeAnswers(noisy, stddev**2, groups, [chapter, block], counts.sum()).counts
        codes = OneWayEstimate.of(noisy, stddev, counts.sum()).counts
        for name, found in (("tree", tree), ("codes", codes)):
            levels = [chapter, block, np.arange(300)]
            off[name].append([float(np.abs(np.bincount(labels, found - counts)).sum()) for labels in levels])
    ratios = np.mean(off["tree"], axis=0) / np.mean(off["codes"], axis=0)
    assert ratios[0] < 0.6
    assert ratios[1] < 0.85
    assert ratios[2] < 1.03


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12),
    st.floats(1e-3, 1e5),
    st.floats(1.0, 1e7),
    st.booleans(),
)
def test_counts_are_positive_and_sum_to_the_total(values, stddev, total, public):
    labels = np.arange(len(values)) // 3
    groups = _answers(np.array(values), [labels], stddev, 0)
    found = TreeAnswers(np.array(values), stddev**2, groups, [labels], total, np.ones(len(values)) if public else None)
    assert (found.counts > 0).all()
    assert found.counts.sum() == pytest.approx(total)
    assert np.linalg.eigvalsh(found.covariance).min() > -1e-6 * np.abs(found.covariance).max() - 1e-9


def test_codes_without_a_signal_share_their_block_evenly_or_as_a_public_table_says():
    labels, noisy = np.repeat([0, 1], 20), np.random.default_rng(0).normal(10, 100, 40)
    groups = [RangeAnswers(np.eye(2)[labels].T, np.array([300.0, 100.0]), 1.0)]
    found = TreeAnswers(noisy, 1e4, groups, [labels], 400.0)
    assert not found.distinguished.any()
    assert np.allclose(found.counts, np.repeat([15, 5], 20), rtol=0.02)
    public = np.tile(np.r_[np.full(10, 9.0), np.full(10, 1.0)], 2)
    noisy = np.r_[300 * public[:20] / 100, 100 * public[20:] / 100] + np.random.default_rng(4).normal(0, 3, 40)
    told = TreeAnswers(noisy, 25.0, groups, [labels], 400.0, public)
    assert not told.distinguished.any()
    assert TreeAnswers(noisy, 25.0, groups, [labels], 400.0).distinguished[0]
    assert np.allclose(told.counts, np.r_[300 * public[:20] / 100, 100 * public[20:] / 100], rtol=0.02)


def test_levels_with_nearly_as_many_groups_as_the_next_are_not_measured():
    assert [int(labels[-1]) + 1 for labels in measured_levels([CHAPTER, BLOCK], 12)] == [5, 12]
    halves = np.arange(12) // 2
    assert [int(labels[-1]) + 1 for labels in measured_levels([CHAPTER, halves], 12)] == [3, 6, 12]
    assert measured_levels([], 12) == []


@pytest.mark.parametrize("groups", [(1,), (7,), (1, 2), (1, 600), (1, 2, 4, 8), (300, 600)])
def test_shares_of_levels_are_positive_for_any_tree(groups: tuple[int, ...]):
    levels = [np.sort(np.arange(groups[-1]) % count) for count in groups]
    for power in (1.0, 2.0):
        parts = level_parts(levels, power)
        assert np.isfinite(parts).all()
        assert parts.min() > 0
        assert parts.sum() == pytest.approx(1)
        assert parts[-1] == parts.max()
        assert levels_together(levels, power).shape == (groups[-1], sum(groups))


def test_codes_and_branches_have_equal_shares():
    domain = records().domain
    first = InitialMeasurements.of(domain, WorkloadDemand.of(domain, None), NoiseModel(1.0, 1.0), 0.1, True)
    asked = {
        12 if query is None else query.rows: share for clique, query, share in first.measurements() if "code" in clique
    }
    assert len(asked) == 2
    assert asked[12] == pytest.approx(sum(asked.values()) / 2)


@pytest.mark.parametrize("known", [("code@block",), ("code@block", "sex")])
def test_nothing_is_spent_on_levels_that_invariants_hold(known: tuple[str, ...]):
    data = mixed(records())
    exact = pg.LinearMeasurement.exact(data.project(known).values, known)
    run = pg.mechanisms.LAMP(epsilon=1.0, delta=1e-9, backend="simulation", invariants=[exact], records=3000)
    result = run.fit(data, seed=0, progress=False)
    asked = [one.groups for one in result.details["measured_marginals"] if one.clique == ("code",)]
    assert asked
    assert set(asked) == {(12,)}
    assert np.allclose(result.project(("code@block",)).values, data.project(("code@block",)).values)
    curator = TreeOrder.of(data.domain).curator(
        pg.privacy.Curator(data, pg.privacy.Rho(1e-4), backend="simulation", invariants=[exact])
    )
    assert any(one.rows == 5 for one in curator.known_branches)


def test_nothing_is_spent_on_levels_of_one_group_or_of_single_codes():
    """Dates of one year have one group at that level, and codes of three characters are their own prefixes of three."""
    codes, plain, charges = records().codes, pg.Domain(dict(records().domain)), []
    inner = {"chapter": CHAPTER}
    for levels in (inner, {"all": np.zeros(12, dtype=int), **inner, "code": np.arange(12)}, {"all": ["x"] * 12}, {}):
        trees = [pg.Hierarchy("code", levels)] if levels else []
        data = pg.Dataset.from_codes(codes, plain.with_hierarchies(*trees))
        run = pg.mechanisms.LAMP(rho=0.5, backend="simulation", neighbors=pg.privacy.Replace())
        result = run.fit(data, seed=0, progress=False)
        charges.append([(entry.label, entry.cost) for entry in result.ledger.entries])
        assert set(result.details.get("not_distinguished", {})) <= ({"code"} if "chapter" in levels else set())
    assert charges[0] == charges[1]
    assert charges[2] == charges[3]
    assert charges[0] != charges[2]


def test_a_tree_takes_no_budget_from_others_but_for_counts_of_branches():
    data = records()
    plain = pg.Domain(dict(data.domain))
    noise, shares = NoiseModel(1.0, 1.0), {}
    for name, domain in (("plain", plain), ("tree", data.domain)):
        demand = WorkloadDemand.of(domain, None)
        first = InitialMeasurements.of(domain, demand, noise, 0.1, True).measurements()
        shares[name] = {(clique, 12 if query is None else query.rows): share for clique, query, share in first}
        assert [item.factors for item in demand.items] == [{}] * 3
    assert sum(shares["tree"].values()) == pytest.approx(0.1)
    ratios = {key: shares["tree"][key] / share for key, share in shares["plain"].items()}
    assert np.ptp(list(ratios.values())) < 1e-9
    code = shares["plain"][("code",), 12] / 0.1
    assert min(ratios.values()) == pytest.approx(1 / (1 + code))  # the counts of branches cost as much as the codes


@settings(max_examples=10)
@given(st.integers(2, 40), st.floats(0.1, 100.0), st.integers(0, 10**6))
def test_a_tree_that_says_nothing_about_the_counts_does_little_harm(codes: int, stddev: float, seed: int):
    rng = np.random.default_rng(seed)
    counts = np.round(rng.gamma(0.7, 60, codes)) + 1
    labels = np.sort(rng.integers(max(1, codes // 5), size=codes))
    labels = np.unique(labels, return_inverse=True)[1]
    noisy = counts + rng.normal(0, stddev, (4, codes))
    off: dict[str, float] = {"tree": 0.0, "plain": 0.0}
    for own in noisy:
        tree = TreeAnswers(own, stddev**2, _answers(counts, [labels], stddev, seed), [labels], counts.sum()).counts
        off["tree"] += float(np.square(tree - counts).sum())
        off["plain"] += float(np.square(OneWayEstimate.of(own, stddev, counts.sum()).counts - counts).sum())
    assert off["tree"] < 1.5 * off["plain"] + 8 * stddev**2
