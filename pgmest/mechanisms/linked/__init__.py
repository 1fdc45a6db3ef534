"""LinkedLAMP: the mechanism for linked tables, such as persons in households.

Each name is imported at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgmest.mechanisms.linked.linked_lamp import LinkedLAMP
    from pgmest.mechanisms.linked.linked_model import LinkedModel
    from pgmest.mechanisms.linked.result import LinkedResult

MODULES = {
    "LinkedLAMP": "pgmest.mechanisms.linked.linked_lamp",
    "LinkedModel": "pgmest.mechanisms.linked.linked_model",
    "LinkedResult": "pgmest.mechanisms.linked.result",
}
"""The module of each public name."""

__all__ = ["LinkedLAMP", "LinkedModel", "LinkedResult"]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'pgmest.mechanisms.linked' has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
