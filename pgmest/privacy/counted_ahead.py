"""The marginals of a list of requests, counted some at a time: one reading of the records serves many of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgmest.data.dataset import Dataset
    from pgmest.tables.factor import Factor

AHEAD_CELLS = 1 << 22
"""Tables of this many cells in all (32 MB) are counted at a time."""


class CountedAhead:
    """The marginals of some cliques, for requests that are answered in this order, or not at all.

    A request that is paid for and looks at the records has the tables of those after it counted as well, as many as
    `AHEAD_CELLS` holds. These stay here until their own requests are paid for, and each is handed out once: whoever
    asks again, an audit for instance, or about other records, has it counted anew. Weighted records are counted one by
    one, for the sums of their weights depend on the order in which they are added.

    Args:
        domain: the attributes.
        cliques: what the requests are about.
    """

    def __init__(self, domain: Domain, cliques: Sequence[Clique]):
        self._cliques = list(cliques)
        self._ends = list(accumulate(map(domain.size, self._cliques)))
        self._tables: dict[int, Factor] = {}
        self._data: Dataset | None = None
        self._next = 0

    def table(self, position: int) -> Callable[[Dataset], Factor]:
        """What gives the marginal that the request at this position is about."""
        return partial(self._table, position)

    def forget(self) -> None:
        """Let go of the records and of all tables that were not asked for."""
        self._tables, self._data = {}, None

    def _table(self, position: int, data: Dataset) -> Factor:
        if position < self._next or getattr(data, "weights", None) is not None or not hasattr(data, "project_many"):
            return data.project(self._cliques[position])
        self._next = position + 1
        if position not in self._tables or data is not self._data:
            ahead = self._ahead(position)
            self._tables, self._data = {}, data
            self._tables.update(zip(ahead, data.project_many([self._cliques[k] for k in ahead]), strict=True))
        found = self._tables.pop(position)
        if not self._tables:
            self.forget()
        return found

    def _ahead(self, position: int) -> range:
        """The positions of the tables to count together, this one the first of them."""
        before = self._ends[position - 1] if position else 0
        end = position + 1
        while end < len(self._ends) and self._ends[end] - before <= AHEAD_CELLS:
            end += 1
        return range(position, end)
