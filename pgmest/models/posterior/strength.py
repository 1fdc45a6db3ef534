r"""How strongly attributes depend on each other beyond a model: learned from the cliques that were measured.

Each measured clique in turn is left out, all but its one-way marginals, and the others are estimated again. Its answers
then are those of a table

.. math:: \mu(x) = \hat\mu(x) \, e^{s z(x)} / c , \qquad z \sim t_4 ,

around what the others say, with the counts' own scatter and the noise. A part of z goes with the codes of both
attributes, a trend: from cell to cell it adds up, as in a correlation or a coefficient. How large that part is, the
correlations that were left out say. That gives a likelihood of the strength s. The
strengths of all cliques come from one log-normal distribution, whose mean and spread are integrated over a grid: so a
clique that the noise hides borrows from the others, and a pair of attributes that nobody measured has a distribution
of strengths, too, with as heavy a tail as n cliques leave room for: 1 / (n + 1) of it is beyond the strongest. For
adaptive mechanisms, which measure what a model gets most wrong, that distribution is of the strongest: intervals made
of it are wide rather than narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from pgmest.losses import make_loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.posterior.student_cells import DEGREES
from pgmest.queries import Kron
from pgmest.queries.matrices import Grouping, Identity
from pgmest.solvers.problem import Problem
from pgmest.solvers.refit import Refit
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

GRID = np.geomspace(0.02, 4.0, 48)
"""Strengths, in nats."""
TRENDS = np.array([0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
"""Shares of the squares of interactions that go with the codes of both attributes, as those of ordered ones do."""
NODES = 41
"""Quantiles of Student's t for which a cell's likelihood is computed."""

CENTER, SPREADS = (math.log(0.5), 1.5), np.array([0.15, 0.3, 0.5, 0.75, 1.0, 1.4])
"""Before any clique: the log of the typical strength is normal with this mean and standard deviation; how much the logs
of strengths vary is one of these, the smaller ones as likely as half a normal distribution of scale one half says."""

MOST_REFITS = 60
"""So many cliques are left out in turn, at most; the others have what the first ones say."""
LOOSE, MOST_ITERATIONS = 1e-2, 500
FEWEST_CLIQUES = 3
"""With fewer measured cliques of several attributes nothing is said about pairs that were not measured."""
LEAST_COUNT = 0.1


@dataclass(frozen=True, eq=False)
class Strengths:
    """What is known of how strongly attributes depend on each other.

    Attributes:
        of: the posterior median strength of each clique of several attributes that was measured as a whole.
        predictive: the probability of each strength of `GRID` for a pair that was not measured.
        evidence: how many cliques said so.
        trend: the probability of each of `TRENDS`, shares of interactions that are a trend.
    """

    of: Mapping[Clique, float]
    predictive: np.ndarray
    evidence: int
    trend: np.ndarray

    @property
    def identified(self) -> bool:
        """Whether enough cliques were measured to say something about others."""
        return self.evidence >= FEWEST_CLIQUES

    def draw(self, generator: np.random.Generator, size: int, part: tuple[float, float] = (0.0, 1.0)) -> np.ndarray:
        """Strengths of pairs that were not measured, from between two quantiles of their distribution."""
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
        """Interactions of a pair that was not measured, shape (draws, *domain.project(pair).shape), in nats.

        Args:
            expected: the table of each draw, of which the codes' means and spreads are.
            domain: of these tables.
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
    refit: Refit, measurements: Sequence[LinearMeasurement], total: float, make_model: Callable[..., Any]
) -> Strengths:
    """The strengths of the measured cliques, and their distribution.

    Args:
        refit: what the model was estimated with.
        measurements: all answers.
        total: the estimated number of records.
        make_model: a model of potentials, a total and a plan.
    """
    tables = _by_clique(measurements)
    expected = {
        clique: tables[clique].answer_cells(_left_out(refit, measurements, clique, total, make_model))
        for clique in list(tables)[:MOST_REFITS]
    }
    domain = refit.plan.layout.domain
    likelihoods = {clique: _likelihood(tables[clique], domain, table) for clique, table in expected.items()}
    found = _pooled(likelihoods, tables)
    return replace(found, trend=_trend(domain, tables, expected, found.of, total))


def standard_codes(counts: np.ndarray) -> np.ndarray:
    """The codes of an attribute with these counts, less their mean and over their standard deviation."""
    shares = np.maximum(counts, 0.0) / max(float(np.maximum(counts, 0.0).sum()), 1e-300)
    codes = np.arange(len(counts), dtype=np.float64)
    codes -= float(shares @ codes)
    return codes / max(math.sqrt(float(shares @ codes**2)), 1e-9)


