r"""Errors that cells have in common: draws of sums, shifted and widened by the evidence of unbiased answers.

A posterior has the error of each cell, and the errors of different cells are nearly independent in it. But its prior
may be wrong about all cells in the same way: if thousands of empty cells get one record each, their sum is off by
thousands, while its posterior deviation is a hundred. Therefore the deviations $s_i$ of single cells are trusted, and
their independence is not. A query $q = w \cdot \mu$ of posterior mean m and variance $s^2$ may have an additional error
b that is common to its cells. Its variance is at most that of aligned errors,

.. math:: \beta^2 = \big( \textstyle\sum_i |w_i| s_i \big)^2 - s^2 ,

which is 0 for a single cell. The noisy tables have an unbiased answer x of variance $\sigma^2$ (`UnbiasedAnswers`). The
variance of its difference from a correct posterior mean is $\sigma^2 - s^2$, because the error of an efficient estimate
is not correlated with its difference from another estimate (Hausman's test). Hence

.. math:: x - m \sim N(b, v), \quad v = \sigma^2 - s^2, \quad b \sim N(0, \beta^2) \quad \Rightarrow \quad
          q \sim N \big( m + g (x - m), \; s^2 + g v \big), \quad g = \beta^2 / (\beta^2 + v) .

If cells are large compared with the noise, v is nearly 0 and draws do not change. For sums of many cells below the
noise $g$ is nearly 1, and the answer is that of the noisy tables. In between the transition is smooth: the variance is
never more than $\sigma^2$ and never less than $s^2$.

A function of a table is linearized around the posterior mean to find w. Then whole tables are moved along
$\mathrm{sign}(w_i) \, s_i$, kept above zero, and evaluated, so that ratios and coefficients stay in their range.

Hausman 1978, Specification tests in econometrics. Armstrong, Kolesar 2020, Simple and honest confidence intervals (for
estimates with a bounded bias).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from pgmest.models.posterior.unbiased import UnbiasedAnswers
from pgmest.tables.domain import Clique, Domain

Answer = Callable[[np.ndarray], np.ndarray]
"""From a table, shape (*domain.shape), to numbers, flat."""

ENTRIES = 2**22
"""The number of weights, over all queries and cells, that are held at a time."""

HALVINGS = 32
"""The number of bisection steps that move a table by the wanted amount."""
FURTHEST = 1e3
"""The largest move of a cell, in standard deviations."""
LEFT = 1e-3
"""The share of a cell that is left at least, so that functions which divide by sums of cells stay finite."""
AGREE = 1e-9
"""Draws of a query whose deviation is at most this share of its counts agree up to rounding errors."""
SMALLEST_STEP = 1e-9
"""Smaller steps and divisors, in counts, are replaced by this."""


@dataclass(frozen=True, eq=False)
class CommonError:
    """The draws of one table, and the error that its cells may have in common.

    Attributes:
        names: the attributes of the table.
        domain: the domain of these attributes.
        tables: the draws, in counts, shape (draws, cells).
        spreads: for each measured clique that contains these attributes, the sum of the standard deviations of its
            cells over the cells that make up one of these, shape (cells,).
        unbiased: the answers of the measured tables.
    """

    names: Clique
    domain: Domain
    tables: np.ndarray
    spreads: Sequence[np.ndarray]
    unbiased: UnbiasedAnswers

    def linear(
        self, weights_of: Callable[[range], np.ndarray], values: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Return draws of linear queries, shifted and widened, shape (draws, queries).

        Args:
            weights_of: returns the weights of some of the queries on the cells, shape (queries, cells).
            values: the posterior's draws of the queries.
            generator: the generator of the added noise.
        """
        found = values.copy()
        step = max(1, ENTRIES // self.domain.size())
        for start in range(0, values.shape[1], step):
            rows = range(start, min(start + step, values.shape[1]))
            weights = weights_of(rows)
            moved = found[:, rows.start : rows.stop] + self._moves(weights, generator)
            least = np.where((weights >= 0).all(axis=1), 0.0, -np.inf)
            found[:, rows.start : rows.stop] = np.maximum(moved, least)
        return found

    def function(self, answer: Answer, generator: np.random.Generator, drawn: Answer | None = None) -> np.ndarray:
        """Return draws of a function of a table, shape (draws, numbers).

        Args:
            answer: the function.
            generator: the generator of the added noise.
            drawn: for populations, the function of a table drawn around its argument.
        """
        weights, drawn = self._gradient(answer), answer if drawn is None else drawn
        moves = self._moves(weights, generator)
        found = np.empty((len(self.tables), len(weights)))
        widest = np.max(self.spreads, axis=0)
        for number, (row, lengths) in enumerate(zip(weights, moves.T, strict=True)):
            used = np.flatnonzero(row)
            moved = _moved(self.tables[:, used], row[used], widest[used], lengths)
            for draw, cells in enumerate(moved):
                table = self.tables[draw].copy()
                table[used] = cells
                found[draw, number] = drawn(table.reshape(self.domain.shape))[number]
        return found

    def _moves(self, weights: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return the shift of each draw of each query, shape (draws, queries)."""
        mean, count = self.tables.mean(axis=0), len(self.tables)
        weights = np.where(mean > 0, weights, 0.0)  # structural zeros have noisy answers, but no error
        used = np.flatnonzero(weights.any(axis=0))
        own = np.var(self.tables[:, used] @ weights[:, used].T, axis=0)
        aligned = np.max([(np.abs(weights) @ spread) ** 2 for spread in self.spreads], axis=0)
        answers, variances = self.unbiased.of(self.names, weights.reshape(len(weights), *self.domain.shape))
        # A query on which all draws agree is determined by exact answers, and has no error.
        known = np.isfinite(variances) & (own > (AGREE * (np.abs(weights) @ mean)) ** 2)
        common, v = np.maximum(aligned - own, 0.0), np.where(known, np.maximum(variances - own, 0.0), 0.0)
        gain = np.where(known, common / np.maximum(common + v, 1e-300), 0.0)
        # Normal scores in random order, rather than draws, so that quantiles have no Monte Carlo error.
        levels = ndtri((np.arange(count) + 0.5) / count)
        scores = generator.permuted(np.repeat(levels[:, None], len(weights), axis=1), axis=0)
        return gain * (answers - weights @ mean) + np.sqrt(gain * v) * scores

    def _gradient(self, answer: Answer) -> np.ndarray:
        """Return differences of the function across one standard deviation of each cell, shape (numbers, cells)."""
        mean, spread = self.tables.mean(axis=0), self.tables.std(axis=0)
        columns = []
        for cell, step in enumerate(np.minimum(mean, spread) + SMALLEST_STEP):
            ends = []
            for sign in (1.0, -1.0):
                table = mean.copy()
                table[cell] = max(table[cell] + sign * step, 0.0)
                ends.append((table[cell], answer(table.reshape(self.domain.shape))))
            (up, above), (down, below) = ends
            columns.append((above - below) / (up - down))
        return np.stack(columns, axis=1)


def _moved(tables: np.ndarray, weights: np.ndarray, spreads: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Move tables along the deviations, signed as the weights, until each weighted sum has changed by its length.

    Counts stay positive. Cells that grow are not limited by zero. Therefore the bisection starts between the distance
    that all cells together would need, and the distance that the growing cells alone would need.
    """
    along, target, sign = np.sign(weights) * spreads, np.abs(lengths), np.sign(lengths)[:, None]
    growing = np.where(sign > 0, np.maximum(weights, 0.0), np.maximum(-weights, 0.0)) @ spreads
    near = target / max(float(np.abs(weights) @ spreads), SMALLEST_STEP)
    far = np.minimum(target / np.maximum(growing, SMALLEST_STEP), np.maximum(FURTHEST, near))
    start = tables @ weights
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        short = np.abs(_cut(tables, sign * middle[:, None] * along) @ weights - start) < target
        near, far = np.where(short, middle, near), np.where(short, far, middle)
    return _cut(tables, sign * far[:, None] * along)


def _cut(tables: np.ndarray, step: np.ndarray) -> np.ndarray:
    return np.maximum(tables + step, LEFT * tables)
