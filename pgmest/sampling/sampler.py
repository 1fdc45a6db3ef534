"""Sampler: a calibrated model prepared for drawing records, all at once or in batches of constant memory.

Sampling descends the junction tree: it draws the attributes of a root clique first, then the new attributes of each
further clique jointly, given those of its separator. The cliques are those of the tree, not the measured ones, because
conditioning on fewer attributes would lose dependence across the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from pgmest._base.memory import check_records
from pgmest._base.threads import idle_threads, run_in_turn
from pgmest.data.codes import code_type, read_only
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, at_least
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.sampling.clique_tables import ColumnMap, clique_tables
from pgmest.sampling.facts import Facts, facts_scale, warn_of_tables, warn_of_unmet
from pgmest.sampling.records import SAMPLING_METHODS, IndependentRecords, RoundedRecords
from pgmest.tables.domain import Domain

BATCH = 1_000_000
"""The default number of records in a batch."""

RECORD_BLOCK = 1 << 18
"""The smallest number of records that are drawn at a time; their columns stay in the last-level cache."""

LARGEST_BLOCK = 1 << 22
"""The largest number of records that are drawn at a time.

Each block costs a pass over the model's tables, so a block has as many records as the model has cells, up to this.
"""

CELLS_IN_FLIGHT = 1 << 23
"""Blocks that are drawn in parallel have at most this many cells in their tables together, which take 64 MB."""

MOST_RECORDS = 1 << 53
"""The largest number of records: beyond it, float64 cannot hold every integer count."""


class Sampler:
    """A calibrated model prepared for sampling; it reads the tables once, so later runs of the oracle do not change it.

    A seed gives the same records on any number of threads.

    >>> from pgmest.tables.clique_vector import Layout
    >>> from pgmest.tables.domain import Domain
    >>> from pgmest.inference.exact.propagation_plan import PropagationPlan
    >>> oracle = ExactOracle(PropagationPlan.of(Layout.of(Domain({"a": 2, "b": 2}), [("a", "b")])))
    >>> _ = oracle.run(np.log([0.1, 0.2, 0.3, 0.4]))
    >>> Sampler(oracle).draw(10, seed=0).project(("a", "b")).values
    array([[1., 2.],
           [3., 4.]])

    Args:
        oracle: an exact oracle after a run.
        facts: exact answers, which rounded records hold; warnings say if they cannot.
        total: the number of records to which the facts refer. For another number of records they are scaled, and
            hold up to rounding to the whole number below or above.

    Raises:
        ImpossibleModelError: the run was for a total of 0.
    """

    def __init__(self, oracle: ExactOracle, facts: Sequence[Facts] = (), total: float = 1.0):
        self.domain: Domain = oracle.plan.tree.domain
        self._total = total
        cliques = list(map(set, oracle.plan.tree.cliques))
        facts = facts if total > 0 else ()  # without a total there is nothing to scale
        held = [one for one in facts if any(set(one.clique) <= clique for clique in cliques)]
        self._without_clique = [one for one in facts if one not in held]
        self._tables = clique_tables(oracle, held)
        self._codes_type = code_type(max(self.domain.shape, default=1))
        self._maps = [ColumnMap.of(self.domain, table, self._codes_type) for table in self._tables]
        self._cells = sum(table.weights.size for table in self._tables)
        self._block = min(max(RECORD_BLOCK, self._cells), LARGEST_BLOCK)

    def draw(self, n: int, method: str = "round", seed: int | np.random.Generator | None = None) -> Dataset:
        """Return n records in random order.

        Args:
            n: the number of records.
            method: "round" or "multinomial", see `pgmest.sampling`.
            seed: the seed of the draw, or a generator.

        Raises:
            ArgumentError: n is not an integer of at least 0, or the method is unknown.
        """
        n = at_least("n", n, 0)
        return self._dataset(self._records(n, method, seed), n)

    def batches(
        self, n: int, batch: int = BATCH, method: str = "round", seed: int | np.random.Generator | None = None
    ) -> Iterator[Dataset]:
        """Return an iterator over n records in datasets of `batch` records; the last one may be smaller.

        Memory is that of one batch and of the model's tables. With "round", all batches together match the model as
        closely as one draw of n records, and each batch nearly as closely as one draw of its size.

        Raises:
            ArgumentError: n is not an integer of at least 0, batch is not an integer of at least 1, or the method is
                unknown.
        """
        n, batch = at_least("n", n, 0), at_least("batch", batch, 1)
        records = self._records(n, method, seed)
        return (self._dataset(records, min(batch, n - start)) for start in range(0, n, batch))

    def _records(
        self, n: int, method: str, seed: int | np.random.Generator | None
    ) -> RoundedRecords | IndependentRecords:
        """Return the source of n records by a method, after checking the arguments."""
        if n > MOST_RECORDS:
            raise ArgumentError.of("n", n, f"at most {MOST_RECORDS:,} records")
        if method not in SAMPLING_METHODS:
            raise ArgumentError.of("method", method, SAMPLING_METHODS)
        number = int(np.random.default_rng(seed).integers(2**64, dtype=np.uint64))
        if method == "round":
            warn_of_tables(self._without_clique)
        scale = facts_scale(n, self._total)
        made = SAMPLING_METHODS[method](self.domain, self._tables, self._maps, n, number, scale)
        warn_of_unmet(made.unmet, n)
        return made

    def _dataset(self, records: RoundedRecords | IndependentRecords, size: int) -> Dataset:
        """Return the next `size` records, filled block by block, in parallel."""
        check_records(size, len(self.domain) * self._codes_type.itemsize)
        columns = np.empty((len(self.domain), size), dtype=self._codes_type)
        blocks = (
            partial(records.block(min(self._block, size - first)), columns, first)
            for first in range(0, size, self._block)
        )
        at_once = min(-(-size // self._block), CELLS_IN_FLIGHT // self._cells)  # each block holds a copy of the tables
        run_in_turn(blocks, max(1, min(at_once, idle_threads())))
        typed = (
            column.astype(code_type(values), copy=False)
            for column, values in zip(columns, self.domain.shape, strict=True)
        )
        return Dataset(self.domain, tuple(map(read_only, typed)), size)
