"""Limits: the distance of weights from initial ones, and the bounds of the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, ControlError, plural
from pgmest.surveys.calibration import DISTANCES


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

    def ends(self, start: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest ratio of each weight to its initial weight.

        Args:
            start: the initial weights, each the sum over some units of equal weight if there is `trim`.
            units: the number of these units, of the same shape.

        Raises:
            ControlError: `bounds` and `trim` exclude each other for a unit.
        """
        least = -math.inf if self.method == "linear" and self.bounds is None else 0.0
        low, high = (np.full(len(start), end) for end in self.bounds or (least, math.inf))
        if self.trim is not None:
            trimmed = [end * units / start for end in self.trim]
            low, high = np.maximum(low, trimmed[0]), np.minimum(high, trimmed[1])
            wrong = low > high
            if wrong.any():
                (least, most), (low_end, high_end) = self.bounds or (least, math.inf), self.trim
                raise ControlError(
                    f"bounds= and trim= exclude each other for {plural(int(units[wrong].sum()), 'respondent')}: times "
                    f"{least:g} to {most:g} their initial weight is outside {low_end:g} to {high_end:g}. Widen one."
                )
        return low, high

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
