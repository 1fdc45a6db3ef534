"""PlausibleTables: one-way marginals and pairs of some attributes, drawn together as the answers allow.

Counts of cells are the model's plus errors drawn by an `ErrorModel`, without negative counts (`plausible_tables`). Then
the coefficients of the tables (`coefficients`) are moved to plausible ones, and pairs are scaled to the drawn one-way
marginals. For pairs that were not measured, dependence beyond the model's is drawn, as strong as that of measured
pairs, or less where the mechanism knows that it is weak.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.models.errors.error_model import ErrorModel
from pgmest.models.errors.measured_tables import best_answer
from pgmest.models.errors.plausible_tables import without_negative_counts
from pgmest.models.synthetic_tables.coefficients import SCALES, Coefficients, drawn_scales, kinds_of, learned_scales
from pgmest.models.synthetic_tables.correlations import feasible_correlations
from pgmest.models.synthetic_tables.functions import SMOOTH, combined, factors, functions_of
from pgmest.tables.domain import Clique

DRAWN, FEWEST = 200, 40
"""The number of draws of a one-way marginal for its mean, and the least number for the variances of cells."""
UNMEASURED = (2.2, 1.2, 0.8)
"""The scale of each kind of coefficient of unmeasured pairs, relative to measured ones. Mechanisms measure the pairs
with the strongest dependence, but these are not those with the largest correlations of codes."""
REACH, POWER, VARIATION = 2.5, 0.5, 0.5
"""If a pair's distance from the model is known, its coefficients are lowered to REACH times that of normal ones with
this distance, but only by the power POWER of the ratio, as the distance is known roughly; and the standard deviation
of its logarithm."""
SHAPE = 0.5
"""The standard deviation of the coefficients of one-way marginals, of which little is known before."""
KNOWN = 0.98
"""Groups of codes must show this share of a function for an answer to change its coefficient in a one-way marginal."""
FITS, SWEEPS = 3, 3
"""The number of times that coefficients are corrected, and of scalings to one-way marginals each time."""
MOST_CORRECTED = 100
"""The largest number of unmeasured pairs whose correlations are known: products of the codes of more pairs would take
more memory than the records."""
MOST_NUMBERS = 30_000_000
"""Correlations of larger tables are not compared with those that errors make plausible."""
LARGEST = 0.95
"""The largest correlation up to which those of unmeasured pairs are stretched."""
LEAST = 1e-12
"""The least count of a cell, in records, and the least sum."""
LEAST_SHARE = 1e-6
"""The least count of a cell of a pair, as a share of an average one: cells that are needed for sums have some."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Tables that were drawn together, in counts.

    Attributes:
        totals: the numbers of records, shape (count,).
        one_way: the marginal of each attribute, shape (count, codes).
        pairs: the tables of measured pairs, shape (count, codes, codes).
        factors: for other pairs, the factors by which their tables differ from the model's, of the same shape.
        correlations: for other pairs, the correlations of codes that a table of the pair alone would have, shape
            (count,). With other attributes beside them, factors alone would leave about half of it. Empty for two
            attributes, and for more than `MOST_CORRECTED` pairs.
    """

    totals: np.ndarray
    one_way: Mapping[str, np.ndarray]
    pairs: Mapping[Clique, np.ndarray]
    factors: Mapping[Clique, np.ndarray]
    correlations: Mapping[Clique, np.ndarray]


@dataclass(frozen=True, eq=False)
class PlausibleTables:
    """The distribution of the true tables of some attributes, given the answers.

    Attributes:
        errors: the errors of the model's tables.
        names: the attributes, in the order of the domain.
    """

    errors: ErrorModel
    names: Clique
    _means: dict[str, np.ndarray] = field(default_factory=dict)
    _functions: dict[str, np.ndarray] = field(default_factory=dict)
    _stretches: dict[Clique, tuple[float, float]] = field(default_factory=dict)

    @property
    def pairs(self) -> list[Clique]:
        """All pairs of the attributes."""
        return list(combinations(self.names, 2))

    def draw(self, count: int, generator: np.random.Generator) -> Drawn:
        """Draw tables."""
        measured = [pair for pair in self.pairs if self.errors.is_measured(pair)]
        errors = self.errors.together(max(count, FEWEST), generator)
        totals = np.maximum(self.errors.tables.total + errors(())[:count], 1.0)
        one_way = {
            name: self._marginal(name, errors((name,)), count, generator) * totals[:, None] for name in self.names
        }
        tables = {pair: self._pair(pair, errors(pair), one_way, totals, generator) for pair in measured}
        others = {pair: self._unmeasured(pair, count, generator) for pair in self.pairs if pair not in tables}
        whole = {}
        if len(self.names) > 2 and len(others) <= MOST_CORRECTED:
            whole = {pair: self._correlations(pair, others[pair], one_way) for pair in others if self._varies(pair)}
            whole = self._together(whole, tables)
        return Drawn(totals, one_way, tables, others, whole)

    def mean(self, name: str) -> np.ndarray:
        """Return the mean of the plausible one-way marginals: codes that noise hides have records, too."""
        if name not in self._means:
            drawn = without_negative_counts(self.errors.tables.counts(name) + self.errors.draws((name,), DRAWN))
            self._means[name] = drawn.mean(axis=0)
        return self._means[name]

    def products(self, records: Dataset, pairs: Iterable[Clique]) -> np.ndarray:
        """Return the products of the standardized codes of pairs, shape (records, pairs): their means are correlations.

        The codes are standardized by the mean plausible marginals.
        """
        codes = {name: self._of(name)[:, 0][records.column(name)] for pair in pairs for name in pair}
        return np.stack([codes[first] * codes[second] for first, second in pairs], axis=1)

    def _varies(self, pair: Clique) -> bool:
        """Return whether both attributes of a pair have several codes with records."""
        return all(self._of(name).size for name in pair)

    def _correlations(self, pair: Clique, tilts: np.ndarray, one_way: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the correlations of the codes of a pair in tables that differ from the model's by factors."""
        found = self._mean_products(pair, scaled(self._table(pair) * tilts, *(one_way[name] for name in pair)))
        model, stretch = self._stretch(pair)
        most = np.maximum(np.abs(found), LARGEST)
        return np.clip(model + stretch * (found - model), -most, most)

    def _together(
        self, drawn: Mapping[Clique, np.ndarray], measured: Mapping[Clique, np.ndarray]
    ) -> dict[Clique, np.ndarray]:
        """Return correlations of unmeasured pairs that can hold beside those of drawn tables of measured pairs.

        Args:
            drawn: the correlation of each unmeasured pair in each draw.
            measured: the drawn tables of measured pairs.
        """
        if not drawn:
            return {}
        place, count = {name: index for index, name in enumerate(self.names)}, len(next(iter(drawn.values())))
        matrices, held = np.tile(np.eye(len(place)), (count, 1, 1)), np.zeros((len(place), len(place)), dtype=bool)
        known = {pair: self._mean_products(pair, tables) for pair, tables in measured.items() if self._varies(pair)}
        for (first, second), values in [*drawn.items(), *known.items()]:
            rows, columns = [place[first], place[second]], [place[second], place[first]]
            matrices[:, rows, columns] = np.clip(values, -1.0, 1.0)[:, None]
            held[rows, columns] = (first, second) in known
        found = np.array([feasible_correlations(one, held) for one in matrices])
        return {pair: found[:, place[pair[0]], place[pair[1]]] for pair in drawn}

    def _mean_products(self, pair: Clique, tables: np.ndarray) -> np.ndarray:
        """Return the means of the products of the standardized codes of a pair in tables."""
        first, second = (self._of(name)[:, 0] for name in pair)
        return np.einsum("i,nij,j->n", first, tables, second) / tables.sum(axis=(1, 2))

    def _stretch(self, pair: Clique) -> tuple[float, float]:
        """Return the correlation of the model's codes, and a factor of the differences of drawn ones from it.

        Drawn correlations are to vary no less than those of tables with the model's errors.
        """
        if pair not in self._stretches:
            generator = np.random.default_rng(0)
            (first, second), table = (self._of(name)[:, 0] for name in pair), self._table(pair)
            model = float(first @ table @ second / table.sum())
            if FEWEST * table.size > MOST_NUMBERS:
                return model, 1.0
            drawn = scaled(table * self._unmeasured(pair, FEWEST, generator), *(self.mean(name)[None] for name in pair))
            own = self._mean_products(pair, drawn) - model
            others = without_negative_counts(
                self.errors.tables.table(pair) + self.errors.draws(pair, FEWEST, generator)
            )
            wanted = correlations_of(others, first, second) - model
            ratio = float(np.square(wanted).mean()) / max(float(np.square(own).mean()), LEAST)
            self._stretches[pair] = model, float(np.sqrt(max(1.0, ratio)))
        return self._stretches[pair]

    def _of(self, name: str) -> np.ndarray:
        if name not in self._functions:
            self._functions[name] = functions_of(self.mean(name))
        return self._functions[name]

    def _table(self, pair: Clique) -> np.ndarray:
        """Return the model's table, scaled to the mean marginals."""
        table = self.errors.tables.table(pair)
        table = np.maximum(table, LEAST_SHARE * self.errors.tables.total / table.size)
        return scaled(table[None], *(self.mean(name)[None] for name in pair))[0]

    # -- one-way marginals ------------------------------------------------------------------------------------------

    def _marginal(self, name: str, errors: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw a one-way marginal, as shares."""
        drawn = without_negative_counts(self.errors.tables.counts(name) + errors)[:count] + LEAST
        shares = drawn / drawn.sum(axis=1, keepdims=True)
        functions, wanted = self._shape_coefficients(name, count, generator)
        for _ in range(FITS if functions.size else 0):
            shares = shares * factors((wanted - shares @ functions) @ functions.T)
            shares = shares / shares.sum(axis=1, keepdims=True)
        return shares

    def _shape_coefficients(
        self, name: str, count: int, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the smooth functions of an attribute that answers are about, and draws of their coefficients."""
        functions, counts = self._of(name)[:, :SMOOTH], self.mean(name)
        precision, sums = np.zeros(functions.shape[1]), np.zeros(functions.shape[1])
        for answer in self.errors.about((name,)):
            found = Coefficients.of(answer, counts, (counts,), (functions,))
            known = (found.seen > KNOWN) / found.variance
            precision, sums = precision + known, sums + known * found.beyond
        asked = precision > 0
        functions, precision = functions[:, asked], precision[asked] + SHAPE**-2
        return functions, sums[asked] / precision + generator.standard_normal((count, len(precision))) / precision**0.5

    # -- pairs ------------------------------------------------------------------------------------------------------

    @cached_property
    def _measured(self) -> dict[Clique, Coefficients]:
        """The coefficients of all measured pairs, also of other attributes."""
        found = {}
        for pair in self.errors.measured_pairs:
            answer = best_answer(self.errors.about(pair))
            assert answer is not None
            marginals, functions = [self.mean(name) for name in pair], [self._of(name) for name in pair]
            found[pair] = Coefficients.of(answer, self._table(pair), marginals, functions)
        return found

    @cached_property
    def _scales(self) -> np.ndarray:
        return learned_scales(self._measured.values())

    def _lowered(self, shape: tuple[int, ...], relative: tuple[float, float, float]) -> np.ndarray:
        """Return factors of at most 1 by which the scales of coefficients are lowered, of this shape.

        Pairs of attributes of many codes have hundreds of coefficients. If each had the scale of its kind, the tables
        would depend far more than any measured one, and records that have all these tables together would keep little
        of the drawn correlations. So the expected squares of all other coefficients add up to no more than that of the
        correlation implies, by its share of the squared dependence of measured pairs.

        Args:
            shape: the numbers of functions of both attributes.
            relative: the scale of each kind relative to that of measured pairs.
        """
        kinds, squares = kinds_of(shape), np.square(relative) * (self._scales @ np.square(SCALES))
        share = float(self.errors.unseen.spectrum[0, 0])
        others = float(squares[kinds[kinds > 0]].sum())
        most = squares[0] * (1.0 - share) / max(share, LEAST)
        return np.where(kinds > 0, np.sqrt(min(1.0, most / max(others, LEAST))), 1.0)

    def _pair(
        self,
        pair: Clique,
        errors: np.ndarray,
        one_way: Mapping[str, np.ndarray],
        totals: np.ndarray,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Draw the table of a measured pair that has the one-way marginals."""
        first, second = (self._of(name) for name in pair)
        drawn = without_negative_counts(self.errors.tables.table(pair) + errors)[: len(totals)]
        tables = drawn + LEAST_SHARE * totals[:, None, None] / drawn[0].size
        found = self._measured[pair]
        lowered = self._lowered(found.model.shape, (1.0, 1.0, 1.0))
        wanted = found.draws(self._scales, len(totals), generator, lowered)
        tables = scaled(tables, one_way[pair[0]], one_way[pair[1]])
        for _ in range(FITS - 1):
            present = first.T @ tables @ second / totals[:, None, None]
            tables = tables * factors(combined(first, wanted - present, second))
            tables = scaled(tables, one_way[pair[0]], one_way[pair[1]])
        return tables

    def _unmeasured(self, pair: Clique, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw the factors of a pair that was not measured."""
        first, second = (self._of(name) for name in pair)
        shape = first.shape[1], second.shape[1]
        kinds = kinds_of(shape)
        scales = np.array(UNMEASURED)[kinds] * drawn_scales(np.log(self._scales.T[:, kinds]), count, generator)
        drawn = scales * self._lowered(shape, UNMEASURED) * generator.standard_normal((count, *shape))
        distance = self.errors.known.dependence.get(pair)
        if distance is not None and drawn.size:
            usual = np.sqrt(np.square(drawn).sum(axis=(1, 2)).mean())
            likely = REACH * distance / self.errors.tables.total * np.exp(VARIATION * generator.standard_normal(count))
            drawn = drawn * (np.minimum(likely / max(usual, LEAST), 1.0) ** POWER)[:, None, None]
        return factors(combined(first, drawn, second))


def correlations_of(tables: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the correlations of values of rows and columns in tables, shape (count, rows, columns); 0 without any."""
    shares = tables / np.maximum(tables.sum(axis=(1, 2), keepdims=True), LEAST)
    rows, columns = shares.sum(axis=2), shares.sum(axis=1)
    means = rows @ first, columns @ second
    spread = (rows @ np.square(first) - means[0] ** 2) * (columns @ np.square(second) - means[1] ** 2)
    together = np.einsum("i,nij,j->n", first, shares, second) - means[0] * means[1]
    return np.where(spread > LEAST, together / np.sqrt(np.maximum(spread, LEAST)), 0.0)


def scaled(tables: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return tables scaled to one-way marginals in turn, with an axis of draws first."""
    for _ in range(SWEEPS):
        tables = tables * (rows / np.maximum(tables.sum(axis=2), LEAST))[:, :, None]
        tables = tables * (columns / np.maximum(tables.sum(axis=1), LEAST))[:, None, :]
    return tables
