"""SupportModel: what estimation returns with a support as prior, a distribution over public records."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pgmest.clique_vector import CliqueVector
from pgmest.conditioning import checked_evidence
from pgmest.dataset import Dataset
from pgmest.domain import Clique, Domain
from pgmest.errors import ArgumentError, DomainError, plural
from pgmest.estimation.report import EstimationReport
from pgmest.factor import Factor
from pgmest.information import mutual_information
from pgmest.measurement import LARGEST, LinearMeasurement
from pgmest.memory import check_records
from pgmest.model import Model
from pgmest.prior.support import Support, record_keys
from pgmest.queries import Kron

SPARSE_CELLS = 1 << 20
"""A marginal of more cells than this, and than there are records, is not written down to answer a query about it."""

BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class SupportModel:
    r"""$p(i) \propto w_i \exp(\sum_C \theta_C(x_{i,C}))$ over the records $x_i$ of a support, and a number of records.

    It answers as a `pg.Model` does, in counts. Everything is computed from the records and their new weights, which are
    found at the first question; each marginal is then a pass over the records.

    >>> support = Support(Dataset.from_codes(np.array([[0, 0], [1, 0], [1, 1]]), {"a": 2, "b": 2}))
    >>> theta = CliqueVector(support.domain, {("a",): np.log([1.0, 2.0])})
    >>> SupportModel(support, theta, total=50).project(("b",)).values.round(6)
    array([30., 20.])

    Args:
        support: the records and their prior weights.
        potentials: theta; -inf excludes records.
        total: the number of records that the distribution describes.
        report: how the estimate was found and how good it is.
        total_stddev: the standard error of `total`; None where it is known, or nothing is known of it.
        measurements: what the model was estimated from.

    Raises:
        ArgumentError: the potentials are over another domain, or `total` is not a positive number.
    """

    support: Support
    potentials: CliqueVector
    total: float
    report: EstimationReport | None = None
    total_stddev: float | None = None
    measurements: tuple[LinearMeasurement, ...] | None = None
    _records: Dataset | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        if self.potentials.domain != self.support.domain:
            raise ArgumentError("the potentials are over another domain than the support; make them over the same.")
        if isinstance(self.total, bool) or not 0 < self.total <= LARGEST:
            raise ArgumentError.of("total", self.total, "a positive number of records")
        object.__setattr__(self, "total", float(self.total))

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        """All the attributes."""
        return self.support.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return self.potentials.cliques

    @property
    def records(self) -> Dataset:
        """The records of the support with their new weights, which sum to `total`.

        Raises:
            ImpossibleModelError: the potentials exclude every record.
        """
        from pgmest.prior.support_oracle import SupportOracle

        with self._lock:
            if self._records is None:
                oracle = SupportOracle(self.support, self.potentials.layout)
                weights = oracle.probabilities(self.potentials.flat) * self.total
                object.__setattr__(self, "_records", self.support.weighted(weights))
            assert self._records is not None
            return self._records

    @property
    def weights(self) -> np.ndarray:
        """The expected number of records at each record of the support, shape (len(support),); they sum to `total`."""
        weights = self.records.weights
        assert weights is not None
        return weights

    @property
    def reweighted(self) -> Support:
        """The support with the new weights: the prior of a further estimate that is to stay close to this one."""
        return Support(self.records)

    @property
    def effective_size(self) -> float:
        """1 / sum p^2, Kish's effective number of records: close to 1 where a handful carries all the weight."""
        return float(self.total**2 / np.sum(self.weights**2))

    @property
    def marginals(self) -> CliqueVector:
        """The marginals on the measured cliques, in counts."""
        return CliqueVector(self.domain, {clique: self.project(clique) for clique in self.cliques})

    # -- queries ----------------------------------------------------------------------------------------------------

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """The marginal on any attributes, measured or not, in counts; arguments and errors as `pg.Model.project`."""
        names = self.domain.clique(attributes)
        return self._given(checked_evidence(self.domain, given, names)).project(names)

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """The marginals on many sets of attributes, in counts."""
        return self.records.project_many(cliques)

    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Factor | list[Factor]:
        """The answers to linear queries, in counts; arguments and errors as for `pg.Model.answer`."""
        from pgmest.answers import answer

        return answer(self, query, clique, given)

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        """The answers to checked Krons, in counts, for checked evidence."""
        records = self._given(evidence)
        return [answered(records, query) for query in queries]

    def _given(self, evidence: Mapping[str, int]) -> Dataset:
        """The records with these codes."""
        records = self.records
        if not evidence:
            return records
        chosen = np.ones(records.records, dtype=bool)
        for name, code in evidence.items():
            chosen &= records.column(name) == code
        return records.take(chosen)

    def conditional(self, attributes: Iterable[str] | str, given: Iterable[str] | str) -> Factor:
        """P(attributes | given): probabilities, as `pg.Model.conditional` gives them."""
        known = self.domain.clique(given)
        joint = self.project((*self.domain.clique(attributes), *known))
        return joint / joint.project(known)

    # -- information ------------------------------------------------------------------------------------------------

    def log_prob(self, records: Dataset) -> np.ndarray:
        """The natural log of each record's probability, -inf outside the support; shape (records,).

        Raises:
            DomainError: the records are over another domain.
        """
        if records.domain != self.domain:
            raise DomainError("the records are over another domain than the support; select(...) its attributes first.")
        both = [np.concatenate(pair) for pair in zip(self.records.columns, records.columns, strict=True)]
        keys = record_keys(both, self.domain.shape)
        known, asked = keys[: len(self.support)], keys[len(self.support) :]
        places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        with np.errstate(divide="ignore"):
            return np.where(known[places] == asked, np.log(self.weights[places] / self.total), -np.inf)

    def entropy(self) -> float:
        """-E[log p], in nats."""
        p = self.weights / self.total
        return -float(np.sum(p * np.log(p, out=np.zeros_like(p), where=p > 0)))

    def kl(self, other: Model | SupportModel | Support) -> float:
        """KL(p || q) to another distribution q, or to a support's own weights, in nats; inf where q excludes a record.

        Raises:
            DomainError: the two are over different attributes.
        """
        if other is self.support:
            logs = self.support.log_weights
        else:
            if isinstance(other, Support):
                other = SupportModel(other, CliqueVector.zeros(other.domain, []), 1.0)
            logs = other.log_prob(self.records)
        p = self.weights / self.total
        return max(0.0, -self.entropy() - float(np.sum(np.where(p > 0, p * np.where(p > 0, logs, 0.0), 0.0))))

    def mutual_information(self, a: Iterable[str] | str, b: Iterable[str] | str) -> float:
        """I(a; b), in nats, of single attributes or sets of them."""
        return mutual_information(self, self.domain.clique(a), self.domain.clique(b))

    # -- records and files ------------------------------------------------------------------------------------------

    def sample(
        self, n: int | None = None, method: str = "round", seed: int | np.random.Generator | None = None
    ) -> Dataset:
        """Synthetic records, in random order: records of the support, as often as their weights say.

        Args:
            n: how many; by default `total`, rounded.
            method: "round" (each record its expected number of times rounded up or down, and as close along the
                records' lexicographic order), or "multinomial" (independent records).
            seed: the same seed gives the same records.

        Raises:
            ArgumentError: `n` is not an integer of at least 0, or there is no such method.
        """
        from pgmest.sampling import default_size

        size = default_size(self, n)
        check_records(size, 8)
        generator = np.random.default_rng(seed)
        rows = sampled_rows(self.weights / self.total, size, method, generator)
        records = self.records.take(rows)
        return Dataset(self.domain, records.columns, records.records)

    def sample_batches(
        self,
        n: int | None = None,
        batch: int | None = None,
        method: str = "round",
        seed: int | np.random.Generator | None = None,
    ) -> Iterator[Dataset]:
        """Synthetic records a batch at a time; arguments as for `sample`."""
        from pgmest.sampling import BATCH
        from pgmest.sampling.sampler import at_least

        size, records = at_least("batch", BATCH if batch is None else batch, 1), self.sample(n, method, seed)
        return (records.take(slice(start, start + size)) for start in range(0, records.records, size))

    def save(self, path: str | Path) -> None:
        """Write the support, the potentials, the total and the report to an npz file, which `pg.load` reads.

        Raises:
            FileFormatError: the file cannot be written; what was there before is untouched.
        """
        from pgmest.prior.support_file import save

        save(self, path)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.support, self.potentials, self.total, self.report, self.total_stddev, self.measurements)
        return SupportModel, fields

    def __repr__(self) -> str:
        spread = f" (standard error {self.total_stddev:,.3g})" if self.total_stddev is not None else ""
        lines = [
            f"SupportModel: {self.total:,.1f} records{spread}, {plural(len(self.domain), 'attribute')}, "
            f"{plural(len(self.cliques), 'measured clique')}",
            f"  support      {plural(len(self.support), 'distinct record')}, "
            f"effectively {self.effective_size:,.1f} after reweighting",
        ]
        if self.report is not None:
            lines += [
                f"  estimate     {line}" if i == 0 else f"               {line}"
                for i, line in enumerate(str(self.report).splitlines())
            ]
        return "\n".join(lines)


