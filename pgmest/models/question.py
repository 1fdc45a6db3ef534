"""Question: what is asked of a model, read once: every way of answering, with errors or without, starts from it.

A function such as `lambda model: model.conditional("income", "age")` reads a model by its marginals and answers. It is
called once on a model that notes the attributes, and is then a function of the table over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from scipy import sparse

from pgmest.errors import ArgumentError, QueryError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron, LinearQuery, MatrixQuery, as_query
from pgmest.queries.levels import level_kron, named_levels, split_evidence, without_levels
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import check_given, checked_evidence
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information

if TYPE_CHECKING:
    from pgmest.models.refittable import AnsweringModel

MOST_COEFFICIENTS = 5_000_000
"""Matrices with more coefficients are not read to find out whether these are whole numbers, or negative."""


@dataclass(frozen=True, eq=False)
class Question:
    """A query of a model on attributes alone, in which levels of hierarchies are resolved.

    Attributes:
        domain: all attributes of the model.
        query: a Kron, a matrix over the cells of `names`, a function, or None for the cells themselves.
        names: the attributes that the query reads, in the order of its columns. Those of a function of a model are
            known once it was `read_by` a model.
        axes: the axes of the answer; those of a function follow from its values.
        evidence: codes of other attributes: only records with these codes count.
        of_model: whether the query is a function of a model, and not of the table of `names`.
    """

    domain: Domain
    query: Any
    names: Clique
    axes: Domain
    evidence: Mapping[str, int] = field(default_factory=dict)
    of_model: bool = False

    @classmethod
    def of(
        cls,
        domain: Domain,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
    ) -> Question:
        """Read the arguments of `Model.answer`, or attributes, for their marginal, or a function.

        Raises:
            QueryError: a query that does not fit, or evidence on its attributes.
            ArgumentError: evidence for a function of a model, evidence that is no mapping, or a clique of no names.
            UnknownAttributeError, DuplicateAttributeError, CodeRangeError: an attribute or a code does not exist.
        """
        check_given(given)
        clique = as_clique(clique)
        if clique is None and isinstance(query, LinearMeasurement):
            query, clique = query.query, None if names_attributes(query.query) else query.clique
        elif clique is None and is_names(query):
            query, clique = None, query
        function = callable(query) and not hasattr(query, "matvec")
        if function and clique is None:
            if given:
                raise ArgumentError(
                    "given= does not reach into a function of a model: use given= where it asks the model."
                )
            return cls(domain, query, (), Domain({}), of_model=True)
        if isinstance(query, LinearMeasurement) or (clique is None) != names_attributes(query):
            raise QueryError(
                f"a query of type {type(query).__name__} {'without' if clique is None else 'with'} clique= cannot be "
                "answered: give one query at a time: attributes, a pg.Kron, a function, or a query matrix with the "
                "clique= of its columns."
            )
        found = cls._of_function(domain, query, clique) if function else cls._linear(domain, query, clique)
        if given and domain.names_levels(given):
            found, given = found._in_groups(given)
        return replace(found, evidence=checked_evidence(domain, given, found.names))

    @classmethod
    def _linear(cls, domain: Domain, query: Any, clique: Any) -> Question:
        """Read a Kron, attributes, or a matrix with its attributes."""
        if clique is not None and query is not None:
            one_row = not isinstance(query, LinearQuery) and np.ndim(query) == 1
            names = _attributes(domain, clique)
            query, _ = without_levels(domain, as_query([query] if one_row else query), clique)
            query.check(domain, names)
            return cls(domain, query, names, Domain({",".join(clique) or "total": query.rows}))
        if clique is not None and not domain.names_levels(clique):
            names = domain.clique(clique)
            return cls(domain, None, names, domain.project(names))
        kron: Any = query if clique is None else level_kron(domain, clique)
        axes = Domain(zip(kron.axes, kron.answer_shape, strict=True))
        if domain.hierarchies:
            kron, _ = without_levels(domain, kron)
        kron.check(domain)
        return cls(domain, kron, kron.attributes, axes)

    @classmethod
    def _of_function(cls, domain: Domain, function: Callable[[Factor], Any], clique: Any) -> Question:
        """Read a function of the table of a clique."""
        names = _attributes(domain, clique)
        if domain.names_levels(clique):
            return cls(domain, lambda table: function(table.project(clique)), names, Domain({}))
        return cls(domain, function, names, Domain({}))

    def _in_groups(self, given: Mapping[str, int]) -> tuple[Question, dict[str, int]]:
        """Return the question about the records in the given groups of levels alone, and the evidence on attributes."""
        rows, evidence = split_evidence(self.domain, given, self.names)
        assert rows is not None
        query: Any = level_kron(self.domain, self.names) if self.query is None else self.query
        if isinstance(query, MatrixQuery) and len(self.names) == 1:
            query = Kron([(self.names[0], query)])
        if isinstance(query, Kron):
            query = Kron([*query.factors.items(), *rows.factors.items()])
        elif isinstance(query, MatrixQuery):
            query = as_query(np.kron(query.matrix(), rows.matrix()))
        else:
            level = next(name for name in given if self.domain.names_levels(name))
            raise QueryError(
                f"'{level}' is given for a query of type {type(query).__name__}: give attributes, a pg.Kron, or a "
                "query matrix."
            )
        return replace(self, query=query, names=(*self.names, *rows.attributes)), evidence

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def is_function(self) -> bool:
        """True if the answer is not a linear function of a table."""
        return self.query is not None and not isinstance(self.query, LinearQuery)

    @property
    def factors(self) -> Mapping[str, MatrixQuery]:
        """The matrix of each attribute of a Kron; empty for other queries."""
        return self.query.factors if isinstance(self.query, Kron) else {}

    @property
    def is_nonnegative(self) -> bool:
        """True if no record lowers an answer, as far as that is known."""
        return all(matrix.min(initial=0.0) >= 0 for matrix in self._matrices()) and not self.is_function

    @property
    def is_whole(self) -> bool:
        """True if the answers are counts, or sums and differences of counts, so that they are whole numbers."""
        return all(np.array_equal(matrix, np.rint(matrix)) for matrix in self._matrices()) and not self.is_function

    def _matrices(self) -> Iterable[np.ndarray]:
        """Yield the coefficients of each matrix; a NaN in place of those of a large one."""
        for query in self.query.matrices if isinstance(self.query, LinearQuery) else ():
            small = query.rows * query.cells <= MOST_COEFFICIENTS
            yield np.asarray(query.matrix()) if small else np.full(1, np.nan)

    def rows(self) -> sparse.csr_array:
        """Return the coefficients of each cell of `names`, shape (answers, cells).

        Raises:
            QueryError: the query is a function.
        """
        if self.is_function:
            raise QueryError(
                "bounds exist for linear queries, one at a time: give attributes, a pg.Kron, or a query matrix with "
                "the clique= of its columns."
            )
        if self.query is None:
            return sparse.csr_array(sparse.eye_array(self.domain.size(self.names)))
        return self.query.sparse_rows()

    # -- answers ----------------------------------------------------------------------------------------------------

    def answered(self, model: AnsweringModel) -> Factor:
        """Return the answer of a model."""
        if self.of_model:
            return as_factor(self.query(model))
        if isinstance(self.query, Kron):
            values = model.answer_krons([self.query], self.evidence)[0]
            return Factor.owning(self.axes, values.reshape(self.axes.shape))
        table = model.project(self.names, self.evidence)
        return table if self.query is None else self.value(table.values)

    def value(self, table: np.ndarray) -> Factor:
        """Return the answer from the counts of `names` among the records with the given codes."""
        if not self.is_function:
            return Factor.owning(self.axes, self.apply(table[None])[0])
        counts = Factor.owning(self.domain.project(self.names), table)
        if self.of_model:
            counts = _ReadModel(self.domain, float(table.sum()), partial(_marginal, counts))
        return as_factor(self.query(counts))

    def apply(self, tables: np.ndarray) -> np.ndarray:
        """Return the answers of a linear query from many tables at once.

        Args:
            tables: the counts of `names` among the records with the given codes, shape (tables, *shape).

        Returns:
            an array of shape (tables, *shape of an answer).
        """
        if self.query is None:
            return tables
        if isinstance(self.query, Kron):
            return self.query.apply_many(tables).reshape(len(tables), *self.axes.shape)
        return self.query.apply(tables.reshape(len(tables), -1), axis=1)

    def parts(self, tables: np.ndarray, whole: Clique) -> np.ndarray:
        """Return the counts of `names` among the records with the given codes, for each of many tables.

        Args:
            tables: tables of `names` and the evidence, shape (tables, *shape).
            whole: the order of their axes.
        """
        found = tables[:, *(self.evidence.get(name, slice(None)) for name in whole)]
        left = [name for name in whole if name not in self.evidence]
        return found.transpose(0, *(left.index(name) + 1 for name in self.names))

    def read_by(self, model: AnsweringModel) -> Question:
        """Return the question with the attributes that a function of a model reads, found by calling it.

        Raises:
            ArgumentError: the function reads more than marginals and answers.
            QueryError, UnknownAttributeError, ...: it asks the model for something that does not fit.
        """
        if not self.of_model:
            return self
        read: set[str] = set()

        def noted(names: Clique, evidence: Mapping[str, int]) -> Factor:
            read.update(names, evidence)
            return model.project(names, evidence)

        self.query(_ReadModel(self.domain, model.total, noted))
        return replace(self, names=self.domain.ordered(read))


def as_clique(clique: Any) -> tuple[str, ...] | None:
    """Return the names of a clique as a tuple; None without a clique.

    Raises:
        ArgumentError: it is neither a name nor several.
    """
    if clique is not None and not isinstance(clique, Iterable):
        raise ArgumentError.of("clique", clique, "attributes: write level=, kind= and about= with their names")
    return (clique,) if isinstance(clique, str) else None if clique is None else tuple(clique)


def _attributes(domain: Domain, clique: Any) -> Clique:
    """Return the attributes that a clique names, itself or by their levels."""
    if domain.hierarchies and domain.names_levels(clique):
        return tuple(one.attribute for one in named_levels(domain, clique))
    return domain.clique(clique)


def names_attributes(query: Any) -> bool:
    """Return whether the query names its attributes itself, as a Kron does."""
    return isinstance(query, LinearQuery) and query.attributes is not None


def is_names(query: Any) -> bool:
    """Return whether a query consists of attributes, for their marginal."""
    names = (query,) if isinstance(query, str) else query
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)


def as_factor(found: Any) -> Factor:
    """Return the value of a function of a table or a model as a Factor.

    Raises:
        QueryError: it is neither a Factor nor a number nor a row of numbers.
    """
    if isinstance(found, Factor):
        return found
    wanted = "a function must make a Factor, a number or a row of numbers"
    try:
        values = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    if values is None or found is None or isinstance(found, str):
        raise QueryError(f"{wanted}, not {found!r:.60}.")
    if values.ndim > 1:
        raise QueryError(f"{wanted}, not an array of shape {values.shape}: return its ravel(), or a pg.Factor.")
    return Factor({} if values.ndim == 0 else {"answer": len(values)}, values)


# -- functions of a model ---------------------------------------------------------------------------------------------


def _marginal(table: Factor, names: Clique, evidence: Mapping[str, int]) -> Factor:
    missing = sorted({*names, *evidence} - {*table.domain})
    if missing:
        raise ArgumentError(
            f"a function of a model reads {', '.join(missing)} for some tables only: let it read the same attributes "
            'of every model, or choose kind="noise".'
        )
    part = table.project((*names, *evidence)).values[(..., *evidence.values())]
    return Factor.owning(table.domain.project(names), part)


@dataclass(frozen=True, eq=False)
class _ReadModel:
    """A model for functions: it has a domain, a number of records, marginals, and answers that follow from them.

    Attributes:
        domain: all attributes.
        total: the number of records.
        read: returns the marginal on some attributes of the records with some codes.
    """

    domain: Domain
    total: float
    read: Callable[[Clique, Mapping[str, int]], Factor]

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """Return a marginal, as `ModelBase.project`."""
        return self._answer((attributes,) if isinstance(attributes, str) else tuple(attributes), None, given)

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """Return many marginals, as `ModelBase.project_many`."""
        return [self.project(clique) for clique in cliques]

    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Factor | list[Factor]:
        """Return the answers to linear queries, as `ModelBase.answer`."""
        if clique is None and isinstance(query, list | tuple):
            return [self._answer(one, None, given) for one in query]
        return self._answer(query, clique, given)

    def _answer(self, query: Any, clique: Any, given: Mapping[str, int] | None) -> Factor:
        question = Question.of(self.domain, query, clique, given)
        return question.value(self.read(question.names, question.evidence).values)

    def conditional(self, attributes: Iterable[str] | str, given: Iterable[str] | str) -> Factor:
        """Return P(attributes | given), as `Distribution.conditional`."""
        known = self.domain.clique(given)
        joint = self.project((*self.domain.clique(attributes), *known))
        return joint / joint.project(known)

    def mutual_information(self, a: Iterable[str] | str, b: Iterable[str] | str) -> float:
        """Return the mutual information of attributes, in nats, as `Distribution.mutual_information`."""
        one, other = self.domain.clique(a), self.domain.clique(b)
        return mutual_information(self.project((*one, *other)), one, other)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ArgumentError(
            f"a function of a model that reads its {name} has no interval of this kind, only one that reads project, "
            'answer, conditional, mutual_information, domain and total: choose kind="noise".'
        )
