"""The published mechanisms beside brute force on tables small enough to write down (experiments, PGM section 4)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import pgmest as pg
from experiments.pgm_icml2019.problem import Problem
from experiments.pgm_icml2019.published import dual_query, hdmm, mwem, privbayes
from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.clique_vector import CliqueVector
from pgmest.workloads import prefixes
from tests.privacy.amounts import epsilon

DOMAIN = pg.Domain({"a": 3, "b": 4, "c": 2, "d": 3})
TRIPLES = (("a", "b", "c"), ("b", "c", "d"))
RECORDS = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1).T
"""All possible records, row-major."""


@pytest.fixture(scope="module")
def small() -> Problem:
    """Two triples of four attributes, b asked for by prefixes, 300 skewed records."""
    generator = np.random.default_rng(0)
    codes = RECORDS[generator.choice(len(RECORDS), 300, p=generator.dirichlet(np.full(len(RECORDS), 0.3)))]
    data = pg.Dataset.from_codes(codes, DOMAIN)
    tree = JunctionTree.from_cliques(DOMAIN, TRIPLES)
    return Problem("small", DOMAIN, ("b",), prefixes(DOMAIN, TRIPLES, ("b",)), int(tree.total_cells), lambda: data)


def workload_matrix(problem: Problem) -> np.ndarray:
    """Every query of the workload about the joint table, from its definition in words."""
    rows = []
    for item in problem.workload:
        axes = DOMAIN.axes(item.clique)
        for values in itertools.product(*(range(DOMAIN[name]) for name in item.clique)):
            inside = np.ones(len(RECORDS))
            for axis, name, value in zip(axes, item.clique, values, strict=True):
                codes = RECORDS[:, axis]
                inside *= codes <= value if name in problem.numeric else codes == value
            rows.append(inside)
    return np.array(rows)


def joint_table(problem: Problem) -> np.ndarray:
    return problem.data.project(DOMAIN.attributes).datavector()


def test_the_error_is_the_papers_formula(small):
    matrix, table = workload_matrix(small), joint_table(small)
    assert np.concatenate(small.truth) == pytest.approx(matrix @ table)
    uniform = np.full(len(table), table.sum() / len(table))
    halves = np.split(matrix, [24])
    expected = np.mean([np.abs(w @ (table - uniform)).sum() / (2 * np.abs(w @ table).sum()) for w in halves])
    assert small.uniform_error == pytest.approx(expected)


# -- HDMM --------------------------------------------------------------------------------------------------------------


def test_hdmm_measures_products_of_norm_one_with_the_papers_noise(small):
    spent = 0.0
    for measurement in hdmm.measure(small, 0.5, seed=0):
        assert np.abs(measurement.query.matrix()).sum(axis=0) == pytest.approx(1.0)
        spent += 2.0 / (measurement.stddev / math.sqrt(2))
        assert measurement.stddev == pytest.approx(2 * len(TRIPLES) / 0.5 * math.sqrt(2))
    assert spent == pytest.approx(0.5)


def test_local_least_squares_is_the_pseudo_inverse_of_each_triple(small):
    measured = hdmm.measure(small, 1.0, seed=1)
    for mine, item, measurement in zip(
        hdmm.local_least_squares(small, measured), small.workload, measured, strict=True
    ):
        cells = np.linalg.lstsq(measurement.query.matrix(), measurement.values.reshape(-1), rcond=None)[0]
        assert mine == pytest.approx(item.query.matrix() @ cells)


def test_global_least_squares_is_least_squares_on_the_joint_table(small):
    measured = hdmm.measure(small, 1.0, seed=2)
    stacked = np.concatenate([m.query.matrix() @ marginal_matrix(m.clique) / m.stddev for m in measured])
    values = np.concatenate([m.values.reshape(-1) / m.stddev for m in measured])
    table = np.linalg.lstsq(stacked, values, rcond=None)[0]
    model = hdmm.global_least_squares(small, measured)
    for clique in TRIPLES:
        assert model.project(clique).datavector() == pytest.approx(marginal_matrix(clique) @ table, abs=1e-6)


def marginal_matrix(clique: tuple[str, ...]) -> np.ndarray:
    axes = DOMAIN.axes(clique)
    rows = np.ravel_multi_index([RECORDS[:, axis] for axis in axes], [DOMAIN.shape[axis] for axis in axes])
    matrix = np.zeros((DOMAIN.size(clique), len(RECORDS)))
    matrix[rows, np.arange(len(RECORDS))] = 1.0
    return matrix


# -- MWEM --------------------------------------------------------------------------------------------------------------


def test_each_number_names_the_query_of_that_row(small):
    matrix = workload_matrix(small)
    for index, row in enumerate(matrix):
        query = mwem.query_at(small, index)
        answer = query.kron(DOMAIN).answer(pg.Factor(DOMAIN.project(query.clique), (marginal_matrix(query.clique) @ (
            np.arange(len(RECORDS)) + 1.0)).reshape(DOMAIN.project(query.clique).shape)), query.clique)  # fmt: skip
        assert answer.item() == pytest.approx(row @ (np.arange(len(RECORDS)) + 1.0))
    with pytest.raises(IndexError):
        mwem.query_at(small, len(matrix))


def test_replayed_updates_are_equation_2_on_the_joint_table(small):
    matrix, generator = workload_matrix(small), np.random.default_rng(0)
    weights = mwem.FactoredWeights(DOMAIN, 300.0, replays=7)
    p, chosen, values = np.full(len(RECORDS), 300.0 / len(RECORDS)), [], []
    for index in (3, 30, 17):
        chosen.append(index)
        values.append(float(generator.uniform(0, 300)))
        assert weights.learn([mwem.query_at(small, place) for place in chosen], values, 1.0)
        for _ in range(7):
            for place, value in zip(chosen, values, strict=True):
                p = p * np.exp(-matrix[place] * (matrix[place] @ p - value) / (2 * 300))
                p *= 300 / p.sum()
        for clique in TRIPLES:
            assert weights.project(clique).datavector() == pytest.approx(marginal_matrix(clique) @ p)


def test_all_updates_at_once_are_e_2_on_the_joint_table(small):
    matrix, generator = workload_matrix(small), np.random.default_rng(0)
    weights = mwem.WeightsAtOnce(DOMAIN, 300.0, replays=7)
    chosen = [3, 30, 17, 30]
    values = [float(generator.uniform(0, 300)) for _ in chosen]
    weights.learn([mwem.query_at(small, place) for place in chosen], values, 1.0)
    p = np.full(len(RECORDS), 300.0 / len(RECORDS))
    for _ in range(7):
        p = p * np.exp(-matrix[chosen].T @ (matrix[chosen] @ p - values) / (2 * 300))
        p *= 300 / p.sum()
    for clique in TRIPLES:
        assert weights.model.project(clique).datavector() == pytest.approx(marginal_matrix(clique) @ p)


def test_a_table_too_large_ends_plain_mwem_and_not_pgm(small):
    plain = mwem.mwem(small, mwem.FactoredWeights(DOMAIN, 300.0, replays=2, most_cells=24), 1.0, seed=0, rounds=12)
    assert plain.rounds < plain.planned == 12
    weights = mwem.WeightsAtOnce(DOMAIN, 300.0, replays=2)
    assert mwem.mwem(small, weights, 1.0, seed=0, rounds=12).rounds == 12
    assert weights.cells == sorted(weights.cells)
    assert weights.cells[-1] == 72
    full = mwem.mwem(small, mwem.GraphicalModel(DOMAIN, 300.0), 1.0, seed=0, rounds=12)
    assert full.rounds == full.planned == 12
    assert len(full.queries) == 12


def test_with_a_large_budget_mwem_beats_the_uniform_table(small):
    estimators = (
        mwem.FactoredWeights(DOMAIN, 300.0),
        mwem.WeightsAtOnce(DOMAIN, 300.0),
        mwem.GraphicalModel(DOMAIN, 300.0),
        mwem.GraphicalModel(DOMAIN, 300.0, iterations=40),
    )
    for estimator in estimators:
        outcome = mwem.mwem(small, estimator, 1000.0, seed=0, rounds=30)
        assert small.error(outcome.model) < 0.5 * small.uniform_error


def test_the_exponential_mechanism_has_the_published_probabilities():
    scores, generator = np.array([3.0, 1.0, 0.0]), np.random.default_rng(0)
    drawn = np.bincount([mwem.exponential_mechanism(scores, 0.8, generator) for _ in range(20_000)]) / 20_000
    weights = np.exp(0.8 * scores / 2)
    assert drawn == pytest.approx(weights / weights.sum(), abs=0.015)


# -- PrivBayes ---------------------------------------------------------------------------------------------------------


def test_privbayes_spends_half_on_the_network_and_samples_as_many_records(small):
    result = privbayes.measure(small, 1.0, seed=0)
    spent = [epsilon(entry.cost) for entry in result.ledger]
    assert sum(spent[: len(DOMAIN) - 1]) == pytest.approx(0.5)
    assert sum(spent) == pytest.approx(1.0)
    assert privbayes.sampled(small, result, seed=0).records == small.data.records


def test_the_authors_script_measures_the_same_marginals_anew_with_half_the_noise(small):
    result = privbayes.measure(small, 1.0, seed=0)
    anew = privbayes.measured_with_the_whole_budget(small, result, seed=0)
    assert [one.clique for one in anew] == [one.clique for one in result.measurements]
    spent = 0.0
    for new, old in zip(anew, result.measurements, strict=True):
        assert new.stddev == pytest.approx(np.max(old.stddev) / 2)
        assert not np.array_equal(new.values.reshape(-1), np.reshape(old.values, -1))
        spent += 2.0 / (new.stddev / math.sqrt(2))
    assert spent == pytest.approx(1.0, rel=1e-3)


# -- DualQuery ---------------------------------------------------------------------------------------------------------


def closed(problem: Problem) -> np.ndarray:
    """The queries and their negations, about every possible record."""
    matrix = workload_matrix(problem)
    return np.concatenate([matrix, 1.0 - matrix])


@pytest.mark.parametrize("ties", ["random", "first"])
def test_the_best_record_is_the_best_of_all(ties, small):
    queries = closed(small)
    game = dual_query._Record(small, np.random.default_rng(0), ties)
    generator = np.random.default_rng(1)
    for _ in range(30):
        drawn = generator.integers(len(queries), size=15)
        payoff = -queries[drawn].sum(axis=0)
        record = game.best(drawn)
        place = np.ravel_multi_index([int(record.column(name)[0]) for name in DOMAIN], DOMAIN.shape)
        assert payoff[place] == payoff.max()
        if ties == "first":
            lowness = RECORDS @ [1, 2, 2, 1]  # b and c are in both triples
            assert lowness[place] == lowness[payoff == payoff.max()].min()


def algorithm_4_distributions(problem: Problem, transcript: dual_query.Transcript, y: np.ndarray) -> np.ndarray:
    """Q^t for each step, by the pseudocode's own multiplications."""
    queries = closed(problem)
    answers = np.concatenate([y, 1.0 - y])
    distribution, found = np.full(len(queries), 1.0 / len(queries)), []
    for t in range(transcript.records.records):
        found.append(distribution)
        codes = [int(transcript.records.column(name)[t]) for name in DOMAIN]
        of_record = queries[:, np.ravel_multi_index(codes, DOMAIN.shape)]
        distribution = distribution * np.exp(-transcript.eta * (answers - of_record))
        distribution = distribution / distribution.sum()
    return np.array(found)


