r"""The strength of dependence beyond a model, learned from the cliques that were measured.

Each measured clique in turn is left out, except for its one-way marginals, and a model is estimated from the others.
The answers that were left out are those of a table

.. math:: \mu(x) = \hat\mu(x) \, e^{s z(x)} / c , \qquad z \sim t_4 ,

around that model's table, with the sampling error of counts and the noise. This gives a likelihood of the strength s. A
part of z is a trend, in proportion to the codes of both attributes. It adds up over cells, as in a correlation or a
coefficient; the correlations that were left out give its share.

The strengths of all cliques come from one log-normal distribution, whose mean and spread are integrated over a grid. So
a clique that is hidden by noise borrows from the others, and an unmeasured pair of attributes has a distribution of
strengths, too. Its tail is as heavy as n cliques allow: a probability of 1 / (n + 1) is beyond the strongest clique.
Adaptive mechanisms measure the marginals that a model gets most wrong, so that the distribution is of strong ones:
intervals made from it are wide rather than narrow.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from pgmest._base.progress import announce, progress
from pgmest.losses import make_loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.posterior.student_cells import DEGREES
from pgmest.models.refittable import MakeModel
from pgmest.queries import Kron
from pgmest.queries.matrices import Grouping, Identity
from pgmest.solvers.problem import Problem
from pgmest.solvers.refit import Refit
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

GRID = np.geomspace(0.02, 4.0, 48)
"""The grid of strengths, in nats."""
TRENDS = np.array([0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
"""The grid of the trend's share in the squares of interactions. Ordered attributes have a large share."""
NODES = 41
"""The number of quantiles of Student's t over which a cell's likelihood is averaged."""

CENTER, SPREADS = (math.log(0.5), 1.5), np.array([0.15, 0.3, 0.5, 0.75, 1.0, 1.4])
"""The prior of strengths: the log of the typical strength is normal with this mean and standard deviation. The standard
deviation of the logs of strengths is one of SPREADS, weighted by half a normal distribution of scale one half."""

MOST_REFITS = 60
"""The largest number of cliques that are left out in turn; the others get the predictive distribution."""
LOOSE, MOST_ITERATIONS = 1e-2, 500
"""The tolerance and the largest number of iterations of the estimates without a clique."""
FEWEST_CLIQUES = 3
"""With fewer measured cliques of several attributes, unmeasured pairs have no distribution of strengths."""
LEAST_COUNT = 0.1
"""Smaller expected counts are raised to this, in records."""


@dataclass(frozen=True, eq=False)
class Strengths:
    """The posterior of how strongly attributes depend on each other.

    Attributes:
        of: the posterior median strength of each clique of several attributes that was measured as a whole.
        predictive: the probability of each strength of `GRID` for an unmeasured pair.
        evidence: the number of cliques on which this rests.
        trend: the probability of each share of `TRENDS`.
    """

    of: Mapping[Clique, float]
    predictive: np.ndarray
    evidence: int
    trend: np.ndarray

    @property
    def identified(self) -> bool:
        """True if enough cliques were measured to predict others."""
        return self.evidence >= FEWEST_CLIQUES

    def draw(self, generator: np.random.Generator, size: int, part: tuple[float, float] = (0.0, 1.0)) -> np.ndarray:
        """Draw strengths of unmeasured pairs from between two quantiles of their distribution."""
        levels = generator.uniform(*part, size)
        drawn = np.minimum(np.searchsorted(np.cumsum(self.predictive), levels), len(GRID) - 1)
        half = 0.5 * math.log(GRID[1] / GRID[0])
        return GRID[drawn] * np.exp(generator.uniform(-half, half, size))

    def interactions(
        self,
        generator: np.random.Generator,
        expected: np.ndarray,
        domain: Domain,
        pair: Clique,
        part: tuple[float, float] = (0.0, 1.0),
    ) -> np.ndarray:
        """Draw interactions of an unmeasured pair, shape (draws, *domain.project(pair).shape), in nats.

        Args:
            generator: the generator.
            expected: the table of each draw, from which the codes are standardized.
            domain: the domain of these tables.
            pair: two of their attributes.
            part: as for `draw`.
        """
        draws, shape = len(expected), (domain[pair[0]], domain[pair[1]])
        share = generator.choice(TRENDS, draws, p=self.trend)[:, None, None]
        axes = [domain.attributes.index(name) for name in pair]
        mean = expected.mean(axis=0)
        scores = [standard_codes(mean.sum(axis=tuple(k for k in range(mean.ndim) if k != axis))) for axis in axes]
        cells = generator.standard_t(DEGREES, (draws, *shape))
        trend = generator.standard_t(DEGREES, (draws, 1, 1)) * np.outer(*scores)
        drawn = np.sqrt(1.0 - share) * cells + np.sqrt(share) * trend
        return drawn * self.draw(generator, draws, part)[:, None, None]


