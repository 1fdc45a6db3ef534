"""Locks on files, on every platform: one process at a time, and one open file at a time within a process."""

from __future__ import annotations

import os
import time

PLACE = 2**30
"""The byte that Windows locks: beyond what is written, because there a locked byte cannot be read by others."""
PAUSE = 0.02
"""Seconds between two attempts to have a lock."""


def try_lock(file: int) -> bool:
    """Lock an open file until it is unlocked or closed; False where another has it.

    Raises:
        OSError: the system, or the file system, has no locks.
    """
    try:
        import fcntl
    except ImportError:
        return _on_windows(file, lock=True)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock(file: int, seconds: float) -> bool:
    """As `try_lock`, for so many seconds."""
    end = time.monotonic() + seconds
    while not try_lock(file):
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE)
    return True


def unlock(file: int) -> None:
    """Let others have it."""
    try:
        import fcntl
    except ImportError:
        _on_windows(file, lock=False)
        return
    fcntl.flock(file, fcntl.LOCK_UN)


def _on_windows(file: int, lock: bool) -> bool:
    try:
        import msvcrt
    except ImportError:
        raise OSError("this system has no file locks") from None
    before = os.lseek(file, 0, os.SEEK_CUR)
    os.lseek(file, PLACE, os.SEEK_SET)  # msvcrt locks from the position of the file
    try:
        msvcrt.locking(file, msvcrt.LK_NBLCK if lock else msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]
    except PermissionError:
        return False
    finally:
        os.lseek(file, before, os.SEEK_SET)
    return True
