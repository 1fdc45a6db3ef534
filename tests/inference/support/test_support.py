"""Supports: merged duplicates, and the oracle of a distribution over records against the full joint table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, DataError, ImpossibleModelError, ShapeError
from pgmest.inference.support import record_tables as tables_module
from pgmest.inference.support.record_tables import RecordTables
from pgmest.inference.support.support import record_keys
from pgmest.inference.support.support_oracle import SupportOracle
from pgmest.priors import Support
from pgmest.tables.clique_vector import Layout
from tests.estimation.full_table import marginal_matrix
from tests.priors.records import joint, public_problems

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})


def random_support(records: int = 30, seed: int = 0, domain: pg.Domain = DOMAIN) -> Support:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(size, size=records) for size in domain.shape]
    return Support(pg.Dataset.from_codes(columns, domain, rng.uniform(0.5, 2.0, records)))


def test_duplicates_are_merged_and_their_weights_added():
    data = pg.Dataset.from_codes(np.array([[2, 1], [0, 1], [2, 1], [1, 0]]), {"a": 3, "b": 2}, [1.0, 2.0, 3.0, 0.0])
    support = Support(data)
    assert support.records.codes.tolist() == [[0, 1], [2, 1]]
    assert support.weights.tolist() == [2.0, 4.0]
    assert len(support) == 2
    assert support.total == 6.0


@given(public_problems())
@settings(max_examples=30, deadline=None)
def test_a_support_holds_the_table_of_its_records(problem):
    _, public, _ = problem
    np.testing.assert_allclose(joint(Support(public).records), joint(public))


def test_keys_are_ranked_where_the_joint_table_has_more_cells_than_integers():
    rng = np.random.default_rng(0)
    columns = [rng.integers(2, size=50) * 999_983 for _ in range(12)]
    keys = record_keys(columns, [1_000_000] * 12)
    rows = np.stack(columns, axis=1)
    _, expected = np.unique(rows, axis=0, return_inverse=True)
    _, found = np.unique(keys, return_inverse=True)
    np.testing.assert_array_equal(found, expected.reshape(-1))


def test_wide_codes():
    domain = pg.Domain({"a": 70_000, "b": 300})
    support = Support(pg.Dataset.from_codes(np.array([[69_999, 299], [1, 2]]), domain))
    oracle = SupportOracle(support, Layout.of(domain, [("a",), ("b",)]))
    p, log_partition = oracle.run(np.zeros(70_300))
    assert p[-1] == pytest.approx(0.5)
    assert log_partition == pytest.approx(0.0)


@pytest.mark.parametrize(
    "records",
    [
        pg.Dataset.from_codes(np.zeros((0, 2), dtype=int), {"a": 2, "b": 2}),
        pg.Dataset.from_codes(np.zeros((1, 1), dtype=int), {"a": 2}, [0.0]),
    ],
)
def test_an_empty_support_is_refused(records):
    with pytest.raises(DataError, match="the support is empty: no public record has a positive weight"):
        Support(records)


def test_something_else_than_records_is_refused():
    with pytest.raises(ArgumentError, match="a Dataset of public records"):
        Support(np.zeros((3, 2)))  # type: ignore[arg-type]


def brute_force(support: Support, layout: Layout, theta: np.ndarray):
    """Scores and probabilities of all records, and the marginals, by matrices on the joint table."""
    matrix = np.vstack([marginal_matrix(support.domain, clique) for clique in layout.cliques])
    cells = record_keys(support.records.columns, support.domain.shape)
    scores = theta @ matrix[:, cells]
    logs = scores + np.log(support.weights / support.total)
    p = np.exp(logs - logs.max())
    log_partition = logs.max() + np.log(p.sum())
    return scores, p / p.sum(), log_partition, matrix[:, cells]


CLIQUES = [
    [("a", "b"), ("b", "c")],
    [("c", "a"), ("b",), ("a", "c", "b"), ()],
    [("b", "a"), ("c",), ("a", "c")],
    [()],
]


@pytest.mark.parametrize("cliques", CLIQUES)
@pytest.mark.parametrize("spread", [1.0, 1e4])
@pytest.mark.parametrize("joined", [0, 1 << 14])
def test_the_oracle_against_the_full_table(cliques, spread, joined, monkeypatch):
    monkeypatch.setattr(tables_module, "JOINT_CELLS", joined)
    monkeypatch.setattr(tables_module, "CELLS_PER_RECORD", 100.0)
    support, layout = random_support(), Layout.of(DOMAIN, cliques)
    theta = np.random.default_rng(1).normal(size=layout.cells) * spread
    oracle = SupportOracle(support, layout)
    scores, p, log_partition, matrix = brute_force(support, layout, theta)
    mu, found = oracle.run(theta, total=7.0)
    np.testing.assert_allclose(mu, 7.0 * matrix @ p, atol=1e-10)
    assert found == pytest.approx(log_partition, rel=1e-12)
    np.testing.assert_allclose(oracle.probabilities(theta), p, atol=1e-12)
    assert oracle.maximum(theta) == pytest.approx(scores.max())
    best = np.array([max(scores[row > 0], default=-np.inf) for row in matrix])
    np.testing.assert_allclose(oracle.max_marginals(theta), best)
    assert oracle.calls >= 3


def test_the_covariance_is_the_derivative_of_the_marginals():
    support, layout = random_support(), Layout.of(DOMAIN, [("a", "b"), ("c",)])
    rng = np.random.default_rng(2)
    theta, direction = rng.normal(size=(2, layout.cells))
    oracle = SupportOracle(support, layout)
    oracle.run(theta)
    found = oracle.covariance(direction)
    step = 1e-6
    numeric = (oracle.run(theta + step * direction)[0] - oracle.run(theta - step * direction)[0]) / (2 * step)
    np.testing.assert_allclose(found, numeric, atol=1e-8)


def test_threads_share_the_records():
    support = random_support(100_000, domain=pg.Domain({"a": 50, "b": 40, "c": 60}))
    layout = Layout.of(support.domain, [("a", "b"), ("b", "c")])
    theta = np.random.default_rng(3).normal(size=layout.cells)
    results = []
    for threads in (1, 2):
        pg.set_threads(threads)
        try:
            oracle = SupportOracle(support, layout)
            results.append((*oracle.run(theta), oracle.maximum(theta), oracle.max_marginals(theta)))
        finally:
            pg.set_threads(None)
    assert len(oracle._shares) == 2
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_excluded_records_have_probability_zero_and_excluding_all_is_an_error():
    support, layout = random_support(), Layout.of(DOMAIN, [("a",)])
    oracle = SupportOracle(support, layout)
    p = oracle.run(np.array([-np.inf, 0.0, 0.0]))[0]
    assert p[0] == 0.0
    assert p.sum() == pytest.approx(1.0)
    with pytest.raises(ImpossibleModelError, match="every record of the support"):
        oracle.run(np.full(3, -np.inf))


def test_potentials_of_another_length_are_refused():
    with pytest.raises(ShapeError):
        SupportOracle(random_support(), Layout.of(DOMAIN, [("a",)])).run(np.zeros(4))


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=4, unique=True).map(tuple), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_joined_tables_hold_every_clique(cliques):
    domain = pg.Domain(dict.fromkeys("abcdef", 3))
    layout = Layout.of(domain, cliques)
    tables = RecordTables.of(layout, 10_000)
    assert all(set(c) <= set(tables.hosts[place]) for c, place in zip(layout.cliques, tables.places, strict=True))
    assert all(tuple(sorted(host)) == host for host in tables.hosts)
    theta = np.random.default_rng(0).normal(size=layout.cells)
    joined = pg.CliqueVector.of(tables.joint, tables.join(theta, np.empty(tables.joint.cells)))
    everything = Layout.of(domain, [domain.attributes]).cliques
    expected = pg.CliqueVector.of(layout, theta).expand(everything)
    np.testing.assert_allclose(joined.expand(everything).flat, expected.flat, atol=1e-12)
