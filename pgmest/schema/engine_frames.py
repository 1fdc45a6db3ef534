"""Frames of engines (DuckDB, polars, ...): dates within limits, names as SQL writes them, expressions kept apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgmest.data.dates import PER_DAY, limits

if TYPE_CHECKING:
    import narwhals as nw

DUCKDB_LIMITS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"), ("0001-01-01 (BC)", "10000-01-01")),
    "TIMESTAMP WITH TIME ZONE": ("0001-01-01 (BC) 00:00:00+00", "10000-01-01 00:00:00+00"),
    "TIMESTAMP_NS": ("1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806"),
    **dict.fromkeys(("TIME", "TIME_NS"), ("00:00:00", "24:00:00")),
}
"""The least and the greatest value of each of DuckDB's types of dates and times that its functions can take."""


def within_limits(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return a frame whose dates and times are clipped as `pgmest.data.dates` clips them.

    Beyond, polars panics, and DuckDB stops with an error, or has no year for a date.
    """
    import narwhals as nw

    if frame.implementation.is_polars():
        clipped = [
            _clipped(name, kind) for name, kind in frame.collect_schema().items() if kind in (nw.Date, nw.Datetime)
        ]
        return frame.with_columns(*clipped) if clipped else frame
    if not frame.implementation.is_duckdb():
        return frame
    relation: Any = frame.to_native()
    columns = []
    for name, kind in zip(relation.columns, map(str, relation.types), strict=True):
        quoted = quoted_name(name)
        if kind == "TIMESTAMPTZ_NS":  # narwhals does not know this type, and microseconds hold all of its days
            columns.append(f"{quoted}::timestamptz as {quoted}")
            continue
        least, most = (f"'{limit}'::{kind}" for limit in DUCKDB_LIMITS.get(kind, ("", "")))
        clipped = f"case when {quoted} is not null then least(greatest({quoted}, {least}), {most}) end"
        exact = f"({clipped})::timestamp" if kind in ("TIMESTAMP_S", "TIMESTAMP_MS") else clipped
        columns.append(f"{exact} as {quoted}" if kind in DUCKDB_LIMITS else quoted)
    return nw.from_native(relation.select(", ".join(columns)))


def kept_apart(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return a frame whose columns DuckDB computes once, however often what follows refers to them.

    Its optimizer would put the expression of a column wherever the column stands, and again in what refers to that; a
    limit, here of more rows than there can be, stops it.
    """
    return frame.head(2**62) if frame.implementation.is_duckdb() else frame


def _clipped(name: str, kind: Any) -> Any:
    """Return a column of dates or times of polars, clipped."""
    import narwhals as nw

    zoned = getattr(kind, "time_zone", None) is not None  # then the clock of the zone must not overflow either
    low, high = limits("D" if kind == nw.Date else kind.time_unit, spare=PER_DAY["ns"] if zoned else 1)
    return nw.col(name).cast(nw.Int64).clip(low, high).cast(kind)


def quoted_name(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
