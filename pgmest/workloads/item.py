"""Item: linear queries on one marginal, with a weight."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, DuplicateAttributeError, QueryError
from pgmest.queries import Kron, LinearQuery, as_query, identity
from pgmest.queries.levels import named_levels, without_levels
from pgmest.queries.norms import largest_l1, largest_l2_squared
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True, eq=False, init=False)
class Item:
    """Linear queries on one marginal, with a weight.

    Args:
        clique: the attributes of the marginal, or one name.
        query: None for the cells themselves; a Kron over exactly these attributes; or a `pgmest.queries` query, array,
            sparse matrix or LinearOperator with one column for each cell, row-major in the clique's order.
        weight: the importance of the queries, finite and at least 0. Errors and sensitivities are multiplied by it,
            answers are not.
        matters: whether adaptive mechanisms (LAMP and AIM) measure the marginal first, without a score, as far as the
            budget can carry it. `pgmest.workloads.emphasized` sets it; a weight alone never does.

    Raises:
        ArgumentError: the weight is not a finite number of at least 0, `matters` is not a bool, or the clique holds
            other objects than strings.
        DuplicateAttributeError: the clique names an attribute twice.
        QueryError: the query cannot be used as a matrix, or is a Kron over other attributes.
    """

    clique: Clique
    query: LinearQuery | None
    weight: float
    matters: bool

    def __init__(
        self, clique: Iterable[str] | str, query: Any = None, weight: float = 1.0, *, matters: bool = False
    ) -> None:
        names = (clique,) if isinstance(clique, str) else tuple(clique)
        if not all(isinstance(name, str) for name in names):
            raise ArgumentError.of("clique", names, "attribute names, such as ('age', 'sex')")
        if len(set(names)) != len(names):
            raise DuplicateAttributeError.of(names, f"the clique {names}")
        if not isinstance(matters, bool | np.bool_):
            raise ArgumentError.of("matters", matters, (True, False))
        given = None if query is None else as_query(query)
        if given is not None and given.attributes is not None and set(given.attributes) != set(names):
            raise QueryError(
                f"the Kron over {given.attributes} on the clique {names}: it must be over exactly the clique's "
                "attributes. Leave the others out of the clique, or sum them out with pg.queries.total(n)."
            )
        object.__setattr__(self, "query", given)
        object.__setattr__(self, "clique", names)
        object.__setattr__(self, "weight", checked_weight(weight))
        object.__setattr__(self, "matters", bool(matters))

    def without_levels(self, domain: Domain) -> Item:
        """Return the same queries on attributes, where the clique or a Kron names levels of hierarchies.

        Raises:
            UnknownAttributeError, DuplicateAttributeError, QueryError: the levels do not fit.
        """
        if not domain.names_levels(self.clique):
            return self
        query, _ = without_levels(domain, self.query, self.clique)
        if isinstance(self.query, Kron):
            query, _ = without_levels(domain, self.query)
        attributes = tuple(one.attribute for one in named_levels(domain, self.clique))
        return Item(attributes, query, self.weight, matters=self.matters)

    def rows(self, domain: Domain) -> int:
        """Return the number of queries."""
        return domain.size(self.clique) if self.query is None else self.query.rows

    def answer(self, marginal: Factor) -> np.ndarray:
        """Return the unweighted answers in counts, shape (rows,), from a marginal that contains the clique."""
        if self.query is None:
            return marginal.project(self.clique).datavector()
        return self.query.answer(marginal, self.clique)

    def check(self, domain: Domain) -> None:
        """Check that the queries fit a domain.

        Raises:
            UnknownAttributeError: the domain lacks an attribute.
            QueryError: the query has another number of columns than the domain has cells.
        """
        domain.clique(self.clique)
        if self.query is not None:
            self.query.check(domain, self.clique)

    def kron(self, domain: Domain) -> Kron:
        """Return the same queries as a Kron; a plain marginal becomes a product of identities.

        Raises:
            QueryError: the query is one matrix on several attributes, which is not a Kronecker product.
        """
        if self.query is None:
            return Kron({name: identity(domain[name]) for name in self.clique})
        names = self.query.attributes or self.clique
        if len(names) == len(self.query.matrices):
            return Kron(zip(names, self.query.matrices, strict=True))
        raise QueryError(f"the query {self.query} on {self.clique} is not a Kronecker product; give it as a pg.Kron.")

    def max_column_norm(self, order: int = 2) -> float:
        """Return the largest l1 or l2 norm (`order` 1 or 2) of a column of the query matrix, without the weight."""
        return float(largest_l1(self.query)) if order == 1 else math.sqrt(largest_l2_squared(self.query))


def checked_weight(weight: Any) -> float:
    """Return a weight as a float.

    Raises:
        ArgumentError: the weight is not a finite number of at least 0.
    """
    try:
        number = float(weight)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ArgumentError.of("weight", weight, "a finite number of at least 0")
    return number
