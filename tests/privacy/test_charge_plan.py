"""Plans: what they promise is exact for Gaussian noise, never below the truth; a curator holds a run to its plan."""

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, BudgetTypeError, ChargeError, PlanError
from pgmest.privacy import (
    GDP,
    ApproxDP,
    ChargePlan,
    Curator,
    DatasetLedger,
    Epsilon,
    PlannedRho,
    Rho,
    composed,
    requests,
)
from pgmest.privacy.bounded_range import choice_mu
from pgmest.privacy.charge_plan import LARGEST
from pgmest.privacy.ledger import amounts, budget_of
from pgmest.transforms.learned import rare_values
from tests.privacy.amounts import rho

DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, 3, (300, 3)), {"a": 3, "b": 3, "c": 3})
MST = ChargePlan(Fraction(2, 3), 13, Fraction(1, 39))
DELTAS = [(0.01, 1e-9), (0.1, 1e-6), (1.0, 1e-9), (10.0, 1e-12)]


@pytest.mark.parametrize(("epsilon", "delta"), DELTAS)
def test_gaussian_noise_alone_is_exact(epsilon, delta):
    budget = ChargePlan(1).budget(epsilon, delta)
    assert budget.rho == pytest.approx(GDP.of(epsilon, delta).mu_squared / 2, rel=1e-6)
    assert budget.rho <= GDP.of(epsilon, delta).mu_squared / 2
    assert ChargePlan(1).delta(budget.rho, epsilon) <= delta
    assert ChargePlan(1).to_approx(budget, delta).epsilon == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), DELTAS)
def test_choices_among_it_cost_less_than_by_rho_or_mu(epsilon, delta):
    budget = MST.budget(epsilon, delta)
    most = ChargePlan(1).budget(epsilon, delta).rho * (1.02 if epsilon > 1 else 1)  # bounded losses have lighter tails
    assert Rho.of(epsilon, delta).rho * 1.05 < budget.rho < most
    each = math.sqrt(8 * budget.rho / 39)
    mu_squared = 4 / 3 * budget.rho + 13 * choice_mu(each) ** 2
    assert MST.to_approx(budget, delta).epsilon < GDP(mu_squared).to_approx(delta).epsilon
    assert MST.delta(budget.rho, epsilon) <= delta
    assert MST.to_approx(budget, delta).epsilon == pytest.approx(epsilon, rel=1e-5)


@settings(max_examples=15)
@given(
    st.floats(0.0, 1.0),
    st.integers(0, 40),
    st.sampled_from([1e-3, 0.1, 1.0, 8.0]),
    st.sampled_from([1e-4, 1e-9]),
)
def test_a_plan_is_never_worse_than_its_zcdp(gaussian, choices, epsilon, delta):
    choice = (1 - gaussian) / choices if choices else 0.0
    if not gaussian + choices * choice:
        return
    plan = ChargePlan(gaussian, choices, choice)
    budget = plan.budget(epsilon, delta)
    assert budget.rho >= Rho.of(epsilon, delta).rho
    assert plan.delta(budget.rho, epsilon) <= delta or budget.rho == Rho.of(epsilon, delta).rho
    more = plan.to_approx(Rho(1.2 * budget.rho), delta).epsilon
    if budget.rho < LARGEST:  # a plan that spends next to nothing of its budget can have any, and spends it as well
        assert more > plan.to_approx(budget, delta).epsilon
    else:
        assert more >= plan.to_approx(budget, delta).epsilon


@pytest.mark.parametrize("gaussian", [1e-38, 1e-200, 5e-324])
@pytest.mark.parametrize("epsilon", [1e-3, 8.0])
def test_a_plan_that_spends_next_to_nothing_is_searched_in_no_time(gaussian, epsilon):
    plan = ChargePlan(gaussian)
    budget = plan.budget(epsilon, 1e-4)
    assert math.isfinite(budget.rho)
    assert plan.delta(budget.rho, epsilon) <= 1e-4
    assert 0 <= plan.to_approx(budget, 1e-4).epsilon <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("arguments", [(-0.1,), (0.0,), (0.5, 2, 0.3), (0.5, -1, 0.1), (math.nan,), (1.5,)], ids=str)
def test_a_plan_shares_out_a_budget(arguments):
    with pytest.raises(ArgumentError, match="plan"):
        ChargePlan(*arguments)


