"""HDMM's measurements of 15 prefix marginals, and what is estimated from them (PGM section 4).

For such a workload its choice (OPT_+) is a product strategy on each triple: on a numeric attribute the p-identity
matrix optimized for prefixes, on others the identity, every column of l1 norm one. The authors' published script splits
the budget equally over the triples, and so do the figures here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from experiments.pgm_icml2019.problem import Problem
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron, as_matrix_query, identity, prefix
from pgmest.strategies import SharedStrategy, demands_of, least_squares_parts, p_identity
from pgmest.strategies.attribute import AttributeStrategy
from pgmest.strategies.least_squares import LeastSquaresModel
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


@functools.cache
def prefix_strategy(n: int) -> np.ndarray:
    """The strategy for all prefixes of n values under Laplace noise, columns of l1 norm one."""
    workload = prefix(n).matrix()
    return p_identity(workload.T @ workload, order=1)


def matrices(problem: Problem, clique: Clique) -> list[np.ndarray | None]:
    """What is asked about each attribute of a triple; None for its values."""
    return [prefix_strategy(problem.domain[name]) if name in problem.numeric else None for name in clique]


def query(problem: Problem, clique: Clique) -> Kron:
    """The product of these."""
    pairs = zip(clique, matrices(problem, clique), strict=True)
    return Kron({name: identity(problem.domain[name]) if one is None else as_matrix_query(one) for name, one in pairs})


def measure(problem: Problem, epsilon: float, seed: int) -> list[LinearMeasurement]:
    """The noisy answers, those of a triple with Laplace noise of scale 2 / epsilon for its equal share."""
    generator, scale = np.random.default_rng(seed), 2.0 * len(problem.workload) / epsilon
    found = []
    for item in problem.workload:
        clique, asked = item.clique, query(problem, item.clique)
        exact = asked.answer(problem.data.project(clique), clique)
        values = exact + generator.laplace(0.0, scale, exact.shape)
        found.append(LinearMeasurement(values, clique, scale * 2**0.5, query=asked, noise="laplace"))
    return found


def local_tables(problem: Problem, measurements: Sequence[LinearMeasurement]) -> list[Factor]:
    """Each triple's table by least squares from its own measurement: the pseudo-inverse of its product."""
    tables = []
    for item, measurement in zip(problem.workload, measurements, strict=True):
        asked = matrices(problem, item.clique)
        sizes = [problem.domain[n] if m is None else len(m) for n, m in zip(item.clique, asked, strict=True)]
        table = measurement.values.reshape(sizes)
        for axis, matrix in enumerate(asked):
            if matrix is not None:
                table = np.moveaxis(np.tensordot(np.linalg.pinv(matrix), table, ([1], [axis])), 0, axis)
        tables.append(Factor(problem.domain.project(item.clique), table))
    return tables


def local_least_squares(problem: Problem, measurements: Sequence[LinearMeasurement]) -> list[np.ndarray]:
    """HDMM+LLS: the workload's answers from these tables."""
    tables = local_tables(problem, measurements)
    return [item.answer(table) for item, table in zip(problem.workload, tables, strict=True)]


def local_fits(problem: Problem, measurements: Sequence[LinearMeasurement]) -> list[np.ndarray]:
    """The measured queries' answers from these tables."""
    tables = local_tables(problem, measurements)
    return [measurement.answer(table) for measurement, table in zip(measurements, tables, strict=True)]


def measured_error(problem: Problem, answers: Sequence[np.ndarray]) -> float:
    """The paper's error on the measured queries instead of the workload's."""
    errors = []
    for item, mine in zip(problem.workload, answers, strict=True):
        true = query(problem, item.clique).answer(problem.data.project(item.clique), item.clique)
        errors.append(np.abs(true - np.reshape(mine, -1)).sum() / (2 * np.abs(true).sum()))
    return float(np.mean(errors))


def global_least_squares(problem: Problem, measurements: Sequence[LinearMeasurement]) -> LeastSquaresModel:
    """HDMM's own estimator, argmin ||Q p - y|| over all vectors p, in closed form and without materializing p.

    The paper could not run it. All triples share one strategy on each attribute, which makes their Gram matrices
    diagonal together (`pgmest.strategies.shared`).
    """
    domain, cliques = problem.domain, [item.clique for item in problem.workload]
    attributes = {
        name: AttributeStrategy(domain[name], matrix)
        for clique in cliques
        for name, matrix in zip(clique, matrices(problem, clique), strict=True)
    }
    equal = dict.fromkeys(cliques, 1.0 / len(cliques))  # what counts is each one's noise
    strategy = SharedStrategy(attributes, tuple(demands_of(domain, problem.workload)), equal)
    return LeastSquaresModel((least_squares_parts(domain, strategy, measurements),))
