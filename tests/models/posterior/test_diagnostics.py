"""R-hat and effective sample sizes, on chains whose autocorrelation is known."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.models.posterior.diagnostics import bulk_ess, r_hat, tail_ess


def autoregressive(share: float, chains: int = 4, length: int = 4000) -> np.ndarray:
    generator = np.random.default_rng(0)
    found = np.empty((chains, length, 1))
    state = generator.normal(size=(chains, 1))
    for step in range(length):
        state = share * state + np.sqrt(1 - share**2) * generator.normal(size=(chains, 1))
        found[:, step] = state
    return found


@pytest.mark.parametrize("share", [-0.5, 0.0, 0.5, 0.9])
def test_effective_draws_of_an_autoregression(share) -> None:
    expected = 16000 * (1 - share) / (1 + share)
    assert bulk_ess(autoregressive(share))[0] == pytest.approx(expected, rel=0.2)
    assert r_hat(autoregressive(share))[0] == pytest.approx(1.0, abs=0.02)
    assert tail_ess(autoregressive(0.0))[0] == pytest.approx(16000, rel=0.15)


def test_chains_apart_or_of_other_widths_or_drifting_are_seen() -> None:
    draws = autoregressive(0.0, length=500)
    apart, wider, drifting = draws.copy(), draws.copy(), draws + np.linspace(0, 3, 500)[:, None]
    apart[0] += 2.0
    wider[0] *= 4.0
    for wrong in (apart, wider, drifting):
        assert r_hat(wrong)[0] > 1.1
    assert bulk_ess(apart)[0] < 50


def test_what_does_not_move_is_known() -> None:
    still = np.full((2, 10, 3), 7.0)
    np.testing.assert_array_equal(r_hat(still), 1.0)
    np.testing.assert_array_equal(bulk_ess(still), 20.0)
