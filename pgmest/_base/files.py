"""Files, read with errors that name the file, and written atomically: readers see the old file or the new one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pgmest.errors import FileFormatError


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        FileFormatError: the file cannot be read, or is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError.of(path, f"not UTF-8 text ({error.reason}).", "Save it as UTF-8.") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise FileFormatError.of(path, f"cannot be read: {_reason(error)}.", "Check the path.") from None


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Give a temporary path in the folder of `path`; move the file to `path` on success, remove it on failure.

    The temporary name has the suffix of `path`, because writers choose a compression by the suffix. A file that is
    replaced keeps its permissions, a link stays a link, and a device or pipe (`/dev/null`) is written to directly.

    Raises:
        FileFormatError: the file cannot be written; a file at `path` is unchanged.
    """
    path = Path(path)
    with _named(path):
        target = Path(os.path.realpath(path))
        special = target.exists() and not target.is_file() and not target.is_dir()
    if special:
        with _named(path, (OSError,)):
            yield target
        return
    with _named(path):
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".partial-", suffix=path.name[-32:])
        os.close(handle)
    temporary = Path(name)
    try:
        with _named(path, (OSError,)):
            yield temporary
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.chmod(_permissions(target))
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write a whole file; after a crash it has either the old content or the new one."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def _permissions(path: Path) -> int:
    """Return the permissions of an existing file, or those that this process gives a new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


@contextlib.contextmanager
def _named(path: Path, kinds: tuple[type[Exception], ...] = (OSError, ValueError)) -> Iterator[None]:
    """Turn errors of writing into a FileFormatError that names the file.

    A path with a null character raises a ValueError.
    """
    try:
        yield
    except kinds as error:
        problem = f"cannot be written: {_reason(error)}."
        raise FileFormatError.of(path, problem, "Check the folder and the free space.") from None


def _reason(error: Exception) -> object:
    return getattr(error, "strerror", None) or error
