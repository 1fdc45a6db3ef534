"""IDE: prior-aware distribution estimation by updates of a public table's weights (IDE Algorithm 1).

The estimate is a distribution over the prior's records. Its answers to the workload should have the least L1 distance
from the noisy answers; among all such distributions it should have the least KL divergence from the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.data.codes import read_only
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.support import SupportModel
from pgmest.priors.ide.answers import PartialAnswer, partial_answers
from pgmest.priors.ide.penalized import penalized_update
from pgmest.priors.ide.projection import project_answer
from pgmest.priors.ide.sweeps import ORDERS, Order, sweep_workloads
from pgmest.solvers.total import estimate_total
from pgmest.tables.clique_vector import CliqueVector


@dataclass(frozen=True)
class UpdateReport:
    """The convergence of an update, and the distances of the estimate.

    Attributes:
        distance: the L1 distance of the estimate from the noisy answers, in fractions of the total; the term of an
            answer is divided by its noise scale relative to the smallest one of its workload.
        divergence: KL(estimate || prior), in nats.
        sweeps: the number of updates of each partial workload.
        converged: whether no answer changed by more than the tolerance in the last sweep. If the answers contradict one
            another, Algorithm 1 ends in a cycle, and this is False.
        path: for each sweep, the sum over the workloads of the L1 distance just before the workload's update.
    """

    distance: float
    divergence: float
    sweeps: int
    converged: bool
    path: tuple[float, ...]


@dataclass(frozen=True)
class PriorUpdate:
    """The result of an update.

    Attributes:
        data: the prior's records with new weights, which sum to the total.
        report: the convergence, and the distances from the answers and from the prior.
    """

    data: Dataset
    report: UpdateReport

    @cached_property
    def model(self) -> SupportModel:
        """The estimate as a model, which answers queries and samples records."""
        return SupportModel(Support(self.data), CliqueVector.zeros(self.data.domain, []), self.data.total)


def update_prior(
    prior: Dataset,
    measurements: Iterable[LinearMeasurement],
    *,
    total: float | None = None,
    prior_weight: float = 0.0,
    max_sweeps: int = 100,
    tolerance: float = 1e-4,
    order: Order = "sweeps",
    refill: bool = False,
    seed: int | np.random.Generator | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> PriorUpdate:
    r"""Return the distribution over a public table's records that fits noisy answers and stays near the table.

    `prior_weight=0` is IDE Algorithm 1; the paper's PRIOR_UPDATE, a part of Algorithm 2, is `GroupUpdate`. The partial
    workloads are updated one after another, in random order, each exactly to the L1 projection of its answers. If some
    distribution has these answers, the updates converge to the one of least KL from the prior; otherwise they end in a
    cycle near the nearest answers.

    `prior_weight` $\tau > 0$ minimizes $\tau N \, KL(p \| prior) + \sum_j |N (W p)_j - y_j| / b_j$, with the total N
    and the Laplace scales b. The minimum is unique, and the updates converge to it (`penalized_update`). $\tau = 1$
    gives the most probable table of N records drawn from the prior; the limit for $\tau \to 0$ is IDE's estimate.

    The published Algorithm 1 is `order="random", refill=True` with `max_sweeps` = T / (number of marginals): each
    update takes one workload at random, and a cell without mass gets mass again if its answer is positive (Definition
    3.1, second and fourth case). By default every sweep takes all workloads, and a cell without mass stays without, so
    that the relative entropy to the prior stays finite and the updates are projections in relative entropy.

    >>> prior = Dataset.from_codes(np.array([[0, 0], [0, 1], [1, 1]]), {"sex": 2, "income": 2})
    >>> noisy = LinearMeasurement([30.0, 10.0], "sex", stddev=2.0)
    >>> update_prior(prior, [noisy]).data.project(("sex", "income")).values
    array([[15., 15.],
           [ 0., 10.]])

    Args:
        prior: the public records; their weights count if they have any.
        measurements: measurements of whole marginals, or of queries with entries 0 and 1, in counts.
        total: the number of private records; None estimates it from the measurements.
        prior_weight: the weight of the prior, $\tau$, relative to one record of evidence; 0 for Algorithm 1.
        max_sweeps: the largest number of updates of each partial workload.
        tolerance: stop after a sweep in which no workload's answers change by more than this, in L1, in fractions of
            the total.
        order: "sweeps" updates each partial workload once a sweep; "random" draws the same number of workloads at
            random.
        refill: whether cells that an update emptied, or records without weight in the prior, can get mass again; for
            Algorithm 1 only. The report's divergence is infinite if records without weight in the prior get mass.
        seed: the seed of the order of updates, or a generator.
        callback: called after each sweep with its number and its entry of the report's `path`.

    Raises:
        ArgumentError: an argument is out of range.
        DataError: the prior has no records of positive weight.
        TotalError: `total` is None and the measurements do not determine it.
        QueryError, UnknownAttributeError, ShapeError: a measurement has a query with other entries, or does
            not fit the prior's domain.
    """
    _check(prior_weight, max_sweeps, tolerance)
    check_form(prior_weight, order, refill)
    measurements = list(measurements)
    if total is None:
        total = estimate_total(measurements, prior.domain).value
    answers = partial_answers(prior, measurements, total)
    start = prior_fractions(prior)
    generator = np.random.default_rng(seed)
    if prior_weight > 0:
        bounds = [1.0 / (prior_weight * answer.scales) for answer in answers]
        p, path, converged = penalized_update(start, answers, bounds, max_sweeps, tolerance, generator, callback, order)
    else:
        p, path, converged = iterative_update(start, answers, max_sweeps, tolerance, generator, callback, order, refill)
    distance = sum(answer.distance(answer.masses(p)) for answer in answers)
    report = UpdateReport(distance, relative_entropy(p, start), len(path), converged, tuple(path))
    return PriorUpdate(Dataset(prior.domain, prior.columns, prior.records, read_only(p * total)), report)


def iterative_update(
    prior: np.ndarray,
    answers: Sequence[PartialAnswer],
    max_sweeps: int,
    tolerance: float,
    generator: np.random.Generator,
    callback: Callable[[int, float], None] | None = None,
    order: Order = "sweeps",
    refill: bool = False,
) -> tuple[np.ndarray, list[float], bool]:
    """Run IDE Algorithm 1 on arrays: update a distribution for one partial workload after the other.

    The paper's form is `order="random", refill=True`: each workload is drawn at random, and emptied cells can get mass
    again. By default a sweep takes all workloads in random order, and emptied cells stay empty.

    Args:
        prior: the fractions of the records, shape (records,).
        answers: the partial workloads.
        max_sweeps, tolerance, generator, callback, order: as in `sweep_workloads`.
        refill: whether emptied cells can get mass again.

    Returns:
        the result of `sweep_workloads`.
    """
    counts = [answer.masses(np.ones(len(prior))) if refill else None for answer in answers]

    def target(position: int, masses: np.ndarray) -> np.ndarray:
        answer = answers[position].fractions
        return np.append(*project_answer(answer, masses[:-1], float(masses[-1]), counts[position]))

    return sweep_workloads(prior, answers, target, max_sweeps, tolerance, generator, callback, order)


def prior_fractions(prior: Dataset) -> np.ndarray:
    """Return the prior's weights as fractions, shape (records,).

    Raises:
        DataError: the prior has no records of positive weight.
    """
    if prior.total <= 0:
        raise DataError("the prior has no records of positive weight; give a public table with at least one.")
    weights = np.ones(prior.records) if prior.weights is None else prior.weights
    return weights / prior.total


def relative_entropy(p: np.ndarray, q: np.ndarray) -> float:
    """Return KL(p || q) of two distributions over the same records, in nats; inf if some q is 0 where p is not."""
    held = p > 0
    if np.any(q[held] <= 0):
        return np.inf
    return max(0.0, float(p[held] @ np.log(p[held] / q[held])))


def _check(prior_weight: float, max_sweeps: int, tolerance: float) -> None:
    if not 0 <= prior_weight < np.inf:
        raise ArgumentError.of("prior_weight", prior_weight, "a non-negative number; 0 for Algorithm 1")
    if max_sweeps < 1:
        raise ArgumentError.of("max_sweeps", max_sweeps, "a positive integer")
    if not tolerance >= 0:
        raise ArgumentError.of("tolerance", tolerance, "a non-negative number")


def check_form(prior_weight: float, order: Order, refill: bool) -> None:
    """Check the arguments that select the form of the updates.

    Raises:
        ArgumentError: the order is unknown, or `refill` is used with `prior_weight` above 0.
    """
    if order not in ORDERS:
        raise ArgumentError.of("order", order, list(ORDERS))
    if refill and prior_weight > 0:
        raise ArgumentError.of(
            "refill", refill, "False with prior_weight > 0: only Algorithm 1 (prior_weight=0) has it"
        )
