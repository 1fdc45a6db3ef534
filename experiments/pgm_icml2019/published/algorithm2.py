"""Algorithm 2 of PGM to the letter: the paper's K, a number of iterations, and the average mu as the result.

`pgmest.solvers.DualAveraging` takes the same steps, by default with a smaller K, stops at a proven gap, and returns the
last nu, whose potentials it has. The authors' code returns mu, as the paper does, with K the largest eigenvalue of
Q^T Q over the tables of the junction tree's cliques, 10,000 iterations in its scripts, and every measurement's noise
called 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import pgmest as pg
from pgmest.graph.junction_tree import JunctionTree
from pgmest.losses import L2Loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.problem import Problem
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

ITERATIONS = 10_000
"""The paper's."""
POWER_ITERATIONS = 60
Note = Callable[[int, CliqueVector, CliqueVector], None]
"""Called after each iteration with its number, mu and nu, in counts."""


@dataclass(frozen=True)
class Tables:
    """Marginals of measured cliques, and of what is inside one, in counts."""

    marginals: CliqueVector

    def project(self, attributes: Clique) -> Factor:
        """A marginal.

        Raises:
            KeyError: no measured clique has all of the attributes.
        """
        for clique in self.marginals.cliques:
            if set(attributes) <= set(clique):
                return self.marginals[clique].project(attributes)
        raise KeyError(attributes)


def algorithm_2(
    measurements: Sequence[LinearMeasurement],
    domain: Domain,
    total: float,
    iterations: int = ITERATIONS,
    constant: float | None = None,
    note: Note | None = None,
) -> Tables:
    """Return the marginals mu of the measured cliques.

    Args:
        measurements, domain, total: as those of `pgmest.estimate`.
        iterations: T.
        constant: K, for a loss of marginals that sum to one; by default the paper's, `largest_eigenvalue`.
        note: called on the way.
    """
    problem = Problem.of(L2Loss(measurements, domain), total)
    return Tables(_averaged(problem, constant or largest_eigenvalue(measurements, domain, total), iterations, note))


def graphical_model(
    measurements: Sequence[LinearMeasurement], domain: Domain, total: float, iterations: int = ITERATIONS
) -> pg.Model:
    """Return the graphical model with the marginals mu, for questions about other cliques than those measured."""
    tree = JunctionTree.from_cliques(domain, [measurement.clique for measurement in measurements])
    parts = {clique: domain.project(clique) for clique in tree.cliques}
    zeros = CliqueVector(domain, {clique: Factor(part, np.zeros(part.shape)) for clique, part in parts.items()})
    problem = Problem.of(L2Loss(measurements, domain), total, base=[zeros])
    return with_marginals(
        _averaged(problem, largest_eigenvalue(measurements, domain, total), iterations, None), tree, total
    )


def _averaged(problem: Problem, k: float, iterations: int, note: Note | None) -> CliqueVector:
    """The iterations; mu in counts."""
    nu = problem.marginals(np.zeros(problem.layout.cells))[0].copy()
    mu, mean = nu.copy(), np.zeros_like(nu)
    for t in range(1, iterations + 1):
        c = 2.0 / (t + 1)
        omega = (1 - c) * mu + c * nu
        mean *= 1 - c
        mean += c * problem.loss_and_gradient(omega)[1]
        nu = problem.marginals(-t * (t + 1) / (4 * k) * mean)[0]
        mu *= 1 - c
        mu += c * nu
        if note is not None:
            note(t, *(CliqueVector.of(problem.layout, problem.total * flat) for flat in (mu, nu)))
    return CliqueVector.of(problem.layout, problem.total * mu)


def with_marginals(marginals: CliqueVector, tree: JunctionTree, total: float) -> pg.Model:
    """Return the distribution of maximum entropy with these marginals of the tree's cliques, in counts."""
    potentials = {}
    children = {child: separator for (_, child), separator in zip(tree.edges, tree.separators, strict=True)}
    for place, clique in enumerate(tree.cliques):
        table = marginals[clique]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(table.values)
            if place in children:
                part = table.project(children[place])
                logs = logs - Factor(part.domain, np.log(part.values)).expand(table.domain).values
        potentials[clique] = Factor(table.domain, np.where(table.values > 0, logs, -np.inf))
    return pg.Model(CliqueVector(marginals.domain, potentials), total)


def largest_eigenvalue(measurements: Sequence[LinearMeasurement], domain: Domain, total: float) -> float:
    """K: the largest eigenvalue of Q^T Q over the junction tree's tables (PGM 3.2), for a loss of fractions.

    As in the authors' published code each measurement is about one clique of the tree, so that the matrix has a block
    for each; the constant is that of the block with the largest, found by power iteration.
    """
    tree = JunctionTree.from_cliques(domain, [measurement.clique for measurement in measurements])
    groups: dict[int, list[LinearMeasurement]] = {}
    for measurement in measurements:
        place = tree.containing(measurement.clique)
        assert place is not None
        groups.setdefault(place, []).append(measurement)
    return float(total) ** 2 * max(_eigenvalue(domain, tree.cliques[place], group) for place, group in groups.items())


def _eigenvalue(domain: Domain, clique: Clique, group: Sequence[LinearMeasurement]) -> float:
    whole = domain.project(clique)
    vector, value = Factor(whole, np.random.default_rng(0).random(whole.shape)), 0.0
    for _ in range(POWER_ITERATIONS):
        vector = vector * (1.0 / np.linalg.norm(vector.values))
        total = Factor(whole, np.zeros(whole.shape))
        for measurement in group:
            part = domain.project(measurement.clique)
            answers = measurement.answer(vector.project(measurement.clique)) / np.square(measurement.stddev)
            total = total + Factor(part, measurement.transpose_cells(answers).reshape(part.shape)).expand(whole)
        value, vector = float(np.sum(vector.values * total.values)), total
    return value
