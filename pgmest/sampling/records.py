"""The two ways of making records from clique tables: dealt out from rounded counts, or drawn independently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmest.sampling.clique_tables import CliqueTable, Places, sampling_kernels
from pgmest.sampling.rounding import Network, round_tables
from pgmest.tables.domain import Domain


class RoundedRecords:
    """n records whose counts on every clique of the tree are those of one integer table, dealt out in random order.

    A block that is not the last gets its share of what is left in each table, rounded in the same way, so that every
    block resembles the whole.
    """

    def __init__(self, domain: Domain, tables: Sequence[CliqueTable], places: Sequence[Places], n: int, seed: int):
        self._domain, self._tables, self._places = domain, tables, places
        self._state = np.array([seed], dtype=np.uint64)
        self._networks = [Network.of(domain, table) for table in tables]
        self._left = n
        self._counts = self._round([table.weights for table in tables], n)

    def fill(self, columns: np.ndarray, first: int, last: int) -> None:
        """Fill records first..last-1 of an array of shape (attributes, records)."""
        counts = self._take(last - first)
        deal = sampling_kernels().deal_records
        deck = np.empty(last - first, dtype=np.int32)
        for table, place, cells in zip(self._tables, self._places, counts, strict=True):
            bounds = np.empty((len(table.weights), 2), dtype=np.int64)
            where = (place.separator, place.strides, place.new, place.codes)
            deal(cells, columns, first, last, *where, deck, bounds, self._state)

    def _take(self, size: int) -> list[np.ndarray]:
        """The counts of the next `size` records, taken off those that are left."""
        if size == self._left:
            return self._counts
        taken = self._round(self._counts, size)
        self._left -= size
        for left, cells in zip(self._counts, taken, strict=True):
            left -= cells
        return taken

    def _round(self, weights: Sequence[np.ndarray], n: int) -> list[np.ndarray]:
        return round_tables(self._domain, self._tables, self._networks, weights, n, self._state)


class IndependentRecords:
    """Independent records of the model's distribution."""

    def __init__(self, domain: Domain, tables: Sequence[CliqueTable], places: Sequence[Places], n: int, seed: int):
        self._places = places
        self._state = np.array([seed], dtype=np.uint64)
        self._cumulative = [table.weights.cumsum(axis=1) for table in tables]

    def fill(self, columns: np.ndarray, first: int, last: int) -> None:
        """Fill records first..last-1 of an array of shape (attributes, records)."""
        draw = sampling_kernels().draw_records
        for place, cumulative in zip(self._places, self._cumulative, strict=True):
            draw(cumulative, columns, first, last, place.separator, place.strides, place.new, place.codes, self._state)


SAMPLING_METHODS: dict[str, type[RoundedRecords] | type[IndependentRecords]] = {
    "round": RoundedRecords,
    "multinomial": IndependentRecords,
}
