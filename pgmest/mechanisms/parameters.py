"""What the parameters of mechanisms may be, declared beside each field and checked before anything is paid.

A field of a mechanism names its check: `theta: float = parameter(4.0, POSITIVE)`. `Mechanism` runs all of them when it
is constructed, by `check_parameters`, and keeps the checked value: NumPy's numbers become Python's. Names that changed
are renamed in one place, too (`Renaming`). Constants that several mechanisms share are here.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.estimation.estimate import SOLVERS
from pgmest.solvers.solver import Solver

if TYPE_CHECKING:
    from pgmest.mechanisms.mechanism import Mechanism

ESTIMATORS = ("pgm", "original")
"""A graphical model of what was measured, or what the mechanism was published with."""

BACKENDS = ("opendp", "simulation")
"""Where noise comes from (`pgmest.privacy.noise.make_backend`)."""

ACCOUNTINGS = ("auto", "zcdp", "gdp", "pld")
"""How (epsilon, delta) becomes a budget: see `pgmest.mechanisms.Mechanism`."""

MEASURING = 0.9
"""The share of a round's budget that pays for its measurement; the rest pays for the selection (alpha of AIM)."""

COUNT_SHARE = 0.02
"""The share of the budget that counts the records, where their number is not public and a mechanism needs it first."""

TREE_MEGABYTES = 80.0
"""The largest junction tree that mechanisms let grow by what they choose to measure, 8 bytes a cell."""

MODEL_MEGABYTES = 8000.0
"""The largest junction tree of what is fixed beforehand: as by `pgmest.estimate`, a larger one is refused."""

NEEDING_MORE = ("ipf", "smoothing")
"""Solvers that cannot fit noisy counts in l2: one needs counts without noise, the other absolute residuals."""

LARGEST_COUNT = 2**31 - 1
"""No number of rounds, records or iterations is larger."""

METADATA = "check"
"""Under this key a field's metadata has its check."""


@dataclass(frozen=True)
class Check:
    """What values a parameter may have.

    Attributes:
        allowed: in words, as an error says them: "it must be ...".
        checked: returns the value as it is kept, or raises TypeError, ValueError or OverflowError.
    """

    allowed: str
    checked: Callable[[Any], Any]

    def __call__(self, name: str, value: Any) -> Any:
        """The value as it is kept.

        Raises:
            ArgumentError: it is not allowed.
        """
        try:
            return self.checked(value)
        except (TypeError, ValueError, OverflowError):
            raise ArgumentError.of(name, value, self.allowed) from None


def parameter(default: Any, check: Check) -> Any:
    """A field of a mechanism, with its default and its check."""
    return dataclasses.field(default=default, metadata={METADATA: check})


def check_parameters(mechanism: Any) -> None:
    """Check every field that declares a check, and keep the checked value.

    Raises:
        ArgumentError: a value that is not allowed.
    """
    for field in dataclasses.fields(mechanism):
        check = field.metadata.get(METADATA)
        if check is not None:
            object.__setattr__(mechanism, field.name, check(field.name, getattr(mechanism, field.name)))


# -- checks ----------------------------------------------------------------------------------------------------------


def integer(least: int) -> Check:
    """An integer, NumPy's included, from `least` to `LARGEST_COUNT`; no boolean."""

    def checked(value: Any) -> int:
        number = operator.index(value)
        if _is_boolean(value) or not least <= number <= LARGEST_COUNT:
            raise ValueError
        return int(number)

    return Check("a positive integer" if least == 1 else f"an integer of at least {least}", checked)


def number(allowed: str, within: Callable[[float], bool]) -> Check:
    """A real number, NumPy's included, for which `within` holds; no boolean and no text."""

    def checked(value: Any) -> float:
        if _is_boolean(value) or not isinstance(value, Real):
            raise TypeError
        found = float(value)
        if not within(found):
            raise ValueError
        return found

    return Check(allowed, checked)


def optional(check: Check) -> Check:
    """None, or what a check allows."""
    return Check(f"{check.allowed}, or None", lambda value: None if value is None else check.checked(value))


def choice(options: Iterable[str]) -> Check:
    """One of these names."""
    names = tuple(options)

    def checked(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError
        return str(value)

    return Check(f"one of {', '.join(map(repr, names))}", checked)


def instance(kind: type | tuple[type, ...], allowed: str) -> Check:
    """A value of a type."""

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
"""A limit; infinite for none."""
CELLS = number("a positive number", lambda value: value >= 1)
"""A limit; infinite for none."""
DEVIATIONS = number("a number, such as 3, or -inf", lambda value: not math.isnan(value))
"""How many standard deviations of its noise a count must have for its value not to be rare."""
COUNT = integer(1)
FLAG = Check("True or False", _flag)
ESTIMATOR = choice(ESTIMATORS)
METHOD = Check(f"a solver, or one of {', '.join(map(repr, METHODS))}", _solver)


# -- names that changed ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Renaming:
    """A parameter's present name, and its value there for a value under the old one."""

    name: str
    value: Callable[[Any], Any] = lambda value: value


def share_of_selection(value: Any) -> Any:
    """The share that measures, where the share that selects was given."""
    return 1 - SHARE("selection", value)


def renamed_parameters(kind: type[Mechanism], given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments under their present names, with a DeprecationWarning for each old one.

    Where all parameters are given, as `dataclasses.replace` gives them, an old name changes the value of the new one.

    Raises:
        ArgumentError: both names of a parameter.
    """
    present = dict(given)
    replacing = all(field.name in given for field in dataclasses.fields(kind))
    for old, renaming in kind.renamed().items():
        if old in present:
            if renaming.name in given and not replacing:
                raise ArgumentError(
                    f"{kind.__name__} got {renaming.name}= and its old name {old}=: give {renaming.name}=."
                )
            warnings.warn(
                f"{kind.__name__}({old}=...) is now {renaming.name}=; the old name will go.",
                DeprecationWarning,
                stacklevel=3,
            )
            present[renaming.name] = renaming.value(present.pop(old))
    return present
