"""IDE: prior-aware distribution estimation by updates of a public table's weights (IDE Algorithm 1).

The estimate is a distribution over the prior's own records. It is to answer the workload as the noisy answers do, as
near as can be in L1, and among all distributions that do so, to be the one of least KL divergence from the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest._base.errors import ArgumentError, DataError
from pgmest.data.codes import read_only
from pgmest.data.dataset import Dataset
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
    """What an update did.

    Attributes:
        distance: the L1 distance of the estimate from the noisy answers, in fractions of the total; answers with more
            noise than the most exact one of their workload count for less, in proportion.
        divergence: KL(estimate || prior), in nats.
        sweeps: how often each partial workload was updated.
        converged: whether the last sweep moved no answer by more than the tolerance. Where the answers contradict one
            another, Algorithm 1 ends going round in circles, and this is False.
        path: the sum over the workloads of the L1 distance seen just before each one's update, sweep by sweep.
    """

    distance: float
    divergence: float
    sweeps: int
    converged: bool
    path: tuple[float, ...]


@dataclass(frozen=True)
class PriorUpdate:
    """What an update returns.

    Attributes:
        data: the prior's records with new weights, which sum to the total.
        report: how near it is to the answers and to the prior.
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
    r"""The distribution over a public table's records that noisy answers and the table speak for.

    With `prior_weight=0` by IDE Algorithm 1: the partial workloads are updated one after another, in random order, each
    exactly to the L1 projection of its answer. On answers that some distribution gives this converges to the one of
    least KL from the prior; on others it ends going round, near the nearest answers but not at them.

    With `prior_weight` $\tau > 0$ to the minimum of $\tau N \, KL(p \| prior) + \sum_j |N (W p)_j - y_j| / b_j$, with
    the total N and the Laplace scales b. It exists, is unique, and is reached (`penalized_update`). $\tau = 1$ gives
    the most probable table of N records drawn from the prior; as $\tau \to 0$ its limit is what IDE asks for.

    To the letter IDE Algorithm 1 is `order="random", refill=True` with `max_sweeps` = T / (number of marginals): each
    update takes one of them at random, and a cell that an earlier update emptied comes back when its own answer says so
    (Definition 3.1, its second and fourth case). By default every sweep takes them all, and what holds no mass gets
    none, so that the relative entropy to the prior stays finite and the updates are projections in it.

    >>> prior = Dataset.from_codes(np.array([[0, 0], [0, 1], [1, 1]]), {"sex": 2, "income": 2})
    >>> noisy = LinearMeasurement([30.0, 10.0], "sex", stddev=2.0)
    >>> update_prior(prior, [noisy]).data.project(("sex", "income")).values
    array([[15., 15.],
           [ 0., 10.]])

    Args:
        prior: the public records, by their weights where they have some.
        measurements: in counts; whole marginals, or queries with entries 0 and 1.
        total: the number of private records; None estimates it from the measurements.
        prior_weight: how many private records one record of evidence for the prior is worth; 0 for Algorithm 1.
        max_sweeps: updates of each partial workload, at most.
        tolerance: stop when a sweep moves no workload's answers by more than this, in L1 and fractions of the total.
        order: "sweeps", each partial workload once a sweep; or "random", as many updates of ones drawn at random.
        refill: whether records whose cell was emptied, or to which the prior gives no weight, can get mass again; for
            Algorithm 1 only. The report's divergence is infinite where the latter did.
        seed: of the order of updates.
        callback: called after each sweep with its number and its entry of the report's `path`.

    Raises:
        ArgumentError: an argument out of range.
        DataError: the prior has no records of positive weight.
        TotalError: `total` is None and the measurements do not determine it.
        QueryError, UnknownAttributeError, MeasurementShapeError: a measurement that cannot be used.
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
    """IDE Algorithm 1 on arrays: updates of a distribution, one partial workload at a time.

    The paper draws each workload at random; by default a sweep takes them all in random order, so that none is left
    out. In the paper emptied cells can come back; by default they cannot. `order="random", refill=True` is the paper's.

    Args:
        prior: fractions, shape (records,).
        answers: the partial workloads.

    Returns:
        as `sweep_workloads`.
    """

    counts = [answer.masses(np.ones(len(prior))) if refill else None for answer in answers]

    def target(position: int, masses: np.ndarray) -> np.ndarray:
        answer = answers[position].fractions
        return np.append(*project_answer(answer, masses[:-1], float(masses[-1]), counts[position]))

    return sweep_workloads(prior, answers, target, max_sweeps, tolerance, generator, callback, order)


def prior_fractions(prior: Dataset) -> np.ndarray:
    """The prior's weights as fractions, shape (records,).

    Raises:
        DataError: the prior has no records of positive weight.
    """
    if prior.total <= 0:
        raise DataError("the prior has no records of positive weight; give a public table with at least one.")
    weights = np.ones(prior.records) if prior.weights is None else prior.weights
    return weights / prior.total


def relative_entropy(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p || q) of two distributions over the same records, in nats; 0 log 0 := 0, and inf where only q is 0."""
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
    """See that the form of the updates is one.

    Raises:
        ArgumentError: another order, or emptied cells that come back with a penalty.
    """
    if order not in ORDERS:
        raise ArgumentError.of("order", order, list(ORDERS))
    if refill and prior_weight > 0:
        raise ArgumentError.of(
            "refill", refill, "False with prior_weight > 0: only Algorithm 1 (prior_weight=0) has it"
        )
