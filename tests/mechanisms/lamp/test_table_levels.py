"""Pairs measured over groups of codes and over branches of trees: least squares, and the parts of a share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.mechanisms.lamp.answers import Answer
from pgmest.mechanisms.lamp.evidence import with_coarser
from pgmest.mechanisms.lamp.groups import ranges_of_branches
from pgmest.mechanisms.lamp.table_levels import measured_together
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.tables.groups import summed
from tests.mechanisms.lamp.test_trees import records

FINEST = np.arange(8), np.arange(4)
MIDDLE = np.repeat(np.arange(4), 2), np.arange(4)
COARSE = np.repeat(np.arange(2), 4), np.repeat(np.arange(2), 2)
CLIQUE = ("a", "b")


def _centered(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()


def _answers(
    seed: int, variances: tuple[float, float, float]
) -> tuple[np.ndarray, Answer, list[np.ndarray], list[np.ndarray]]:
    """Return an expected table, the answer with coarser ones, and the dense queries and the answers of each level."""
    generator = np.random.default_rng(seed)
    expected = generator.gamma(2.0, 50.0, (8, 4))
    answers, queries, values = [], [], []
    for groups, variance in zip((FINEST, MIDDLE, COARSE), variances, strict=True):
        rows, columns = (np.eye(labels[-1] + 1)[labels].T for labels in groups)
        queries.append(np.kron(rows, columns))
        counts = summed(expected, groups)
        values.append(counts + _centered(generator.normal(0, 20, counts.shape)))
        answers.append(Answer(CLIQUE, groups, (None, None), values[-1], variance))
    return expected, with_coarser(answers)[0], queries, [counts.reshape(-1) for counts in values]


@given(st.integers(0, 10_000), st.tuples(*[st.sampled_from([0.5, 4.0, 300.0])] * 3))
def test_tables_are_those_of_least_squares_with_all_answers(seed: int, variances: tuple[float, float, float]):
    expected, answer, queries, values = _answers(seed, variances)
    assert len(answer.coarser) == 2
    precision = sum(query.T @ query / variance for query, variance in zip(queries, variances, strict=True))
    weighted = sum(q.T @ y / variance for q, y, variance in zip(queries, values, variances, strict=True))
    np.testing.assert_allclose(answer.table(expected).reshape(-1), np.linalg.solve(precision, weighted), rtol=1e-8)


@given(st.integers(0, 10_000), st.tuples(*[st.sampled_from([0.5, 4.0, 300.0])] * 3))
def test_rates_add_up_to_the_variances_of_least_squares(seed: int, variances: tuple[float, float, float]):
    expected, answer, queries, _ = _answers(seed, variances)
    precision = np.zeros((32, 32))
    for query, variance, rate, groups in zip(
        queries, variances, answer.rates(expected), (FINEST, MIDDLE, COARSE), strict=True
    ):
        precision += query.T @ query / variance
        known = np.diag(query @ np.linalg.inv(precision) @ query.T)
        np.testing.assert_allclose(summed(rate, groups).reshape(-1), known, rtol=1e-8)


def test_answers_that_are_no_unions_stay_apart():
    across = Answer(CLIQUE, (np.repeat(np.arange(3), [3, 3, 2]), np.arange(4)), (None, None), np.ones((3, 4)), 1.0)
    fine = Answer(CLIQUE, MIDDLE, (None, None), np.ones((4, 4)), 1.0)
    assert [(len(one.groups[0]), one.shape, one.coarser) for one in with_coarser([across, fine])] == [
        (8, (4, 4), ()),
        (8, (3, 4), ()),
    ]


@pytest.mark.parametrize(("workload", "split"), [(None, True), (["code", "sex"], False)])
def test_a_share_is_divided_among_the_levels_that_are_asked_for(workload: list[str] | None, split: bool):
    domain = records().domain
    demand = WorkloadDemand.of(domain, None if workload is None else [tuple(workload)])
    trees = [ranges_of_branches(domain, name) for name in ("code", "sex")]
    groups = [np.arange(12), np.arange(2)]
    found = measured_together(groups, trees, demand.by_level(("code", "sex")), ("code", "sex"), 1.0)
    assert sum(part for _, part in found) == pytest.approx(1.0)
    assert [labels.tolist() for labels in found[-1][0]] == [labels.tolist() for labels in groups]
    assert (len(found) > 1) == split
    assert found[-1][1] > 0.5


def test_a_pair_is_measured_at_several_levels_within_the_budget():
    result = pg.mechanisms.LAMP(rho=2.0, backend="simulation").fit(records(), seed=0, progress=False)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    shapes = {m.values.size for m in result.measurements if set(m.clique) == {"code", "sex"}}
    assert len(shapes) > 1
