"""SupportModel: a distribution over public records, which `estimate` returns if the prior is a support."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pgmest._base.memory import check_records
from pgmest._base.npz import floats
from pgmest.data.codes import read_only
from pgmest.data.counting import cell_numbers
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DomainError, MeasurementError, plural
from pgmest.inference.support.support import Support, record_keys
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.base import checked_total
from pgmest.models.distribution import Distribution
from pgmest.models.files import dataset_tree, facts_tree, read_dataset, read_facts, read_vector, vector_tree
from pgmest.queries import Kron
from pgmest.sampling.controlled import controlled_counts
from pgmest.sampling.facts import Facts, facts_scale, held_facts, warn_of_unmet
from pgmest.sampling.systematic import systematic
from pgmest.solvers.report import EstimationReport, MaybeNone
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence, checked_likelihoods, impossible_evidence, unlikely
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.models.exact import Model

SPARSE_CELLS = 1 << 20
"""A marginal with more cells than this, and more than there are records, is not materialized to answer a query."""

BLOCK_ENTRIES = 1 << 20
"""The entries of the queries' rows at the records that are computed at a time."""

UNNOTICED = 1e-9
"""A model that gives records outside a support less probability than this in total counts as being inside."""


@dataclass(frozen=True, eq=False, repr=False)
class SupportModel(Distribution):
    r"""$p(i) \propto w_i \exp(\sum_C \theta_C(x_{i,C}))$ over the records $x_i$ of a support, and a number of records.

    It answers as a `pg.Model` does, in counts. Answers are computed from the records and their new weights, which the
    first question finds; each marginal is then a pass over the records. Synthetic records are records of the support.
    With "round" each occurs its expected number of times, rounded up or down, and so does each range of their
    lexicographic order, unless they hold exact answers; with "multinomial" they are independent.

    >>> support = Support(Dataset.from_codes(np.array([[0, 0], [1, 0], [1, 1]]), {"a": 2, "b": 2}))
    >>> theta = CliqueVector(support.domain, {("a",): np.log([1.0, 2.0])})
    >>> SupportModel(support, theta, total=50).project(("b",)).values.round(6)
    array([30., 20.])

    Args:
        support: the records and their prior weights.
        potentials: theta; -inf excludes records.
        total: the number of records that the distribution describes.
        report: how the estimate was found and how good it is.
        total_stddev: the standard error of `total`; None if the total is known, or its error unknown.
        measurements: the measurements from which the model was estimated.
        facts: the exact answers that records hold; by default those among the measurements.

    Raises:
        MeasurementError: a potential is NaN or +inf.
        ArgumentError: the potentials are over another domain, or `total` is negative or no number.
    """

    refittable_by: ClassVar[str] = "pgmest.estimate(measurements, domain), without a support as prior,"

    support: Support
    potentials: CliqueVector
    total: float
    report: EstimationReport | MaybeNone = None
    total_stddev: float | None = None
    measurements: tuple[LinearMeasurement, ...] | None = None
    facts: tuple[Facts, ...] | None = None
    _records: Dataset | None = field(default=None, init=False)
    _probabilities: np.ndarray | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        if self.potentials.domain != self.support.domain:
            raise ArgumentError("the potentials are over another domain than the support; make them over the same.")
        if self.potentials.flat.size and not self.potentials.flat.max() < np.inf:
            raise MeasurementError("the potentials hold NaN or +inf; only finite values and -inf are meaningful.")
        object.__setattr__(self, "total", checked_total(self.total))

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        """All attributes."""
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
        from pgmest.inference.support.support_oracle import SupportOracle

        with self._lock:
            if self._records is None:
                oracle = SupportOracle(self.support, self.potentials.layout)
                p = read_only(oracle.probabilities(self.potentials.flat))
                object.__setattr__(self, "_probabilities", p)
                object.__setattr__(self, "_records", self.support.weighted(p * self.total))
            assert self._records is not None
            return self._records

    @property
    def probabilities(self) -> np.ndarray:
        """The probability of each record of the support, shape (len(support),).

        Raises:
            ImpossibleModelError: the potentials exclude every record.
        """
        assert self.records is not None  # computes both
        assert self._probabilities is not None
        return self._probabilities

    @property
    def weights(self) -> np.ndarray:
        """The expected number of records at each record of the support, shape (len(support),); they sum to `total`."""
        weights = self.records.weights
        assert weights is not None
        return weights

    @property
    def row_weights(self) -> np.ndarray:
        """The new weight of each row of the table from which the support was made, in its order, shape (rows,).

        Rows of the same record share the record's new weight in the ratio of their old weights.
        """
        return self.weights[self.support.rows] * self.support.row_shares

    @property
    def counted(self) -> float:
        """The number of records from which the support was made."""
        return float(max(len(self.support.rows), 1))

    @property
    def reweighted(self) -> Support:
        """The support with the new weights: the prior of a further estimate that is to stay close to this one."""
        return Support(self.records if self.total > 0 else self.support.weighted(self.probabilities))

    @property
    def effective_size(self) -> float:
        """Kish's effective number of records, 1 / sum p^2: close to 1 if a handful of records has all the weight."""
        return float(1.0 / np.sum(self.probabilities**2))

    @property
    def marginals(self) -> CliqueVector:
        """The marginals on the measured cliques, in counts."""
        return CliqueVector(self.domain, {clique: self.project(clique) for clique in self.cliques})

    # -- queries ----------------------------------------------------------------------------------------------------

    def _project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        names = self.domain.clique(attributes)
        return self._given(checked_evidence(self.domain, given, names)).project(names)

    def _project_many(self, cliques: Sequence[Clique]) -> list[Factor]:
        return self.records.project_many(cliques)

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        records = self._given(evidence)
        return [answered(records, query) for query in queries]

    def _given(self, evidence: Mapping[str, int]) -> Dataset:
        """Return the records with these codes."""
        records = self.records
        if not evidence:
            return records
        chosen = np.ones(records.records, dtype=bool)
        for name, code in evidence.items():
            chosen &= records.column(name) == code
        return records.take(chosen)

    def condition(self, evidence: Mapping[str, int]) -> SupportModel:
        """Return the model of the records with given codes, over the other attributes.

        Its total is the expected number of these records.

        Raises:
            ImpossibleModelError: the evidence has probability 0.
            UnknownAttributeError, CodeRangeError: the evidence names an unknown attribute, or a code out of range.
        """
        known = checked_evidence(self.domain, evidence)
        share = SupportModel(self.support, self.potentials, 1.0)._given(known)
        if not share.total > 0:
            raise impossible_evidence(known)
        records = share.select(name for name in self.domain if name not in known)
        made = SupportModel(Support(records), CliqueVector.zeros(records.domain, []), share.total * self.total)
        return made.conditioned_on(self, known)

    def with_likelihood(self, likelihoods: Mapping[str, np.ndarray]) -> SupportModel:
        """Return the model of records that are kept with a probability that depends on single attributes.

        See `Model.with_likelihood`, whose errors may be raised.
        """
        known = checked_likelihoods(self.domain, likelihoods)
        kept, records = self.probabilities.copy(), self.records
        for name, values in known.items():
            kept *= values[records.column(name)]
        share = float(kept.sum())
        if not share > 0:
            raise unlikely(known)
        rows = kept > 0
        chosen = Dataset.from_codes(list(records.take(rows).columns), self.domain, kept[rows] / share)
        made = SupportModel(Support(chosen), CliqueVector.zeros(self.domain, []), min(share, 1.0) * self.total)
        return made.about_as(self)

    # -- information ------------------------------------------------------------------------------------------------

    def log_prob(self, records: Dataset) -> np.ndarray:
        """Return the natural log of each record's probability, -inf outside the support; shape (records,).

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
            return np.where(known[places] == asked, np.log(self.probabilities[places]), -np.inf)

    def entropy(self) -> float:
        """Return -E[log p], in nats."""
        p = self.probabilities
        return -float(np.sum(p * np.log(p, out=np.zeros_like(p), where=p > 0)))

    def kl(self, other: Distribution | Support) -> float:
        """Return KL(p || q) to a distribution q, or to a support's own weights, in nats; inf if q excludes a record.

        Raises:
            DomainError: the two are over different attributes.
            ArgumentError: a model of another kind, which has tables but no joint distribution.
        """
        if other is self.support:
            logs = self.support.log_weights
        else:
            if isinstance(other, Support):
                other = SupportModel(other, CliqueVector.zeros(other.domain, []), 1.0)
            if not hasattr(other, "log_prob"):
                raise ArgumentError.of("other", type(other).__name__, "a Model, SupportModel or BayesianNetwork")
            if dict(other.domain) != dict(self.domain):
                raise DomainError("the models are over different attributes, so they have no divergence.")
            logs = other.log_prob(self.records)  # type: ignore[attr-defined]
        p = self.probabilities
        return max(0.0, -self.entropy() - float(np.sum(np.where(p > 0, p * np.where(p > 0, logs, 0.0), 0.0))))

    def kl_from(self, other: Model) -> float:
        """Return KL(other || self): inf unless the support contains all possible records of `other`, with weight.

        Records outside the support to which `other` gives a probability of less than 1e-9 in total are ignored.

        Raises:
            DomainError: the two are over different attributes.
        """
        if dict(other.domain) != dict(self.domain):
            raise DomainError("the models are over different attributes, so they have no divergence.")
        records = self.records.select(other.domain) if other.domain != self.domain else self.records
        p = np.exp(other.log_prob(records))
        if p.sum() < 1 - UNNOTICED:
            return math.inf
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities)
        return max(0.0, -other.entropy() - float(np.sum(np.where(p > 0, p * np.where(p > 0, logs, 0.0), 0.0))))

    def map_record(self) -> dict[str, int]:
        """Return a most probable record, as attribute -> code."""
        place = int(np.argmax(self.probabilities))
        return {name: int(self.records.column(name)[place]) for name in self.domain}

    # -- records and files ------------------------------------------------------------------------------------------

    def _drawn(self, n: int, method: str, seed: int | np.random.Generator | None) -> Dataset:
        """Draw n records; see the class."""
        check_records(n, 8)
        generator = np.random.default_rng(seed)
        facts = self.held_facts() if method == "round" and self.total > 0 else ()
        rows = self._rows_with(facts, n, generator) if facts else sampled_rows(self.probabilities, n, method, generator)
        records = self.records.take(rows)
        return Dataset(self.domain, records.columns, records.records)

    def held_facts(self) -> tuple[Facts, ...]:
        """Return the exact answers that records hold."""
        return held_facts(self.measurements or ()) if self.facts is None else self.facts

    def _rows_with(self, facts: Sequence[Facts], n: int, generator: np.random.Generator) -> np.ndarray:
        """Draw n positions in random order, as "round", such that the records hold facts."""
        about = [(one, self._cells(one.clique)) for one in facts]
        counts, unmet = controlled_counts(self.probabilities, about, n, facts_scale(n, self.total), generator)
        warn_of_unmet(unmet, n)
        return generator.permutation(np.repeat(np.arange(len(counts)), counts))

    def _cells(self, clique: Clique) -> np.ndarray:
        """Return the row-major cell of each record in the table of a clique."""
        if not clique:
            return np.zeros(len(self.support), dtype=np.int64)
        return cell_numbers([self.records.column(name) for name in clique], [self.domain[name] for name in clique])

    def _saved(self) -> dict[str, Any]:
        codes = dataset_tree(self.support.codes, len(self.support), self.domain)
        records = {"codes": codes, "weights": self.support.weights, "facts": facts_tree(self.held_facts())}
        return {**vector_tree(self.potentials), **records}

    @classmethod
    def _of_saved(cls, domain: Domain, tree: Mapping[str, Any]) -> Self:
        support = Support(read_dataset(domain, tree["codes"], floats(tree["weights"])))
        potentials, fitted = read_vector(domain, tree), (tree["total"], tree["report"], tree["total_stddev"])
        return cls(support, potentials, *fitted, facts=read_facts(domain, tree))

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.support, self.potentials, self.total, self.report, self.total_stddev, self.measurements)
        return SupportModel, (*fields, self.facts), self._noted()

    def _facts(self) -> Iterator[tuple[str, str]]:
        effective = f"effectively {self.effective_size:,.1f} after reweighting"
        yield "support", f"{plural(len(self.support), 'distinct record')}, {effective}"


def answered(records: Dataset, query: Kron) -> np.ndarray:
    """Return the answer of weighted records, from the marginal, or record by record if the marginal is much larger."""
    if query.cells <= max(SPARSE_CELLS, records.records):
        return query.apply(records.project(query.attributes).values)
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
    return answer.reshape(query.answer_shape)


def sampled_rows(p: np.ndarray, n: int, method: str, generator: np.random.Generator) -> np.ndarray:
    """Draw n positions in random order, position i n p[i] times in expectation; "round" is systematic sampling."""
    if method == "multinomial":
        counts = generator.multinomial(n, p / math.fsum(p))
    elif method == "round":
        counts = systematic(p, n, generator)
    else:
        raise ArgumentError.of("method", method, ("round", "multinomial"))
    return generator.permutation(np.repeat(np.arange(len(p)), counts))
