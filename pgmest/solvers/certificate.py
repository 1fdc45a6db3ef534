r"""The duality gap: an upper bound on the distance of a loss from its optimum, by max-product sweeps on the same plan.

For convex f, any distribution q satisfies f(q) >= f(p) + <g, q - p> with g the gradient at p, and the least value of
<g, q> over all distributions is attained at a single record. So

    gap = <g, p> - min_x sum_C g_C(x_C)  >=  f(p) - min f,

which takes one max-product sweep (the Frank-Wolfe gap). This bound is valid but loose: a single record out of 10^17
whose gradient has not converged determines the gap, although it has almost no mass. If f also curves by at least w in
each measured cell, every vector m gives a bound, where m are the target marginals of a dual point:

    f(q) >= f(p) + <g + w (m - p), q - p> - 1/2 sum w (m - p)^2,

because w t^2 / 2 >= w t s - w s^2 / 2 for all s and t. Any m gives a valid bound, so a heuristic may choose m. For a
quadratic loss this is the whole dual problem: the gap is smallest if m is the optimal marginal. `duality_gap` maximizes
the bound over m in two stages, which complement each other:

1. Small cells are raised, all at once and in rounds: each by a share of the slack of its min-marginal, which is the
   mean <g, p> minus the least sum of any record through the cell, up to a level that grows from round to round. The
   penalty 1/2 w (m - p)^2 is quadratic in m, so it is cheaper to raise many cells a little than a few by much.
2. Block ascent: on one clique, with m fixed on all others, the best m is a projection onto a simplex, given the
   min-marginals. Groups of cliques move together, by the longest step that improves the bound. The bound never gets
   worse, but at its kinks block ascent can stop before the maximum. Therefore the first stage comes before it.

Together they tighten the gap a hundredfold, at the cost of some tens of oracle calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.facts_oracle import FactsOracle
from pgmest.solvers.problem import Problem

RAISES = 12
RAISED_SHARE = 0.3
LOWEST_LEVEL = 3e-3
HIGHEST_LEVEL = 1e3
"""Small cells are raised in RAISES rounds, by RAISED_SHARE of their slack in the cells of the largest curvature and by
less in others, up to m = level * gap / w with levels that grow from LOWEST_LEVEL to HIGHEST_LEVEL."""

CLIQUE_GROUPS = 6
MAX_UPDATES = 48
SHORTEST_UPDATE = 1e-3
UPDATE_GROWTH = 1.5
STALLED = 0.98
"""Block ascent makes at most MAX_UPDATES evaluations, each for one of CLIQUE_GROUPS groups of cliques in turn. An
improving step grows by UPDATE_GROWTH; a group is left when its step is below SHORTEST_UPDATE. The ascent ends after a
round over all groups that leaves the gap above STALLED times the gap before it."""

NEGLIGIBLE_GAP = 1e-3
"""The gap, in noise floors, at which answers are within 3 % of a standard deviation of the optimal ones (see
`Minimization`). It is the default tolerance."""

OUT_OF_REACH = (3000.0, 20.0, 3.0)
"""A stage is skipped if the gap exceeds the aim by this factor: before raising, before the block ascent, and halfway
through the ascent. The aim is the sufficient gap, or NEGLIGIBLE_GAP noise floors if they are larger."""

SHARES, WITHIN_REACH = (1e-4, 1e-9), 100.0
"""The residuals to which multipliers of facts are solved, as shares of the right side. The second is for gaps of at
most WITHIN_REACH times the sufficient one, which less exact multipliers may cause."""


def lower_bound(
    problem: Problem, p: np.ndarray, sufficient_gap: float = 0.0, target: np.ndarray | None = None
) -> float:
    """Return a proven lower bound on min f, over the distributions that meet the problem's facts.

    For q that meets the facts, f(q) = f(q) + <u, A q - b> for any multipliers u; the minimum of the right side is
    bounded by its gap at p.

    Args:
        problem: the problem min f.
        p: marginals of a distribution, summing to one.
        sufficient_gap: the bound is not tightened above f(p) minus this value.
        target: target marginals to start from, as for `duality_gap`.
    """
    loss, gradient = problem.loss_and_gradient(p)
    if problem.facts is None:
        return loss - duality_gap(problem, p, gradient, sufficient_gap, target)
    assert isinstance(problem.oracle, FactsOracle)
    facts, best = problem.facts, np.inf
    for share in SHARES:
        u = problem.oracle.multipliers(gradient, share)
        gap = duality_gap(problem.plain, p, gradient + facts.transpose(u), sufficient_gap, target)
        best = min(best, gap - dot(u, facts.answers(p) - facts.values))
        if best <= sufficient_gap or best > WITHIN_REACH * sufficient_gap:
            break
    return loss - best


def duality_gap(
    problem: Problem,
    p: np.ndarray,
    gradient: np.ndarray,
    sufficient_gap: float = 0.0,
    target: np.ndarray | None = None,
) -> float:
    """Return an upper bound on f(p) - min f over all distributions, in the units of the loss.

    Args:
        problem: the problem min f, without facts.
        p: marginals of a distribution, summing to one.
        gradient: the gradient at p, as `problem.loss_and_gradient` returns it.
        sufficient_gap: the bound is not tightened below this value, nor if this value is out of reach.
        target: target marginals m of the measured cells to start from; by default those of p. Targets that belong to
            multipliers are good ones, so both stages are tried however large the gap is.
    """
    plain = dot(gradient, p) - problem.linear_minimum(gradient)
    weight = np.ascontiguousarray(problem.loss.curvature_floor())
    aim = max(sufficient_gap, NEGLIGIBLE_GAP * problem.loss.noise_floor)
    far = target is None and _out_of_reach(plain, aim, 0)
    if plain <= sufficient_gap or far or not np.any(weight > 0):
        return max(plain, 0.0)
    start = _DualPoint.of(problem, p, gradient, weight, p[problem.measured] if target is None else target)
    plain = min(plain, start.gap)
    raised = _raised(problem, p, gradient, start, sufficient_gap)
    best = min(plain, raised.gap)
    if best > sufficient_gap and (target is not None or not _out_of_reach(raised.gap, aim, 1)):
        best = min(best, _ascended(problem, p, gradient, raised, sufficient_gap, aim).gap)
    return max(best, 0.0)


def _out_of_reach(gap: float, aim: float, stage: int) -> bool:
    """Return whether the gap is too far above the aim for this stage to be worth its oracle calls."""
    return gap > OUT_OF_REACH[stage] * aim > 0


@dataclass(frozen=True)
class _DualPoint:
    """The gradient g + w (m - p) at target marginals m, and its bound. Arrays have one entry per measured cell.

    Attributes:
        target: m.
        min_marginals: the least sum of any record through the cell; inf if no such record is possible.
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
        """Evaluate the bound at `target`, by one upward and one downward max-product sweep."""
        from pgmest.solvers.certificate_kernels import dual_gradient

        dual = np.empty_like(p)
        product, square = dual_gradient(gradient, p, target, weight, dual)
        min_marginals = problem.min_marginals(dual)[problem.measured]
        return cls(target, min_marginals, weight, product - float(min_marginals.min()) + 0.5 * square)


