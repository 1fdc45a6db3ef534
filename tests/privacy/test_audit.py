"""Audits: no primitive costs more than it claims, noise halved is caught, and the bounds themselves hold."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, BudgetTypeError, ChargeError
from pgmest.privacy import GDP, AddRemove, ApproxDP, Curator, Epsilon, Replace, Rho, audit, requests, selection
from pgmest.privacy.audit import least_trials, likelihood_ratio
from pgmest.privacy.noise import Simulation
from pgmest.privacy.transcript import Witness, privacy_loss

DOMAIN = pg.Domain({"a": 2, "b": 2})
FEW = pg.Dataset.from_codes(np.array([[0, 0], [1, 1]]), DOMAIN)
ADDED = pg.Dataset.from_codes(np.array([[0, 0], [1, 1], [0, 1]]), DOMAIN)
REPLACED = pg.Dataset.from_codes(np.array([[0, 0], [0, 1]]), DOMAIN)
BUDGETS = [Epsilon(1.0), Rho(0.5), ApproxDP(1.0, 0.05)]
TRIALS = 300

POWERFUL: dict[type, dict[str, Any]] = {
    Epsilon: {"trials": 300, "threshold": 0.7},
    Rho: {"trials": 450, "threshold": 0.0},
    ApproxDP: {"trials": 900},
}
"""The trials, and the threshold of the likelihood ratio, by which noise halved is caught, whatever the seed."""


def asked(request, budget, neighbors=None):
    """A run of one request, as `audit` calls it."""

    def run(data, seed):
        curator = Curator(data, budget, neighbors=neighbors or AddRemove(), backend="simulation", seed=seed)
        request(curator)
        return curator

    return run


def measured(query=None):
    return lambda curator: curator.measure(("a", "b"), curator.budget, query)


REQUESTS = {
    "real query": measured(np.array([[0.5, 1.5, 0.0, 0.0], [0.25, -0.7, 0.3, 1.0]])),
    "two marginals": lambda curator: curator.measure_all(["a", ("b", "a")], curator.budget),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_measurements_cost_no_more_than_they_claim(name, budget):
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    statistic = likelihood_ratio(FEW, ADDED)
    report = audit(asked(REQUESTS[name], budget), FEW, ADDED, statistic=statistic, trials=TRIALS, delta=delta)
    assert not report.contradicts(budget)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()], ids=str)
def test_noise_halved_is_caught(budget, neighbors, monkeypatch):
    def halved(*arguments):
        noise = noise_for(*arguments)
        return replace(noise, scale=noise.scale / 2)

    noise_for, add_noise = requests.noise_for, Simulation.add_noise
    other = ADDED if neighbors == AddRemove() else REPLACED
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    run, statistic = asked(measured(), budget, neighbors), likelihood_ratio(FEW, other)
    powerful = POWERFUL[type(budget)]
    few: dict[str, Any] = {**powerful, "trials": TRIALS // 2}
    honest = audit(run, FEW, other, statistic=statistic, delta=delta, **few)
    with monkeypatch.context() as patched:
        patched.setattr(requests, "noise_for", halved)
        with pytest.raises(ChargeError, match="please report"):
            run(FEW, 0)

    def halved_draw(self, answers, noise, request):
        return add_noise(self, answers, replace(noise, scale=noise.scale / 2), request)

    monkeypatch.setattr(Simulation, "add_noise", halved_draw)
    broken = audit(run, FEW, other, statistic=statistic, delta=delta, **powerful)
    assert not honest.contradicts(budget)
    assert broken.contradicts(budget)


def selected(budget):
    """Counts as scores, each of which one record more raises by one at most: the worst case for two candidates."""

    def run(data, seed):
        curator = Curator(data, budget, backend="simulation", seed=seed)
        far = 1.0 if data.records > 2 else 0.0
        return curator.select([0.0, 1.0], lambda records: [-far, far], 1.0, budget)

    return run


@pytest.mark.parametrize("budget", [Epsilon(1.0), Rho(0.5)], ids=str)
def test_selection_costs_no_more_than_it_claims_and_noise_halved_is_caught(budget, monkeypatch):
    assert not audit(selected(budget), FEW, ADDED, trials=TRIALS).contradicts(budget)
    noise_scale, noisy_max = selection.noise_scale, Simulation.noisy_max
    with monkeypatch.context() as patched:
        patched.setattr(selection, "noise_scale", lambda *arguments: noise_scale(*arguments) / 3)
        with pytest.raises(ChargeError, match="please report"):
            selected(budget)(FEW, 0)
    monkeypatch.setattr(
        Simulation, "noisy_max", lambda self, scores, scale, *rest: noisy_max(self, scores, scale / 3, *rest)
    )
    assert audit(selected(budget), FEW, ADDED, trials=3 * TRIALS).contradicts(budget)


def test_the_bounds_hold_for_randomized_response_and_come_close():
    def response(data, seed):
        truth = data.records > 2
        kept = np.random.default_rng(seed).random() < np.e / (1 + np.e)
        return truth == kept

    report = audit(response, FEW, ADDED, trials=4000)
    assert 0.75 < report.epsilon <= 1.0
    assert 0.3 < report.rho <= 0.4622
    assert report.trials == 4000


def test_outputs_alike_prove_nothing():
    report = audit(lambda data, seed: np.random.default_rng(seed).normal(), FEW, ADDED, trials=200)
    assert report.epsilon < 0.5
    assert not report.contradicts(Epsilon(0.5))
    assert audit(lambda data, seed: 0.0, FEW, ADDED, trials=10).epsilon == 0.0


def test_outputs_always_apart_prove_much():
    report = audit(lambda data, seed: data.records, FEW, ADDED, trials=1000, delta=0.1)
    assert report.epsilon > 3.5
    assert report.rho > 3.0
    assert report.contradicts(ApproxDP(3.0, 0.1))


def test_arguments_that_cannot_be():
    wrong: list[dict[str, Any]] = [{"trials": 3}, {"delta": 1.0}, {"confidence": 1.0}]
    for options in wrong:
        with pytest.raises(ArgumentError, match=next(iter(options))):
            audit(lambda data, seed: 0.0, FEW, ADDED, **options)
    report = audit(lambda data, seed: 0.0, FEW, ADDED, trials=10, delta=0.1)
    for claim in (Epsilon(1.0), ApproxDP(1.0, 0.2)):
        with pytest.raises(BudgetTypeError, match=r"delta=0\.1"):
            report.contradicts(claim)


def test_an_audit_says_what_it_could_have_shown_and_refuses_trials_that_cannot_contradict_the_claim():
    def told(data, seed):
        return float(data.records)

    report = audit(told, FEW, ADDED, trials=200, confidence=0.99)
    assert (report.epsilon, report.rho, report.mu) == (report.most_epsilon, report.most_rho, report.most_mu)
    assert 2.8 < report.most_epsilon < 3.0
    assert "epsilon at least 2.911 (at most 2.911 can be shown)" in str(report)
    for claim in (Epsilon(3.0), Rho(4.0), GDP(50.0)):
        needed = least_trials(claim, 0.99)
        with pytest.raises(ArgumentError, match=f"at least {needed}: fewer show at most"):
            audit(told, FEW, ADDED, trials=needed - 1, confidence=0.99, claim=claim)
        assert audit(told, FEW, ADDED, trials=needed, confidence=0.99, claim=claim).contradicts(claim)
        assert least_trials(claim, 0.99, threshold=True) < needed
    with pytest.raises(ArgumentError, match="any number of trials"):
        least_trials(Epsilon(1000.0))


@pytest.mark.parametrize("backend", ["simulation", "opendp"])
def test_mu_of_a_gaussian_is_seen_and_not_exceeded(backend):
    private = privacy_loss(
        lambda curator: curator.measure(("a", "b"), curator.budget), FEW, ADDED, GDP(4.0), backend=backend
    )
    report = audit(private, FEW, ADDED, trials=800, confidence=0.98, threshold=0.0)
    assert 0.8 * 2.0 < report.mu <= 2.0 * 1.01
    assert not report.contradicts(GDP(4.0 * 1.02))
    assert report.contradicts(GDP(2.0))


def test_both_requests_of_a_witness_s_run_are_told():
    witness = Witness(FEW, ADDED, Rho(1.0), backend="simulation", seed=0)
    witness.measure("a", Rho(0.25))
    witness.select("xy", lambda data: [data.records, 0], 1.0, Rho(0.25), monotone=False)
    witness.release(lambda data, rng: 1, Rho(0.25), label="own")
    losses = [answer.loss for answer in witness.answers]
    assert losses[0] == pytest.approx(0.25)
    assert losses[1] == pytest.approx(0.25 / 4, rel=1e-4)  # one score moves, in one direction: half the range
    assert np.isnan(losses[2])
    assert not witness.excessive


def test_the_same_loss_is_had_from_probabilities_and_from_what_was_answered():
    """Summed over all answers, the ratio of probabilities is 1: the log ratios are those of the distributions."""
    for budget in (Rho(0.5), Epsilon(1.0)):
        ratios = []
        for seed in range(400):
            witness = Witness(FEW, ADDED, budget, backend="simulation", seed=seed)
            witness.measure("a", budget / 2)
            witness.select("xyz", lambda data: [0, data.records, 1], 1.0, budget / 2)
            ratios.append(math.exp(-witness.log_ratio))
        assert np.mean(ratios) == pytest.approx(1.0, abs=0.25)
