"""Audits: no primitive costs more than it claims, noise halved is caught, and the bounds themselves hold."""

from dataclasses import replace

import numpy as np
import pytest

import pgmest as pg
from pgmest._base.errors import ArgumentError, BudgetTypeError, ChargeError
from pgmest.privacy import AddRemove, ApproxDP, Curator, Epsilon, Replace, Rho, audit, selection
from pgmest.privacy import curator as curator_module
from pgmest.privacy.audit import likelihood_ratio
from pgmest.privacy.noise import Simulation

DOMAIN = pg.Domain({"a": 2, "b": 2})
FEW = pg.Dataset.from_codes(np.array([[0, 0], [1, 1]]), DOMAIN)
ADDED = pg.Dataset.from_codes(np.array([[0, 0], [1, 1], [0, 1]]), DOMAIN)
REPLACED = pg.Dataset.from_codes(np.array([[0, 0], [0, 1]]), DOMAIN)
BUDGETS = [Epsilon(1.0), Rho(0.5), ApproxDP(1.0, 0.05)]
TRIALS = 300


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
    "marginal": measured(),
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

    noise_for, add_noise = curator_module.noise_for, Simulation.add_noise
    other = ADDED if neighbors == AddRemove() else REPLACED
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    run, statistic = asked(measured(), budget, neighbors), likelihood_ratio(FEW, other)
    honest = audit(run, FEW, other, statistic=statistic, trials=TRIALS, delta=delta)
    with monkeypatch.context() as patched:
        patched.setattr(curator_module, "noise_for", halved)
        with pytest.raises(ChargeError, match="please report"):
            run(FEW, 0)

    def halved_draw(self, answers, noise, request):
        return add_noise(self, answers, replace(noise, scale=noise.scale / 2), request)

    monkeypatch.setattr(Simulation, "add_noise", halved_draw)
    broken = audit(run, FEW, other, statistic=statistic, trials=3 * TRIALS, delta=delta)
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
    for options in ({"trials": 3}, {"delta": 1.0}, {"confidence": 1.0}):
        with pytest.raises(ArgumentError, match=next(iter(options))):
            audit(lambda data, seed: 0.0, FEW, ADDED, **options)
    report = audit(lambda data, seed: 0.0, FEW, ADDED, trials=10, delta=0.1)
    for claim in (Epsilon(1.0), ApproxDP(1.0, 0.2)):
        with pytest.raises(BudgetTypeError, match=r"delta=0\.1"):
            report.contradicts(claim)
