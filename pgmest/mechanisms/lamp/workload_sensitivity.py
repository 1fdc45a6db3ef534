"""WorkloadSensitivity: the dependence of a workload's errors on the errors of each marginal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.mechanisms.lamp.allocation import ItemErrors
from pgmest.mechanisms.lamp.candidates import CELLS, QueryView
from pgmest.mechanisms.lamp.query_errors import QueryErrors, answered_fraction
from pgmest.mechanisms.lamp.workload_demand import DemandItem, WorkloadDemand, evenly_spaced, sub_marginals
from pgmest.tables.domain import Clique

MOST_VIEWS = 16
"""The largest number of views of a marginal; if there are more, a sample represents them."""


@dataclass(frozen=True, eq=False)
class WorkloadSensitivity:
    """The sensitivity of a workload to errors in marginals.

    Attributes:
        demand: The items of the workload.
        views: The views of each marginal about which queries are asked.
        item_errors: The items, and the coefficients of the marginals' errors in theirs.
    """

    demand: WorkloadDemand
    views: Mapping[Clique, tuple[QueryView, ...]]
    item_errors: ItemErrors

    @classmethod
    def of(
        cls, demand: WorkloadDemand, counts: Mapping[str, np.ndarray], levels: Mapping[str, Sequence[np.ndarray]]
    ) -> WorkloadSensitivity:
        """Compute the sensitivity from the estimated one-way marginals and the groups of codes at each level."""
        fraction = {
            id(asked): {name: answered_fraction({name: rows}, counts) for name, rows in asked.factors.items()}
            for asked in (*demand.items, *demand.at_levels)
        }

        def outside(asked: DemandItem, part: Clique) -> float:
            return math.prod(value for name, value in fraction[id(asked)].items() if name not in part)

        views = {}
        for part, items in demand.items_by_marginal.items():
            together: dict[Any, tuple[float, Any]] = {}
            for asked in items:
                key = _key(asked, part)
                weight = together.get(key, (0.0, None))[0] + asked.importance * outside(asked, part)
                together[key] = weight, asked.inside(part)
            if set(together) != {()}:
                seen_as = [(key, *entry) for key, entry in _some_of(together)]
                views[part] = tuple(_view(part, *entry, counts, levels) for entry in seen_as)
        rows = [
            [
                (part, outside(asked, part), _key(asked, part) if part in views else None)
                for part in sub_marginals(asked.clique)
            ]
            for asked in demand.items
        ]
        return cls(demand, views, ItemErrors.of(rows, np.array([asked.importance for asked in demand.items])))

    def of_table(self, clique: Clique) -> tuple[QueryView, ...]:
        """Return the views of a marginal; if no queries are asked, the only view are its cells."""
        return self.views.get(clique, CELLS)

    def queries(self, name: str, key: Any) -> np.ndarray | None:
        """Return the queries of a view of one attribute; None for its codes."""
        for asked in self.demand.items_by_marginal[name,]:
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
) -> QueryView:
    if not factors or len(part) == 1:
        return QueryView(weight, None, key)
    depth = max(len(levels[name]) for name in part)
    groups = [[levels[name][min(level, len(levels[name]) - 1)] for level in range(depth)] for name in part]
    return QueryView(
        weight, QueryErrors.of([factors.get(name) for name in part], [counts[n] for n in part], groups), key
    )


def _key(asked: DemandItem, part: Clique) -> tuple[tuple[str, int], ...]:
    """Return a key that is equal for items with the same queries about a part; () for its cells."""
    return tuple((name, hash(asked.factors[name].tobytes())) for name in part if name in asked.factors)


def _some_of(views: dict[Any, tuple[float, Any]]) -> list[tuple[Any, tuple[float, Any]]]:
    """Return the views, or a sample if there are too many."""
    entries = list(views.items())
    return [entries[place] for place in evenly_spaced(len(entries), MOST_VIEWS)]
