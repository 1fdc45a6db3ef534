"""The checks of `Dataset.from_frame` where an engine holds the records: it answers a few questions about each column.

The errors are those of `codes.py`, without a row: the rows of an engine have no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgmest.data.codes import check_countable
from pgmest.data.frames import collected
from pgmest.errors import CodeRangeError, DataError
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    import narwhals as nw

COLUMNS_AT_ONCE = 200
"""Columns checked in one scan; engines slow down on queries with thousands of expressions."""


@dataclass(frozen=True)
class Scanned:
    """The results of the first scan, which show later whether the table has changed.

    Attributes:
        records: the number of rows.
        total: the sum of their weights; without weights, their number.
        sums: the sum of the codes of each attribute.
    """

    records: int
    total: float
    sums: Mapping[str, int]


def scan(frame: nw.LazyFrame[Any], domain: Domain, weight: str | None) -> Scanned:
    """Scan a table once and check that all values are codes and all weights are valid.

    Raises:
        DataError: a value is no integer code, a weight is no finite number of at least 0, or there are too many.
        CodeRangeError: a code is not in 0..n-1.
    """
    records, sums = 0, dict[str, int]()
    for start in range(0, len(domain), COLUMNS_AT_ONCE):
        part = domain.project(domain.attributes[start : start + COLUMNS_AT_ONCE])
        again, found = _check_some(frame, part)
        if start and again != records:
            raise changed(frame)
        records = again
        sums.update(found)
    check_countable(records)
    return Scanned(records, float(records) if weight is None else _check_weights(frame, weight, records), sums)


def changed(frame: nw.LazyFrame[Any]) -> DataError:
    """Return the error for a table that changed between scans."""
    return DataError(
        f"the table in {frame.implementation.name.lower()} changed while it was being counted, so that its counts "
        "are of no one table. Copy it first, such as into a Parquet file, or see that nobody writes to it; then begin "
        "again."
    )


def _check_weights(frame: nw.LazyFrame[Any], name: str, records: int) -> float:
    """Return the sum of the weights after checking that each is finite and at least 0."""
    import narwhals as nw

    remedy = "Weights are finite numbers of at least 0, one per record."
    if not frame.collect_schema()[name].is_numeric():
        raise DataError(f"the weights in column '{name}' are not numbers. {remedy}")
    weight = nw.col(name).cast(nw.Float64)
    found = _answers(frame, {"low": weight.min(), "high": weight.max(), "known": weight.count(), "sum": weight.sum()})
    if found["known"] < records:
        raise DataError(f"column '{name}' has a row without a weight. {remedy}")
    if not records:
        return 0.0
    if not (found["low"] >= 0 and math.isfinite(found["sum"])):
        bad = found["low"] if found["low"] < 0 else found["sum"]
        raise DataError(f"a weight in column '{name}' is {bad}. {remedy}")
    check_countable(found["sum"])
    return float(found["sum"])


def _check_some(frame: nw.LazyFrame[Any], domain: Domain) -> tuple[int, dict[str, int]]:
    """Return the number of rows and the sum of the codes of each attribute."""
    import narwhals as nw

    kinds = frame.collect_schema()
    questions: dict[str, Any] = {"records": nw.len()}
    for position, (name, size) in enumerate(domain.items()):
        if not (kinds[name].is_numeric() or kinds[name] == nw.Boolean):
            raise DataError.not_a_code(name, None, _some_value(frame, name, ~nw.col(name).is_null()), size)
        number = _number(name, kinds[name])
        questions[f"low_{position}"] = number.min()
        questions[f"high_{position}"] = number.max()
        questions[f"known_{position}"] = number.count()
        questions[f"sum_{position}"] = number.cast(nw.Float64).sum()  # exact: not many, and all small
        if kinds[name].is_float() or kinds[name].is_decimal():
            questions[f"parts_{position}"] = nw.when(_is_whole(number)).then(nw.lit(0)).otherwise(nw.lit(1)).sum()
    found = _answers(frame, questions)
    if not found["records"]:
        return 0, dict.fromkeys(domain, 0)
    for position, (name, size) in enumerate(domain.items()):
        if found[f"known_{position}"] < found["records"]:
            raise DataError.not_a_code(name, None, None, size)
        if found.get(f"parts_{position}"):
            broken = ~_is_whole(_number(name, kinds[name]))
            raise DataError.not_a_code(name, None, _some_value(frame, name, broken), size)
        low, high = found[f"low_{position}"], found[f"high_{position}"]
        if low < 0 or high >= size:
            raise CodeRangeError.of(name, None, low if low < 0 else high, size)
    sums = {name: int(found[f"sum_{position}"]) for position, name in enumerate(domain)}
    return int(found["records"]), sums


def _number(name: str, kind: Any) -> Any:
    """Return the column as numbers that every engine can compare."""
    import narwhals as nw

    if kind.is_integer():
        return nw.col(name)
    return nw.col(name).cast(nw.Int64 if kind == nw.Boolean else nw.Float64)


def _is_whole(number: Any) -> Any:
    """Return whether a number is whole; infinities and NaN, which some engines find equal to themselves, are not."""
    return (number - number.floor()) == 0


def _answers(frame: nw.LazyFrame[Any], questions: dict[str, Any]) -> dict[str, Any]:
    """Return one row of aggregates as Python numbers (None for aggregates of no values)."""
    row = collected(frame.select(*(question.alias(name) for name, question in questions.items())))
    return {name: row[name].to_list()[0] for name in questions}


def _some_value(frame: nw.LazyFrame[Any], name: str, condition: Any) -> object:
    """Return a value of the column where the condition holds, or None."""
    values = collected(frame.filter(condition).select(name).head(1))[name].to_list()
    return values[0] if values else None
