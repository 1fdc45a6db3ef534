"""PPSyn as published: Algorithms 1 and 2 by hand, the budget spent, and that its output says it is not private."""

import numpy as np
import pytest

import pgmest as pg
from experiments.ppsyn.published import (
    LABEL,
    LARGEST_RHO,
    PPSynAsPublishedNotPrivate,
    Question,
    TrueMarginals,
    exponential_mechanism,
    uniform_estimate,
    weighed_by_stddev,
)
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms import Independent
from pgmest.mechanisms.ppsyn.partitions import Partition
from pgmest.privacy import AddRemove, Replace, Rho
from tests.mechanisms.auditing import DATA, NEIGHBOUR
from tests.mechanisms.repeating import check_failed_run, check_seeds
from tests.mechanisms.test_true_scores import watched
from tests.privacy.amounts import rho

CENSUS = pg.datasets.load("census").select(["age", "education-num", "sex", "hours-per-week", "income>50K"])


@pytest.mark.parametrize("rho", [0.001, 1.0])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
def test_the_budget_is_spent_and_not_more(rho, neighbors):
    mechanism = PPSynAsPublishedNotPrivate(rho=rho, neighbors=neighbors, rounds=20, backend="simulation")
    result = mechanism.fit(DATA, seed=0)
    assert result.ledger.total <= Rho(rho)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert [m.clique for m in result.measurements[3:]] == result.details["chosen"]


def test_seeds_repeat_runs():
    check_seeds(PPSynAsPublishedNotPrivate(rho=0.05, rounds=6, backend="simulation"))


def test_a_checkpoint_repeats_what_was_paid(tmp_path):
    check_failed_run(PPSynAsPublishedNotPrivate(rho=0.05, rounds=6, backend="opendp"), tmp_path / "run", charges=4)


def test_neither_the_result_nor_the_mechanism_keeps_true_marginals(monkeypatch):
    mechanism = PPSynAsPublishedNotPrivate(rho=0.5, rounds=3, backend="simulation")
    with watched(monkeypatch, "/nowhere") as secret:
        result = mechanism.fit(CENSUS.take(slice(0, 300)), seed=0, progress=False)
    assert secret.tables
    assert not secret.inside(vars(result))
    assert not secret.inside(vars(mechanism))


def test_the_published_variant_says_that_it_is_not_private():
    result = PPSynAsPublishedNotPrivate(rho=0.1, rounds=5, backend="simulation").fit(DATA, seed=0)
    labels = [entry.label for entry in result.ledger if entry.kind == "release"]
    assert set(labels) == {LABEL}
    assert len(labels) == len(result.details["chosen"])
    assert result.details["private"] is False
    assert "NOT PRIVATE" in str(result)


def asked_of(data, candidates, estimated, eta=0.5, rho_exp=1e9):
    """Return the output of Algorithm 2, without randomness."""
    truth = TrueMarginals(tuple(candidates), eta, AddRemove())
    question = Question(tuple(candidates), estimated, rho_exp, np.zeros(len(candidates)))
    return truth.answer(data, question)


def test_the_published_budget_tells_neighbors_apart():
    model = [np.full((2, 3), 2.5)]
    asked = [asked_of(data, [("a", "b")], model) for data in (DATA, NEIGHBOUR)]
    assert asked[0]["rho"] != asked[1]["rho"]


def test_algorithm_2_by_hand():
    data = pg.Dataset.from_codes(np.array([[0, 0]] * 10 + [[1, 1]] * 30), {"a": 2, "b": 2})
    # a: contribution 20, of which half may be error. Both cells: 4 / (pi 100); merged they leave 20. Score 1571.
    asked = asked_of(data, [("a",)], [np.array([20.0, 20.0])])
    assert (asked["boxes"], asked["count"], asked["candidate"]) == ([0, 1], 2, 0)
    assert asked["rho"] == pytest.approx(4 / (np.pi * 100))
    # a and b: its contribution is 40, and it costs less for each count of it.
    pair = [("a",), ("a", "b")]
    asked = asked_of(data, pair, [np.array([20.0, 20.0]), np.full((2, 2), 10.0)])
    scores = [20 / (4 / (np.pi * 100)), 40 / asked["rho"]]
    assert asked["candidate"] == int(np.argmax(scores)) == 1
    # What the model has right contributes nothing, and is not selected.
    asked = asked_of(data, pair, [np.array([10.0, 30.0]), np.full((2, 2), 10.0)])
    assert asked["candidate"] == 1
    assert asked_of(data, [("a",)], [np.array([10.0, 30.0])])["rho"] == LARGEST_RHO


