"""The engines of `estimate`: an oracle, a solver and a kind of model that belong together.

engine          chosen by                     oracle                                      ends in
ExactEngine     oracle="exact"                belief propagation on the junction tree     Model
RegionEngine    oracle="convex"               message passing on a graph of regions       ApproximateModel
SupportEngine   prior=<public records>        sums over the records                       SupportModel
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pgmest.errors import ArgumentError, ModelTooLarge, count_text, memory_text
from pgmest.inference.exact.structural_zeros import Rule, oracle_with_functions
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.models.fitted_model import solved_model
from pgmest.models.region import ApproximateModel
from pgmest.models.support import SupportModel
from pgmest.solvers.choose import region_solver
from pgmest.solvers.facts import Terms
from pgmest.solvers.problem import Problem, SolverOracle
from pgmest.solvers.refit import Objective
from pgmest.solvers.report import ApproximateReport, EstimationReport
from pgmest.solvers.solver import Solver, State
from pgmest.tables.clique_vector import CliqueVector, Layout

ORACLES = ("exact", "convex")

RUN_TOLERANCE, RUN_SWEEPS = 1e-5, 4
"""The stopping rule of message passing within one step of a solver: the largest disagreement of neighboring tables (L1,
of tables that sum to one), and the number of sweeps. A few suffice, as messages start from those of the step before."""

FACTS_TOLERANCE, FACTS_SWEEPS = 1e-12, 2000
"""The stopping rule of runs with facts, which are met as closely as the tables agree."""

HELD_COPIES = 5
"""The tables of all regions that the region oracle and its solver hold at a time, to estimate their memory."""


@dataclass(frozen=True)
class Solved:
    """The end of a run, from which an engine makes its model.

    Attributes:
        problem: the problem with its final total.
        state: the last state of the solver.
        report: how the run went.
        objective: the loss, solver and stopping rule.
        measurements: the measurements that were fitted.
        total_stddev: the standard error of the total; None if the total was given.
    """

    problem: Problem
    state: State
    report: EstimationReport
    objective: Objective
    measurements: tuple[LinearMeasurement, ...]
    total_stddev: float | None


class Engine(ABC):
    """An oracle, a solver and a kind of model that belong together."""

    @abstractmethod
    def oracle(self, layout: Layout) -> SolverOracle:
        """Build the oracle of these cliques.

        Raises:
            ModelTooLarge: it needs too much memory.
        """

    def problem(self, terms: Terms, total: float, base: Iterable[CliqueVector]) -> Problem:
        """Build the problem with this engine's oracle; arguments and errors as for `Problem.of`."""
        return Problem.of(terms, total, base, oracle=self.oracle)

    def solver(self, problem: Problem, method: str | Solver[Any], chosen: Solver[Any]) -> Solver[Any]:
        """Return the solver that suits this engine's oracle.

        Args:
            problem: the problem to solve.
            method: the argument of `estimate`.
            chosen: the solver that `method` names for exact oracles.
        """
        return chosen

    @abstractmethod
    def model(self, solved: Solved) -> Model | ApproximateModel | SupportModel:
        """Return the model at the end of a run."""


@dataclass(frozen=True)
class ExactEngine(Engine):
    """Belief propagation on the junction tree.

    Attributes:
        zeros: the structural zeros; functions among them may shrink the tree.
        max_megabytes: the largest size of the tree's tables; None for no limit.
    """

    zeros: list[Rule]
    max_megabytes: float | None

    def oracle(self, layout: Layout) -> SolverOracle:
        return oracle_with_functions(layout, zeros=self.zeros, max_megabytes=self.max_megabytes)

    def problem(self, terms: Terms, total: float, base: Iterable[CliqueVector]) -> Problem:
        try:
            return super().problem(terms, total, base)
        except ModelTooLarge as error:
            if "oracle=" in str(error):  # the message already names another oracle
                raise
            offer = 'Or keep tables that agree, without a joint distribution: oracle="convex" (guide wide.md).'
            raise ModelTooLarge(f"{error}\n{offer}") from None

    def model(self, solved: Solved) -> Model:
        return solved_model(
            solved.problem, solved.state, solved.report, solved.objective, solved.measurements, solved.total_stddev
        )


@dataclass(frozen=True)
class RegionEngine(Engine):
    """Message passing on a graph of regions, for cliques whose junction tree is too wide.

    Attributes:
        max_megabytes: the largest size of the regions' tables; None for no limit.
        facts: whether the tables must meet facts.
    """

    max_megabytes: float | None
    facts: bool = False

    def oracle(self, layout: Layout) -> RegionOracle:
        exactness = (FACTS_TOLERANCE, FACTS_SWEEPS) if self.facts else (RUN_TOLERANCE, RUN_SWEEPS)
        oracle = RegionOracle(layout, *exactness)
        size = 8 * HELD_COPIES * oracle.graph.cells
        if self.max_megabytes is not None and size > self.max_megabytes * 1e6:
            raise ModelTooLarge(
                f'oracle="convex" needs about {memory_text(size)} for the tables of '
                f"{count_text(len(oracle.graph.outer))} measured cliques, more than "
                f"max_megabytes={self.max_megabytes:g}. Measure smaller cliques, or raise max_megabytes."
            )
        return oracle

    def solver(self, problem: Problem, method: str | Solver[Any], chosen: Solver[Any]) -> Solver[Any]:
        return region_solver(problem, method)

    def model(self, solved: Solved) -> ApproximateModel:
        problem, oracle = solved.problem, solved.problem.plain.oracle
        assert isinstance(oracle, RegionOracle)
        tables = CliqueVector.of(problem.layout, solved.state.p * problem.total)
        report = ApproximateReport.of(solved.report, oracle.inconsistency)
        return ApproximateModel(tables, problem.total, report, solved.total_stddev, solved.measurements)


@dataclass(frozen=True)
class SupportEngine(Engine):
    """Sums over the records of a support, on which every marginal is exact.

    Attributes:
        support: the records to which the distribution is confined, with their prior weights.
    """

    support: Support

    def oracle(self, layout: Layout) -> SolverOracle:
        from pgmest.inference.support.support_oracle import SupportOracle

        return SupportOracle(self.support, layout)

    def model(self, solved: Solved) -> SupportModel:
        problem = solved.problem
        potentials = CliqueVector.of(problem.layout, solved.state.theta)
        return SupportModel(
            self.support, potentials, problem.total, solved.report, solved.total_stddev, solved.measurements
        )


def choose_engine(
    oracle: str, support: Support | None, zeros: list[Rule], max_megabytes: float | None, facts: bool
) -> Engine:
    """Return the engine for the arguments `oracle`, `prior` (if it is a support) and `structural_zeros` of `estimate`.

    `facts` says whether any answer is exact.

    Raises:
        ArgumentError: there is no such oracle, or an oracle other than "exact" was given with a support.
    """
    if support is not None:
        if oracle != "exact":
            raise ArgumentError.of("oracle", oracle, '"exact" with a support as prior: it builds no junction tree')
        return SupportEngine(support)
    if oracle not in ORACLES:
        raise ArgumentError.of("oracle", oracle, ORACLES)
    return RegionEngine(max_megabytes, facts) if oracle == "convex" else ExactEngine(zeros, max_megabytes)
