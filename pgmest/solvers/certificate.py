r"""The duality gap: a proof of how far a loss can be above its optimum, by sweeps of the max-product on the same plan.

For convex f, any distribution q satisfies f(q) >= f(p) + <g, q - p> with g the gradient at p, and the least value of
<g, q> over all distributions is attained at a single record. So

    gap = <g, p> - min_x sum_C g_C(x_C)  >=  f(p) - min f,

one max-product sweep (the Frank-Wolfe gap). It is exact but pessimistic: one record in 10^17 whose gradient has not
settled decides it, although almost no mass is there. Where f also curves by at least w in each measured cell, there is
a bound for every vector m, the target marginals of a dual point:

    f(q) >= f(p) + <g + w (m - p), q - p> - 1/2 sum w (m - p)^2,

because w t^2 / 2 >= w t s - w s^2 / 2 for all s and t. Any m gives a valid bound, so m may be chosen by any means. For
a quadratic loss this is the whole dual problem: the gap is least where m is the optimal marginal. `duality_gap`
maximizes the bound over m in two stages, each of which finds most of what the other leaves:

1. Small cells are raised, all at once and in rounds: each by a part of the slack of its min-marginal, that is of what
   the least record through it lies below the mean <g, p>, and not above a level that grows from round to round. The
   penalty 1/2 w (m - p)^2 grows faster than m, so many small cells share it.
2. Block ascent: on one clique, with m on all others kept, the best m is a projection onto a simplex, given the
   min-marginals. Groups of cliques move together, by as long a step as improves the bound. No step is lost, but where
   the bound has kinks it ends short of the best: hence the first stage.

Together they tighten the gap a hundredfold, at the cost of some tens of oracle calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.problem import Problem

RAISES = 12
RAISED_SHARE = 0.3
LOWEST_LEVEL = 3e-3
HIGHEST_LEVEL = 1e3
"""Small cells are raised in RAISES rounds, by RAISED_SHARE of their slack (less where f curves less, for there the same
raise has a larger penalty), up to levels from LOWEST_LEVEL to HIGHEST_LEVEL times what would cover the plain gap in one
cell."""

CLIQUE_GROUPS = 6
MAX_UPDATES = 48
SHORTEST_UPDATE = 1e-3
UPDATE_GROWTH = 1.5
STALLED = 0.98
"""Block ascent makes at most MAX_UPDATES evaluations, each for one of CLIQUE_GROUPS groups of cliques in turn, and ends
after a round over all groups that leaves the gap above STALLED times what it was."""

WORTHWHILE = 1e-3
HOPELESS = (3000.0, 20.0, 3.0)
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
    plain = dot(gradient, p) - problem.linear_minimum(gradient)
    weight = np.ascontiguousarray(problem.loss.curvature_floor())
    aim = max(enough, WORTHWHILE * problem.loss.noise_floor)
    if plain <= enough or _hopeless(plain, aim, 0) or not np.any(weight > 0):
        return max(plain, 0.0)
    raised = _raised(problem, p, gradient, _DualPoint.of(problem, p, gradient, weight, p[problem.measured]), enough)
    best = min(plain, raised.gap)
    if best > enough and not _hopeless(raised.gap, aim, 1):
        best = min(best, _ascended(problem, p, gradient, raised, enough, aim).gap)
    return max(best, 0.0)


def _hopeless(gap: float, aim: float, stage: int) -> bool:
    return gap > HOPELESS[stage] * aim > 0


@dataclass(frozen=True)
class _DualPoint:
    """The gradient g + w (m - p) at target marginals m, and what it proves. Arrays are by measured cell.

    Attributes:
        target: m.
        min_marginals: the least of any record through the cell, inf where none is possible.
        weight: w.
        gap: the bound on f(p) - min f.
    """

    target: np.ndarray
    min_marginals: np.ndarray
    weight: np.ndarray
    gap: float

    @classmethod
    def of(
        cls, problem: Problem, p: np.ndarray, gradient: np.ndarray, weight: np.ndarray, target: np.ndarray
    ) -> _DualPoint:
        """By one sweep of the max-product there and back."""
        from pgmest.solvers.certificate_kernels import dual_gradient

        dual = np.empty_like(p)
        product, square = dual_gradient(gradient, p, target, weight, dual)
        min_marginals = problem.min_marginals(dual)[problem.measured]
        return cls(target, min_marginals, weight, product - float(min_marginals.min()) + 0.5 * square)


def _raised(problem: Problem, p: np.ndarray, gradient: np.ndarray, point: _DualPoint, enough: float) -> _DualPoint:
    """The targets raised in small cells, until no record lies far below the mean."""
    from pgmest.solvers.certificate_kernels import raise_cells

    weight, mean = point.weight, dot(gradient, p)
    unit = np.divide(1.0, weight, out=np.zeros(len(weight)), where=weight > 0)
    share = RAISED_SHARE * np.sqrt(weight / weight.max()) * unit
    first_gap = point.gap
    for level in np.geomspace(LOWEST_LEVEL, HIGHEST_LEVEL, RAISES):
        target = np.empty_like(weight)
        raise_cells(point.target, point.min_marginals, mean, share, unit, float(level) * first_gap, target)
        point = _DualPoint.of(problem, p, gradient, weight, target)
        if point.gap <= enough:
            break
    return point


def _ascended(
    problem: Problem, p: np.ndarray, gradient: np.ndarray, point: _DualPoint, enough: float, aim: float
) -> _DualPoint:
    """Improved by block ascent, a group of cliques at a time."""
    cliques = len(problem.loss.cliques)
    groups = min(CLIQUE_GROUPS, cliques)
    steps = [min(1.0, 2.0 * groups / cliques)] * groups
    offsets, group, before = problem.loss.layout.offsets, 0, point.gap
    move = _block_move(point, offsets, group, groups)
    for update in range(MAX_UPDATES):
        moved = _DualPoint.of(problem, p, gradient, point.weight, point.target + steps[group] * move)
        improved = moved.gap < point.gap
        if improved:
            point = moved
        steps[group] = min(1.0, UPDATE_GROWTH * steps[group]) if improved else 0.5 * steps[group]
        if point.gap <= enough or (update == MAX_UPDATES // 2 and _hopeless(point.gap, aim, 2)):
            break
        if improved or steps[group] < SHORTEST_UPDATE:
            group = (group + 1) % groups
            if group == 0:
                if point.gap > STALLED * before:
                    break
                before = point.gap
            move = _block_move(point, offsets, group, groups)
    return point


def _block_move(point: _DualPoint, offsets: np.ndarray, group: int, groups: int) -> np.ndarray:
    """From the targets to the best ones on each clique of a group alone, zero on the others."""
    from pgmest.solvers.certificate_kernels import best_blocks

    move = np.zeros(len(point.target))
    best_blocks(group, groups, offsets, point.min_marginals, point.target, point.weight, move)
    return move