def test_the_loss_is_algorithm_5(small):
    transcript = dual_query.dual_query(small, 1.0, 1e-3, seed=3)
    steps, samples = transcript.queries.shape
    assert (steps, samples) == (dual_query.steps_paid(300, 1.0, 1e-3), 50)
    loss, generator = dual_query.WorkloadLikelihood(transcript), np.random.default_rng(0)
    for _ in range(3):
        table = 300 * generator.dirichlet(np.ones(len(RECORDS)))
        y = workload_matrix(small) @ table / 300
        distributions = algorithm_4_distributions(small, transcript, y)
        expected = -sum(np.log(distributions[t][transcript.queries[t]]).sum() for t in range(steps))
        flat = np.concatenate([marginal_matrix(clique) @ table for clique in loss.layout.cliques])
        assert loss.flat_value_and_gradient(flat)[0] == pytest.approx(expected, rel=1e-9)


def test_its_gradient_is_that_of_the_loss(small):
    transcript = dual_query.dual_query(small, 1.0, 1e-3, seed=4)
    loss, generator = dual_query.WorkloadLikelihood(transcript), np.random.default_rng(0)
    flat = generator.uniform(0, 20, loss.layout.cells)
    _, gradient = loss.flat_value_and_gradient(flat)
    for place in range(0, len(flat), 5):
        step = np.zeros_like(flat)
        step[place] = 1e-4
        slope = (loss.flat_value_and_gradient(flat + step)[0] - loss.flat_value_and_gradient(flat - step)[0]) / 2e-4
        assert slope == pytest.approx(gradient[place], rel=1e-4, abs=1e-7)


def test_the_most_likely_model_has_a_lower_loss_than_the_truth(small):
    transcript = dual_query.dual_query(small, 5.0, 1e-3, seed=5)
    loss = dual_query.WorkloadLikelihood(transcript)
    model = dual_query.most_likely(transcript, max_iterations=300)
    vector = CliqueVector(DOMAIN, {clique: small.data.project(clique) for clique in loss.layout.cliques})
    assert model.report.loss < loss.value(vector)


@pytest.mark.parametrize(("records", "expected"), [(19434, 33), (48842, 60)])
def test_the_number_of_steps_is_that_of_advanced_composition(records, expected):
    steps = dual_query.steps_paid(records, 1.0, 1e-3)

    def cost(made: int) -> float:
        draw = 2 * 2.0 * made / records
        return draw * (math.sqrt(2 * 50 * made * math.log(1000)) + 50 * made * (math.exp(draw) - 1))

    assert cost(steps - 1) < 1.0 <= cost(steps)
    assert steps == pytest.approx(expected, abs=2)