def answered(records: Dataset, query: Kron) -> np.ndarray:
    """The answer of weighted records: from the marginal, or record by record where that would be much larger."""
    if math.prod(query.columns) <= max(SPARSE_CELLS, records.records):
        return query.apply_cells(records.project(query.attributes).values)
    assert records.weights is not None
    columns = [(factor.matrix(), records.column(name)) for name, factor in query.factors.items()]
    answer = np.zeros(query.rows)
    block = max(1, BLOCK_ENTRIES // query.rows)
    for start in range(0, records.records, block):
        rows = slice(start, start + block)
        products = np.ones((1, len(records.weights[rows])))
        for matrix, codes in columns:  # the rows of the Kronecker product, at the cells of these records only
            products = (products[:, None, :] * matrix[:, codes[rows]][None, :, :]).reshape(-1, products.shape[1])
        answer += products @ records.weights[rows]
    return answer.reshape(query.shape)


def sampled_rows(p: np.ndarray, n: int, method: str, generator: np.random.Generator) -> np.ndarray:
    """n positions in random order, position i expected n p[i] times.

    "round" is systematic sampling: the cumulative expectations, shifted by one random number, are rounded down. Every
    stretch of consecutive positions then occurs as often as expected to within one.
    """
    if method == "multinomial":
        counts = generator.multinomial(n, p / math.fsum(p))
    elif method == "round":
        cumulative = np.cumsum(p)
        cumulative *= n / cumulative[-1]
        cumulative[-1] = n
        counts = np.diff(np.floor(cumulative + generator.random()), prepend=0.0).astype(np.int64)
    else:
        raise ArgumentError.of("method", method, ("round", "multinomial"))
    return generator.permutation(np.repeat(np.arange(len(p)), counts))
