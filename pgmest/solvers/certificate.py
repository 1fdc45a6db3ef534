r"""The duality gap: a proof of how far a loss can be above its optimum, by sweeps of the max-product on the same plan.

For convex f, any distribution q satisfies f(q) >= f(p) + <g, q - p> with g the gradient at p, and the least value of
<g, q> over all distributions is attained at a single record. So

    gap = <g, p> - min_x sum_C g_C(x_C)  >=  f(p) - min f,

one max-product sweep (the Frank-Wolfe gap). It is exact but pessimistic: one record in 10^17 whose gradient has not
settled decides it, although almost no mass is there. Where f also curves by at least w in each measured cell, the
gradient may be bent at a price: for every m,

    f(q) >= f(p) + <g + w (m - p), q - p> - 1/2 sum w (m - p)^2,

because w t^2 / 2 >= w t s - w s^2 / 2 for all s and t. Any m gives a valid bound, so m may be chosen by any means. For
a quadratic loss this is the whole dual problem: the gap is least where m is the optimal marginal. `duality_gap` goes
after it in two stages, each of which finds most of what the other leaves:

1. Small cells are raised, all at once and in rounds: each by a part of what the worst record through it lies below the
   mean <g, p>, and not above a level that grows from round to round. The price of a raise grows with its own size and
   with the mass of the cell, so many small cells share it.
2. Block ascent: on one clique, with the gradient on all others kept, the best m is a projection onto a simplex, given
   the worst record through each cell. Groups of cliques move together, by as long a step as improves the bound. No
   step is lost, but where the bound has kinks it ends short of the best: hence the first stage.

Together they tighten the gap a hundredfold, at the cost of some tens of oracle calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem

ROUNDS = 12
SHARE = 0.3
LOWEST_LEVEL = 3e-3
HIGHEST_LEVEL = 1e3
"""Small cells are raised in ROUNDS rounds, by SHARE of what is missing (less where f curves less, for there the same
raise costs more), up to levels from LOWEST_LEVEL to HIGHEST_LEVEL times what would cover the plain gap in one cell."""

GROUPS = 6
UPDATES = 48
SHORTEST_STEP = 1e-3
GROWTH = 1.5
STALLED = 0.98
"""Block ascent makes at most UPDATES evaluations, each for one of GROUPS groups of cliques in turn, and ends after a
round over all groups that leaves the gap above STALLED times what it was."""

WORTHWHILE = 1e-3
HOPELESS = (3000.0, 100.0, 3.0)
"""A stage is not begun while the gap is HOPELESS times what would be enough, or than WORTHWHILE noise floors if that is
more: before raising, before the block ascent, and halfway through it."""


def duality_gap(problem: Problem, p: np.ndarray, gradient: np.ndarray, enough: float = 0.0) -> float:
    """An upper bound on f(p) - min f, in the units of the loss.

    Args:
        problem: what is minimized.
        p: marginals of a distribution, summing to one.
        gradient: the gradient there, as `problem.loss_and_gradient` gives it.
        enough: stop as soon as the bound is at most this, or when that is out of reach.
    """
    plain = dot(gradient, p) - problem.lowest(gradient)
    weight = np.ascontiguousarray(problem.loss.curvature_floor())
    target = max(enough, WORTHWHILE * problem.loss.noise_floor)
    if plain <= enough or _hopeless(plain, target, 0) or not np.any(weight > 0):
        return max(plain, 0.0)
    start = _Bent.of(problem, p, gradient, weight, p[problem.measured])
    bent = _raised(problem, p, gradient, start, enough)
    best = min(plain, bent.gap)
    if best > enough and not _hopeless(bent.gap, target, 1):
        best = min(best, _ascended(problem, p, gradient, bent, enough, target).gap)
    return max(best, 0.0)


def _hopeless(gap: float, target: float, stage: int) -> bool:
    return gap > HOPELESS[stage] * target > 0


@dataclass(frozen=True)
class _Bent:
    """A gradient bent toward m, and what it proves.

    Attributes:
        filled: m, by measured cell.
        low: the worst record through each measured cell, inf where none is possible.
        gap: the bound on f(p) - min f.
    """

    filled: np.ndarray
    low: np.ndarray
    weight: np.ndarray
    gap: float

    @classmethod
    def of(cls, problem: Problem, p: np.ndarray, gradient: np.ndarray, weight: np.ndarray, filled: np.ndarray) -> _Bent:
        raised = filled - p[problem.measured]
        price = weight * raised
        bent = gradient.copy()
        bent[problem.measured] += price
        low = problem.lowest_by_cell(bent)[problem.measured]
        gap = dot(bent, p) - float(low.min()) + 0.5 * dot(price, raised)
        return cls(filled, low, weight, gap)


def _raised(problem: Problem, p: np.ndarray, gradient: np.ndarray, bent: _Bent, enough: float) -> _Bent:
    """The gradient raised in small cells, until no record lies far below the mean."""
    weight, mean = bent.weight, dot(gradient, p)
    unit = np.divide(1.0, weight, out=np.zeros(len(weight)), where=weight > 0)
    share = SHARE * np.sqrt(weight / weight.max())
    deepest = bent.gap
    for level in np.geomspace(LOWEST_LEVEL, HIGHEST_LEVEL, ROUNDS):
        missing = np.maximum(mean - bent.low, 0.0)
        room = np.maximum(level * deepest * unit - bent.filled, 0.0)
        filled = bent.filled + np.minimum(share * missing * unit, room)
        bent = _Bent.of(problem, p, gradient, weight, filled)
        if bent.gap <= enough:
            break
    return bent


def _ascended(
    problem: Problem, p: np.ndarray, gradient: np.ndarray, bent: _Bent, enough: float, target: float
) -> _Bent:
    """Improved by block ascent, a group of cliques at a time."""
    from pgmest.solvers.certificate_kernels import best_blocks

    cliques = len(problem.loss.cliques)
    groups = min(GROUPS, cliques)
    steps = [min(1.0, 2.0 * groups / cliques)] * groups
    offsets, group, move = problem.loss.layout.offsets, 0, np.zeros(len(bent.filled))
    best_blocks(group, groups, offsets, bent.low, bent.filled, bent.weight, move)
    before = bent.gap
    for update in range(UPDATES):
        moved = _Bent.of(problem, p, gradient, bent.weight, bent.filled + steps[group] * move)
        if moved.gap < bent.gap:
            bent = moved
            steps[group] = min(1.0, GROWTH * steps[group])
        else:
            steps[group] *= 0.5
        if bent.gap <= enough or (update == UPDATES // 2 and _hopeless(bent.gap, target, 2)):
            break
        if moved is bent or steps[group] < SHORTEST_STEP:
            group = (group + 1) % groups
            if group == 0:
                if bent.gap > STALLED * before:
                    break
                before = bent.gap
            move[:] = 0.0
            best_blocks(group, groups, offsets, bent.low, bent.filled, bent.weight, move)
    return bent
