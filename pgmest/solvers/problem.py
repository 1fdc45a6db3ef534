"""The problem every solver solves: min over distributions p of f(p) = L(total * marginals of p)  (PGM Problem 1).

Solvers work with marginals that sum to one and potentials in flat arrays; counts appear only inside `Problem`. The
plan's cliques are those of the loss, in its order, followed by any that only the starting potentials use (a prior,
structural zeros), so the loss reads a leading stretch of every array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.plan import Plan
from pgmest.losses.base import FlatLoss
from pgmest.tables.clique_vector import CliqueVector, Layout


class SolverOracle(Protocol):
    """What solvers and certificates ask of a model: a MarginalOracle, and two things besides."""

    @property
    def layout(self) -> Layout:
        """Where the cells of each clique lie in all arrays."""
        ...

    @property
    def calls(self) -> int:
        """How many sweeps have run so far."""
        ...

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """The marginals scaled to `total`, and the log-partition function A(theta)."""
        ...

    def maximum(self, theta: np.ndarray) -> float:
        """The largest total potential of any record."""
        ...

    def max_marginals(self, theta: np.ndarray) -> np.ndarray:
        """For each cell the largest total potential of a record that falls into it, -inf where none can."""
        ...

    def covariance(self, direction: np.ndarray) -> np.ndarray:
        """The derivative of the marginals along `direction` at the potentials of the last run."""
        ...


class Problem:
    """A loss, the number of records, the oracle for the cliques involved, and the potentials it all starts from.

    Attributes:
        loss: of marginals that sum to one, made from one of counts.
        total: number of records, counts.
        oracle: marginals of potentials on `layout`.
        layout: the loss's cliques first, then those of the base potentials alone.
        base: flat potentials of the distribution with the smallest relative entropy to itself, the prior; zeros for
            the uniform distribution; -inf at structural zeros. Solutions are base plus a combination of the loss's
            cliques, so among all optimal distributions they approach the one closest to the prior (without one: that
            of maximum entropy).
    """

    def __init__(self, loss: FlatLoss, total: float, oracle: SolverOracle, base: np.ndarray):
        self._loss_of_counts = loss
        self.loss: FlatLoss = loss.of_fractions(float(total))
        self.total: float = float(total)
        self.oracle = oracle
        self.layout: Layout = oracle.layout
        self.base = base
        self.measured: slice = slice(0, loss.layout.cells)
        self._barrier = np.where(np.isneginf(base), -np.inf, 0.0) if np.isneginf(base).any() else None

    def with_total(self, total: float) -> Problem:
        """The same problem for another number of records; the oracle is shared."""
        return Problem(self._loss_of_counts, total, self.oracle, self.base)

    @classmethod
    def of(
        cls,
        loss: FlatLoss,
        total: float,
        base: Iterable[CliqueVector] = (),
        max_megabytes: float | None = None,
        oracle: Callable[[Layout], SolverOracle] | None = None,
    ) -> Problem:
        """Build the oracle for the loss's cliques and those of the base potentials.

        `oracle` makes another one than belief propagation on the junction tree; then nothing limits its memory.

        Raises:
            ModelTooLarge: the tree's tables exceed `max_megabytes`; nothing has been allocated.
        """
        extra = list(base)
        cliques = [*loss.cliques, *(clique for potentials in extra for clique in potentials.cliques)]
        layout = Layout.of(loss.domain, cliques)
        if oracle is None:
            tree = JunctionTree.from_cliques(loss.domain, layout.cliques, max_megabytes=max_megabytes)
            made: SolverOracle = ExactOracle(Plan.of(layout, tree))
        else:
            made = oracle(layout)
        flat = np.zeros(layout.cells)
        for potentials in extra:
            flat += potentials.expand(layout.cliques).flat
        return cls(loss, total, made, flat)

    def marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """The marginals of p_theta, summing to one, and the log-partition function: one oracle call."""
        return self.oracle.run(theta, 1.0, out)

    def loss_and_gradient(self, p: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """f(p) and its (sub)gradient with respect to the marginals p, zero on cliques the loss does not read."""
        gradient = np.zeros(self.layout.cells) if out is None else out
        value, _ = self.loss.flat_value_and_gradient(p[self.measured], out=gradient[self.measured])
        return value, gradient

    def curvature_along(self, direction: np.ndarray) -> float | None:
        """f(p + d) - f(p) - <gradient, d> for a quadratic loss, to full precision; None for another."""
        return self.loss.quadratic(direction[self.measured])

    @property
    def lipschitz(self) -> float | None:
        """L with f(q) <= f(p) + <gradient(p), q - p> + L/2 ||q - p||_1^2, joint tables summing to one.

        The entropy is 1-strongly convex in that norm, so 1 / L is a safe step of mirror descent.
        """
        return self.loss.lipschitz

    def linear_minimum(self, gradient: np.ndarray) -> float:
        """min over p of <gradient, p>, attained at a single record: its least possible sum of gradient_C(x_C)."""
        return -self.oracle.maximum(self.barred(-gradient))

    def min_marginals(self, gradient: np.ndarray) -> np.ndarray:
        """For each cell, the same minimum over the possible records that fall into it (inf where none can)."""
        found = self.oracle.max_marginals(self.barred(-gradient))
        return np.negative(found, out=found)

    def barred(self, theta: np.ndarray) -> np.ndarray:
        """`theta` with -inf at the structural zeros."""
        return theta if self._barrier is None else theta + self._barrier
