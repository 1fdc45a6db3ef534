"""What a solver says about its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EstimationReport:
    """How an estimate was found and how good it is.

    Attributes:
        method: the solver that ran.
        loss: the loss at the model's marginals; with a prior_weight, the penalty included.
        gap: the duality gap, a proven upper bound on how far `loss` is above the optimum, in the units of the loss.
        relative_gap: the gap as a share of the larger of the optimum's lower bound and the noise floor, what the loss
            would be on average at the truth; this is what `tolerance` is compared with.
        iterations: steps of the solver.
        oracle_calls: calls of the marginal oracle, those for certificates included.
        seconds: wall-clock time.
        converged: whether the solver got where it goes: to an optimum within the tolerance, or, for "mirror_flow", to
            the time at which it stops on purpose. Only the first makes `relative_gap` small.
        message: short of convergence, what stopped the solver and what to change; for "mirror_flow" at which time it
            stopped, and how far the loss is above the optimum at most.
    """

    method: str
    loss: float
    gap: float
    relative_gap: float
    iterations: int
    oracle_calls: int
    seconds: float
    converged: bool
    message: str = ""

    def __str__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"{state}: {self.method}, {self.iterations:,} iterations, {self.oracle_calls:,} oracle calls, "
            f"{self.seconds:.3g} s\n"
            f"loss {self.loss:,.6g}, proven within {self.gap:,.4g} of the optimum "
            f"(relative gap {self.relative_gap:.2g})" + (f"\n{self.message}" if self.message else "")
        )
