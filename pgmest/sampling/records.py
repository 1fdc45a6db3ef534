"""The two ways of making records from clique tables: dealt out from rounded counts, or drawn independently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pgmest.data.codes import code_type
from pgmest.sampling.clique_tables import CliqueTable, Places, sampling_kernels
from pgmest.sampling.rounding import Network, round_tables
from pgmest.tables.domain import Domain

RECORDS_AT_ONCE = 1 << 12
"""Records that a kernel takes through its steps together: their cells stay in the fastest cache."""

Fill = Callable[[np.ndarray, int], None]
"""Fills records of an array of shape (attributes, records), from the given one on."""


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

    def block(self, size: int) -> Fill:
        """What fills in the next `size` records. Blocks may be filled in any order, or at the same time."""
        return partial(self._deal, self._take(size), _states(self._state, len(self._tables), size), size)

    def _deal(self, counts: Sequence[np.ndarray], states: Sequence[np.ndarray], size: int, columns, first) -> None:
        deal = sampling_kernels().deal_records
        cells = np.empty(min(size, RECORDS_AT_ONCE), dtype=np.uint32)
        for place, table, state in zip(self._places, counts, states, strict=True):
            deck = np.empty(size, dtype=code_type(max(table.shape[1], 1 << 16)))
            bounds = np.empty((len(table), 2), dtype=np.uint64)
            where = (place.separator, place.strides, place.new, place.codes)
            deal(table, columns, first, first + size, *where, deck, bounds, cells, state)

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

    def block(self, size: int) -> Fill:
        """What fills in the next `size` records. Blocks may be filled in any order, or at the same time."""
        return partial(self._draw, _states(self._state, len(self._places), size), size)

    def _draw(self, states: Sequence[np.ndarray], size: int, columns: np.ndarray, first: int) -> None:
        draw = sampling_kernels().draw_records
        cells = np.empty(min(size, RECORDS_AT_ONCE), dtype=np.uint32)
        for place, cumulative, state in zip(self._places, self._cumulative, states, strict=True):
            where = (place.separator, place.strides, place.new, place.codes)
            draw(cumulative, columns, first, first + size, *where, cells, state)


def _states(state: np.ndarray, tables: int, records: int) -> list[np.ndarray]:
    """The states from which the values of each table are drawn for some records; `state` goes on behind them.

    A record takes one number of each table, so that all states are known before anything is drawn.
    """
    before, steps = int(state[0]), records * sampling_kernels().STEP
    state[0] = (before + tables * steps) % 2**64
    return [np.array([(before + table * steps) % 2**64], dtype=np.uint64) for table in range(tables)]


SAMPLING_METHODS: dict[str, type[RoundedRecords] | type[IndependentRecords]] = {
    "round": RoundedRecords,
    "multinomial": IndependentRecords,
}
