"""The recipe of an estimate without its answers, from which it can be repeated with other answers to the same queries.

The bootstrap of `pgmest.uncertainty` needs it: error bars come from models that are estimated from answers with fresh
noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pgmest.errors import TotalError
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.functional_dependencies import Collapse, CollapsedOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.losses.base import FlatLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.facts import Terms
from pgmest.solvers.facts_oracle import FactsOracle
from pgmest.solvers.fitted_total import fit_total, without_steps
from pgmest.solvers.problem import Problem
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.run import Minimization, Stopping
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.total import TotalEstimate, estimate_total
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain

Total = float | Literal["fit"] | None


@dataclass(frozen=True)
class Objective:
    """The loss, the solver and the stopping rule of an estimate, without the answers.

    Attributes:
        total: the argument `total` of `estimate`: a number of records, None or "fit".
        loss: the argument `loss` of `estimate`: a name, an object, or a function from measurements to a loss.
        solver: the solver.
        stopping: the stopping rule.
    """

    total: Total
    loss: Any
    solver: Solver[Any]
    stopping: Stopping

    def minimize(self, problem: Problem, theta: np.ndarray) -> tuple[Problem, State, EstimationReport]:
        """Run the solver, and with total="fit" also fit the total.

        Without records every distribution fits alike, so the result is the start.

        Returns:
            the problem with its total, the last state with potentials in the exponential family, and the report.
        """
        if problem.total == 0.0:
            return problem, *without_steps(problem, theta, self.stopping)
        if self.total == "fit":
            problem, state, report = fit_total(problem, theta, self.solver, self.stopping)
        else:
            state, report = Minimization(problem, self.solver, self.stopping).run(theta)
        if isinstance(problem.oracle, FactsOracle):  # the distribution's potentials include the multipliers of facts
            state = State(*problem.oracle.potentials(state.theta))
        return problem, state, report


@dataclass(frozen=True, eq=False)
class Refit:
    """The parts of an estimate that a repetition with other answers can reuse.

    Attributes:
        objective: the loss, solver and stopping rule, without the callback.
        plan: the measured cliques of the oracle and their junction tree.
        collapse: the map between measured cliques and those of the plan, if functional dependencies were collapsed.
        base: the base potentials of the problem, flat.
    """

    objective: Objective
    plan: PropagationPlan
    collapse: Collapse | None
    base: np.ndarray

    @classmethod
    def of(cls, problem: Problem, objective: Objective) -> Refit:
        """Return the recipe of a problem whose oracle is exact."""
        oracle = problem.plain.oracle
        assert isinstance(oracle, ExactOracle | CollapsedOracle)
        collapse = oracle.collapse if isinstance(oracle, CollapsedOracle) else None
        quiet = replace(objective, stopping=replace(objective.stopping, callback=None))
        return cls(quiet, oracle.plan, collapse, problem.base)

    def potentials(self, theta: np.ndarray) -> CliqueVector:
        """Convert a problem's flat potentials to the cliques of the plan."""
        flat = theta if self.collapse is None else self.collapse.inward(theta)
        return CliqueVector.of(self.plan.layout, flat)

    @property
    def start(self) -> CliqueVector:
        """The base potentials, on the cliques of the problem; -inf in impossible cells."""
        layout = self.plan.layout if self.collapse is None else self.collapse.outer
        return CliqueVector.of(layout, self.base)

    @property
    def tolerance(self) -> float:
        """The relative gap at which the estimate stopped."""
        return self.objective.stopping.tolerance

    @property
    def repeatable(self) -> bool:
        """True if the loss can be made from other answers; False for a loss object that holds its answers."""
        loss = self.objective.loss
        return not isinstance(loss, FlatLoss) and (isinstance(loss, str | type) or not hasattr(loss, "cliques"))

    @property
    def picklable(self) -> bool:
        """True if the loss was given by name. A user's loss object or function may not survive pickling."""
        return isinstance(self.objective.loss, str)

    def oracle(self) -> ExactOracle | CollapsedOracle:
        """Return a new oracle with a separate workspace."""
        exact = ExactOracle(self.plan)
        return exact if self.collapse is None else CollapsedOracle(exact, self.collapse)

    def repeat(
        self, measurements: Sequence[LinearMeasurement], oracle: ExactOracle | CollapsedOracle, tolerance: float
    ) -> tuple[CliqueVector, float, EstimationReport]:
        """Estimate from other answers to the same queries, in the same order.

        The solver starts from the base potentials. A start from the first estimate would take four times as many steps
        to the certified tolerance, because cells that the first answers have emptied fill slowly.

        Args:
            measurements: the other answers.
            oracle: an oracle from `oracle()`; threads must not share one.
            tolerance: the relative gap at which to stop.

        Returns:
            the potentials on the cliques of `plan`, the total, and the report.
        """
        domain = self.plan.layout.domain
        known = starting_total(self.objective.total, measurements, domain)
        terms = Terms.of(self.objective.loss, measurements, domain)
        problem = Problem(terms.loss, known.value, oracle, self.base, terms.facts(oracle.layout))
        objective = replace(self.objective, stopping=replace(self.objective.stopping, tolerance=tolerance))
        problem, state, report = objective.minimize(problem, self.base.copy())
        return self.potentials(state.theta), problem.total, report


def starting_total(total: Total, measurements: Sequence[LinearMeasurement], domain: Domain) -> TotalEstimate:
    """Return the number of records to start from, given the argument `total` of `estimate`.

    With "fit" and measurements that do not determine the total, the start is the largest absolute answer.

    Raises:
        TotalError: without `total`, the measurements do not determine the number of records.
    """
    if total is None:
        return estimate_total(measurements, domain)
    if total != "fit":
        return TotalEstimate(float(total), 0.0)
    try:
        return estimate_total(measurements, domain)
    except TotalError:
        if not measurements:
            raise
        return TotalEstimate(max(1.0, *(float(np.abs(m.values).max(initial=0.0)) for m in measurements)), math.inf)
