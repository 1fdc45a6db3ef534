"""Given values: conditions on columns in terms of values, sets and ranges, as weights of codes and as values to draw.

    {"sex": "F", "city": {"Rome", "Oslo"}, "age": (30, 40), "born": ("1980-01-01", None), "income": None}

A range that contains a part of a bin counts the bin by this part, as values are uniform within bins. A level of a
hierarchy takes labels of its groups: {"diagnosis@chapter": "I"}.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.values import Values
from pgmest.errors import QueryError, UnknownAttributeError, excerpt, listed
from pgmest.schema.bins import uniform
from pgmest.schema.categorical import Categorical, written
from pgmest.schema.column import SchemaColumn
from pgmest.schema.grid import Grid
from pgmest.schema.readings import text_of
from pgmest.schema.writing import marked, off_markers
from pgmest.tables.hierarchy import SEPARATOR, NamedLevel

if TYPE_CHECKING:
    from pgmest.data.dataset import Dataset
    from pgmest.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class Bins:
    """The allowed values in the bins of a column of numbers or dates, in units of `Grid.points`.

    Attributes:
        column: the column.
        first, last: the allowed range in each bin; empty where `first > last`.
        points: the allowed values; None if all in the range are.
    """

    column: Grid
    first: np.ndarray
    last: np.ndarray
    points: np.ndarray | None = None

    def weights(self) -> np.ndarray:
        """Return the share of each bin that is allowed, shape (bins,)."""
        lows, highs = self.column.points
        if self.points is not None:
            sizes = highs - lows + 1 if lows.dtype.kind == "i" else np.where(highs > lows, highs - lows, 1.0)
            bins = np.searchsorted(lows, self.points, side="right") - 1
            return np.bincount(bins, minlength=len(lows)) / sizes
        inside = self.first <= self.last
        if lows.dtype.kind == "i":
            return np.where(inside, self.last - self.first + 1, 0) / (highs - lows + 1)
        widths = np.where(highs > lows, highs - lows, 1.0)
        return np.where(inside, np.where(highs > lows, (self.last - self.first) / widths, 1.0), 0.0)

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return an allowed value in the bin of each record, as floats, shape (records,); all bins have some."""
        if self.points is None:
            first, last = self.first[codes], self.last[codes]
            return off_markers(self.column, first, last, uniform(first, last, generator)).astype(np.float64)
        points = np.sort(self.points)
        lows, highs = (ends[codes] for ends in self.column.points)
        start, stop = np.searchsorted(points, lows, side="left"), np.searchsorted(points, highs, side="right")
        return points[generator.integers(start, stop)].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Given:
    """Conditions on some attributes.

    Attributes:
        weights: for each attribute the weight of each code, from 0 to 1.
        bins: the allowed values of numbers and dates.
        text: the conditions as a person would write them.
    """

    weights: Mapping[str, np.ndarray]
    bins: Mapping[str, Bins]
    text: str

    def values(self, data: Dataset, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Return allowed numbers of the records, in units, for `decode`; NaN for missing values."""
        drawn = {}
        for name, bins in self.bins.items():
            codes = data.column(name).astype(np.int64)
            there = codes < bins.column.regular
            drawn[name] = np.full(len(codes), np.nan)
            drawn[name][there] = bins.draw(codes[there], generator)
        return drawn


def read_given(schema: Schema, given: Mapping[str, Any]) -> Given:
    """Return conditions in terms of values as weights of codes.

    Args:
        schema: the columns.
        given: column -> a value; a set or list of values; for numbers and dates a range (low, high), both included, of
            which None leaves an end open. None as a value is a missing value.

    Raises:
        UnknownAttributeError: the schema lacks a column; the error suggests the nearest name.
        QueryError: a value that the column does not have, with the nearest one; or a column that has no codes.
    """
    weights, bins, texts = {}, {}, []
    for name, value in given.items():
        texts.append(f"{name}={_shown(value)}")
        if schema.domain.names_levels(name):
            level = schema.domain.level(name)
            assert level.groups is not None
            _check_once(level.attribute, given)
            weights[level.attribute] = np.isin(level.groups, _groups(schema, level, value)).astype(np.float64)
            continue
        column = _column(schema, name)
        if isinstance(column, Grid):
            weights[name], bins[name] = _grid(column, value)
        else:
            weights[name] = _labels(column, value)
        if not weights[name].any():
            raise QueryError(f"given= leaves '{name}' no value: {texts[-1]}. Values are {column.expected()}.")
    _check_related(schema, bins)
    return Given(weights, bins, ", ".join(texts))


def evidence(schema: Schema, given: Mapping[str, Any]) -> dict[str, int]:
    """Return the code of each given value; see `Schema.evidence`."""
    levels = {name: schema.domain.level(name) for name in given if schema.domain.names_levels(name)}
    found: dict[str, int] = {}
    for name, level in levels.items():
        groups = _groups(schema, level, given[name])
        if len(groups) > 1:
            raise QueryError(f"'{name}' has {len(groups)} groups for {_shown(given[name])}: give a single one.")
        found[name] = groups[0]
    read_given(schema, given)  # checks that no attribute is given twice
    for name, weights in read_given(schema, {n: v for n, v in given.items() if n not in levels}).weights.items():
        codes = np.flatnonzero(weights)
        if len(codes) > 1:
            raise QueryError(
                f"'{name}' has {len(codes)} codes for {_shown(given[name])}: give a single value, or use "
                "Synthesizer.sample(given=...), which takes sets and ranges."
            )
        found[name] = int(codes[0])
    return found


def _check_once(attribute: str, given: Mapping[str, Any]) -> None:
    """Raise QueryError if an attribute is given by two levels, or by a level and itself."""
    named = [name for name in given if name == attribute or str(name).startswith(f"{attribute}{SEPARATOR}")]
    if len(named) > 1:
        raise QueryError(f"given= names {listed(named)}: give one of them.")


def _groups(schema: Schema, level: NamedLevel, value: Any) -> list[int]:
    """Return the groups of a level that a condition names by their labels."""
    labels, column = schema.labels(level.name), schema.column(level.attribute)
    assert level.groups is not None
    if isinstance(value, tuple | Mapping):
        raise QueryError(f"given= for '{level.name}' takes labels of groups, not a range: {listed(labels, 20)}.")
    found = []
    for item in _items(value):
        if _is_missing(item):
            _gap(column)
            found.append(int(level.groups[column.gap_code]))
            continue
        text = text_of(item) or ""
        if text not in labels:
            raise QueryError(
                f"given= for '{level.name}' is {_shown(item)}, which is not one of its groups ({listed(labels)})."
                f"{_hint(text, labels)}"
            )
        found.append(labels.index(text))
    if not found:
        raise QueryError(f"given= leaves '{level.name}' no group: name at least one of {listed(labels)}.")
    return found


def _column(schema: Schema, name: str) -> SchemaColumn:
    """Return the description of a column whose values have codes."""
    described = [column.name for column in schema.described]
    if name not in described:
        raise UnknownAttributeError.of(name, described)
    if name not in schema.domain:
        parts = next(one.parts for one in schema.sums if one.name == name)
        raise QueryError(f"given= names '{name}', which is computed from {listed(parts)}: give these instead.")
    return schema.column(name)


def _check_related(schema: Schema, bins: Mapping[str, Bins]) -> None:
    """Raise QueryError if two columns are given whose values are drawn together."""
    related = [[later, earlier] for later, before in schema.order.before.items() for earlier in before]
    related += [list(one.leaves) for one in schema.sums]
    for names in related:
        both = [name for name in names if name in bins]
        if len(both) > 1:
            raise QueryError(
                f"given= names {listed(both)}, whose values are drawn together: give one of them, and choose among the "
                "rows by the others."
            )


def _items(value: Any) -> list[Any]:
    """Return the values of a set or list; a single value is a list of one."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__") or isinstance(value, Mapping):
        return [value]
    return list(value)


