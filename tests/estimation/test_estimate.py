"""`estimate` against the full joint table on small domains: the optimum, and which of the optimal distributions."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, MeasurementError, ModelTooLarge, TotalError, UnknownAttributeError
from pgmest.estimation.arguments import Options
from pgmest.estimation.estimate import SOLVERS
from tests.estimation.full_table import fitted_table, least_absolute_optimum, least_squares_optimum, marginal_matrix

ATTRIBUTES = ("a", "b", "c", "d")


@st.composite
def problems(draw, largest: int = 3):
    """A domain of up to 36 cells, cliques of any kind, and noisy measurements of a random table."""
    sizes = draw(st.lists(st.integers(1, largest), min_size=1, max_size=4).filter(lambda s: np.prod(s) <= 36))
    domain = pg.Domain(dict(zip(ATTRIBUTES, sizes, strict=False)))
    cliques = draw(
        st.lists(
            st.lists(st.sampled_from(domain.attributes), max_size=3, unique=True).map(tuple), min_size=1, max_size=5
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    stddev = draw(st.sampled_from([0.5, 5.0, 50.0]))
    return domain, noisy(domain, cliques, rng, stddev)


def noisy(domain, cliques, rng, stddev, total=100.0):
    table = rng.dirichlet(np.full(domain.size(), 0.5)) * total
    return [
        pg.LinearMeasurement(
            marginal_matrix(domain, clique) @ table + rng.normal(0, stddev, domain.size(clique)), clique, stddev
        )
        for clique in cliques
    ]


@given(problems())
@settings(max_examples=40, deadline=None)
def test_the_loss_is_the_optimum_of_the_full_table(problem):
    domain, measurements = problem
    best, _ = least_squares_optimum(domain, measurements, 100.0)
    model = pg.estimate(measurements, domain, total=100.0, tolerance=1e-6, max_iterations=20000)
    assert model.report.loss == pytest.approx(best, rel=1e-4, abs=1e-3)


@given(problems())
@settings(max_examples=40, deadline=None)
def test_the_gap_bounds_the_distance_from_the_optimum(problem):
    domain, measurements = problem
    best, _ = least_squares_optimum(domain, measurements, 100.0)
    for iterations in (0, 3, 30):
        report = pg.estimate(measurements, domain, total=100.0, tolerance=0, max_iterations=iterations).report
        assert report.gap >= report.loss - best - 1e-6 * max(1.0, best)


@given(problems())
@settings(max_examples=25, deadline=None)
def test_the_gap_goes_to_zero(problem):
    domain, measurements = problem
    report = pg.estimate(measurements, domain, total=100.0, tolerance=1e-5, max_iterations=50000).report
    assert report.converged
    assert report.relative_gap <= 1e-5


@pytest.mark.parametrize("method", ["mirror_descent", "dual_averaging", "accelerated", "lbfgs", "universal"])
def test_every_solver_reaches_the_same_optimum(method):
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    measurements = noisy(domain, [("a", "b"), ("b", "c"), ("c", "a")], np.random.default_rng(1), 5.0)
    best, _ = least_squares_optimum(domain, measurements, 100.0)
    model = pg.estimate(measurements, domain, total=100.0, method=method, tolerance=1e-5, max_iterations=30000)
    assert model.report.method == method
    assert model.report.loss == pytest.approx(best, rel=1e-3, abs=1e-3)
    assert model.report.gap >= model.report.loss - best - 1e-6


def full_joint(model):
    return model.project(model.domain.attributes).datavector()


@pytest.mark.parametrize(
    "cliques",
    [
        [("a", "b"), ("b", "c")],
        [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")],  # needs a fill edge
        [("a",), ("c", "d")],
        [("a", "b"), ("b", "c"), ("a", "c")],  # a clique of the tree that was not measured as such
    ],
)
def test_measured_and_unmeasured_marginals_are_those_of_maximum_entropy(cliques):
    domain = pg.Domain({"a": 2, "b": 3, "c": 2, "d": 2})
    measurements = noisy(domain, cliques, np.random.default_rng(3), 2.0, total=1000.0)
    model = pg.estimate(measurements, domain, total=1000.0, tolerance=1e-9, max_iterations=50000)
    marginals = [model.project(clique).datavector() for clique in cliques]
    expected = fitted_table(domain, cliques, marginals, np.ones(domain.size()))
    np.testing.assert_allclose(full_joint(model), expected, atol=0.05)


def test_a_prior_gives_the_distribution_of_least_relative_entropy_to_it():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    prior = pg.CliqueVector.random(domain, [("a", "b", "c")], seed=5)
    measurements = noisy(domain, [("a", "b"), ("c",)], np.random.default_rng(4), 1.0, total=500.0)
    model = pg.estimate(measurements, domain, total=500.0, prior=prior, tolerance=1e-9, max_iterations=20000)
    table = np.exp(prior[("a", "b", "c")].datavector())
    marginals = [model.project(clique).datavector() for clique in [("a", "b"), ("c",)]]
    np.testing.assert_allclose(
        full_joint(model), fitted_table(domain, [("a", "b"), ("c",)], marginals, table), atol=0.05
    )


def test_a_warm_start_changes_the_time_and_not_the_answer():
    domain = pg.Domain({"a": 3, "b": 3, "c": 3, "d": 2})
    rng = np.random.default_rng(6)
    measurements = noisy(domain, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")], rng, 3.0, total=1000.0)
    options = {"total": 1000.0, "tolerance": 1e-8, "max_iterations": 50000}
    first = pg.estimate(measurements[:3], domain, **options)
    cold = pg.estimate(measurements, domain, **options)
    warm = pg.estimate(measurements, domain, init=first, **options)
    np.testing.assert_allclose(full_joint(warm), full_joint(cold), atol=0.05)
    again = pg.estimate(measurements, domain, init=cold, **options)
    assert again.report.iterations < cold.report.iterations


def test_potentials_reproduce_the_marginals():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    model = pg.estimate(noisy(domain, [("a", "b"), ("b", "c")], np.random.default_rng(0), 5.0), domain)
    np.testing.assert_allclose(
        pg.marginals(model.potentials, model.total).flat, model.marginals.flat, rtol=1e-6, atol=1e-9
    )


def test_an_unknown_total_is_estimated():
    domain = pg.Domain({"a": 2, "b": 2})
    measurements = [pg.LinearMeasurement([30.0, 70.0], "a", 1.0), pg.LinearMeasurement([60.0, 60.0], "b", 2.0)]
    model = pg.estimate(measurements, domain)
    assert model.total == pytest.approx((100 / 2 + 120 / 8) / (1 / 2 + 1 / 8))
    assert model.project(()).values == pytest.approx(model.total)


@pytest.mark.parametrize("loss", ["l2", "huber"])
def test_a_total_that_is_fitted_is_the_one_of_least_loss(loss):
    domain = pg.Domain({"a": 3, "b": 2})
    measurements = noisy(domain, [("a", "b"), ("a",)], np.random.default_rng(3), 4.0, total=80.0)
    options = {"loss": loss, "tolerance": 1e-9, "max_iterations": 30000}
    fitted = pg.estimate(measurements, domain, total="fit", **options)
    for other in (0.97, 0.999, 1.001, 1.03):
        there = pg.estimate(measurements, domain, total=fitted.total * other, **options)
        assert there.report.loss > fitted.report.loss


def test_a_fitted_total_needs_no_measurement_that_determines_it():
    domain = pg.Domain({"a": 3})
    part = pg.LinearMeasurement([30.0, 20.0], "a", 1.0, query=np.array([[1.0, 0, 0], [0, 1.0, 0]]))
    with pytest.raises(TotalError):
        pg.estimate([part], domain)
    model = pg.estimate([part], domain, total="fit", tolerance=1e-9)
    np.testing.assert_allclose(model.project("a").values[:2], [30.0, 20.0], atol=1e-2)


@given(st.integers(0, 10_000))
@settings(max_examples=12, deadline=None)
def test_l1_reaches_the_optimum_of_the_linear_program(seed):
    domain = pg.Domain({"a": 3, "b": 2, "c": 2})
    measurements = noisy(domain, [("a", "b"), ("b", "c"), ("a", "c")], np.random.default_rng(seed), 5.0)
    best = least_absolute_optimum(domain, measurements, 100.0)
    model = pg.estimate(measurements, domain, total=100.0, loss="l1", tolerance=1e-8, max_iterations=20000)
    assert model.report.loss == pytest.approx(best, rel=1e-6, abs=1e-8)


def test_attribute_order_does_not_matter():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    measurements = noisy(domain, [("a", "b"), ("b", "c")], np.random.default_rng(2), 5.0)
    turned = pg.Domain({"c": 2, "a": 2, "b": 3})
    here = pg.estimate(measurements, domain, total=100.0, tolerance=1e-8)
    there = pg.estimate(measurements, turned, total=100.0, tolerance=1e-8)
    np.testing.assert_allclose(here.project(("a", "b", "c")).values, there.project(("a", "b", "c")).values, atol=1e-3)


@pytest.mark.parametrize("stddev", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("total", [1.0, 1e2, 1e8])
def test_any_noise_and_any_total_converge(stddev, total):
    domain = pg.Domain({"a": 3, "b": 4, "c": 2})
    measurements = noisy(domain, [("a", "b"), ("b", "c")], np.random.default_rng(7), stddev, total)
    model = pg.estimate(measurements, domain, total=total, max_iterations=20000)
    assert np.isfinite(model.report.loss)
    if stddev < 1e-10 * total:  # the answers have no digits left to tell noise from rounding
        for measurement in measurements:
            off = model.project(measurement.clique).datavector() - measurement.values
            assert np.abs(off).max() < 1e-8 * total
    else:
        assert model.report.converged


def test_noise_scales_over_four_orders_of_magnitude():
    domain = pg.Domain({"a": 3, "b": 4, "c": 2})
    rng = np.random.default_rng(8)
    measurements = [
        *noisy(domain, [("a", "b")], rng, 0.1),
        *noisy(domain, [("b", "c")], rng, 1000.0),
        *noisy(domain, [("a",)], rng, 10.0),
    ]
    best, _ = least_squares_optimum(domain, measurements, 100.0)
    model = pg.estimate(measurements, domain, total=100.0, tolerance=1e-5, max_iterations=30000)
    assert model.report.loss == pytest.approx(best, rel=1e-2, abs=1e-2)


def test_contradictory_and_all_zero_measurements():
    domain = pg.Domain({"a": 2, "b": 2})
    contradictory = [pg.LinearMeasurement([100.0, 0.0], "a", 1.0), pg.LinearMeasurement([0.0, 100.0], "a", 1.0)]
    model = pg.estimate(contradictory, domain, total=100.0)
    np.testing.assert_allclose(model.project(("a",)).values, [50.0, 50.0], atol=1e-6)
    zero = pg.estimate([pg.LinearMeasurement([0.0, 0.0], "a", 1.0)], domain)
    assert zero.total == 1.0
    assert np.isfinite(zero.project(("a",)).values).all()


def test_structural_zeros_are_exactly_zero():
    domain = pg.Domain({"sex": 2, "pregnant": 2, "age": 3})
    measurements = noisy(domain, [("sex", "age"), ("pregnant",)], np.random.default_rng(9), 2.0)
    model = pg.estimate(measurements, domain, total=100.0, structural_zeros={("sex", "pregnant"): [(0, 1)]})
    assert model.project(("sex", "pregnant")).values[0, 1] == 0.0
    assert model.project(("pregnant", "age", "sex")).values[1, :, 0].sum() == 0.0
    assert model.report.converged


def test_ipf_matches_exact_marginals_zeros_included():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    table = np.random.default_rng(1).dirichlet(np.ones(12)) * 100
    table[:2] = 0
    cliques = [("a", "b"), ("b", "c"), ("a", "c")]
    exact = [pg.LinearMeasurement(marginal_matrix(domain, c) @ table, c, 1.0) for c in cliques]
    model = pg.estimate(exact, domain, method="ipf", tolerance=1e-12)
    assert model.report.converged
    for clique, measurement in zip(cliques, exact, strict=True):
        np.testing.assert_allclose(model.project(clique).datavector(), measurement.values, atol=1e-4)
    assert model.project(("a", "b")).values[0, 0] == 0.0


def test_a_run_cut_short_says_how_far_it_is_and_what_to_raise():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    measurements = noisy(domain, [("a", "b"), ("b", "c")], np.random.default_rng(0), 0.01)
    report = pg.estimate(measurements, domain, total=100.0, max_iterations=2).report
    assert not report.converged
    assert report.iterations == 2
    assert "max_iterations=2 reached" in report.message
    assert "Raise max_iterations" in report.message


def test_the_best_model_found_is_returned_not_the_last():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    measurements = noisy(domain, [("a", "b"), ("b", "c"), ("a", "c")], np.random.default_rng(0), 5.0)
    losses = []
    model = pg.estimate(
        measurements,
        domain,
        total=100.0,
        loss="l1",
        method="universal",
        tolerance=0,
        max_iterations=700,
        callback=lambda progress: losses.append(progress.loss),
    )
    assert model.report.loss <= losses[-1]
    assert model.report.gap >= 0
    marginals = pg.marginals(model.potentials, model.total)
    value = sum(np.abs(marginals[m.clique].datavector() - m.values).sum() * np.sqrt(2) / 5.0 for m in measurements)
    assert value == pytest.approx(model.report.loss)


def test_the_callback_sees_progress_and_can_stop():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    seen = []

    def stop_at_five(progress):
        seen.append((progress.iteration, progress.loss, progress.marginals.sum()))
        return progress.iteration == 5

    measurements = noisy(domain, [("a", "b"), ("b", "c")], np.random.default_rng(0), 0.01)
    model = pg.estimate(measurements, domain, total=100.0, callback=stop_at_five, tolerance=0)
    assert [iteration for iteration, _, _ in seen] == [1, 2, 3, 4, 5]
    assert model.report.iterations == 5
    assert "stopped by the callback" in model.report.message
    assert seen[-1][2] == pytest.approx(200.0)


def test_ctrl_c_returns_the_model_so_far():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})

    def interrupt(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    measurements = noisy(domain, [("a", "b"), ("b", "c")], np.random.default_rng(0), 0.01)
    model = pg.estimate(measurements, domain, total=100.0, callback=interrupt, tolerance=0)
    assert model.report.iterations == 3
    assert model.report.status is pg.solvers.Status.INTERRUPTED
    assert "interrupted" in model.report.message
    assert model.project(("a",)).values.sum() == pytest.approx(100.0)


DOMAIN = pg.Domain({"age": 3, "sex": 2})
AGE = pg.LinearMeasurement([1.0, 2.0, 3.0], "age", 1.0)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: pg.estimate([np.ones(3)], DOMAIN), MeasurementError, "measurements[0] is a ndarray"),  # pyright: ignore[reportArgumentType]
        (lambda: pg.estimate([pg.LinearMeasurement([1, 2], "sxe", 1.0)], DOMAIN), UnknownAttributeError, "'sex'?"),
        (lambda: pg.estimate([AGE], DOMAIN, method="newton"), ArgumentError, "method='newton' is not valid"),
        (lambda: pg.estimate([AGE], DOMAIN, total=-3), ArgumentError, "total=-3 is not valid"),
        (lambda: pg.estimate([AGE], DOMAIN, total=float("nan")), ArgumentError, "total=nan is not valid"),
        (lambda: pg.estimate([AGE], DOMAIN, tolerance=-1), ArgumentError, "tolerance=-1 is not valid"),
        (lambda: pg.estimate([AGE], DOMAIN, max_iterations=1.5), ArgumentError, "max_iterations=1.5 is not valid"),  # pyright: ignore[reportArgumentType]
        (lambda: pg.estimate([AGE], DOMAIN, loss="l3"), ArgumentError, "loss='l3' is not valid"),
        (lambda: pg.estimate([AGE], DOMAIN, init=3), ArgumentError, "init=3 is not valid"),  # pyright: ignore[reportArgumentType]
        (lambda: pg.estimate([], DOMAIN), TotalError, "Pass total=..."),
        (lambda: pg.estimate([AGE], {"age": 3, "sex": 0}), pg.errors.DomainError, "positive integer"),
    ],
)
def test_bad_arguments_are_named_with_a_remedy(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_no_measurements_but_a_total_give_the_uniform_distribution():
    model = pg.estimate([], DOMAIN, total=60)
    np.testing.assert_allclose(model.project(("age", "sex")).values, 10.0)


def test_a_tree_too_large_is_refused_before_anything_is_allocated():
    domain = pg.Domain(dict.fromkeys("abcdef", 1000))
    measurements = [
        pg.LinearMeasurement(np.ones(10**6), tuple(pair), 1.0) for pair in ("ab", "bc", "ca", "ad", "bd", "cd")
    ]
    with pytest.raises(ModelTooLarge) as caught:
        pg.estimate(measurements, domain, total=1.0)
    assert "8" in str(caught.value)


def test_every_named_method_is_in_the_table_of_the_docstring():
    for name in ("auto", *SOLVERS):
        assert f"\n{name} " in (inspect.getdoc(pg.estimate) or "")  # which 3.13 stores without indentation


def test_the_overloads_share_what_the_signature_says():
    """Options restates the types of the arguments for the overloads; nothing else may be said twice."""
    signature = inspect.signature(pg.estimate).parameters
    deciding = {"measurements", "domain", "prior", "oracle"}
    assert list(Options.__annotations__) == [name for name in signature if name not in deciding]
    stated = {name: str(signature[name].annotation) for name in Options.__annotations__}
    assert stated == {name: kind.__forward_arg__ for name, kind in Options.__annotations__.items()}
