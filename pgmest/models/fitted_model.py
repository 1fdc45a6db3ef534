"""Models from the end of a solver's run: `solved_model` of an estimate, `fitted_model` of given marginals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgmest.losses.l2 import L2Loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.solvers.ipf import IterativeProportionalFitting
from pgmest.solvers.problem import Problem
from pgmest.solvers.refit import Objective, Refit
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.run import Stopping
from pgmest.solvers.solver import State
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain


def solved_model(
    problem: Problem,
    state: State,
    report: EstimationReport,
    objective: Objective,
    measurements: Sequence[LinearMeasurement],
    total_stddev: float | None = None,
) -> Model:
    """Return the model at the end of a run on a junction tree, with the recipe that estimates it again."""
    refit = Refit.of(problem, objective)
    return Model(
        refit.potentials(state.theta),
        problem.total,
        report,
        total_stddev=total_stddev,
        measurements=tuple(measurements),
        plan=refit.plan,
        refit=refit,
    )


def fitted_model(
    tables: Sequence[LinearMeasurement],
    domain: Domain,
    total: float,
    tolerance: float,
    rounds: int,
    base: Iterable[CliqueVector] = (),
) -> Model:
    """Return the model of maximum entropy with these marginals, as `estimate(..., method="ipf")` finds it.

    Args:
        tables: whole marginals, in counts, that fit the domain and nearly agree with each other.
        domain: the attributes.
        total: the number of records.
        tolerance, rounds: the stopping rule, as for `estimate`.
        base: potentials of structural zeros.
    """
    objective = Objective(total, "l2", IterativeProportionalFitting(), Stopping(tolerance, rounds))
    problem = Problem.of(L2Loss(tables, domain), total, base)
    problem, state, report = objective.minimize(problem, problem.base.copy())
    return solved_model(problem, state, report, objective, tables)
