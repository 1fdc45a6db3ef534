"""Files of the .zip format that hold one table."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import IO

from pgmest.errors import FileFormatError, listed

DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError)
"""The errors of damaged files, and of kinds of compression that Python does not have."""


def member(path: str | Path, endings: tuple[str, ...]) -> str:
    """Return the name of the one table in a .zip file; a file that cannot be opened yet counts as one with text.

    Raises:
        FileFormatError: the file is no .zip file, or does not hold exactly one table.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [found.filename for found in archive.infolist() if not found.is_dir()]
    except OSError:
        return "table.csv"  # the error comes when the table is read
    except DAMAGED as error:
        raise damaged(path, error) from None
    names = [name for name in names if not name.startswith("__MACOSX/") and not name.split("/")[-1].startswith(".")]
    tables = [name for name in names if name.lower().endswith(endings)]
    if len(tables) == 1:
        return tables[0]
    if not tables:
        raise FileFormatError.of(path, f"it holds no table, only {listed(names or ['nothing'], 6)}.", "Unpack it.")
    problem = f"it holds {len(tables)} tables: {listed(tables, 6)}."
    raise FileFormatError.of(path, problem, "Unpack it, and name the one that is meant.")


def opened_member(path: str | Path, name: str) -> IO[bytes]:
    """Open a file of a .zip file and return its bytes; closing them closes both.

    Raises:
        FileFormatError: the file is damaged, or locked by a password.
        OSError: the .zip file cannot be opened.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.open(name)
    except DAMAGED as error:
        raise damaged(path, error) from None
    except RuntimeError:
        raise FileFormatError.of(path, "it is locked by a password.", "Unpack it.") from None


def damaged(path: object, error: BaseException) -> FileFormatError:
    """Return the error of a damaged .zip file."""
    reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
    return FileFormatError.of(path, f"not a whole .zip file ({reason}).", "Copy or make the file again.")