def test_the_exponential_mechanism_selects_as_often_as_it_says():
    rng, scores = np.random.default_rng(0), np.array([0.0, 1.0, 2.0])
    drawn = [exponential_mechanism(scores, 0.5, 1.0, rng.gumbel(size=3)) for _ in range(20_000)]
    expected = np.exp(scores)  # epsilon = sqrt(8 / 2) = 2, halved
    assert np.bincount(drawn) / 20_000 == pytest.approx(expected / expected.sum(), abs=0.015)


def test_the_scores_drown_the_exponential_mechanism():
    """The published selection is an argmax: with a sensitivity of 1 a score is thousands of Gumbel deviations."""
    even = np.full((85, 2), CENSUS.records / 170)
    asked = asked_of(CENSUS, [("age", "sex")], [even], eta=0.7)
    score = np.abs(CENSUS.project(("age", "sex")).values - even).sum() / asked["rho"]
    assert np.sqrt(8 * 1e-6) / 2 * score > 1e3  # for a rho_exp of a millionth


def test_the_estimate_of_a_cell_is_its_share_of_the_interval():
    noisy = pg.LinearMeasurement([6.0, 1.0], ("a",), 2.0)
    estimate = uniform_estimate(noisy, Partition(np.array([0, 0, 0, 1]), 2))
    assert estimate.values.tolist() == [2.0, 2.0, 2.0, 1.0]
    assert (estimate.stddev, estimate.query) == (2.0, None)


def test_algorithm_1_spends_as_it_says():
    mechanism = PPSynAsPublishedNotPrivate(rho=0.1, rounds=10, backend="simulation")
    result = mechanism.fit(CENSUS, [("age", "sex"), ("income>50K", "sex")], seed=0)
    one_way = [rho(e.cost) for e in result.ledger if e.kind == "measure"][: len(CENSUS.domain)]
    parts = np.array(CENSUS.domain.shape) ** (2 / 3)  # the workload does not name all of them
    assert sorted(one_way) == pytest.approx(sorted(0.01 * parts / parts.sum()))
    selections = [rho(entry.cost) for entry in result.ledger if entry.kind == "release"]
    assert selections == pytest.approx([0.1 * 0.1 / 10] * len(selections))
    assert len(selections) <= 9 * 10
    assert rho(result.ledger.remaining) < 1e-12


def test_the_published_form_learns_the_workload():
    workload = [("age", "income>50K"), ("education-num", "income>50K")]
    pairs = pg.workloads.marginals(workload)
    fitted = PPSynAsPublishedNotPrivate(rho=0.1, backend="simulation").fit(CENSUS, workload, seed=0)
    alone = Independent(rho=0.1, backend="simulation").fit(CENSUS, workload, seed=0)
    errors = [pg.evaluation.workload_error(CENSUS, one, pairs, norm="tv", per="record") for one in (fitted, alone)]
    assert errors[0] < 0.6 * errors[1]


def letter(**parameters):
    return PPSynAsPublishedNotPrivate(
        rho=0.5, rounds=3, backend="simulation", candidates="workload", weights="stddev", **parameters
    )


def test_the_letter_measures_marginals_of_the_workload_only():
    """Of a workload of pairs and a triple the closure has all pairs of the triple, too; W has not."""
    workload = [("a", "b", "c"), ("b", "a")]
    domain = pg.Domain({name: 3 for name in "abc"})
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 3000)
    data = pg.Dataset.from_codes([first, first, np.where(rng.random(3000) < 0.2, 0, first)], domain)
    chosen = letter().fit(data, workload, seed=0, progress=False).details["chosen"]
    assert set(map(frozenset, chosen)) <= {frozenset("abc"), frozenset("ab")}
    closure = PPSynAsPublishedNotPrivate(rho=0.5, rounds=3, backend="simulation")
    sizes = {len(clique) for clique in closure.fit(data, workload, seed=0, progress=False).details["chosen"]}
    assert min(sizes) < 3


def test_the_letter_weighs_by_one_over_sigma():
    """Equation 6: the minimum of sum_i ||M(p) - y_i||^2 / sigma_i is the mean of the y_i with weights 1 / sigma_i."""
    taken = [LinearMeasurement([80.0, 20.0], "a", 1.0), LinearMeasurement([40.0, 60.0], "a", 4.0)]
    by_sigma = pg.estimate([weighed_by_stddev(one) for one in taken], {"a": 2}, total=100.0, tolerance=1e-9)
    np.testing.assert_allclose(by_sigma.project("a").values, [(80 + 40 / 4) / 1.25, (20 + 60 / 4) / 1.25], rtol=1e-4)
    by_variance = pg.estimate(taken, {"a": 2}, total=100.0, tolerance=1e-9).project("a").values
    np.testing.assert_allclose(by_variance, [(80 + 40 / 16) / 1.0625, (20 + 60 / 16) / 1.0625], rtol=1e-4)
