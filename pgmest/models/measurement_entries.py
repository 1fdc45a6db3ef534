"""The measurements behind a model in its file: entries of the header that describe them, and their answers as numbers.

Each measurement has two numbers an answer: the noisy value and its standard deviation; without noise the two ends of
the true value, which are equal for exact answers; after random rounding the published multiple, twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, PgmestError
from pgmest.measurements.checks import check_fit
from pgmest.measurements.files.query_format import decode_query, encode_query
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.published_answers import BETWEEN
from pgmest.models.archive import Unreadable
from pgmest.tables.domain import Domain

MOST_ENTRIES = 1_000_000
"""The largest number of entries of all query matrices together, which are written as text; with more, the measurements
are left out."""


def described_measurements(measurements: Sequence[LinearMeasurement]) -> list[dict[str, Any]] | str:
    """Describe measurements without their answers, for the header; or return why a file cannot keep them."""
    entries = 0

    def store(array: np.ndarray) -> list[Any]:
        nonlocal entries
        entries += array.size
        return array.tolist() if entries <= MOST_ENTRIES else []

    try:
        described = [
            {
                "clique": list(measurement.clique),
                "rows": measurement.rows,
                "noise": measurement.noise,
                "query": None if measurement.query is None else encode_query(measurement.query, store),
                **({} if measurement.base is None else {"base": measurement.base}),
                **({} if measurement.stated_total is None else {"total": measurement.stated_total}),
            }
            for measurement in measurements
        ]
    except ArgumentError as error:
        return f"a measured query cannot be written to a file ({str(error).rstrip('.')})"
    if entries > MOST_ENTRIES:
        return f"the matrices of its queries have more than {MOST_ENTRIES:,} entries"
    return described


def answers_of(measurements: Sequence[LinearMeasurement]) -> np.ndarray:
    """Return the two numbers of each answer, measurement after measurement: all of one kind, then all of the other."""
    return np.concatenate([part for measurement in measurements for part in _numbers(measurement)])


def _numbers(measurement: LinearMeasurement) -> tuple[np.ndarray, np.ndarray]:
    if measurement.published is not None:
        return measurement.published, measurement.published
    if measurement.low is not None and measurement.high is not None:
        return measurement.low, measurement.high
    return measurement.values, np.broadcast_to(measurement.stddev, measurement.values.shape)


def read_measurements(
    domain: Domain, described: Any, read_answers: Callable[[int], np.ndarray]
) -> tuple[LinearMeasurement, ...]:
    """Read the measurements that a header describes.

    Args:
        domain: their attributes.
        described: what `described_measurements` returned.
        read_answers: returns this many numbers of what `answers_of` returned.

    Raises:
        Unreadable: the description is wrong.
    """
    if not isinstance(described, list) or not all(isinstance(entry, dict) for entry in described):
        raise Unreadable("its measurements are wrong")
    rows = [entry.get("rows") for entry in described]
    if not all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in rows):
        raise Unreadable("its measurements have no number of answers")
    answers, place, made = read_answers(2 * sum(rows)), 0, []
    for entry, count in zip(described, rows, strict=True):
        first, second = answers[place : place + count], answers[place + count : place + 2 * count]
        place += 2 * count
        made.append(_measurement(domain, entry, first, second))
    return tuple(made)


def _measurement(domain: Domain, entry: dict[str, Any], first: np.ndarray, second: np.ndarray) -> LinearMeasurement:
    try:
        clique = domain.clique(entry["clique"])
        spec, query, sizes = entry["query"], None, domain.project(clique)
        if spec is not None:
            query = decode_query(spec, sizes, sizes.size(), len(first), lambda value: value)
            check_fit(sizes, query, sizes.shape)
        elif len(first) != sizes.size():
            raise Unreadable("a measurement has another number of answers than its table has cells")
        if entry["noise"] != BETWEEN:
            return LinearMeasurement(first, clique, second, query, entry["noise"])
        if "base" in entry:
            return LinearMeasurement.rounded(first, clique, entry["base"], query, random=True)
        return LinearMeasurement.between(first, second, clique, query, total=entry.get("total"))
    except (PgmestError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"a measurement is wrong ({error})") from None
