"""The two sampling methods: records with given integer counts in every clique, or independent records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pgmest.data.codes import code_type
from pgmest.sampling.clique_tables import CliqueTable, ColumnMap, sampling_kernels
from pgmest.sampling.controlled import controlled_tables
from pgmest.sampling.rounding import Network, round_tables
from pgmest.tables.domain import Domain

RECORDS_AT_ONCE = 1 << 12
"""A kernel processes this many records together, so that their cells (4 bytes each) stay in the first-level cache."""

Fill = Callable[[np.ndarray, int], None]
"""A function of an array of shape (attributes, records) and an index: it fills the records from that index on."""


class RoundedRecords:
    """n records, in random order, whose counts on every clique of the tree are those of one integer table.

    A block before the last one takes a proportional share of the remaining counts of each table, rounded in the same
    way, so that every block resembles the whole.

    Args:
        domain: the attributes.
        tables: the cliques, parents first.
        maps: for each clique, the positions of its attributes in a record.
        n: the number of records.
        seed: the first state of the random numbers, below 2^64.
        scale: the factor from the tables' facts to counts of n records.

    Attributes:
        unmet: the distances of the facts that the records miss, in records.
    """

    def __init__(
        self,
        domain: Domain,
        tables: Sequence[CliqueTable],
        maps: Sequence[ColumnMap],
        n: int,
        seed: int,
        scale: float = 1.0,
    ):
        self._domain, self._tables, self._maps = domain, tables, maps
        self._state = np.array([seed], dtype=np.uint64)
        self._networks = [Network.of(domain, table) for table in tables]
        self._remaining = n
        self.unmet: np.ndarray
        self._counts, self.unmet = controlled_tables(domain, tables, self._networks, n, scale, self._state)

    def block(self, size: int) -> Fill:
        """Return the function that fills the next `size` records; blocks may be filled in any order, or in parallel."""
        return partial(self._deal, self._take(size), _states(self._state, len(self._tables), size), size)

    def _deal(self, counts: Sequence[np.ndarray], states: Sequence[np.ndarray], size: int, columns, first) -> None:
        deal = sampling_kernels().deal_records
        cells = np.empty(min(size, RECORDS_AT_ONCE), dtype=np.uint32)
        for columns_of, table, state in zip(self._maps, counts, states, strict=True):
            deck = np.empty(size, dtype=code_type(max(table.shape[1], 1 << 16)))
            bounds = np.empty((len(table), 2), dtype=np.uint64)
            deal(table, columns, first, first + size, *columns_of.arguments, deck, bounds, cells, state)

    def _take(self, size: int) -> list[np.ndarray]:
        """Return the counts of the next `size` records, and subtract them from the remaining counts."""
        if size == self._remaining:
            return self._counts
        taken = self._round(self._counts, size)
        self._remaining -= size
        for remaining, cells in zip(self._counts, taken, strict=True):
            remaining -= cells
        return taken

    def _round(self, weights: Sequence[np.ndarray], n: int) -> list[np.ndarray]:
        return round_tables(self._domain, self._tables, self._networks, weights, n, self._state)


class IndependentRecords:
    """Independent records of the model's distribution, without regard to facts; arguments as of `RoundedRecords`."""

    unmet: np.ndarray = np.zeros(0)

    def __init__(
        self,
        domain: Domain,
        tables: Sequence[CliqueTable],
        maps: Sequence[ColumnMap],
        n: int,
        seed: int,
        scale: float = 1.0,
    ):
        self._maps = maps
        self._state = np.array([seed], dtype=np.uint64)
        self._cumulative = [table.weights.cumsum(axis=1) for table in tables]

    def block(self, size: int) -> Fill:
        """Return the function that fills the next `size` records; blocks may be filled in any order, or in parallel."""
        return partial(self._draw, _states(self._state, len(self._maps), size), size)

    def _draw(self, states: Sequence[np.ndarray], size: int, columns: np.ndarray, first: int) -> None:
        draw = sampling_kernels().draw_records
        cells = np.empty(min(size, RECORDS_AT_ONCE), dtype=np.uint32)
        for columns_of, cumulative, state in zip(self._maps, self._cumulative, states, strict=True):
            draw(cumulative, columns, first, first + size, *columns_of.arguments, cells, state)


def _states(state: np.ndarray, tables: int, records: int) -> list[np.ndarray]:
    """Return the first random state of each table for a block of records, and advance `state` past the block.

    A record uses one random number for each table, so all states are known in advance and blocks can be filled in
    parallel with the same result.
    """
    before, steps = int(state[0]), records * sampling_kernels().STEP
    state[0] = (before + tables * steps) % 2**64
    return [np.array([(before + table * steps) % 2**64], dtype=np.uint64) for table in range(tables)]


SAMPLING_METHODS: dict[str, type[RoundedRecords] | type[IndependentRecords]] = {
    "round": RoundedRecords,
    "multinomial": IndependentRecords,
}
