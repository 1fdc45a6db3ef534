"""Measure the memory of a process, and decide whether there is enough to start another."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def resident_megabytes() -> float:
    """Return the memory of the process (if that is not available, its peak so far), in 10^6 bytes."""
    return _field("VmRSS") or peak_megabytes()


def forget_peak() -> None:
    """Let `peak_megabytes` start again from what is in use now; only Linux can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what was freed but not yet returned is not in use
    if _RESET.exists():
        _RESET.write_text("5")


def peak_megabytes() -> float:
    """The most that was resident since the process started, or since `forget_peak`, in 10^6 bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _field("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def available_megabytes() -> float:
    """Return the memory that new processes can use without swapping; infinite if that is not available."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return float("inf")
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024 / 1e6


def limit_memory(share: float) -> None:
    """Let allocations of this process fail beyond a share of what is available, where the system can do that."""
    available = available_megabytes()
    if available < float("inf"):
        limit = int(share * available * 1e6)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _field(name: str) -> float | None:
    if not _STATUS.exists():
        return None
    lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
    return int(lines[name].split()[0]) * 1024 / 1e6 if name in lines else None
