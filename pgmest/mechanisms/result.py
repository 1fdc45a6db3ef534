"""Result: the model of a mechanism with its ledger, its measurements, and the report of its run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, QueryError, plural
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.base import ModelBase
from pgmest.models.question import names_attributes
from pgmest.models.refittable import estimated_from
from pgmest.privacy.ledger import Statement
from pgmest.queries import Kron
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.analyses.sampled_tables import SampledTables
    from pgmest.mechanisms.mechanism import Mechanism
    from pgmest.models.intervals import Interval
    from pgmest.models.uncertainty import Uncertainty


@dataclass(frozen=True)
class Outcome:
    """The return value of `Mechanism.run` if the mechanism reports more than its model.

    Attributes:
        model: the model.
        details: public facts about the run, by names that the mechanism chooses; they become `Result.details`.
    """

    model: Any
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnerOnly:
    """Facts that depend on the records without protection, for the owner of the records only. No copy keeps them.

    Attributes:
        seconds: wall-clock time; None in a copy.
    """

    seconds: float | None = None

    def __reduce__(self) -> Any:
        return OwnerOnly, ()

    def __repr__(self) -> str:
        return "OwnerOnly(not to be published)"


@dataclass(frozen=True, eq=False)
class Result:
    """The result of `Mechanism.fit`. All of it may be published, except `owner_only`, which copies and pickles drop.

    Attributes:
        model: the model, usually a `pgmest.Model`.
        ledger: the charges of the run, in order, with the promise.
        measurements: the noisy answers, in order.
        domain: the attributes.
        mechanism: the mechanism with its parameters and the neighboring relation of the run.
        interrupted: whether Ctrl-C or the time limit ended the run early.
        details: the report of the mechanism on its run.
        owner_only: the wall-clock time, which may depend on the records.
        invariants: the answers that are exact and not protected.
    """

    model: Any
    ledger: Statement
    measurements: tuple[LinearMeasurement, ...]
    domain: Domain
    mechanism: Mechanism
    interrupted: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    owner_only: OwnerOnly = field(default_factory=OwnerOnly)
    invariants: tuple[LinearMeasurement, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", dict(self.details))

    def project(self, attributes: Iterable[str] | str) -> Factor:
        """Return the estimated marginal, in counts.

        Raises:
            UnknownAttributeError: if the domain does not have one of the attributes.
        """
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        return self.model.project(names if self.domain.names_levels(names) else self.domain.clique(names))

    def answer(self, query: Kron) -> Factor:
        """Return the estimated answers to a factored query, in counts; a `Model` takes other queries, too.

        Raises:
            QueryError: if the query is of another kind and the model is not a `pgmest.Model`.
        """
        if hasattr(self.model, "answer"):
            return self.model.answer(query)
        if not names_attributes(query):
            raise QueryError(f"a {type(self.model).__name__} answers a pg.Kron only, got a {type(query).__name__}.")
        shape = dict(zip(query.axes, query.answer_shape, strict=True))
        return Factor(shape, query.apply(self.model.project(query.attributes)))

    def interval(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        **options: Any,
    ) -> Interval:
        """Return the ends of an answer, in counts, as `pgmest.interval`, with its arguments.

        They account for the noise of the measurements, for shrinkage, and for dependence that was not measured.

        Raises:
            ArgumentError: if the model is not one of pgmest's; or as for `pgmest.interval`.
            QueryError, UnknownAttributeError, ...: as for `Model.answer` and `Model.project`.
        """
        return self._with_errors("interval").interval(query, clique, given, **options)

    def uncertainty(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        **options: Any,
    ) -> Uncertainty:
        """Return the standard errors of an answer, in counts, from drawn errors, as the intervals of `interval`.

        With the options of `Model.uncertainty`, such as `replicates=`, they come from models that are estimated again,
        and account for the noise of the measurements only.

        Raises:
            ArgumentError: if the model is not one of pgmest's; or as for `interval` or `Model.uncertainty`.
        """
        if options:
            if isinstance(self.model, ModelBase):
                estimated_from(self.model, "replicates")
            return self._with_errors("uncertainty").uncertainty(query, clique, given, **options)
        from pgmest.models.errors.drawn_intervals import drawn_answers

        return drawn_answers(self._with_errors("interval"), query, clique, given).uncertainty()

    def _with_errors(self, method: str) -> Any:
        if not hasattr(self.model, method):
            raise ArgumentError(f"a {type(self.model).__name__} has no {method}(...); a model of pgmest has.")
        return self.model

    def sample(self, n: int | None = None, seed: int | np.random.Generator | None = None) -> Dataset:
        """Return synthetic records; by default as many as the model's estimated total, never the true number."""
        return self.model.sample(n, seed=seed)

    def sample_tables(
        self,
        m: int,
        n: int | None = None,
        *,
        attributes: Iterable[str] | str | None = None,
        about: Literal["table", "population"] | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> SampledTables[Dataset]:
        """Draw m synthetic tables for analyses whose results `combine` joins with valid standard errors.

        Arguments and errors as for `Model.sample_tables`. One synthetic table alone, of `sample`, has standard errors
        that leave out the noise and all that was not measured.

        Raises:
            ArgumentError: if the model does not know the answers from which it was made; or as for
                `Model.sample_tables`.
        """
        if not isinstance(self.model, ModelBase):
            raise ArgumentError(f"a {type(self.model).__name__} has no such tables; the models of pgmest have.")
        return self.model.sample_tables(m, n, attributes=attributes, about=about, seed=seed)

    def __str__(self) -> str:
        early = ", interrupted" if self.interrupted else ""
        return (
            f"{type(self.mechanism).__name__}: {plural(len(self.measurements), 'measurement')}{early}\n"
            f"{self.ledger}\n{self.model!r}"
        )

    __repr__ = __str__
