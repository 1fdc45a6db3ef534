"""Names of earlier versions inside a module: they give what they have become, and warn."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

Lookup = Callable[[str], Any]
"""The `__getattr__` of a module."""


def renamed_names(module: str, names: Mapping[str, str]) -> Lookup:
    """The `__getattr__` of a module in which public names were renamed.

    >>> __getattr__ = renamed_names("pgmest.queries", {"Query": "pgmest.queries.MatrixQuery"})

    Args:
        module: the module's name.
        names: old name -> the full name of what it has become.
    """

    def lookup(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, current = names[name].rpartition(".")
        warnings.warn(f"{module}.{name} is now {names[name]}", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(place), current)

    return lookup
