"""DualQuery on the workload's own queries: reach, draws, likelihood and records against brute force."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from scipy.stats import chisquare

import pgmest as pg
from pgmest import queries
from pgmest.errors import ArgumentError, QueryError
from pgmest.mechanisms import DualQuery
from pgmest.mechanisms.dual_query.best_record_of_tables import best_record_of_tables
from pgmest.mechanisms.dual_query.game import Game
from pgmest.mechanisms.dual_query.likelihood import DualQueryLoss, DualQueryTranscript
from pgmest.mechanisms.dual_query.query_rows import QueryRows
from pgmest.mechanisms.dual_query.workload_rows import WorkloadRows
from pgmest.mechanisms.notices import UnusedWorkloadWarning
from pgmest.privacy import AddRemove, Replace, exponential
from pgmest.workloads import Item, Workload

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})
POSSIBLE = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1).T
PREFIXES = pg.workloads.prefixes(DOMAIN, [("b", "a"), ("a", "c"), ("b",)], ["a", "c"])
SIGNED = Workload(
    (
        Item(("c", "a"), pg.Kron({"a": queries.haar(3), "c": [[0.3, -0.7, 0.0, 0.1], [5.0, 5.0, 5.0, 5.0]]})),
        Item(("b", "a"), sparse.csr_array([[0, 0, 0, 0, 0, 99.0], [1, 0, 0, 0, 0, 0]])),
        Item(("a",), [[0.0, 0.0, 0.0]]),
        Item(("c", "b")),
    )
)
WORKLOADS = {"prefixes": PREFIXES, "signed": SIGNED, "cells": pg.workloads.all_kway(DOMAIN, 2)}


def dataset(codes):
    return pg.Dataset.from_codes(np.asarray(codes).reshape(-1, 3), DOMAIN)


def drawn(count, seed=0):
    rng = np.random.default_rng(seed)
    cells = rng.choice(DOMAIN.size(), size=count, p=rng.dirichlet(np.full(DOMAIN.size(), 0.4)))
    return dataset(POSSIBLE[cells])


def dense_rows(rows):
    """The whole matrix of the queries by possible record, from each query's own dense matrix."""
    parts = []
    for clique, query in zip(rows.cliques, rows.matrices or [None] * len(rows.cliques), strict=True):
        marginal = rows.domain.project(clique)
        matrix = np.eye(marginal.size()) if query is None else query.in_order(clique).matrix()
        codes = POSSIBLE[:, [DOMAIN.attributes.index(name) for name in clique]]
        parts.append(matrix[:, np.ravel_multi_index(tuple(codes.T), marginal.shape)])
    return np.concatenate(parts)


@pytest.mark.parametrize("name", WORKLOADS)
def test_scaled_queries_are_those_of_the_workload(name):
    found = WorkloadRows.of(DOMAIN, WORKLOADS[name])
    scaled = []
    for item in WORKLOADS[name]:
        matrix = np.eye(DOMAIN.size(item.clique)) if item.query is None else item.query.in_order(item.clique).matrix()
        if matrix.any():
            scaled.append(matrix / np.abs(matrix).max())
    truth = [query.in_order(clique).matrix() if query is not None else np.eye(DOMAIN.size(clique))
             for clique, query in zip(found.rows.cliques, found.rows.matrices or [None] * 9, strict=False)]  # fmt: skip
    for made, wanted in zip(truth, scaled[::-1], strict=True):
        np.testing.assert_allclose(made, wanted, atol=2**-11)
        np.testing.assert_array_equal(made * found.units, np.rint(made * found.units))
        assert np.abs(made).max() == 1.0


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace(), AddRemove(records=3)])
def test_no_neighbor_moves_an_answer_by_more_than_the_reach(name, neighbors):
    found = WorkloadRows.of(DOMAIN, WORKLOADS[name])
    matrix = dense_rows(found.rows)
    if isinstance(neighbors, Replace):
        moved = max(np.abs(matrix[:, [one]] - matrix).max() for one in range(matrix.shape[1]))
    else:
        moved = np.abs(matrix).max()
    reach = found.reach(neighbors) / found.units
    assert moved * neighbors.records <= reach
    assert reach == neighbors.records * {("signed", Replace): 2}.get((name, type(neighbors)), 1)


