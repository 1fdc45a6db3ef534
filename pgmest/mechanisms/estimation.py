"""What mechanisms estimate with: all that a curator measured so far, starting from the model of the last round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pgmest.estimation.estimate import estimate
from pgmest.measurement import LinearMeasurement
from pgmest.model import Model
from pgmest.privacy.curator import Curator


def estimate_measured(
    curator: Curator,
    init: Model | None = None,
    *,
    measurements: Iterable[LinearMeasurement] | None = None,
    **options: Any,
) -> Model:
    """`pgmest.estimate` of the curator's measurements; the total is public under `Replace`, else estimated.

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
    model = estimate(used, curator.domain, total=curator.public_total, init=init, **options)
    if model.report is not None and model.report.message.startswith("interrupted"):
        raise KeyboardInterrupt
    return model
