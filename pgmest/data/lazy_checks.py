"""The checks of `Dataset.from_frame` where an engine holds the records: it answers a few questions about each column.

The errors are those of `codes.py`, without a row: the rows of an engine have no numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pgmest._base.errors import CodeRangeError, DataError
from pgmest.data.frames import collected
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    import narwhals as nw

COLUMNS_AT_ONCE = 200
"""Columns checked in one scan; engines slow down on queries with thousands of expressions."""


def check_codes(frame: nw.LazyFrame[Any], domain: Domain) -> int:
    """The number of records, all of whose values have been found to be codes.

    Raises:
        DataError: no rows, or a value is no integer code.
        CodeRangeError: a code is not in 0..n-1.
    """
    records = 0
    for start in range(0, len(domain), COLUMNS_AT_ONCE):
        records = _check_some(frame, domain.project(domain.attributes[start : start + COLUMNS_AT_ONCE]))
    return records


def check_weights(frame: nw.LazyFrame[Any], name: str, records: int) -> float:
    """The sum of the weights, all of which have been found to be finite and at least 0.

    Raises:
        DataError: a weight is not.
    """
    import narwhals as nw

    remedy = "Weights are finite numbers of at least 0, one per record."
    if not frame.collect_schema()[name].is_numeric():
        raise DataError(f"the weights in column '{name}' are not numbers. {remedy}")
    weight = nw.col(name).cast(nw.Float64)
    found = _answers(frame, {"low": weight.min(), "high": weight.max(), "known": weight.count(), "sum": weight.sum()})
    if found["known"] < records:
        raise DataError(f"column '{name}' has a row without a weight. {remedy}")
    if not (found["low"] >= 0 and math.isfinite(found["sum"])):
        bad = found["low"] if found["low"] < 0 else found["sum"]
        raise DataError(f"a weight in column '{name}' is {bad}. {remedy}")
    return float(found["sum"])


def _check_some(frame: nw.LazyFrame[Any], domain: Domain) -> int:
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
        if kinds[name].is_float() or kinds[name].is_decimal():
            questions[f"parts_{position}"] = nw.when(_is_whole(number)).then(nw.lit(0)).otherwise(nw.lit(1)).sum()
    found = _answers(frame, questions)
    if not found["records"]:
        raise DataError.no_rows()
    for position, (name, size) in enumerate(domain.items()):
        if found[f"known_{position}"] < found["records"]:
            raise DataError.not_a_code(name, None, None, size)
        if found.get(f"parts_{position}"):
            broken = ~_is_whole(_number(name, kinds[name]))
            raise DataError.not_a_code(name, None, _some_value(frame, name, broken), size)
        low, high = found[f"low_{position}"], found[f"high_{position}"]
        if low < 0 or high >= size:
            raise CodeRangeError.of(name, None, low if low < 0 else high, size)
    return int(found["records"])


def _number(name: str, kind: Any) -> Any:
    """The column as numbers that every engine can compare."""
    import narwhals as nw

    if kind.is_integer():
        return nw.col(name)
    return nw.col(name).cast(nw.Int64 if kind == nw.Boolean else nw.Float64)


def _is_whole(number: Any) -> Any:
    """False for infinities and NaN, too, which some engines take for equal to themselves."""
    return (number - number.floor()) == 0


def _answers(frame: nw.LazyFrame[Any], questions: dict[str, Any]) -> dict[str, Any]:
    """One row of aggregates, as numbers of Python (None for those of no values)."""
    row = collected(frame.select(*(question.alias(name) for name, question in questions.items())))
    return {name: row[name].to_list()[0] for name in questions}


def _some_value(frame: nw.LazyFrame[Any], name: str, condition: Any) -> object:
    """A value of the column where the condition holds, None if there is none."""
    values = collected(frame.filter(condition).select(name).head(1))[name].to_list()
    return values[0] if values else None
