"""The relative entropy to given marginals, whose minimizer is the maximum-likelihood estimate from exact marginals."""

from __future__ import annotations

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.losses.base import FlatLoss, dot, loss_layout
from pgmest.tables.clique_vector import CliqueVector, Layout

SMALLEST_COUNT = 1e-280
"""The smallest count in a denominator, for which count / SMALLEST_COUNT does not overflow a float64."""


class KLLoss(FlatLoss):
    r"""$\sum_C \sum_x t_C(x) \log \frac{t_C(x)}{\mu_C(x)} - t_C(x) + \mu_C(x)$ for target marginals t in counts.

    The unit is nats times records. If the totals agree, the last two terms cancel. Consistent targets are matched
    exactly (the value is 0), and the maximum-entropy distribution with these marginals is the maximum-likelihood
    estimate of a log-linear model on these cliques. A target cell of 0 contributes 0 log 0 = 0. Counts below 1e-280 are
    raised to 1e-280, so that value and gradient are finite. The gradient has no Lipschitz constant.

    Args:
        target: the marginals, in counts; of cliques with the same attributes the first is used.

    Raises:
        ArgumentError: a count is negative, NaN or infinite.
    """

    def __init__(self, target: CliqueVector):
        if not np.all((target.flat >= 0) & (target.flat < np.inf)):
            raise ArgumentError("the target marginals of a KL loss must be finite counts, none negative.")
        self.layout: Layout = loss_layout(target.domain, target.cliques)
        self._target = self.flatten(target)

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the value, and the gradient 1 - target / mu."""
        ratio = np.divide(self._target, np.maximum(flat, SMALLEST_COUNT), out=out)
        logs = np.log(np.where(self._target > 0, ratio, 1.0))
        value = dot(self._target, logs) + float(np.sum(flat - self._target))
        return value, np.subtract(1.0, ratio, out=ratio)
