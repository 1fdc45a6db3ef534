"""Models on disk: an npz file with a JSON header and the potentials, which reads back bit for bit.

    header.npy       UTF-8 bytes of a JSON object: format, version, domain, cliques, total, total_stddev, report
    potentials.npy   the tables of the cliques one after the other, each row-major, float64

Nothing is ever unpickled, members are stored uncompressed, and what the header says is compared with the sizes in the
file before anything of that size is allocated: a file from an untrusted source can be wrong, but do no harm.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import operator
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.clique_vector import CliqueVector, Layout
from pgmest.domain import Domain
from pgmest.errors import FileFormatError, PgmestError
from pgmest.estimation.report import EstimationReport
from pgmest.files import atomic_path
from pgmest.model import Model
from pgmest.npy import read_header

if TYPE_CHECKING:
    from pgmest.prior.support_model import SupportModel

FORMAT = "pgmest-model"
VERSION = 1
MEMBERS = ("header.npy", "potentials.npy")

LARGEST_HEADER = 1 << 26
"""Bytes of JSON: enough for a million cliques."""

ARRAY_HEADER = 1024
"""An npy member is at most this much longer than its array."""

_REMEDY = "Only files written by model.save(...) can be read; write it again."


class Unreadable(ValueError):
    """What is wrong with a file, to be reported with its path."""


def save(model: Model, path: str | Path) -> None:
    """Write a model; a reader sees the old file or the whole new one.

    Raises:
        FileFormatError: the file cannot be written; what was there before is untouched.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "domain": list(model.domain.items()),
        "cliques": model.cliques,
        "total": model.total,
        "total_stddev": model.total_stddev,
        "report": None if model.report is None else dataclasses.asdict(model.report),
    }
    encoded = np.frombuffer(json.dumps(header, default=operator.methodcaller("item")).encode(), dtype=np.uint8)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, header=encoded, potentials=model.potentials.flat)


def load(path: str | Path) -> Model | SupportModel:
    """Read a model that `Model.save` wrote, or a support model that `SupportModel.save` wrote.

    Raises:
        FileFormatError: the file is missing, truncated, damaged, of a newer version, or not a model.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, Path(path).stat().st_size)
            return _read(archive)
    except Unreadable as problem:
        raise FileFormatError.of(path, f"not a model file: {problem}.", _REMEDY) from None
    except (zipfile.BadZipFile, struct.error, ValueError, EOFError, RuntimeError) as error:
        raise FileFormatError.of(path, f"not a model file, or a damaged one ({error}).", _REMEDY) from None
    except OSError as error:
        raise FileFormatError.of(path, f"cannot be read: {error.strerror or error}.", "Check the path.") from None


def _read(archive: zipfile.ZipFile) -> Model | SupportModel:
    from pgmest.prior import support_file

    members = sorted(archive.namelist())
    if members == sorted(support_file.MEMBERS):
        return support_file.read(archive)
    if members != sorted(MEMBERS):
        raise Unreadable(f"its members are not {' and '.join(MEMBERS)}")
    header = parsed(read_array(archive, MEMBERS[0], np.uint8, None).tobytes())
    layout = layout_of(header)
    values = read_array(archive, MEMBERS[1], np.float64, layout.cells)
    report = header["report"]
    try:
        return Model(
            CliqueVector.of(layout, values),
            number(header, "total"),
            None if report is None else report_of(report),
            None if header["total_stddev"] is None else number(header, "total_stddev"),
        )
    except PgmestError as error:
        raise Unreadable(str(error).rstrip(".")) from None


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """What is not compressed cannot be larger than the file; it would be allocated before it is read."""
    for member in archive.infolist():
        if member.compress_type == zipfile.ZIP_STORED and member.file_size > size:
            raise Unreadable(f"its member {member.filename} says that it has {member.file_size:,} bytes")


def read_array(archive: zipfile.ZipFile, name: str, kind: Any, length: int | None) -> np.ndarray:
    """A one-dimensional array of that type, and of that length where one is given."""
    member = archive.getinfo(name)
    most = LARGEST_HEADER if length is None else length * np.dtype(kind).itemsize + ARRAY_HEADER
    if member.compress_type != zipfile.ZIP_STORED:
        raise Unreadable(f"its member {name} is compressed")
    if member.file_size > most:
        raise Unreadable(f"its member {name} has {member.file_size:,} bytes, where at most {most:,} make sense")
    content = io.BytesIO(archive.read(member))
    try:  # np.load would allocate whatever shape the member claims to have
        shape, _, dtype = read_header(content)
    except ValueError as error:
        raise Unreadable(f"its member {name} is no array ({error})") from None
    data = content.read()
    if dtype != kind or shape != (len(data) // dtype.itemsize,) or len(data) % dtype.itemsize:
        raise Unreadable(f"its member {name} is not a whole one-dimensional array of {np.dtype(kind)}")
    if length is not None and shape != (length,):
        raise Unreadable(f"its member {name} has {shape[0]:,} values, its header says {length:,}")
    return np.frombuffer(data, dtype=kind)


def parsed(text: bytes, kind: str = FORMAT, version: int = VERSION) -> Mapping[str, Any]:
    """The header, of the format and version that are expected."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("its header is not JSON") from None
    if not isinstance(header, dict) or header.get("format") != kind:
        raise Unreadable("its header does not say so")
    if header.get("version") != version:
        raise Unreadable(f"its version is {header.get('version')!r}, and this release reads version {version}")
    missing = {"domain", "cliques", "total", "total_stddev", "report"} - header.keys()
    if missing:
        raise Unreadable(f"its header lacks {sorted(missing)[0]!r}")
    return header


def layout_of(header: Mapping[str, Any]) -> Layout:
    """The domain and cliques, whose cells are counted, not allocated."""
    try:
        domain = Domain((name, size) for name, size in header["domain"])
        cliques = [tuple(clique) for clique in header["cliques"]]
        layout = Layout.of(domain, cliques)
    except (PgmestError, TypeError, ValueError) as error:
        raise Unreadable(f"its domain or cliques are wrong ({error})") from None
    if len(layout.cliques) != len(cliques):
        raise Unreadable("it has a clique twice")
    return layout


def number(fields: Mapping[str, Any], name: str) -> float:
    """A field that must be a finite number."""
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unreadable(f"its {name} is {value!r}, not a number")
    return float(value)


def report_of(values: Any) -> EstimationReport:
    """The report; its fields must be exactly those of the class, each of its type."""
    fields = {field.name: field.type for field in dataclasses.fields(EstimationReport)}
    kinds = {"str": str, "float": int | float, "int": int, "bool": bool}
    if not isinstance(values, dict) or values.keys() != fields.keys():
        raise Unreadable("its report has other fields than a report")
    for name, kind in fields.items():
        if not isinstance(values[name], kinds[str(kind)]) or (kind != "bool" and isinstance(values[name], bool)):
            raise Unreadable(f"its report has {name}={values[name]!r}")
    return EstimationReport(**values)