def _is_missing(value: Any) -> bool:
    return bool(Values.of(np.array([value, None], dtype=object)).gaps[0])


def _gap(column: SchemaColumn) -> None:
    if not column.missing:
        raise QueryError(f"given= asks for missing values of '{column.name}', which has none ({column.place}).")


def _grid(column: Grid, value: Any) -> tuple[np.ndarray, Bins]:
    """Return the weights of the codes of numbers or dates, and the values allowed in them."""
    if isinstance(value, Mapping):
        unknown = [key for key in value if key not in ("min", "max")]
        if unknown or not value:
            raise QueryError(f"given= for '{column.name}' takes the keys min and max, not {listed(value)}.")
        value = (value.get("min"), value.get("max"))
    code = _labeled(column, value)
    if code is not None:
        lows, highs = column.points
        first, last, gap = np.ones_like(lows), np.zeros_like(highs), False  # empty, but for its own bin
        first[code], last[code] = lows[code], highs[code]
        bins = Bins(column, first, last)
    elif isinstance(value, tuple):
        bins, gap = _range(column, value), False
    else:
        items = _items(value)
        points = [_point(column, item) for item in items if not _is_missing(item)]
        gap = len(points) < len(items)
        lows, highs = column.points
        distinct = np.unique(np.array(points, dtype=lows.dtype))
        bins = Bins(column, lows, highs, distinct[~marked(column, distinct)])  # no row has a marker of missing values
    if gap:
        _gap(column)
    weights = np.zeros(column.size)
    weights[: column.regular] = bins.weights()
    if gap:
        weights[column.gap_code] = 1.0
    return weights, bins


