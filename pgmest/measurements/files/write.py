"""Writing of measurement files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pgmest._base.files import atomic_path, write_atomically
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
        write_atomically(path, _json([_encode(measurement, np.ndarray.tolist) for measurement in measurements]))
        return
    arrays: dict[str, Any] = {}

    def store(array: np.ndarray) -> dict[str, str]:
        name = f"array{len(arrays)}"
        arrays[name] = array
        return {"array": name}

    header = _json([_encode(measurement, store) for measurement in measurements])
    arrays["header"] = np.frombuffer(header.encode("utf-8"), dtype=np.uint8)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def file_kind(path: Path) -> str:
    """Return the ending of a measurement file's path, ".json" or ".npz".

    Raises:
        FileFormatError: the path has another ending.
    """
    ending = path.suffix.lower()
    if ending not in (".json", ".npz"):
        raise FileFormatError.of(path, "ends in neither .json nor .npz.", "Give it one of these endings.")
    return ending


def _encode(measurement: LinearMeasurement, store: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """Convert a measurement to a JSON object; `store` converts its arrays."""
    deviations = measurement.stddev
    encoded: dict[str, Any] = {"clique": list(measurement.clique)}
    if measurement.query is not None:
        encoded["query"] = encode_query(measurement.query, store)
    if measurement.low is not None and measurement.high is not None:
        return encoded | _encode_ends(measurement, measurement.low, measurement.high, store)
    encoded["noise"] = measurement.noise
    encoded["stddev"] = store(deviations) if isinstance(deviations, np.ndarray) else deviations
    encoded["values"] = store(measurement.values)
    return encoded


def _encode_ends(
    measurement: LinearMeasurement, low: np.ndarray, high: np.ndarray, store: Callable[[np.ndarray], Any]
) -> dict[str, Any]:
    """Return the fields of the ends of a measurement; a missing upper end (inf, which JSON lacks) becomes null."""
    if measurement.base is not None and measurement.published is not None:
        return {"values": store(measurement.published), "rounded": measurement.base, "random": True}
    lows, highs = store(low), store(high)
    if isinstance(highs, list):
        highs = [None if end == np.inf else end for end in highs]
    stated = {} if measurement.stated_total is None else {"total": measurement.stated_total}
    return {"low": lows, "high": highs, **stated}


def _json(measurements: list[dict[str, Any]]) -> str:
    """Return the text of the file, with one measurement per line."""
    version = VERSION if any("low" in measurement or "rounded" in measurement for measurement in measurements) else 1
    lines = ",\n".join(f"  {json.dumps(measurement)}" for measurement in measurements)
    return f'{{\n "format": "{FORMAT}",\n "version": {version},\n "measurements": [\n{lines}\n ]\n}}\n'
