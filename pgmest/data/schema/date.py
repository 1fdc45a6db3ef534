"""Date columns: a range of days cut into days, months or years."""

from __future__ import annotations

import contextlib
import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pgmest._base.errors import DataError
from pgmest.data.schema.bins import draw_whole, whole_bin_expression, whole_bins
from pgmest.data.schema.column import COMMON_KEYS, as_text, gap_keys, outside_key
from pgmest.data.schema.grid import Grid
from pgmest.data.schema.notation import Node

if TYPE_CHECKING:
    import narwhals as nw

ISO_DATE = r"\d{4}-\d\d-\d\d"
UNITS: dict[str, Literal["D", "M", "Y"]] = {"day": "D", "month": "M", "year": "Y"}


@dataclass(frozen=True)
class Date(Grid):
    """Days from `min` to `max`, in bins of `width` days, months or years (`unit`), or in `bins` bins, or by `edges`.

    Numbers are days since 1970-01-01. The time of day is dropped. A drawn value is a day, uniform within its bin.

    Attributes:
        format: how text writes dates, such as "%d.%m.%Y"; None for 2020-12-31, with or without a time.
    """

    format: str | None

    @property
    def kind(self) -> str:
        return "date"

    @classmethod
    def from_node(cls, name: str, node: Node) -> Date:
        fields = node.fields((*COMMON_KEYS, "min", "max", "bins", "width", "edges", "unit", "format"))
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
        form = fields["format"].text() if "format" in fields else None
        return cls(name, missing, markers, outside, node.place, tuple(days), last, form)

    def numbers(self, values: np.ndarray) -> np.ndarray:
        import pandas as pd

        if values.dtype.kind != "M":
            if values.dtype.kind in "iufb":  # numbers are no dates
                return np.full(len(values), np.nan)
            text = as_text(values)
            if self.format is None:
                values = iso_days(text.str.slice(0, 10))
            else:
                values = pd.to_datetime(text, format=self.format, errors="coerce").to_numpy()
        days = values.astype("M8[D]")
        return np.where(np.isnat(days), np.nan, days.astype(np.int64))

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return draw_whole(codes, self.starts, self.high, generator).astype("M8[D]")

    def labels(self) -> list[str]:
        spans = [(self.written(a), self.written(self._last(code))) for code, a in enumerate(self.starts)]
        return [a if a == b else f"{a}..{b}" for a, b in spans]

    def written(self, number: float) -> str:
        return str(np.datetime64(int(number), "D"))

    def number_of(self, node: Node) -> float:
        return int(_day(node).astype(int))

    def expected(self) -> str:
        form = "" if self.format is None else f" written as {self.format}"
        return f"dates{form} {super().expected()}"

    def expression(self, kind: nw.dtypes.DType) -> tuple[nw.Expr, nw.Expr]:
        import narwhals as nw

        if not (kind == nw.Date or kind == nw.Datetime):
            raise DataError(f"column '{self.name}' is of type {kind}, not a date ({self.place}); cast it.")
        column = nw.col(self.name).cast(nw.Date)
        first, last = (datetime.date.fromisoformat(self.written(bound)) for bound in (self.low, self.high))
        outside = (column < nw.lit(first)) | (column > nw.lit(last))
        return whole_bin_expression(_days_since_1970(column), self.starts, self.high), outside

    def _last(self, code: int) -> float:
        return self.high if code == self.regular - 1 else self.starts[code + 1] - 1


def iso_days(text: Any) -> np.ndarray:
    """Dates written as YYYY-MM-DD, a pandas Series of text, as datetime64[D]; NaT where there is none.

    Before pandas 3 its own parser knows the years 1678 to 2262 alone, so what it does not read is tried once more.
    """
    import pandas as pd

    days = pd.to_datetime(text, format="%Y-%m-%d", errors="coerce").to_numpy().astype("M8[D]")
    for row in np.flatnonzero(np.isnat(days) & text.str.fullmatch(ISO_DATE).to_numpy(dtype=bool)):
        with contextlib.suppress(ValueError):  # 2020-02-30
            days[row] = datetime.date.fromisoformat(text.iloc[row])
    return days


def _days_since_1970(date: nw.Expr) -> nw.Expr:
    """By the calendar's rule: engines have no common function for it."""
    years = date.dt.year() - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + date.dt.ordinal_day() - 719_163


def _day(node: Node) -> np.datetime64:
    try:
        return np.datetime64(datetime.date.fromisoformat(node.text()), "D")
    except ValueError:
        node.fail(f"must be a date such as 2020-12-31, not {node.shown}.")
