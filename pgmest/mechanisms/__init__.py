"""Differentially private mechanisms, one file each, all with the same contract (`pgmest.mechanisms.mechanism`)."""

from importlib import import_module
from typing import Any

# Where each mechanism is; it is imported when it is first asked for.
MECHANISMS = {
    "AIM": "pgmest.mechanisms.aim",
    "DualQuery": "pgmest.mechanisms.dual_query",
    "HDMM": "pgmest.mechanisms.hdmm",
    "Independent": "pgmest.mechanisms.independent",
    "MST": "pgmest.mechanisms.mst",
    "MWEM": "pgmest.mechanisms.mwem",
    "Mechanism": "pgmest.mechanisms.mechanism",
    "PMWPub": "pgmest.mechanisms.pmw_pub",
    "PPSyn": "pgmest.mechanisms.ppsyn",
    "PPSynAsPublishedNotPrivate": "pgmest.mechanisms.ppsyn_published",
    "PriView": "pgmest.mechanisms.priview",
    "PrivBayes": "pgmest.mechanisms.privbayes",
    "PrivMRF": "pgmest.mechanisms.privmrf",
    "PrivSyn": "pgmest.mechanisms.privsyn",
    "Result": "pgmest.mechanisms.mechanism",
    "Transformed": "pgmest.mechanisms.transformed",
}


def __getattr__(name: str) -> Any:
    if name not in MECHANISMS:
        raise AttributeError(f"module 'pgmest.mechanisms' has no attribute {name!r}")
    return getattr(import_module(MECHANISMS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *MECHANISMS])
