"""Queries that name levels of hierarchies, such as "diagnosis@chapter", as queries on the attributes themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np

from pgmest.errors import CodeRangeError, DuplicateAttributeError, QueryError
from pgmest.queries.base import MatrixQuery
from pgmest.queries.kron import Kron
from pgmest.queries.linear_query import LinearQuery
from pgmest.queries.matrices import as_matrix_query, as_query
from pgmest.queries.table2 import compress, identity, subset
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.hierarchy import SEPARATOR, NamedLevel


def level_query(named: NamedLevel, domain: Domain) -> MatrixQuery:
    """Return the counts of the groups of a level; for an attribute, of its values."""
    if named.groups is None:
        return identity(domain[named.attribute])
    return compress(domain[named.attribute], named.groups, named.size)


def named_levels(domain: Domain, names: Iterable[str] | str) -> tuple[NamedLevel, ...]:
    """Return the attributes and levels that are named.

    Raises:
        UnknownAttributeError: a name is neither.
        DuplicateAttributeError: an attribute is named twice, be it by two of its levels.
    """
    found = tuple(domain.level(name) for name in ((names,) if isinstance(names, str) else names))
    attributes = [one.attribute for one in found]
    if len(set(attributes)) != len(attributes):
        raise DuplicateAttributeError.of(attributes, f"the clique {tuple(one.name for one in found)}")
    return found


def ordered_levels(domain: Domain, names: Iterable[str] | str) -> Clique:
    """Return attributes and levels in the order of the domain.

    >>> from pgmest import Domain, Hierarchy
    >>> domain = Domain({"diagnosis": 3, "sex": 2}).with_hierarchies(Hierarchy("diagnosis", {"chapter": [0, 0, 1]}))
    >>> ordered_levels(domain, ("sex", "diagnosis@chapter"))
    ('diagnosis@chapter', 'sex')

    Raises:
        UnknownAttributeError, DuplicateAttributeError: as for `named_levels`.
    """
    found = {one.attribute: one.name for one in named_levels(domain, names)}
    return tuple(found[attribute] for attribute in domain.ordered(found))


def cliques_by_level(domain: Domain, clique: Iterable[str]) -> list[tuple[str, ...]]:
    """Return a clique, and then its names with levels in place of some attributes, in all combinations.

    Levels with one group, or as many as values, are left out.

    >>> from pgmest import Domain, Hierarchy
    >>> domain = Domain({"diagnosis": 3, "sex": 2}).with_hierarchies(Hierarchy("diagnosis", {"chapter": [0, 0, 1]}))
    >>> cliques_by_level(domain, ("diagnosis", "sex"))
    [('diagnosis', 'sex'), ('diagnosis@chapter', 'sex')]
    """
    names = []
    for name in clique:
        tree = domain.hierarchies.get(name)
        levels = () if tree is None else tree.inner
        names.append([name, *(f"{name}{SEPARATOR}{level}" for level in levels)])
    return list(product(*names))


def level_kron(domain: Domain, names: Iterable[str] | str) -> Kron:
    """Return the marginal over attributes and levels as a Kron over the attributes.

    >>> from pgmest import Domain, Hierarchy
    >>> domain = Domain({"diagnosis": 3, "sex": 2}).with_hierarchies(Hierarchy("diagnosis", {"chapter": [0, 0, 1]}))
    >>> level_kron(domain, ("diagnosis@chapter", "sex")).answer_shape
    (2, 2)

    Raises:
        UnknownAttributeError, DuplicateAttributeError: as for `named_levels`.
    """
    levels = named_levels(domain, names)
    factors = [(one.attribute, level_query(one, domain)) for one in levels]
    return Kron(factors, axes=[one.name for one in levels])


def weighted_kron(domain: Domain, names: Iterable[str] | str, weights: Mapping[str, np.ndarray]) -> Kron:
    """Return the query that adds up the weights of the records in each cell of attributes and levels.

    >>> from pgmest import Domain, Hierarchy
    >>> domain = Domain({"diagnosis": 3, "sex": 2}).with_hierarchies(Hierarchy("diagnosis", {"chapter": [0, 0, 1]}))
    >>> weights = {"diagnosis": np.array([1, 0, 1]), "sex": np.array([0, 1])}
    >>> weighted_kron(domain, ["diagnosis@chapter"], weights).matrix()
    array([[0., 1., 0., 0., 0., 0.],
           [0., 0., 0., 0., 0., 1.]])

    Args:
        domain: the attributes, with their hierarchies.
        names: the attributes and levels of the cells.
        weights: attribute -> the weight of each value, shape (n,), such as 1 for given values and 0 for others.

    Raises:
        UnknownAttributeError, DuplicateAttributeError: as for `named_levels`.
    """
    levels = named_levels(domain, names)
    factors: list[tuple[str, Any]] = []
    for one in levels:
        if one.attribute not in weights:
            factors.append((one.attribute, level_query(one, domain)))
            continue
        own = weights[one.attribute]
        groups = np.arange(len(own)) if one.groups is None else one.groups
        matrix = np.zeros((int(groups.max()) + 1, len(own)))
        matrix[groups, np.arange(len(own))] = own
        factors.append((one.attribute, matrix))
    cells = {name for name, _ in factors}
    others = [(name, own[None, :]) for name, own in weights.items() if name not in cells]
    return Kron([*factors, *others], axes=[*(one.name for one in levels), *(name for name, _ in others)])


def without_levels(domain: Domain, query: Any, clique: Any = None) -> tuple[Any, Clique | None]:
    """Return the same query on attributes, where a query or its clique names levels; other queries as they are.

    Args:
        domain: the attributes, with their hierarchies.
        query: None for the cells of the clique, a matrix with a column for each of them, or a Kron.
        clique: attributes or levels; None where the query names them itself.

    Returns:
        the query, and the attributes of its columns; None for a Kron without a clique.

    Raises:
        UnknownAttributeError, DuplicateAttributeError: as for `named_levels`.
        QueryError: a matrix has another number of columns than its level has groups.
    """
    if isinstance(query, Kron) and domain.names_levels(query.attributes):
        factors = []
        for one, matrix in zip(named_levels(domain, query.attributes), query.matrices, strict=True):
            factors.append((one.attribute, _composed(matrix, one, domain)))
        query = Kron(factors, axes=query.axes)
    if clique is None or not domain.names_levels(clique):
        return query, clique
    levels = named_levels(domain, clique)
    attributes = tuple(one.attribute for one in levels)
    if query is None:
        return level_kron(domain, clique), attributes
    if isinstance(query, LinearQuery) and query.attributes is not None:
        return query, attributes
    if len(levels) == 1:
        return _composed(as_matrix_query(query), levels[0], domain), attributes
    return _on_cells(as_query(query), levels, domain), attributes


def _composed(matrix: MatrixQuery, level: NamedLevel, domain: Domain) -> MatrixQuery:
    """Return a query on the groups of a level as one on the values of its attribute."""
    if level.groups is None:
        return matrix
    if matrix.cells != level.size:
        raise QueryError(
            f"the query on '{level.name}': expected {level.size} columns, one for each group, got a matrix of shape "
            f"{matrix.shape}. Make it for n={level.size}."
        )
    return as_matrix_query(np.asarray(matrix.matrix())[:, level.groups])


def _on_cells(query: LinearQuery, levels: tuple[NamedLevel, ...], domain: Domain) -> MatrixQuery:
    """Return a matrix on the cells of groups as one on the cells of values, row-major."""
    sizes = tuple(domain[one.attribute] if one.size is None else one.size for one in levels)
    if query.cells != np.prod(sizes):
        raise QueryError(
            f"the query on {tuple(one.name for one in levels)}: expected {int(np.prod(sizes))} columns, "
            f"got {query.cells}."
        )
    codes = [np.arange(domain[one.attribute]) if one.groups is None else one.groups for one in levels]
    columns = np.ravel_multi_index(np.ix_(*codes), sizes).ravel()
    return as_matrix_query(np.asarray(query.matrix())[:, columns])


def split_evidence(
    domain: Domain, given: Mapping[str, int] | None, attributes: Iterable[str]
) -> tuple[Kron | None, dict[str, int]]:
    """Return evidence on levels as a Kron with one row for each, and the evidence on attributes.

    Raises:
        UnknownAttributeError, CodeRangeError, QueryError: an unknown level, a group out of range, or a level of an
            attribute that is asked for or is given otherwise.
    """
    plain: dict[str, int] = {}
    rows: list[tuple[str, MatrixQuery]] = []
    taken = set(attributes)
    for name, code in (given or {}).items():
        if not domain.names_levels(name):
            plain[name] = code
            continue
        level = domain.level(name)
        assert level.groups is not None
        assert level.size is not None
        if isinstance(code, bool) or not isinstance(code, int | np.integer) or not 0 <= code < level.size:
            raise CodeRangeError(
                f"given['{name}']={code!r} is not valid: it must be a group from 0 to {level.size - 1}"
            )
        if level.attribute in taken or level.attribute in (given or {}):
            raise QueryError(f"'{name}' is given, and '{level.attribute}' is named, too: leave one of them out.")
        taken.add(level.attribute)
        rows.append((level.attribute, subset(len(level.groups), np.flatnonzero(level.groups == code))))
    return (Kron(rows) if rows else None), plain
