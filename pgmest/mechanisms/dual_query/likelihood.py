"""The negative log-likelihood of a DualQuery transcript, as a loss of the marginals (PGM C.3, Algorithms 4-5).

DualQuery (Gaboardi, Gallego Arias, Hsu, Roth, Wu 2014) publishes no noisy answers. It publishes the queries that it
sampled and the records that it made from them. The sampling distribution depends on the true answers, so the sampled
queries are evidence about them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, ShapeError
from pgmest.losses.base import FlatLoss, dot
from pgmest.mechanisms.dual_query.exponential_series import RADIUS, ExponentialSeries
from pgmest.mechanisms.dual_query.query_rows import QueryRows, RecordAnswers
from pgmest.queries import LinearQuery
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

LARGEST_GROWTH = 300.0
"""The largest change of a log-weight within a block, in nats. Each block computes its weights from their logs, so a
weight that underflows at the start of a block is negligible until its end (exp(-745) is the smallest float64)."""

BLOCK_STEPS = 16
BLOCK_WEIGHTS = 2**21
"""The largest number of steps, and of steps times cells, in a block: 16 MB of weights."""


@dataclass(frozen=True, eq=False)
class DualQueryTranscript:
    r"""The published output of DualQuery, and its public parameters.

    By default the workload consists of all cells of the marginals on `cliques`. Query q is the share of records in cell
    q; cells are numbered clique after clique, each row-major. With `matrices` the workload consists of their rows, in
    this order. With `negations` the workload also has the negation of each query, number (number of queries) + q, which
    is minus that share. (The share outside the cell is equivalent, because only the difference between the true answer
    and the answer of a record matters.)

    At step t = 0, 1, ... the mechanism drew `samples` queries independently from

    .. math:: Q^{(t)}_q \propto \exp\Bigl(\eta \sum_{s<t} \bigl(a_q - q(x_s)\bigr)\Bigr)

    with a the true answers, as fractions, and $x_s$ the records of the earlier steps. It then chose a record $x_t$ with
    a large sum of the sampled queries' answers. So queries that the records answer too low become likely, and the next
    record corrects them. (The paper writes the payoff $q(D) - q(x)$ with $\exp(-\eta \cdot)$ and lets the record
    minimize the sampled answers. This is the same mechanism with each query and its negation exchanged.)

    Args:
        records: the record of each step, in order, which is DualQuery's synthetic data.
        cliques: the marginals of the workload, each set of attributes once unless there are `matrices`.
        queries: the numbers of the sampled queries, shape (steps, samples).
        eta: the learning rate, positive.
        total: the number of true records N. It is public: neighboring tables differ in the values of one record.
        negations: whether the workload contains the negation of each query, as the analysis of the mechanism requires.
        matrices: a query matrix for each clique, with entries from -1 to 1, or None for its cells.

    Raises:
        ArgumentError: a parameter is not valid, a clique is given twice, or a query number is out of range.
        QueryError: a matrix does not fit its clique, or is a LinearOperator.
        ShapeError: `queries` is not a table with one row for each record.
        UnknownAttributeError: the records do not have an attribute of a clique.
    """

    records: Dataset
    cliques: tuple[Clique, ...]
    queries: np.ndarray
    eta: float
    total: float
    negations: bool = True
    matrices: tuple[LinearQuery | None, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "cliques", self.rows.cliques)
        for name, value in (("eta", self.eta), ("total", self.total)):
            if isinstance(value, bool) or not 0 < value < math.inf:
                raise ArgumentError.of(name, value, "a positive number")
        object.__setattr__(self, "queries", self._checked_queries())

    def _checked_queries(self) -> np.ndarray:
        """Return the numbers of the sampled queries as a read-only array, after checking shape and range."""
        queries = np.array(self.queries)
        if queries.ndim != 2 or len(queries) != self.records.records or queries.size == 0:
            expected = f"({self.records.records}, samples)"
            raise ShapeError.of("queries", expected, queries.shape, "Give one row of sampled queries for each record.")
        if queries.dtype.kind not in "iu" or queries.min() < 0 or queries.max() >= self.workload:
            kind = "cells" if self.rows.cells_only else "queries"
            raise ArgumentError(
                f"queries must be integers in 0..{self.workload - 1}: the workload has {self.rows.count:,} {kind}"
                f"{' and as many negations' if self.negations else ' and no negations'}."
            )
        queries = queries.astype(np.int64)
        queries.flags.writeable = False
        return queries

    @property
    def domain(self) -> Domain:
        """The domain of the records."""
        return self.records.domain

    @cached_property
    def rows(self) -> QueryRows:
        """The queries, without negations."""
        return QueryRows(self.domain, tuple(self.cliques), self.matrices)

    @property
    def layout(self) -> Layout:
        """The layout of the marginals that the queries read."""
        return self.rows.layout

    @property
    def workload(self) -> int:
        """The number of queries, including negations."""
        return self.rows.count * (2 if self.negations else 1)

    @property
    def epsilon(self) -> float:
        """The pure-DP cost of the sampling, if the values of one record change: eta * T * (T - 1) * samples / N.

        Such a change moves each log-weight of step t by at most eta t / N, or twice that if a query has entries of both
        signs, and the log-probability of a sample by at most twice as much.
        """
        steps, samples = self.queries.shape
        low, high = self.rows.bounds
        return (high - min(low, 0.0)) * self.eta * steps * (steps - 1) * samples / self.total

    @cached_property
    def record_cells(self) -> np.ndarray:
        """The cell of each clique that each record falls into, shape (steps, cliques)."""
        return cells_of_records(self.records, self.layout)


class DualQueryLoss(FlatLoss):
    r"""The negative log-likelihood of a DualQuery transcript, $-\sum_t \sum_i \log Q^{(t)}_{q_{ti}}(\mu)$, in nats.

    With marginals $\mu$ in counts the answers are $a = \mu / N$. Each log-weight is linear in $\mu$, so the loss is
    convex: a sum of log-sum-exp functions minus a linear function. It is smooth. The joint Hessian of step t is
    samples $(\eta t / N)^2$ times the covariance of the signed answers about a record among the sampled queries, which
    is at most 1 (1/4 for answers from 0 to 1 without negations); this gives `lipschitz`.

    The loss assumes that the samples of the transcript were independent draws from exactly this distribution. The
    records are taken as given: they are a function of the samples and carry no further information.

    *Other queries than cells* take, in each step, two passes over all queries.

    *Cells.* The weight of a cell without records is exp(eta t a_q). All such cells with small answers are summed by a
    power series, in a few passes over the cells. The other cells are few: those with records, and at most eta times
    steps in each marginal that have a larger answer. They cost three passes over an array of (steps, cells), in blocks
    of a few steps: in every step a weight is multiplied by the same factor, and by exp(-eta) if the record is in its
    cell.

    The value is of the order of steps * samples * log(workload). A gap of one nat is about the statistical precision,
    so the `tolerance` of `estimate` should be about 1 / value.

    Args:
        transcript: the transcript of DualQuery.
    """

    def __init__(self, transcript: DualQueryTranscript):
        self.transcript = transcript
        self.layout: Layout = transcript.layout
        steps, samples = transcript.queries.shape
        self._columns = transcript.rows.columns(transcript.records)
        self._coefficients, self._constant = _linear_part(transcript, self._columns)
        elapsed = np.arange(steps) * transcript.eta / transcript.total
        largest = 0.25 if transcript.rows.bounds[0] >= 0 and not transcript.negations else 1.0
        self.lipschitz: float = float(samples * np.sum(elapsed**2)) * largest
        if not transcript.rows.cells_only:
            return
        self._recorded = np.zeros(self.layout.cells, dtype=bool)
        self._recorded[transcript.record_cells.reshape(-1)] = True
        self._last = max(steps - 1, 1)  # the series needs times between 0 and 1
        self._series = ExponentialSeries(np.arange(steps) / self._last, transcript.negations)

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the negative log-likelihood and its gradient at marginals in counts."""
        rows = self.transcript.rows
        answers = rows.answers(flat / self.transcript.total)
        normalizers, slopes = (self._of_cells if rows.cells_only else self._of_rows)(answers)
        value = normalizers - dot(self._coefficients, answers) - self._constant
        slopes -= self._coefficients
        return value, np.divide(rows.transpose(slopes), self.transcript.total, out=out)

    def _of_rows(self, answers: np.ndarray) -> tuple[float, np.ndarray]:
        """Return samples * sum over t of log sum_q exp(log-weight of q), and its gradient by answer."""
        steps, samples = self.transcript.queries.shape
        eta, value = self.transcript.eta, 0.0
        slopes, logits = np.zeros_like(answers), np.zeros_like(answers)
        for step in range(steps):
            shift = float(np.abs(logits).max() if self.transcript.negations else logits.max())
            weights = np.exp(logits - shift)
            opposite = np.exp(-logits - shift) if self.transcript.negations else np.zeros(())
            total = float(weights.sum() + opposite.sum())
            value += samples * (math.log(total) + shift)
            slopes += (samples * eta * step / total) * (weights - opposite)
            logits += eta * (answers - self._columns[step])
        return value, slopes

    def _of_cells(self, answers: np.ndarray) -> tuple[float, np.ndarray]:
        """Return what `_of_rows` does, if the queries are cells, which need not be visited in every step."""
        exponents = self.transcript.eta * self._last * answers
        direct = np.flatnonzero(self._recorded | (np.abs(exponents) > RADIUS))
        # Direct cells stay in the series with exponent 0, that is weight 1 (2 with negations), which is subtracted.
        exponents[direct] = 0.0
        series_sums = self._series.sums(exponents) - len(direct) * (2.0 if self.transcript.negations else 1.0)
        value, direct_gradient, shares = self._direct(answers[direct], direct, series_sums)
        gradient = self._series.slopes(exponents, shares)
        gradient[direct] = direct_gradient
        return value, gradient

    def _direct(
        self, answers: np.ndarray, direct: np.ndarray, series_sums: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the value of `_of_cells`, and its gradient by the answers of the cells `direct`.

        Args:
            answers: the answers of these cells.
            direct: the sorted numbers of these cells, which include all cells with records.
            series_sums: the sum of the weights of all other cells, in each step.

        Returns:
            the value, its gradient by `answers`, and for each step eta t times its derivative by `series_sums`.
        """
        steps, samples = self.transcript.queries.shape
        eta, signs = self.transcript.eta, (1.0, -1.0) if self.transcript.negations else (1.0,)
        value, gradient, counted, shares = 0.0, np.zeros_like(answers), np.zeros_like(answers), np.zeros(steps)
        least_shift = 0.0 if series_sums.any() else -math.inf
        length = self._block_length(answers)
        for start in range(0, steps, length):
            block = slice(start, min(start + length, steps))
            cells = np.searchsorted(direct, self.transcript.record_cells[block])
            logits = eta * (start * answers - counted)
            # Subtracting the largest logit keeps exp from overflowing; a shift below 0 would scale up the series' sums.
            shift = max(least_shift, float(np.abs(logits).max()) if len(signs) == 2 else float(logits.max()))
            blocks = [_block(sign * logits - shift, sign * eta * answers, -sign * eta, cells) for sign in signs]
            sums = np.sum([weights.sum(axis=1) for weights in blocks], axis=0) + math.exp(-shift) * series_sums[block]
            value += samples * float(np.sum(np.log(sums) + shift))
            shifted_shares = samples * eta * np.arange(block.start, block.stop) / sums
            shares[block] = math.exp(-shift) * shifted_shares
            for sign, weights in zip(signs, blocks, strict=True):
                gradient += sign * (shifted_shares @ weights)
            np.add.at(counted, cells.reshape(-1), 1.0)
        return value, gradient, shares

    def _block_length(self, answers: np.ndarray) -> int:
        """Return the number of steps of a block: few enough that its weights fit into memory and do not overflow."""
        growth = self.transcript.eta * (1.0 + float(np.abs(answers).max()))
        return max(1, int(min(BLOCK_STEPS, BLOCK_WEIGHTS / len(answers), LARGEST_GROWTH / growth)))


def _block(logits: np.ndarray, drift: np.ndarray, push: float, cells: np.ndarray) -> np.ndarray:
    """Return the weights in consecutive steps, shape (steps, cells).

    Args:
        logits: the log-weights in the first step.
        drift: the change of each log-weight in every step.
        push: the further change of the log-weights of the record's cells.
        cells: the cells of each step's record, shape (steps, cliques).
    """
    weights = np.empty((len(cells), len(logits)))
    np.exp(logits, out=weights[0])
    if len(cells) == 1:  # the factors of a longer block might overflow
        return weights
    factors, pushed = np.exp(drift), math.exp(push)
    for step in range(1, len(cells)):
        np.multiply(weights[step - 1], factors, out=weights[step])
        weights[step, cells[step - 1]] *= pushed
    return weights


def cells_of_records(records: Dataset, layout: Layout) -> np.ndarray:
    """Return the positions of each record's cells in flat arrays of `layout`, shape (records, cliques)."""
    codes = dict(zip(records.domain.attributes, records.columns, strict=True))
    cells = np.zeros((records.records, len(layout.cliques)), dtype=np.int64)
    for position, clique in enumerate(layout.cliques):
        for name in clique:
            cells[:, position] = cells[:, position] * records.domain[name] + codes[name]
    return cells + layout.offsets[:-1]


def _linear_part(transcript: DualQueryTranscript, columns: RecordAnswers) -> tuple[np.ndarray, float]:
    """Return v and c such that the log-weights of the sampled queries sum to <v, answers> + c."""
    count = transcript.rows.count
    signs = np.where(transcript.queries < count, 1.0, -1.0) * transcript.eta
    sampled = transcript.queries % count
    elapsed = np.arange(len(sampled))[:, None]
    coefficients = np.bincount(sampled.reshape(-1), (signs * elapsed).reshape(-1), minlength=count)
    counted, constant = np.zeros(count), 0.0
    for step, (queries, sign) in enumerate(zip(sampled, signs, strict=True)):
        constant -= float(sign @ counted[queries])
        columns.add_to(counted, step)
    return coefficients, constant
