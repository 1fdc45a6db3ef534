"""Synthesizer, from a raw table to a synthetic table of the same kind."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgmest.synthesizer.how_many import HowMany
    from pgmest.synthesizer.synthesizer import Synthesizer

MODULES = {"HowMany": "pgmest.synthesizer.how_many", "Synthesizer": "pgmest.synthesizer.synthesizer"}
"""The module of each public name."""

__all__ = ["HowMany", "Synthesizer"]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'pgmest.synthesizer' has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
