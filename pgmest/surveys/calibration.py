r"""Calibration of weights to totals: the weights closest to the initial ones in a distance (Deville and Särndal 1992).

The weights $w_i = d_i F(x_i^T \lambda)$ minimize $\sum_i d_i G(w_i / d_i)$ subject to $\sum_i w_i x_i = t$, where F is
the inverse of the derivative of G. The multipliers minimize the convex dual
$\sum_i d_i \Phi(x_i^T \lambda) - t^T \lambda$ with $\Phi' = F$, here by Newton's method with a damped Hessian.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import cg, splu
from scipy.special import expit

STEPS = 200
"""The most Newton steps; ten are usual, and each shrinks a weight that has to vanish by a factor of e only."""

DENSE_TOTALS = 1500
"""The Hessian of more totals than this is not made dense. It is factored if it is sparse, as for totals of many zones;
otherwise conjugate gradients solve for the step."""

SPARSE_SHARE = 0.05
"""A Hessian is sparse if at most this share of its entries is not zero."""

LARGEST_EXPONENT = 700.0
"""Exponents are cut here, below the logarithm of the largest float."""

HALVINGS = 40
"""The most halvings of a step."""


@dataclass(frozen=True, eq=False)
class Distance(abc.ABC):
    """A distance of weights from initial ones, by the function F from multipliers to ratios of weights.

    Attributes:
        low, high: the bounds of the ratios, scalars or arrays of shape (rows,).
    """

    low: Any
    high: Any

    @abc.abstractmethod
    def ratios(self, u: np.ndarray) -> np.ndarray:
        """Return F(u), within the bounds; F(0) = 1 if the bounds allow it."""

    @abc.abstractmethod
    def slopes(self, u: np.ndarray) -> np.ndarray:
        """Return F'(u), 0 where a bound holds the ratio."""

    @abc.abstractmethod
    def integral(self, u: np.ndarray) -> np.ndarray:
        """Return an integral of F."""


