"""Codes of a table that is read some rows at a time: in memory, or beyond a limit in files that have no name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO, Any

import numpy as np

from pgmest.errors import DataError

MOST_IN_MEMORY = 1 << 30
"""The bytes of codes from which on they are written to disk."""


class KeptCodes:
    """Columns of codes that grow.

    Beyond `MOST_IN_MEMORY` bytes they are in temporary files (of the folder `TMPDIR`) that are unlinked as they are
    opened: nobody else can read them, and none is left behind, even if the process is killed. They are written as the
    table is read, so a full disk is an error before anything is paid.
    """

    def __init__(self, kinds: Iterable[np.dtype[Any]]):
        self._kinds = list(kinds)
        self._pieces: list[list[np.ndarray]] = [[] for _ in self._kinds]
        self._files: list[IO[bytes]] = []
        self._bytes = 0

    def add(self, codes: Sequence[np.ndarray]) -> None:
        """Add the codes of further rows, one array for each column.

        Raises:
            DataError: the disk is full.
        """
        for pieces, column, kind in zip(self._pieces, codes, self._kinds, strict=True):
            pieces.append(np.asarray(column, dtype=kind))
            self._bytes += pieces[-1].nbytes
        if self._bytes > MOST_IN_MEMORY:
            self._write()

    def columns(self) -> list[np.ndarray]:
        """Return the columns, each of shape (rows,)."""
        if not self._files or not self._bytes:
            for pieces, kind in zip(self._pieces, self._kinds, strict=True):  # one after the other, to save memory
                pieces[:] = [np.concatenate([np.empty(0, dtype=kind), *pieces])]
            return [column for (column,) in self._pieces]
        self._write(last=True)
        return [np.memmap(file, dtype=kind, mode="r") for file, kind in zip(self._files, self._kinds, strict=True)]

    def _write(self, last: bool = False) -> None:
        try:
            self._files = self._files or [tempfile.TemporaryFile() for _ in self._kinds]  # noqa: SIM115
            for file, pieces in zip(self._files, self._pieces, strict=True):
                file.writelines(np.ascontiguousarray(piece).data for piece in pieces)
                file.flush()
                if last:
                    os.fsync(file.fileno())  # some file systems say only now that they are full
                pieces.clear()
        except OSError as error:
            raise DataError(
                f"the codes of the table take more than {MOST_IN_MEMORY:,} bytes, and the folder for temporary files "
                f"cannot hold them ({error.strerror}). Let the variable TMPDIR name a folder with more room."
            ) from None
