"""Algorithm 1 of PGM with the line search of the authors' code, on squared loss.

A step of size a is taken when the loss falls by at least half of its linear prediction; otherwise a is halved. Before
the first iteration, where a is 1 / m in units of counts, it is doubled until the loss falls by less, and that last step
is taken; after every hundred iterations it is multiplied by ten. The noise of every measurement is called 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.pgm_icml2019.published.algorithm2 import Note, Tables
from pgmest.losses import L2Loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.problem import Problem
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain

EVERY, LONGER = 100, 10.0


class _Search:
    """The state: potentials, marginals in counts, the loss and its gradient there."""

    def __init__(self, problem: Problem, loss: L2Loss):
        self.problem, self.loss = problem, loss
        self.at(np.zeros(problem.layout.cells))

    def at(self, theta: np.ndarray) -> None:
        self.theta = theta
        self.mu = self.problem.total * self.problem.marginals(theta)[0]
        self.value, self.gradient = self.loss.flat_value_and_gradient(self.mu)

    def stepped(self, size: float) -> tuple[_Search, bool]:
        """The state after a step, and whether the loss falls enough."""
        other = _Search.__new__(_Search)
        other.problem, other.loss = self.problem, self.loss
        other.at(self.theta - size * self.gradient)
        return other, bool(other.value <= self.value + 0.5 * self.gradient @ (other.mu - self.mu))


def algorithm_1(
    measurements: Sequence[LinearMeasurement], domain: Domain, total: float, iterations: int, note: Note | None = None
) -> Tables:
    """Return the marginals of the measured cliques; `note` is called with mu twice, for there is no average."""
    ones = [LinearMeasurement(one.values, one.clique, 1.0, query=one.query) for one in measurements]
    loss = L2Loss(ones, domain)
    state, size = _Search(Problem.of(loss, total), loss), 1.0 / total
    longer, enough = state.stepped(size)
    if longer.value < state.value:
        while enough:
            size *= 2
            longer, enough = state.stepped(size)
        state = longer
    for t in range(1, iterations + 1):
        after, enough = state.stepped(size)
        while not enough:
            size /= 2
            after, enough = state.stepped(size)
        state = after
        if t % EVERY == 0:
            size *= LONGER
        if note is not None:
            tables = CliqueVector.of(loss.layout, state.mu)
            note(t, tables, tables)
    return Tables(CliqueVector.of(loss.layout, state.mu))
