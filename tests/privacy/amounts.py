"""The amounts of budgets whose kind a test knows."""

from __future__ import annotations

from pgmest.privacy import Budget, Epsilon, Rho


def epsilon(budget: Budget) -> float:
    """Return the epsilon of a budget of pure differential privacy."""
    assert isinstance(budget, Epsilon)
    return budget.epsilon


def rho(budget: Budget) -> float:
    """Return the rho of a budget of zero-concentrated differential privacy."""
    assert isinstance(budget, Rho)
    return budget.rho
