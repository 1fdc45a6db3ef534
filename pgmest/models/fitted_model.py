"""The model that has given marginals: what public tables become, and the trees of approximate models."""

from __future__ import annotations

from collections.abc import Sequence

from pgmest.losses.l2 import L2Loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.solvers.ipf import IterativeProportionalFitting
from pgmest.solvers.problem import Problem
from pgmest.solvers.refit import Recipe, minimize
from pgmest.tables.domain import Domain


def fitted_model(
    tables: Sequence[LinearMeasurement], domain: Domain, total: float, tolerance: float, rounds: int
) -> Model:
    """The model of maximum entropy that has these tables, as `estimate(..., method="ipf")` finds it.

    Args:
        tables: whole marginals, in counts, that fit the domain and nearly agree with each other.
        domain: the attributes.
        total: the number of records.
        tolerance, rounds: when to stop, as for `estimate`.
    """
    solver = IterativeProportionalFitting()
    problem = Problem.of(L2Loss(tables, domain), total)
    problem, state, report = minimize(problem, problem.base.copy(), solver, tolerance, rounds, fit=False)
    recipe = Recipe.of(problem, total, "l2", solver, tolerance, rounds)
    return Model(
        recipe.potentials(state.theta),
        problem.total,
        report,
        measurements=tuple(tables),
        plan=recipe.plan,
        recipe=recipe,
    )
