"""Model: a distribution over all attributes as a graphical model, which `estimate` returns."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pgmest._base.widths import joined, shortened
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, ImpossibleModelError, MeasurementError, count_text, listed, memory_text, plural
from pgmest.graph.junction_tree import JunctionTree
from pgmest.measurements.known_errors import KnownErrors
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.base import checked_total
from pgmest.models.distribution import Distribution
from pgmest.models.files import facts_tree, read_distances, read_facts, read_vector, vector_tree
from pgmest.models.information import entropy, kl_divergence, log_probabilities
from pgmest.models.refittable import KeptDraws
from pgmest.queries import Kron
from pgmest.sampling.facts import Facts, held_facts
from pgmest.solvers.report import EstimationReport, MaybeNone
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence, checked_likelihoods, impossible_evidence, restrict, unlikely
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.inference.exact.belief_propagation import ExactOracle
    from pgmest.inference.exact.propagation_plan import PropagationPlan
    from pgmest.inference.marginals.calibrated_tree import CalibratedTree
    from pgmest.measurements.selection import PaidSelection
    from pgmest.models.intervals import Interval
    from pgmest.models.uncertainty import Uncertainty
    from pgmest.solvers.refit import Refit


@dataclass(frozen=True, eq=False, repr=False)
class Model(Distribution):
    """p(x) = exp(sum_C theta_C(x_C) - A) over all attributes, and a number of records.

    `estimate` makes it. The first question runs the oracle, whose result is kept; several threads may ask at the same
    time. Answers are in counts: expected numbers of records.

    >>> theta = CliqueVector(Domain({"a": 2, "b": 2}), {("a", "b"): np.log([[1, 3], [2, 2]])})
    >>> Model(theta, total=80).project(("b",)).values.round(6)
    array([30., 50.])

    Args:
        potentials: theta, the log-potentials on the measured cliques; -inf marks impossible cells.
        total: the number of records.
        report: how the estimate was found and how good it is.
        total_stddev: the standard error of `total`; None if the total is known, or its error unknown.
        measurements: the measurements from which the model was estimated.
        plan: the potentials' cliques and their junction tree, if it exists already.
        refit: the recipe that estimates again from other answers; `estimate` gives it, and error bars need it.
        selections: the marginals that a mechanism paid to compare with its models and did not choose; intervals use
            them.
        facts: the exact answers that records hold; by default those among the measurements.

    Raises:
        MeasurementError: a potential is NaN or +inf.
        ArgumentError: `total` is negative or no number.
    """

    potentials: CliqueVector
    total: float
    report: EstimationReport | MaybeNone = None
    total_stddev: float | None = None
    measurements: tuple[LinearMeasurement, ...] | None = None
    plan: PropagationPlan | None = None
    refit: Refit | None = None
    selections: tuple[PaidSelection, ...] = ()
    facts: tuple[Facts, ...] | None = None
    _calibrated: CalibratedTree | None = field(default=None, init=False)
    kept: KeptDraws = field(default_factory=KeptDraws, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        if self.potentials.flat.size and not self.potentials.flat.max() < np.inf:
            raise MeasurementError("the potentials hold NaN or +inf; only finite values and -inf are meaningful.")
        object.__setattr__(self, "total", checked_total(self.total))
        if self.plan is not None and self.plan.layout != self.potentials.layout:
            raise ArgumentError("plan was made for other cliques than those of the potentials.")
        if self.measurements is not None:
            object.__setattr__(self, "measurements", tuple(self.measurements))

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        """All attributes."""
        return self.potentials.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return self.potentials.cliques

    def held_facts(self) -> tuple[Facts, ...]:
        """Return the exact answers that records hold, about tables inside cliques of the junction tree where possible.

        An attribute that determines others may replace them in the tree.
        """
        facts = held_facts(self.measurements or ()) if self.facts is None else self.facts
        collapse = None if self.refit is None else self.refit.collapse
        if collapse is None:
            return facts
        return tuple(one.substituted(self.domain, collapse.functions, self.junction_tree.cliques) for one in facts)

    @property
    def junction_tree(self) -> JunctionTree:
        """The junction tree on which the model computes; its text shows the cost."""
        with self._lock:
            return self._compiled().tree

    @property
    def calibrated(self) -> CalibratedTree:
        """The junction tree after one run of the oracle, with every clique's probabilities.

        Raises:
            ImpossibleModelError: no record is possible.
        """
        from pgmest.inference.marginals.calibrated_tree import CalibratedTree

        with self._lock:
            if self._calibrated is None:
                object.__setattr__(self, "_calibrated", CalibratedTree(self.potentials, self._compiled()))
            assert self._calibrated is not None
            return self._calibrated

    def _compiled(self) -> PropagationPlan:
        """Return the plan, which the first call makes; call it under the lock only."""
        from pgmest.inference.exact.propagation_plan import PropagationPlan

        if self.plan is None:
            object.__setattr__(self, "plan", PropagationPlan.of(self.potentials.layout))
        assert self.plan is not None
        return self.plan

    @property
    def oracle(self) -> ExactOracle:
        """The oracle after its run with total 1; only one thread at a time may use it."""
        return self.calibrated.oracle

    @property
    def log_partition(self) -> float:
        """A(theta) = log sum_x exp(sum_C theta_C(x_C))."""
        return self.calibrated.log_partition

    @property
    def marginals(self) -> CliqueVector:
        """The marginals on the measured cliques, in counts."""
        return self.calibrated.probabilities * self.total

    # -- queries ----------------------------------------------------------------------------------------------------

    def _project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        from pgmest.inference.marginals.variable_elimination import eliminate

        names = self.domain.clique(attributes)
        values = eliminate(self.calibrated, dict.fromkeys(names), checked_evidence(self.domain, given, names))
        return Factor.owning(self.domain.project(names), values * self.total)

    def _project_many(self, cliques: Sequence[Clique]) -> list[Factor]:
        """Return many marginals, far faster than one after the other; they may be parts of larger arrays."""
        from pgmest.inference.marginals.propagation import propagate

        names = [self.domain.clique(clique) for clique in cliques]
        tables = propagate(self.calibrated, names, self.total)
        return [Factor.owning(self.domain.project(clique), table) for clique, table in zip(names, tables, strict=True)]

    def datavectors(self, cliques: Iterable[Clique]) -> list[np.ndarray]:
        """Return the marginals of `project_many` as flat cells, row-major, shape (cells,); do not write to them."""
        from pgmest.inference.marginals.propagation import propagate_cells

        return propagate_cells(self.calibrated, [self.domain.clique(clique) for clique in cliques], self.total)

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        from pgmest.inference.marginals.batches import answer_all

        return [values * self.total for values in answer_all(self.calibrated, queries, evidence)]

    def condition(self, evidence: Mapping[str, int]) -> Model:
        """Return the model of the records with given codes, over the other attributes.

        Its total is the expected number of these records.

        Raises:
            ImpossibleModelError: the evidence has probability 0.
            UnknownAttributeError, CodeRangeError: the evidence names an unknown attribute, or a code out of range.
        """
        from pgmest.inference.marginals.variable_elimination import eliminate

        known = checked_evidence(self.domain, evidence)
        share = float(eliminate(self.calibrated, {}, known))
        if share <= 0:
            raise impossible_evidence(known)
        return Model(restrict(self.potentials, known), share * self.total).conditioned_on(self, known)

    def with_likelihood(self, likelihoods: Mapping[str, np.ndarray]) -> Model:
        """Return the model of records that are kept with a probability that depends on single attributes.

        This is conditioning on virtual evidence (Pearl 1988): the probability of a record x becomes proportional to
        p(x) prod_a L_a(x_a). With likelihoods of 0 and 1 it restricts attributes to sets of values. The total is the
        expected number of records that are kept.

        Args:
            likelihoods: attribute -> the probability to keep a record with each code, shape (values,), from 0 to 1.

        Raises:
            ImpossibleModelError: no record is kept.
            UnknownAttributeError, ShapeError, ArgumentError: an unknown attribute, or likelihoods that do not fit it.
        """
        known = checked_likelihoods(self.domain, likelihoods)
        tables = {factor.domain.attributes: factor.values for factor in self.potentials.values()}
        with np.errstate(divide="ignore"):
            for name, values in known.items():
                tables[(name,)] = tables.get((name,), 0.0) + np.log(values)
        made = Model(CliqueVector(self.domain, tables), 1.0)
        try:
            share = math.exp(min(made.log_partition - self.log_partition, 0.0))
        except ImpossibleModelError:
            raise unlikely(known) from None
        return Model(made.potentials, share * self.total, plan=made.plan).about_as(self)

    # -- uncertainty ------------------------------------------------------------------------------------------------

    def of_potentials(self, potentials: CliqueVector, total: float, plan: PropagationPlan) -> Model:
        """Return a model of these potentials, such as a replicate."""
        return Model(potentials, total, plan=plan, facts=self.held_facts())

    def uncertainty(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        replicates: int = 50,
        seed: int = 0,
    ) -> Uncertainty:
        """Return the standard error of an answer, from the noise of the measurements; see `pgmest.uncertainty`.

        Models are estimated again from this model's answers plus fresh noise. The first call estimates them all; later
        calls with the same `replicates` and `seed` only ask them.

        Standard errors cover the noise alone. If attributes depend on each other in ways that were not measured,
        answers about them are off by an amount that no standard error shows.

        Args:
            query: as for `answer`, but one query only; or attributes, for their marginal; or a function that makes a
                Factor or a number of a Model, such as `lambda model: model.conditional("income", "sex")`.
            clique, given: as for `answer` and `project`.
            replicates: the number of models. The relative error of a standard error is about sqrt(1 / (2 replicates)).
            seed: the seed of the fresh noise.

        Raises:
            ArgumentError: `estimate` did not make the model, or its loss contains the answers.
            QueryError, UnknownAttributeError, ...: as for `answer` and `project`.
        """
        from pgmest.models.uncertainty import uncertainty_of

        return uncertainty_of(self, query, clique, given, replicates=replicates, seed=seed)

    def bounds(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        level: float = 0.95,
        max_megabytes: float = 100.0,
    ) -> Interval:
        """Return the least and the largest answer that any table compatible with the measurements gives, in counts.

        Of the model, only its structural zeros and a total that was given are assumed. The bounds are proven by the
        duals of linear programs over the junction tree's tables (`pgmest.models.bounds`), and are as wide as
        unmeasured dependence makes them. A table is compatible if its true answers lie between the ends that were
        published, and inside boxes around the noisy answers that contain all of them at once with probability `level`.

        Args:
            query, clique, given: as for `answer` and `project`, one query.
            level: the probability of the boxes; irrelevant without noise.
            max_megabytes: refuse junction trees whose tables would need more.

        Raises:
            InconsistentMeasurementsError: no table is compatible; the error names answers that contradict each other.
            ArgumentError: `estimate` did not make the model, or nothing bounds the number of records.
            ModelTooLarge: the tables of the query and the measurements together need too much memory.
            QueryError, UnknownAttributeError, ...: as for `answer` and `project`.
        """
        from pgmest.models.bounds.bounds import bounds_of

        return bounds_of(self, query, clique, given, level=level, max_megabytes=max_megabytes)

    # -- information ------------------------------------------------------------------------------------------------

    def log_prob(self, records: Dataset) -> np.ndarray:
        """Return the natural log of each record's probability, -inf if it is impossible; shape (records,).

        Raises:
            DomainError: the records lack an attribute of the model, or have it with another number of values.
        """
        return log_probabilities(self.calibrated, records)

    def entropy(self) -> float:
        """Return -E[log p], in nats."""
        return entropy(self.calibrated)

    def kl(self, other: Distribution) -> float:
        """Return KL(p || q) = E_p[log p - log q] to another model q, in nats; inf if q excludes a possible record of p.

        Raises:
            DomainError: the models are over different attributes.
            ArgumentError: the other model is no Model, SupportModel or BayesianNetwork, so has no joint distribution.
        """
        if not hasattr(other, "kl_from"):
            raise ArgumentError.of("other", type(other).__name__, "a Model, SupportModel or BayesianNetwork")
        return other.kl_from(self)  # type: ignore[attr-defined]

    def kl_from(self, other: Model) -> float:
        """Return KL(other || self); see `kl`."""
        return kl_divergence(other.calibrated, self.calibrated)

    def map_record(self) -> dict[str, int]:
        """Return a most probable record, as attribute -> code."""
        calibrated = self.calibrated
        with calibrated.lock:
            return calibrated.oracle.map_record(self.potentials.flat)

    # -- records and files ------------------------------------------------------------------------------------------

    def _drawn(self, n: int, method: str, seed: int | np.random.Generator | None) -> Dataset:
        from pgmest.sampling import Sampler

        return Sampler(self.oracle, self.held_facts(), self.total).draw(n, method, seed)

    def _drawn_in_batches(
        self, n: int, batch: int, method: str, seed: int | np.random.Generator | None
    ) -> Iterator[Dataset]:
        from pgmest.sampling import Sampler

        return Sampler(self.oracle, self.held_facts(), self.total).batches(n, batch, method, seed)

    def _saved(self) -> dict[str, Any]:
        from pgmest.models.kept_estimate import estimate_tree

        return {**vector_tree(self.potentials), "facts": facts_tree(self.held_facts()), **estimate_tree(self)}

    @classmethod
    def _of_saved(cls, domain: Domain, tree: Mapping[str, Any]) -> Self:
        from pgmest.models.kept_estimate import read_estimate

        potentials, facts = read_vector(domain, tree), read_facts(domain, tree)
        if "estimate" not in tree:
            return cls(potentials, tree["total"], tree["report"], tree["total_stddev"], facts=facts)
        measurements, refit = read_estimate(potentials.layout, tree["estimate"])
        fitted = (tree["report"], tree["total_stddev"], measurements, refit.plan, refit)
        model, bounds = cls(potentials, tree["total"], *fitted, facts=facts), read_distances(domain, tree["bounds"])
        return model.knows(KnownErrors(measurements, model.total_stddev or 0.0, bounds=bounds)) if bounds else model

    def __reduce__(self) -> tuple[Any, ...]:
        refit = self.refit if self.refit is not None and self.refit.picklable else None
        kept = (self.potentials, self.total, self.report, self.total_stddev, self.measurements, self.plan, refit)
        kept += (self.selections, self.held_facts())
        return _unpickled, (kept, self._noted(), self.refit is not None and refit is None)

    def _facts(self) -> Iterator[tuple[str, str]]:
        tree = self.junction_tree
        yield "attributes", listed((f"{shortened(name)} ({size})" for name, size in self.domain.items()), 8)
        yield "cliques", listed((joined(clique, self.domain, " x ") for clique in self.cliques), 4)
        size = f"{count_text(tree.total_cells)} cells ({memory_text(8 * tree.total_cells)})"
        yield "tree", f"{plural(len(tree.cliques), 'clique')}, treewidth {tree.treewidth}, {size}"


def _unpickled(kept: tuple[Any, ...], noted: dict[str, Any], own_loss: bool) -> Model:
    model = Model(*kept)
    for name, value in noted.items():
        object.__setattr__(model, name, value)
    if own_loss:
        model.without_error_bars("it was estimated with the caller's own loss, which a pickle leaves out")
    return model
