"""Writing of measurement files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pgmest._base.files import write_atomically
from pgmest._base.npz import write_archive
from pgmest.errors import FileFormatError
from pgmest.measurements.files.query_format import encode_query
from pgmest.measurements.measurement import LinearMeasurement

FORMAT = "pgmest-measurements"
VERSION = 2
"""The latest version of the format. Files without answers between two ends are written as version 1."""


def save_measurements(path: str | Path, measurements: Iterable[LinearMeasurement]) -> None:
    """Write measurements to a JSON or npz file, atomically: readers see the old file or the complete new one.

    Args:
        path: the path of the file, which ends in .json or .npz.
        measurements: the measurements; queries that are LinearOperators cannot be written.

    Raises:
        ArgumentError: a query is a LinearOperator.
        FileFormatError: the path has another ending, or the file cannot be written.
    """
    path = Path(path)
    if file_kind(path) == ".json":
        write_atomically(path, _json([encode_measurement(m, np.ndarray.tolist) for m in measurements]))
    else:
        entries = [encode_measurement(measurement) for measurement in measurements]
        tree = {"format": FORMAT, "version": _version(entries), "measurements": entries}
        write_archive(path, tree, compressed=True)


def file_kind(path: Path) -> str:
    """Return the ending of a measurement file's path, ".json" or ".npz".

    Raises:
        FileFormatError: the path has another ending.
    """
    ending = path.suffix.lower()
    if ending not in (".json", ".npz"):
        raise FileFormatError.of(path, "ends in neither .json nor .npz.", "Give it one of these endings.")
    return ending


def encode_measurement(
    measurement: LinearMeasurement, store: Callable[[np.ndarray], Any] = lambda array: array
) -> dict[str, Any]:
    """Convert a measurement to an object of JSON values and arrays, which `decode_measurements` reads.

    Args:
        measurement: the measurement.
        store: converts the arrays in it, which by default stay arrays.

    Raises:
        ArgumentError: its query is a LinearOperator, whose entries are not known.
    """
    encoded: dict[str, Any] = {"clique": list(measurement.clique)}
    if measurement.query is not None:
        encoded["query"] = encode_query(measurement.query, store)
    if measurement.base is not None:
        return encoded | {"values": store(measurement.values), "rounded": measurement.base, "random": True}
    if measurement.low is not None and measurement.high is not None:
        lows, highs = store(measurement.low), store(measurement.high)
        if isinstance(highs, list):  # of JSON, which lacks infinity
            highs = [None if end == np.inf else end for end in highs]
        stated = {} if measurement.stated_total is None else {"total": measurement.stated_total}
        return encoded | {"low": lows, "high": highs, **stated}
    deviations = measurement.stddev
    stddev = store(deviations) if isinstance(deviations, np.ndarray) else deviations
    return encoded | {"noise": measurement.noise, "stddev": stddev, "values": store(measurement.values)}


def _version(measurements: list[dict[str, Any]]) -> int:
    return VERSION if any("low" in entry or "rounded" in entry for entry in measurements) else 1


def _json(measurements: list[dict[str, Any]]) -> str:
    """Return the text of the file, with one measurement per line."""
    lines = ",\n".join(f"  {json.dumps(measurement)}" for measurement in measurements)
    version = _version(measurements)
    return f'{{\n "format": "{FORMAT}",\n "version": {version},\n "measurements": [\n{lines}\n ]\n}}\n'
