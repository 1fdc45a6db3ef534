"""Reading files with errors that name them, and writing them so that a reader sees the old file or the new one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pgmest._base.errors import FileFormatError


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        FileFormatError: it cannot be read, or is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError.of(path, f"not UTF-8 text ({error.reason}).", "Save it as UTF-8.") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise FileFormatError.of(path, f"cannot be read: {_reason(error)}.", "Check the path.") from None


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path`, moved over it on success and removed on failure.

    Its name ends as `path` does, because writers choose a compression by the ending. A file that is replaced keeps
    its permissions, a link stays a link to it, and a device or pipe (`/dev/null`) is written to directly.

    Raises:
        FileFormatError: the file cannot be written there; what was there before is untouched.
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
    """Write a whole file at once; after a crash either the old content or the new is there."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def _permissions(path: Path) -> int:
    """Those of the file that is there, else what the process gives a new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


@contextlib.contextmanager
def _named(path: Path, kinds: tuple[type[Exception], ...] = (OSError, ValueError)) -> Iterator[None]:
    """Turn what goes wrong into an error that names the file; a path with a null character is a ValueError."""
    try:
        yield
    except kinds as error:
        problem = f"cannot be written: {_reason(error)}."
        raise FileFormatError.of(path, problem, "Check the folder and the free space.") from None


def _reason(error: Exception) -> object:
    return getattr(error, "strerror", None) or error
