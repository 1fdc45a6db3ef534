"""The adaptive loop: what it asks of its parts, what it spends, and the schedules."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.mechanisms.adaptive import ROUNDS_PER_ATTRIBUTE, Adaptive, Annealing, EqualRounds, Round, planned_rounds
from pgmest.mechanisms.estimation import GraphicalModel, tree_limit
from pgmest.mechanisms.exponential_selection import Candidate, distances, exponential_selection
from pgmest.privacy import Curator, Epsilon, Rho
from pgmest.workloads import Item
from tests.mechanisms.auditing import DATA, DOMAIN
from tests.privacy.amounts import rho

PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]


class Recorder:
    """An estimator that notes what happens to it; its model is uniform."""

    def __init__(self):
        self.model, self.learned = pg.Model(pg.CliqueVector.zeros(DOMAIN, [DOMAIN.attributes]), total=15.0), []

    def learn(self, curator, last):
        self.learned.append((curator.measurements[-1].clique, last))


def run(schedule, budget, **parts):
    curator, estimator, offered = Curator(DATA, budget, backend="simulation", seed=0), Recorder(), []

    def candidates(turn, model):
        offered.append(turn)
        return [Candidate(item=Item(pair)) for pair in PAIRS]

    chosen = Adaptive(candidates, schedule, estimator, **parts).run(curator)
    assert [clique for clique, _ in estimator.learned] == chosen
    assert [last for _, last in estimator.learned] == [False] * (len(chosen) - 1) + [True]
    return curator, chosen, offered


@pytest.mark.parametrize("budget", [Rho(1.0), Epsilon(1.0)])
@pytest.mark.parametrize("rounds", [1, 4])
def test_equal_rounds_spend_all_of_the_budget_in_equal_parts(budget, rounds):
    curator, chosen, offered = run(EqualRounds(rounds), budget, measuring_share=0.75)
    assert len(chosen) == rounds
    assert curator.remaining / budget < 1e-9
    assert [turn.number for turn in offered] == list(range(1, rounds + 1))
    shares = [entry.cost / budget for entry in curator.ledger]
    assert shares == pytest.approx([0.25 / rounds, 0.75 / rounds] * rounds)
    assert [entry.kind for entry in curator.ledger] == ["select", "measure"] * rounds
    assert curator.ledger[0].label == "round 1: one of 3"
    assert curator.ledger[1].label == f"round 1: {' x '.join(chosen[0])}"


def test_annealing_grows_the_rounds_of_a_model_that_does_not_move():
    _, chosen, offered = run(Annealing(Rho(0.01)), Rho(1.0))
    budgets = [turn.budget.rho for turn in offered]
    assert budgets[:3] == pytest.approx([0.01, 0.04, 0.16])
    assert len(chosen) == 5 - 1
    assert offered[-1].last
    assert budgets[-1] == pytest.approx(1 - 0.01 - 0.04 - 0.16)


def test_annealing_keeps_the_rounds_of_a_model_that_moves():
    measurement = pg.LinearMeasurement(np.zeros(2), ("a",), 10.0)
    before, near, far = (DATA.take(slice(0, n)) for n in (5, 15, 3))
    schedule = Annealing(Rho(0.1))
    schedule.observe(measurement, before, near)  # it moved by 10, less than sqrt(2 / pi) * 20
    assert schedule._budget == Rho(0.4)
    schedule = Annealing(Rho(0.1))
    quiet = pg.LinearMeasurement(np.zeros(2), ("a",), 0.5)
    schedule.observe(quiet, before, near)
    schedule.observe(quiet, before, far)
    assert schedule._budget == Rho(0.1)


def test_a_round_that_leaves_too_little_is_the_last():
    class AsAsked:
        """Rounds whose candidates say what they cost."""

        def following(self, curator):
            return Round(1, Rho(0.1), last=False, reserve=Rho(0.1))

        def observe(self, measurement, before, after):
            """Nothing changes."""

    class Priced(Candidate):
        """Costs a third."""

        spend = Rho(1 / 3)  # type: ignore[assignment]

    def select(curator, model, candidates, spend, *, label):
        curator.charge(spend, label)
        return Priced(item=Item(("a",)))

    curator, chosen, _ = run(AsAsked(), Rho(1.0), measuring_share=0.5, selection=select)
    assert chosen == [("a",)] * 3
    assert [rho(entry.cost) for entry in curator.ledger] == pytest.approx(
        [0.05, 1 / 3, 0.05, 1 / 3, 0.05, 1 - 0.15 - 2 / 3]
    )


def test_the_share_that_a_round_will_have_spent():
    curator = Curator(DATA, Rho(1.0), backend="simulation", seed=0)
    curator.measure("a", Rho(0.25))
    assert Round(1, Rho(0.25), last=False).spent(curator) == pytest.approx(0.5)


def test_planned_rounds():
    assert planned_rounds(7, DOMAIN) == 7
    assert planned_rounds(None, DOMAIN) == ROUNDS_PER_ATTRIBUTE * 3


def test_with_a_large_budget_the_worst_candidate_is_selected():
    model = Recorder().model
    curator = Curator(DATA, Rho(1e9), backend="simulation", seed=0)
    errors = {pair: np.abs(DATA.project(pair).values - model.project(pair).values).sum() for pair in PAIRS}
    worst = [pair for pair in PAIRS if errors[pair] == pytest.approx(max(errors.values()))]
    candidates = [Candidate(item=Item(pair)) for pair in PAIRS]
    assert exponential_selection(curator, model, candidates, Rho(1e8)).clique in worst
    assert distances(candidates, model).evaluate(DATA, candidates) == pytest.approx(list(errors.values()))
    least = min(PAIRS, key=errors.__getitem__)
    favored = [Candidate(item=Item(pair), weight=100.0 if pair == least else 1.0) for pair in PAIRS]
    assert exponential_selection(curator, model, favored, Rho(1e8)).clique == least
    expected = [Candidate(item=Item(pair), expected_error=0.0 if pair == least else 1e3) for pair in PAIRS]
    assert exponential_selection(curator, model, expected, Rho(1e8)).clique == least


def test_a_graphical_model_learns_and_keeps_within_its_limit():
    curator = Curator(DATA, Rho(1e7), backend="simulation", seed=0)
    curator.count(Rho(1e6))
    limit = tree_limit(curator, [("a",), ("b",), ("c",)], max_megabytes=11 * 8e-6)
    estimator = GraphicalModel(curator, limit)
    assert estimator.model.project("a").values == pytest.approx([7.5, 7.5], abs=0.1)
    assert estimator.admissible([*PAIRS, PAIRS[0]]) == [("a", "b"), ("a", "c"), ("b", "c")]
    curator.measure(("a", "b"), Rho(1e6))
    estimator.learn(curator, last=False)
    assert estimator.model.project(("a", "b")).values == pytest.approx(DATA.project(("a", "b")).values, abs=0.1)
    assert estimator.admissible([("a", "c"), ("a", "b", "c")]) == [("a", "c")]  # 6 + 4 cells, or 12
    assert ("a", "b") in limit.cliques
