"""mbi's types to ours and back, and our estimation with mbi's arguments."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, QueryError
from pgmest.queries.matrices import SparseQuery

mbi = pytest.importorskip("mbi")

from pgmest.adapters import mbi as adapter  # noqa: E402

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})


def theirs(stddev: float = 2.0) -> list:
    """Noisy marginals of 60 records, as mbi has them."""
    rng = np.random.default_rng(0)
    tables = {("a", "b"): [12, 8, 10, 5, 15, 10], ("b", "c"): [9, 8, 13, 10, 11, 9]}
    return [
        mbi.LinearMeasurement(np.array(cells) + rng.normal(0, stddev, 6), clique, stddev)
        for clique, cells in tables.items()
    ]


def their_domain():
    return adapter.to_mbi_domain(DOMAIN)


def test_domains_there_and_back():
    assert their_domain() == mbi.Domain(["a", "b", "c"], [2, 3, 2])
    assert adapter.from_mbi_domain(their_domain()) == DOMAIN


@pytest.mark.parametrize(
    ("query", "matrix"),
    [
        (mbi.WeightedQuery(np.array([1.0, 0.5, 2.0])), np.diag([1, 0.5, 2])),
        (mbi.SlicedQuery(1), np.eye(3)[1:]),
        (lambda factor: factor.datavector().cumsum(), np.tril(np.ones((3, 3)))),
    ],
)
def test_queries_become_matrices(query, matrix):
    measurement = mbi.LinearMeasurement(np.arange(len(matrix)), ("b",), 3.0, query)
    ours = adapter.from_mbi_measurement(measurement, DOMAIN)
    assert ours.query is not None
    np.testing.assert_allclose(np.asarray(ours.query.matrix()), matrix)
    assert ours.values.tolist() == list(range(len(matrix)))
    assert ours.stddev == 3.0


def test_plain_marginals_stay_plain():
    measurement = adapter.from_mbi_measurement(theirs()[0], their_domain())
    assert measurement.query is None
    assert measurement.clique == ("a", "b")
    legacy = mbi.LinearMeasurement(np.zeros(3), ("b",), 1.0, mbi.Factor.datavector)
    assert adapter.from_mbi_measurement(legacy, DOMAIN).query is None


def test_a_query_that_is_not_linear_is_refused():
    squared = mbi.LinearMeasurement(np.zeros(3), ("b",), 1.0, lambda factor: factor.datavector() ** 2)
    with pytest.raises(QueryError, match=r"the query measured on \('b',\) is not linear"):
        adapter.from_mbi_measurement(squared, DOMAIN)


@pytest.mark.parametrize(
    "measurement",
    [
        pg.LinearMeasurement([1.0, 2, 3], "b", 2.0),
        pg.LinearMeasurement([1.0, 2, 3], "b", [1.0, 2.0, 4.0]),
        pg.LinearMeasurement([1.0, 2, 3], "b", 2.0, pg.queries.prefix(3)),
        pg.LinearMeasurement(np.arange(6.0), ("a", "b"), 2.0, pg.Kron({"b": pg.queries.prefix(3), "a": np.eye(2)})),
    ],
)
def test_the_same_loss_on_both_sides(measurement):
    cells = np.random.default_rng(1).uniform(0, 9, DOMAIN.project(measurement.clique).shape)
    converted = adapter.to_mbi_measurement(measurement, DOMAIN)
    factor = mbi.Factor(their_domain().project(measurement.clique), cells)
    residual = (np.asarray(converted.query(factor)) - converted.noisy_measurement) / converted.stddev
    expected = (measurement.answer_cells(cells.reshape(-1)) - measurement.values) / measurement.stddev
    np.testing.assert_allclose(np.sum(residual**2), np.sum(expected**2), rtol=1e-5)


def test_models_there_and_back():
    model = pg.Model(pg.CliqueVector.random(DOMAIN, [("a", "b"), ("c", "b")], seed=0), total=60)
    converted = adapter.to_mbi(model)
    assert isinstance(converted, mbi.MarkovRandomField)
    for clique in [("a", "b"), ("a", "c"), ("c",)]:
        np.testing.assert_allclose(converted.project(clique).values, model.project(clique).values, rtol=1e-4)
        np.testing.assert_allclose(adapter.from_mbi(converted).project(clique).values, model.project(clique).values)
    assert len(converted.synthetic_data(20).to_dict()["a"]) == 20


def test_estimation_is_ours_and_at_least_as_good():
    fitted = adapter.mirror_descent(their_domain(), theirs())
    ours = pg.estimate([adapter.from_mbi_measurement(m, DOMAIN) for m in theirs()], DOMAIN)
    np.testing.assert_allclose(fitted.project(("a", "c")).values, ours.project(("a", "c")).values, rtol=1e-5)
    peer = mbi.estimation.MirrorDescent().estimate(their_domain(), theirs(), known_total=float(fitted.total), iters=200)
    loss = mbi.marginal_loss.from_linear_measurements(theirs(), their_domain())
    assert float(loss(fitted.marginals)) <= float(loss(peer.marginals)) * 1.001


def test_losses_made_by_mbi_are_understood():
    for norm in ("l2", "l1"):
        loss = mbi.marginal_loss.from_linear_measurements(theirs(), their_domain(), norm=norm)
        fitted = adapter.estimate(their_domain(), loss, known_total=60.0)
        ours = pg.estimate([adapter.from_mbi_measurement(m, DOMAIN) for m in theirs()], DOMAIN, total=60, loss=norm)
        np.testing.assert_allclose(fitted.project("b").values, ours.project("b").values, rtol=1e-5)
    with pytest.raises(ArgumentError, match=r"it must be a list of mbi\.LinearMeasurement"):
        adapter.estimate(their_domain(), "l2")


def test_warm_start_and_estimator_object():
    first = adapter.estimate(their_domain(), theirs()[:1])
    estimator = adapter.Estimator(method="mirror_descent")
    for start in (first, first.potentials):
        again = estimator.estimate(their_domain(), theirs(), warm_start=start, iters=3000, patience=2)
        plain = adapter.estimate(their_domain(), theirs())
        np.testing.assert_allclose(again.project("b").values, plain.project("b").values, atol=0.1)


@pytest.mark.parametrize(
    "constraint",
    [
        {"attributes": ("a", "c"), "invalid": np.array([[0, 1], [1, 0]])},
        {"attributes": ("a", "c"), "valid": np.array([[0, 0], [1, 1]])},
        {"attributes": ("a", "c"), "mapping": np.array([0, 1])},
    ],
)
def test_constraints_are_structural_zeros(constraint):
    table = their_domain().project(constraint.pop("attributes"))
    fitted = adapter.estimate(their_domain(), theirs(), constraints=[mbi.Constraint(table, **constraint)])
    counts = np.asarray(fitted.project(("a", "c")).values)
    assert np.isfinite(counts).all()
    assert counts[0, 1] + counts[1, 0] == pytest.approx(0, abs=1e-6)
    assert counts.sum() == pytest.approx(float(fitted.total), rel=1e-4)


# -- a model of ours in mbi's protocol --------------------------------------------------------------------------------


def records(rng=None, count=200):
    codes = (rng or np.random.default_rng(3)).integers(0, [2, 3, 2], (count, 3))
    return mbi.Dataset({name: codes[:, place] for place, name in enumerate("abc")}, their_domain())


def test_the_model_speaks_the_protocol_without_mbis_inference():
    fitted = adapter.estimate(their_domain(), theirs())
    assert isinstance(fitted, mbi.MarkovRandomField)
    assert fitted.report.converged
    assert set(fitted.cliques) == {("a", "b"), ("b", "c")}
    assert fitted.marginals.cliques == fitted.cliques
    assert fitted.supports(("a", "c"))
    assert not fitted.supports("z")
    np.testing.assert_array_equal(fitted.project("a").values, fitted.model.project("a").values)
    theirs_again = mbi.MarkovRandomField(potentials=fitted.potentials, marginals=fitted.marginals, total=fitted.total)
    np.testing.assert_allclose(theirs_again.project(("a", "c")).values, fitted.project(("a", "c")).values, rtol=1e-4)
    assert fitted.synthetic_data(17).records == 17
    assert fitted.synthetic_data(method="sample").records == int(fitted.total)
    np.random.seed(5)  # noqa: NPY002
    first = fitted.synthetic_data(40).to_dict()
    np.random.seed(5)  # noqa: NPY002
    assert all(np.array_equal(first[name], column) for name, column in fitted.synthetic_data(40).to_dict().items())


def test_fields_are_pickled_and_are_trees_of_arrays():
    import pickle

    import jax

    fitted = adapter.estimate(their_domain(), theirs())
    for again in (pickle.loads(pickle.dumps(fitted)), jax.tree.map(lambda leaf: leaf, fitted)):
        np.testing.assert_allclose(again.project(("a", "c")).values, fitted.project(("a", "c")).values, rtol=1e-5)


def test_a_field_can_be_made_of_mbis_tables_and_asked_what_the_joint_table_says():
    rng = np.random.default_rng(1)
    domain = their_domain()
    tables = {
        clique: mbi.Factor(domain.project(clique), rng.normal(size=domain.project(clique).shape))
        for clique in [("a", "b"), ("c", "b")]
    }
    made = adapter.MarkovRandomField(mbi.CliqueVector(domain, list(tables), tables), total=10)
    joint = np.exp(np.asarray(tables[("a", "b")].values)[:, :, None] + np.asarray(tables[("c", "b")].values).T[None])
    joint *= 10 / joint.sum()
    np.testing.assert_allclose(made.project(("a", "c")).values, joint.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(made.marginals[("a", "b")].values, joint.sum(axis=2), rtol=1e-10)


def test_a_support_prior_confines_what_comes_back():
    public = pg.Dataset.from_codes(np.array([[0, 0, 0], [1, 2, 1], [0, 1, 1]]), DOMAIN)
    fitted = adapter.estimate(their_domain(), theirs(), prior=pg.priors.Support(public))
    joint = np.asarray(fitted.project(("a", "b", "c")).values)
    allowed = np.zeros(DOMAIN.shape, dtype=bool)
    allowed[tuple(public.codes.T)] = True
    assert joint[~allowed].sum() == 0
    columns = fitted.synthetic_data(50).to_dict()
    drawn = np.stack([columns[name] for name in "abc"], axis=1)
    assert allowed[tuple(drawn.T)].all()
    reweighted = adapter.reweighted_records(their_domain(), theirs(), adapter.to_mbi_dataset(public))
    np.testing.assert_allclose(reweighted.project("b").values, fitted.project("b").values, rtol=1e-6)
    assert reweighted.potentials.cliques


def test_the_convex_oracle_gives_pseudo_marginals():
    triangle = [
        mbi.LinearMeasurement(np.full(DOMAIN.size(clique), 60 / DOMAIN.size(clique)), clique, 1.0)
        for clique in [("a", "b"), ("b", "c"), ("a", "c")]
    ]
    fitted = adapter.estimate(their_domain(), triangle, oracle="convex")
    assert isinstance(fitted, adapter.PseudoMarginals)
    np.testing.assert_allclose(fitted.project(("a", "c")).values, 15, atol=0.5)
    assert fitted.synthetic_data(30).records == 30
    mu = adapter.ApproxMirrorDescent(stepsize=0.1).estimate(their_domain(), triangle)
    np.testing.assert_allclose(mu[("a", "c")].values, 15, atol=0.5)


# -- totals, exact answers, no answers --------------------------------------------------------------------------------


def test_measurements_may_opt_out_of_the_total():
    query = mbi.DatavectorQuery(use_for_total_estimation=False)
    kept = mbi.LinearMeasurement(np.full(2, 50.0), ("a",), 1.0)
    left_out = mbi.LinearMeasurement(np.full(3, 8000.0), ("b",), 0.1, query)
    assert adapter.estimate(their_domain(), [kept, left_out]).total == pytest.approx(100)
    assert adapter.estimate(their_domain(), [left_out]).total == 1
    assert adapter.estimation.minimum_variance_unbiased_total([kept, left_out]) == pytest.approx(100)


@pytest.mark.parametrize("beside", [True, False])
def test_exact_answers_are_met(beside):
    exact = mbi.LinearMeasurement(np.array([40.0, 20.0]), ("a",), 0.0)
    noisy = [mbi.LinearMeasurement(np.array([30.0, 29.0]), ("a",), 2.0)] if beside else []
    fitted = adapter.estimate(their_domain(), [exact, *noisy])
    np.testing.assert_allclose(fitted.project("a").values, [40, 20], atol=0.05)
    assert adapter.estimation.minimum_variance_unbiased_total([exact, *noisy]) == 60


def test_nothing_measured_is_the_uniform_distribution():
    fitted = adapter.estimate(their_domain(), [])
    np.testing.assert_allclose(fitted.project(("a", "b")).values, 1 / 6)
    np.testing.assert_allclose(adapter.estimate(their_domain(), [], known_total=12).project("a").values, 6)
    assert fitted.potentials.cliques == ()


def test_fractions_with_the_default_stddev_are_fitted_too():
    shares = np.array([0.5, 0.3, 0.2])
    fitted = adapter.estimate(their_domain(), [mbi.LinearMeasurement(shares, ("b",))], known_total=1.0)
    np.testing.assert_allclose(fitted.project("b").values, shares, atol=2e-3)


# -- queries ----------------------------------------------------------------------------------------------------------


def matrix_of(measurement: pg.LinearMeasurement) -> Any:
    """Return the matrix of a query that was given as one."""
    assert isinstance(measurement.query, SparseQuery)
    return measurement.query.values


def test_large_queries_stay_small():
    from scipy import sparse

    wide = pg.Domain({"x": 8500})
    values = np.arange(8500.0)
    weighted = mbi.LinearMeasurement(values, ("x",), 1.0, mbi.WeightedQuery(np.linspace(0.5, 1, 8500)))
    assert matrix_of(adapter.from_mbi_measurement(weighted, wide)).nnz == 8500
    shifted = mbi.LinearMeasurement(values, ("x",), 1.0, lambda factor: factor.datavector()[::-1])
    made = adapter.from_mbi_measurement(shifted, wide)
    assert matrix_of(made).nnz == 8500
    assert made.answer_cells(values).tolist() == values[::-1].tolist()
    one = mbi.LinearMeasurement(np.ones(1), ("x",), 1.0, lambda factor: factor.datavector()[:10].sum())
    ours = adapter.from_mbi_measurement(one, wide)
    assert ours.query.shape == (1, 8500)
    assert ours.answer_cells(values).tolist() == [45.0]
    back = adapter.to_mbi_measurement(made, wide)
    assert sparse.issparse(back.query.matrix)


def test_one_row_on_many_cells_takes_the_memory_of_some_tables():
    wide = pg.Domain({"x": 10_000})
    one = mbi.LinearMeasurement(np.ones(1), ("x",), 1.0, lambda factor: factor.datavector()[:10].sum())
    tracemalloc.start()
    try:
        adapter.from_mbi_measurement(one, wide)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32e6  # a matrix with a row for each cell would take 800 MB


def test_queries_with_too_many_entries_are_products(monkeypatch):
    from pgmest.adapters.mbi import queries

    monkeypatch.setattr(queries, "FEW_CELLS", 0)
    monkeypatch.setattr(queries, "MOST_NONZEROS", 3)
    measurement = mbi.LinearMeasurement(np.arange(3.0), ("b",), 1.0, lambda factor: factor.datavector().cumsum())
    ours = adapter.from_mbi_measurement(measurement, DOMAIN)
    np.testing.assert_allclose(ours.answer_cells(np.array([1.0, 2, 4])), [1, 3, 7])
    np.testing.assert_allclose(ours.transpose_cells(np.array([1.0, 2, 4])), [7, 6, 4])


def test_queries_written_for_numpy_work():
    matrix = np.array([[1.0, 0, 2], [0, 1, 1]])
    measurement = mbi.LinearMeasurement(
        np.zeros(2), ("b",), 1.0, lambda factor: matrix @ np.asarray(factor.datavector(), dtype=float)
    )
    np.testing.assert_allclose(np.asarray(adapter.from_mbi_measurement(measurement, DOMAIN).query.matrix()), matrix)


@pytest.mark.parametrize("query", [lambda f: f.datavector() + 1, lambda f: abs(f.datavector() - 3)])
def test_affine_and_kinked_queries_are_refused(query):
    with pytest.raises(QueryError, match="is not linear"):
        adapter.from_mbi_measurement(mbi.LinearMeasurement(np.zeros(3), ("b",), 1.0, query), DOMAIN)


def test_a_query_with_another_number_of_answers_is_refused():
    measurement = mbi.LinearMeasurement(np.zeros(2), ("b",), 1.0, lambda factor: factor.datavector().cumsum())
    with pytest.raises(QueryError, match="has 3 answers, and 2 values were given"):
        adapter.from_mbi_measurement(measurement, DOMAIN)


# -- losses, callbacks, constraints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_normalized_losses_have_the_same_minimum(norm):
    plain, normalized = (
        mbi.marginal_loss.from_linear_measurements(theirs(), their_domain(), norm=norm, normalize=normalize)
        for normalize in (False, True)
    )
    expected = adapter.estimate(their_domain(), plain, known_total=60.0)
    fitted = adapter.estimate(their_domain(), normalized, known_total=60.0)
    np.testing.assert_allclose(fitted.project(("a", "c")).values, expected.project(("a", "c")).values, rtol=1e-6)


def test_likelihoods_of_marginals_and_functions_of_ones_own():
    import jax.numpy as jnp

    truth = pg.Model(pg.CliqueVector.random(DOMAIN, [("a", "b"), ("b", "c")], seed=4), total=500)
    mu = adapter.to_mbi_tables(truth.marginals)
    fitted = adapter.estimation.LBFGS().estimate(their_domain(), mbi.marginal_loss.mle_loss_fn(mu), known_total=500)
    np.testing.assert_allclose(fitted.project(("a", "c")).values, truth.project(("a", "c")).values, atol=1.0)
    own = mbi.MarginalLossFn(mu.cliques, lambda marginals, data: -data.dot(marginals.log()), mu)
    fitted = adapter.estimate(their_domain(), own, known_total=500, iters=2000)
    np.testing.assert_allclose(fitted.project(("a", "b")).values, truth.project(("a", "b")).values, atol=1.0)
    target = jnp.asarray(truth.project("b").values)
    kinked = mbi.MarginalLossFn([("b",)], lambda m, data: jnp.abs(m[("b",)].values - data).sum(), target)
    fitted = adapter.estimate(their_domain(), kinked, known_total=500, iters=2000)
    np.testing.assert_allclose(fitted.project("b").values, truth.project("b").values, atol=1.0)


def test_callbacks_get_marginals_as_often_as_from_mbi():
    seen = []
    loss = mbi.marginal_loss.from_linear_measurements(theirs(), their_domain())
    fitted = adapter.MirrorDescent().estimate(their_domain(), loss, 60.0, iters=200, callback_fn=seen.append)
    assert len(seen) == 4
    assert all(isinstance(mu, mbi.CliqueVector) and mu.cliques == fitted.cliques for mu in seen)
    np.testing.assert_allclose(seen[-1][("a", "b")].values, fitted.project(("a", "b")).values, rtol=1e-6)
    callback = mbi.callbacks.default(theirs(), their_domain(), records())
    adapter.MirrorDescent().estimate(their_domain(), theirs(), callback_fn=callback, iters=100)
    assert len(callback.summary["data"]) == 2


def test_constraints_are_kept_apart_from_the_cliques():
    constraint = mbi.Constraint(their_domain().project(("a", "c")), mapping=np.array([0, 1]))
    fitted = adapter.estimate(their_domain(), theirs(), constraints=[constraint])
    assert set(fitted.cliques) == {("a", "b"), ("b", "c")}
    assert fitted.constraints == (constraint,)
    assert set(fitted.potentials.cliques) == set(fitted.cliques)
    drawn = fitted.synthetic_data(60).to_dict()
    assert np.array_equal(drawn["a"], drawn["c"])
    rebuilt = adapter.MarkovRandomField(fitted.potentials, None, fitted.total, fitted.constraints)
    np.testing.assert_allclose(rebuilt.project(("a", "b")).values, fitted.project(("a", "b")).values, rtol=1e-6)


# -- names, labels, records, other models -----------------------------------------------------------------------------


def test_attributes_may_be_integers():
    domain = mbi.Domain([0, 1, "1"], [2, 3, 2])
    assert adapter.from_mbi_domain(domain) == pg.Domain({"0": 2, "1'": 3, "1": 2})
    measured = [
        mbi.LinearMeasurement(np.array([1.0, 2, 3, 4, 5, 6]), (0, 1), 1.0),
        mbi.LinearMeasurement(np.array([9.0, 12.0]), ("1",), 1.0),
    ]
    fitted = adapter.estimate(domain, measured)
    assert fitted.project((1, "1")).domain.attributes == (1, "1")
    np.testing.assert_allclose(fitted.project(1).values, [5, 7, 9], atol=0.2)
    np.testing.assert_allclose(fitted.project("1").values, [9, 12], atol=0.2)
    assert set(fitted.synthetic_data(20).to_dict()) == {0, 1, "1"}
    with pytest.raises(ArgumentError, match="the attribute=7 is not valid: it must be one of 0, 1"):
        fitted.project(7)


def test_labels_and_records_there_and_back():
    labels = {"a": ["no", "yes"], "b": [1, 2, 3], "c": ["x", "y"]}
    domain = adapter.to_mbi_domain(DOMAIN, labels)
    assert adapter.labels_of(domain) == {name: tuple(values) for name, values in labels.items()}
    given = records()
    ours = adapter.from_mbi_dataset(given)
    assert ours.weights is None
    np.testing.assert_array_equal(ours.project(("a", "b")).values, given.project(("a", "b")).values)
    back = adapter.to_mbi_dataset(ours, domain)
    assert back.domain.labels == domain.labels
    assert all(np.array_equal(back.to_dict()[name], given.to_dict()[name]) for name in "abc")
    weighted = mbi.Dataset(given.to_dict(), given.domain, np.linspace(0, 2, 200))
    np.testing.assert_allclose(np.asarray(adapter.from_mbi_dataset(weighted).weights), np.linspace(0, 2, 200))
    fitted = adapter.estimate(domain, theirs())
    assert fitted.project("a").domain.labels == (("no", "yes"),)
    assert fitted.synthetic_data(9).domain.labels == domain.labels
    with pytest.raises(ArgumentError, match="has 1 labels for 3 values"):
        adapter.to_mbi_domain(DOMAIN, {**labels, "b": [1]})


def test_mixtures_of_products_and_weighted_records_become_models():
    from mbi.extensions.mixture_of_products import MixtureOfProducts

    mixture = MixtureOfProducts.random(their_domain(), 30.0, num_components=4, seed=1)
    ours = adapter.from_mbi(mixture)
    np.testing.assert_allclose(ours.project(("a", "c")).values, mixture.project(("a", "c")).values, rtol=1e-5)
    warm = adapter.estimate(their_domain(), theirs(), warm_start=mixture)
    cold = adapter.estimate(their_domain(), theirs())
    np.testing.assert_allclose(warm.project("b").values, cold.project("b").values, atol=0.3)
    given = records()
    weighted = mbi.dataset.JaxDataset(given.to_dict(), given.domain, np.linspace(0.5, 2, 200))
    support = adapter.from_mbi(weighted)
    np.testing.assert_allclose(support.project(("a", "b")).values, weighted.project(("a", "b")).values, rtol=1e-5)
    assert support.total == pytest.approx(250)
    with pytest.raises(ArgumentError, match=r"an mbi\.MarkovRandomField, MixtureOfProducts or JaxDataset"):
        adapter.from_mbi("model")


def test_mbis_estimators_and_their_arguments():
    expected = adapter.estimate(their_domain(), theirs()).project(("a", "c")).values
    estimators = [
        adapter.estimation.MirrorDescent(0.5),
        adapter.estimation.DualAveraging(),
        adapter.estimation.InteriorGradient(mesh=None),
        adapter.estimation.LBFGS(marginal_oracle=adapter.marginal_oracles.message_passing_stable),
        adapter.estimation.UniversalAcceleratedMethod(norm=1, linesearch=True),
    ]
    for estimator in estimators:
        estimator.precompile(their_domain(), theirs(), extra_cliques=[("a", "c")]).result()
        fitted = estimator.estimate(their_domain(), theirs(), tol=1e-4, patience=3)
        np.testing.assert_allclose(fitted.project(("a", "c")).values, expected, atol=0.2)
    with pytest.raises(ArgumentError, match="an argument='itres'"):
        adapter.estimate(their_domain(), theirs(), itres=3)


def test_every_other_name_is_mbis():
    assert adapter.LinearMeasurement is mbi.LinearMeasurement
    assert adapter.junction_tree is mbi.junction_tree
    assert adapter.estimation.CALLBACK_EVERY == mbi.estimation.CALLBACK_EVERY
    with pytest.raises(AttributeError, match=r"neither pgmest\.adapters\.mbi nor mbi has 'nothing'"):
        adapter.nothing  # noqa: B018


def test_oracles_and_questions():
    domain = their_domain()
    theta = mbi.CliqueVector.random(domain, [("a", "b"), ("b", "c")])
    brute = mbi.marginal_oracles.brute_force_marginals(theta, 10.0)
    for name in adapter.marginal_oracles.ORACLES:
        if hasattr(mbi.marginal_oracles, name):
            found = getattr(adapter.marginal_oracles, name)(theta, 10.0)
            np.testing.assert_allclose(found[("b", "c")].values, brute[("b", "c")].values, atol=1e-4)
    given = adapter.marginal_oracles.variable_elimination(theta, ("c",), 10.0, evidence={"a": 1})
    expected = mbi.marginal_oracles.variable_elimination(theta, ("c",), 10.0, evidence={"a": 1})
    np.testing.assert_allclose(given.values, expected.values, rtol=1e-4)
    codes = np.array([1, 0, 1])
    many = adapter.marginal_oracles.variable_elimination(theta, ("c",), 10.0, evidence={"a": codes, "b": 2})
    assert many.domain.attributes[1:] == ("c",)
    for row, code in zip(np.asarray(many.values), codes, strict=True):
        one = adapter.marginal_oracles.variable_elimination(theta, ("c",), 10.0, evidence={"a": code, "b": 2})
        np.testing.assert_allclose(row, one.values)
    query = {"a": np.array([[1.0, 1.0]]), "c": np.eye(2)}
    ours = adapter.marginal_oracles.kron_query(theta, query, 10.0)
    assert ours.domain.attributes == ("a_answer", "c_answer")
    np.testing.assert_allclose(np.asarray(ours.values)[0], np.asarray(brute[("b", "c")].values).sum(0), atol=1e-4)


def test_inside_a_traced_function_mbis_own_oracle_runs():
    import jax

    theta = mbi.CliqueVector.random(their_domain(), [("a", "b"), ("b", "c")])
    oracle = adapter.marginal_oracles.message_passing_stable
    traced = jax.jit(lambda potentials: oracle(potentials, 10.0))(theta)
    np.testing.assert_allclose(traced[("a", "b")].values, oracle(theta, 10.0)[("a", "b")].values, atol=1e-4)


def test_mbi_can_be_replaced_for_libraries_that_import_it():
    before = mbi.estimation.MirrorDescent, mbi.MarkovRandomField
    with adapter.replacing_mbi():
        fitted = mbi.estimation.MirrorDescent().estimate(their_domain(), theirs())
        assert isinstance(fitted, adapter.MarkovRandomField)
        assert mbi.MarkovRandomField is adapter.MarkovRandomField
    assert (mbi.estimation.MirrorDescent, mbi.MarkovRandomField) == before


def test_the_seed_of_numpy_repeats_synthetic_data():
    field = adapter.estimate(their_domain(), theirs())
    drawn = []
    for seed in (1, 1, 2):
        np.random.seed(seed)  # noqa: NPY002
        drawn.append(adapter.from_mbi_dataset(field.synthetic_data(rows=60)))
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
