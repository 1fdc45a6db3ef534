"""Reading of measurement files. Their content is not trusted: it is checked before arrays and queries are built."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pgmest._base.files import read_text
from pgmest._base.memory import LARGEST_TABLE
from pgmest.errors import MOST_AXES, FileFormatError, PgmestError, listed
from pgmest.measurements.files.archive import Archive, check_size
from pgmest.measurements.files.query_format import decode_query
from pgmest.measurements.files.write import FORMAT, VERSION, file_kind
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import NOISES, noise_stddev
from pgmest.tables.domain import Domain, as_domain

MEASUREMENT_FIELDS = ("clique", "values", "noise", "stddev", "scale", "query", "comment")
FORMAT_REMEDY = "See help(pgmest.measurements.files) for the format."
EXACT_KINDS: dict[str, tuple[str, ...]] = {
    "exact": ("values",),
    "rounded": ("values", "random"),
    "suppressed": ("values", "least"),
    "percent_of": ("values", "decimals"),
    "low": ("high", "total"),
}
"""The fields that mark a measurement without noise, each with the fields that it allows besides clique, query and
comment."""


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
        return _decode_all(path, _parse(path, _read_json(path)), domain, _refuse_arrays)
    archive = Archive(path)
    try:
        return _decode_all(path, _parse(path, _header(archive)), domain, archive.take)
    finally:
        archive.close()


def _read_json(path: Path) -> str:
    """Return the text of the file after checking its size."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise FileFormatError.of(path, f"cannot be read: {error.strerror}.", "Check the path.") from None
    check_size(path, size)
    return read_text(path)


def _header(archive: Archive) -> str:
    """Return the JSON text in the archive's member "header"."""
    try:
        return archive.take("header").astype(np.uint8).tobytes().decode("utf-8")
    except ValueError as error:
        raise FileFormatError.of(archive.path, f"not a measurement file ({error}).", FORMAT_REMEDY) from None


