"""Describe the machine of the benchmarks: processor, memory, and the versions of the measured libraries."""

from __future__ import annotations

import functools
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MEASURED = ("numpy", "numba", "mbi", "jax", "jaxlib")


@functools.cache
def describe() -> dict[str, str]:
    """Processor, processors, memory, system, Python and library versions."""
    return {
        "processor": _processor(),
        "processors": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in MEASURED},
    }


def in_words(machine: dict[str, str]) -> str:
    """One line about a machine."""
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", *MEASURED))
    return (
        f"{machine['processor']}, {machine['processors']} processors, {machine['memory']} of memory, "
        f"{machine['system']}; {versions}"
    )


def load_average() -> float:
    """Return the number of running or waiting processes, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        named = {key.strip(): value.strip() for key, value in fields.items()}
        name = named.get("model name", platform.processor())
        return f"{name} (family {named['cpu family']})" if "cpu family" in named else name
    return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "unknown"
    return f"{size / 2**30:.0f} GiB"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
