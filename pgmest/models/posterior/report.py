"""PosteriorReport: how the draws of a posterior were made, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.errors import plural
from pgmest.models.posterior.diagnostics import bulk_ess, r_hat, tail_ess

GOOD_R_HAT = 1.05
"""The largest R-hat at which chains count as mixed. Vehtari et al. (2021) recommend 1.01 for final results."""
BAD_R_HAT = 1.1
"""The R-hat of one answer from which on its interval warns; few draws alone can exceed `GOOD_R_HAT`. Chains with less
disagree a little only."""

MOST_DIVERGENT = 0.02
"""The largest acceptable share of divergent trajectories; more of them hint at regions that are not reached."""

MISSED = 1e-3
"""The distance of a draw from an exact answer, in records, from which on the report mentions it."""
FEW = 100.0
"""With fewer effective draws than this, the report warns of the Monte Carlo error of quantiles."""


class PosteriorWarning(UserWarning):
    """The warning that answers or tables of a posterior are less certain than they look."""


@dataclass(frozen=True)
class PosteriorReport:
    """Diagnostics of the counts of measured cells and of the total.

    Attributes:
        method: "hmc", or "laplace", whose draws are independent.
        chains, draws: the number of chains, and of draws over all chains.
        bulk_ess, tail_ess: the effective sample sizes for means and quantiles, at the 5 % of quantities that mix worst.
        median_ess: the effective sample size for means at the median quantity.
        r_hat: the 95 % quantile of R-hat over the quantities.
        total_r_hat, total_ess: those of the number of records; 1 and the number of draws if the total is known.
        divergent: the number of trajectories that diverged.
        acceptance: the mean acceptance probability.
        misfit: for Laplace's approximation, the standard deviation of the log of the ratio of the densities, in nats.
        missed: the largest distance of a draw from an exact answer, in records.
        gradients: the number of gradients of the log-density, over all chains and the warm-up.
        seconds: the total time.
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
    missed: float
    gradients: int
    seconds: float

    @classmethod
    def of(cls, counts: np.ndarray, totals: np.ndarray, **facts: object) -> PosteriorReport:
        """Compute the diagnostics from counts, shape (chains, draws, quantities), and totals, shape (chains, draws)."""
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
    def disagreement(self) -> float:
        """The larger one of the R-hat of the cells and that of the number of records; 1 if draws are independent.

        Of few independent draws, the R-hat can be large by chance.
        """
        return max(self.r_hat, self.total_r_hat) if self.method == "hmc" else 1.0

    @property
    def reliable(self) -> bool:
        """True if the chains agree and hardly any trajectory diverged."""
        return self.disagreement <= GOOD_R_HAT and not self._diverges

    @property
    def nearly_reliable(self) -> bool:
        """True if the posterior is reliable except that its chains disagree a little."""
        return GOOD_R_HAT < self.disagreement <= BAD_R_HAT and not self._diverges

    @property
    def _diverges(self) -> bool:
        return self.divergent > MOST_DIVERGENT * self.draws

    @property
    def trouble(self) -> str:
        """The reason why the posterior is not reliable; empty if it is."""
        if self.reliable:
            return ""
        ratio = self.disagreement
        if not ratio <= GOOD_R_HAT:
            return f"its chains disagree (R-hat {ratio:.3g}, at most {GOOD_R_HAT} would do)"
        return f"{self.divergent:,} of {self.draws:,} trajectories diverged"

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
            lines.append(f"not reliable yet: {self.trouble}; raise warm_up= or draws=.")
        elif self.bulk_ess < FEW:
            lines.append("some cells have few effective draws: raise draws= before quoting their intervals.")
        if self.missed > MISSED:
            lines.append(
                f"some exact answers are missed by up to {self.missed:,.2g} records: they may contradict others."
            )
        return "\n".join(lines)
