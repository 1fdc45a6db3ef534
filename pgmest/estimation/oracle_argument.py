"""What `estimate` makes of `oracle=`: belief propagation on the junction tree, on the processor or on a GPU, or message
passing on a region graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pgmest._base.errors import ArgumentError, ModelTooLarge, count_text, memory_text
from pgmest.inference.device.gpu_oracle import GpuOracle
from pgmest.inference.device.loading import load_device
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.functional_dependencies import CollapsedOracle
from pgmest.inference.exact.structural_zeros import Rule, oracle_with_functions
from pgmest.inference.kept_oracles import EXACT_ORACLES
from pgmest.inference.regions.region_graph import COUNTINGS
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.solvers.problem import Problem
from pgmest.tables.clique_vector import Layout

ORACLES = (*EXACT_ORACLES, *COUNTINGS)

RUN_TOLERANCE, RUN_SWEEPS = 1e-5, 4
"""A run of the oracle inside a solver: messages go on from those of the step before, so a few sweeps follow it."""

COPIES = 5
"""Tables of all regions that an oracle holds at a time, with the solver's."""


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


def exact_oracle(
    name: str, zeros: list[Rule], max_megabytes: float | None
) -> Callable[[Layout], ExactOracle | GpuOracle | CollapsedOracle]:
    """What makes the exact oracle of a layout, on the processor or on a GPU.

    Raises:
        DeviceError: there is no GPU, or nothing to use it with.
    """
    if name == "gpu":
        load_device()
    make = GpuOracle if name == "gpu" else ExactOracle
    return partial(oracle_with_functions, zeros=zeros, max_megabytes=max_megabytes, make=make)


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
