"""Where compiled kernels are kept: they take 10 to 25 s to compile, and should do so once, not in every process.

numba keeps machine code beside the source, or under the user's home. Where neither can be written, as in many
containers, it would be lost with the process. So the folder is chosen here, the first of:

1. `PGMEST_CACHE_DIR`;
2. what `NUMBA_CACHE_DIR` says, or beside the source, as numba does by itself;
3. `~/.cache/pgmest` (`XDG_CACHE_HOME`);
4. a folder of this user's alone in the system's temporary folder, or else in memory (/dev/shm): containers whose file
   system is read-only still have that.

`pgmest warm-up` fills `PGMEST_CACHE_DIR`, or the folder `_kernels` of the installation, when an image is built. Where a
prepared folder cannot be written later, its content is copied to 3 or 4 at first use, which takes milliseconds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
PREPARED = PACKAGE / "_kernels"
"""Where `pgmest warm-up` puts the kernels of an installation."""

MEMORY = Path("/dev/shm")
"""Linux's file system in memory, which everybody can write to."""


@cache
def kernel_folder() -> Path | None:
    """The folder for compiled kernels; None to leave it to numba, which can write where it keeps them."""
    prepared = prepared_folder()
    if prepared is not None:
        return prepared if writable(prepared) else _copied(prepared)
    if os.environ.get("NUMBA_CACHE_DIR") or writable(PACKAGE):
        return None
    return _own_folder()


def prepared_folder() -> Path | None:
    """The folder that the environment names, or else the one that an installation was prepared with."""
    named = os.environ.get("PGMEST_CACHE_DIR")
    if named:
        return Path(named)
    return PREPARED if PREPARED.is_dir() else None


def kernels_are_kept() -> bool:
    """Whether what is compiled now is there in the next process."""
    return kernel_folder() is not None or bool(os.environ.get("NUMBA_CACHE_DIR")) or writable(PACKAGE)


@contextmanager
def numba_cache(config: object) -> Iterator[None]:
    """While functions are declared, numba's configuration names the chosen folder; other users of numba keep theirs."""
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
    """Whether a file can be made in a folder, which is made if need be."""
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
    """A folder that nobody else can write to, since machine code is loaded from it."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    found = (_private(parent / f"pgmest-kernels-{user}") for parent in _temporary_folders())
    return next((folder for folder in found if folder is not None), None)


def _temporary_folders() -> Iterator[Path]:
    with suppress(FileNotFoundError):  # none can be written to
        yield Path(tempfile.gettempdir())
    if MEMORY.is_dir():
        yield MEMORY


def _private(folder: Path) -> Path | None:
    """The folder, if it is this user's alone and can be written to."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
    return folder if stat.S_ISDIR(found.st_mode) and mine and writable(folder) else None


def _copied(prepared: Path) -> Path | None:
    """A copy of a prepared folder that cannot be written to; without room for one, None."""
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
    """Copy files and folders, not their permissions: numba wants folders that it can write to."""
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        if path.is_dir():
            there.mkdir(mode=0o700)
        else:
            shutil.copyfile(path, there)
