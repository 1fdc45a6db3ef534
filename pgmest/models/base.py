"""ModelBase: the methods that every kind of model builds on its marginals: queries, intervals and text.

A kind of model gives its marginals and may override what follows from them: `Model` answers a Kron by variable
elimination, `SupportModel` from its records. Callers may rely on `EstimatedModel` (protocol.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np

from pgmest._base.html import html_text
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, QueryError, plural
from pgmest.measurements.measurement import LARGEST_ANSWER, LinearMeasurement
from pgmest.models.question import Question, names_attributes
from pgmest.queries import Kron
from pgmest.solvers.report import EstimationReport
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import check_given
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.analyses.sampled_tables import SampledTables
    from pgmest.measurements.known_errors import KnownErrors
    from pgmest.models.intervals import Interval
    from pgmest.models.uncertainty import Uncertainty
    from pgmest.solvers.report import MaybeNone


class ModelBase(ABC):
    """A model of all attributes, and a number of records. Answers are in counts.

    Attributes:
        domain: all attributes.
        total: the number of records.
        total_stddev: the standard error of `total`; None if the total is known, or its error unknown.
        report: the report of the estimation, if there was one.
    """

    domain: Domain
    total: float
    total_stddev: float | None = None
    report: EstimationReport | MaybeNone = None

    refittable_by: ClassVar[str] = ""
    """The call that makes a `Model`, which has error bars, of the same answers; empty for a kind that has them."""

    @property
    def about(self) -> Mapping[str, Any]:
        """The public facts about the model's origin, kept in its file as JSON.

        These are "schema" and "privacy", if any; "rows_counted", a sentence on the rows that are counted, if a limit
        leaves others out; and "evidence": the codes on which the model was conditioned.
        """
        return self.__dict__.get("_about", {})

    def describe(self, **facts: Any) -> None:
        """Add facts to `about`; they must be public, and JSON values."""
        object.__setattr__(self, "_about", {**self.about, **facts})

    def conditioned_on(self, other: ModelBase, evidence: Mapping[str, int]) -> Self:
        """Return this model with the facts about another one, from which it was made by conditioning on evidence."""
        self.describe(**{**other.about, "evidence": {**other.evidence, **evidence}})
        return self

    def about_as(self, other: ModelBase) -> Self:
        """Return this model with the facts about another one of the same attributes."""
        self.describe(**other.about)
        return self

    @property
    def rows_counted(self) -> str:
        """A sentence on the rows that are counted, if a limit of the schema leaves others out; otherwise empty."""
        noted = self.about.get("rows_counted", "")
        return noted if isinstance(noted, str) else ""  # a file may hold anything

    @property
    def evidence(self) -> Mapping[str, int]:
        """The codes of other attributes on which the model was conditioned; all of its records have them."""
        noted = self.about.get("evidence", {})
        codes = noted.items() if isinstance(noted, dict) else ()  # a file may hold anything
        return {name: code for name, code in codes if type(code) is int and name not in self.domain}

    @property
    def no_error_bars(self) -> str:
        """The reason why a model from a file or a pickle has no error bars; empty if it has them."""
        return self.__dict__.get("_no_error_bars", "")

    def without_error_bars(self, reason: str) -> None:
        """Note why the model has no error bars."""
        object.__setattr__(self, "_no_error_bars", reason)

    @property
    def counted(self) -> float:
        """The number of records of which the model's tables are counts; inf for a model without records."""
        return np.inf

    @property
    def known_errors(self) -> KnownErrors | None:
        """The noisy answers behind the model and what else is known of its errors; None if nothing is.

        A mechanism notes them; otherwise they are the measurements of an estimate.
        """
        noted = self.__dict__.get("_known_errors")
        measurements = getattr(self, "measurements", None)
        if noted is not None or not measurements:
            return noted
        from pgmest.measurements.known_errors import KnownErrors

        selections = getattr(self, "selections", ())
        return KnownErrors(tuple(measurements), self.total_stddev or 0.0, records=self.counted, selections=selections)

    def knows(self, known: KnownErrors) -> Self:
        """Note the noisy answers behind the model, from which its intervals are made; return the model."""
        object.__setattr__(self, "_known_errors", known)
        object.__setattr__(self, "_error_model", None)
        return self

    def _noted(self) -> dict[str, Any]:
        """Return the noted facts and reasons, which pickles keep besides the fields."""
        names = ("_about", "_no_error_bars", "_known_errors")
        return {name: self.__dict__[name] for name in names if name in self.__dict__}

    def with_constants(self, domain: Domain) -> Self:
        """Return the model over a domain that has further attributes of one code; no answer changes."""
        return replace(self, domain=domain)  # type: ignore[type-var]

    # -- what each kind of model gives ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""

    @abstractmethod
    def _project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """Return a marginal, as `project`, of attributes without levels."""

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """Return the marginal on any attributes, measured or not, in counts, with axes in the order of `attributes`.

        Args:
            attributes: one name or several; () for the total. A level of an attribute whose hierarchy the domain knows
                is named as in "diagnosis@chapter".
            given: attribute or level -> code, for other attributes: count only the records with these codes.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: an attribute is not in the domain, or is named twice.
            CodeRangeError, QueryError: a given code is out of range, or of an attribute in `attributes`.
            ModelTooLarge: the marginal, or every way to compute it, has too many cells.
        """
        check_given(given)
        if self.domain.hierarchies and isinstance(attributes, Iterable):
            attributes = (attributes,) if isinstance(attributes, str) else tuple(attributes)
            if self.domain.names_levels((*attributes, *(given or ()))):
                return Question.of(self.domain, attributes, None, given).answered(self)
        return self._project(attributes, given)

    @abstractmethod
    def sample(
        self, n: int | None = None, method: str = "round", seed: int | np.random.Generator | None = None
    ) -> Dataset:
        """Draw synthetic records, as `Distribution.sample`.

        Raises:
            QueryError: the model is no distribution.
        """

    saved_report: ClassVar[type[EstimationReport]] = EstimationReport
    """The kind of report in its file."""

    @abstractmethod
    def _saved(self) -> dict[str, Any]:
        """Return the entries of this kind of model in a file: JSON values and arrays (`pgmest.models.files`)."""

    @classmethod
    @abstractmethod
    def _of_saved(cls, domain: Domain, tree: Mapping[str, Any]) -> Self:
        """Return the model that `_saved` described; `tree` has all entries of the file, whose report is read already.

        Raises:
            Unreadable, PgmestError, KeyError, TypeError, ...: the description is wrong.
        """

    def saved(self) -> dict[str, Any]:
        """Return all entries of the model in a file: JSON values and arrays."""
        from pgmest.models.files import model_tree

        return model_tree(self)

    @classmethod
    def of_saved(cls, tree: Mapping[str, Any]) -> Self:
        """Return the model that `saved` described; errors as for `_of_saved`."""
        from pgmest.models.files import model_of_tree

        return model_of_tree(cls, tree)

    def save(self, path: str | Path) -> None:
        """Write the model, with the noisy answers behind it, to an npz file, which `pg.load` reads.

        Exact answers, which records hold, are always kept. Error bars need all measurements. They are left out if the
        estimate used the caller's own loss or solver; the loaded model then gives that reason when it is asked for
        error bars.

        Raises:
            FileFormatError: the file cannot be written. An earlier file is left unchanged.
        """
        from pgmest.models.files import save

        save(path, self)

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Yield the facts in the model's text, each a name and a line."""
        return iter(())

    # -- queries ----------------------------------------------------------------------------------------------------

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """Return the marginals on many sets of attributes, in counts.

        Raises:
            UnknownAttributeError, DuplicateAttributeError, ModelTooLarge: as for `project`.
        """
        wanted = [(clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques]
        if not self.domain.hierarchies or not any(map(self.domain.names_levels, wanted)):
            return self._project_many(wanted)
        plain = [clique for clique in wanted if not self.domain.names_levels(clique)]
        found = iter(self._project_many(plain))
        return [self.project(clique) if self.domain.names_levels(clique) else next(found) for clique in wanted]

    def _project_many(self, cliques: Sequence[Clique]) -> list[Factor]:
        """Return the marginals of cliques without levels; a kind of model may compute many together."""
        return [self._project(clique) for clique in cliques]

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        """Return the answers to checked Krons given checked evidence, in counts; `answer` calls it."""
        return [query.apply(self.project(query.attributes, evidence).values) for query in queries]

    @overload
    def answer(
        self, query: Sequence[Kron], clique: None = None, given: Mapping[str, int] | None = None
    ) -> list[Factor]: ...

    @overload
    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Factor: ...

    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Factor | list[Factor]:
        """Return the answers to linear queries, in counts (PGM Algorithm 3).

        A `Model` answers a Kron by variable elimination over its factors and the query's matrices, without
        materializing the marginal. The Krons of a list share work.

        >>> import pgmest as pg
        >>> model = pg.Model(pg.CliqueVector.zeros(pg.Domain({"age": 3, "sex": 2}), [("age", "sex")]), total=60)
        >>> model.answer(pg.Kron({"sex": [[1, -1]], "age": pg.queries.prefix(3)})).values.round(6)
        array([[0., 0., 0.]])
        >>> model.answer(pg.queries.prefix(3), "age").values.round(6)
        array([20., 40., 60.])

        Args:
            query: a Kron or a list of Krons; or a LinearMeasurement, for its query; or, with `clique`, a query matrix:
                a `pgmest.queries` query, array, sparse matrix or LinearOperator. A single row may be a vector.
            clique: the attributes of a query matrix, which has a column for each of their cells, row-major. Cliques
                and Krons may name levels of attributes, as for `project`.
            given: attribute or level -> code, for other attributes: count only the records with these codes.

        Returns:
            for a Kron, a Factor with an axis for each attribute, whose length is the number of rows of its matrix; for
            a matrix, a Factor with one axis, named after the clique.

        Raises:
            QueryError: a query that does not fit, evidence on its attributes, or a matrix without `clique`.
            UnknownAttributeError, DuplicateAttributeError, CodeRangeError: an attribute or a code does not exist.
            ModelTooLarge: the answer, or every way to compute it, has too many cells.
        """
        if clique is None and isinstance(query, list | tuple) and all(map(names_attributes, query)):
            return self._answer_krons(query, given)
        if (clique is None) != (names_attributes(query) or isinstance(query, LinearMeasurement)):
            raise QueryError(
                f"a query of type {type(query).__name__} {'without' if clique is None else 'with'} clique= cannot be "
                "answered: give a pg.Kron, a list of Krons, or a query matrix with the clique= of its columns."
            )
        return Question.of(self.domain, query, clique, given).answered(self)

    def _answer_krons(self, queries: Sequence[Kron], given: Mapping[str, int] | None) -> list[Factor]:
        questions = [Question.of(self.domain, query, None, given) for query in queries]
        if not questions:
            return []
        answers = self.answer_krons([question.query for question in questions], questions[0].evidence)
        return [
            Factor.owning(question.axes, values.reshape(question.axes.shape))
            for question, values in zip(questions, answers, strict=True)
        ]

    def interval(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        level: float = 0.95,
        kind: Literal["auto", "errors", "noise", "bounds"] = "auto",
        about: Literal["table", "population"] = "table",
    ) -> Interval:
        """Return the ends of an answer, in counts, as `pgmest.interval`, which explains the arguments.

        Args:
            query, clique, given: as for `answer`, one query; or attributes, for their marginal; or a function.
            level: the probability that goes with the ends.
            kind: "errors" (noise, shrinkage and dependence that was not measured), "noise" (standard errors from fresh
                noise), "bounds" (all compatible tables), or "auto".
            about: the "table" that was measured, or the "population" from which it was drawn.

        Raises:
            ArgumentError: this kind of model has no intervals, the model has lost its measurements, or an argument is
                not valid.
            QueryError, UnknownAttributeError, ...: as for `answer` and `project`.
        """
        from pgmest.models.error_bars import interval

        return interval(self, query, clique, given, level=level, kind=kind, about=about)

    def uncertainty(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Uncertainty:
        """Return the standard error of an answer from drawn errors, as the intervals of kind "errors".

        Args:
            query, clique, given: as for `interval`.

        Raises:
            ArgumentError, QueryError, UnknownAttributeError, ...: as for `interval`.
        """
        from pgmest.models.errors.drawn_intervals import drawn_answers

        return drawn_answers(self, query, clique, given).uncertainty()

    def sample_tables(
        self,
        m: int,
        n: int | None = None,
        *,
        attributes: Iterable[str] | str | None = None,
        about: Literal["table", "population"] | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> SampledTables[Dataset]:
        """Draw m synthetic tables for analyses whose results `pg.combine` joins, without any chains.

        Each table differs from the model as the true table may: by the noise of the answers, by what shrinkage takes
        off, and by dependence of pairs that were not measured. The same analysis of each table, such as a regression,
        then has a standard error that covers all of them. Dependence of three attributes that was not measured is that
        of the model in every table.

        Args:
            m: the number of tables; 20 give intervals that are 5 % wider than those of many.
            n: the number of records of each table; by default the number of the draw, about the model's total.
            attributes: the attributes that the analysis reads; by default all. With few, tables are drawn faster, and
                unmeasured dependence between many others cannot disturb them.
            about: "population": independent records, for the default rule of `combine`; "table": records as close to
                the draw as whole numbers can be, for the rule "multiple_imputation". The default is "population", or
                "table" if there are exact answers, which independent records would not have.
            seed: the same seed gives the same tables.

        Raises:
            ArgumentError: the model does not know the answers from which it was made, `m` or `n` is not a number of at
                least 1, or `about` is neither kind.
            UnknownAttributeError, DuplicateAttributeError: an attribute is not in the domain, or is named twice.
        """
        from pgmest.models.synthetic_tables.draw import sample_tables_of

        return sample_tables_of(self, m, n, attributes=attributes, about=about, seed=seed)

    # -- text -------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        return html_text(repr(self))

    def __repr__(self) -> str:
        spread = f" (standard error {self.total_stddev:,.3g})" if self.total_stddev is not None else ""
        lines = [
            f"{type(self).__name__}: {self.total:,.1f} records{spread}, {plural(len(self.domain), 'attribute')}, "
            f"{plural(len(self.cliques), 'measured clique')}",
            *(f"  {name:<12} {text}" for name, text in self._facts()),
        ]
        found = [] if self.report is None else str(self.report).splitlines()
        return "\n".join([*lines, *(f"  {'' if place else 'estimate':<12} {line}" for place, line in enumerate(found))])


def checked_total(total: Any) -> float:
    """Return the number of records as a float.

    Raises:
        ArgumentError: it is not a number of at least 0.
    """
    if isinstance(total, bool) or not 0 <= total <= LARGEST_ANSWER:
        raise ArgumentError.of("total", total, "a number of records, at least 0")
    return float(total)
