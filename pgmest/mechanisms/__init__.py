"""Differentially private mechanisms, one file each, all with the same contract (`pgmest.mechanisms.mechanism`)."""

from importlib import import_module
from typing import Any

# Where each mechanism is; it is imported when it is first asked for.
MECHANISMS = {
    "AIM": "pgmest.mechanisms.aim",
    "DualQuery": "pgmest.mechanisms.dual_query",
    "Independent": "pgmest.mechanisms.independent",
    "MWEM": "pgmest.mechanisms.mwem",
    "Mechanism": "pgmest.mechanisms.mechanism",
    "Result": "pgmest.mechanisms.mechanism",
}


def __getattr__(name: str) -> Any:
    if name not in MECHANISMS:
        raise AttributeError(f"module 'pgmest.mechanisms' has no attribute {name!r}")
    return getattr(import_module(MECHANISMS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *MECHANISMS])
