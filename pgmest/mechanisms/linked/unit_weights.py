r"""Weights of synthetic units for analyses of several weighted tables, whose spread says how sure a result is.

The numbers of units of the data like each synthetic one are normal given the noisy answers (`UnitErrors`). Each set of
weights is a draw of them, moved towards the synthetic numbers by one factor for all sets, so that none is negative:
a smooth statistic then varies between sets by the same factor less than the draws would have it (Fay's method for
survey replicates; Judkins 1990). `pg.combine` multiplies the variance between sets by its square.

What enters a draw is what `UnitErrors.totals` adds up: the noise and the model, the correction of residuals, and what
the noisy answers say beyond the synthetic units, with one sign in half of the sets and the other one in the rest.
Units of a kind that does not occur have no row to weight. Their error is drawn in the weights of all units, each by
itself. Its size is that of unseen units whose value is $\sqrt{2 \log n}$ standard deviations from the mean: the
largest of n normal numbers, for n units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgmest.mechanisms.linked.unit_errors import UnitErrors

LEAST_WEIGHT = 0.1
"""The smallest weight of a set, relative to the weight that all units have without errors."""


@dataclass(frozen=True, eq=False)
class UnitWeights:
    """Sets of weights of the synthetic units.

    Attributes:
        weights: the weights, shape (sets, units). Their sums estimate the number of units of the data.
        spread: the standard error of a total, relative to its standard deviation between sets.
    """

    weights: np.ndarray
    spread: float

    @classmethod
    def drawn(cls, errors: UnitErrors, sets: int, generator: np.random.Generator) -> UnitWeights:
        """Return sets of weights.

        Args:
            errors: the errors of totals over units.
            sets: the number of sets.
            generator: of the draws.
        """
        from scipy.linalg import solve_triangular

        pool = len(errors.pool)
        own, left = generator.standard_normal((2, pool, sets))
        signs = generator.permutation(np.where(np.arange(sets) % 2, 1.0, -1.0))
        unseen = generator.standard_normal((sets, errors.units))
        half = solve_triangular(errors.factor, errors.left[:, None] * left, lower=True, check_finite=False)
        half += own + np.outer(errors.moved, signs)
        moves = unseen * (errors.unseen * math.sqrt(2 * math.log(max(errors.units, 2)) / errors.units))
        inside = solve_triangular(errors.factor, half, lower=True, trans=1, check_finite=False)
        moves[:, errors.pool] += inside.T * (errors.scale * errors.units / pool)
        spread = max(1.0, -float(moves.min(initial=0.0)) / ((1 - LEAST_WEIGHT) * errors.scale))
        return cls(errors.scale + moves / spread, spread)
