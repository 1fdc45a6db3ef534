"""npz files of a JSON tree and arrays. They are read without trust in their content.

    header.npy   UTF-8 bytes of a JSON object
    NAME.npy     the array that stands where the object has {"array": NAME}; each array stands in one place

A file from an untrusted source can be wrong, but does no harm: nothing is unpickled, no array is allocated before its
size has been compared with the size of the file, and no array is read twice.
"""

from __future__ import annotations

import json
import math
import operator
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from pgmest._base.files import atomic_path
from pgmest._base.npy import read_header
from pgmest._base.printable import is_control
from pgmest.errors import FileFormatError, PgmestError, listed

LARGEST_HEADER = 1 << 26
"""The largest header, in bytes of JSON: enough for a million cliques."""

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    AttributeError,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""The exceptions of zipfile, numpy and constructors that are given the content of a damaged file."""


class Unreadable(ValueError):
    """The content of a file is wrong; `opened_archive` reports the message with the path."""


def write_archive(path: str | Path, tree: Mapping[str, Any], compressed: bool = False) -> None:
    """Write a tree of JSON values and arrays; a reader sees either the old file or the new one.

    Raises:
        FileFormatError: the file cannot be written. An earlier file is left unchanged.
    """
    arrays: dict[str, Any] = {}

    def stored(value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[name] = value
            return {"array": name}
        if isinstance(value, Mapping):
            return {key: stored(entry, f"{name}/{key}") for key, entry in value.items()}
        return [stored(e, f"{name}/{i}") for i, e in enumerate(value)] if isinstance(value, list | tuple) else value

    header = {name: stored(value, name) for name, value in tree.items()}
    encoded = np.frombuffer(json.dumps(header, default=operator.methodcaller("item")).encode(), dtype=np.uint8)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        (np.savez_compressed if compressed else np.savez)(file, **{"header": encoded, **arrays})


@contextmanager
def opened_archive(path: str | Path, what: str, remedy: str) -> Iterator[Archive]:
    """Open an npz file; errors of reading it name the file and the remedy.

    Args:
        path: the file.
        what: the kind of file that is expected, such as "a model file".
        remedy: the end of the message about a damaged file.

    Raises:
        FileFormatError: the file is missing, truncated or damaged, or its content is refused.
    """
    try:
        with zipfile.ZipFile(path) as file:
            yield Archive(file, Path(path).stat().st_size)
    except FileFormatError:
        raise
    except (Unreadable, PgmestError) as problem:
        raise FileFormatError.of(path, f"not {what}: {str(problem).rstrip('.')}.", remedy) from None
    except KeyError as error:
        raise FileFormatError.of(path, f"not {what}: its header lacks {error}.", remedy) from None
    except OSError as error:
        raise FileFormatError.of(path, f"cannot be read: {error.strerror or error}.", "Check the path.") from None
    except DAMAGE as error:
        raise FileFormatError.of(path, f"not {what}, or a damaged one ({error}).", remedy) from None


class Archive:
    """The members of an npz file. Each can be read once, so that a file cannot name one large array many times.

    Attributes:
        bytes: the number of bytes of all members, without compression.

    Raises:
        Unreadable: uncompressed members claim to be larger than the file.
    """

    def __init__(self, file: zipfile.ZipFile, size: int):
        self._file, self.bytes, left = file, 0, size
        self._members = {info.filename.removesuffix(".npy"): info for info in file.infolist()}
        for info in self._members.values():
            self.bytes += info.file_size
            left -= info.file_size if info.compress_type == zipfile.ZIP_STORED else 0
            if left < 0:
                raise Unreadable(f"its member {info.filename} says that it has {info.file_size:,} bytes")

    def refuse_compressed(self) -> None:
        """Raise Unreadable if a member is compressed, because it could unpack to any size."""
        for info in self._members.values():
            if info.compress_type != zipfile.ZIP_STORED:
                raise Unreadable(f"its member {info.filename} is compressed")

    def take(self, name: str) -> np.ndarray:
        """Read and remove the array `name`.

        Raises:
            Unreadable: there is no such member, it is not a numeric array, or it is damaged.
        """
        info = self._members.pop(name, None)
        if info is None:
            raise Unreadable(
                f"names the array '{name}', which is missing or used twice (left: {listed(self._members)})"
            )
        try:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it is compressed by an unsupported method")
            with self._file.open(info) as member:
                return _read_array(member, info.file_size)
        except (OSError, *DAMAGE) as error:
            raise Unreadable(f"names the array '{name}', which cannot be read ({error})") from None

    def text(self) -> str:
        """Return the text of the member "header".

        Raises:
            Unreadable: there is no such member, or it is no text of at most LARGEST_HEADER bytes.
        """
        info = self._members.get("header")
        if info is not None and info.file_size > LARGEST_HEADER:
            raise Unreadable(f"its header has {info.file_size:,} bytes, where at most {LARGEST_HEADER:,} make sense")
        return self.take("header").astype(np.uint8, casting="equiv").tobytes().decode()

    def header(self, form: str, version: int) -> dict[str, Any]:
        """Return the JSON object of the member "header", with references to arrays.

        Raises:
            Unreadable: it has another format or version, or texts with control characters.
        """
        try:
            header = json.loads(self.text())
        except RecursionError:
            raise Unreadable("its header is nested too deeply") from None
        if not isinstance(header, dict) or header.get("format") != form:
            raise Unreadable("its header does not say so")
        if header.get("version") != version:
            raise Unreadable(f"its version is {header.get('version')!r}, and this release reads version {version}")
        for shown in _texts(header):
            if not shown.isprintable() and any(is_control(one) and one not in "\t\n\r" for one in shown):
                raise Unreadable(f"its header has a text with control characters, {shown[:80]!a}")
        return header

    def with_arrays(self, header: Any) -> Any:
        """Return a JSON value with the arrays instead of the references to them, which must name all members.

        Raises:
            Unreadable: an array cannot be read, or a member is named nowhere.
        """
        tree = self._filled(header)
        if self._members:
            raise Unreadable(f"it has members that its header does not name: {listed(self._members)}")
        return tree

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {"array"} and isinstance(value["array"], str):
                return self.take(value["array"])
            return {name: self._filled(entry) for name, entry in value.items()}
        return [self._filled(entry) for entry in value] if isinstance(value, list) else value


def _read_array(member: IO[bytes], size: int) -> np.ndarray:
    """Read the array in a stream of `size` bytes; memory is allocated only after the size has been checked."""
    shape, fortran_order, dtype = read_header(member)
    if dtype.kind not in "iufb":
        raise ValueError(f"holds {dtype}, not numbers")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize + member.tell() != size:
        raise ValueError(f"its shape {shape} does not fit its {size} bytes")
    data = member.read(count * dtype.itemsize)
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran_order else "C")


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


def floats(value: Any) -> np.ndarray:
    """Return a one-dimensional float64 array of a file.

    Raises:
        Unreadable: the value is something else.
    """
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.ndim != 1:
        raise Unreadable("what should be a one-dimensional array of float64 is something else")
    return value


def counts(value: Any) -> np.ndarray:
    """Return a one-dimensional float64 array of finite numbers of at least 0.

    Raises:
        Unreadable: the value is something else.
    """
    array = floats(value)
    if not ((array >= 0) & (array < np.inf)).all():
        raise Unreadable("it holds negative, infinite or NaN counts")
    return array


def number(fields: Mapping[str, Any], name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a finite number of a header, between two ends.

    Raises:
        Unreadable: the entry is something else.
    """
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unreadable(f"its {name} is {value!r}, not a number")
    if not least <= value <= most:
        raise Unreadable(f"its {name} is {value!r}, not a number from {least:g} to {most:g}")
    return float(value)


def whole(fields: Mapping[str, Any], name: str, least: int = 0) -> int:
    """Return a whole number of a header, at least `least`.

    Raises:
        Unreadable: the entry is something else.
    """
    value = fields[name]
    if type(value) is not int or value < least:
        raise Unreadable(f"its {name} is {value!r}, not a whole number of at least {least}")
    return value


def objects(fields: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects of a header.

    Raises:
        Unreadable: the entry is something else.
    """
    value = fields[name]
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise Unreadable(f"its {name} is no list of objects")
    return value
