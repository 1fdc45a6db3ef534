"""Model: what estimation returns, a distribution over all attributes that answers any query about the data."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pgmest._base.errors import ArgumentError, MeasurementError, count_text, listed, memory_text, plural
from pgmest.data.dataset import Dataset
from pgmest.graph.junction_tree import JunctionTree
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.archive import MEASURED_MODEL, MODEL, write_model
from pgmest.models.base import checked_total
from pgmest.models.distribution import Distribution
from pgmest.models.information import entropy, kl_divergence, log_probabilities
from pgmest.queries import Kron
from pgmest.solvers.report import EstimationReport
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence, impossible, restrict
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.inference.exact.belief_propagation import ExactOracle
    from pgmest.inference.exact.plan import Plan
    from pgmest.inference.marginals.calibrated_tree import CalibratedTree
    from pgmest.measurements.selection import PaidSelection
    from pgmest.models.intervals import Interval
    from pgmest.models.posterior import InteractionPrior, NormalPrior, Posterior
    from pgmest.models.uncertainty import Replicates, Uncertainty
    from pgmest.solvers.refit import Refit


@dataclass(frozen=True, eq=False, repr=False)
class Model(Distribution):
    """p(x) = exp(sum_C theta_C(x_C) - A) over all attributes, and a number of records.

    `estimate` makes it. Nothing is computed before it is asked for; then one run of the oracle is kept, and several
    threads may ask at the same time. Answers are in counts: expected numbers of records.

    >>> theta = CliqueVector(Domain({"a": 2, "b": 2}), {("a", "b"): np.log([[1, 3], [2, 2]])})
    >>> Model(theta, total=80).project(("b",)).values.round(6)
    array([30., 50.])

    Args:
        potentials: theta, the log-potentials on the measured cliques; -inf marks impossible cells.
        total: the number of records.
        report: how the estimate was found and how good it is.
        total_stddev: the standard error of `total`; None where it is known, or nothing is known of it.
        measurements: what the model was estimated from.
        plan: the inference plan of the potentials' cliques, where one is at hand.
        refit: how to estimate again from other answers; `estimate` gives it, and `uncertainty` needs it.
        selections: which marginals a mechanism paid to compare with its models, and did not choose: for posteriors.

    Raises:
        MeasurementError: a potential is NaN or +inf.
        ArgumentError: `total` is not a positive number.
    """

    potentials: CliqueVector
    total: float
    report: EstimationReport | None = None
    total_stddev: float | None = None
    measurements: tuple[LinearMeasurement, ...] | None = None
    plan: Plan | None = None
    refit: Refit | None = None
    selections: tuple[PaidSelection, ...] = ()
    _calibrated: CalibratedTree | None = field(default=None, init=False)
    _replicates: Replicates | None = field(default=None, init=False)
    _posterior: Posterior | None = field(default=None, init=False)
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
        """All the attributes."""
        return self.potentials.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return self.potentials.cliques

    @property
    def junction_tree(self) -> JunctionTree:
        """The tree on which everything is computed; printing it shows the cost."""
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

    def _compiled(self) -> Plan:
        """The plan, made at the first call; under the lock only."""
        from pgmest.inference.exact.plan import Plan

        if self.plan is None:
            object.__setattr__(self, "plan", Plan.of(self.potentials.layout))
        assert self.plan is not None
        return self.plan

    @property
    def oracle(self) -> ExactOracle:
        """The oracle after its run with total 1; one thread at a time may use it."""
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

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        from pgmest.inference.marginals.variable_elimination import eliminate

        names = self.domain.clique(attributes)
        values = eliminate(self.calibrated, dict.fromkeys(names), checked_evidence(self.domain, given, names))
        return Factor.owning(self.domain.project(names), values * self.total)

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """The marginals on many sets of attributes, in counts; far cheaper than one after the other.

        The tables may be parts of larger arrays; copy the few that are to be kept for long.

        Raises:
            UnknownAttributeError, DuplicateAttributeError, ModelTooLarge: as for `project`.
        """
        from pgmest.inference.marginals.propagation import propagate

        names = [self.domain.clique(clique) for clique in cliques]
        tables = propagate(self.calibrated, names, self.total)
        return [Factor.owning(self.domain.project(clique), table) for clique, table in zip(names, tables, strict=True)]

    def datavectors(self, cliques: Iterable[Clique]) -> list[np.ndarray]:
        """The same marginals as `project_many`, each as its cells, row-major, shape (cells,); not to be written to.

        Raises:
            UnknownAttributeError, DuplicateAttributeError, ModelTooLarge: as for `project`.
        """
        from pgmest.inference.marginals.propagation import propagate_cells

        return propagate_cells(self.calibrated, [self.domain.clique(clique) for clique in cliques], self.total)

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        from pgmest.inference.marginals.batches import answer_all

        return [values * self.total for values in answer_all(self.calibrated, queries, evidence)]

    def condition(self, evidence: Mapping[str, int]) -> Model:
        """The model of the records with given codes, over the other attributes; its total is their number.

        Raises:
            ImpossibleModelError: the evidence has probability 0.
            UnknownAttributeError, CodeRangeError: evidence that names no attribute, or is no code.
        """
        known = checked_evidence(self.domain, evidence)
        total = float(self.project((), known))
        if total <= 0:
            raise impossible(known)
        return Model(restrict(self.potentials, known), total)

    # -- uncertainty ------------------------------------------------------------------------------------------------

    def uncertainty(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        replicates: int = 50,
        seed: int = 0,
    ) -> Uncertainty:
        """Standard errors and intervals of answers, from the noise of the measurements; see `pgmest.uncertainty`.

        Models are estimated again from answers of this one with fresh noise; the first call pays for them all, and
        later ones with the same `replicates` and `seed` only ask them.

        They are about noise alone. Where attributes depend on each other in ways that were not measured, answers about
        these are off by an amount that no error bar shows: trust it for what was measured and what follows from that.

        Args:
            query: as for `answer`, but one query only; or attributes, for their marginal; or a function that makes a
                Factor or a number of a Model, such as `lambda model: model.conditional("income", "sex")`.
            clique, given: as for `answer` and `project`.
            replicates: how many models. Standard errors are themselves off by a share of about sqrt(1 / 2 replicates).
            seed: of the fresh noise.

        Raises:
            ArgumentError: the model was not made by `estimate`, or its loss holds the answers itself.
            QueryError, UnknownAttributeError, ...: as for `answer` and `project`.
        """
        from pgmest.models.uncertainty import Uncertainty, ask, check_replicates, replicate

        check_replicates(replicates)
        answer = ask(self, query, clique, given)
        found = self._replicates  # kept, so that the next query need not wait
        if found is None or (found.asked, found.seed) != (replicates, seed):
            found = replicate(self, self.refit, self.measurements, replicates, seed)
            object.__setattr__(self, "_replicates", found)
        plan = self.refit.plan if self.refit is not None else None
        twins = (Model(potentials, total, plan=plan) for potentials, total in found.estimates)
        return Uncertainty.of(answer, [ask(twin, query, clique, given) for twin in twins])

    def posterior(
        self,
        draws: int = 1000,
        seed: int = 0,
        *,
        chains: int = 4,
        warm_up: int = 200,
        prior: NormalPrior | InteractionPrior | None = None,
        method: Literal["auto", "laplace", "hmc"] = "auto",
    ) -> Posterior:
        """Models that the answers allow, as draws from a posterior distribution; see `pgmest.models.posterior`.

        The likelihood is that of each measurement's own noise, whatever loss the estimate had. Structural zeros and a
        `prior=` of the estimate stay. The total is a parameter, too, unless `estimate` was given it.

        Args:
            draws: how many to keep, over all chains. Its report says how many independent ones they are worth.
            seed: the same seed gives the same draws.
            chains: how many, each in a thread.
            warm_up: transitions of each chain that tune it, and are not kept.
            prior: of potentials and total; by default `InteractionPrior()`.
            method: "laplace": normal around the mode, exact where noise is small against every count that matters;
                "hmc": Hamiltonian Monte Carlo, exact up to Monte Carlo error; "auto" takes the first where a test says
                that it holds.

        Raises:
            ArgumentError: the model was not made by `estimate`, or numbers that are not valid.
        """
        from pgmest.models.posterior.density import PosteriorDensity, check_answers
        from pgmest.models.posterior.draw import check_settings, draw
        from pgmest.models.posterior.posterior import Posterior
        from pgmest.models.posterior.prior import InteractionPrior
        from pgmest.models.posterior.strength import learn_strengths

        check_settings(draws, chains, warm_up, method)
        refit, measurements = check_answers(self.refit, self.measurements)
        prior = InteractionPrior() if prior is None else prior
        density = PosteriorDensity.around(self, refit, measurements, prior)
        found = draw(density, draws, chains, warm_up, method, seed)
        learn = partial(learn_strengths, refit, measurements, self.total, _drawn_model)
        made = Posterior(found.points, density, found.report, _drawn_model, seed, learn, self.selections)
        object.__setattr__(self, "_posterior", made)  # for intervals
        return made

    def interval(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        level: float = 0.95,
        kind: Literal["auto", "noise", "posterior", "bounds"] = "auto",
        about: Literal["table", "population"] = "table",
    ) -> Interval:
        """The ends of an answer, in counts; the guide on answers says which kind to publish.

        - "noise": the estimate, plus and minus its standard error from the noise (`uncertainty`).
        - "posterior": credible intervals of the posterior last drawn (`posterior`; without one the first call pays for
          a thousand draws). For attributes not measured together dependence is drawn, too, as strong as that of
          measured cliques.
        - "bounds": the least and the largest value in any table that is compatible with the measurements (`bounds`).
        - "auto": "posterior" where the measurements say enough: where one measured clique holds all attributes of the
          query, or all were measured and three or more cliques tell how dependent attributes are; else "bounds". The
          `kind` and `basis` of the answer say what it is.

        Args:
            query, clique, given: as for `answer`, one query; or attributes, for their marginal; or, but not for
                "bounds", a function: of a table of counts where `clique=` names its attributes, else of a model.
            level: the probability that goes with the ends.
            kind: see above.
            about: the "table" that was measured, or the "population" that it was drawn from ("posterior" only).

        Raises:
            ArgumentError: the model was not made by `estimate`, a kind or level that is not valid, or, for "auto", a
                function of a model: nobody can tell whether what it reads was measured.
            QueryError, UnknownAttributeError, ...: as for `answer` and `project`.
        """
        from pgmest.models.intervals import Interval, check_kind, check_level

        check_kind(kind)
        check_level(level)
        if kind not in ("posterior", "auto") and about != "table":
            raise ArgumentError.of("about", about, f"'table': intervals of kind {kind!r} are about nothing else")
        if kind == "bounds":
            return self.bounds(query, clique, given, level=level)
        if kind == "noise":
            return Interval(*self.uncertainty(query, clique, given).interval(level), level, kind, basis="replicates")
        if kind == "auto" and about == "table" and not self._tells_of(query, clique, given):
            return self.bounds(query, clique, given, level=level)
        if self._posterior is None:
            self.posterior()
        assert self._posterior is not None
        return self._posterior.interval(query, clique, given, level=level, about=about)

    def _tells_of(self, query: Any, clique: Any, given: Mapping[str, int] | None) -> bool:
        """Whether the measurements say enough of a query for a posterior to hold.

        Raises:
            ArgumentError: a function of a model.
        """
        from pgmest.models.posterior.density import check_answers
        from pgmest.models.posterior.strength import FEWEST_CLIQUES, is_table
        from pgmest.models.posterior.table_query import attributes_of

        _, measurements = check_answers(self.refit, self.measurements)
        names = attributes_of(query, clique, self.domain)
        if names is None:
            raise ArgumentError(
                "nobody can tell what a function of a model reads, so its kind of interval cannot be chosen: name its "
                "attributes by clique= and make it a function of their table, or choose kind= yourself."
            )
        wanted, whole = {*names, *(given or ())}, {frozenset(m.clique) for m in measurements}
        several = {frozenset(m.clique) for m in measurements if is_table(m)}
        known = wanted <= frozenset().union(*whole)
        if any(wanted <= one for one in whole) or (known and len(several) >= FEWEST_CLIQUES):
            return True
        if callable(query):
            raise ArgumentError(
                f"the measurements do not tell how {', '.join(sorted(wanted))} depend on each other, and there are no "
                'bounds of functions: ask for the bounds of a marginal, or choose kind="posterior" and what it assumes.'
            )
        return False

    def bounds(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        level: float = 0.95,
        max_megabytes: float = 100.0,
    ) -> Interval:
        """The least and the largest answer that any table compatible with the measurements gives, in counts.

        Nothing of the model is assumed but its structural zeros and a total that was given: these are bounds, proven by
        the duals of linear programs over the junction tree's tables (`pgmest.models.bounds`), and as wide as what was
        not measured leaves them. Compatible are tables whose true answers lie between the ends that were published, and
        inside boxes around noisy answers that hold all of them at once with probability `level`.

        Args:
            query, clique, given: as for `answer` and `project`, one query.
            level: of the boxes; without noise it does not matter.
            max_megabytes: refuse junction trees whose tables would need more.

        Raises:
            InconsistentMeasurementsError: no table is compatible; it names answers that contradict each other.
            ArgumentError: the model was not made by `estimate`, or nothing bounds the number of records.
            ModelTooLarge: the tables of the query and the measurements together need too much memory.
            QueryError, UnknownAttributeError, ...: as for `answer` and `project`.
        """
        from pgmest.models.bounds.bounds import TableBounds, check_bounded

        check_bounded(self.refit, self.measurements)
        assert self.refit is not None
        assert self.measurements is not None
        total = self.refit.objective.total if isinstance(self.refit.objective.total, int | float | np.number) else None
        compatible = TableBounds(
            self.measurements,
            self.domain,
            level=level,
            total=None if total is None else float(total),
            zeros=self.refit.start,
            max_megabytes=max_megabytes,
        )
        return compatible.of(query, clique, given)

    # -- information ------------------------------------------------------------------------------------------------

    def log_prob(self, records: Dataset) -> np.ndarray:
        """The natural log of each record's probability, -inf where it is impossible; shape (records,).

        Raises:
            DomainError: the records lack an attribute of the model, or have it with another number of values.
        """
        return log_probabilities(self.calibrated, records)

    def entropy(self) -> float:
        """-E[log p], in nats."""
        return entropy(self.calibrated)

    def kl(self, other: Distribution) -> float:
        """KL(p || q) = E_p[log p - log q] to another model q, in nats; inf where q excludes a possible record of p.

        Args:
            other: a model with a joint distribution: a Model, SupportModel or BayesianNetwork.

        Raises:
            DomainError: the models are over different attributes.
            ArgumentError: a model of another kind, which has tables but no joint distribution.
        """
        if not hasattr(other, "kl_from"):
            raise ArgumentError.of("other", type(other).__name__, "a Model, SupportModel or BayesianNetwork")
        return other.kl_from(self)  # type: ignore[attr-defined]

    def kl_from(self, other: Model) -> float:
        """KL(other || self): see `kl`."""
        return kl_divergence(other.calibrated, self.calibrated)

    def map_record(self) -> dict[str, int]:
        """A most probable record, attribute -> code."""
        calibrated = self.calibrated
        with calibrated.lock:
            return calibrated.oracle.map_record(self.potentials.flat)

    # -- records and files ------------------------------------------------------------------------------------------

    def _drawn(self, n: int, method: str, seed: int | np.random.Generator | None) -> Dataset:
        from pgmest.sampling import Sampler

        return Sampler(self.oracle).draw(n, method, seed)

    def _drawn_in_batches(
        self, n: int, batch: int, method: str, seed: int | np.random.Generator | None
    ) -> Iterator[Dataset]:
        from pgmest.sampling import Sampler

        return Sampler(self.oracle).batches(n, batch, method, seed)

    def save(self, path: str | Path) -> None:
        """Write the potentials, the total, the report and what the model was estimated from to an npz file for `load`.

        What it was estimated from, which the error bars need, is left out where a loss or solver of one's own was used;
        the loaded model then says so where it is asked for them.

        Raises:
            FileFormatError: the file cannot be written; what was there before is untouched.
        """
        from pgmest.models.measured import measured_parts

        parts = measured_parts(self)
        if isinstance(parts, str):
            write_model(path, MODEL, self, {"no_error_bars": parts}, potentials=self.potentials.flat)
        else:
            more, base, answers = parts
            write_model(path, MEASURED_MODEL, self, more, potentials=self.potentials.flat, base=base, answers=answers)

    def __reduce__(self) -> tuple[Any, ...]:
        refit = self.refit if self.refit is not None and self.refit.picklable else None
        kept = (self.potentials, self.total, self.report, self.total_stddev, self.measurements, self.plan, refit)
        return _unpickled, (kept, self._noted(), self.refit is not None and refit is None)

    def _facts(self) -> Iterator[tuple[str, str]]:
        tree = self.junction_tree
        yield "attributes", listed((f"{name} ({size})" for name, size in self.domain.items()), 8)
        yield "cliques", listed((" x ".join(clique) or "()" for clique in self.cliques), 4)
        size = f"{count_text(tree.total_cells)} cells ({memory_text(8 * tree.total_cells)})"
        yield "tree", f"{plural(len(tree.cliques), 'clique')}, treewidth {tree.treewidth}, {size}"


def _unpickled(kept: tuple[Any, ...], noted: dict[str, Any], own_loss: bool) -> Model:
    model = Model(*kept)
    for name, value in noted.items():
        object.__setattr__(model, name, value)
    if own_loss:
        model.without_error_bars("it was estimated with a loss of its own, which a pickle leaves out")
    return model


def _drawn_model(potentials: CliqueVector, total: float, plan: Plan) -> Model:
    """A draw of a posterior."""
    return Model(potentials, total, plan=plan)