def _raised(
    problem: Problem, p: np.ndarray, gradient: np.ndarray, point: _DualPoint, sufficient_gap: float
) -> _DualPoint:
    """Raise the target marginals of small cells in rounds (stage 1)."""
    from pgmest.solvers.certificate_kernels import raise_cells

    weight, mean = point.weight, dot(gradient, p)
    unit = np.divide(1.0, weight, out=np.zeros(len(weight)), where=weight > 0)
    # Closing the whole slack costs a penalty of slack^2 / (2 w), more where f curves less: the square root limits that.
    share = RAISED_SHARE * np.sqrt(weight / weight.max()) * unit
    first_gap = point.gap
    for level in np.geomspace(LOWEST_LEVEL, HIGHEST_LEVEL, RAISES):
        target = np.empty_like(weight)
        raise_cells(point.target, point.min_marginals, mean, share, unit, float(level) * first_gap, target)
        point = _DualPoint.of(problem, p, gradient, weight, target)
        if point.gap <= sufficient_gap:
            break
    return point


def _ascended(
    problem: Problem, p: np.ndarray, gradient: np.ndarray, point: _DualPoint, sufficient_gap: float, aim: float
) -> _DualPoint:
    """Improve the bound by block ascent, one group of cliques at a time (stage 2)."""
    cliques = len(problem.loss.cliques)
    groups = min(CLIQUE_GROUPS, cliques)
    # Cliques of a group that overlap correct the same error; shorter first steps keep their sum from overshooting.
    steps = [min(1.0, 2.0 * groups / cliques)] * groups
    offsets, group, before = problem.loss.layout.offsets, 0, point.gap
    move = _block_move(point, offsets, group, groups)
    for update in range(MAX_UPDATES):
        moved = _DualPoint.of(problem, p, gradient, point.weight, point.target + steps[group] * move)
        improved = moved.gap < point.gap
        if improved:
            point = moved
        steps[group] = min(1.0, UPDATE_GROWTH * steps[group]) if improved else 0.5 * steps[group]
        if point.gap <= sufficient_gap or (update == MAX_UPDATES // 2 and _out_of_reach(point.gap, aim, 2)):
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
    """Return the move from the targets to the best ones on each clique of a group alone; zero on other cliques."""
    from pgmest.solvers.certificate_kernels import best_blocks

    move = np.zeros(len(point.target))
    best_blocks(group, groups, offsets, point.min_marginals, point.target, point.weight, move)
    return move
