"""The estimates of mechanisms: models of a curator's measurements, warm-started from the last round's model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pgmest.errors import ImpossibleModelError, ModelTooLarge
from pgmest.estimation.estimate import estimate
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.structural_zeros import zero_potentials
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.invariants import possible_total, within_bounds
from pgmest.mechanisms.parameters import MODEL_MEGABYTES
from pgmest.mechanisms.tree_limit import TreeLimit
from pgmest.models.exact import Model
from pgmest.privacy.curator import Curator
from pgmest.solvers.status import Status
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique
from pgmest.transforms.transform import Transform

LIFTED_DISTANCE, FITTED_SHARE = 1e-3, 1e-3
"""The total variation distance of a one-way marginal up to which a model of recoded records counts as unchanged by
structural zeros, and the accuracy of the fit to its tables otherwise, as a share of the records."""


def estimate_measured(
    curator: Curator,
    init: Model | None = None,
    *,
    measurements: Iterable[LinearMeasurement] | None = None,
    **options: Any,
) -> Model:
    """Return the `pgmest.estimate` of the curator's measurements under its structural zeros and invariants.

    The total is public under `Replace`, may be an invariant, and is estimated otherwise. If no model can honor the
    structural zeros, a model without them is returned, since the measurements are paid for; `Result.details` then says
    so.

    Args:
        curator: the curator, with the measurements.
        init: the model of the last round.
        measurements: derived measurements, to be used instead of the curator's.
        options: options of `pgmest.estimate`.

    Raises:
        KeyboardInterrupt: if Ctrl-C ended the estimate early, so that the mechanism ends, too, instead of beginning its
            next round.
    """
    measured = list(curator.measurements if measurements is None else measurements)
    options |= {"total": curator.fixed_total}
    if options.get("method") == "mirror_flow" and not all(one.exact_rows.all() for one in curator.invariants):
        options["method"] = "auto"  # the mirror flow fits squares only, and bounds are no squares

    def estimated(invariants: Sequence[LinearMeasurement], last: Model | None) -> Model:
        return _estimate(curator, [*invariants, *measured], options | {"init": last})

    model = estimated(curator.invariants, init)
    possible = possible_total(curator, model.total)
    if possible != model.total:
        options |= {"total": possible}
        model = estimated(curator.invariants, model)
    model = within_bounds(model, curator.invariants, estimated)
    if model.report is not None and model.report.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return model


def _estimate(curator: Curator, used: Sequence[LinearMeasurement], options: dict[str, Any]) -> Model:
    """Return the estimate with the curator's structural zeros, or without them if no model can honor them."""
    try:
        return estimate(used, curator.domain, structural_zeros=curator.structural_zeros, **options)
    except (ModelTooLarge, ImpossibleModelError):
        if not curator.structural_zeros:
            raise
        return estimate(used, curator.domain, **options)


