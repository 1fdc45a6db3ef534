"""Functions of a model: which attributes they read, and their values for tables that hold only these.

A function such as `lambda model: model.conditional("income", "age")` reads a model by its marginals and answers. It is
called once on a model that notes the attributes, and is then a function of the table over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from pgmest.errors import ArgumentError, QueryError
from pgmest.models.table_query import answer_table, as_factor, attributes_of, on_attributes
from pgmest.queries import LinearQuery
from pgmest.queries.levels import with_given_levels
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information

if TYPE_CHECKING:
    from pgmest.models.base import ModelBase
    from pgmest.models.refittable import Refittable


def attributes_read(
    model: ModelBase | Refittable, query: Any, clique: Iterable[str] | str | None, given: Mapping[str, int] | None
) -> Clique:
    """Return the attributes that a query reads; those of a function of a model are found by calling it.

    Raises:
        ArgumentError: a function of a model that reads more than marginals and answers, or has evidence from outside.
        QueryError, UnknownAttributeError, ...: the query does not fit.
    """
    names = attributes_of(query, clique, model.domain)
    if names is not None:
        return names
    if not callable(query) or isinstance(query, LinearQuery):
        raise QueryError(
            f"a query of type {type(query).__name__} without clique= has no interval: give one pg.Kron, attributes, a "
            "function, or a query matrix with the clique= of its columns."
        )
    if given:
        raise ArgumentError("given= does not reach into a function of a model: use given= where it asks the model.")
    read: set[str] = set()

    def noted(names: Clique, evidence: Mapping[str, int]) -> Factor:
        read.update(names, evidence)
        return model.project(names, evidence)

    query(_ReadModel(model.domain, model.total, noted))
    return model.domain.ordered(read)


def function_of_table(query: Callable[[Any], Any], domain: Domain, table: Factor) -> Factor:
    """Return the value of a function of a model from the table over the attributes that it reads.

    Raises:
        ArgumentError: it reads other attributes than those of the table.
    """
    return as_factor(query(_ReadModel(domain, float(table.values.sum()), partial(_marginal, table))))


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
        if given and self.domain.names_levels(given):
            query, evidence, axes = with_given_levels(self.domain, query, clique, given)
            return self._answer(query, None, evidence).reshaped(axes)
        query, clique = on_attributes(self.domain, query, clique)
        names = attributes_of(query, clique, self.domain)
        if names is None:
            raise QueryError(
                "a function of a model asks it for something that is no query: give a pg.Kron, or clique=."
            )
        return answer_table(self.read(names, checked_evidence(self.domain, given, names)), query, clique)

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
