"""PosteriorReport: how the draws of a posterior were made, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import plural
from pgmest.models.posterior.diagnostics import bulk_ess, r_hat, tail_ess

GOOD_R_HAT = 1.05
MOST_DIVERGENT = 0.02
"""A trajectory that loses its energy is rejected, which is right; a larger share hints at places not reached."""

FEW = 100.0
"""Effective draws per quantile asked for: below it a Monte Carlo error is worth a word."""


@dataclass(frozen=True)
class PosteriorReport:
    """Diagnostics of the counts of measured cells and of the total.

    Attributes:
        method: "hmc", or "laplace", whose draws are independent of each other.
        chains, draws: how many, draws over all chains.
        bulk_ess, tail_ess: effective sample sizes, at the 5 % of quantities that mix worst, for means and quantiles.
        median_ess: the effective sample size for means at the median quantity.
        r_hat: that which 95 % of the quantities stay below.
        total_r_hat, total_ess: of the number of records; 1 and the number of draws where it is known.
        divergent: how many trajectories lost their energy.
        acceptance: the mean acceptance probability.
        misfit: of Laplace's approximation: the standard deviation of the log of the true density over its own, in nats.
        gradients: of the log-density, over all chains, the warm-up included.
        seconds: in all.
    """

    method: str
    chains: int
    draws: int
    bulk_ess: float
    tail_ess: float
    median_ess: float
    r_hat: float
    total_r_hat: float
    total_ess: float
    divergent: int
    acceptance: float
    misfit: float
    gradients: int
    seconds: float

    @classmethod
    def of(cls, counts: np.ndarray, totals: np.ndarray, **facts: object) -> PosteriorReport:
        """From draws of counts, shape (chains, draws, quantities), and of totals, shape (chains, draws)."""
        bulk, ratio = bulk_ess(counts), r_hat(counts)
        return cls(
            chains=counts.shape[0],
            draws=counts.shape[0] * counts.shape[1],
            bulk_ess=float(np.quantile(bulk, 0.05)),
            tail_ess=float(np.quantile(tail_ess(counts), 0.05)),
            median_ess=float(np.median(bulk)),
            r_hat=float(np.quantile(ratio, 0.95)),
            total_r_hat=float(r_hat(totals[:, :, None])[0]),
            total_ess=float(bulk_ess(totals[:, :, None])[0]),
            **facts,  # type: ignore[arg-type]
        )

    @property
    def reliable(self) -> bool:
        """Whether chains agree with each other, and nearly no trajectory lost its energy."""
        return max(self.r_hat, self.total_r_hat) <= GOOD_R_HAT and self.divergent <= MOST_DIVERGENT * self.draws

    def __str__(self) -> str:
        how = (
            f"{plural(self.chains, 'chain')}, acceptance {self.acceptance:.2f}"
            if self.method == "hmc"
            else (f"independent draws, misfit {self.misfit:.2g} nats")
        )
        lines = [
            f"{self.method}: {plural(self.draws, 'draw')}, {how}, {self.seconds:,.3g} s",
            f"effective draws: {self.median_ess:,.0f} at the median cell, {self.bulk_ess:,.0f} (means) and "
            f"{self.tail_ess:,.0f} (quantiles) at the worst 5 %; R-hat {self.r_hat:.3f} at the worst 5 %; "
            f"total {self.total_ess:,.0f}, {self.total_r_hat:.3f}",
        ]
        if not self.reliable:
            apart = max(self.r_hat, self.total_r_hat) > GOOD_R_HAT
            trouble = "chains disagree" if apart else f"{self.divergent:,} of the trajectories diverged"
            lines.append(f"not reliable yet: {trouble}; raise warm_up= or draws=.")
        elif self.bulk_ess < FEW:
            lines.append("some cells have few effective draws: raise draws= before quoting their intervals.")
        return "\n".join(lines)
