"""The state of DualQuery's game: the sampled queries and the synthetic records of all steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.mechanisms.dual_query.best_record import WeightedCell
from pgmest.mechanisms.dual_query.likelihood import DualQueryTranscript
from pgmest.mechanisms.dual_query.query_rows import QueryRows
from pgmest.privacy.exponential import LEAST_POWER, MOST_EXPONENT, CountExponents
from pgmest.tables.domain import Clique

RATE_BITS = 28
"""The bits of the integer learning rate: rounding lowers the rate by at most a hundred-millionth."""

ROUNDING = 3e-9
"""The relative amount subtracted from the learning rate before rounding, so that float errors never raise a cost."""


class Game:
    """The sampled queries and the synthetic records of all steps.

    The exponents eta (t a_q - sum_s q(x_s)) are integers in units of 2^unit_power. `rate`, which is eta / (N units)
    rounded down, counts for each step and each unit of a query's count; N times `rate` for each synthetic record's.

    Args:
        rows: the queries, whose entries are multiples of 1 / units.
        eta: the learning rate.
        total: N, the number of records.
        steps: the planned number of steps.
        units: the power of two that makes all entries integers.

    Raises:
        ArgumentError: the exponents would not be 64-bit integers.
    """

    def __init__(self, rows: QueryRows, eta: float, total: float, steps: int, units: int = 1):
        self.rows: QueryRows = rows
        self.units: int = units
        self.queries: list[np.ndarray] = []
        counted = total * units
        bits = max(8, min(RATE_BITS, 60 - math.frexp(counted)[1] - steps.bit_length()))
        self.unit_power = min(0, max(LEAST_POWER, math.frexp(eta / counted)[1] - bits))
        self.rate = max(1, math.floor(math.ldexp(eta / counted, -self.unit_power) * (1 - ROUNDING)))
        if self.rate * counted * steps > 4 * MOST_EXPONENT:
            raise ArgumentError(
                f"DualQuery's exponents for {total:.3g} records and {steps} steps exceed 64 bits: take fewer steps, or "
                "another mechanism."
            )
        self._eta, self._total = math.ldexp(self.rate, self.unit_power) * counted, total
        self._records: list[list[int]] = []
        self._taken = np.zeros(rows.count)  # the sum of the synthetic records' answers to each query

    def exponents(self) -> CountExponents:
        """Return the exponents of the next step's queries: the queries, then their negations."""
        taken = round(self.rate * self._total) * np.rint(self._taken * self.units).astype(np.int64)
        matrices = self.rows.matrices or (None,) * len(self.rows.cliques)
        return CountExponents(self.rows.cliques, self.rate * len(self._records), taken, matrices, self.units)

    def cells(self, queries: np.ndarray) -> list[WeightedCell]:
        """Return the sampled cells, weighted by their number of samples minus that of their negations."""
        places, weights = self._weighted(queries)
        return [self._cell(int(place), weight) for place, weight in zip(places, weights, strict=True)]

    def gains(self, queries: np.ndarray) -> dict[Clique, np.ndarray]:
        """Return the sum of the sampled queries' answers about a record, minus negations, as a table of each clique."""
        places, weights = self._weighted(queries)
        numbers = np.zeros(self.rows.count)
        numbers[places] = weights
        flat, layout = self.rows.transpose(numbers), self.rows.layout
        parts = zip(layout.cliques, layout.domains, layout.offsets[:-1], layout.offsets[1:], strict=True)
        tables = {clique: flat[start:stop].reshape(domain.shape) for clique, domain, start, stop in parts}
        return {clique: table for clique, table in tables.items() if table.any()}

    def _weighted(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the sampled queries, and their samples minus those of their negations, never 0."""
        signs = np.where(queries < self.rows.count, 1.0, -1.0)
        places, inverse = np.unique(queries % self.rows.count, return_inverse=True)
        weights = np.bincount(inverse.reshape(-1), signs)
        return places[weights != 0], weights[weights != 0]

    def _cell(self, place: int, weight: float) -> WeightedCell:
        layout = self.rows.layout
        position = int(np.searchsorted(layout.offsets, place, side="right")) - 1
        clique, shape = layout.cliques[position], layout.domains[position].shape
        codes = np.unravel_index(place - layout.offsets[position], shape)
        return WeightedCell(clique, tuple(int(code) for code in codes), float(weight))

    def play(self, queries: np.ndarray, record: dict[str, int]) -> None:
        """Record the sampled queries and the synthetic record of a step."""
        self.queries.append(queries)
        self._records.append([record[name] for name in self.rows.domain])
        self.rows.columns(self._dataset(self._records[-1:])).add_to(self._taken, 0)

    def transcript(self) -> DualQueryTranscript:
        """Return the public outcome of the game."""
        rows, records = self.rows, self._dataset(self._records)
        queries = np.array(self.queries)
        return DualQueryTranscript(records, rows.cliques, queries, self._eta, self._total, True, rows.matrices)

    def _dataset(self, records: Sequence[Sequence[int]]) -> Dataset:
        return Dataset.from_codes(np.array(records), self.rows.domain)
