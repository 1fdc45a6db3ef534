"""Targets and Limits: the totals that weights must meet, and the distance and bounds that `rake` was given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, ControlError, plural
from pgmest.surveys.calibration import DISTANCES, Distance
from pgmest.surveys.controls import Controls


@dataclass(frozen=True)
class Targets:
    """The totals that weights must meet.

    Attributes:
        controls: the totals of categories.
        numeric: the totals of numeric columns, by name.
    """

    controls: Controls
    numeric: dict[str, float]

    @classmethod
    def of(cls, margins: Any) -> Targets:
        """Read the argument `margins` of `rake`.

        Raises:
            ArgumentError: it has another form.
            ControlError: controls contradict each other.
        """
        if not isinstance(margins, Mapping) or not margins:
            raise ArgumentError.of("margins", margins, "a mapping of columns to control totals, such as {'sex': {...}}")
        numeric = {name: total for name, total in margins.items() if isinstance(total, Real)}
        for name, total in numeric.items():
            if not isinstance(name, str) or isinstance(total, bool) or not math.isfinite(total):
                raise ArgumentError.of(
                    f"margins[{name!r}]", total, "a finite total of one numeric column, or a mapping"
                )
        controls = Controls.of({name: total for name, total in margins.items() if name not in numeric})
        controls.check_agreement()
        return cls(controls, {name: float(total) for name, total in numeric.items()})

    @property
    def texts(self) -> list[str]:
        """The name and the amount of each total, the controls' cells first."""
        texts = [
            f"{self.controls.text(names, cell)}: {total:.10g}"
            for names, table in self.controls.tables.items()
            for cell, total in np.ndenumerate(table)
        ]
        return texts + [f"total of {name}: {total:.10g}" for name, total in self.numeric.items()]


@dataclass(frozen=True)
class Limits:
    """A method, and the bounds of the weights.

    Attributes:
        method: a name in `DISTANCES`.
        bounds: the ends of the ratios of weights to initial weights; None without any.
        trim: the ends of the weights; None without any.
    """

    method: str
    bounds: tuple[float, float] | None
    trim: tuple[float, float] | None

    @classmethod
    def of(cls, method: Any, bounds: Any, trim: Any) -> Limits:
        """Check the arguments of `rake`.

        Raises:
            ArgumentError: one is not valid.
        """
        if method not in DISTANCES:
            raise ArgumentError.of("method", method, tuple(DISTANCES))
        made = cls(method, _ends("bounds", bounds), _ends("trim", trim))
        if method == "logit":
            if made.bounds is None or not made.bounds[0] < 1 < made.bounds[1] < math.inf:
                raise ArgumentError.of("bounds", bounds, 'ends around 1 for method="logit", such as (0.3, 3)')
            if trim is not None:
                raise ArgumentError.of("trim", trim, 'None for method="logit"; trim with "raking" or "linear"')
        return made

    def distance(self, start: np.ndarray, total: float) -> Distance:
        """Return the distance for initial weights as shares of the total.

        Raises:
            ControlError: `bounds` and `trim` exclude each other for a row.
        """
        least = -math.inf if self.method == "linear" and self.bounds is None else 0.0
        low, high = self.bounds or (least, math.inf)
        if self.trim is None:
            return DISTANCES[self.method](low, high)
        lows, highs = (np.asarray(end / (total * start)) for end in self.trim)
        lows, highs = np.maximum(low, lows), np.minimum(high, highs)
        if (lows > highs).any():
            raise ControlError(
                f"bounds= and trim= exclude each other for {plural(int((lows > highs).sum()), 'respondent')}: times "
                f"{low:g} to {high:g} their initial weight is outside {self.trim[0]:g} to {self.trim[1]:g}. Widen one."
            )
        return DISTANCES[self.method](lows, highs)

    @property
    def allow_zero(self) -> bool:
        """True if a weight may be 0."""
        return not any(ends and ends[0] > 0.0 for ends in (self.bounds, self.trim))

    @property
    def text(self) -> str:
        """The bounds in words, with a space after them; empty without any."""
        said = [f"times {self.bounds[0]:g} to {self.bounds[1]:g} the initial ones"] if self.bounds else []
        said += [f"between {self.trim[0]:g} and {self.trim[1]:g}"] if self.trim else []
        return f" with weights {' and '.join(said)}" if said else ""


def _ends(name: str, given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not 0.0 <= low < high:
        raise ArgumentError.of(name, given, "two ends, the first at least 0 and below the second, such as (0.3, 3)")
    return low, high
