"""ModelBase: what a model of any kind does with its marginals: many at once, answers to queries, and its text.

A kind of model gives its marginals, and may do better than what follows from these here: `Model` answers a Kron by
variable elimination, `SupportModel` from its records. What callers may rely on is `EstimatedModel` (protocol.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from pgmest._base.errors import ArgumentError, QueryError, plural
from pgmest._base.html import html_text
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LARGEST_ANSWER, LinearMeasurement
from pgmest.queries import Kron, LinearQuery, as_query
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.solvers.report import EstimationReport


class ModelBase(ABC):
    """A model of all attributes, and a number of records. Answers are in counts.

    Attributes:
        domain: all the attributes.
        total: the number of records.
        total_stddev: the standard error of `total`; None where it is known, or nothing is known of it.
        report: how the model was estimated, where it was.
    """

    domain: Domain
    total: float
    total_stddev: float | None = None
    report: EstimationReport | None = None

    @property
    def about(self) -> Mapping[str, Any]:
        """What is known of how it came about, as values of JSON, kept in its file: "schema" and "privacy", if any."""
        return self.__dict__.get("_about", {})

    def describe(self, **facts: Any) -> None:
        """Put facts into `about`; they must be public, and values of JSON."""
        object.__setattr__(self, "_about", {**self.about, **facts})

    @property
    def no_error_bars(self) -> str:
        """Why it has no error bars, where a file or a pickle could not keep what they need; else empty."""
        return self.__dict__.get("_no_error_bars", "")

    def without_error_bars(self, reason: str) -> None:
        """Note why it has no error bars."""
        object.__setattr__(self, "_no_error_bars", reason)

    def _noted(self) -> dict[str, Any]:
        """What was said of it besides its parts: pickles keep it, too."""
        return {name: self.__dict__[name] for name in ("_about", "_no_error_bars") if name in self.__dict__}

    # -- what each kind of model gives ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""

    @abstractmethod
    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """The marginal on any attributes, measured or not, in counts; axes in the order asked for.

        Args:
            attributes: one name or several; () for the total.
            given: attribute -> code, for other attributes: the counts of the records with these codes only.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: attributes that are none, or named twice.
            CodeRangeError, QueryError: evidence that is no code, or on attributes asked for.
            ModelTooLarge: the marginal, or every way to it, has too many cells.
        """

    @abstractmethod
    def sample(
        self, n: int | None = None, method: str = "round", seed: int | np.random.Generator | None = None
    ) -> Dataset:
        """Synthetic records, as `Distribution.sample` says.

        Raises:
            QueryError: the model is no distribution to draw from.
        """

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the model to an npz file, which `pg.load` reads; measurements are left out.

        Raises:
            FileFormatError: the file cannot be written; what was there before is untouched.
        """

    def _facts(self) -> Iterator[tuple[str, str]]:
        """What is printed of it: a name and a line each."""
        return iter(())

    # -- queries ----------------------------------------------------------------------------------------------------

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """The marginals on many sets of attributes, in counts.

        Raises:
            UnknownAttributeError, DuplicateAttributeError, ModelTooLarge: as for `project`.
        """
        return [self.project(clique) for clique in cliques]

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        """The answers to checked Krons, in counts, for checked evidence; `answer` is for everything else."""
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
        """The answers to linear queries, in counts (PGM Algorithm 3).

        A `Model` answers a Kron by variable elimination over its factors and the query's matrices, without
        materializing the marginal that it is about. A list of them shares work.

        >>> import pgmest as pg
        >>> model = pg.Model(pg.CliqueVector.zeros(pg.Domain({"age": 3, "sex": 2}), [("age", "sex")]), total=60)
        >>> model.answer(pg.Kron({"sex": [[1, -1]], "age": pg.queries.prefix(3)})).values.round(6)
        array([[0., 0., 0.]])
        >>> model.answer(pg.queries.prefix(3), "age").values.round(6)
        array([20., 40., 60.])

        Args:
            query: a Kron, or a list of them; or a LinearMeasurement, of which the query is taken; or with `clique` a
                query matrix: a `pgmest.queries` query, array, sparse matrix or LinearOperator; one row may be a vector.
            clique: the attributes that a query matrix is about, a column for each of their cells, row-major.
            given: attribute -> code, for other attributes: only records with these codes count.

        Returns:
            for a Kron a Factor with one axis per attribute, as long as its matrix has rows; for a matrix one axis,
            named after the clique.

        Raises:
            QueryError: a query that does not fit, evidence on attributes asked about, or neither Kron nor clique.
            UnknownAttributeError, DuplicateAttributeError, CodeRangeError: attributes or codes that do not exist.
            ModelTooLarge: the answer, or every way to it, has too many cells.
        """
        if clique is None and isinstance(query, LinearMeasurement):
            if query.query is None:
                return self.project(query.clique, given)
            query, clique = query.query, query.clique if query.query.attributes is None else None
        if clique is None and names_attributes(query):
            return self._answer_krons([query], given)[0]
        if clique is None and isinstance(query, list | tuple) and all(map(names_attributes, query)):
            return self._answer_krons(query, given)
        if clique is None or names_attributes(query) or isinstance(query, LinearMeasurement):
            raise QueryError(
                f"a query of type {type(query).__name__} {'without' if clique is None else 'with'} clique= cannot be "
                "answered: give a pg.Kron, a list of these, or a query matrix and the clique= that it is about."
            )
        return self._answer_matrix(query, self.domain.clique(clique), given)

    def _answer_krons(self, queries: Sequence[Kron], given: Mapping[str, int] | None) -> list[Factor]:
        for query in queries:
            query.check(self.domain)
        evidence = checked_evidence(self.domain, given, (name for query in queries for name in query.attributes))
        axes = [tuple(zip(query.attributes, query.answer_shape, strict=True)) for query in queries]
        domains = {names: Domain(dict(names)) for names in set(axes)}  # thousands of queries have few among them
        answers = self.answer_krons(queries, evidence)
        return [Factor.owning(domains[names], values) for names, values in zip(axes, answers, strict=True)]

    def _answer_matrix(self, matrix: Any, clique: Clique, given: Mapping[str, int] | None) -> Factor:
        one_row = not isinstance(matrix, LinearQuery) and np.ndim(matrix) == 1
        query = as_query([matrix] if one_row else matrix)
        query.check(self.domain, clique)
        return Factor.owning(
            {",".join(clique) or "total": query.rows}, query.answer(self.project(clique, given), clique)
        )

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


def names_attributes(query: Any) -> bool:
    """Whether it is a query that says itself which attributes it is about: a Kron."""
    return isinstance(query, LinearQuery) and query.attributes is not None


def checked_total(total: Any) -> float:
    """The number of records.

    Raises:
        ArgumentError: it is not a positive number.
    """
    if isinstance(total, bool) or not 0 < total <= LARGEST_ANSWER:
        raise ArgumentError.of("total", total, "a positive number of records")
    return float(total)