class Raking(Distance):
    """Relative entropy, $G(r) = r \\log r - r + 1$: ratios are exponentials, cut at the bounds."""

    def ratios(self, u: np.ndarray) -> np.ndarray:
        return np.clip(np.exp(np.minimum(u, LARGEST_EXPONENT)), self.low, self.high)

    def slopes(self, u: np.ndarray) -> np.ndarray:
        ratio = np.exp(np.minimum(u, LARGEST_EXPONENT))
        return np.where((ratio >= self.low) & (ratio <= self.high), ratio, 0.0)

    def integral(self, u: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            inside = np.clip(u, np.log(self.low), np.minimum(np.log(self.high), LARGEST_EXPONENT))
        ratio = np.exp(inside)
        return ratio + np.where(u == inside, 0.0, ratio * (u - inside))


class Linear(Distance):
    """The chi-squared distance, $G(r) = (r - 1)^2 / 2$: ratios are linear, cut at the bounds (GREG without them)."""

    def ratios(self, u: np.ndarray) -> np.ndarray:
        return np.clip(1.0 + u, self.low, self.high)

    def slopes(self, u: np.ndarray) -> np.ndarray:
        return np.where((1.0 + u >= self.low) & (1.0 + u <= self.high), 1.0, 0.0)

    def integral(self, u: np.ndarray) -> np.ndarray:
        inside = np.clip(u, np.asarray(self.low) - 1.0, np.asarray(self.high) - 1.0)
        return inside + 0.5 * inside**2 + (1.0 + inside) * (u - inside)


class Logit(Distance):
    """The distance whose ratios are a logistic function between the bounds, which they approach and never reach."""

    def _place(self, u: np.ndarray) -> tuple[np.ndarray, Any]:
        low, high = np.asarray(self.low), np.asarray(self.high)
        speed = (high - low) / ((1.0 - low) * (high - 1.0))
        return speed * u + np.log((1.0 - low) / (high - 1.0)), speed

    def ratios(self, u: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * expit(self._place(u)[0])

    def slopes(self, u: np.ndarray) -> np.ndarray:
        place, speed = self._place(u)
        return (self.high - self.low) * speed * expit(place) * expit(-place)

    def integral(self, u: np.ndarray) -> np.ndarray:
        place, speed = self._place(u)
        return self.low * u + (self.high - self.low) / speed * np.logaddexp(0.0, place)


DISTANCES: dict[str, type[Distance]] = {"raking": Raking, "linear": Linear, "logit": Logit}
"""The distances by the names that `rake(method=)` takes, which are those of R's survey package."""


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The end of the iterations.

    Attributes:
        ratios: the ratios of the weights to the initial ones, shape (rows,).
        off: the largest difference of a total from what it should be, in units of the scaled totals.
        steps: the number of Newton steps.
    """

    ratios: np.ndarray
    off: float
    steps: int


@np.errstate(over="ignore", invalid="ignore")  # the multipliers of totals that cannot be met grow without bound
def calibrate(matrix: Any, start: np.ndarray, totals: np.ndarray, distance: Distance, close: float) -> Calibrated:
    """Return the ratios w / d of the closest weights that meet totals, or the last ones if they are not found.

    Args:
        matrix: what each row adds to each total for a weight of 1, shape (rows, totals).
        start: d, the initial weights, all positive, shape (rows,).
        totals: t, shape (totals,).
        distance: the distance, with bounds.
        close: the difference in any total at which the iterations end.
    """
    transposed = sparse.csr_array(matrix.T)
    multipliers = np.zeros(len(totals))

    def at(point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        u = matrix @ point
        value = float(start @ distance.integral(u) - totals @ point)
        return value, transposed @ (start * distance.ratios(u)) - totals, u

    value, gradient, u = at(multipliers)
    steps, damping = 0, 1e-3
    while steps < STEPS and np.abs(gradient).max() > close:
        steps += 1
        step = _newton_step(matrix, transposed, start * distance.slopes(u), gradient, damping * np.abs(gradient).max())
        size, moved = 1.0, False
        for _ in range(HALVINGS):
            found, slope, place = at(multipliers + size * step)
            fell = found <= value + 1e-4 * size * float(gradient @ step)
            moved = bool(fell or np.abs(slope).max() <= 0.9 * np.abs(gradient).max())
            if moved and np.isfinite(found):
                break
            size *= 0.5
        if not moved:
            damping *= 100.0
            if damping > 1e12:
                break
            continue
        damping = max(damping * (0.1 if size == 1.0 else 10.0), 1e-12)
        multipliers, value, gradient, u = multipliers + size * step, found, slope, place
    return Calibrated(distance.ratios(u), float(np.abs(gradient).max()), steps)


def _newton_step(matrix: Any, transposed: Any, slopes: np.ndarray, gradient: np.ndarray, damping: float) -> np.ndarray:
    """Return the step of Newton's method with a damped Hessian X^T diag(slopes) X."""
    weighted: Any = sparse.csr_array(transposed * slopes)
    scale = max(float(slopes.sum()), 1e-300)
    ridge = scale * max(damping, 1e-13)
    if len(gradient) <= DENSE_TOTALS:
        hessian = np.asarray((weighted @ matrix).todense())
        hessian[np.diag_indices_from(hessian)] += ridge
        try:
            return cho_solve(cho_factor(hessian, check_finite=False), -gradient, check_finite=False)
        except LinAlgError:
            return np.linalg.lstsq(hessian, -gradient, rcond=1e-14)[0]
    whole: Any = sparse.csc_array(weighted @ matrix) + ridge * sparse.eye_array(len(gradient))
    if whole.nnz <= SPARSE_SHARE * len(gradient) ** 2:
        return splu(whole, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}).solve(
            -gradient
        )
    step, _ = cg(whole, -gradient, rtol=1e-6, maxiter=500, M=sparse.diags_array(np.reciprocal(whole.diagonal())))
    return step
