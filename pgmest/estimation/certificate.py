r"""The duality gap: a proof of how far a loss can be above its optimum, by sweeps of the max-product on the same plan.

For convex f, any distribution q satisfies f(q) >= f(p) + <g, q - p> with g the gradient at p, and the least value of
<g, q> over all distributions is attained at a single record. So

    gap = <g, p> - min_x sum_C g_C(x_C)  >=  f(p) - min f,

one max-product sweep (the Frank-Wolfe gap). It is exact but pessimistic: one record in 10^17 whose gradient has not
settled decides it, although almost no mass is there. Where f also curves by at least w in each measured cell, the
gradient may be bent at a price: for every d,

    f(q) >= f(p) + <g + d, q - p> - sum d^2 / (2 w),

because w t^2 / 2 >= d t - d^2 / (2 w). `duality_gap` raises the gradient in cells that hold little mass, just so far
that no record through them lies below the mean <g, p>, in rounds that admit cells of growing mass: there the price,
<d, p> + sum d^2 / (2 w), is small, and what remains to be covered by cells of more mass shrinks from round to round.
Any d gives a valid bound, so the smallest over the rounds is taken; it is often ten times tighter.
"""

from __future__ import annotations

import numpy as np

from pgmest.estimation.problem import Problem
from pgmest.loss.base import dot

SMALLEST_MASS = 0.003
"""Counts; the first round bends the gradient in cells below this mass, the last in those below LARGEST_MASS."""

LARGEST_MASS = 100.0


ROUNDS = 24
WORTHWHILE = 1e-3
HOPELESS = 100.0
"""Bending the gradient is not tried while the plain gap is HOPELESS times what would be enough, or HOPELESS times a gap
of WORTHWHILE noise floors if that is more."""


def duality_gap(
    problem: Problem, p: np.ndarray, gradient: np.ndarray, rounds: int = ROUNDS, enough: float = 0.0
) -> float:
    """An upper bound on f(p) - min f, in the units of the loss.

    Args:
        problem: what is minimised.
        p: marginals of a distribution, summing to one.
        gradient: the gradient there, as `problem.loss_and_gradient` gives it.
        rounds: how often the gradient is bent; each costs two max-product sweeps. 0: the Frank-Wolfe gap.
        enough: stop as soon as the bound is at most this.
    """
    mean = dot(gradient, p)
    gap = mean - problem.lowest(gradient)
    weight = problem.loss.curvature_floor()
    hopeless = HOPELESS * max(enough, WORTHWHILE * problem.loss.noise_floor)
    if rounds == 0 or gap <= enough or gap > hopeless > 0 or not np.any(weight > 0):
        return max(gap, 0.0)
    bent, price = gradient.copy(), np.zeros(len(weight))
    mass, measured = p[problem.measured] * problem.total, problem.measured
    for limit in np.geomspace(SMALLEST_MASS, LARGEST_MASS, rounds):
        lowest = problem.lowest_by_cell(bent)[measured]
        raised = np.where((mass <= limit) & (weight > 0) & (lowest < mean), mean - lowest, 0.0)
        bent[measured] += raised
        price += raised
        bound = dot(bent, p) - problem.lowest(bent) + 0.5 * float(np.sum(_ratio(price**2, weight)))
        gap = min(gap, bound)
        if gap <= enough:
            break
    return max(gap, 0.0)


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
