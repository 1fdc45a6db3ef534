"""DualQuery's likelihood: against its definition, step by step, and as what an estimate is made from."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import CliqueVector, Dataset, Domain
from pgmest.errors import ArgumentError, ShapeError, UnknownAttributeError
from pgmest.mechanisms.dual_query.likelihood import DualQueryLoss, DualQueryTranscript
from pgmest.simulation import simulate_dual_query

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
CLIQUES = (("a", "b"), ("c", "b"), ("c",))


def random_transcript(rng, eta=0.7, negations=True, steps=37, samples=3, cliques=CLIQUES):
    workload = sum(DOMAIN.size(clique) for clique in cliques) * (2 if negations else 1)
    records = Dataset.from_codes(rng.integers(0, DOMAIN.shape, size=(steps, 3)), DOMAIN)
    return DualQueryTranscript(records, cliques, rng.integers(0, workload, (steps, samples)), eta, 200.0, negations)


def random_marginals(rng, cliques=CLIQUES, total=200.0):
    joint = pg.Factor(DOMAIN, rng.dirichlet(np.ones(DOMAIN.size())).reshape(DOMAIN.shape) * total)
    return CliqueVector(DOMAIN, {clique: joint.project(clique) for clique in cliques}).flat


def naive(transcript, flat):
    """Step after step and query after query, as the mechanism runs."""
    answers = flat / transcript.total
    domain, layout, cells = transcript.domain, transcript.layout, transcript.layout.cells
    codes = np.stack(transcript.records.columns, axis=1)
    value, logits = 0.0, np.zeros(cells)
    for record, queries in zip(codes, transcript.queries, strict=True):
        both = np.concatenate([logits, -logits]) if transcript.negations else logits
        log_probabilities = both - both.max() - math.log(np.sum(np.exp(both - both.max())))
        value -= sum(log_probabilities[query] for query in queries)
        logits = logits + transcript.eta * answers
        for clique, start in zip(layout.cliques, layout.offsets, strict=False):
            table = np.zeros(domain.project(clique).shape)
            table[tuple(record[axis] for axis in domain.axes(clique))] = transcript.eta
            logits[start : start + table.size] -= table.reshape(-1)
    return value


transcripts = st.builds(
    lambda seed, eta, negations: random_transcript(np.random.default_rng(seed), eta, negations),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.01, 0.7, 5.0, 40.0, 900.0]),
    st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(transcript=transcripts, seed=st.integers(0, 2**32 - 1))
def test_the_value_is_that_of_the_definition(transcript, seed):
    flat = random_marginals(np.random.default_rng(seed))
    value, _ = DualQueryLoss(transcript).flat_value_and_gradient(flat)
    assert value == pytest.approx(naive(transcript, flat), rel=1e-11)


@settings(max_examples=30, deadline=None)
@given(transcript=transcripts, seed=st.integers(0, 2**32 - 1))
def test_the_gradient_is_that_of_finite_differences(transcript, seed):
    rng = np.random.default_rng(seed)
    loss, flat = DualQueryLoss(transcript), random_marginals(rng)
    gradient = loss.flat_value_and_gradient(flat)[1]
    direction = rng.normal(size=loss.layout.cells)
    step = 1e-4 / transcript.eta
    up, down = (loss.flat_value_and_gradient(flat + sign * step * direction)[0] for sign in (1, -1))
    assert (up - down) / (2 * step) == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-4 * transcript.eta)


@settings(max_examples=30, deadline=None)
@given(transcript=transcripts, seed=st.integers(0, 2**32 - 1))
def test_it_is_convex_and_its_lipschitz_constant_holds(transcript, seed):
    rng = np.random.default_rng(seed)
    loss, p, q = DualQueryLoss(transcript), random_marginals(rng), random_marginals(rng)
    (at_p, slope_p), (at_q, slope_q) = loss.flat_value_and_gradient(p), loss.flat_value_and_gradient(q)
    for share in (0.1, 0.5, 0.9):
        between, _ = loss.flat_value_and_gradient(share * p + (1 - share) * q)
        assert between <= share * at_p + (1 - share) * at_q + 1e-9 * abs(at_p)
    turn = CliqueVector.of(loss.layout, slope_p - slope_q).expand([DOMAIN.attributes]).flat
    assert loss.smooth
    assert np.abs(turn).max() <= loss.lipschitz * 2 * 200.0  # any two tables of 200 records differ by at most 400


@settings(max_examples=40, deadline=None)
@given(
    eta=st.sampled_from([0.01, 0.7, 5.0, 40.0, 900.0]),
    negations=st.booleans(),
    steps=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_cells_that_no_record_fell_into_count_as_well(eta, negations, steps, seed):
    """Most of them: small answers and large ones, none at all, and some below zero."""
    rng, cliques = np.random.default_rng(seed), (("a", "b"), ("b",))
    records = Dataset.from_codes(rng.integers(0, [30, 2], size=(steps, 2)), {"a": 30, "b": 40})
    queries = rng.integers(0, 1240 * (2 if negations else 1), (steps, 3))
    transcript = DualQueryTranscript(records, cliques, queries, eta, 200.0, negations)
    flat = 200.0 * rng.dirichlet(np.full(1240, 0.1)) * rng.choice([-1, 0, 1, 1, 1], size=1240)
    loss = DualQueryLoss(transcript)
    value, gradient = loss.flat_value_and_gradient(flat)
    assert value == pytest.approx(naive(transcript, flat), rel=1e-11)
    direction = rng.normal(size=1240)
    step = 1e-4 / eta
    after, before = (naive(transcript, flat + sign * step * direction) for sign in (1, -1))
    slope = (after - before) / (2 * step)
    assert slope == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-4 * eta)


def test_two_steps_by_hand():
    records = Dataset.from_codes(np.array([[0], [1]]), {"x": 2})
    for negations, others in ((False, 0.0), (True, math.exp(-2.5 * -0.1) + math.exp(-2.5 * 0.1))):
        transcript = DualQueryTranscript(records, (("x",),), np.array([[1], [0]]), 2.5, 10.0, negations)
        value, _ = DualQueryLoss(transcript).flat_value_and_gradient(np.array([9.0, 1.0]))
        first = math.log(4 if negations else 2)  # no record yet: uniform
        weights = math.exp(2.5 * (0.9 - 1)) + math.exp(2.5 * (0.1 - 0)) + others  # after a record of code 0
        assert value == pytest.approx(first + math.log(weights) - 2.5 * (0.9 - 1))


def test_the_gradient_is_written_where_asked():
    rng = np.random.default_rng(0)
    loss, flat = DualQueryLoss(random_transcript(rng)), random_marginals(rng)
    before, out = flat.copy(), np.full(loss.layout.cells, np.nan)
    assert loss.flat_value_and_gradient(flat, out)[1] is out
    np.testing.assert_array_equal(out, loss.flat_value_and_gradient(flat)[1])
    np.testing.assert_array_equal(flat, before)


def test_epsilon_bounds_the_change_of_the_likelihood_by_one_record():
    rng = np.random.default_rng(1)
    transcript = random_transcript(rng)
    assert transcript.epsilon == pytest.approx(0.7 * 37 * 36 * 3 / 200)
    loss = DualQueryLoss(transcript)
    ways = []
    for here, there in itertools.product(itertools.product(range(3), range(2), range(4)), repeat=2):
        tables = [np.full(DOMAIN.shape, 8.0) for _ in range(2)]
        tables[0][here] += 8.0
        tables[1][there] += 1.0
        tables[1][here] += 7.0
        values = [
            loss.value(CliqueVector(DOMAIN, {c: pg.Factor(DOMAIN, table).project(c) for c in CLIQUES}))
            for table in tables
        ]
        ways.append(abs(values[0] - values[1]))
    assert 0 < max(ways) <= transcript.epsilon


# -- simulated runs, and estimates from them ----------------------------------------------------------------------


def skewed_records(rng, records=2000):
    joint = rng.dirichlet(np.full(DOMAIN.size(), 0.4))
    cells = rng.choice(DOMAIN.size(), size=records, p=joint)
    return Dataset.from_codes(np.stack(np.unravel_index(cells, DOMAIN.shape), axis=1), DOMAIN)


def workload_error(estimate, data):
    """The mean over cliques of the total variation distance, both taken as fractions."""
    errors = []
    for clique in CLIQUES:
        truth, other = data.project(clique).values, estimate.project(clique).values
        errors.append(0.5 * np.abs(truth / truth.sum() - other / other.sum()).sum())
    return np.mean(errors)


@pytest.mark.parametrize("negations", [True, False])
def test_an_estimate_is_closer_to_the_truth_than_the_records_of_dual_query(negations):
    gains = []
    for seed in range(4):
        data = skewed_records(np.random.default_rng(seed))
        transcript = simulate_dual_query(data, CLIQUES, steps=40, samples=30, eta=0.4, negations=negations, seed=seed)
        loss = DualQueryLoss(transcript)
        model = pg.estimate([], DOMAIN, total=transcript.total, loss=loss, tolerance=1e-5)
        assert model.report.converged
        at_truth = loss.value(CliqueVector(DOMAIN, {c: data.project(c) for c in CLIQUES}))
        assert model.report.loss <= at_truth
        gains.append(workload_error(model, data) / workload_error(transcript.records, data))
    assert max(gains) < 1
    assert np.mean(gains) < 0.7


def test_each_simulated_record_is_the_best_for_its_queries():
    transcript = simulate_dual_query(
        skewed_records(np.random.default_rng(3)), CLIQUES, steps=12, samples=5, eta=1.0, seed=3
    )
    cells = transcript.layout.cells
    for queries, record in zip(transcript.queries, np.stack(transcript.records.columns, axis=1), strict=True):

        def answer(candidate, queries=queries):
            one = Dataset.from_codes(np.array([candidate]), DOMAIN)
            flat = np.concatenate([one.project(clique).datavector() for clique in CLIQUES])
            return sum(flat[query] if query < cells else -flat[query - cells] for query in queries)

        best = max(map(answer, itertools.product(range(3), range(2), range(4))))
        assert answer(record) == best


def test_simulation_follows_its_seed_and_refuses_large_domains():
    data = skewed_records(np.random.default_rng(0))
    first, second = (simulate_dual_query(data, CLIQUES, steps=5, samples=4, eta=1.0, seed=7) for _ in range(2))
    np.testing.assert_array_equal(first.queries, second.queries)
    large = Dataset.from_codes(np.zeros((1, 2), dtype=int), {"a": 1000, "b": 1001})
    with pytest.raises(ArgumentError) as error:
        simulate_dual_query(large, [("a",)], steps=1, samples=1, eta=1.0)
    assert str(error.value) == ("data has 1,001,000 possible records, too many to try them all: use at most 1,000,000.")


# -- what is refused ------------------------------------------------------------------------------------------------

RECORDS = Dataset.from_codes(np.zeros((2, 3), dtype=int), DOMAIN)


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"eta": 0.0}, ArgumentError, "eta=0.0 is not valid: it must be a positive number."),
        ({"eta": math.inf}, ArgumentError, "eta=inf is not valid: it must be a positive number."),
        ({"total": -5}, ArgumentError, "total=-5 is not valid: it must be a positive number."),
        (
            {"cliques": ()},
            ArgumentError,
            "cliques=() is not valid: it must be at least one clique, and each set of attributes once.",
        ),
        (
            {"cliques": (("a", "b"), ("b", "a"))},
            ArgumentError,
            "cliques=(('a', 'b'), ('b', 'a')) is not valid: it must be at least one clique, and each set of attributes "
            "once.",
        ),
        (
            {"queries": np.zeros((3, 2), int)},
            ShapeError,
            "queries: expected shape (2, samples), got (3, 2). Give one row of sampled queries for each record.",
        ),
        (
            {"queries": np.zeros((2, 0), int)},
            ShapeError,
            "queries: expected shape (2, samples), got (2, 0). Give one row of sampled queries for each record.",
        ),
        (
            {"queries": np.full((2, 2), 36)},
            ArgumentError,
            "queries must be integers in 0..35: the workload has 18 cells and as many negations.",
        ),
        (
            {"queries": np.full((2, 2), 18), "negations": False},
            ArgumentError,
            "queries must be integers in 0..17: the workload has 18 cells and no negations.",
        ),
        (
            {"queries": np.full((2, 2), 0.5)},
            ArgumentError,
            "queries must be integers in 0..35: the workload has 18 cells and as many negations.",
        ),
    ],
)
def test_a_transcript_that_cannot_be_is_refused(changes, kind, text):
    arguments = {"records": RECORDS, "cliques": CLIQUES, "queries": np.zeros((2, 4), int), "eta": 1.0, "total": 10}
    with pytest.raises(kind) as error:
        DualQueryTranscript(**(arguments | changes))
    assert str(error.value) == text


def test_a_transcript_keeps_its_queries_from_change():
    queries = np.zeros((2, 4), int)
    transcript = DualQueryTranscript(RECORDS, CLIQUES, queries, 1.0, 10)
    queries[0, 0] = 5
    assert transcript.queries[0, 0] == 0
    assert not transcript.queries.flags.writeable
    assert transcript.workload == 36
    with pytest.raises(UnknownAttributeError, match="'z' is not an attribute"):
        DualQueryTranscript(RECORDS, (("z",),), queries, 1.0, 10)
