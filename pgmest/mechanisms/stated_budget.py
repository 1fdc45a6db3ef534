"""The budget that the parameters of a mechanism state."""

from __future__ import annotations

from pgmest.errors import ArgumentError
from pgmest.privacy.budgets import GDP, Epsilon, Rho


def stated_budget(
    name: str, definition: str, epsilon: float | None, delta: float | None, rho: float | None, *, gdp: bool
) -> Epsilon | Rho | GDP:
    """Return the budget of a mechanism.

    Args:
        name: the name of the mechanism, for errors.
        definition: the budgets that it can spend (`Mechanism.definition`).
        epsilon, delta, rho: the parameters.
        gdp: whether (epsilon, delta) is converted to mu and not to rho.

    Raises:
        ArgumentError: if no budget is stated, or two budgets, or a budget that the mechanism cannot spend.
    """
    if rho is not None:
        if epsilon is not None or delta is not None:
            raise ArgumentError(f"{name} got rho= and epsilon= or delta=: state the budget once.")
        if definition == "pure":
            raise ArgumentError(f"{name} is a pure epsilon-DP mechanism: give epsilon= instead of rho=.")
        return Rho(rho)
    if epsilon is None:
        wanted = "epsilon=" if definition == "pure" else "epsilon= or rho="
        raise ArgumentError(f"{name} needs a privacy budget: give {wanted}.")
    if not delta:
        if definition == "zcdp":
            raise ArgumentError(
                f"{name} got delta=0, but spends its budget under zCDP, which implies (epsilon, delta)-DP for "
                "positive deltas only: leave delta= out, or give one well below 1 / records."
            )
        return Epsilon(epsilon)
    if definition == "pure":
        raise ArgumentError(f"{name} is pure epsilon-DP, so delta={delta} is not spent: leave delta= out.")
    return (GDP if gdp else Rho).of(epsilon, delta)
