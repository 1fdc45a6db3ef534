r"""FactsOracle: the MARGINAL-ORACLE of the distributions that meet facts, from an oracle of all distributions.

Let A(theta) be the log-partition function. Among the distributions with <a_r, p> = b_r for every row r, the one that
maximizes <theta, p> plus the entropy has the potentials theta - A^T nu, where the multipliers nu minimize the convex

.. math:: \Phi(\nu) = A(\theta - A^T \nu) + \langle \nu, b \rangle, \quad \nabla \Phi = b - A p.

So p is the gradient of the convex function min Phi, as marginals are the gradient of A. Every solver that uses
potentials, marginals and a log-partition function therefore solves the problem with the facts when it is given this
oracle, with its guarantees: the entropy is that of the distributions that meet the facts.

The multipliers are found by limited-memory BFGS with a diagonal preconditioner, which keeps its pairs and starts from
the multipliers of the run before, as the potentials of consecutive runs are close. If that takes long, Newton steps by
conjugate gradients follow, with products of the covariance from differences of marginals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgmest.inference.outputs import checked_output
from pgmest.losses.base import dot
from pgmest.solvers.facts import Facts, Partition
from pgmest.solvers.inverse_hessian import SUFFICIENT_DECREASE, InverseHessian
from pgmest.tables.clique_vector import Layout

if TYPE_CHECKING:
    from pgmest.solvers.problem import SolverOracle

TOLERANCE, LAST_TOLERANCE = 5e-10, 1e-11
"""The largest |b - A p| at which a run ends, for marginals that sum to one; the latter for the result."""

REACHED, ROUNDING = 1.5, 1e-6
"""If the first run reaches only a violation of at most ROUNDING, later ones end within the factor REACHED of it: facts
that contradict each other by a rounding error, as those in single precision, allow for no less."""

RECENT = 3
SHORT_MOVE, LONGEST_MOVE, MOST_PIECES = 0.5, 4.0, 100
"""A run starts from the nearest of the RECENT last ones. If no potential differs by more than SHORT_MOVE nats, or all
rows count cells, it starts from the same multipliers; otherwise from predicted ones, in at most MOST_PIECES pieces in
which the potentials that remain differ by at most LONGEST_MOVE nats."""

SIMILAR = 0.5
"""The squared cosine of two moves of the potentials above which multipliers are extrapolated along them."""

HELD = 1e-9
"""The violation of a fact, as a share of the total, up to which it counts as met."""

MEMORY = 12
QUASI_NEWTON_STEPS = 60
NEWTON_STEPS = 60
"""The pairs and steps of limited-memory BFGS, and the Newton steps after them."""

LONGEST_STEP = 4.0
SHORTEST_STEP = 1e-6
"""The largest change of a multiplier in one step, and the size below which a line search fails."""

FLAT = 1e-13
"""Values of Phi that differ by less than this share are equal up to rounding."""

RESCALING_ROUNDS, PATIENCE, RESCALED = 30, 4, 0.7
NEARBY = 5e-2
"""Tables are rescaled in turn for at most RESCALING_ROUNDS rounds, until the gradient is below NEARBY or, from round
PATIENCE on, falls by less than the factor RESCALED in a round. One table alone is met exactly."""

SMALLEST = 1e-250
"""The largest mass that counts as underflowed."""

LEAST_MASS = 1e-13
"""The smallest mass of a row, or of the rest of a table, when it is rescaled."""

DIFFERENCE = 1e-6
"""The largest change of a potential over which derivatives of marginals are differences."""

CONJUGATE_STEPS = 200
CONJUGATE_TOLERANCE = 1e-3
"""The most steps of conjugate gradients, and the residual at which they end as a share of the right side."""

SETTLED_SHARE = 1e-4
"""The share of the right side to which multipliers for certificates are solved."""


@dataclass(frozen=True)
class _Point:
    """Phi at multipliers nu.

    Attributes:
        start: the potentials theta.
        multipliers: nu.
        theta, p, log_partition: the potentials theta - A^T nu, their marginals and their log-partition function.
        value, slope: Phi and its gradient.
    """

    start: np.ndarray
    multipliers: np.ndarray
    theta: np.ndarray
    p: np.ndarray
    log_partition: float
    value: float
    slope: np.ndarray

    @property
    def distance(self) -> float:
        """The largest entry of the gradient."""
        return float(np.abs(self.slope).max(initial=0.0))


class FactsOracle:
    """A `SolverOracle` of the distributions that meet facts.

    Args:
        inner: the oracle of all distributions.
        facts: the facts about marginals that sum to one.

    Attributes:
        layout: the cliques.
        violation: the largest violation by the last run of a fact whose largest coefficient is 1, as a share of the
            total.
    """

    def __init__(self, inner: SolverOracle, facts: Facts):
        self.inner = inner
        self.facts = facts
        self.layout: Layout = inner.layout
        self.violation: float = 0.0
        self._hessian = InverseHessian(MEMORY)
        self._recent: list[_Point] = []
        self._reach = 0.0
        self._tolerance = TOLERANCE

    @property
    def calls(self) -> int:
        """The number of sweeps of the inner oracle so far."""
        return self.inner.calls

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return the marginals that meet the facts, scaled to `total`, and the minimum of Phi.

        Raises:
            ImpossibleModelError: no record has a finite total potential.
        """
        point = self._solved(theta.copy())
        if self._recent and point.distance > max(HELD, self._reach):  # begin again without what was learned
            self._hessian = self._hessian.reset()
            again = self._minimized(self._at(point.start, np.zeros(self.facts.rows)))
            point = again if again.distance < point.distance else point
        self._recent = [point, *self._recent[: RECENT - 1]]
        self.violation = point.distance
        if len(self._recent) == 1 and self._tolerance < point.distance <= ROUNDING:
            self._reach = REACHED * point.distance
        p = checked_output(out, self.layout.cells)
        np.multiply(point.p, total, out=p)
        return p, point.value

    def potentials(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return theta - A^T nu, whose distribution meets the facts, its marginals and its log-partition function."""
        self._tolerance = LAST_TOLERANCE
        self.run(theta)
        self._tolerance = TOLERANCE
        last = self._recent[0]
        return last.theta, last.p, last.log_partition

    def maximum(self, theta: np.ndarray) -> float:
        """Return an upper bound on max <theta, p> over the distributions that meet the facts."""
        multipliers = self.multipliers(np.where(np.isneginf(theta), 0.0, -theta))
        bound = self.inner.maximum(theta - self.facts.transpose(multipliers))
        return bound + dot(multipliers, self.facts.values)

    def max_marginals(self, theta: np.ndarray) -> np.ndarray:
        """Return for each cell the largest total potential of a record in it, whether or not facts allow for it."""
        return self.inner.max_marginals(theta)

    def covariance(self, direction: np.ndarray) -> np.ndarray:
        """Return the derivative of the marginals along `direction` at the potentials of the last run."""
        multipliers = self.multipliers(direction, share=LAST_TOLERANCE)
        self.inner.run(self._recent[0].theta)
        return self.inner.covariance(direction + self.facts.transpose(multipliers))

    def multipliers(self, gradient: np.ndarray, share: float = SETTLED_SHARE) -> np.ndarray:
        """Return the multipliers lambda for which g + A^T lambda varies least at the distribution of the last run.

        At an optimum this sum is constant on all possible records. Any multipliers give a valid bound.

        Args:
            gradient: g, one number per cell.
            share: the residual at which conjugate gradients end, as a share of the right side.
        """
        return self._flattening(self._recent[0], gradient, share) if self._recent else np.zeros(self.facts.rows)

    def _flattening(self, last: _Point, gradient: np.ndarray, share: float) -> np.ndarray:
        """Return the multipliers lambda for which g + A^T lambda varies least at a point."""
        return self._solution(last, -self.facts.answers(self._moved(last, gradient)), share)

    def _solution(self, point: _Point, right: np.ndarray, share: float) -> np.ndarray:
        """Return x with (A Cov A^T) x close to the right side, for the covariance at a point."""

        def product(multipliers: np.ndarray) -> np.ndarray:
            return self.facts.answers(self._moved(point, self.facts.transpose(multipliers)))

        return _conjugate_gradients(product, right, self.facts.variances(point.p), share)

    # -- the minimum of Phi -------------------------------------------------------------------------------------------

    def _at(self, theta: np.ndarray, multipliers: np.ndarray) -> _Point:
        moved = theta - self.facts.transpose(multipliers)
        p, log_partition = self.inner.run(moved)
        slope = self.facts.values - self.facts.answers(p)
        value = log_partition + dot(multipliers, self.facts.values)
        return _Point(theta, multipliers, moved, p, log_partition, value, slope)

    def _solved(self, theta: np.ndarray) -> _Point:
        """Return the minimum of Phi for theta, approached from the nearest of the recent runs.

        From there theta moves by some direction, of which the multipliers absorb what they can, as computed from the
        covariance. The rest is followed in pieces, each short enough for the methods that find the minimum.
        """
        if not self._recent:
            return self._minimized(self._at(theta, np.zeros(self.facts.rows)))
        moves = [_difference(theta, point.start) for point in self._recent]
        lengths = [float(np.abs(move).max(initial=0.0)) for move in moves]
        nearest = int(np.argmin(lengths))
        point, move = self._recent[nearest], moves[nearest]
        if self.facts.counting or lengths[nearest] <= SHORT_MOVE:
            return self._minimized(self._at(theta, point.multipliers + self._extrapolated(nearest, moves[nearest])))
        absorbed = -self._flattening(point, move, SETTLED_SHARE)
        rest = float(np.ptp(move - self.facts.transpose(absorbed)))
        pieces = int(np.clip(np.ceil(rest / LONGEST_MOVE), 1, MOST_PIECES))
        origin = point.start
        for piece in range(1, pieces + 1):
            start = theta if piece == pieces else origin + (piece / pieces) * move
            point = self._minimized(self._at(start, point.multipliers + absorbed / pieces))
        return point

    def _extrapolated(self, nearest: int, move: np.ndarray) -> np.ndarray:
        """Return the change of the multipliers along a move, in proportion to that along a recent move if similar."""
        best, change = SIMILAR, np.zeros(self.facts.rows)
        point = self._recent[nearest]
        for other in self._recent[:nearest] + self._recent[nearest + 1 :]:
            before = _difference(point.start, other.start)
            product, square = dot(move, before), dot(before, before)
            similarity = product * product / (square * dot(move, move)) if square > 0 and product else 0.0
            if similarity > best:
                best, change = similarity, (product / square) * (point.multipliers - other.multipliers)
        return change

    def _minimized(self, point: _Point) -> _Point:
        """Return the minimum of Phi for the theta of a point, starting from its multipliers."""
        theta = point.start
        point = self._rescaled(theta, point)
        steps, aim = 0, max(self._tolerance, self._reach)
        while point.distance > aim and steps < QUASI_NEWTON_STEPS + NEWTON_STEPS:
            following = self._quasi_newton(theta, point) if steps < QUASI_NEWTON_STEPS else self._newton(theta, point)
            steps += 1
            if following is not None:
                point = following
            elif self._hessian and steps < QUASI_NEWTON_STEPS:
                self._hessian = self._hessian.reset()
            elif steps < QUASI_NEWTON_STEPS:
                steps = QUASI_NEWTON_STEPS
            else:
                break
        return point

    def _rescaled(self, theta: np.ndarray, point: _Point) -> _Point:
        """Rescale the tables of facts in turn, as iterative proportional fitting does, as long as that is fast."""
        tables = self.facts.partitions
        alone = len(tables) == 1 and len(tables[0].rows) == self.facts.rows
        for done in range(RESCALING_ROUNDS):
            before = point.distance
            if before <= (LAST_TOLERANCE if alone else NEARBY):
                break
            for table in tables:
                point = self._at(theta, point.multipliers + self._rescaling(point, table))
            if done >= PATIENCE and point.distance > RESCALED * before:
                break
        return point

    def _rescaling(self, point: _Point, table: Partition) -> np.ndarray:
        """Return the change of multipliers that gives the rows of one table, and the rest of it, their values."""
        rows = table.rows
        now = self.facts.answers(point.p)[rows]
        aim = np.maximum(self.facts.values[rows], LEAST_MASS)
        rest = max(1.0 - float(now.sum()), LEAST_MASS) / max(1.0 - float(aim.sum()), LEAST_MASS)
        logs = np.log(np.maximum(now, SMALLEST))
        if (now <= SMALLEST).any():  # mass that has underflowed is about that of the best record
            best = table.largest(self.inner.max_marginals(point.theta)) - point.log_partition
            logs = np.where((now <= SMALLEST) & np.isfinite(best), best, logs)
        move = np.zeros(self.facts.rows)
        move[rows] = logs - np.log(aim) - np.log(rest)
        return move

    def _quasi_newton(self, theta: np.ndarray, point: _Point) -> _Point | None:
        unit = 1.0 / np.maximum(self.facts.variances(point.p), np.finfo(float).tiny ** 0.5)
        following = self._searched(theta, point, self._hessian.descent(point.slope, unit))
        if following is not None:
            step, change = following.multipliers - point.multipliers, following.slope - point.slope
            self._hessian = self._hessian.updated(step, change)
        return following

    def _newton(self, theta: np.ndarray, point: _Point) -> _Point | None:
        return self._searched(theta, point, self._solution(point, -point.slope, CONJUGATE_TOLERANCE))

    def _searched(self, theta: np.ndarray, point: _Point, direction: np.ndarray) -> _Point | None:
        """Return the point of a line search along a direction of descent; None if every step was refused."""
        predicted = dot(direction, point.slope)
        longest = float(np.abs(direction).max(initial=0.0))
        if not np.isfinite(longest) or not predicted < 0.0:
            return None
        size = min(1.0, LONGEST_STEP / longest)
        while size >= SHORTEST_STEP:
            tried = self._at(theta, point.multipliers + size * direction)
            change = tried.value - point.value
            flat = abs(change) <= FLAT * max(1.0, abs(point.value)) and tried.distance < point.distance
            if flat or change <= SUFFICIENT_DECREASE * size * predicted:
                return tried
            size *= 0.4
        return None

    def _moved(self, point: _Point, direction: np.ndarray) -> np.ndarray:
        """Return the derivative of the inner marginals along a direction, as a difference."""
        longest = float(np.abs(direction).max(initial=0.0))
        if longest == 0.0:
            return np.zeros_like(point.p)
        size = DIFFERENCE / longest
        moved, _ = self.inner.run(point.theta + size * direction)
        return (moved - point.p) / size


def _difference(theta: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the change of potentials, 0 in cells that are impossible before or after."""
    finite = np.isfinite(theta) & np.isfinite(before)
    return np.subtract(theta, before, out=np.zeros_like(theta), where=finite)


def _conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], right: np.ndarray, diagonal: np.ndarray, share: float
) -> np.ndarray:
    """Return x with H x close to the right side, for a positive semidefinite H that is given by its product.

    Args:
        product: x to H x.
        right: the right side, in the range of H.
        diagonal: the diagonal of H, which preconditions; where it is 0, x stays 0.
        share: the residual at which the steps end, as a share of the right side.
    """
    unit = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > np.finfo(float).tiny ** 0.5)
    x, residual = np.zeros_like(right), right.copy()
    scaled = unit * residual
    direction, product_now = scaled.copy(), dot(residual, scaled)
    aim = share * share * product_now
    for _ in range(min(CONJUGATE_STEPS, len(right) + 5)):
        if product_now <= aim:
            break
        image = product(direction)
        curvature = dot(direction, image)
        if not curvature > 0.0:
            break
        size = product_now / curvature
        x += size * direction
        residual -= size * image
        scaled = unit * residual
        before, product_now = product_now, dot(residual, scaled)
        direction = scaled + (product_now / before) * direction
    return x
