"""Diagnostics of mixing: rank-normalized split R-hat and effective sample sizes (Vehtari et al. 2021).

The ratio of variances is by Gelman and Rubin (1992), the truncation of autocorrelations by Geyer (1992). Arrays are of
shape (chains, draws, quantities). A constant quantity has R-hat 1, and all its draws are effective.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

TAILS = (0.05, 0.95)
"""The quantiles to which `tail_ess` refers."""
FEWEST_DRAWS = 4
"""The fewest draws of a chain from which diagnostics can be computed."""


def r_hat(draws: np.ndarray) -> np.ndarray:
    """Return, for each quantity, the larger R-hat of normal scores of ranks and of distances from the median."""
    folded = np.abs(draws - np.median(draws, axis=(0, 1)))
    return np.maximum(_ratio(_normal_scores(_split(draws))), _ratio(_normal_scores(_split(folded))))


def bulk_ess(draws: np.ndarray) -> np.ndarray:
    """Return the number of independent draws that would give as good a mean, for each quantity."""
    return _effective(_normal_scores(_split(draws)))


def tail_ess(draws: np.ndarray) -> np.ndarray:
    """Return the number of independent draws that would give as good a 5 % or 95 % quantile, the worse of the two."""
    ends = np.quantile(draws, TAILS, axis=(0, 1))
    return np.minimum(*(_effective(_split((draws <= end).astype(np.float64))) for end in ends))


def _split(draws: np.ndarray) -> np.ndarray:
    """Split each chain into halves, so that a drifting chain disagrees with itself."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _normal_scores(draws: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata  # imported late: it takes a second

    chains, length, quantities = draws.shape
    ranks = rankdata(draws.reshape(-1, quantities), axis=0)
    return ndtri((ranks - 0.375) / (chains * length + 0.25)).reshape(draws.shape)


def _variances(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean variance within chains, and the estimate of the variance over all, for each quantity."""
    length = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    return within, (length - 1) / length * within + draws.mean(axis=1).var(axis=0, ddof=1)


def _ratio(draws: np.ndarray) -> np.ndarray:
    within, overall = _variances(draws)
    return np.sqrt(np.divide(overall, within, out=np.ones_like(within), where=within > 0))


def _effective(draws: np.ndarray) -> np.ndarray:
    chains, length, _ = draws.shape
    within, overall = _variances(draws)
    centered = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centered, 2 * length, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :length].mean(axis=0) / length
    safe = np.where(overall > 0, overall, 1.0)
    correlation = 1.0 - (within - covariance * length / (length - 1)) / safe
    correlation[0] = 1.0
    pairs = correlation[0 : length - length % 2 : 2] + correlation[1:length:2]
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    decreasing = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    times = np.maximum(2.0 * decreasing.sum(axis=0) - 1.0, 1.0 / np.log10(chains * length))
    return np.where(overall > 0, chains * length / times, float(chains * length))