def planned(plan=MST, **options):
    return Curator(DATA, plan.budget(1.0, 1e-9), plan=plan, backend="simulation", seed=0, **options)


def test_a_budget_and_its_plan_belong_together():
    for budget, plan in ((MST.budget(1.0, 1e-9), None), (Rho(0.1), MST), (GDP(0.1), MST)):
        with pytest.raises(ArgumentError, match="belong together"):
            Curator(DATA, budget, plan=plan, backend="simulation")
    with pytest.raises(BudgetTypeError):
        planned().measure("a", Rho(1e-3))


def test_a_run_is_held_to_its_plan():
    plan = ChargePlan(0.5, 2, 0.25)
    asked = planned(plan)
    budget = asked.budget

    def choose(share):
        return asked.select("xy", lambda data: [0, 1], 1.0, budget * share)

    asked.measure("a", budget * 0.2)
    asked.measure("b", budget * 0.3)
    choose(0.1)
    for request in (
        lambda: asked.measure("a", budget * 0.01),
        lambda: asked.count(budget * 0.01),
        lambda: asked.measure_values(lambda data: [1.0], 1, 1.0, budget * 0.01, label="x"),
        lambda: choose(0.26),
        lambda: asked.release(lambda data, rng: 1, budget * 0.01, label="x"),
        lambda: asked.draw(lambda data: np.zeros(2, int), 2, 1, -20, 1, budget * 0.01, label="x"),
        lambda: asked.charge(budget * 0.01, "x"),
    ):
        before = asked.spent
        with pytest.raises(PlanError, match="not in the plan"):
            request()
        assert asked.spent == before
    choose(0.25)
    with pytest.raises(PlanError, match="0 choices"):
        choose(0.01)


def test_recoded_records_share_the_plan():
    plan = ChargePlan(1)
    asked = planned(plan)
    first, second = asked.budget.split(2)
    transform = rare_values(DATA.domain, asked.measure_all(["a", "b", "c"], first), 0.0)
    recoded = asked.through(transform)
    recoded.measure("a", second)
    with pytest.raises(pg.errors.PgmestError):
        asked.measure("a", second)


def test_the_noise_of_a_plan_is_as_private_as_the_continuous_one():
    budget = ChargePlan(1).budget(5.0, 1e-3)
    measured = planned(ChargePlan(1)).measure("a", stddev=50.0)
    assert measured.noise in ("gaussian", "discrete_gaussian")
    few = Curator(DATA, budget, plan=ChargePlan(1), backend="opendp").measure("a", budget)
    assert few.noise == "gaussian"  # on a fine grid: at one count or less the discrete one is told apart better
    assert few.stddev == pytest.approx(1 / math.sqrt(2 * budget.rho), rel=1e-4)


def test_a_ledger_of_the_dataset_takes_a_planned_run_as_its_rho(tmp_path):
    book = DatasetLedger.create(tmp_path / "people.ledger", Rho(0.02))
    budget = MST.budget(1.0, 1e-9)
    asked = Curator(DATA, budget, plan=MST, ledger=book)
    asked.measure("a", budget * 0.5)
    asked.close()
    book.refresh()
    assert rho(book.committed) == pytest.approx(budget.rho / 2)
    assert budget_of(amounts(budget)) == budget
    assert book.runs[0].budget == budget
    with pytest.raises(ArgumentError, match="a plan covers one run"):
        DatasetLedger.create(tmp_path / "other.ledger", budget)


def test_a_plan_survives_a_journal(tmp_path):
    def run():
        asked = Curator(DATA, MST.budget(1.0, 1e-9), plan=MST, backend="opendp", journal=tmp_path / "run")
        answers = [asked.measure("a", asked.budget * 0.3).values.tolist() for _ in range(2)]
        with pytest.raises(PlanError):
            asked.measure("a", asked.budget * 0.3)
        asked.close()
        return answers

    assert run() == run()