def learn_strengths(
    refit: Refit, measurements: Sequence[LinearMeasurement], total: float, make_model: MakeModel
) -> Strengths:
    """Return the strengths of the measured cliques, and their distribution.

    Args:
        refit: the recipe of the model's estimate.
        measurements: all answers.
        total: the estimated number of records.
        make_model: builds a model from potentials, a total and a plan.
    """
    tables, expected = _by_clique(measurements), {}
    cliques, started = list(tables)[:MOST_REFITS], time.perf_counter()
    with progress("estimating without each clique", len(cliques)) as more:
        for clique in cliques:
            expected[clique] = tables[clique].answer_cells(_left_out(refit, measurements, clique, total, make_model))
            if len(expected) == 1:
                announce("estimating without each clique", (len(cliques) - 1) * (time.perf_counter() - started))
            more(1)
    domain = refit.plan.layout.domain
    likelihoods = {clique: _likelihood(tables[clique], domain, table) for clique, table in expected.items()}
    found = _pooled(likelihoods, tables)
    return replace(found, trend=_trend(domain, tables, expected, found.of, total))


def standard_codes(counts: np.ndarray) -> np.ndarray:
    """Return the codes of an attribute with these counts, standardized to mean 0 and standard deviation 1."""
    shares = np.maximum(counts, 0.0) / max(float(np.maximum(counts, 0.0).sum()), 1e-300)
    codes = np.arange(len(counts), dtype=np.float64)
    codes -= float(shares @ codes)
    return codes / max(math.sqrt(float(shares @ codes**2)), 1e-9)


def independent_center(domain: Domain, cliques: Sequence[Clique], singles: Mapping[str, Factor]) -> CliqueVector:
    """Return potentials of independent attributes, each attribute in the smallest clique that has it.

    Each value gets at least half a record, so that potentials are finite.
    """
    found = {clique: np.zeros(domain.project(clique).shape) for clique in cliques}
    for name in domain:
        holding = [clique for clique in cliques if name in clique]
        if holding:
            clique = min(holding, key=domain.size)
            counts = np.maximum(singles[name].values, 0.5)
            shape = [-1 if other == name else 1 for other in clique]
            found[clique] = found[clique] + np.log(counts / counts.mean()).reshape(shape)
    return CliqueVector(domain, found)


def is_table(measurement: LinearMeasurement) -> bool:
    """Return whether the answers are noisy counts of several attributes together, of values or of groups of values."""
    query = measurement.query
    grouped = isinstance(query, Kron) and query.attributes == measurement.clique
    counts = query is None or (grouped and all(isinstance(one, Identity | Grouping) for one in query.matrices))
    return counts and measurement.noisy and len(measurement.clique) > 1


def _table_shape(measurement: LinearMeasurement, domain: Domain) -> tuple[int, ...]:
    query = measurement.query
    return domain.project(measurement.clique).shape if query is None else query.answer_shape