def _parse(path: Path, text: str) -> list[Any]:
    """Return the list of measurements in the text, after checking the format, the version and the other fields."""
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except ValueError as error:
        raise FileFormatError.of(path, f"not valid JSON ({error}).", FORMAT_REMEDY) from None
    except RecursionError:
        raise FileFormatError.of(path, "nested too deeply.", FORMAT_REMEDY) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError.of(path, f'not a measurement file: "format" is not "{FORMAT}".', FORMAT_REMEDY)
    if document.get("version") not in range(1, VERSION + 1):
        read = f"this pgmest reads versions 1 to {VERSION}"
        raise FileFormatError.of(path, f"version {document.get('version')!r}, {read}.", "Upgrade pgmest.")
    unknown = [name for name in document if name not in ("format", "version", "measurements", "comment")]
    if unknown or not isinstance(document.get("measurements"), list):
        problem = f"unknown fields {listed(unknown)}." if unknown else '"measurements" is not a list.'
        raise FileFormatError.of(path, problem, FORMAT_REMEDY)
    return document["measurements"]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; raise ValueError if a name appears twice, of which json would keep the last."""
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"'{repeated}' appears twice in one object")
    return dict(pairs)


def _refuse_arrays(name: str) -> np.ndarray:
    raise ValueError(f"names the array '{name}', which only an .npz file can hold")


class _FieldError(Exception):
    """An error in one field of a measurement."""


def _decode_all(
    path: Path, entries: list[Any], domain: Domain, take: Callable[[str], np.ndarray]
) -> list[LinearMeasurement]:
    """Convert JSON objects to measurements; `take` reads the arrays of an archive."""
    measurements = []
    for position, entry in enumerate(entries):
        try:
            measurements.append(_decode(entry, domain, take))
        except _FieldError as error:
            raise FileFormatError.of(path, f"measurements[{position}]{error}", FORMAT_REMEDY) from None
    return measurements


def _decode(entry: Any, domain: Domain, take: Callable[[str], np.ndarray]) -> LinearMeasurement:
    """Convert a JSON object to a measurement."""
    if not isinstance(entry, dict):
        raise _FieldError(" is not an object.")
    kind = next((name for name in EXACT_KINDS if name in entry), None)
    if kind is not None:
        return _decode_between(kind, entry, domain, take)
    unknown = [name for name in entry if name not in MEASUREMENT_FIELDS]
    if unknown:
        raise _FieldError(f" has unknown fields {listed(unknown)}; known are {listed(MEASUREMENT_FIELDS)}.")
    clique = _in_field("clique", lambda: _clique(entry, domain))
    values = _in_field("values", lambda: _numbers(_required(entry), take))
    noise = entry.get("noise", "gaussian")
    if noise not in NOISES:
        raise _FieldError(f", field 'noise': {noise!r} is not one of {listed(NOISES)}.")
    sizes = domain.project(clique)
    query = _in_field("query", lambda: _query(entry, sizes, values.size, take))
    _in_field("values" if query is None else "query", lambda: _checked(values, clique, query, domain))
    given = [name for name in ("stddev", "scale") if name in entry]
    if len(given) != 1:
        raise _FieldError(": give either 'stddev' or 'scale', a positive number or one for each value.")
    spread = _in_field(given[0], lambda: _positive(entry[given[0]], take))
    deviations = noise_stddev(noise, spread) if given == ["scale"] else spread
    return _in_field(given[0], lambda: LinearMeasurement(values, clique, deviations, query, noise))


def _decode_between(
    kind: str, entry: dict[str, Any], domain: Domain, take: Callable[[str], np.ndarray]
) -> LinearMeasurement:
    """Convert a JSON object to a measurement without noise: exact, rounded, suppressed, or between two ends."""
    known = ("clique", "query", "comment", kind, *EXACT_KINDS[kind])
    unknown = [name for name in entry if name not in known]
    if unknown:
        raise _FieldError(f" has unknown fields {listed(unknown)}; with '{kind}' known are {listed(known)}.")
    clique = _in_field("clique", lambda: _clique(entry, domain))
    if kind == "low":
        low, values = (_in_field(end, lambda end=end: _ends(entry.get(end), take, np.inf)) for end in ("low", "high"))
    else:
        low, values = None, _in_field("values", lambda: _ends(_required(entry), take, np.nan))
    query = _in_field("query", lambda: _query(entry, domain.project(clique), values.size, take))
    made = _in_field(kind, lambda: _between(kind, entry, low, values, clique, query))
    _in_field("values" if query is None else "query", lambda: made.check(domain))
    return made


def _between(kind: str, entry: dict[str, Any], low: Any, values: np.ndarray, clique: Any, query: Any) -> Any:
    """Make a measurement without noise from its decoded fields."""
    if kind == "low":
        return LinearMeasurement.between(low, values, clique, query, total=_stated(entry))
    setting = entry[kind]
    if kind == "percent_of":
        return LinearMeasurement.percentages(values, clique, setting, entry.get("decimals", 0), query)
    if kind == "exact":
        if setting is not True:
            raise ValueError(f"must be true, got {setting!r}")
        return LinearMeasurement.exact(values, clique, query)
    if isinstance(setting, bool) or not isinstance(setting, int | float):
        raise ValueError(f"must be a number, got {setting!r}")
    if kind == "suppressed":
        least = entry.get("least", 0)
        if isinstance(least, bool) or not isinstance(least, int | float):
            raise ValueError(f"'least' must be a number, got {least!r}")
        return LinearMeasurement.suppressed(values, clique, setting, query, least=least)
    if not isinstance(entry.get("random", False), bool):
        raise ValueError(f"'random' must be true or false, got {entry['random']!r}")
    return LinearMeasurement.rounded(values, clique, setting, query, random=entry.get("random", False))


def _stated(entry: dict[str, Any]) -> float | None:
    """Return the number of records that was published with the ends."""
    total = entry.get("total")
    if total is not None and (isinstance(total, bool) or not isinstance(total, int | float)):
        raise ValueError(f"'total' must be a number, got {total!r}")
    return total


def _ends(value: Any, take: Callable[[str], np.ndarray], null: float) -> np.ndarray:
    """Return an array of numbers, with `null` for JSON's null, and inf for "complementary"."""
    if value is None:
        raise ValueError("is missing")
    value = _loaded(value, take)
    if isinstance(value, np.ndarray):
        return _numbers(value, take)
    return _numbers(_without_null(value, null, 0), take)


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


def _required(entry: dict[str, Any]) -> Any:
    if "values" not in entry:
        raise ValueError("is missing")
    return entry["values"]


def _numbers(value: Any, take: Callable[[str], np.ndarray]) -> np.ndarray:
    """Return the array of a number, a (nested) list of numbers, or a reference to an array."""
    value = _loaded(value, take)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError("is nested unevenly; give a flat list, or rows of equal length") from None
    if array.dtype.kind not in "iuf":
        raise ValueError("must hold numbers only")
    return array


def _positive(value: Any, take: Callable[[str], np.ndarray]) -> np.ndarray:
    array = _numbers(value, take)
    if not np.all((array > 0) & (array < np.inf)):
        raise ValueError("must be positive and finite")
    return array


def _query(entry: dict[str, Any], sizes: Domain, answers: int, take: Callable[[str], np.ndarray]) -> Any:
    if entry.get("query", "identity") == "identity":
        return None
    return decode_query(entry["query"], sizes, sizes.size(), answers, lambda value: _loaded(value, take))


def _loaded(value: Any, take: Callable[[str], np.ndarray]) -> Any:
    """Return the array that {"array": name} refers to; return other values unchanged."""
    if isinstance(value, dict):
        if list(value) != ["array"] or not isinstance(value["array"], str):
            raise ValueError(f"must be numbers, got an object with {listed(value) or 'no fields'}")
        return take(value["array"])
    return value


def _checked(values: np.ndarray, clique: tuple[str, ...], query: Any, domain: Domain) -> None:
    LinearMeasurement(values, clique, query=query).check(domain)