def _labeled(column: Grid, value: Any) -> int | None:
    """Return the code of the label that a value is, such as 2024-05 of a month; None if it is no label.

    The command line takes the label 1980..1989 apart, as a range.
    """
    ends = isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, str) for end in value)
    label = "..".join(value) if ends else value
    labels = column.labels()[: column.regular] if isinstance(label, str) else []
    return labels.index(label) if label in labels else None


def _range(column: Grid, ends: tuple[Any, ...]) -> Bins:
    lows, highs = column.points
    if len(ends) != 2 or all(end is None for end in ends):
        raise QueryError(
            f"given= for '{column.name}' is {_shown(ends)}, but a range is (low, high), of which one may be None; "
            "other values are a set or list: {30, 40, 50}."
        )
    low = lows[0] if ends[0] is None else _unit(column, ends[0], up=True)
    high = highs[-1] if ends[1] is None else _unit(column, ends[1], up=False)
    if low > highs[-1] or high < lows[0]:
        raise QueryError(f"given= for '{column.name}' is {_shown(ends)}, but values are {column.expected()}.")
    if low > high:
        raise QueryError(f"given= for '{column.name}' is the range {_shown(ends)}, which ends before it begins.")
    first, last = np.maximum(lows, low).astype(lows.dtype), np.minimum(highs, high).astype(lows.dtype)
    if lows.dtype.kind == "f" and low == high:
        return Bins(column, lows, highs, np.array([low], dtype=lows.dtype))
    return Bins(column, first, last)


def _point(column: Grid, value: Any) -> Any:
    """Return a value as a unit of the column."""
    number = _number(column, value)
    if not column.low <= number <= column.high or number != _number(column, value, 1):
        raise QueryError(f"given= for '{column.name}' is {_shown(value)}, but values are {column.expected()}.")
    return column.to_units(np.array([number]))[0]


def _unit(column: Grid, value: Any, up: bool) -> Any:
    """Return an end of a range in units, rounded into the range."""
    number = _number(column, value, int(up))
    if not column.decimals:
        return number
    scaled = number * column.units_of_one
    nearest = np.round(scaled)
    if abs(scaled - nearest) <= 1e-9 * max(1.0, abs(scaled)):
        return nearest
    return np.ceil(scaled) if up else np.floor(scaled)


def _number(column: Grid, value: Any, up: int = 0) -> Any:
    """Return a value as a number on the scale of the column, a fraction of a whole one rounded down, or up."""
    found = column.notation.read(Values.of_items([value]))
    if found.unreadable[0]:
        raise QueryError(f"given= for '{column.name}' is {_shown(value)}, but values are {column.expected()}.")
    return found.numbers[0] + (up if found.fractional[0] else 0)


def _labels(column: SchemaColumn, value: Any) -> np.ndarray:
    """Return the weights of the codes of listed values."""
    assert isinstance(column, Categorical)
    if isinstance(value, Mapping):
        raise QueryError(f"given= for '{column.name}' takes values, not a mapping: {column.expected()}.")
    weights = np.zeros(column.size)
    for item in _items(value):
        if _is_missing(item):
            _gap(column)
            weights[column.gap_code] = 1.0
        else:
            weights[_code(column, item)] = 1.0
    return weights


def _code(column: Categorical, value: Any) -> int:
    found = column.find(Values.of_items([value]))
    if not found.outside[0]:
        return int(found.codes[0])
    labels = column.labels()
    try:
        text = written(value)
    except Exception:  # a foreign object
        text = ""
    if text in labels:  # the label of all others
        return labels.index(text)
    raise QueryError(
        f"given= for '{column.name}' is {_shown(value)}, which is not one of its values ({listed(labels)})."
        f"{_hint(text, labels)}"
    )


def _hint(text: str, labels: Sequence[str]) -> str:
    """Return a question that names the label most like a text in any case; "" if none is like it."""
    near = difflib.get_close_matches(text.lower(), [label.lower() for label in labels], n=1)
    return f" Did you mean {next(label for label in labels if label.lower() == near[0])!r}?" if near else ""


def _shown(value: Any) -> str:
    """Return a condition as it is written in messages."""
    if isinstance(value, tuple) and len(value) == 2:
        low, high = ("" if end is None else _shown(end) for end in value)
        return f"{low}..{high}"
    return value if isinstance(value, str) else excerpt(value)