def test_parts_together_promise_what_each_does_where_there_is_one_kind():
    budget = MST.budget(1.0, 1e-9)
    assert composed([GDP(0.01), GDP(0.02)], 1e-9).epsilon == pytest.approx(GDP(0.03).to_approx(1e-9).epsilon)
    assert composed([Epsilon(0.5)], 1e-9).epsilon == 0.5
    assert composed([(MST, budget)], 1e-9).epsilon == pytest.approx(1.0, rel=1e-5)
    both = composed([(MST, budget), GDP(0.01)], 1e-9).epsilon
    assert both < Rho(budget.rho + 0.005).to_approx(1e-9).epsilon
    assert both > GDP(4 / 3 * budget.rho + 0.01).to_approx(1e-9).epsilon
    for wrong in ([], [Rho(0.1)], [0.1], [(MST, budget), "x"]):
        with pytest.raises(ArgumentError, match="parts"):
            composed(wrong, 1e-9)  # pyright: ignore[reportArgumentType]


def test_pure_parts_are_composed_by_the_library():
    pytest.importorskip("dp_accounting")
    budget = MST.budget(1.0, 1e-9)
    gaussian = GDP(0.03).to_approx(1e-9).epsilon
    found = composed([GDP(0.03), Epsilon(0.2)], 1e-9).epsilon
    assert gaussian < found < gaussian + 0.2  # basic composition
    assert found < Rho(0.015 + Epsilon(0.2).to_rho().rho).to_approx(1e-9).epsilon
    assert 1.0 < composed([(MST, budget), Epsilon(0.2)], 1e-9).epsilon < 1.2
    many = composed([Epsilon(0.1)] * 30, 1e-6).epsilon
    assert many < 3.0
    assert many == pytest.approx(exact_responses(30, 0.1, 1e-6), rel=1e-3)
    assert many >= exact_responses(30, 0.1, 1e-6)


def exact_responses(number, epsilon, delta):
    """The epsilon of so many randomized responses, by their binomial distribution."""
    from scipy.optimize import brentq
    from scipy.stats import binom

    hits = np.arange(number + 1)
    sums, weights = (2 * hits - number) * epsilon, binom.pmf(hits, number, 1 / (1 + math.exp(-epsilon)))

    def excess(at):
        return float(weights @ np.maximum(0.0, -np.expm1(at - sums))) - delta

    found: Any = brentq(excess, 0.0, number * epsilon)
    return float(found)


def test_without_the_library_it_says_what_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(pg.errors.OptionalDependencyError, match="dp-accounting"):
        composed([GDP(0.03), Epsilon(0.2)], 1e-9)


def test_a_planned_budget_is_a_type_of_its_own():
    assert PlannedRho(0.1) + PlannedRho(0.2) == PlannedRho(0.1).above([Fraction(0.1) + Fraction(0.2)])
    with pytest.raises(BudgetTypeError):
        PlannedRho(0.1) + Rho(0.1)  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("backend", ["simulation", "opendp"])
@pytest.mark.parametrize("budget", [PlannedRho(0.1), GDP(0.2)], ids=str)
def test_noise_or_choices_that_are_too_good_are_refused_unpaid(monkeypatch, backend, budget):
    plan = ChargePlan(0.5, 5, 0.1) if isinstance(budget, PlannedRho) else None
    asked = Curator(DATA, budget, plan=plan, backend=backend)
    noise_for, noise_scale = requests.noise_for, requests.selection.noise_scale
    monkeypatch.setattr(requests, "noise_for", lambda *given: halved(noise_for(*given)))
    with pytest.raises(ChargeError, match="please report"):
        asked.measure("a", budget * 0.1)
    monkeypatch.setattr(requests.selection, "noise_scale", lambda *given: noise_scale(*given) / 2)
    with pytest.raises(ChargeError, match="please report"):
        asked.select("xy", lambda data: [0, 1], 1.0, budget * 0.1)
    assert not asked.spent


def halved(noise):
    return dataclasses.replace(noise, scale=noise.scale / 2)


@pytest.mark.parametrize(("epsilon", "delta"), DELTAS)
@pytest.mark.parametrize("plan", [MST, ChargePlan(1)])
def test_a_curator_states_only_what_the_plan_implies(plan, epsilon, delta):
    budget = plan.budget(epsilon, delta)
    for factor, other, stated in ((1, delta, True), (0.99, delta, False), (1, delta / 10, False), (1, 0.0, False)):
        promise = ApproxDP(epsilon * factor, other)
        assert (Curator(DATA, budget, plan=plan, promise=promise).ledger.promise == promise) == stated
