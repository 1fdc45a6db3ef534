"""The folder of compiled kernels: they take 10 to 25 s to compile, and should do so once, not in every process.

numba keeps machine code beside the source, or in the user's home folder. If neither is writable, as in many containers,
the machine code would be lost at the end of the process. This module therefore chooses the first of these folders:

1. `PGMEST_CACHE_DIR`;
2. numba's default: `NUMBA_CACHE_DIR`, or else the folder of the source;
3. `~/.cache/pgmest` (`XDG_CACHE_HOME`);
4. a private folder of this user in the system's temporary folder, or else in memory (/dev/shm), which is writable even
   in containers with a read-only file system.

`pgmest warm-up` fills `PGMEST_CACHE_DIR`, or the folder `_kernels` of the installation, when an image is built. If such
a prepared folder is read-only later, its content is copied to 3 or 4 at the first use, which takes milliseconds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
PREPARED = PACKAGE / "_kernels"
"""The folder into which `pgmest warm-up` writes the kernels of an installation."""

MEMORY = Path("/dev/shm")
"""Linux's file system in memory, which every user can write to."""


class CompileClock:
    """The wall-clock seconds that compiling has taken in this process, which `compiled` keeps up to date.

    Attributes:
        seconds: the seconds so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth, self._started = 0, 0.0

    def start(self) -> None:
        """Take note that compiling begins; kernels compile those that they call."""
        if not self._depth:
            self._started = time.perf_counter()
        self._depth += 1

    def stop(self) -> None:
        """Take note that it ends."""
        self._depth -= 1
        if not self._depth:
            self.seconds += time.perf_counter() - self._started


compiling = CompileClock()
"""The clock of this process."""


@cache
def kernel_folder() -> Path | None:
    """Return the folder for compiled kernels; None if numba's default folder is writable."""
    prepared = prepared_folder()
    if prepared is not None:
        return prepared if writable(prepared) else _copied(prepared)
    if os.environ.get("NUMBA_CACHE_DIR") or writable(PACKAGE):
        return None
    return _own_folder()


def prepared_folder() -> Path | None:
    """Return the folder that `PGMEST_CACHE_DIR` names, or else the one that `pgmest warm-up` filled, if any."""
    named = os.environ.get("PGMEST_CACHE_DIR")
    if named:
        return Path(named)
    return PREPARED if PREPARED.is_dir() else None


def kernels_are_kept() -> bool:
    """Return whether the next process finds the kernels that this one compiles."""
    return kernel_folder() is not None or bool(os.environ.get("NUMBA_CACHE_DIR")) or writable(PACKAGE)


@contextmanager
def numba_cache(config: object) -> Iterator[None]:
    """Set the chosen folder in numba's configuration while kernels are declared; other packages keep their folder."""
    folder = kernel_folder()
    if folder is None:
        yield
        return
    before = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


def writable(folder: Path) -> bool:
    """Return whether a file can be created in a folder; the folder is created if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _own_folder() -> Path | None:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache") / "pgmest"
    if writable(home):
        return home
    return _private_temporary()


def _private_temporary() -> Path | None:
    """Return a temporary folder that no other user can write to, since machine code is loaded from it."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    found = (_private(parent / f"pgmest-kernels-{user}") for parent in _temporary_folders())
    return next((folder for folder in found if folder is not None), None)


def _temporary_folders() -> Iterator[Path]:
    with suppress(FileNotFoundError):  # no temporary folder is writable
        yield Path(tempfile.gettempdir())
    if MEMORY.is_dir():
        yield MEMORY


def _private(folder: Path) -> Path | None:
    """Return the folder if it belongs to this user alone and is writable, else None."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
    return folder if stat.S_ISDIR(found.st_mode) and mine and writable(folder) else None


def _copied(prepared: Path) -> Path | None:
    """Return a writable copy of a prepared folder, an empty folder if there is no room for a copy, or None."""
    own = _own_folder()
    if own is None or not prepared.is_dir():
        return own
    stamp = hashlib.sha256(f"{prepared} {prepared.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    target = own / f"prepared-{stamp}"
    if not target.is_dir():
        building = Path(tempfile.mkdtemp(dir=own, prefix=".copy-"))
        try:
            _copy_contents(prepared, building)
            building.rename(target)
        except OSError:  # another process was faster, or there is no room
            shutil.rmtree(building, ignore_errors=True)
    return target if target.is_dir() else own


def _copy_contents(source: Path, target: Path) -> None:
    """Copy files and folders without their permissions, because numba needs writable folders."""
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        if path.is_dir():
            there.mkdir(mode=0o700)
        else:
            shutil.copyfile(path, there)
