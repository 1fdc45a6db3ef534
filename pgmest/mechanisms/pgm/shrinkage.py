"""Noisy counts moved towards what is expected of them, by how much the noise alone explains."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pgmest.synthesis.consistency import norm_sub

ROUNDS = 100
"""Of expectation maximization; the mixture that it approaches is the same for any more."""
MOST_ATOMS = 600
"""Of the mixture."""
LEAST_SHARE, LEAST_NOISE = 1e-3, 1e-2
"""A cell is given at least the first share of what is expected of it, or where that is less the second of the noise's
standard deviation: a probability of zero could not be revised."""


def posterior_means(values: np.ndarray, stddev: float) -> np.ndarray:
    """The mean of each true value given its noisy one, where the true ones come from a distribution that is unknown.

    That distribution, on numbers of at least 0, is estimated by maximum likelihood from all values together
    (nonparametric empirical Bayes; Kiefer and Wolfowitz 1956, Jiang and Zhang 2009). So many small values are pulled to
    where most of them must be, and lone large ones stay.

    Args:
        values: shape (n,), with independent normal noise (or noise of that variance).
        stddev: of the noise, positive.
    """
    atoms = _atoms(values, stddev)
    logs = -0.5 * np.square((values[:, None] - atoms) / stddev)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(len(atoms), 1 / len(atoms))
    for _ in range(ROUNDS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = (posterior.sum(axis=0) + 0.5 / len(atoms)) / (len(values) + 0.5)
    posterior = likelihood * weights
    return (posterior @ atoms) / posterior.sum(axis=1)


def _atoms(values: np.ndarray, stddev: float) -> np.ndarray:
    """Where the mixture may have mass: at zero, near zero, and around each value."""
    near = values if 3 * len(values) <= MOST_ATOMS else np.quantile(values, np.linspace(0, 1, MOST_ATOMS // 3))
    small = stddev * np.geomspace(0.1, 4, 12)
    return np.unique(np.maximum(np.concatenate([[0.0], small, near, near - stddev, near + stddev]), 0.0))


def one_way(values: np.ndarray, stddev: float, total: float) -> np.ndarray:
    """A one-way marginal, positive everywhere, that sums to the total."""
    counts = norm_sub(posterior_means(values, stddev), total)
    counts = np.maximum(counts, 1e-6 * total / len(counts))
    return counts * (total / counts.sum())


def shrunk(values: np.ndarray, expected: np.ndarray, stddev: float) -> np.ndarray:
    r"""Noisy counts y moved towards expected ones m, in blocks of cells of which about as much is expected.

    In each block b, $m + w_b (y - m)$ with $w_b = v_b / (v_b + \sigma^2)$, where $v_b = \max(0, \overline{(y - m)^2} -
    \sigma^2)$ is how much the truth varies around m there (James and Stein 1961, positive part, blockwise). Blocks are
    the binary orders of magnitude of m, since the truth varies more where there is more.
    """
    off = values - expected
    block = np.floor(np.log2(np.maximum(expected, 1e-9))).astype(np.int64).ravel()
    block -= block.min()
    cells = np.bincount(block)
    variance = np.maximum(np.bincount(block, np.square(off).ravel()) / np.maximum(cells, 1) - stddev**2, 0.0)
    return expected + (variance / (variance + stddev**2))[block].reshape(off.shape) * off


def fitted_to(table: np.ndarray, rows: np.ndarray, columns: np.ndarray, rounds: int = 200) -> np.ndarray:
    """A table without negative entries, scaled along rows and columns in turn until it has these sums."""
    for _ in range(rounds):
        table = table * np.divide(rows, table.sum(axis=1), out=np.zeros_like(rows), where=table.any(axis=1))[:, None]
        table = table * np.divide(columns, table.sum(axis=0), out=np.zeros_like(columns), where=table.any(axis=0))
        if np.abs(table.sum(axis=1) - rows).sum() <= 1e-4 * rows.sum():
            break
    return table


def two_way(
    measured: Callable[[np.ndarray], np.ndarray], stddev: float, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """The table of a pair of attributes, with these one-way marginals, from its noisy counts.

    Moved evenly to the one-way marginals, which are known better; shrunk towards independence; without negative counts.

    Args:
        measured: the noisy table, given the expected one; see `Answer.table`.
        stddev: of the noise in a cell, the one-way marginals given.
        rows, columns: the one-way marginals.
    """
    total = rows.sum()
    expected = np.outer(rows, columns) / total
    values = measured(expected)
    values = values + ((rows - values.sum(axis=1)) / values.shape[1])[:, None]
    values = values + (columns - values.sum(axis=0)) / values.shape[0]
    table = norm_sub(shrunk(values, expected, stddev), total)
    least = np.minimum(LEAST_SHARE * expected, max(LEAST_NOISE * stddev, 1e-9 * total))
    return fitted_to(np.maximum(table, least), rows, columns)


def fitted_to_margins(table: np.ndarray, margins: Mapping[tuple[int, ...], np.ndarray], rounds: int = 50) -> np.ndarray:
    """A table without negative entries, scaled in turn until it has these marginals (iterative proportional fitting).

    Args:
        table: of several attributes.
        margins: by their axes, in order.
        rounds: at most.
    """
    for _ in range(rounds):
        off = 0.0
        for axes, wanted in margins.items():
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            sums = table.sum(axis=others)
            off += float(np.abs(sums - wanted).sum())
            ratio = np.divide(wanted, sums, out=np.zeros_like(wanted), where=sums > 0)
            table = table * np.expand_dims(ratio, others)
        if off <= 1e-3 * float(table.sum()):
            break
    return table


def three_way(measured: Callable[[np.ndarray], np.ndarray], stddev: float, expected: np.ndarray) -> np.ndarray:
    """The table of three attributes from its noisy counts, as `two_way`; that it has the pairs must be seen to after.

    Args:
        measured: the noisy table, given the expected one; see `Answer.table`.
        stddev: of the noise in a cell, the pairs given.
        expected: with the pairs that are known, and without an interaction of all three.
    """
    off = measured(expected) - expected
    for axis in range(off.ndim):
        off = off - off.mean(axis=axis, keepdims=True)
    total = float(expected.sum())
    table = norm_sub(shrunk(expected + off, expected, stddev), total)
    return np.maximum(table, np.minimum(LEAST_SHARE * expected, max(LEAST_NOISE * stddev, 1e-9 * total)))
