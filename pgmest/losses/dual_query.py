"""The likelihood of what DualQuery publishes, as a loss of the marginals (PGM C.3, Algorithms 4-5).

DualQuery (Gaboardi, Gallego Arias, Hsu, Roth, Wu 2014) answers no query with noise. It publishes the queries that it
sampled and the records that it made from them; but the sampling distribution depended on the true answers, so that
what was sampled says something about them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest._base.errors import ArgumentError, ShapeError
from pgmest.data.dataset import Dataset
from pgmest.losses.base import FlatLoss, dot, loss_layout
from pgmest.losses.exponential_series import RADIUS, ExponentialSeries
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

LARGEST_GROWTH = 300.0
"""Weights are made afresh from their logs before they can have grown or shrunk by more than exp of this: what
underflowed at the start of a block then stays negligible to its end."""

BLOCK_STEPS = 16
SERIES_BLOCK = 2**21
"""The most steps, and the most steps times cells, that a block may have."""


@dataclass(frozen=True, eq=False)
class DualQueryTranscript:
    r"""All that DualQuery published, and its public parameters.

    The workload is every cell of the marginals on `cliques`: query q asks which share of the records falls into cell q,
    numbered clique after clique, each row-major. With `negations` the workload also has the negation of each, numbered
    (number of cells) + q, that asks for minus that share (or for the share outside the cell: the difference between
    the true answer and a record's is the same, and only that difference matters).

    At step t = 0, 1, ... the mechanism drew `samples` queries independently from

    .. math:: Q^{(t)}_q \propto \exp\Bigl(\eta \sum_{s<t} \bigl(a_q - q(x_s)\bigr)\Bigr)

    with a the true answers, as fractions, and $x_s$ the records of the earlier steps, and then chose a record $x_t$
    with a large sum of the sampled queries' answers: queries that the records so far answer too low become likely, and
    the next record makes up for them. (The paper writes the payoff $q(D) - q(x)$ with $\exp(-\eta \cdot)$ and lets
    the record minimize the sampled answers. That is the same mechanism with each query and its negation exchanged.)

    Args:
        records: the record made in each step, in order: DualQuery's own synthetic data.
        cliques: the marginals of the workload; each set of attributes once.
        queries: the numbers of the queries sampled, shape (steps, samples).
        eta: the learning rate, positive.
        total: the number of true records N. It is public, for neighboring tables differ in one record's values.
        negations: whether the workload is closed under negation, as the mechanism's own analysis needs.

    Raises:
        ArgumentError: a parameter that is not valid, a clique given twice, or a query number out of range.
        ShapeError: `queries` is not a table with a row for each record.
        UnknownAttributeError: a clique names what the records do not have.
    """

    records: Dataset
    cliques: tuple[Clique, ...]
    queries: np.ndarray
    eta: float
    total: float
    negations: bool = True

    def __post_init__(self) -> None:
        cliques = tuple(self.domain.clique(clique) for clique in self.cliques)
        if not cliques or len(loss_layout(self.domain, cliques).cliques) != len(cliques):
            raise ArgumentError.of("cliques", cliques, "at least one clique, and each set of attributes once")
        object.__setattr__(self, "cliques", cliques)
        for name, value in (("eta", self.eta), ("total", self.total)):
            if isinstance(value, bool) or not 0 < value < math.inf:
                raise ArgumentError.of(name, value, "a positive number")
        object.__setattr__(self, "queries", self._checked_queries())

    def _checked_queries(self) -> np.ndarray:
        queries = np.array(self.queries)
        if queries.ndim != 2 or len(queries) != self.records.records or queries.size == 0:
            expected = f"({self.records.records}, samples)"
            raise ShapeError.of("queries", expected, queries.shape, "Give one row of sampled queries for each record.")
        if queries.dtype.kind not in "iu" or queries.min() < 0 or queries.max() >= self.workload:
            raise ArgumentError(
                f"queries must be integers in 0..{self.workload - 1}: the workload has {self.layout.cells:,} cells"
                f"{' and as many negations' if self.negations else ' and no negations'}."
            )
        queries = queries.astype(np.int64)
        queries.flags.writeable = False
        return queries

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.records.domain

    @cached_property
    def layout(self) -> Layout:
        """Where the cells of each marginal lie among the queries."""
        return Layout.of(self.domain, self.cliques)

    @property
    def workload(self) -> int:
        """The number of queries, negations included."""
        return self.layout.cells * (2 if self.negations else 1)

    @property
    def epsilon(self) -> float:
        """The pure-DP cost of the sampling, when one record's values change: eta * T * (T - 1) * samples / N.

        Such a change moves each log-weight of step t by at most eta t / N, and the log-probability of a sample by twice
        that.
        """
        steps, samples = self.queries.shape
        return self.eta * steps * (steps - 1) * samples / self.total

    @cached_property
    def record_cells(self) -> np.ndarray:
        """The cell of each clique that each record falls into, shape (steps, cliques)."""
        return cells_of_records(self.records, self.layout)


class DualQueryLoss(FlatLoss):
    r"""$-\sum_t \sum_i \log Q^{(t)}_{q_{ti}}(\mu)$ in nats: how unlikely marginals make a DualQuery transcript.

    With marginals $\mu$ in counts the answers are $a = \mu / N$, so each log-weight is linear in $\mu$ and the loss is
    convex: log-sum-exp functions minus a linear one. It is smooth; the joint Hessian of step t is the covariance of the
    signed number of a record's cells among the sampled queries, at most 1 (1/4 without negations), times
    samples $(\eta t / N)^2$, which gives `lipschitz`.

    Assumes that the transcript's samples were independent draws from exactly that distribution. The records enter as
    given: they are a function of the samples, so they carry no further information, however they were optimized.

    The weight of a cell that no record fell into is exp(eta t a_q), so all such cells with small answers are summed up
    by a power series, in a few passes over the cells. The other cells are few: those of the records, and at most eta
    times steps in each marginal with a larger answer. They cost three passes over (steps, cells) doubles, in blocks of
    a few steps: a weight is multiplied by the same factor in every step, and again by exp(-eta) where the record fell
    into its cell.

    The value is of the order of steps * samples * log(workload), so give `estimate` a `tolerance` of about
    1 / value: a gap of one nat is about what the data can tell.

    Args:
        transcript: what was published.
    """

    def __init__(self, transcript: DualQueryTranscript):
        self.transcript = transcript
        self.layout: Layout = transcript.layout
        steps, samples = transcript.queries.shape
        self._coefficients, self._constant = _linear_part(transcript)
        elapsed = np.arange(steps) * transcript.eta / transcript.total
        self.lipschitz: float = float(samples * np.sum(elapsed**2)) * (1.0 if transcript.negations else 0.25)
        self._recorded = np.zeros(self.layout.cells, dtype=bool)
        self._recorded[transcript.record_cells.reshape(-1)] = True
        self._last = max(steps - 1, 1)  # the series wants times in 0..1
        self._series = ExponentialSeries(np.arange(steps) / self._last, transcript.negations)

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """As FlatLoss says."""
        answers = flat / self.transcript.total
        normalizers, gradient = self._normalizers(answers)
        value = normalizers - dot(self._coefficients, answers) - self._constant
        gradient -= self._coefficients
        return value, np.divide(gradient, self.transcript.total, out=out)

    def _normalizers(self, answers: np.ndarray) -> tuple[float, np.ndarray]:
        """samples * sum over t of log sum_q exp(log-weight of q), and its gradient with respect to the answers."""
        exponents = self.transcript.eta * self._last * answers
        direct = np.flatnonzero(self._recorded | (np.abs(exponents) > RADIUS))
        exponents[direct] = 0.0
        series_sums = self._series.sums(exponents) - len(direct) * (2.0 if self.transcript.negations else 1.0)
        value, direct_gradient, shares = self._direct(answers[direct], direct, series_sums)
        gradient = self._series.slopes(exponents, shares)
        gradient[direct] = direct_gradient
        return value, gradient

    def _direct(
        self, answers: np.ndarray, direct: np.ndarray, series_sums: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """As `_normalizers`, with the gradient of the cells `direct` alone.

        Args:
            answers: of these cells.
            direct: their numbers, in order; all cells that records fell into are among them.
            series_sums: the sum of the weights of all other cells, in each step.

        Returns:
            The value, its gradient with respect to `answers`, and in each step eta t times its derivative with respect
            to `series_sums`.
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
        """How many steps to take together: few enough for the weights to stay in range, and in memory."""
        growth = self.transcript.eta * (1.0 + float(np.abs(answers).max()))
        return max(1, int(min(BLOCK_STEPS, SERIES_BLOCK / len(answers), LARGEST_GROWTH / growth)))


def _block(logits: np.ndarray, drift: np.ndarray, push: float, cells: np.ndarray) -> np.ndarray:
    """exp of the log-weights in consecutive steps, shape (steps, cells).

    Args:
        logits: the log-weights in the first step.
        drift: what a step adds to each.
        push: what it adds besides to those of the record's cells.
        cells: these, shape (steps, cliques).
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
    """Where in the flat array of `layout` each record counts, shape (records, cliques)."""
    codes = dict(zip(records.domain.attributes, records.columns, strict=True))
    cells = np.zeros((records.records, len(layout.cliques)), dtype=np.int64)
    for position, clique in enumerate(layout.cliques):
        for name in clique:
            cells[:, position] = cells[:, position] * records.domain[name] + codes[name]
    return cells + layout.offsets[:-1]


def _linear_part(transcript: DualQueryTranscript) -> tuple[np.ndarray, float]:
    """v and c such that the sampled queries' log-weights sum to <v, answers> + c."""
    cells = transcript.layout.cells
    signs = np.where(transcript.queries < cells, 1.0, -1.0) * transcript.eta
    sampled = transcript.queries % cells
    elapsed = np.arange(len(sampled))[:, None]
    coefficients = np.bincount(sampled.reshape(-1), (signs * elapsed).reshape(-1), minlength=cells)
    counted, constant = np.zeros(cells), 0.0
    for queries, sign, record in zip(sampled, signs, transcript.record_cells, strict=True):
        constant -= float(sign @ counted[queries])
        counted[record] += 1.0
    return coefficients, constant
