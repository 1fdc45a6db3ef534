"""Objects of a table as those of plain types, whose methods are those of Python and NumPy.

A column of objects can hold anything, also objects that answer a comparison, a test for null or a conversion with an
error or with whatever they like. What such an object says must not change the codes of other records, or end a run. So
each value becomes one of a plain type by its class alone, before any other code meets it.
"""

from __future__ import annotations

import datetime
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Unread:
    """The placeholder for each value of a type that is never read, such as lists or bytes."""

    kind: str

    def __repr__(self) -> str:
        return f"of type {self.kind}"


NUMPY = [kind for kind in np.sctypeDict.values() if not issubclass(kind, str | np.object_ | np.void)]
PLAIN = frozenset(
    map(
        id,
        (
            *(str, int, float, complex, bool, NoneType, Decimal, uuid.UUID, Unread, *NUMPY),
            *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
        ),
    )
)
"""The types whose values stay as they are, by identity, since a class can define its equality and hash."""

BASES: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    Decimal: Decimal,
    datetime.datetime: lambda value: datetime.datetime.combine(
        datetime.datetime.date(value), datetime.datetime.timetz(value)
    ),
    datetime.date: lambda value: datetime.date.fromordinal(datetime.date.toordinal(value)),
    datetime.time: lambda value: datetime.time.fromisoformat(datetime.time.isoformat(value)),
    datetime.timedelta: datetime.timedelta.__pos__,
    uuid.UUID: lambda value: uuid.UUID(str(value)),
}
"""Functions that make a value of a plain type of one of a class derived from it, without asking the class."""


def plain_objects(array: np.ndarray) -> np.ndarray:
    """Return an array of objects with values of plain types; nulls of pandas become None, and what is not read Unread.

    Timestamps and timedeltas of pandas stay, as they hold more than those of Python.
    """
    kinds = {id(kind): kind for kind in map(type, array)}
    pandas: Any = sys.modules.get("pandas")  # not loaded for a frame of another library
    nulls = () if pandas is None else (type(pandas.NaT), type(pandas.NA))
    own = () if pandas is None else (pandas.Timestamp, pandas.Timedelta)
    odd = {key for key, kind in kinds.items() if key not in PLAIN and not any(kind is other for other in own)}
    if not odd:
        return array
    made = array.copy()
    for row, value in enumerate(array):
        kind = type(value)
        if id(kind) in odd:
            made[row] = None if any(kind is null for null in nulls) else _plain(value, kind)
    return made


def _plain(value: Any, kind: type) -> Any:
    convert = next((function for base, function in BASES.items() if issubclass(kind, base)), None)
    try:
        if convert is not None:
            return convert(value)
    except Exception:  # a foreign object may raise any
        pass
    return Unread(vars(type)["__name__"].__get__(kind))
