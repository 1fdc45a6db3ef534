"""Error bars of models that were put together of others, such as MST's, whose rare values were merged."""

from __future__ import annotations

import dataclasses
from typing import Any

from pgmest._base.errors import ImpossibleModelError, ModelTooLarge, PgmestError
from pgmest.estimation.estimate import refit_of
from pgmest.models.exact import Model
from pgmest.privacy.curator import Curator


def with_refit(model: Any, curator: Curator) -> Any:
    """The model, knowing what it was estimated from: where it does not, all that the curator measured.

    Marginals that the curator was paid to compare with its models, and did not choose, are given to it in any case.

    Replicates are then estimated of the attributes as they are, not recoded. Where that cannot be done, it has no error
    bars, as before.
    """
    if not isinstance(model, Model):
        return model
    if curator.selections:
        model = dataclasses.replace(model, selections=curator.selections)
    if model.refit is not None or not curator.measurements:
        return model
    measurements = tuple(m for m in curator.measurements if set(m.clique) <= set(model.domain))
    try:
        options = {"total": curator.public_total, "structural_zeros": curator.structural_zeros or None}
        refit = refit_of(measurements, model.domain, **options)
    except (ModelTooLarge, ImpossibleModelError, PgmestError):
        return model
    return dataclasses.replace(model, measurements=measurements, refit=refit)
