"""Candidates of many selections: each selection is among some of one list, and what all of them need is made once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

Candidate = TypeVar("Candidate")


class Candidates(Sequence[Candidate]):
    """A list of candidates, of which each selection allows some.

    Args:
        candidates: the candidates, which must not depend on the data.
    """

    def __init__(self, candidates: Iterable[Candidate]):
        self._all = tuple(candidates)

    def __getitem__(self, place: Any) -> Any:
        return self._all[place]

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the representations of all candidates."""
        return hashlib.sha256(repr(self._all).encode()).hexdigest()

    def some(self, places: np.ndarray) -> Subset[Candidate]:
        """Return the candidates at these places."""
        return Subset(self, places)


class Subset(Sequence[Candidate]):
    """Some candidates of a list.

    Args:
        of: the whole list.
        places: the places of the candidates in it, integers of shape (candidates,).
    """

    def __init__(self, of: Candidates[Candidate], places: np.ndarray):
        self.of: Candidates[Candidate] = of
        self.places: np.ndarray = places

    def __getitem__(self, place: Any) -> Any:
        return Subset(self.of, self.places[place]) if isinstance(place, slice) else self.of[int(self.places[place])]

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        places = hashlib.sha256(np.ascontiguousarray(self.places, dtype="<i8").tobytes()).hexdigest()
        return f"Subset({len(self)} of {len(self.of)} candidates, {places}, {self.of.digest})"
