"""The npz file of a model: arrays, and a JSON header that describes them; a model reads back bit for bit.

    header.npy       UTF-8 bytes of a JSON object: format, version, domain, cliques, total, total_stddev, report
    potentials.npy   the tables of the cliques one after the other, each row-major, float64

A model that keeps its measurements, for error bars, has "estimate" and "measurements" in its header, and

    base.npy         the base potentials of the estimate, in the format of potentials.npy
    answers.npy      for each measurement its noisy answers and their standard deviations, float64

A model with exact answers, which its records hold, has "facts" in its header: the clique of each, its numbers of rows
and of entries. For each,

    facts.npy        has the answers, then the row, the column and the value of each entry of the query, float64

A model of any kind that knows the noisy answers behind it, for intervals, has "known" in its header, and

    known.npy        for each of these measurements its noisy answers and their standard deviations, float64

The entry "impossible" of "known" has the cells that structural zeros exclude, as lengths of runs (impossible_cells.py).

A model on a support also has the number of records in its header, and

    codes.npy        the codes, attribute after attribute, in the smallest unsigned type for all of them
    weights.npy      the prior weight of each record, float64

Models of other kinds have their tables, one after the other, each row-major, float64, instead of potentials:

    marginals.npy    of an approximate model, those of the cliques, in counts; "noise" in the header
    conditionals.npy of a Bayesian network, one for each clique: the last attribute given the others
    tables.npy       of a view model, those of the header's "views", in counts; "reconstruction" in the header
    tables.npy       of a least-squares model, the "parts" of each of the header's "groups", which have "cliques" and
    directions.npy   "directions": the attributes of the vectors in this member

A file from an untrusted source can be wrong, but does no harm: nothing is unpickled, members are stored uncompressed,
and the header is compared with the sizes in the file before anything of that size is allocated.
"""

from __future__ import annotations

import io
import json
import math
import operator
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pgmest._base.files import atomic_path
from pgmest._base.npy import read_header
from pgmest._base.printable import is_control
from pgmest.errors import FileFormatError, PgmestError
from pgmest.models.base import ModelBase
from pgmest.solvers.report import ApproximateReport, EstimationReport
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain
from pgmest.tables.hierarchy import Hierarchy

LARGEST_HEADER = 1 << 26
"""The largest header, in bytes of JSON: enough for a million cliques."""

MOST_VALUES = 1 << 24
"""The most values of all attributes together that no table in the file is about. Their marginals are uniform and are
made when they are asked for: 134 MB, where the file may have 700 bytes."""

ARRAY_HEADER = 1024
"""The largest length, in bytes, of the npy header before an array."""


REMEDY = "Only files written by {} can be read; write it again."
"""The remedy for a damaged file, with the call that writes such files."""


class Kind(NamedTuple):
    """A kind of model file: the format and version in its header, and the members of the archive."""

    format: str
    version: int
    members: tuple[str, ...]
    report: type[EstimationReport] = EstimationReport


MODEL = Kind("pgmest-model", 1, ("header.npy", "potentials.npy"))
SUPPORT_MODEL = Kind("pgmest-support-model", 1, ("header.npy", "potentials.npy", "codes.npy", "weights.npy"))
APPROXIMATE_MODEL = Kind("pgmest-approximate-model", 1, ("header.npy", "marginals.npy"), ApproximateReport)
BAYESIAN_NETWORK = Kind("pgmest-bayesian-network", 1, ("header.npy", "conditionals.npy"))
VIEW_MODEL = Kind("pgmest-view-model", 1, ("header.npy", "tables.npy"))
MEASURED_MODEL = Kind("pgmest-measured-model", 1, ("header.npy", "potentials.npy", "base.npy", "answers.npy"))
LEAST_SQUARES_MODEL = Kind("pgmest-least-squares-model", 1, ("header.npy", "tables.npy", "directions.npy"))
LINKED_MODEL = Kind("pgmest-linked-model", 1, ("header.npy", "codes.npy", "rows.npy", "answers.npy"))
"""Linked tables, which `pgmest.mechanisms.linked.files` describes."""


FACTS, KNOWN = "facts.npy", "known.npy"
"""The members with exact answers and with noisy ones, which files may have besides the members of their kind."""


class Unreadable(ValueError):
    """A file is wrong; `load` reports the message with the path."""


def write_model(
    path: str | Path, kind: Kind, model: ModelBase, more: Mapping[str, Any] | None = None, **arrays: np.ndarray
) -> None:
    """Write a model's header and arrays; a reader sees either the old file or the new one.

    Args:
        path: the file.
        kind: the kind of file.
        model: the model, whose domain, cliques, total and report go into the header.
        more: further entries of the header.
        arrays: the other members.

    Raises:
        FileFormatError: the file cannot be written. An earlier file is left unchanged.
    """
    header = {
        "format": kind.format,
        "version": kind.version,
        "domain": list(model.domain.items()),
        **stored_hierarchies(model.domain),
        "cliques": list(dict.fromkeys(model.cliques)),
        "total": model.total,
        "total_stddev": model.total_stddev,
        "report": None if model.report is None else model.report.published().to_json(),
        **({"about": dict(model.about)} if model.about else {}),
        **(more or {}),
    }
    write_archive(path, header, **arrays)


def write_archive(path: str | Path, header: Mapping[str, Any], **arrays: np.ndarray) -> None:
    """Write a header of JSON values and arrays; a reader sees either the old file or the new one.

    Raises:
        FileFormatError: the file cannot be written. An earlier file is left unchanged.
    """
    encoded = np.frombuffer(json.dumps(header, default=operator.methodcaller("item")).encode(), dtype=np.uint8)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        members: dict[str, Any] = {"header": encoded, **arrays}
        np.savez(file, **members)  # before NumPy 2.1, allow_pickle= would become a member


