"""Writing measurement files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pgmest._base.errors import FileFormatError
from pgmest._base.files import atomic_path, write_atomically
from pgmest.measurements.files.query_format import encode_query
from pgmest.measurements.measurement import LinearMeasurement

FORMAT = "pgmest-measurements"
VERSION = 2
"""Files without answers between two ends are written as version 1, which every pgmest reads."""


def save_measurements(path: str | Path, measurements: Iterable[LinearMeasurement]) -> None:
    """Write measurements as JSON or npz, as the path ends; whoever reads sees the old file or the whole new one.

    Args:
        path: ends in .json or .npz.
        measurements: any whose query has known entries.

    Raises:
        ArgumentError: a query is a LinearOperator.
        FileFormatError: another ending, or the file cannot be written.
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
    """The ending of a measurement file's path, ".json" or ".npz".

    Raises:
        FileFormatError: another ending.
    """
    ending = path.suffix.lower()
    if ending not in (".json", ".npz"):
        raise FileFormatError.of(path, "ends in neither .json nor .npz.", "Name a measurement file by its format.")
    return ending


def _encode(measurement: LinearMeasurement, store: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    if measurement.low is not None and measurement.high is not None:
        return _encode_between(measurement, measurement.low, measurement.high, store)
    deviations = measurement.stddev
    encoded: dict[str, Any] = {"clique": list(measurement.clique)}
    if measurement.query is not None:
        encoded["query"] = encode_query(measurement.query, store)
    encoded["noise"] = measurement.noise
    encoded["stddev"] = store(deviations) if isinstance(deviations, np.ndarray) else deviations
    encoded["values"] = store(measurement.values)
    return encoded


def _encode_between(
    measurement: LinearMeasurement, low: np.ndarray, high: np.ndarray, store: Callable[[np.ndarray], Any]
) -> dict[str, Any]:
    """The ends as lists; null stands for an upper end that is not there, which JSON cannot write as a number."""
    encoded: dict[str, Any] = {"clique": list(measurement.clique)}
    if measurement.query is not None:
        encoded["query"] = encode_query(measurement.query, store)
    if measurement.base is not None and measurement.published is not None:
        return encoded | {"values": store(measurement.published), "rounded": measurement.base, "random": True}
    encoded["low"] = store(low)
    ends = store(high)
    encoded["high"] = [None if end == np.inf else end for end in ends] if isinstance(ends, list) else ends
    return encoded


def _json(measurements: list[dict[str, Any]]) -> str:
    """The file's object with one measurement a line."""
    version = VERSION if any("low" in measurement or "rounded" in measurement for measurement in measurements) else 1
    lines = ",\n".join(f"  {json.dumps(measurement)}" for measurement in measurements)
    return f'{{\n "format": "{FORMAT}",\n "version": {version},\n "measurements": [\n{lines}\n ]\n}}\n'