def independent_center(domain: Domain, cliques: Sequence[Clique], singles: Mapping[str, Factor]) -> CliqueVector:
    """Potentials of independent attributes, each in the smallest clique that has it; at least half a record a value."""
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
    """Whether the answers are the counts of several attributes together, of values or of groups of them."""
    query = measurement.query
    grouped = isinstance(query, Kron) and query.attributes == measurement.clique
    counts = query is None or (grouped and all(isinstance(one, Identity | Grouping) for one in query.matrices))
    return counts and measurement.noisy and len(measurement.clique) > 1


def _table_shape(measurement: LinearMeasurement, domain: Domain) -> tuple[int, ...]:
    query = measurement.query
    return domain.project(measurement.clique).shape if query is None else query.answer_shape


def _by_clique(measurements: Iterable[LinearMeasurement]) -> dict[Clique, LinearMeasurement]:
    """The most exact table of each clique of several attributes, the smaller cliques first."""
    found: dict[Clique, LinearMeasurement] = {}
    for measurement in measurements:
        clique = measurement.clique
        if is_table(measurement):
            known = found.get(clique)
            if known is None or np.mean(measurement.stddev) < np.mean(known.stddev):
                found[clique] = measurement
    return dict(sorted(found.items(), key=lambda item: item[1].cells))


def _left_out(
    refit: Refit,
    measurements: Sequence[LinearMeasurement],
    clique: Clique,
    total: float,
    make_model: Callable[..., Any],
) -> np.ndarray:
    """The clique's table, in counts, by a model of all other answers and its own one-way marginals."""
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
    """What a measured table says about one of its attributes: sums of its answers, with the noise of as many."""
    axes = tuple(axis for axis, other in enumerate(measurement.clique) if other != name)
    shape, query = _table_shape(measurement, domain), measurement.query
    groups = None if query is None else query.matrices[measurement.clique.index(name)]
    deviations = np.broadcast_to(measurement.stddev, (measurement.rows,)).reshape(shape)
    spread = np.sqrt(np.sum(deviations**2, axis=axes))
    return LinearMeasurement(measurement.values.reshape(shape).sum(axis=axes), (name,), spread, groups)


def _likelihood(measurement: LinearMeasurement, domain: Domain, expected: np.ndarray) -> np.ndarray:
    """The log-likelihood of each strength of `GRID`: cells independent, as many as the margins leave free."""
    expected = np.maximum(expected, LEAST_COUNT)
    variance = np.broadcast_to(np.square(measurement.stddev), expected.shape)
    sizes = np.array(_table_shape(measurement, domain))
    free = float(np.prod(np.maximum(sizes - 1, 1)) / max(np.prod(sizes), 1))
    found = np.empty(len(GRID))
    for index, strength in enumerate(GRID):
        shift = strength * _nodes()
        ratio = np.exp(shift - math.log(np.mean(np.exp(shift))))
        wide = np.gradient(shift)  # each node stands for those between it and its neighbors
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
    """The posterior of the share of interactions that is a trend, over `TRENDS`.

    By the correlations of codes beyond what was expected: those of pairs within each clique that was left out. Where
    interactions are s times (sqrt(a) t x y + sqrt(1 - a) t_xy), x and y being standardized codes, such a correlation
    has, to first order, the variance s^2 (a + (1 - a) sum_xy p^2 x^2 y^2) and that of the noise.
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
    from scipy.stats import t  # a second to import

    return t.ppf((np.arange(NODES) + 0.5) / NODES, DEGREES)


def _pooled(likelihoods: Mapping[Clique, np.ndarray], cliques: Iterable[Clique]) -> Strengths:
    """The posterior of all strengths, over grids of the mean and the spread of their logs."""
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
    """With the chance of a pair that is stronger than all that were measured.

    If which n cliques were measured has nothing to do with their strengths, another one is the strongest of n + 1 with
    probability 1 / (n + 1), whatever the distribution. The logs of strengths of real tables have longer tails than a
    normal distribution: some attributes are nearly functions of others. How much stronger nobody knows: any strength
    of the grid beyond, evenly in its log.
    """
    strongest = max(found, default=GRID[-1])
    beyond = strongest < GRID
    tail = beyond / beyond.sum() if beyond.any() else np.eye(len(GRID))[-1]
    return (len(found) * predictive + tail) / (len(found) + 1)