@dataclass(frozen=True)
class Header:
    """The checked header of a model file.

    Attributes:
        layout: the domain and cliques, whose cells are counted but not allocated.
        total, total_stddev, report: those of the model.
        fields: all entries of the header.
    """

    layout: Layout
    total: float
    total_stddev: float | None
    report: EstimationReport | None
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, archive: zipfile.ZipFile, kind: Kind) -> Header:
        """Read the header from an archive, with the expected format and version.

        Raises:
            Unreadable: the header is missing or wrong.
        """
        fields = read_fields(archive, kind, ("domain", "cliques", "total", "total_stddev", "report"))
        spread, report = fields["total_stddev"], fields["report"]
        return cls(
            _layout(fields),
            number(fields, "total"),
            None if spread is None else number(fields, "total_stddev"),
            None if report is None else _report(report, kind.report),
            fields,
        )


@contextmanager
def opened_archive(path: str | Path, what: str, saved_by: str) -> Iterator[zipfile.ZipFile]:
    """Open the npz file of a model; errors of reading it name the file and the remedy.

    Args:
        path: the file.
        what: what it should be, such as "a model file".
        saved_by: the call that writes such files.

    Raises:
        FileFormatError: the file is missing, truncated or damaged, or its reader raises `Unreadable`.
    """
    remedy = REMEDY.format(saved_by)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, Path(path).stat().st_size)
            yield archive
    except Unreadable as problem:
        raise FileFormatError.of(path, f"not {what}: {problem}.", remedy) from None
    except (zipfile.BadZipFile, struct.error, ValueError, EOFError, RuntimeError) as error:
        raise FileFormatError.of(path, f"not {what}, or a damaged one ({error}).", remedy) from None
    except OSError as error:
        raise FileFormatError.of(path, f"cannot be read: {error.strerror or error}.", "Check the path.") from None


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Check that no uncompressed member claims to be larger than the file, as it would be allocated before it is read.

    Raises:
        Unreadable: a member does.
    """
    for member in archive.infolist():
        if member.compress_type == zipfile.ZIP_STORED and member.file_size > size:
            raise Unreadable(f"its member {member.filename} says that it has {member.file_size:,} bytes")


def read_array(archive: zipfile.ZipFile, name: str, kind: Any, length: int | None) -> np.ndarray:
    """Read a one-dimensional array of the given type, and of the given length unless that is None.

    Raises:
        Unreadable: the member is something else.
    """
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


def read_fields(archive: zipfile.ZipFile, kind: Kind, needed: Iterable[str]) -> Mapping[str, Any]:
    """Read the entries of the header, of the expected format and version, without looking at what they hold.

    Args:
        archive: the file.
        kind: the kind of file.
        needed: the entries that the header must have.

    Raises:
        Unreadable: the header is of another format or version, lacks an entry, or has texts with control characters.
    """
    text = read_array(archive, kind.members[0], np.uint8, None).tobytes()
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("its header is not JSON") from None
    if not isinstance(header, dict) or header.get("format") != kind.format:
        raise Unreadable("its header does not say so")
    if header.get("version") != kind.version:
        raise Unreadable(f"its version is {header.get('version')!r}, and this release reads version {kind.version}")
    for shown in _texts(header):
        if any(is_control(one) and one not in "\t\n\r" for one in shown):
            raise Unreadable(f"its header has a text with control characters, {shown[:80]!a}")
    missing = sorted(set(needed) - header.keys())
    if missing:
        raise Unreadable(f"its header lacks {missing[0]!r}")
    return header


def stored_hierarchies(domain: Domain) -> dict[str, Any]:
    """Return the header's entry with the hierarchies of a domain; empty without any."""
    return {"hierarchies": [one.to_json() for one in domain.hierarchies.values()]} if domain.hierarchies else {}


def _layout(header: Mapping[str, Any]) -> Layout:
    try:
        domain = Domain((name, size) for name, size in header["domain"])
        if "hierarchies" in header:
            domain = domain.with_hierarchies(*map(Hierarchy.from_json, header["hierarchies"]))
        cliques = [tuple(clique) for clique in header["cliques"]]
        layout = Layout.of(domain, cliques)
    except (PgmestError, TypeError, ValueError) as error:
        raise Unreadable(f"its domain or cliques are wrong ({error})") from None
    if len(layout.cliques) != len(cliques):
        raise Unreadable("it has a clique twice")
    in_tables = {name for clique in cliques for name in clique}
    values = sum(size for name, size in domain.items() if name not in in_tables)
    if values > MOST_VALUES:
        raise Unreadable(
            f"its attributes without a table have {values:,} values, more than {MOST_VALUES:,}: a small file would "
            "make large tables"
        )
    return layout


def _texts(header: Any) -> Iterator[str]:
    """Yield all texts in a header: names, labels, messages, and the keys of objects."""
    waiting = [header]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value


def number(fields: Mapping[str, Any], name: str) -> float:
    """Return a finite number from the header.

    Raises:
        Unreadable: the entry is something else.
    """
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unreadable(f"its {name} is {value!r}, not a number")
    return float(value)


def _report(values: Any, kind: type[EstimationReport]) -> EstimationReport:
    try:
        return kind.from_json(values)
    except ValueError as error:
        raise Unreadable(str(error)) from None