class GraphicalModel:
    """The graphical model of all measurements (PGM), estimated again in each round, starting from the last model.

    Between rounds a coarse estimate is enough, since it only has to show which marginals are most wrong. The last
    estimate is made by `method` if all measurements are of cells: "mirror_flow", stopped early, is closer to the truth
    than the optimum of the loss (on Adult and Titanic its workload error was a quarter to a third smaller). If queries
    were measured, the last estimate is the optimum, with a tenth of the tolerance.

    Args:
        curator: the curator; the model begins with its present measurements.
        limit: the limit on the junction tree, to which each measured clique is added.
        tolerance, max_iterations: the limits of the solver between rounds.
        final_iterations: the limit of the solver at the end, with a tenth of the tolerance.
        method: the solver of the last estimate, or None for the optimum in all cases.
        first: derived measurements, to be used instead of those that the curator has already.
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
        if any(measurement.clique for measurement in (*self._first, *curator.invariants)):
            self.model = estimate_measured(curator, init, measurements=self._first, **self._between)
        else:
            self.model = Model(zero_potentials(curator.structural_zeros, curator.domain), known_total(curator))

    def admissible(self, cliques: Iterable[Clique], share: float = 1.0) -> list[Clique]:
        """Return the cliques whose measurement keeps the junction tree within this share of its limit."""
        distinct = list(dict.fromkeys(cliques))
        return distinct if self._limit is None else self._limit.fitting(distinct, share)

    def learn(self, curator: Curator, last: bool) -> None:
        """Estimate again with the new measurements.

        Raises:
            KeyboardInterrupt: at Ctrl-C.
        """
        if self._limit is not None and curator.measurements:  # invariants are answered without a measurement
            self._limit.add(curator.measurements[-1].clique)
        used = (*self._first, *curator.measurements[len(self._first) :])
        if last and self._method is not None and all(measurement.query is None for measurement in used):
            options = {"method": self._method}
        else:
            options = self._final if last else self._between
        self.model = estimate_measured(curator, self.model, measurements=used, **options)


def tree_limit(curator: Curator, cliques: Iterable[Clique], max_megabytes: float) -> TreeLimit:
    """Return the size limit of a junction tree that has these cliques, and those of structural zeros and invariants."""
    return TreeLimit(curator.domain, [*cliques, *curator.constrained_cliques], max_megabytes)


def mergeable(curator: Curator, one_way: Iterable[LinearMeasurement]) -> list[LinearMeasurement]:
    """Return the one-way marginals of the attributes that no invariant is about, whose rare values may be merged."""
    return [measurement for measurement in one_way if curator.fixed_attributes.isdisjoint(measurement.clique)]


def known_total(curator: Curator) -> float:
    """Return the number of records: the public or invariant one, or else the curator's first answer, at least 1."""
    return curator.fixed_total or max(1.0, float(curator.measurements[0].values.item()))


def lifted(curator: Curator, transform: Transform, model: Model) -> Model:
    """Return a model of recoded records as a model of the original records, under the curator's structural zeros.

    If the structural zeros change the marginals, because they separate values that were recoded into one, the model of
    the original records is fitted to the marginals of the recoded ones. The structural zeros are left out if the model
    would be too large or have no possible record.
    """
    if not curator.structural_zeros:
        return transform.lift(model)
    possible = transform.lift(model, curator.structural_zeros)
    try:
        JunctionTree.from_cliques(possible.domain, possible.potentials.cliques, max_megabytes=MODEL_MEGABYTES)
        possible.project(())
    except (ModelTooLarge, ImpossibleModelError):
        return transform.lift(model)
    if _distance_after(transform, possible, model) <= LIFTED_DISTANCE:
        return possible
    try:
        return _fitted_before(curator, transform, model)
    except (ModelTooLarge, ImpossibleModelError):
        return possible


def _distance_after(transform: Transform, before: Model, after: Model) -> float:
    """Return the largest total variation distance between the one-way marginals of two models, in recoded values."""
    apart = 0.0
    for name, column in transform.columns.items():
        found = before.project(column.sources).values.reshape(-1)
        recoded = np.bincount(column.codes.reshape(-1), found, minlength=column.size)
        apart = max(apart, float(np.abs(recoded - after.project((name,)).values).sum()) / (2 * after.total))
    return apart


def _fitted_before(curator: Curator, transform: Transform, model: Model) -> Model:
    """Return the model of the original records that has the marginals of a model of the recoded ones.

    Among all such models with the structural zeros, it is the one closest to the shares of the transform.

    Raises:
        ModelTooLarge, ImpossibleModelError: as for `estimate`.
    """
    stddev = max(FITTED_SHARE * model.total, 1e-9)
    tables = zip(model.potentials.cliques, model.project_many(model.potentials.cliques), strict=True)
    recoded = [LinearMeasurement(table.values.reshape(-1), clique, stddev) for clique, table in tables]
    known = [measurement for one in recoded if (measurement := transform.pull_back(one)) is not None]
    shares = transform.lift(Model(CliqueVector.zeros(transform.after, []), model.total)).potentials
    found = estimate(
        known,
        transform.before,
        total=model.total,
        prior=shares,
        structural_zeros=curator.structural_zeros,
        max_megabytes=MODEL_MEGABYTES,
    )
    return Model(found.potentials, model.total, model.report, total_stddev=model.total_stddev)
