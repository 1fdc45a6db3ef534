"""ScoreMemory: true scores that a mechanism computes once, kept with the records that they are of."""

from __future__ import annotations

import weakref
from typing import Any

from pgmest.data.dataset import Dataset
from pgmest.privacy.one_process import OneProcess


class ScoreMemory(OneProcess):
    """What was computed of some records, for functions that a curator calls with them; nothing else may read it.

    Each dataset has its own, which goes when the dataset goes. It can be neither copied nor pickled.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Dataset], dict[Any, Any]]] = {}

    def of(self, data: Dataset) -> dict[Any, Any]:
        """The scores of these records so far, by candidate; to be added to."""
        held = self._known.get(id(data))
        if held is None or held[0]() is not data:
            self._known = {key: entry for key, entry in self._known.items() if entry[0]() is not None}
            held = self._known[id(data)] = (weakref.ref(data), {})
        return held[1]
