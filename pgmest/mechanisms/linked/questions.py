"""Questions about linked tables: which table's rows an answer counts, and the full names of its attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgmest.data.linked_names import PAIRS
from pgmest.errors import ArgumentError, UnknownAttributeError, listed
from pgmest.models.question import is_names
from pgmest.queries import Kron
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.hierarchy import SEPARATOR, split_level

if TYPE_CHECKING:
    from pgmest.mechanisms.linked.linked_model import LinkedModel


MOST_OF_PAIRS = 3
"""The most attributes of a table of pairs whose error is known: pairs of attributes are measured, and the errors of
tables of four were larger than their intervals in half of the cells that are not empty."""


@dataclass(frozen=True, eq=False)
class Question:
    """The arguments of `pgmest.interval`, whose attributes may be named without their table.

    Attributes:
        query, clique, given: the arguments.
        attributes: the attributes that they name.
    """

    query: Any
    clique: Clique | None
    given: Mapping[str, int] | None
    attributes: Clique

    @classmethod
    def of(cls, query: Any, clique: Iterable[str] | str | None, given: Mapping[str, int] | None) -> Question:
        """Read the arguments of `pgmest.interval`.

        Raises:
            ArgumentError: a query without attributes, such as a function of a model.
        """
        names = (clique,) if isinstance(clique, str) else None if clique is None else tuple(clique)
        read = names
        if read is None and isinstance(query, Kron):
            read = query.attributes
        elif read is None and is_names(query):
            query = read = (query,) if isinstance(query, str) else tuple(query)
        if read is None:
            raise ArgumentError.of("query", type(query).__name__, "attributes, a pg.Kron, or a query with clique=")
        return cls(query, names, given, (*read, *(given or {})))

    def named(self, domain: Domain) -> tuple[Any, Clique | None, dict[str, int] | None]:
        """Return the query, the clique and the given codes with the full names of a domain.

        Raises:
            UnknownAttributeError, ArgumentError: as for `full_name`.
        """
        query = self.query
        if isinstance(query, Kron):
            query = Kron({full_name(name, domain): matrix for name, matrix in query.factors.items()})
        elif self.clique is None:
            query = tuple(full_name(name, domain) for name in query)
        clique = None if self.clique is None else tuple(full_name(name, domain) for name in self.clique)
        given = None if self.given is None else {full_name(name, domain): code for name, code in self.given.items()}
        return query, clique, given


def table_of(result: LinkedModel, attributes: Clique, table: str | None = None) -> str:
    """Return the table that is asked for, or the highest one whose model has all the attributes.

    Raises:
        ArgumentError: no run saw all the attributes together.
        UnknownAttributeError: no table has the attribute.
    """
    if table is not None:
        return table
    domains = {name: result.domain_of(name) for name in result.counted}
    for name, domain in domains.items():
        if all(_candidates(one, domain) for one in attributes):
            return name
    for one in attributes:
        if not any(_candidates(one, domain) for domain in domains.values()):
            raise UnknownAttributeError.of(one, tuple({name: None for domain in domains.values() for name in domain}))
    raise ArgumentError(
        f"{listed(attributes)} are not attributes of one table and its parent, or of two rows of one parent, and only "
        "these are estimated together: count them in synthetic tables."
    )


def check_known(counted: str, attributes: Clique) -> None:
    """Raise ArgumentError if too little is known about the error of a table of pairs of rows.

    Args:
        counted: what is counted.
        attributes: the attributes, also those of conditions.
    """
    if counted.startswith(PAIRS) and len(set(attributes)) > MOST_OF_PAIRS:
        raise ArgumentError(
            f"the errors of {counted} are known for tables of at most {MOST_OF_PAIRS} attributes, those of given= "
            f"included, not for {listed(attributes)}: leave some out, or take the estimate alone (`project`)."
        )


def full_name(name: str, domain: Domain) -> str:
    """Return the attribute of a domain that is called `name`, or "TABLE.name" of the only table that has it.

    Raises:
        UnknownAttributeError: no attribute has the name.
        ArgumentError: there are several.
    """
    found = _candidates(name, domain)
    if not found:
        raise UnknownAttributeError.of(name, domain.attributes)
    if len(found) > 1:
        raise ArgumentError(f"'{name}' may be {listed(found)}: name the table, too.")
    return found[0]


def _candidates(name: str, domain: Domain) -> list[str]:
    if name in domain:
        return [name]
    found = [full for full in domain if full.split(".", 1)[-1] == name and "." in full]
    split = split_level(name) if isinstance(name, str) and not found else None
    if split is None:
        return found
    trees = domain.hierarchies
    named = [full for full in _candidates(split[0], domain) if full in trees and split[1] in trees[full].levels]
    return [f"{full}{SEPARATOR}{split[1]}" for full in named]
