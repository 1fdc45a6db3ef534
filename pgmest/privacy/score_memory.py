"""ScoreMemory: true scores that a mechanism computes once, kept beside the records that they are of."""

from __future__ import annotations

from typing import Any

from pgmest.data.dataset import Dataset
from pgmest.privacy.one_process import OneProcess

DATASETS = 2
"""So many are remembered at a time: a curator has one, a witness of an audit two."""


class ScoreMemory(OneProcess):
    """What was computed of some records, for functions that a curator calls with them; nothing else may read it.

    Each dataset has scores of its own. A memory can be neither copied nor pickled.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Dataset, dict[Any, Any]]] = []

    def of(self, data: Dataset) -> dict[Any, Any]:
        """The scores of these records so far, by candidate; to be added to."""
        for known, scores in self._known:
            if known is data:
                return scores
        self._known = [*self._known[1 - DATASETS :], (data, {})]
        return self._known[-1][1]
