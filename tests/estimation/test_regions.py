"""Estimation over the local polytope: its optimum, its bound, and what the models made of its tables answer."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

import pgmest as pg
from pgmest.errors import ArgumentError, ModelTooLarge
from pgmest.models.region import ApproximateModel
from pgmest.simulation import simulate_measurements
from pgmest.synthesis import LocalSearch
from tests.estimation.full_table import least_squares_optimum

SIZES = {"a": 3, "b": 2, "c": 4, "d": 2}
TREE = [("a", "b"), ("c", "b"), ("b", "d"), ("b",)]
CYCLE = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a",)]
TRIPLES = list(itertools.combinations("abcd", 3))


def noisy(cliques, stddev=2.0, seed=0, records=400, sizes=SIZES):
    rng = np.random.default_rng(seed)
    hidden = rng.random(records)
    columns = [((hidden + rng.random(records)) / 2 * size).astype(int) for size in sizes.values()]
    data = pg.Dataset.from_codes(np.stack(columns, axis=1), sizes)
    rng = np.random.default_rng(seed + 1)
    return data, [
        pg.LinearMeasurement(table.values + rng.normal(0, stddev, table.values.shape), table.domain, stddev)
        for table in data.project_many(cliques)
    ]


def local_optimum(measurements, domain, total):
    """Least squares over tables that agree, by SLSQP: every overlap of two tables is an equality."""
    tables = [np.zeros(domain.project(m.clique).shape) for m in measurements]
    sizes = np.cumsum([0, *(table.size for table in tables)])
    target = np.concatenate([m.values for m in measurements])
    weight = 1.0 / np.concatenate([np.broadcast_to(m.stddev, m.values.shape) for m in measurements]) ** 2
    rows = []
    for k, left in enumerate(measurements):
        for other in range(k):
            right = measurements[other]
            shared = [name for name in left.clique if name in right.clique]
            for codes in np.ndindex(*(domain[name] for name in shared)):
                row = np.zeros(sizes[-1])
                for sign, place, clique in ((1, k, left.clique), (-1, other, right.clique)):
                    mask = np.zeros(tables[place].shape, dtype=bool)
                    at = dict(zip(shared, codes, strict=True))
                    mask[tuple(at.get(name, slice(None)) for name in clique)] = True
                    row[sizes[place] : sizes[place + 1]] += sign * mask.ravel()
                rows.append(row)
    first = np.zeros(sizes[-1])
    first[: sizes[1]] = 1.0
    matrix, right_side = np.array([first, *rows]), np.array([total, *[0.0] * len(rows)])
    basis, values, _ = np.linalg.svd(matrix, full_matrices=False)
    independent = basis[:, values > 1e-9].T
    result = minimize(
        lambda x: (0.5 * float(weight @ (x - target) ** 2), weight * (x - target)),
        np.maximum(target, 0.1),
        jac=True,
        bounds=[(0, None)] * sizes[-1],
        constraints={
            "type": "eq",
            "fun": lambda x: independent @ (matrix @ x - right_side),
            "jac": lambda x: independent @ matrix,
        },
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert result.success
    return float(result.fun), result.x


@pytest.mark.parametrize("cliques", [CYCLE, TRIPLES, TREE])
def test_the_tables_are_the_least_squares_ones_of_the_local_polytope(cliques):
    data, measurements = noisy(cliques)
    model = pg.estimate(measurements, data.domain, total=400, oracle="convex", tolerance=1e-7, max_iterations=3000)
    loss, tables = local_optimum(measurements, data.domain, 400.0)
    assert model.report.method == "local_least_squares"
    assert model.report.converged
    assert model.report.loss == pytest.approx(loss, rel=1e-4)
    assert model.report.loss - model.report.gap <= loss + 1e-6 * (1 + loss)
    estimated = np.concatenate([model.marginals[m.clique].datavector() for m in measurements])
    np.testing.assert_allclose(estimated, tables, atol=0.02)
    assert model.inconsistency < 1e-4


def test_the_bound_holds_for_distributions_too():
    data, measurements = noisy(CYCLE, stddev=20.0)
    model = pg.estimate(measurements, data.domain, total=400, oracle="convex")
    exact, _ = least_squares_optimum(data.domain, measurements, 400.0)
    assert model.report.loss - model.report.gap <= exact * (1 + 1e-6)


@pytest.mark.parametrize("arguments", [{}, {"method": "accelerated"}, {"loss": "l1"}])
def test_a_tree_gives_what_exact_estimation_gives(arguments):
    data, measurements = noisy(TREE)
    chosen = {"oracle": "convex", "tolerance": 1e-5, "max_iterations": 3000, **arguments}
    model = pg.estimate(measurements, data.domain, total=400, **chosen)
    exact = pg.estimate(measurements, data.domain, total=400, tolerance=1e-5, loss=chosen.get("loss", "l2"))
    assert model.report.loss == pytest.approx(exact.report.loss, rel=2e-2, abs=0.05)
    if arguments.get("loss") != "l1":
        for clique in TREE:
            np.testing.assert_allclose(model.project(clique).values, exact.project(clique).values, atol=0.5)


def test_queries_and_other_losses_go_through_message_passing():
    data, measurements = noisy(CYCLE)
    prefix = pg.queries.prefix(4)
    measurements.append(pg.LinearMeasurement(prefix.apply(data.project(("c",)).values), ("c",), 1.0, prefix))
    model = pg.estimate(measurements, data.domain, total=400, oracle="convex", loss="huber", max_iterations=300)
    assert model.report.method == "accelerated"
    assert model.inconsistency < 1e-2
    for clique in CYCLE:
        np.testing.assert_allclose(model.project(clique).values, data.project(clique).values, atol=12)


def test_structural_zeros_are_kept():
    data, measurements = noisy(CYCLE)
    zeros = {("a", "b"): [(0, 1), (2, 0)]}
    model = pg.estimate(measurements, data.domain, oracle="convex", structural_zeros=zeros, max_iterations=100)
    table = model.project(("a", "b")).values
    assert table[0, 1] == table[2, 0] == 0
    records = model.sample(50, seed=0)
    assert records.project(("a", "b")).values[0, 1] == 0
    assert sum(part.records for part in model.sample_batches(50, batch=30)) == 50


@pytest.fixture(scope="module")
def wide():
    """Most pairs of ten attributes of ten values: an exact model would take gigabytes."""
    sizes = dict.fromkeys("abcdefghij", 10)
    data, measurements = noisy([pair for pair in itertools.combinations(sizes, 2)][:40], sizes=sizes, records=2000)
    return data, measurements, pg.estimate(measurements, data.domain, oracle="convex")


def test_too_wide_a_tree_offers_the_approximation_and_does_not_switch(wide):
    data, measurements, model = wide
    with pytest.raises(ModelTooLarge, match='oracle="convex"'):
        pg.estimate(measurements, data.domain, max_megabytes=10)
    assert isinstance(model, ApproximateModel)
    with pytest.raises(ModelTooLarge, match=r"needs about .* more than max_megabytes"):
        pg.estimate(measurements, data.domain, oracle="convex", max_megabytes=0.01)


def test_marginals_of_a_wide_model(wide):
    data, measurements, model = wide
    assert model.report.converged
    assert model.inconsistency <= 1e-3
    for measurement in measurements[:5]:
        table = model.project(measurement.clique)
        np.testing.assert_allclose(table.values, model.marginals[measurement.clique].values)
        assert np.abs(table.values - data.project(measurement.clique).values).mean() < 2.0
    unmeasured = ("i", "j")
    independent = np.outer(data.project("i").values, data.project("j").values) / data.records
    truth = data.project(unmeasured).values
    estimated = model.project(unmeasured).values
    assert np.abs(estimated - truth).sum() < 0.8 * np.abs(independent - truth).sum()
    assert estimated.sum() == pytest.approx(model.total)


def test_answers_of_a_wide_model(wide):
    _, _, model = wide
    kron = pg.Kron({"a": pg.queries.prefix(10), "b": [[1.0] * 10]})
    expected = np.cumsum(model.project(("a", "b")).values.sum(axis=1))
    np.testing.assert_allclose(model.answer(kron).values[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(model.answer([kron])[0].values[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(model.answer(pg.queries.prefix(10), "a").values, expected, rtol=2e-3)
    np.testing.assert_allclose(model.project("a", {"b": 3}).values, model.project(("a", "b")).values[:, 3], rtol=1e-6)
    assert [table.domain.attributes for table in model.project_many(["a", ("b", "a")])] == [("a",), ("b", "a")]


def test_records_of_a_wide_model(wide):
    _, _, model = wide
    tree = model.tree_model(max_megabytes=0.05)
    assert tree.sample(100, seed=0).domain == model.domain
    assert tree.junction_tree.total_cells * 8 <= 0.05e6
    for clique in tree.cliques[:3]:
        np.testing.assert_allclose(tree.project(clique).values, model.project(clique).values, atol=3)


def test_what_it_says_of_itself(wide):
    _, _, model = wide
    text = repr(model)
    assert text.startswith("ApproximateModel: ")
    assert "disagreement" in text
    assert "approximate (convex region graph): overlapping tables disagree by at most" in text
    assert "relaxed optimum" in text


def test_wrong_arguments():
    data, measurements = noisy(CYCLE)
    with pytest.raises(ArgumentError, match="oracle='bethe' is not valid"):
        pg.estimate(measurements, data.domain, oracle="bethe")  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(ArgumentError, match="differentiates through the oracle"):
        pg.estimate(measurements, data.domain, oracle="convex", method="lbfgs")
    support = pg.priors.Support(data)
    with pytest.raises(ArgumentError, match="with a support as prior"):
        pg.estimate(measurements, data.domain, oracle="convex", prior=support)  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_records_have_the_tables_that_no_tree_holds():
    data = pg.datasets.load("census").select(["age", "workclass", "education-num", "occupation", "hours-per-week"])
    pairs = list(itertools.combinations(data.domain, 2))
    model = pg.estimate(simulate_measurements(data, pairs, stddev=5.0, seed=0), data.domain, oracle="convex")

    def off(records):
        found = records.project_many(pairs)
        apart = [
            np.abs(f.values / records.records - model.project(c).values / model.total).sum()
            for c, f in zip(pairs, found, strict=True)
        ]
        return np.mean(apart) / 2

    tree = model.tree_model(max_megabytes=0.02)
    object.__setattr__(model, "_tree_model", tree)
    assert off(model.sample(20_000, seed=0)) < off(tree.sample(20_000, seed=0)) / 3
    batches = list(model.sample_batches(20_000, batch=3000, seed=0))
    assert [part.records for part in batches] == [3000] * 6 + [2000]
    together = pg.Dataset.from_codes([np.concatenate([b.column(n) for b in batches]) for n in data.domain], data.domain)
    assert off(together) < off(tree.sample(20_000, seed=0)) / 3
    independent = model.sample(20_000, method="multinomial", seed=0)
    assert (
        independent.project(("age",)).values
        == tree.sample(20_000, method="multinomial", seed=0).project(("age",)).values
    ).all()


def test_what_is_impossible_is_so_in_every_batch_whatever_the_tree_drew(monkeypatch):
    given = []

    def noted(self, records, tables, generator):  # as if nothing could be moved
        given.append([table.values for table in tables])
        return records

    monkeypatch.setattr(LocalSearch, "improved", noted)
    data = pg.datasets.load("census").select(["sex", "relationship", "marital-status"])
    pairs = list(itertools.combinations(data.domain, 2))
    vector = pg.CliqueVector(data.domain, dict(zip(pairs, data.project_many(pairs), strict=True)))
    report = pg.estimate(simulate_measurements(data, pairs, 5.0, seed=0), data.domain, oracle="convex").report
    model = ApproximateModel(vector, data.records, report)
    object.__setattr__(model, "_tree_model", model.tree_model(max_megabytes=1e-5))  # it holds no pair
    assert len(list(model.sample_batches(9000, batch=1000, seed=0))) == len(given) == 9
    for tables in given:
        for table, whole in zip(tables, vector.values(), strict=True):
            assert (table[whole.values == 0.0] == 0.0).all()
