"""Error bars of models that were composed of other models, such as MST's, which merges rare values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pgmest.errors import ImpossibleModelError, ModelTooLarge, PgmestError, TotalError
from pgmest.estimation.estimate import refit_of
from pgmest.inference.exact.structural_zeros import excluded_cells
from pgmest.measurements.known_errors import KnownErrors
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.base import ModelBase
from pgmest.models.exact import Model
from pgmest.privacy.curator import Curator
from pgmest.solvers.total import estimate_total


def with_known_errors(model: Any, curator: Curator) -> Any:
    """Return a model of another kind, which then knows the curator's noisy answers unless it has no error bars."""
    if not isinstance(model, ModelBase) or model.no_error_bars:
        return model
    if model.known_errors is None and curator.measurements:
        measurements = tuple(m for m in curator.measurements if set(m.clique) <= set(model.domain))
        stddev = _total_stddev(measurements, curator)
        impossible = excluded_cells(curator.structural_zeros, curator.domain)
        known = KnownErrors(measurements, stddev, records=model.counted, selections=curator.selections)
        model.knows(dataclasses.replace(known, impossible=impossible))
    return model


def _total_stddev(measurements: Sequence[LinearMeasurement], curator: Curator) -> float:
    """Return the standard error of the number of records that measurements determine; 0 if it is public."""
    if curator.fixed_total is not None:
        return 0.0
    try:
        return estimate_total(measurements, curator.domain).stddev
    except TotalError:
        return 0.0


def with_refit(model: Any, curator: Curator) -> Any:
    """Return the model with its measurements and selections, which its error bars need.

    A model without measurements gets all measurements of the curator. Its replicates are then estimated over the
    original attributes, not the recoded ones. If that is impossible, the model is returned without error bars. Every
    model gets the curator's selections, which say which marginals were compared with it and not chosen.
    """
    if not isinstance(model, Model):
        return with_known_errors(model, curator)
    if model.no_error_bars:
        return model
    if curator.selections:
        model = dataclasses.replace(model, selections=curator.selections)
    if model.refit is not None or not curator.measurements:
        return model
    measurements = (*curator.invariants, *curator.measurements)
    measurements = tuple(m for m in measurements if set(m.clique) <= set(model.domain))
    try:
        options = {"total": curator.fixed_total, "structural_zeros": curator.structural_zeros or None}
        refit = refit_of(measurements, model.domain, **options)
    except (ModelTooLarge, ImpossibleModelError, PgmestError):
        return model
    return dataclasses.replace(model, measurements=measurements, refit=refit)