def _by_clique(measurements: Iterable[LinearMeasurement]) -> dict[Clique, LinearMeasurement]:
    """Return the most exact table of each clique of several attributes, the smaller cliques first."""
    found: dict[Clique, LinearMeasurement] = {}
    for measurement in measurements:
        clique = measurement.clique
        if is_table(measurement):
            known = found.get(clique)
            if known is None or np.mean(measurement.stddev) < np.mean(known.stddev):
                found[clique] = measurement
    return dict(sorted(found.items(), key=lambda item: item[1].cells))


def _left_out(
    refit: Refit, measurements: Sequence[LinearMeasurement], clique: Clique, total: float, make_model: MakeModel
) -> np.ndarray:
    """Return the clique's table, in counts, by a model of all other answers and of its one-way marginals."""
    domain = refit.plan.layout.domain
    kept: list[LinearMeasurement] = []
    for measurement in measurements:
        if not set(clique) <= set(measurement.clique):
            kept.append(measurement)
        elif is_table(measurement):
            kept += [one_way(measurement, name, domain) for name in measurement.clique]
        elif len(measurement.clique) == 1:
            kept.append(measurement)
    objective = replace(
        refit.objective, loss="l2", total=total, stopping=replace(refit.objective.stopping, tolerance=LOOSE)
    )
    objective = replace(objective, stopping=replace(objective.stopping, max_iterations=MOST_ITERATIONS))
    problem = Problem.of(make_loss("l2", kept, domain), total)
    problem, state, _ = objective.minimize(problem, problem.base.copy())
    again = Refit.of(problem, objective)
    return make_model(again.potentials(state.theta), total, again.plan).project(clique).datavector()


def one_way(measurement: LinearMeasurement, name: str, domain: Domain) -> LinearMeasurement:
    """Return a measured table's marginal on one of its attributes: sums of its answers, with the noise of these
    sums.
    """
    axes = tuple(axis for axis, other in enumerate(measurement.clique) if other != name)
    shape, query = _table_shape(measurement, domain), measurement.query
    groups = None if query is None else query.matrices[measurement.clique.index(name)]
    deviations = np.broadcast_to(measurement.stddev, (measurement.rows,)).reshape(shape)
    spread = np.sqrt(np.sum(deviations**2, axis=axes))
    return LinearMeasurement(measurement.values.reshape(shape).sum(axis=axes), (name,), spread, groups)


def _likelihood(measurement: LinearMeasurement, domain: Domain, expected: np.ndarray) -> np.ndarray:
    """Return the log-likelihood of each strength of `GRID`.

    Cells count as independent; the sum over them is scaled to the number of degrees of freedom given the margins.
    """
    expected = np.maximum(expected, LEAST_COUNT)
    variance = np.broadcast_to(np.square(measurement.stddev), expected.shape)
    sizes = np.array(_table_shape(measurement, domain))
    free = float(np.prod(np.maximum(sizes - 1, 1)) / max(np.prod(sizes), 1))
    found = np.empty(len(GRID))
    for index, strength in enumerate(GRID):
        shift = strength * _nodes()
        ratio = np.exp(shift - math.log(np.mean(np.exp(shift))))
        wide = np.gradient(shift)  # each node represents the values up to the middle of its neighbors
        means = ratio[:, None] * expected
        spread = variance + means + (means * wide[:, None]) ** 2 / 4.0
        logs = -0.5 * (measurement.values - means) ** 2 / spread - 0.5 * np.log(spread)
        top = logs.max(axis=0)
        found[index] = free * float(np.sum(top + np.log(np.mean(np.exp(logs - top), axis=0))))
    return found - found.max()


