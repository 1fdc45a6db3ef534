"""Checks of the parameters of mechanisms, and the constants that several mechanisms share.

A field of a mechanism declares its check: `theta: float = parameter(4.0, POSITIVE)`. The constructor of `Mechanism`
runs all checks (`check_parameters`) and keeps the checked values: NumPy's numbers become Python's.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.estimation.estimate import SOLVERS
from pgmest.solvers.solver import Solver

ESTIMATORS = ("pgm", "original")
"""A graphical model of the measurements, or the estimator that the mechanism was published with."""

BACKENDS = ("opendp", "simulation")
"""The sources of noise (`pgmest.privacy.noise.make_backend`)."""

MEASURING_SHARE = 0.9
"""The share of a round's budget that pays for its measurement; the rest pays for the selection (alpha of AIM)."""

COUNT_SHARE = 0.02
"""The share of the budget that counts the records, if a mechanism needs their number first and it is not public."""

TREE_MEGABYTES = 80.0
"""The largest junction tree of adaptively chosen marginals, in megabytes at 8 bytes a cell."""

MODEL_MEGABYTES = 8000.0
"""The largest junction tree of marginals that are fixed beforehand, in megabytes; the limit of `pgmest.estimate`."""

NEEDING_MORE = ("ipf", "smoothing")
"""The solvers that cannot fit noisy counts in l2: "ipf" needs exact counts, "smoothing" absolute residuals."""

LARGEST_COUNT = 2**31 - 1
"""The largest number of rounds, records or iterations."""

METADATA = "check"
"""The key of the check in a field's metadata."""


@dataclass(frozen=True)
class Check:
    """The allowed values of a parameter.

    Attributes:
        allowed: the allowed values in words, as in an error: "it must be ...".
        checked: a function that returns the value to keep, or raises TypeError, ValueError or OverflowError.
    """

    allowed: str
    checked: Callable[[Any], Any]

    def __call__(self, name: str, value: Any) -> Any:
        """Return the value to keep.

        Raises:
            ArgumentError: if the value is not allowed.
        """
        try:
            return self.checked(value)
        except (TypeError, ValueError, OverflowError):
            raise ArgumentError.of(name, value, self.allowed) from None


def parameter(default: Any, check: Check) -> Any:
    """Return a field of a mechanism, with its default and its check."""
    return dataclasses.field(default=default, metadata={METADATA: check})


def check_parameters(mechanism: Any) -> None:
    """Check every field that declares a check, and keep the checked value.

    Raises:
        ArgumentError: if a value is not allowed.
    """
    for field in dataclasses.fields(mechanism):
        check = field.metadata.get(METADATA)
        if check is not None:
            object.__setattr__(mechanism, field.name, check(field.name, getattr(mechanism, field.name)))


# -- checks ----------------------------------------------------------------------------------------------------------


def integer(least: int) -> Check:
    """Return a check for integers, NumPy's included, from `least` to `LARGEST_COUNT`; booleans are rejected."""

    def checked(value: Any) -> int:
        number = operator.index(value)
        if _is_boolean(value) or not least <= number <= LARGEST_COUNT:
            raise ValueError
        return int(number)

    return Check("a positive integer" if least == 1 else f"an integer of at least {least}", checked)


def number(allowed: str, within: Callable[[float], bool]) -> Check:
    """Return a check for real numbers, NumPy's included, for which `within` holds; booleans and texts are rejected."""

    def checked(value: Any) -> float:
        if _is_boolean(value) or not isinstance(value, Real):
            raise TypeError
        found = float(value)
        if not within(found):
            raise ValueError
        return found

    return Check(allowed, checked)


def optional(check: Check) -> Check:
    """Return a check that allows None besides the values of another check."""
    return Check(f"{check.allowed}, or None", lambda value: None if value is None else check.checked(value))


def choice(options: Iterable[str]) -> Check:
    """Return a check for one of these names."""
    names = tuple(options)

    def checked(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError
        return str(value)

    return Check(f"one of {', '.join(map(repr, names))}", checked)


def instance(kind: type | tuple[type, ...], allowed: str) -> Check:
    """Return a check for values of a type."""

    def checked(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return Check(allowed, checked)


def _flag(value: Any) -> bool:
    if not _is_boolean(value):
        raise TypeError
    return bool(value)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _solver(value: Any) -> Any:
    name = value.name if isinstance(value, Solver) else str(value) if isinstance(value, str) else None
    if name is None or name in NEEDING_MORE or not (isinstance(value, Solver) or name in METHODS):
        raise ValueError
    return value if isinstance(value, Solver) else name


METHODS = ("auto", *(name for name in SOLVERS if name not in NEEDING_MORE))
"""The solvers that fit noisy counts, by name."""

POSITIVE = number("a positive number", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = number("a number of at least 0", lambda value: 0 <= value < math.inf)
SHARE = number("a share between 0 and 1", lambda value: 0 < value < 1)
MEGABYTES = number("a positive number", lambda value: value > 0)
"""A limit of memory; infinity means no limit."""
CELLS = number("a number of at least 1", lambda value: value >= 1)
"""A limit of cells; infinity means no limit."""
DEVIATIONS = number("a number, such as 3, or -inf", lambda value: not math.isnan(value))
"""A threshold for rare values: the least count, in standard deviations of its noise, of a value that is not rare."""
COUNT = integer(1)
FLAG = Check("True or False", _flag)
ESTIMATOR = choice(ESTIMATORS)
METHOD = Check(f"a solver, or one of {', '.join(map(repr, METHODS))}", _solver)
