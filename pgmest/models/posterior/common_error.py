r"""Errors that cells have in common: draws of sums, moved and widened by what unbiased answers say of them.

A posterior knows how far each cell may be off, and takes the errors of different cells for nearly independent. Its
prior may be wrong about all of them alike: where thousands of empty cells are given one record each, a sum of them is
off by thousands, and its posterior spread is a hundred. So of the posterior the spreads $s_i$ of single cells are
believed, and their independence is not. A query $q = w \cdot \mu$ of posterior mean m and variance $s^2$ may have,
besides, an error b common to its cells, with all of them aligned at most

.. math:: \beta^2 = \big( \textstyle\sum_i |w_i| s_i \big)^2 - s^2 ,

0 for a single cell. The noisy tables themselves have an unbiased answer x of variance $\sigma^2$ (`UnbiasedAnswers`).
Its difference from a posterior mean that is right has the variance $\sigma^2 - s^2$ (as in Hausman's test: the error
of what is best does not correlate with its difference from anything else), so that

.. math:: x - m \sim N(b, v), \quad v = \sigma^2 - s^2, \quad b \sim N(0, \beta^2) \quad \Rightarrow \quad
          q \sim N \big( m + g (x - m), \; s^2 + g v \big), \quad g = \beta^2 / (\beta^2 + v) .

Where cells are large against the noise, v is nearly 0 and draws stay what they are. For sums of many cells below the
noise $g$ is nearly 1 and the answer that of the noisy tables. In between nothing is chosen: the variance is never more
than $\sigma^2$, nor less than $s^2$.

A function of a table is taken for linear around the posterior mean to find w; then whole tables are moved along
$\mathrm{sign}(w_i) \, s_i$, cut off before zero, and asked, so that ratios and coefficients stay in their range.

Hausman 1978, Specification tests in econometrics. Armstrong, Kolesar 2020, Simple and honest confidence intervals (on
intervals that know of a bias and its bound).
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
"""Weights of at most this number of cells, over all queries, are at hand at a time."""

HALVINGS = 32
"""Until a table has moved as far as it should."""
FURTHEST = 1e3
"""Spreads that a cell is moved at most."""
LEFT = 1e-3
"""The share of a cell that stays at least, so that functions which divide by sums of cells have some to divide by."""
SMALLEST_STEP = 1e-9


@dataclass(frozen=True, eq=False)
class CommonError:
    """The draws of one table, and what may be wrong with sums of its cells.

    Attributes:
        names: its attributes.
        domain: of these.
        tables: draws, in counts, shape (draws, cells).
        spreads: of each measured clique that holds these attributes, the sum of its cells' standard deviations over
            the cells that make up one of these, shape (cells,).
        unbiased: the measured tables.
    """

    names: Clique
    domain: Domain
    tables: np.ndarray
    spreads: Sequence[np.ndarray]
    unbiased: UnbiasedAnswers

    def linear(
        self, weights_of: Callable[[range], np.ndarray], values: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Draws of linear queries, moved and widened, shape (draws, queries).

        Args:
            weights_of: the weights on the cells of some of the queries, shape (queries, cells).
            values: their draws.
            generator: of what is added.
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
        """Draws of a function of a table, shape (draws, numbers).

        Args:
            answer: the function.
            generator: of what is added.
            drawn: the function of a table drawn around the one given, for populations.
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
        """What is added to each draw of each query, shape (draws, queries)."""
        mean, count = self.tables.mean(axis=0), len(self.tables)
        weights = np.where(mean > 0, weights, 0.0)  # structural zeros have no error, and noisy answers
        used = np.flatnonzero(weights.any(axis=0))
        own = np.var(self.tables[:, used] @ weights[:, used].T, axis=0)
        aligned = np.max([(np.abs(weights) @ spread) ** 2 for spread in self.spreads], axis=0)
        answers, variances = self.unbiased.of(self.names, weights.reshape(len(weights), *self.domain.shape))
        known = np.isfinite(variances)
        common, v = np.maximum(aligned - own, 0.0), np.where(known, np.maximum(variances - own, 0.0), 0.0)
        gain = np.where(known, common / np.maximum(common + v, 1e-300), 0.0)
        levels = ndtri((np.arange(count) + 0.5) / count)
        scores = generator.permuted(np.repeat(levels[:, None], len(weights), axis=1), axis=0)
        return gain * (answers - weights @ mean) + np.sqrt(gain * v) * scores

    def _gradient(self, answer: Answer) -> np.ndarray:
        """Differences of the function across one standard deviation of each cell, shape (numbers, cells)."""
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
    """Tables without negative counts, each moved along the spreads, signed as the weights are, until the weighted sum
    has changed by its length.

    Cells that grow are not held up by zero: so the way is at least what all cells together would need, and at most what
    those that grow need alone.
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