def _trend(
    domain: Domain,
    tables: Mapping[Clique, LinearMeasurement],
    expected: Mapping[Clique, np.ndarray],
    strengths: Mapping[Clique, float],
    total: float,
) -> np.ndarray:
    """Return the posterior of the trend's share in the squares of interactions, over `TRENDS`.

    The evidence are the correlations of codes beyond the expected ones, of each left-out pair. If interactions are s
    times (sqrt(a) t x y + sqrt(1 - a) t_xy), with standardized codes x and y, such a correlation has, to first order,
    the variance s^2 (a + (1 - a) sum_xy p^2 x^2 y^2) plus that of the noise.
    """
    logs = np.zeros(len(TRENDS))
    for clique, table in expected.items():
        measurement, shape = tables[clique], domain.project(clique).shape
        if len(shape) != 2 or measurement.query is not None:
            continue
        shares = np.maximum(table, 0.0).reshape(shape) / total
        x, y = standard_codes(shares.sum(axis=1)), standard_codes(shares.sum(axis=0))
        weights = np.outer(x, y).reshape(-1)
        found = float(weights @ (measurement.values - table)) / total
        noise = float(np.broadcast_to(np.square(measurement.stddev), table.shape) @ weights**2) / total**2 + 1.0 / total
        alone = float(np.sum((shares.reshape(-1) * weights) ** 2)) * DEGREES / (DEGREES - 2.0)
        spread = np.sqrt(strengths[clique] ** 2 * (TRENDS + (1.0 - TRENDS) * alone) + noise)
        logs -= np.log(spread) + 0.5 * (DEGREES + 1.0) * np.log1p((found / spread) ** 2 / DEGREES)
    weight = np.exp(logs - logs.max())
    return weight / weight.sum()


@cache
def _nodes() -> np.ndarray:
    """Return the quantiles of Student's t."""
    from scipy.stats import t  # imported late: it takes a second

    return t.ppf((np.arange(NODES) + 0.5) / NODES, DEGREES)


def _pooled(likelihoods: Mapping[Clique, np.ndarray], cliques: Iterable[Clique]) -> Strengths:
    """Return the posterior of all strengths, integrated over grids of the mean and the spread of their logs."""
    logs = np.log(GRID)
    weights, densities = [], []
    for spread in SPREADS:
        for mean in logs:
            density = np.exp(-0.5 * ((logs - mean) / spread) ** 2)
            density /= density.sum()
            prior = -0.5 * ((mean - CENTER[0]) / CENTER[1]) ** 2 - 0.5 * (spread / 0.5) ** 2
            likely = [math.log(max(float(density @ np.exp(one)), 1e-300)) for one in likelihoods.values()]
            weights.append(prior + math.fsum(likely))
            densities.append(density)
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    mixture = np.stack(densities)
    predictive = weight @ mixture
    found = {}
    for clique, likelihood in likelihoods.items():
        joint = mixture * np.exp(likelihood)
        own = weight @ (joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300))
        found[clique] = float(np.exp(np.interp(0.5, np.cumsum(own) / own.sum(), logs)))
    middle = float(np.exp(np.interp(0.5, np.cumsum(predictive), logs)))
    even = np.full(len(TRENDS), 1.0 / len(TRENDS))
    of = {clique: found.get(clique, middle) for clique in cliques}
    return Strengths(of, _with_stronger(predictive, list(found.values())), len(likelihoods), even)


def _with_stronger(predictive: np.ndarray, found: Sequence[float]) -> np.ndarray:
    """Add the probability that a pair is stronger than all measured cliques.

    If the choice of the n measured cliques does not depend on their strengths, another one is the strongest of n + 1
    with probability 1 / (n + 1), for every distribution. The log strengths of real tables have longer tails than a
    normal distribution, as some attributes are nearly functions of others. How much stronger such a pair is, is
    unknown: each larger strength of the grid gets the same probability.
    """
    strongest = max(found, default=GRID[-1])
    beyond = strongest < GRID
    tail = beyond / beyond.sum() if beyond.any() else np.eye(len(GRID))[-1]
    return (len(found) * predictive + tail) / (len(found) + 1)
