"""The public path of tables whose bounds are still to be bought (`pgmest.synthesizer.raw_table`).

Such a table is read by a schema, which no module of the privacy wing may import. The names of the module are therefore
looked up on first use.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return an object of `pgmest.synthesizer.raw_table`."""
    return getattr(import_module("pgmest.synthesizer.raw_table"), name)
