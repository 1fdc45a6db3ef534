"""The problem that every solver solves: min over distributions p of f(p) = L(total * marginals of p) (PGM Problem 1).

Solvers work with marginals that sum to one and potentials in flat arrays; counts appear only inside `Problem`. The
cliques are those of the loss, in its order, followed by those that only the base potentials use (a prior, structural
zeros), so the loss reads the leading cells of every array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.losses.base import FlatLoss
from pgmest.solvers.facts import Facts, Terms
from pgmest.solvers.facts_oracle import FactsOracle
from pgmest.tables.clique_vector import CliqueVector, Layout


class SolverOracle(Protocol):
    """The oracle that solvers and certificates need: a MarginalOracle with max-product sweeps and covariances."""

    @property
    def layout(self) -> Layout:
        """The layout of the cliques' cells in all arrays."""
        ...

    @property
    def calls(self) -> int:
        """The number of sweeps so far."""
        ...

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return the marginals scaled to `total`, and the log-partition function A(theta)."""
        ...

    def maximum(self, theta: np.ndarray) -> float:
        """Return the largest total potential of any record."""
        ...

    def max_marginals(self, theta: np.ndarray) -> np.ndarray:
        """Return for each cell the largest total potential of a record in the cell; -inf if no record can be there."""
        ...

    def covariance(self, direction: np.ndarray) -> np.ndarray:
        """Return the derivative of the marginals along `direction` at the potentials of the last run."""
        ...


class Problem:
    """A loss, the number of records, the oracle for their cliques, the base potentials, and facts.

    Attributes:
        loss: the loss as a function of marginals that sum to one.
        total: the number of records.
        oracle: the oracle that turns potentials on `layout` into marginals, which meet the facts.
        plain: the problem without facts, from which certificates are built; the problem itself without facts.
        facts: the facts about marginals that sum to one, or None.
        layout: the cliques of the loss, followed by those that only the base potentials have.
        base: flat potentials of the prior: zeros for the uniform distribution, -inf at structural zeros. Solutions are
            the base plus potentials on the loss's cliques. Therefore, among all optimal distributions, they approach
            the one with the least relative entropy to the prior (the one of maximum entropy without a prior).
        measured: the slice of the loss's cells in flat arrays.

    Args:
        loss: the loss as a function of marginals in counts.
        total, base: as above.
        oracle: an oracle of all distributions.
        facts: the facts, in counts.
    """

    def __init__(
        self,
        loss: FlatLoss,
        total: float,
        oracle: SolverOracle,
        base: np.ndarray,
        facts: Facts | None = None,
    ):
        self._loss_of_counts, self._facts_of_counts = loss, facts
        # Losses divide by the total to skip products with it; the general form serves a table without records.
        self.loss: FlatLoss = loss.of_fractions(float(total)) if total > 0 else FlatLoss.of_fractions(loss, 0.0)
        self.total: float = float(total)
        self.layout: Layout = oracle.layout
        self.base: np.ndarray = base
        self.plain: Problem = self
        self.facts: Facts | None = facts.of_fractions(self.total) if facts is not None and total > 0 else None
        if self.facts is not None:
            self.base = base.copy()
            self.base[self.facts.excluded] = -np.inf
            self.plain = Problem(loss, total, oracle, self.base)
            oracle = FactsOracle(oracle, self.facts)
        self.oracle: SolverOracle = oracle
        self.measured: slice = slice(0, loss.layout.cells)
        self._barrier = np.where(np.isneginf(self.base), -np.inf, 0.0) if np.isneginf(self.base).any() else None

    def with_total(self, total: float) -> Problem:
        """Return the problem for another number of records, with the same oracle."""
        return Problem(self._loss_of_counts, total, self.plain.oracle, self.base, self._facts_of_counts)

    @classmethod
    def of(
        cls,
        terms: Terms | FlatLoss,
        total: float,
        base: Iterable[CliqueVector] = (),
        max_megabytes: float | None = None,
        oracle: Callable[[Layout], SolverOracle] | None = None,
    ) -> Problem:
        """Build the problem and its oracle for the cliques of the loss and of the base potentials.

        Args:
            terms: the loss and the facts, or the loss alone, in counts.
            total: the number of records.
            base: potentials whose sum is the base.
            max_megabytes: the largest size of the junction tree's tables; None for no limit.
            oracle: builds an oracle for a layout, in place of belief propagation on the junction tree. `max_megabytes`
                does not apply to it.

        Raises:
            ModelTooLarge: the tree's tables exceed `max_megabytes`; nothing has been allocated.
        """
        terms = terms if isinstance(terms, Terms) else Terms(terms)
        loss, extra = terms.loss, [*base, *terms.potentials()]
        cliques = [*loss.cliques, *(clique for potentials in extra for clique in potentials.cliques)]
        layout = Layout.of(loss.domain, cliques)
        if oracle is None:
            tree = JunctionTree.from_cliques(loss.domain, layout.cliques, max_megabytes=max_megabytes)
            made: SolverOracle = ExactOracle(PropagationPlan.of(layout, tree))
        else:
            made = oracle(layout)
        flat = np.zeros(layout.cells)
        for potentials in extra:
            flat += potentials.expand(layout.cliques).flat
        return cls(loss, total, made, flat, terms.facts(layout))

    def marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return the marginals of p_theta, summing to one, and the log-partition function, by one oracle call."""
        return self.oracle.run(theta, 1.0, out)

    def loss_and_gradient(self, p: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return f(p) and its (sub)gradient at the marginals p, which is zero on cliques that the loss does not read.

        With `out`, its cells outside of the loss's cliques must already be zero: they are not written.
        """
        gradient = np.zeros(self.layout.cells) if out is None else out
        value, _ = self.loss.flat_value_and_gradient(p[self.measured], out=gradient[self.measured])
        return value, gradient

    def curvature_along(self, direction: np.ndarray) -> float | None:
        """Return f(p + d) - f(p) - <gradient, d> for a quadratic loss, to full precision; None for other losses."""
        return self.loss.quadratic(direction[self.measured])

    @property
    def lipschitz(self) -> float | None:
        """The L with f(q) <= f(p) + <gradient(p), q - p> + L/2 ||q - p||_1^2 for joint tables that sum to one, or None.

        The entropy is 1-strongly convex in the l1 norm, so mirror descent with the step size 1 / L never overshoots.
        """
        return self.loss.lipschitz

    def linear_minimum(self, gradient: np.ndarray) -> float:
        """Return min over p of <gradient, p>, which is the least sum of gradient_C(x_C) over all possible records x.

        With facts it is a lower bound on the minimum over the distributions that meet them.
        """
        return -self.oracle.maximum(self.with_structural_zeros(-gradient))

    def min_marginals(self, gradient: np.ndarray) -> np.ndarray:
        """Return for each cell the least sum of gradient_C(x_C) over the possible records in it; inf without any."""
        found = self.oracle.max_marginals(self.with_structural_zeros(-gradient))
        return np.negative(found, out=found)

    @property
    def violation(self) -> float:
        """The largest violation of a fact at the last marginals, as a share of the total."""
        return self.oracle.violation if isinstance(self.oracle, FactsOracle) else 0.0

    def with_structural_zeros(self, theta: np.ndarray) -> np.ndarray:
        """Return `theta` with -inf at the structural zeros."""
        return theta if self._barrier is None else theta + self._barrier
