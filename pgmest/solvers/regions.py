"""What `estimate(oracle="convex")` and `"loopy"` do otherwise than exact estimation, and what they report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pgmest._base.errors import ArgumentError, ModelTooLarge, count_text, memory_text
from pgmest.inference.regions.region_graph import COUNTINGS
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.solvers.local_least_squares import LocalLeastSquares
from pgmest.solvers.mirror_descent import MirrorDescent
from pgmest.solvers.problem import Problem
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.solver import Solver
from pgmest.tables.clique_vector import Layout

ORACLES = ("exact", *COUNTINGS)

RUN_TOLERANCE, RUN_SWEEPS = 1e-5, 4
"""A run of the oracle inside a solver: messages go on from those of the step before, so a few sweeps follow it."""

COPIES = 5
"""Tables of all regions that an oracle holds at a time, with the solver's."""


@dataclass(frozen=True)
class ApproximateReport(EstimationReport):
    """How an approximate estimate was found.

    The loss is that of pseudo-marginals: tables of the local polytope, which need not be marginals of any distribution.
    `gap` bounds how far it is above the least one there; that least loss is at most the exact optimum.

    Attributes:
        oracle: "convex" or "loopy".
        inconsistency: the largest L1 distance, of tables that sum to 1, between what two tables say of attributes that
            they share.
    """

    oracle: str = "convex"
    inconsistency: float = 0.0

    @classmethod
    def of(cls, report: EstimationReport, oracle: RegionOracle, name: str) -> ApproximateReport:
        """A solver's report, with how consistent the oracle's last result is."""
        return cls(**dataclasses.asdict(report), oracle=name, inconsistency=oracle.inconsistency)

    def __str__(self) -> str:
        lines = super().__str__().replace("of the optimum (", "of the relaxed optimum (")
        return (
            f"{lines}\napproximate ({self.oracle} region graph): overlapping tables disagree by at most "
            f"{self.inconsistency:.2g} (L1)"
        )


def region_oracle(name: str, max_megabytes: float | None) -> Callable[[Layout], RegionOracle]:
    """What makes the oracle of that name for a layout.

    Raises:
        ArgumentError: no such oracle.
    """
    if name not in ORACLES:
        raise ArgumentError.of("oracle", name, ORACLES)

    def make(layout: Layout) -> RegionOracle:
        oracle = RegionOracle(layout, name, RUN_TOLERANCE, RUN_SWEEPS)
        size = 8 * COPIES * oracle.graph.cells
        if max_megabytes is not None and size > max_megabytes * 1e6:
            raise ModelTooLarge(
                f'oracle="{name}" needs about {memory_text(size)} for the tables of '
                f"{count_text(len(oracle.graph.outer))} measured cliques, more than max_megabytes={max_megabytes:g}. "
                "Measure smaller cliques, or raise max_megabytes."
            )
        return oracle

    return make


def approximate_solver(problem: Problem, method: Any, chosen: Solver[Any], oracle: str) -> Solver[Any]:
    """The solver for `method="auto"`; any other is as asked for.

    ========================================================  ===================================
    least squares of whole marginals, oracle="convex"         "local_least_squares"
    anything else with oracle="convex"                        what it is with the exact oracle
    oracle="loopy", whose free energy need not be convex      "mirror_descent", judged by the loss
    ========================================================  ===================================
    """
    if not isinstance(method, str) or method != "auto":
        return chosen
    if oracle == "loopy":
        return MirrorDescent()
    return LocalLeastSquares() if LocalLeastSquares.fits(problem) else chosen


def check_exact(oracle: str) -> None:
    """Refuse an approximate oracle where the prior is a support, on which everything is exact.

    Raises:
        ArgumentError: the oracle is not "exact".
    """
    if oracle != "exact":
        raise ArgumentError.of("oracle", oracle, '"exact" with a support as prior: it builds no junction tree')


def offering_approximations(build: Callable[[], Problem]) -> Problem:
    """What `build` returns.

    Raises:
        ModelTooLarge: as `build` does, with what remains to be done where no measurement can be dropped.
    """
    try:
        return build()
    except ModelTooLarge as error:
        if "oracle=" in str(error):  # an approximate one already
            raise
        offer = 'Or keep tables that agree, without a joint distribution: oracle="convex", or "loopy" (guide wide.md).'
        raise ModelTooLarge(f"{error}\n{offer}") from None