@pytest.mark.parametrize("name", WORKLOADS)
def test_queries_are_drawn_with_the_probabilities_of_the_likelihood(name):
    found, data = WorkloadRows.of(DOMAIN, WORKLOADS[name]), drawn(500)
    rows = found.rows
    game = Game(rows, eta=1.5, total=500.0, steps=10, units=found.units)
    for code in range(3):
        game.play(np.zeros(4, int), {"a": code, "b": 1, "c": 0})
    places = exponential.draw(game.exponents()(data), game.unit_power, 20_000, random.Random(0).randrange)
    truth = pg.CliqueVector(DOMAIN, {clique: data.project(clique) for clique in rows.layout.cliques})
    records = dataset([[0, 1, 0], [1, 1, 0], [2, 1, 0], [0, 0, 0]])
    losses = []
    for query in range(2 * rows.count):
        sampled = np.array([[0] * 4, [0] * 4, [0] * 4, [query] * 4])
        transcript = DualQueryTranscript(records, rows.cliques, sampled, 1.5, 500.0, matrices=rows.matrices)
        losses.append(DualQueryLoss(transcript).value(truth))
    probabilities = np.exp((min(losses) - np.array(losses)) / 4)
    matrix = dense_rows(rows)
    answers = matrix @ data.project(DOMAIN.attributes).datavector() / 500
    taken = sum(matrix[:, np.flatnonzero(np.all(np.array([code, 1, 0]) == POSSIBLE, axis=1))[0]] for code in range(3))
    logits = 1.5 * (3 * answers - taken)
    expected = np.exp(np.concatenate([logits, -logits]))
    np.testing.assert_allclose(probabilities / probabilities.sum(), expected / expected.sum(), rtol=1e-9)
    counts = np.bincount(places, minlength=2 * rows.count)
    assert chisquare(counts, 20_000 * expected / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize("name", ["prefixes", "signed"])
@pytest.mark.parametrize("negations", [True, False])
def test_the_gradient_is_that_of_finite_differences_and_the_loss_is_convex(name, negations):
    rng, rows = np.random.default_rng(3), WorkloadRows.of(DOMAIN, WORKLOADS[name]).rows
    sampled = rng.integers(0, rows.count * (2 if negations else 1), (17, 3))
    transcript = DualQueryTranscript(drawn(17), rows.cliques, sampled, 0.7, 200.0, negations, rows.matrices)
    loss, points = DualQueryLoss(transcript), []
    for _ in range(2):
        joint = pg.Factor(DOMAIN, 200 * rng.dirichlet(np.ones(DOMAIN.size())).reshape(DOMAIN.shape))
        points.append(np.concatenate([joint.project(clique).datavector() for clique in rows.layout.cliques]))
    (at_p, slope_p), (at_q, slope_q) = (loss.flat_value_and_gradient(point) for point in points)
    assert loss.flat_value_and_gradient((points[0] + points[1]) / 2)[0] <= (at_p + at_q) / 2 + 1e-9
    direction = rng.normal(size=len(points[0]))
    up, down = (loss.flat_value_and_gradient(points[0] + sign * 1e-4 * direction)[0] for sign in (1, -1))
    assert (up - down) / 2e-4 == pytest.approx(slope_p @ direction, rel=1e-5, abs=1e-6)
    turn = pg.CliqueVector.of(loss.layout, slope_p - slope_q).expand([DOMAIN.attributes]).flat
    assert np.abs(turn).max() <= loss.lipschitz * 400


@pytest.mark.parametrize("name", ["prefixes", "signed"])
def test_the_epsilon_of_a_transcript_bounds_the_likelihood_of_neighbors(name):
    rows, rng = WorkloadRows.of(DOMAIN, WORKLOADS[name]).rows, np.random.default_rng(0)
    transcript = DualQueryTranscript(
        drawn(9), rows.cliques, rng.integers(0, 2 * rows.count, (9, 2)), 0.9, 50.0, matrices=rows.matrices
    )
    loss, others = DualQueryLoss(transcript), drawn(49, seed=1)
    values = []
    for record in POSSIBLE:
        data = dataset(np.vstack([np.stack(others.columns, axis=1), record]))
        values.append(loss.value(pg.CliqueVector(DOMAIN, {c: data.project(c) for c in rows.layout.cliques})))
    assert 0 < max(values) - min(values) <= transcript.epsilon


tables = st.lists(
    st.tuples(st.sampled_from([("a",), ("b", "a"), ("c", "a"), ("c", "b"), ("a", "b", "c")]), st.integers(0, 99)),
    min_size=1, max_size=4, unique_by=lambda pair: frozenset(pair[0]),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(tables, st.integers(0, 3))
def test_the_best_record_is_the_best_of_all(chosen, seed):
    found = {}
    for clique, number in chosen:
        found[clique] = np.random.default_rng(number).integers(-3, 4, DOMAIN.project(clique).shape).astype(float)

    def total(codes):
        record = dict(zip(DOMAIN, codes, strict=True))
        return sum(table[tuple(record[name] for name in clique)] for clique, table in found.items())

    rng, best = np.random.default_rng(seed), max(map(total, POSSIBLE))
    record, proven = best_record_of_tables(DOMAIN, found, rng, max_megabytes=1.0)
    assert proven
    assert total(record.values()) == pytest.approx(best)
    record, proven = best_record_of_tables(DOMAIN, found, rng, max_megabytes=1e-9)
    assert not proven
    changes = [dict(record) | {name: code} for name in DOMAIN for code in range(DOMAIN[name])]
    assert total(record.values()) >= max(total(change.values()) for change in changes) - 1e-6


def test_ties_between_records_are_drawn():
    flat = {("a",): np.zeros(3) + 1.0}
    records = [best_record_of_tables(DOMAIN, flat, np.random.default_rng(seed), 1.0)[0] for seed in range(40)]
    assert {(one["a"], one["b"]) for one in records} == set(itertools.product(range(3), range(2)))


@pytest.mark.parametrize("estimator", ["original", "pgm"])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
@pytest.mark.parametrize("name", ["prefixes", "signed"])
def test_runs_on_own_queries_spend_the_whole_budget(name, neighbors, estimator):
    mechanism = DualQuery(rho=0.1, samples=20, steps=6, backend="simulation", neighbors=neighbors, estimator=estimator)
    result = mechanism.fit(drawn(3000), WORKLOADS[name], seed=0, progress=False)
    assert result.ledger.total <= result.ledger.budget
    assert result.ledger.remaining / result.ledger.budget < 1e-6
    assert result.details["greedy_records"] == 0
    assert result.details["transcript"].workload == 2 * WorkloadRows.of(DOMAIN, WORKLOADS[name]).rows.count


def test_own_queries_are_answered_better_than_through_cells():
    """With many prefixes and few samples, the game on prefixes sees where the records are wrong at once."""
    rng = np.random.default_rng(0)
    codes = np.clip(rng.normal(30, 12, (4000, 2)), 0, 63).astype(int)
    data = pg.Dataset.from_codes(codes, {"x": 64, "y": 64})
    prefixes = pg.workloads.prefixes(data.domain, [("x",), ("y",)], ["x", "y"])
    truth = np.concatenate(prefixes.answer(data))

    def error(workload, seed):
        made = DualQuery(rho=0.05, samples=20, backend="simulation", estimator="original")
        answers = np.concatenate(prefixes.answer(made.fit(data, workload, seed=seed, progress=False)))
        return np.abs(answers - truth).mean()

    own, cells = (np.mean([error(one, seed) for seed in range(3)]) for one in (prefixes, [("x",), ("y",)]))
    assert own < cells / 2


def test_a_run_can_be_repeated_and_counts_queries_in_their_order():
    made = DualQuery(rho=0.1, samples=9, steps=4, backend="simulation", estimator="original")
    first, second = (made.fit(drawn(500), SIGNED, seed=5, progress=False).details["transcript"] for _ in range(2))
    np.testing.assert_array_equal(first.queries, second.queries)
    np.testing.assert_array_equal(first.records.columns, second.records.columns)


def test_identities_are_cells():
    cells = Workload((Item(("b", "a"), pg.Kron({"a": queries.identity(3), "b": queries.identity(2)})),))
    assert WorkloadRows.of(DOMAIN, cells).rows.cells_only
    assert WorkloadRows.of(DOMAIN, None).rows.count == 6 + 12 + 8


def test_weights_have_no_effect_and_a_warning_says_so():
    made = DualQuery(rho=0.1, samples=9, steps=3, backend="simulation", estimator="original")
    weighted = Workload((Item("a", queries.prefix(3)), Item("c", weight=2.0)))
    with pytest.warns(UnusedWorkloadWarning, match="uses the queries of a workload only"):
        first = made.fit(drawn(500), weighted, seed=0, progress=False)
    second = made.fit(drawn(500), Workload((Item("a", queries.prefix(3)), Item("c"))), seed=0, progress=False)
    np.testing.assert_array_equal(*(one.details["transcript"].queries for one in (first, second)))


@pytest.mark.parametrize(
    ("item", "error", "text"),
    [
        (Item(("a", "b", "c"), np.zeros((2, 24))), ArgumentError, "no query that is not zero"),
        (Item("a", aslinearoperator(np.ones((2, 3)))), QueryError, "its matrix, dense or sparse"),
        (Item("a", np.full((2**21 + 1, 3), 1.0)), ArgumentError, "queries at most"),
    ],
    ids=["zeros", "operator", "too many"],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_spent(item, error, text):
    charged = []
    made = DualQuery(rho=0.1, steps=3, backend="simulation", estimator="original")
    with pytest.raises(error, match=text):
        made.fit(drawn(50), Workload((item,)), seed=0, progress=charged.append)
    assert not charged


@pytest.mark.parametrize("scale", [1e-300, 1e300, 3.0])
def test_the_scale_of_a_query_does_not_matter(scale):
    made = WorkloadRows.of(DOMAIN, Workload((Item("a", scale * np.array([[1.0, 0.5, 0.0]])),)))
    np.testing.assert_array_equal(made.rows.matrices[0].matrix(), [[1.0, 0.5, 0.0]])


def test_transcripts_refuse_entries_above_one_and_missing_matrices():
    arguments = drawn(1), (("a",),), np.zeros((1, 1), int), 1.0, 10.0
    with pytest.raises(ArgumentError, match="divide each matrix by its largest entry"):
        DualQueryTranscript(*arguments, matrices=(queries.as_query([[2.0, 0.0, 0.0]]),))
    with pytest.raises(ArgumentError, match="for each of 1 cliques"):
        DualQueryTranscript(*arguments, matrices=())
    with pytest.raises(QueryError):
        QueryRows(DOMAIN, (("a",),), (queries.prefix(4),))


def test_huge_counts_saturate_instead_of_overflowing():
    data = dataset([[0, 0, 0]] * 1000)
    counts = exponential.CountExponents((("b",),), 2**59, np.zeros(2, np.int64), (None,))(data)
    assert counts[0] == counts.max() == -counts.min() > 2**60


def test_exponents_that_exceed_64_bits_are_refused():
    rows = WorkloadRows.of(DOMAIN, Workload((Item("b", [[0.3, 1.0]]),)))
    assert Game(rows.rows, eta=1.0, total=1e9, steps=100, units=rows.units).rate > 1
    with pytest.raises(ArgumentError, match="exponents for 1e\\+15 records and 100 steps exceed 64 bits"):
        Game(rows.rows, eta=1.0, total=1e15, steps=100, units=rows.units)
