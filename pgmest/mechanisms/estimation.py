"""What mechanisms estimate with: all that a curator measured so far and knows, from the model of the last round on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pgmest._base.errors import ImpossibleModelError, ModelTooLarge
from pgmest.estimation.estimate import estimate
from pgmest.graph.junction_tree import JunctionTree
from pgmest.graph.tree_limit import TreeLimit
from pgmest.inference.exact.structural_zeros import zero_potentials
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.parameters import MODEL_MEGABYTES
from pgmest.models.exact import Model
from pgmest.privacy.curator import Curator
from pgmest.solvers.status import Status
from pgmest.tables.domain import Clique
from pgmest.transforms.transform import Transform


def estimate_measured(
    curator: Curator,
    init: Model | None = None,
    *,
    measurements: Iterable[LinearMeasurement] | None = None,
    **options: Any,
) -> Model:
    """`pgmest.estimate` of the curator's measurements, without what it knows to be impossible.

    The total is public under `Replace`, else estimated. Where no model can leave out the impossible, one that does not
    is returned, as the measurements are paid for; `Result.details` then says so.

    Args:
        curator: has the measurements.
        init: the model of the last round.
        measurements: what the mechanism made of the curator's measurements, to be used instead of them.
        options: passed on.

    Raises:
        KeyboardInterrupt: Ctrl-C; the mechanism should end. (`estimate` itself would return early, and the mechanism
            would go on to its next round.)
    """
    used = curator.measurements if measurements is None else measurements
    options |= {"total": curator.public_total, "init": init}
    try:
        model = estimate(used, curator.domain, structural_zeros=curator.structural_zeros, **options)
    except (ModelTooLarge, ImpossibleModelError):
        if not curator.structural_zeros:
            raise
        model = estimate(used, curator.domain, **options)
    if model.report is not None and model.report.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return model


class GraphicalModel:
    """The model of all measurements (PGM), estimated anew in each round from where the last one was.

    Rounds only have to show what is most wrong. The last estimate is by `method` where all measurements are of cells:
    "mirror_flow", stopped early, is closer to the truth than the optimum of the loss (on Adult and Titanic its error on
    the workload was a quarter to a third below). Elsewhere the last estimate is the optimum, more exactly.

    Args:
        curator: of which the estimates are made; what it measured already is learned at once.
        limit: to which each clique that is measured is added.
        tolerance, max_iterations: of the solver between rounds.
        final_iterations: of the solver at the end, with a tenth of the tolerance.
        method: see above; None for the optimum always.
        first: what to use instead of the measurements that the curator has already.
        init: a model of fewer measurements to start from.
    """

    def __init__(
        self,
        curator: Curator,
        limit: TreeLimit | None = None,
        *,
        tolerance: float = 1e-2,
        max_iterations: int = 5000,
        final_iterations: int = 5000,
        method: Any = "mirror_flow",
        first: Sequence[LinearMeasurement] | None = None,
        init: Model | None = None,
    ):
        self.model: Model
        self._limit, self._method = limit, method
        self._between = {"tolerance": tolerance, "max_iterations": max_iterations}
        self._final = {"tolerance": tolerance / 10, "max_iterations": final_iterations}
        self._first = curator.measurements if first is None else tuple(first)
        if any(measurement.clique for measurement in self._first):
            self.model = estimate_measured(curator, init, measurements=self._first, **self._between)
        else:
            self.model = Model(zero_potentials(curator.structural_zeros, curator.domain), known_total(curator))

    def admissible(self, cliques: Iterable[Clique], share: float = 1.0) -> list[Clique]:
        """Those that can be measured while the junction tree stays within this share of its limit."""
        distinct = list(dict.fromkeys(cliques))
        return distinct if self._limit is None else self._limit.fitting(distinct, share)

    def learn(self, curator: Curator, last: bool) -> None:
        """Estimate with what was measured since.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        if self._limit is not None:
            self._limit.add(curator.measurements[-1].clique)
        used = (*self._first, *curator.measurements[len(self._first) :])
        if last and self._method is not None and all(measurement.query is None for measurement in used):
            options = {"method": self._method}
        else:
            options = self._final if last else self._between
        self.model = estimate_measured(curator, self.model, measurements=used, **options)


def tree_limit(curator: Curator, cliques: Iterable[Clique], max_megabytes: float) -> TreeLimit:
    """The limit on the junction tree of these cliques, those of the structural zeros, and what will be measured."""
    return TreeLimit(curator.domain, [*cliques, *(rule.attributes for rule in curator.structural_zeros)], max_megabytes)


def known_total(curator: Curator) -> float:
    """The number of records: public, or the first answer, at least 1."""
    return curator.public_total or max(1.0, float(curator.measurements[0].values.item()))


def lifted(curator: Curator, transform: Transform, model: Model) -> Model:
    """A model of recoded records as one of the records before, without what the curator of these knows is impossible.

    Where that would make it too large, or leave nothing, it is left in.
    """
    if curator.structural_zeros:
        possible = transform.lift(model, curator.structural_zeros)
        try:
            JunctionTree.from_cliques(possible.domain, possible.potentials.cliques, max_megabytes=MODEL_MEGABYTES)
            possible.project(())
        except (ModelTooLarge, ImpossibleModelError):
            pass
        else:
            return possible
    return transform.lift(model)
