"""Reading of measurement files. Their content is not trusted: it is checked before arrays and queries are built."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pgmest._base.files import read_text
from pgmest._base.memory import LARGEST_TABLE
from pgmest._base.npz import Archive, Unreadable, opened_archive
from pgmest.errors import MOST_AXES, FileFormatError, PgmestError, listed, memory_text
from pgmest.measurements.files.query_format import decode_query
from pgmest.measurements.files.write import FORMAT, VERSION, file_kind
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import NOISES, noise_stddev
from pgmest.tables.domain import Domain, as_domain

Take = Callable[[str], np.ndarray]
"""A function that returns the array of a name, once."""

FORMAT_REMEDY = "See help(pgmest.measurements.files) for the format."
ARCHIVE_REMEDY = "Write the file again with save_measurements."
FIELDS: dict[str, tuple[str, ...]] = {
    "exact": ("clique", "values", "exact", "query", "comment"),
    "rounded": ("clique", "values", "rounded", "random", "query", "comment"),
    "suppressed": ("clique", "values", "suppressed", "least", "query", "comment"),
    "percent_of": ("clique", "values", "percent_of", "decimals", "query", "comment"),
    "low": ("clique", "low", "high", "total", "query", "comment"),
    "noise": ("clique", "values", "noise", "stddev", "scale", "query", "comment"),
}
"""The fields of each kind of measurement. A measurement with the first of these names is of that kind; one with none of
them has noise."""

MOST_BYTES = 2**30
"""The largest file that is read, in bytes; of an npz file without compression."""


def load_measurements(path: str | Path, domain: Domain | Mapping[str, int]) -> list[LinearMeasurement]:
    """Read the measurements of a JSON or npz file, and check them against the domain.

    Args:
        path: the path of the file, which ends in .json or .npz.
        domain: the domain of the measurements.

    Raises:
        FileFormatError: the file cannot be read, has another format, or contains an invalid measurement. The message
            names its position, counted from 0, and the invalid field.
    """
    path, domain = Path(path), as_domain(domain)
    if file_kind(path) == ".json":
        try:
            _check_size(path, path.stat().st_size)
        except OSError as error:
            raise FileFormatError.of(path, f"cannot be read: {error.strerror}.", "Check the path.") from None
        return _decoded(path, read_text(path), domain, refuse_arrays)
    with opened_archive(path, "an npz file", ARCHIVE_REMEDY) as archive:
        _check_size(path, archive.bytes)
        return _decoded(path, _header(path, archive), domain, archive.take)


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise FileFormatError.of(
            path,
            f"holds {memory_text(size)}, more than the {memory_text(MOST_BYTES)} allowed.",
            "Divide the measurements among several files.",
        )


def _header(path: Path, archive: Archive) -> str:
    try:
        return archive.text()
    except (TypeError, ValueError) as error:
        raise FileFormatError.of(path, f"not a measurement file ({error}).", FORMAT_REMEDY) from None


def _decoded(path: Path, text: str, domain: Domain, take: Take) -> list[LinearMeasurement]:
    try:
        return list(decode_measurements(_parsed(path, text), domain, take))
    except Unreadable as error:
        raise FileFormatError.of(path, str(error), FORMAT_REMEDY) from None


def _parsed(path: Path, text: str) -> list[Any]:
    """Return the list of measurements in the text, after checking the format, the version and the other fields."""
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except ValueError as error:
        raise Unreadable(f"not valid JSON ({error}).") from None
    except RecursionError:
        raise Unreadable("nested too deeply.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Unreadable(f'not a measurement file: "format" is not "{FORMAT}".')
    if document.get("version") not in range(1, VERSION + 1):
        read = f"this pgmest reads versions 1 to {VERSION}"
        raise FileFormatError.of(path, f"version {document.get('version')!r}, {read}.", "Upgrade pgmest.")
    unknown = [name for name in document if name not in ("format", "version", "measurements", "comment")]
    if unknown or not isinstance(document.get("measurements"), list):
        raise Unreadable(f"unknown fields {listed(unknown)}." if unknown else '"measurements" is not a list.')
    return document["measurements"]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; raise ValueError if a name appears twice, of which json would keep the last."""
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"'{repeated}' appears twice in one object")
    return dict(pairs)


def refuse_arrays(name: str) -> np.ndarray:
    """Raise ValueError, in the place of a function that returns the array of a name."""
    raise ValueError(f"names the array '{name}', which only an .npz file can hold")


class _FieldError(Exception):
    """An error in one field of a measurement."""


def decode_measurements(
    entries: Sequence[Any], domain: Domain, take: Take = refuse_arrays
) -> tuple[LinearMeasurement, ...]:
    """Return the measurements that JSON objects describe, as `encode_measurement` made them or people wrote them.

    Args:
        entries: the objects, in which arrays may stand for lists of numbers.
        domain: the domain of the measurements.
        take: returns the array of a name, for objects that name arrays.

    Raises:
        Unreadable: an entry is no valid measurement; the message names its position and the field.
    """
    measurements = []
    for position, entry in enumerate(entries):
        try:
            measurements.append(_decode(entry, domain, take))
        except _FieldError as error:
            raise Unreadable(f"measurements[{position}]{error}") from None
    return tuple(measurements)


