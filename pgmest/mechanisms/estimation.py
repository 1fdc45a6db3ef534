"""What mechanisms estimate with: all that a curator measured so far and knows, from the model of the last round on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pgmest._base.errors import ImpossibleModelError, ModelTooLarge
from pgmest.estimation.estimate import estimate
from pgmest.graph.junction_tree import JunctionTree
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.privacy.curator import Curator
from pgmest.solvers.status import Status
from pgmest.transforms.transform import Transform

MAX_MEGABYTES = 8000.0
"""The largest junction tree of a model that is lifted with what cannot occur."""


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


def lifted(curator: Curator, transform: Transform, model: Model) -> Model:
    """A model of recoded records as one of the records before, without what the curator of these knows is impossible.

    Where that would make it too large, or leave nothing, it is left in.
    """
    if curator.structural_zeros:
        possible = transform.lift(model, curator.structural_zeros)
        try:
            JunctionTree.from_cliques(possible.domain, possible.potentials.cliques, max_megabytes=MAX_MEGABYTES)
            possible.project(())
        except (ModelTooLarge, ImpossibleModelError):
            pass
        else:
            return possible
    return transform.lift(model)
