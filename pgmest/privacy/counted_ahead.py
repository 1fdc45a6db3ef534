"""The marginals of a list of requests, counted in groups: one pass over the records serves many requests."""

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
"""The number of cells, in all tables together, that are counted in one pass: 32 MB."""


class CountedAhead:
    """The marginals of some cliques, for requests that are answered in this order, possibly not all of them.

    When a request is paid for and looks at the records, the tables of the following requests are counted with it, up to
    `AHEAD_CELLS`. They stay here until their own requests are paid for. Each table is handed out once: a second
    request for it, by an audit for instance or about other records, counts it again. Weighted records are counted
    table by table, because sums of weights depend on the order of the additions.

    Args:
        domain: the attributes.
        cliques: the cliques of the requests, in order.
    """

    def __init__(self, domain: Domain, cliques: Sequence[Clique]):
        self._cliques = list(cliques)
        self._ends = list(accumulate(map(domain.size, self._cliques)))
        self._tables: dict[int, Factor] = {}
        self._data: Dataset | None = None
        self._next = 0

    def table(self, position: int) -> Callable[[Dataset], Factor]:
        """Return a function of the records that gives the marginal of the request at this position."""
        return partial(self._table, position)

    def forget(self) -> None:
        """Drop the records and all tables that were not handed out."""
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
        """Return the positions of the tables to count together, beginning with this one."""
        before = self._ends[position - 1] if position else 0
        end = position + 1
        while end < len(self._ends) and self._ends[end] - before <= AHEAD_CELLS:
            end += 1
        return range(position, end)
