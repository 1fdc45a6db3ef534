"""What a mechanism returns: its model, what was spent and measured, and what its run reports."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pgmest._base.errors import ArgumentError, QueryError, plural
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.base import names_attributes
from pgmest.privacy.ledger import Statement
from pgmest.queries import Kron
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.mechanisms.mechanism import Mechanism
    from pgmest.models.uncertainty import Uncertainty


class ModelLike(Protocol):
    """What a mechanism makes: a `Model`, or anything with marginals in counts and records."""

    def project(self, attributes: Any, /) -> Factor:
        """The marginal of these attributes, in counts."""
        ...

    def sample(self, n: int | None = None, *, seed: int | np.random.Generator | None = None) -> Dataset:
        """Synthetic records; by default as many as the estimated total."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What `run` returns where a mechanism has more to report than its model.

    Attributes:
        model: the model.
        details: anything public about the run, under names of the mechanism's own; `Result.details`.
    """

    model: Any
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnerOnly:
    """What depends on the records without protection, and so is for their owner alone. No copy or file keeps it.

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
    """What a mechanism returns; everything in it may be published, except `owner_only`, which no copy or pickle keeps.

    Attributes:
        model: the model, usually a `pgmest.Model`.
        ledger: what was spent, on what, in order.
        measurements: the noisy answers, in order.
        domain: the attributes.
        mechanism: the mechanism, with its parameters.
        interrupted: whether Ctrl-C or the time limit ended the run early.
        details: what the mechanism reports of its run.
        owner_only: how long it took, which may depend on the records.
    """

    model: Any
    ledger: Statement
    measurements: tuple[LinearMeasurement, ...]
    domain: Domain
    mechanism: Mechanism
    interrupted: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    owner_only: OwnerOnly = field(default_factory=OwnerOnly)

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", dict(self.details))

    @property
    def seconds(self) -> float:
        """Deprecated: `owner_only.seconds`, which must not be published."""
        message = "Result.seconds depends on the records: it is now result.owner_only.seconds, for their owner alone"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.owner_only.seconds or 0.0

    def project(self, attributes: Iterable[str] | str) -> Factor:
        """The estimated marginal, in counts.

        Raises:
            UnknownAttributeError: an attribute that the domain does not have.
        """
        return self.model.project(self.domain.clique(attributes))

    def answer(self, query: Kron) -> Factor:
        """The estimated answers to a factored query, in counts; `Model.answer` takes other queries, too.

        Raises:
            QueryError: another kind of query, for a model that is no `pgmest.Model`.
        """
        if hasattr(self.model, "answer"):
            return self.model.answer(query)
        if not names_attributes(query):
            raise QueryError(f"a {type(self.model).__name__} answers a pg.Kron only, got a {type(query).__name__}.")
        shape = dict(zip(query.attributes, query.answer_shape, strict=True))
        return Factor(shape, query.apply(self.model.project(query.attributes)))

    def uncertainty(self, query: Any, **options: Any) -> Uncertainty:
        """Standard errors and intervals of an answer: as `Model.uncertainty`, whose options it takes.

        They cover the noise of what was measured, not the choice of what to measure, nor dependences that were not.

        Raises:
            ArgumentError: the model is of a kind that has no error bars; or as `Model.uncertainty`.
        """
        if not hasattr(self.model, "uncertainty"):
            raise ArgumentError(f"a {type(self.model).__name__} has no error bars; a pgmest.Model has.")
        return self.model.uncertainty(query, **options)

    def sample(self, n: int | None = None, seed: int | np.random.Generator | None = None) -> Dataset:
        """Synthetic records; by default as many as the model's estimated total, never the true number."""
        return self.model.sample(n, seed=seed)

    def __str__(self) -> str:
        early = ", interrupted" if self.interrupted else ""
        return (
            f"{type(self.mechanism).__name__}: {plural(len(self.measurements), 'measurement')}{early}\n"
            f"{self.ledger}\n{self.model!r}"
        )

    __repr__ = __str__
