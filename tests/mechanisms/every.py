"""Every mechanism with parameters under which it takes a moment on `DATA`, for tests that run over all of them."""

from __future__ import annotations

from typing import Any

from pgmest import mechanisms
from pgmest.mechanisms import Mechanism
from tests.mechanisms.auditing import DATA

NO_MECHANISMS = ("Mechanism", "Result")

ZCDP: dict[str, Any] = {"rho": 0.5, "backend": "simulation"}

GIVEN: dict[str, dict[str, Any]] = {
    "AIM": {"rounds": 3},
    "DualQuery": {"samples": 20, "steps": 3, "max_iterations": 5},
    "LAMP": {"records": 200},
    "MWEM": {"rounds": 2},
    "PMWPub": {"public": DATA, "rounds": 2},
    "PPSyn": {"rounds": 3},
    "TopDown": {"spine": "a"},
}
"""The arguments of each mechanism besides its budget."""

GRAPHICAL: list[tuple[str, dict[str, Any]]] = [
    ("AIM", {"rounds": 6}),
    ("AIM", {"rounds": 6, "method": "auto"}),
    ("MST", {}),
    ("MWEM", {"rounds": 3}),
    ("Independent", {}),
    ("PrivBayes", {"estimator": "pgm"}),
    ("HDMM", {}),
    ("PrivMRF", {}),
    ("PPSyn", {"rounds": 6}),
    ("PriView", {"estimator": "pgm", "max_cells": 24}),
    ("PrivSyn", {"estimator": "pgm"}),
    ("DualQuery", {"steps": 3, "samples": 20}),
]
"""The mechanisms that end with a graphical model, which can hold structural zeros and exact tables, on few records."""

EVERY = [name for name in mechanisms.__all__ if name not in NO_MECHANISMS]


def made(name: str, **parameters: Any) -> Mechanism:
    """The mechanism of that name, with these parameters in place of its own."""
    given = dict(ZCDP)
    if name == "Transformed":
        given = {"mechanism": mechanisms.Independent(**ZCDP)}
    return getattr(mechanisms, name)(**{**given, **GIVEN.get(name, {}), **parameters})
