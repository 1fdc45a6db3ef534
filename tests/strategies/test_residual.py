"""Residual strategies: the error they promise, that no other is smaller, and answers against dense least squares."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import QueryError
from pgmest.privacy import AddRemove, Curator, Replace, Rho
from pgmest.privacy.noise import noise_for
from pgmest.strategies import ResidualStrategy, select_strategy
from pgmest.workloads import Item, Workload, all_kway
from tests.privacy.amounts import rho

RHO = Rho(0.5)


@st.composite
def marginal_workloads(draw):
    """A domain of at most 60 cells, and weighted marginals of it."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 2, 3, 5]), min_size=1, max_size=4))
    domain = pg.Domain({f"x{i}": size for i, size in enumerate(sizes)})
    sets = [clique for k in range(len(domain) + 1) for clique in itertools.combinations(domain, k)]
    cliques = draw(st.lists(st.sampled_from(sets), min_size=1, max_size=4))
    weights = [draw(st.sampled_from([1.0, 0.5, 3.0])) for _ in cliques]
    return domain, Workload(tuple(Item(c, weight=w) for c, w in zip(cliques, weights, strict=True)))


def marginal_matrix(domain: pg.Domain, clique: tuple[str, ...]) -> np.ndarray:
    """(cells of the clique, cells of the domain)."""
    matrix = np.ones((1, 1))
    for name, size in domain.items():
        matrix = np.kron(matrix, np.eye(size) if name in clique else np.ones((1, size)))
    return matrix


def weighted_matrix(domain: pg.Domain, workload: Workload) -> np.ndarray:
    return np.concatenate([item.weight * marginal_matrix(domain, domain.ordered(item.clique)) for item in workload])


@settings(max_examples=60, deadline=None)
@given(marginal_workloads())
def test_the_error_attains_the_lower_bound_for_any_mechanism_with_gaussian_noise(case):
    """The bound by singular values (Li, Miklau 2013) is attained, as marginals treat all cells alike."""
    domain, workload = case
    nuclear = np.linalg.svd(weighted_matrix(domain, workload), compute_uv=False).sum()
    bound = nuclear**2 / domain.size() / (2 * RHO.rho)
    found = ResidualStrategy.of(domain, workload).expected_error(RHO, AddRemove())
    assert found == pytest.approx(bound, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(marginal_workloads(), st.sampled_from([AddRemove(), AddRemove(records=3), Replace()]))
def test_the_error_is_that_of_dense_least_squares(case, neighbors):
    domain, workload = case
    strategy = ResidualStrategy.of(domain, workload, neighbors)
    if not strategy.cliques:
        return
    rows = []
    for clique, query, share in zip(strategy.cliques, strategy.queries, strategy.shares, strict=True):
        (part,) = RHO.split([share]) if share == 1 else RHO.split([share, 1 - share])[:1]
        noise = noise_for(part, neighbors, query).stddev
        matrix = marginal_matrix(domain, clique)
        asked = matrix if query is None else query.matrix() @ matrix
        rows.append(np.asarray(asked) / noise)
    stacked = np.concatenate(rows)
    wanted = weighted_matrix(domain, workload)
    if isinstance(neighbors, Replace):  # the total is known: only what is orthogonal to it is estimated
        wanted = wanted - wanted.mean(axis=1, keepdims=True)
    expected = float(np.trace(wanted @ np.linalg.pinv(stacked.T @ stacked, rcond=1e-9) @ wanted.T))
    assert strategy.expected_error(RHO, neighbors) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (10, 10, 10), (30, 2, 5)])
def test_weighted_marginals_of_hdmm_do_not_do_better(sizes):
    domain = pg.Domain({f"x{i}": size for i, size in enumerate(sizes)})
    workload = all_kway(domain, 2)
    ours = ResidualStrategy.of(domain, workload).expected_error(RHO, AddRemove())
    others = [one.expected_error(RHO, AddRemove()) for one in select_strategy(domain, workload, Rho, AddRemove())]
    assert ours <= 0.99 * min(others)


@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
def test_what_a_curator_charges_and_the_promised_error_is_the_average_one(neighbors):
    rng = np.random.default_rng(0)
    domain = pg.Domain({"a": 2, "b": 3, "c": 4})
    data = pg.Dataset.from_codes([rng.integers(size, size=300) for size in domain.shape], domain)
    workload = all_kway(domain, 2)
    strategy = ResidualStrategy.of(domain, workload, neighbors)
    errors = []
    for seed in range(60):
        curator = Curator(data, RHO, neighbors=neighbors, backend="simulation", seed=seed)
        answers = curator.measure_all(
            strategy.cliques, curator.budget, weights=strategy.shares, queries=strategy.queries
        )
        assert rho(curator.remaining) <= 1e-9
        model = strategy.least_squares(domain, answers, curator.public_total)
        errors.append(sum(np.sum((model.project(c).values - data.project(c).values) ** 2) for c in workload.cliques))
    promised = strategy.expected_error(RHO, neighbors)
    assert np.mean(errors) == pytest.approx(promised, rel=4 * float(np.std(errors)) / promised / math.sqrt(60))


def test_three_hundred_attributes_are_planned_at_once():
    domain = pg.Domain({f"x{i}": 10 for i in range(300)})
    strategy = ResidualStrategy.of(domain, all_kway(domain, 2))
    assert len(strategy.cliques) == 1 + 300 + 300 * 299 // 2
    assert sum(strategy.shares) == pytest.approx(1.0)
    pairs = {share for clique, share in strategy.weights.items() if len(clique) == 2}
    assert max(pairs) == pytest.approx(min(pairs))


def test_other_queries_than_marginals_are_refused():
    domain = pg.Domain({"a": 5, "b": 2})
    with pytest.raises(QueryError, match="residuals answer marginals"):
        ResidualStrategy.of(domain, pg.workloads.ranges(domain, ["a"]))
