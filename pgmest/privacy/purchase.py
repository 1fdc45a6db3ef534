"""The public path of the functions that buy bounds, bins and values under a budget (`pgmest.synthesizer.purchase`).

They read schemas, which no module of the privacy wing may import. Their names are therefore looked up on first use.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return an object of `pgmest.synthesizer.purchase`."""
    return getattr(import_module("pgmest.synthesizer.purchase"), name)
