"""How a model was estimated, apart from the answers: enough to estimate again from other answers to the same questions.

Error bars need that: they come from models estimated from answers with fresh noise (`pgmest.uncertainty`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pgmest._base.errors import TotalError
from pgmest.inference.device.gpu_oracle import GpuOracle
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.functional_dependencies import Collapse, CollapsedOracle
from pgmest.inference.exact.plan import Plan
from pgmest.losses import make_loss
from pgmest.losses.base import FlatLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.fitted_total import fit_total
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
    """What an estimate minimizes and how, apart from the answers.

    Attributes:
        total: as asked for: a number of records, None or "fit".
        loss: as asked for: a name, an object, or what makes a loss of measurements.
        solver: the method.
        stopping: when it ends.
    """

    total: Total
    loss: Any
    solver: Solver[Any]
    stopping: Stopping

    def minimize(self, problem: Problem, theta: np.ndarray) -> tuple[Problem, State, EstimationReport]:
        """Run the solver; for total="fit" over the total, too. The problem returned has the total that was found."""
        if self.total == "fit":
            return fit_total(problem, theta, self.solver, self.stopping)
        return problem, *Minimization(problem, self.solver, self.stopping).run(theta)


@dataclass(frozen=True, eq=False)
class Refit:
    """What `estimate` built before it began, so that it need not be built again.

    Attributes:
        objective: what was minimized, without the callback.
        plan: what the oracle runs.
        collapse: which of the plan's cliques stand for measured ones, where some do.
        base: the base potentials of the problem.
    """

    objective: Objective
    plan: Plan
    collapse: Collapse | None
    base: np.ndarray

    @classmethod
    def of(cls, problem: Problem, objective: Objective) -> Refit:
        """What made a problem."""
        oracle = problem.oracle
        assert isinstance(oracle, ExactOracle | CollapsedOracle | GpuOracle)
        collapse = oracle.collapse if isinstance(oracle, CollapsedOracle) else None
        quiet = replace(objective, stopping=replace(objective.stopping, callback=None))
        return cls(quiet, oracle.plan, collapse, problem.base)

    def potentials(self, theta: np.ndarray) -> CliqueVector:
        """A problem's flat potentials, on the cliques of the plan."""
        flat = theta if self.collapse is None else self.collapse.inward(theta)
        return CliqueVector.of(self.plan.layout, flat)

    @property
    def start(self) -> CliqueVector:
        """The base potentials, on the cliques of the problem; -inf where a cell is impossible."""
        layout = self.plan.layout if self.collapse is None else self.collapse.outer
        return CliqueVector.of(layout, self.base)

    @property
    def tolerance(self) -> float:
        """At which relative gap it stopped."""
        return self.objective.stopping.tolerance

    @property
    def repeatable(self) -> bool:
        """Whether other answers can take the place of the measured ones: not in a loss that holds them itself."""
        loss = self.objective.loss
        return not isinstance(loss, FlatLoss) and (isinstance(loss, str | type) or not hasattr(loss, "cliques"))

    @property
    def picklable(self) -> bool:
        """Whether the loss is one by name: a function of one's own need not survive pickling."""
        return isinstance(self.objective.loss, str)

    def oracle(self) -> ExactOracle | CollapsedOracle:
        """An oracle with a workspace of its own."""
        exact = ExactOracle(self.plan)
        return exact if self.collapse is None else CollapsedOracle(exact, self.collapse)

    def again(
        self, measurements: Sequence[LinearMeasurement], oracle: ExactOracle | CollapsedOracle, tolerance: float
    ) -> tuple[CliqueVector, float, EstimationReport]:
        """Estimate from other answers to the same questions, in the same order.

        It starts from the base potentials: from the estimate it would take four times as many steps until the tolerance
        is proven, because cells that one set of answers has emptied and another wants filled are slow to fill.

        Returns:
            the potentials on the cliques of `plan`, the total, and the report.
        """
        domain = self.plan.layout.domain
        known = starting_total(self.objective.total, measurements, domain)
        loss = make_loss(self.objective.loss, measurements, domain)
        problem = Problem(loss, known.value, oracle, self.base)
        objective = replace(self.objective, stopping=replace(self.objective.stopping, tolerance=tolerance))
        problem, state, report = objective.minimize(problem, self.base.copy())
        return self.potentials(state.theta), problem.total, report


def starting_total(total: Total, measurements: Sequence[LinearMeasurement], domain: Domain) -> TotalEstimate:
    """The number of records to start from, for what `estimate` calls `total`."""
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
