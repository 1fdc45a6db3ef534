"""Reading of numeric arrays from an npz file, after their declared sizes have been checked."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from pgmest._base.npy import read_header
from pgmest.errors import FileFormatError, listed, memory_text

# The exceptions that zipfile and numpy raise for damaged files.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
ARCHIVE_REMEDY = "Write the file again with save_measurements."


MOST_BYTES = 2**30
"""The largest file that is read, in bytes; of an npz file without compression."""


def check_size(path: Path, size: int) -> None:
    """Raise FileFormatError if a file has more than `MOST_BYTES`."""
    if size > MOST_BYTES:
        raise FileFormatError.of(
            path,
            f"holds {memory_text(size)}, more than the {memory_text(MOST_BYTES)} allowed.",
            "Divide the measurements among several files.",
        )


class Archive:
    """The members of an npz file. Each can be read once, so that a file cannot name one large array many times.

    Args:
        path: the path of the file.

    Raises:
        FileFormatError: the file is not an npz file, or larger than `MOST_BYTES`.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = zipfile.ZipFile(path)
        except OSError as error:
            raise FileFormatError.of(path, f"cannot be read: {error.strerror}.", "Check the path.") from None
        except DAMAGE as error:
            raise FileFormatError.of(path, f"not an npz file, or truncated ({error}).", ARCHIVE_REMEDY) from None
        self._members = {info.filename.removesuffix(".npy"): info for info in self._file.infolist()}
        size = sum(info.file_size for info in self._members.values())
        try:
            check_size(path, size)
        except FileFormatError:
            self.close()
            raise

    def take(self, name: str) -> np.ndarray:
        """Read and remove the array `name`.

        Raises:
            ValueError: there is no such member, it is not a numeric array, or it is damaged.
        """
        info = self._members.pop(name, None)
        if info is None:
            raise ValueError(
                f"names the array '{name}', which is missing or used twice (left: {listed(self._members)})"
            )
        try:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it is compressed by an unsupported method")
            with self._file.open(info) as member:
                return _read_array(member, info.file_size)
        except (OSError, *DAMAGE) as error:
            raise ValueError(f"names the array '{name}', which cannot be read ({error})") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _read_array(member: IO[bytes], size: int) -> np.ndarray:
    """Read the array in a stream of `size` bytes; memory is allocated only after the size has been checked."""
    shape, fortran_order, dtype = read_header(member)
    if dtype.kind not in "iufb":
        raise ValueError(f"holds {dtype}, not numbers")
    count = math.prod(shape)
    if count * dtype.itemsize + member.tell() != size:
        raise ValueError(f"its shape {shape} does not fit its {size} bytes")
    data = member.read(count * dtype.itemsize)
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran_order else "C")
