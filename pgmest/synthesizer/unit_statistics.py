"""Intervals of any function of linked tables, such as a share that it computes itself.

The function is called on some synthetic units, and again without each one of them. The differences say how much the
value follows each unit, so its error is that of a sum over units (`UnitErrors`). That holds for smooth functions, such
as counts, means, shares, ratios and correlations. Medians, largest values and random numbers are refused: half of the
units change them by other amounts than the differences say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from pgmest._base.progress import progress
from pgmest.errors import QueryError, excerpt
from pgmest.mechanisms.linked.unit_answers import UnitAnswers, undetermined
from pgmest.mechanisms.linked.unit_errors import UnitErrors

HALVES = 20
"""The number of random halves of the units on which the differences are checked."""
MOST_OFF = 0.4
"""The largest error of what the differences say about halves, relative to the change itself."""
MOST_VALUES = 1_000
"""The largest number of values that a function may return."""
EXTREME = 10.0
"""The largest difference that counts as that of a unit which does not occur, relative to the usual one."""

Part = Callable[[np.ndarray], Mapping[str, Any]]
"""A function that returns the tables of some units of the pool, given by a mask of it."""


@dataclass(frozen=True, eq=False)
class Statistic:
    """A function of linked tables whose values are no values of units.

    Attributes:
        function: the function.
        name: what errors call it.
        labels: what each of its values is; empty for a single one.
        values: its values on all synthetic units, shape (values,).
    """

    function: Callable[[Any], Any]
    name: str
    labels: tuple[Any, ...]
    values: np.ndarray

    @classmethod
    def of(cls, function: Callable[[Any], Any], name: str, returned: Any) -> Statistic:
        """Read what a function returned: a number, an array, or a Series whose index has the labels."""
        values = _numbers(returned, name)
        return cls(function, name, _labels(returned, len(values)), values)

    def answers(self, errors: UnitErrors, part: Part, level: float) -> UnitAnswers:
        """Return the values for the data with the ends of their intervals.

        Args:
            errors: the errors of totals over units.
            part: returns the tables of some units of the pool of `errors`.
            level: the probability that an interval contains the truth.

        Raises:
            QueryError: the function fails on some units, or is not smooth.
        """
        size, inside = len(errors.pool), np.ones(len(errors.pool), dtype=bool)
        whole, moves = self._called(part(inside)), np.empty((size, len(self.values)))
        with progress(f"asking {self.name} without each of some units", size) as more:
            for place in range(size):
                inside[place] = False
                moves[place] = whole - self._called(part(inside))
                inside[place] = True
                more(1)
        counts = np.abs(moves.sum(axis=0) - whole) < np.abs(moves.sum(axis=0))
        self._check(part, whole, moves, counts)
        values = moves * np.where(counts, 1.0, size / (errors.units * errors.scale))
        one = np.minimum(np.abs(values).max(axis=0), EXTREME * np.sqrt(np.square(values).mean(axis=0)))
        basis, more = undetermined(errors, values - values.mean(axis=0), level)
        reach = np.hypot(NormalDist().inv_cdf(0.5 + level / 2) * errors.totals(values, one).stddev, more)
        found = self.values * np.where(counts, errors.scale, 1.0)
        low = np.where(counts & (found >= 0), np.maximum(found - reach, 0.0), found - reach)
        return UnitAnswers(found, low, found + reach, level, basis)

    def _check(self, part: Part, whole: np.ndarray, moves: np.ndarray, counts: np.ndarray) -> None:
        """Raise QueryError if halves of the units change the values by other amounts than the differences say."""
        generator = np.random.default_rng(3)
        changes, said = np.empty((2, HALVES, len(whole)))
        for half in range(HALVES):
            kept = generator.random(len(moves)) < 0.5
            changes[half] = self._called(part(kept)) * np.where(counts, 2.0, 1.0) - whole
            said[half] = (2.0 * kept - 1) @ moves
        if np.count_nonzero(moves, axis=0).min() < 2:
            raise QueryError(
                f"{self.name} has a value that fewer than two units change, such as a largest value or a number of "
                "what does not occur, so its error is not known: return a value for each unit instead, such as whether "
                "something occurs in it, whose count has an interval even if it is 0."
            )
        wrong = np.sqrt(np.square(changes - said).mean(axis=0)) > MOST_OFF * np.sqrt(np.square(changes).mean(axis=0))
        wrong &= np.abs(changes - said).max(axis=0) > 1e-9 * np.abs(whole)
        if wrong.any():
            raise QueryError(
                f"{self.name} does not follow the tables smoothly, as counts, means and shares do, so its error is not "
                "known: return a value for each unit instead, such as whether it is below a threshold, and leave out "
                "random numbers, ranks and medians."
            )

    def _called(self, tables: Mapping[str, Any]) -> np.ndarray:
        try:
            returned = self.function(dict(tables))
        except Exception as error:
            raise QueryError(f"{self.name} raises {type(error).__name__} without some units: {error}") from error
        values = _numbers(returned, self.name)
        labels = _labels(returned, len(values))
        if labels == self.labels:
            return values
        places = {label: place for place, label in enumerate(labels)}
        if len(values) != len(self.values) or places.keys() != set(self.labels):
            raise QueryError(
                f"{self.name} returns {len(values):,} values without some units instead of the same "
                f"{len(self.values):,}: return these always, such as by .reindex(values)."
            )
        return values[[places[label] for label in self.labels]]


def _labels(returned: Any, values: int) -> tuple[Any, ...]:
    """Return what each of some values is: the index of a Series, or their numbers; nothing for a single one."""
    if not np.ndim(returned):
        return ()
    index = getattr(returned, "index", None)
    named = range(values) if index is None or callable(index) else index
    return tuple(", ".join(map(str, label)) if isinstance(label, tuple) else label for label in named)


def _numbers(returned: Any, name: str) -> np.ndarray:
    """Return the values of a function as an array of numbers."""
    try:
        found = np.atleast_1d(np.asarray(returned, dtype=np.float64))
    except (TypeError, ValueError):
        raise QueryError(
            f"{name} returns {excerpt(returned)}: return numbers, or a value for each row of the root."
        ) from None
    if found.ndim != 1 or not 0 < len(found) <= MOST_VALUES:
        raise QueryError(f"{name} returns an array of shape {found.shape}: return at most {MOST_VALUES:,} numbers.")
    if not np.isfinite(found).all():
        raise QueryError(
            f"{name} returns {excerpt(found.tolist())}, with values that are missing or infinite, as a ratio to 0 is."
        )
    return found
