"""The audit in one run: its bound holds, grows with the privacy lost, and says what it could have shown."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.privacy import Curator, Rho
from pgmest.privacy.one_run import audit_in_one_run, one_run_epsilon, one_run_p_value

CANARIES = 400
DOMAIN = pg.Domain({"who": CANARIES + 1})
BASE = pg.Dataset.from_codes(np.full((50, 1), CANARIES), DOMAIN)
EACH = pg.Dataset.from_codes(np.arange(CANARIES)[:, None], DOMAIN)


def audited(rho, seed=0, **options):
    def counted(data):
        return Curator(data, Rho(rho), backend="simulation", seed=seed).measure("who", Rho(rho)).values[:CANARIES]

    return audit_in_one_run(counted, BASE, EACH, lambda counts: counts, seed=seed, **options)


def test_more_privacy_lost_shows_more():
    bounds = [audited(rho, delta=1e-5, guesses=100).epsilon for rho in (0.01, 0.5, 8.0)]
    assert bounds[0] <= bounds[1] < bounds[2]
    for rho, bound in zip((0.01, 0.5, 8.0), bounds, strict=True):
        assert bound <= Rho(rho).to_approx(1e-5).epsilon
    assert bounds[1] > 0.5
    report = audited(50.0, guesses=60)
    assert (report.correct, report.guesses, report.epsilon) == (60, 60, report.most_epsilon)


def test_the_bound_holds_for_randomized_response():
    """Each canary by itself is exactly epsilon-DP: right guesses are binomial, and the bound fails one time in 100."""
    epsilon, guesses, failures = 1.0, 50, 0
    for right in range(guesses + 1):
        if one_run_epsilon(right, guesses, guesses) > epsilon:
            failures += binom.pmf(right, guesses, np.e**epsilon / (1 + np.e**epsilon))
    assert 0.001 < failures <= 0.01


def test_p_values():
    assert one_run_p_value(5, 10, 10, 0.0) == pytest.approx(binom.sf(4, 10, 0.5))
    assert one_run_p_value(9, 10, 20, 0.5, 1e-3) > one_run_p_value(9, 10, 20, 0.5)
    assert one_run_p_value(0, 10, 20, 0.5, 1e-3) == 1.0
    assert one_run_epsilon(100, 100, 100, delta=0.5) == 0.0


def test_arguments_that_cannot_be():
    wrong: list[dict[str, Any]] = [{"guesses": 1}, {"guesses": 401}, {"delta": 1.0}, {"confidence": -1.0}]
    for options in wrong:
        with pytest.raises(ArgumentError, match=next(iter(options))):
            audited(1.0, **options)
