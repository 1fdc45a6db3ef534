"""Locks on files on every platform, exclusive between processes and between open files of one process."""

from __future__ import annotations

import os
import time

PLACE = 2**30
"""The offset of the byte that is locked on Windows. It lies beyond the content, as others cannot read a locked byte."""
PAUSE = 0.02
"""The seconds between two attempts to get a lock."""


def lock(file: int, seconds: float) -> bool:
    """Lock an open file until it is unlocked or closed, trying for at most this many seconds; return whether it is.

    Raises:
        OSError: if the system or the file system has no locks.
    """
    end = time.monotonic() + seconds
    while not _set(file, True):
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE)
    return True


def unlock(file: int) -> None:
    """Release the lock on an open file."""
    _set(file, False)


def _set(file: int, lock: bool) -> bool:
    """Lock or unlock an open file; return whether that succeeded."""
    try:
        import fcntl
    except ImportError:
        return _set_on_windows(file, lock)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if lock else fcntl.LOCK_UN)
    except BlockingIOError:
        return False
    return True


def _set_on_windows(file: int, lock: bool) -> bool:
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
