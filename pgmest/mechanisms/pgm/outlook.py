"""How a workload sees each marginal inside of its items, by what is known of one-way marginals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.mechanisms.pgm.allocation import Demand
from pgmest.mechanisms.pgm.interest import Asked, Interest, evenly, parts
from pgmest.mechanisms.pgm.offers import CELLS, View
from pgmest.mechanisms.pgm.query_errors import QueryErrors, mean_fraction
from pgmest.tables.domain import Clique

MOST_VIEWS = 16
"""Different queries about one marginal; of more so many stand for all."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What items see.

    Attributes:
        interest: the items.
        views: of each marginal of which queries are asked, how.
        demand: the items, and what each sees of the marginals inside.
    """

    interest: Interest
    views: Mapping[Clique, tuple[View, ...]]
    demand: Demand

    @classmethod
    def of(
        cls, interest: Interest, counts: Mapping[str, np.ndarray], levels: Mapping[str, Sequence[np.ndarray]]
    ) -> Outlook:
        """By the estimated one-way marginals, and the groups of codes that can be measured."""
        fraction = {
            id(asked): {name: mean_fraction({name: rows}, counts) for name, rows in asked.factors.items()}
            for asked in interest.items
        }

        def outside(asked: Asked, part: Clique) -> float:
            return math.prod(value for name, value in fraction[id(asked)].items() if name not in part)

        views = {}
        for part, items in interest.by_part.items():
            together: dict[Any, tuple[float, Any]] = {}
            for asked in items:
                key = _key(asked, part)
                weight = together.get(key, (0.0, None))[0] + asked.importance * outside(asked, part)
                together[key] = weight, asked.inside(part)
            if set(together) != {()}:
                seen_as = [(key, *entry) for key, entry in _some_of(together)]
                views[part] = tuple(_view(part, *entry, counts, levels) for entry in seen_as)
        rows = [
            [(part, outside(asked, part), _key(asked, part) if part in views else None) for part in parts(asked.clique)]
            for asked in interest.items
        ]
        return cls(interest, views, Demand.of(rows, np.array([asked.importance for asked in interest.items])))

    def of_table(self, clique: Clique) -> tuple[View, ...]:
        """How a marginal is seen: cell by cell, where nothing else is asked."""
        return self.views.get(clique, CELLS)

    def queries(self, name: str, key: Any) -> np.ndarray | None:
        """The queries about one attribute that a view is about; None for its codes."""
        for asked in self.interest.by_part[name,]:
            if _key(asked, (name,)) == key:
                return asked.factors.get(name)
        return None


def _view(
    part: Clique,
    key: Any,
    weight: float,
    factors: Any,
    counts: Mapping[str, np.ndarray],
    levels: Mapping[str, Sequence[np.ndarray]],
) -> View:
    if not factors or len(part) == 1:
        return View(weight, None, key)
    depth = max(len(levels[name]) for name in part)
    groups = [[levels[name][min(level, len(levels[name]) - 1)] for level in range(depth)] for name in part]
    return View(weight, QueryErrors.of([factors.get(name) for name in part], [counts[n] for n in part], groups), key)


def _key(asked: Asked, part: Clique) -> tuple[tuple[str, int], ...]:
    """Equal for items that ask the same of a part; () for its cells."""
    return tuple((name, hash(asked.factors[name].tobytes())) for name in part if name in asked.factors)


def _some_of(views: dict[Any, tuple[float, Any]]) -> list[tuple[Any, tuple[float, Any]]]:
    """All views, or some that stand for them."""
    entries = list(views.items())
    return [entries[place] for place in evenly(len(entries), MOST_VIEWS)]
