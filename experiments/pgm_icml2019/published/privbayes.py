"""PrivBayes as PGM section 4 describes it: half of the budget for the network, half for its marginals.

The network and the noisy marginals are those of `pgmest.mechanisms.PrivBayes` with `structure_share=0.5`. The paper
compares two uses of them. As published: negative counts are set to zero, conditional distributions normalized,
and as many records as there are drawn attribute by attribute, from which queries are answered. With PGM: the graphical
model of the same measurements, which answers queries itself. The authors' script measures anew for PGM, with more.
"""

from __future__ import annotations

import numpy as np

import pgmest as pg
from experiments.pgm_icml2019.problem import Problem
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
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


def measured_with_the_whole_budget(problem: Problem, result: Result, seed: int) -> list[LinearMeasurement]:
    """What the authors' script gives PGM in place of the mechanism's own measurements: its marginals measured anew.

    It does so with the whole epsilon, of which the network has had a half already: noise of half the scale, and one and
    a half times the budget in all.
    """
    generator = np.random.default_rng((seed, 1))
    found = []
    for taken in result.measurements:
        exact = problem.data.project(taken.clique).values.reshape(-1)
        stddev = float(np.max(taken.stddev)) / 2
        values = exact + generator.laplace(0.0, stddev / 2**0.5, exact.shape)
        found.append(LinearMeasurement(values, taken.clique, stddev, noise="laplace"))
    return found
