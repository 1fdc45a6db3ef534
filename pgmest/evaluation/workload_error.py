"""The error of an estimate on a workload: one number, with its normalization named."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pgmest.errors import ArgumentError, DataError
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Projectable, Workload, marginals

NORMS = ("l1", "tv")
NORMALIZATIONS = ("query", "record", "answer")


def workload_error(
    true: Projectable, estimated: Projectable, workload: Workload, norm: str = "l1", per: str = "query"
) -> float:
    r"""Return the weighted mean distance between true and estimated answers over the items of a workload.

    With queries Q_i of weight w_i, true marginals mu and estimated marginals nu in counts, and h = 1 for "l1", 1/2 for
    "tv" (total variation):

    - per="query": h sum_i w_i ||Q_i (mu - nu)||_1 / sum_i w_i rows_i, the mean error of one answer in counts.
    - per="record": h sum_i w_i ||Q_i (mu - nu)||_1 / (N sum_i w_i), with N the true total. On marginals, norm="tv" is
      the mean total variation distance, the share of the records that would have to change cells; norm="l1" is the
      error of AIM (McKenna et al. 2022).
    - per="answer": h / sum_i w_i * sum_i w_i ||Q_i (mu - nu)||_1 / ||Q_i mu||_1, relative to the true answers. On
      prefix sums, norm="l1" is the error in the script published with PGM. On marginals it equals per="record".

    >>> from pgmest import Dataset
    >>> true = Dataset.from_codes(np.array([[0, 0], [0, 1], [1, 1], [1, 1]]), {"a": 2, "b": 2})
    >>> estimated = Dataset.from_codes(np.array([[0, 0], [0, 1], [0, 1], [1, 1]]), {"a": 2, "b": 2})
    >>> workload_error(true, estimated, marginals([("a", "b")]), norm="tv", per="record")
    0.25

    Args:
        true: the data, anything whose `project(clique)` is a Factor of counts.
        estimated: the model, or records; it is not scaled to the true total.
        workload: the queries.
        norm: "l1" or "tv".
        per: "query", "record" or "answer".

    Raises:
        ArgumentError: `norm` or `per` is not valid, or the workload has no weight.
        DataError: `per` divides by true answers that sum to zero.
    """
    if norm not in NORMS:
        raise ArgumentError.of("norm", norm, NORMS)
    if per not in NORMALIZATIONS:
        raise ArgumentError.of("per", per, NORMALIZATIONS)
    distances, rows, magnitudes = _item_distances(true, estimated, workload)
    weights = _weights(workload)
    half = 0.5 if norm == "tv" else 1.0
    if per == "query":
        return half * float(weights @ distances / (weights @ rows))
    if per == "record":
        magnitudes = np.full(len(distances), float(true.project(())))
    if not (magnitudes > 0).all():
        raise DataError("the true answers sum to zero, so errors cannot be relative to them; use per='query'.")
    return half * float(weights @ (distances / magnitudes) / weights.sum())


def range_query_mse(true: Projectable, estimated: Projectable, ranges: Workload) -> float:
    """Return the mean squared error over the queries of a workload, such as `pg.workloads.random_ranges` (PPSyn).

    Answers are fractions of the true total.

    Args:
        true, estimated: as for `workload_error`.
        ranges: the queries; an item of weight w counts w times.

    Raises:
        ArgumentError: the workload has no weight.
        DataError: the true total is zero.
    """
    weights, squares, rows = _weights(ranges), [], []
    for mine, theirs in zip(ranges.iterate(true), ranges.iterate(estimated), strict=True):
        squares.append(float(np.square(mine - theirs).sum()))
        rows.append(len(mine))
    error = float(weights @ squares / (weights @ rows))
    records = float(true.project(()))
    if records <= 0:
        raise DataError("the data have no records, so errors cannot be fractions of them.")
    return error / records**2


def marginal_errors(
    true: Projectable,
    estimated: Projectable,
    cliques: Iterable[Iterable[str] | str],
    *,
    rescale: bool = False,
    domain: Domain | None = None,
) -> dict[Clique, float]:
    """Return the total variation distance of each marginal, ||mu - nu||_1 / (2 N), the largest first.

    Args:
        true, estimated: as for `workload_error`.
        cliques: the marginals, of attributes or levels of hierarchies.
        rescale: whether the estimate is first scaled to the true total N. Distributions are then compared, and no
            distance exceeds 1 unless the estimate has negative counts.
        domain: the hierarchies of the levels; by default those that `true` and `estimated` know.

    Raises:
        DataError: the true total is zero, or, with `rescale`, the estimated one.
    """
    workload = marginals(cliques)
    factor = 1.0
    if rescale:
        totals = [float(source.project(())) for source in (true, estimated)]
        if not min(totals) > 0:
            raise DataError("one of the two has no records, so their distributions cannot be compared.")
        factor = totals[0] / totals[1]
    asked = workload if domain is None else workload.without_levels(domain)
    distances, _, magnitudes = _item_distances(true, estimated, asked, factor)
    if not (magnitudes > 0).all():
        raise DataError("the data have no records, so errors cannot be fractions of them.")
    errors = 0.5 * distances / magnitudes
    worst_first = np.argsort(-errors, kind="stable")
    return {workload.cliques[place]: float(errors[place]) for place in worst_first}


def _item_distances(
    true: Projectable, estimated: Projectable, workload: Workload, factor: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ||Q (mu - factor nu)||_1, the number of queries, and ||Q mu||_1 of each item."""
    found = [
        (float(np.abs(mine - factor * theirs).sum()), len(mine), float(np.abs(mine).sum()))
        for mine, theirs in zip(workload.iterate(true), workload.iterate(estimated), strict=True)
    ]
    distances, rows, magnitudes = np.array(found, dtype=np.float64).reshape(-1, 3).T
    return distances, rows, magnitudes


def _weights(workload: Workload) -> np.ndarray:
    weights = np.array(workload.weights, dtype=np.float64)
    if not weights.sum() > 0:
        raise ArgumentError.of("workload", workload, "a workload with at least one item of positive weight")
    return weights
