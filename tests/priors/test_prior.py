"""`estimate(prior=...)` against the full joint table: the least relative entropy to models, tables and supports."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, DataError, ImpossibleModelError
from pgmest.priors import Support, SupportModel, public_model
from tests.estimation.full_table import fitted_table, least_squares_optimum
from tests.priors.records import joint, noisy, penalized_optimum, public_problems

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2, "d": 2})
TIGHT = {"tolerance": 1e-9, "max_iterations": 30_000}


def public_table(domain: pg.Domain = DOMAIN, records: int = 300, seed: int = 1) -> pg.Dataset:
    rng = np.random.default_rng(seed)
    codes = np.array(
        np.unravel_index(rng.choice(domain.size(), records, p=rng.dirichlet(np.ones(domain.size()))), domain.shape)
    )
    return pg.Dataset.from_codes(list(codes), domain)


@given(seed=st.integers(0, 10_000), measured=st.sampled_from([[("a", "b"), ("c",)], [("a",), ("b",)], [("d", "c")]]))
@settings(max_examples=12, deadline=None)
def test_least_relative_entropy_to_a_model_with_richer_cliques(seed, measured):
    prior = pg.Model(pg.CliqueVector.random(DOMAIN, [("a", "b", "c"), ("c", "d"), ("a", "d")], seed=seed), 1.0)
    answers = noisy(DOMAIN, measured, np.random.default_rng(seed), 1.0, total=500.0)
    model = pg.estimate(answers, DOMAIN, total=500.0, prior=prior, **TIGHT)
    marginals = [model.project(clique).datavector() for clique in measured]
    np.testing.assert_allclose(joint(model), fitted_table(DOMAIN, measured, marginals, joint(prior)), atol=0.05)


def test_a_public_table_as_prior_is_its_public_model():
    public, measured = public_table(), [("a", "b"), ("c",)]
    answers = noisy(DOMAIN, measured, np.random.default_rng(0), 1.0, total=500.0)
    from_table = pg.estimate(answers, DOMAIN, total=500.0, prior=public)
    from_model = pg.estimate(answers, DOMAIN, total=500.0, prior=public_model(public, measured))
    np.testing.assert_allclose(joint(from_table), joint(from_model))
    without = pg.estimate(answers, DOMAIN, total=500.0)
    pair, truth = ("b", "d"), public.project(("b", "d")).normalize(500.0).values
    assert np.abs(from_table.project(pair).values - truth).sum() < np.abs(without.project(pair).values - truth).sum()


@given(public_problems())
@settings(max_examples=25, deadline=None)
def test_a_support_reaches_the_optimum_over_its_records(problem):
    domain, public, answers = problem
    support = Support(public)
    model = pg.estimate(answers, domain, total=100.0, prior=support, tolerance=1e-6, max_iterations=20_000)
    excluded = joint(public).reshape(domain.shape) == 0
    zeros = {domain.attributes: excluded}
    best = pg.estimate(answers, domain, total=100.0, structural_zeros=zeros, tolerance=1e-6, max_iterations=20_000)
    assert model.report.converged
    assert model.report.loss == pytest.approx(best.report.loss, rel=1e-5, abs=1e-3)
    assert joint(model)[excluded.reshape(-1)].sum() == 0.0


@given(public_problems(least_records=15))
@settings(max_examples=25, deadline=None)
def test_the_gap_of_a_support_bounds_the_distance_from_the_optimum(problem):
    domain, public, answers = problem
    support = Support(public)
    best = pg.estimate(answers, domain, total=100.0, prior=support, tolerance=1e-7, max_iterations=50_000).report
    for iterations in (0, 3, 30):
        report = pg.estimate(answers, domain, total=100.0, prior=support, tolerance=0, max_iterations=iterations).report
        assert report.gap >= report.loss - best.loss - 1e-6 * max(1.0, best.loss)


def test_a_support_that_holds_everything_reaches_the_optimum_of_the_full_table():
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    everything = Support(pg.Dataset.from_codes(np.indices(domain.shape).reshape(3, -1).T, domain))
    answers = noisy(domain, [("a", "b"), ("b", "c"), ("a", "c")], np.random.default_rng(1), 5.0)
    best, _ = least_squares_optimum(domain, answers, 100.0)
    model = pg.estimate(answers, domain, total=100.0, prior=everything, tolerance=1e-6)
    assert model.report.loss == pytest.approx(best, rel=1e-4)
    uniform = pg.estimate(answers, domain, total=100.0, tolerance=1e-6)
    np.testing.assert_allclose(joint(model), joint(uniform), atol=0.02)


def test_a_support_gives_the_least_relative_entropy_to_its_weights():
    public, measured = public_table(), [("a", "b"), ("c", "d")]
    answers = noisy(DOMAIN, measured, np.random.default_rng(4), 1.0, total=500.0)
    model = pg.estimate(answers, DOMAIN, total=500.0, prior=Support(public), **TIGHT)
    marginals = [model.project(clique).datavector() for clique in measured]
    np.testing.assert_allclose(joint(model), fitted_table(DOMAIN, measured, marginals, joint(public)), atol=0.05)


@pytest.mark.parametrize(
    ("loss", "method"),
    [("l1", "auto"), ("huber", "auto"), ("l2", "lbfgs"), ("l2", "mirror_descent"), ("l2", "dual_averaging")],
)
def test_other_solvers_and_losses_work_on_a_support(loss, method):
    answers = noisy(DOMAIN, [("a", "b"), ("c", "d")], np.random.default_rng(4), 10.0, total=500.0)
    support = Support(public_table())
    options = {"total": 500.0, "prior": support, "loss": loss, "tolerance": 1e-5, "max_iterations": 30_000}
    model = pg.estimate(answers, DOMAIN, method=method, **options)
    assert model.report.relative_gap <= 1e-3
    assert model.report.loss == pytest.approx(pg.estimate(answers, DOMAIN, **options).report.loss, rel=1e-3)


def test_structural_zeros_and_a_support():
    support = Support(public_table())
    answers = noisy(DOMAIN, [("a", "b")], np.random.default_rng(4), 1.0, total=500.0)
    model = pg.estimate(answers, DOMAIN, prior=support, structural_zeros={("c", "d"): [(0, 1)]})
    assert model.project(("c", "d")).values[0, 1] == 0.0
    assert model.report.converged
    with pytest.raises(ImpossibleModelError, match="every record of the support"):
        pg.estimate(answers, DOMAIN, prior=support, structural_zeros={("a",): [(0,), (1,)]})


def test_a_support_starts_from_an_earlier_model_and_an_estimated_total():
    support = Support(public_table())
    answers = noisy(DOMAIN, [("a", "b"), ("b", "c"), ("c", "d")], np.random.default_rng(4), 3.0, total=500.0)
    first = pg.estimate(answers[:2], DOMAIN, prior=support, tolerance=1e-8)
    cold = pg.estimate(answers, DOMAIN, prior=support, tolerance=1e-8)
    warm = pg.estimate(answers, DOMAIN, prior=support, init=first, tolerance=1e-8)
    np.testing.assert_allclose(joint(warm), joint(cold), atol=0.02)
    assert cold.total == pytest.approx(pg.estimate(answers, DOMAIN).total)
    again = pg.estimate(answers, DOMAIN, prior=support, init=cold, tolerance=1e-8)
    assert again.report.iterations < cold.report.iterations


def test_a_support_model_as_prior_is_its_reweighted_support():
    answers = noisy(DOMAIN, [("a", "b"), ("c", "d")], np.random.default_rng(4), 3.0, total=500.0)
    first = pg.estimate(answers[:1], DOMAIN, total=500.0, prior=Support(public_table()))
    second = pg.estimate(answers[1:], DOMAIN, total=500.0, prior=first, **TIGHT)
    expected = fitted_table(DOMAIN, [("c", "d")], [second.project(("c", "d")).datavector()], joint(first))
    np.testing.assert_allclose(joint(second), expected, atol=0.05)


# -- a soft prior ------------------------------------------------------------------------------------------------------


@given(public_problems(), st.sampled_from([0.01, 0.3, 1.0, 10.0]))
@settings(max_examples=25, deadline=None)
def test_a_soft_prior_reaches_the_optimum_of_the_full_table(problem, weight):
    domain, public, answers = problem
    best, table = penalized_optimum(domain, answers, 100.0, joint(public), weight * 100.0)
    model = pg.estimate(
        answers, domain, total=100.0, prior=Support(public), prior_weight=weight, tolerance=1e-7, max_iterations=20_000
    )
    assert model.report.converged
    assert model.report.loss == pytest.approx(best, rel=1e-5, abs=1e-4)
    positive = joint(public) > 0
    np.testing.assert_allclose(joint(model)[positive], 100.0 * table, atol=0.1)


@pytest.mark.parametrize("loss", ["l2", "l1", "huber"])
@pytest.mark.parametrize("weight", [0.05, 1.0])
def test_a_soft_prior_on_a_model_and_its_certificate(loss, weight):
    prior = pg.CliqueVector.random(DOMAIN, [("a", "b", "c"), ("c", "d")], seed=3)
    answers = noisy(DOMAIN, [("a", "b"), ("b", "d")], np.random.default_rng(3), 8.0, total=200.0)
    options = {"total": 200.0, "prior": prior, "prior_weight": weight, "loss": loss}
    model = pg.estimate(answers, DOMAIN, tolerance=1e-6, max_iterations=30_000, **options)
    assert model.report.converged
    if loss != "huber":
        table = joint(pg.Model(prior, 1.0))
        best, _ = penalized_optimum(DOMAIN, answers, 200.0, table, weight * 200.0, loss)
        assert model.report.loss == pytest.approx(best, rel=1e-5)
    for iterations in (0, 2, 10):
        report = pg.estimate(answers, DOMAIN, tolerance=0, max_iterations=iterations, **options).report
        assert report.gap >= report.loss - model.report.loss - 1e-6


def test_the_reported_loss_is_the_loss_plus_the_penalty():
    prior = pg.Model(pg.CliqueVector.random(DOMAIN, [("a", "b", "c")], seed=3), 1.0)
    answers = noisy(DOMAIN, [("a", "b")], np.random.default_rng(3), 8.0, total=200.0)
    model = pg.estimate(answers, DOMAIN, total=200.0, prior=prior, prior_weight=0.5)
    loss = 0.5 * np.sum(((model.project(("a", "b")).datavector() - answers[0].values) / 8.0) ** 2)
    assert model.report.loss == pytest.approx(loss + 0.5 * 200.0 * model.kl(prior))


def test_the_weight_goes_from_the_best_fit_to_the_prior():
    public = public_table()
    answers = noisy(DOMAIN, [("a", "b"), ("c", "d")], np.random.default_rng(4), 5.0, total=500.0)
    hard = pg.estimate(answers, DOMAIN, total=500.0, prior=public, tolerance=1e-7)
    weak, strong = (
        pg.estimate(answers, DOMAIN, total=500.0, prior=public, prior_weight=weight, tolerance=1e-7)
        for weight in (1e-5, 1e4)
    )
    np.testing.assert_allclose(joint(weak), joint(hard), atol=0.5)
    expected = joint(public_model(public, [("a", "b"), ("c", "d")])) * 500.0 / public.records
    np.testing.assert_allclose(joint(strong), expected, atol=0.05)


# -- mistakes ----------------------------------------------------------------------------------------------------------

ANSWERS = noisy(DOMAIN, [("a", "b")], np.random.default_rng(0), 1.0)
PRIOR = pg.CliqueVector.zeros(DOMAIN, [("a", "c")])
ELSEWHERE = pg.Domain({"a": 2, "b": 3})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"prior": pg.CliqueVector.zeros(ELSEWHERE, [("a",)])}, "prior= is over another domain"),
        ({"prior": public_table(ELSEWHERE)}, "prior= is over another domain"),
        ({"prior": Support(public_table(ELSEWHERE))}, "prior= is over another domain"),
        ({"prior": 3.0}, "prior=3.0 is not valid"),
        ({"prior_weight": 1.0}, "prior_weight=1.0 without a prior"),
        ({"prior_weight": 0.0, "prior": PRIOR}, "prior_weight=0.0 is not valid"),
        ({"prior_weight": float("nan"), "prior": PRIOR}, "prior_weight=nan is not valid"),
        ({"prior_weight": True, "prior": PRIOR}, "prior_weight=True is not valid"),
        ({"prior_weight": 1.0, "prior": PRIOR, "method": "mirror_flow"}, "method='mirror_flow' is not valid"),
        ({"prior_weight": 1.0, "prior": PRIOR, "total": "fit"}, "total='fit' cannot be combined"),
        ({"init": 7}, "init=7 is not valid"),
    ],
)
def test_mistakes_are_named(options, text):
    with pytest.raises(ArgumentError) as error:
        pg.estimate(ANSWERS, DOMAIN, **options)
    assert text in str(error.value)


def test_a_public_table_without_records_is_refused():
    empty = pg.Dataset.from_codes(np.zeros((0, 4), dtype=int), DOMAIN)
    with pytest.raises(DataError, match="the public table has no records"):
        pg.estimate(ANSWERS, DOMAIN, prior=empty)


def test_what_comes_back():
    assert isinstance(pg.estimate(ANSWERS, DOMAIN, prior=public_table()), pg.Model)
    assert isinstance(pg.estimate(ANSWERS, DOMAIN, prior=Support(public_table())), SupportModel)