def _decode(entry: Any, domain: Domain, take: Take) -> LinearMeasurement:
    """Convert a JSON object to a measurement."""
    if not isinstance(entry, dict):
        raise _FieldError(" is not an object.")
    kind = next((name for name in FIELDS if name in entry), "noise")
    unknown = [name for name in entry if name not in FIELDS[kind]]
    if unknown:
        raise _FieldError(f" has unknown fields {listed(unknown)}; known are {listed(FIELDS[kind])}.")
    clique = _in_field("clique", lambda: _clique(entry, domain))
    null = {"noise": None, "low": np.inf}.get(kind, np.nan)
    low = _in_field("low", lambda: _numbers(entry["low"], take, null)) if kind == "low" else None
    last = "high" if kind == "low" else "values"
    values = _in_field(last, lambda: _numbers(_required(entry, last), take, null))
    query = _in_field("query", lambda: _query(entry, domain.project(clique), values.size, take))
    if kind == "noise":
        kind, made = _noisy(entry, values, clique, query, take)
    else:
        made = _in_field(kind, lambda: _between(kind, entry, low, values, clique, query))
    _in_field("values" if query is None else "query", lambda: made.check(domain))
    return made


def _noisy(
    entry: dict[str, Any], values: np.ndarray, clique: tuple[str, ...], query: Any, take: Take
) -> tuple[str, LinearMeasurement]:
    """Return the field of the noise of a measurement, and the measurement."""
    noise = entry.get("noise", "gaussian")
    if noise not in NOISES:
        raise _FieldError(f", field 'noise': {noise!r} is not one of {listed(NOISES)}.")
    _in_field("values" if query is None else "query", lambda: LinearMeasurement(values, clique, query=query))
    given = [name for name in ("stddev", "scale") if name in entry]
    if len(given) != 1:
        raise _FieldError(": give either 'stddev' or 'scale', a positive number or one for each value.")
    spread = _in_field(given[0], lambda: _positive(entry[given[0]], take))
    deviations = noise_stddev(noise, spread) if given == ["scale"] else spread
    return given[0], _in_field(given[0], lambda: LinearMeasurement(values, clique, deviations, query, noise))


def _between(kind: str, entry: dict[str, Any], low: Any, values: np.ndarray, clique: Any, query: Any) -> Any:
    """Make a measurement without noise from its decoded fields."""
    setting = entry[kind]
    if kind == "low":
        return LinearMeasurement.between(low, values, clique, query, total=_number(entry, "total", None))
    if kind == "percent_of":
        return LinearMeasurement.percentages(values, clique, setting, entry.get("decimals", 0), query)
    if kind == "exact":
        if setting is not True:
            raise ValueError(f"must be true, got {setting!r}")
        return LinearMeasurement.exact(values, clique, query)
    if isinstance(setting, bool) or not isinstance(setting, int | float):
        raise ValueError(f"must be a number, got {setting!r}")
    if kind == "suppressed":
        return LinearMeasurement.suppressed(values, clique, setting, query, least=_number(entry, "least", 0))
    if not isinstance(entry.get("random", False), bool):
        raise ValueError(f"'random' must be true or false, got {entry['random']!r}")
    return LinearMeasurement.rounded(values, clique, setting, query, random=entry.get("random", False))


def _number(entry: dict[str, Any], name: str, otherwise: Any) -> Any:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise ValueError(f"'{name}' must be a number, got {value!r}")
    return otherwise if value is None else value


def _without_null(value: Any, null: float, depth: int) -> Any:
    """Replace null and "complementary" in nested lists; deeper ones are left to the check of the array."""
    if isinstance(value, list) and depth < MOST_AXES:
        return [_without_null(one, null, depth + 1) for one in value]
    return null if value is None else np.inf if value == "complementary" and np.isnan(null) else value


def _in_field(field: str, read: Callable[[], Any]) -> Any:
    """Return the result of `read`; convert its errors to errors that name the field."""
    try:
        return read()
    except (PgmestError, ValueError) as error:
        end = "" if str(error).endswith((".", "?")) else "."
        raise _FieldError(f", field '{field}': {error}{end}") from None


def _clique(entry: dict[str, Any], domain: Domain) -> tuple[str, ...]:
    names = entry.get("clique")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"must be a list of attribute names, got {names!r}")
    clique = domain.clique(names)
    if domain.size(clique) > LARGEST_TABLE:
        raise ValueError(f"its table has {domain.size(clique):,} cells, more than can be estimated")
    return clique


def _required(entry: dict[str, Any], name: str) -> Any:
    if entry.get(name) is None:
        raise ValueError("is missing")
    return entry[name]


def _numbers(value: Any, take: Take, null: float | None = None) -> np.ndarray:
    """Return the array of a number, a (nested) list of numbers, or a reference to an array.

    Args:
        value: the JSON value.
        take: returns the array of a name.
        null: the number for null, and inf for "complementary" if this is NaN; None if neither is allowed.
    """
    value = _loaded(value, take)
    if null is not None and not isinstance(value, np.ndarray):
        value = _without_null(value, null, 0)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError("is nested unevenly; give a flat list, or rows of equal length") from None
    if array.dtype.kind not in "iuf":
        raise ValueError("must hold numbers only")
    return array


def _positive(value: Any, take: Take) -> np.ndarray:
    array = _numbers(value, take)
    if not np.all((array > 0) & (array < np.inf)):
        raise ValueError("must be positive and finite")
    return array


def _query(entry: dict[str, Any], sizes: Domain, answers: int, take: Take) -> Any:
    query = entry.get("query", "identity")
    if isinstance(query, str) and query == "identity":
        return None
    return decode_query(query, sizes, sizes.size(), answers, lambda value: _loaded(value, take))


def _loaded(value: Any, take: Take) -> Any:
    """Return the array that {"array": name} refers to; return other values unchanged."""
    if isinstance(value, dict):
        if list(value) != ["array"] or not isinstance(value["array"], str):
            raise ValueError(f"must be numbers, got an object with {listed(value) or 'no fields'}")
        return take(value["array"])
    return value
