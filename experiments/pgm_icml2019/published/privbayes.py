"""PrivBayes as PGM section 4 describes it: half of the budget for the network, half for its marginals.

The network and the noisy marginals are those of `pgmest.mechanisms.PrivBayes` with `structure_share=0.5`. The paper
compares two uses of them. As published: negative counts are set to zero, conditional distributions normalized,
and as many records as there are drawn attribute by attribute, from which queries are answered. With PGM: the graphical
model of the same measurements, which answers queries itself.
"""

from __future__ import annotations

import pgmest as pg
from experiments.pgm_icml2019.problem import Problem
from pgmest.data.dataset import Dataset
from pgmest.mechanisms.result import Result
from pgmest.privacy import Replace


def measure(problem: Problem, epsilon: float, seed: int) -> Result:
    """The network and its noisy marginals; Laplace noise, one replaced record."""
    mechanism = pg.mechanisms.PrivBayes(
        epsilon=epsilon, delta=0, structure_share=0.5, estimator="original", neighbors=Replace(), backend="simulation"
    )
    return mechanism.fit(problem.data, seed=seed, progress=False)


def sampled(problem: Problem, result: Result, seed: int) -> Dataset:
    """As published: records drawn from the Bayesian network."""
    return result.sample(problem.data.records, seed=seed)


def graphical_model(problem: Problem, result: Result, tolerance: float = 1e-3, max_iterations: int = 1000) -> pg.Model:
    """With PGM: the L2 estimate of the same measurements."""
    return pg.estimate(
        result.measurements, problem.domain, total=problem.data.records, tolerance=tolerance,
        max_iterations=max_iterations,
    )  # fmt: skip
