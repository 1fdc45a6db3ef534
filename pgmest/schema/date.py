"""Date columns: a range of days cut into days, months or years."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pgmest.data.dates import days_of
from pgmest.data.values import Values
from pgmest.schema.bins import whole_bin_expression, whole_bins, with_points
from pgmest.schema.column import COMMON_KEYS, gap_keys, outside_key
from pgmest.schema.engine import EngineColumn, Reading
from pgmest.schema.grid import Grid, Numbers, whole_points
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import day_of

if TYPE_CHECKING:
    import narwhals as nw

UNITS: dict[str, Literal["D", "M", "Y"]] = {"day": "D", "month": "M", "year": "Y"}


@dataclass(frozen=True)
class Date(Grid):
    """Days from `min` to `max`, in bins of `width` days, months or years (`unit`), or in `bins` bins, or by `edges`.

    Each of the `points`, days such as 1900-01-01 that many records have, has a bin that holds nothing else.

    Numbers are days since 1970-01-01. The time of day is dropped; the day is the one on the clock of the place that the
    value is from: 23:30 at -05:00 is not yet tomorrow. A drawn value is a day, uniform within its bin.

    Attributes:
        format: how text writes dates, such as "%d.%m.%Y"; None for 2020-12-31, with or without a time.
    """

    format: str | None

    @property
    def kind(self) -> str:
        return "date"

    @classmethod
    def from_node(cls, name: str, node: SchemaNode) -> Date:
        fields = node.fields((*COMMON_KEYS, "min", "max", "bins", "width", "edges", "points", "unit", "format"))
        missing, markers = gap_keys(fields)
        unit = UNITS[fields["unit"].choice(tuple(UNITS))] if "unit" in fields else "D"
        high, starts = whole_bins(node, fields, lambda bound: int(_day(bound).astype(f"M8[{unit}]").astype(int)))
        days = np.array(starts).astype(f"M8[{unit}]").astype("M8[D]").astype(int).tolist()
        last = int(np.array(high + 1).astype(f"M8[{unit}]").astype("M8[D]").astype(int)) - 1
        if "min" in fields:
            days[0], last = (int(_day(fields[bound]).astype(int)) for bound in ("min", "max"))
            if last < days[0]:
                fields["max"].fail(f"must be at least min ({fields['min'].shown}), not {fields['max'].shown}.")
        outside = outside_key(fields, ("clip",), missing)
        form = _format(fields["format"]) if "format" in fields else None
        starts = with_points(fields, days, last, lambda day: int(_day(day).astype(int)), lambda day: day + 1)
        return cls(name, missing, markers, outside, node.place, starts, last, form)

    def numbers(self, values: Values) -> Numbers:
        if values.array.dtype.kind == "M":
            none = np.zeros(len(values), dtype=bool)
            return Numbers(days_of(values.array), none, none)
        positions, distinct = values.distinct()
        read = [day_of(value, self.format) for value in distinct]
        numbers = np.array([0 if day is None else day for day in read], dtype=np.int64)
        unreadable = np.array([day is None for day in read], dtype=bool)
        return Numbers(numbers[positions], unreadable[positions], np.zeros(len(values), dtype=bool))

    def read_in_engine(self, column: EngineColumn) -> Reading:
        return column.day(self.format)

    def bins_in_engine(self, number: nw.Expr) -> nw.Expr:
        return whole_bin_expression(number, self.starts)

    def from_units(self, units: np.ndarray) -> np.ndarray:
        return units.astype("M8[D]")

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray]:
        return whole_points(self.starts, self.high)

    def labels(self) -> list[str]:
        spans = [(int(a), int(self._last(code))) for code, a in enumerate(self.starts)]
        return [_span(np.datetime64(first, "D"), np.datetime64(last, "D")) for first, last in spans]

    def written(self, number: float) -> str:
        return str(np.datetime64(int(number), "D"))

    def number_of(self, node: SchemaNode) -> float:
        return int(_day(node).astype(int))

    def expected(self) -> str:
        form = "" if self.format is None else f" written as {self.format}"
        return f"dates{form} {super().expected()}"

    def _last(self, code: int) -> float:
        return self.high if code == self.regular - 1 else self.starts[code + 1] - 1


def _span(first: np.datetime64, last: np.datetime64) -> str:
    """The days from one to another: 2020..2024 for whole years, 2020-03 for a month, else 2020-03-05..2020-03-11."""
    for unit in ("Y", "M"):
        begins, ends = first.astype(f"M8[{unit}]"), last.astype(f"M8[{unit}]")
        if begins.astype("M8[D]") == first and (ends + 1).astype("M8[D]") - 1 == last:
            return str(begins) if begins == ends else f"{begins}..{ends}"
    return str(first) if first == last else f"{first}..{last}"


def _format(node: SchemaNode) -> str:
    """A format of dates, found to be one that a date is written and read in."""
    form, day = node.text(), datetime.datetime(2001, 2, 3, tzinfo=datetime.UTC)
    try:
        read = datetime.datetime.strptime(day.strftime(form), form)
    except ValueError as error:
        node.fail(f"must be a format of dates such as %d.%m.%Y, not {node.shown} ({error}).")
    if read.year != day.year:
        node.fail(f"must be a format of dates such as %d.%m.%Y; {node.shown} does not say the year.")
    return form


def _day(node: SchemaNode) -> np.datetime64:
    try:
        return np.datetime64(datetime.date.fromisoformat(node.text()), "D")
    except ValueError:
        node.fail(f"must be a date such as 2020-12-31, not {node.shown}.")
