"""Invariants of a schema: `invariants: [region, [region, sex]]`, the tables that releases have exactly.

They are public, or held exactly by law, and so they are not protected (`pgmest.privacy.unprotected`).
"""

from __future__ import annotations

from pgmest.errors import PgmestError
from pgmest.queries.levels import named_levels
from pgmest.schema.notation import SchemaNode
from pgmest.tables.domain import Clique, Domain


def read_invariants(node: SchemaNode, domain: Domain) -> tuple[Clique, ...]:
    """Return the tables that a list names, each by a column or level, or by a list of them.

    Raises:
        SchemaError: the node is no list of names, or a name is neither a column with values nor a level of one.
    """
    found = []
    for item in node.items():
        names = tuple(name.text() for name in item.items()) if isinstance(item.value, list) else (item.text(),)
        try:
            named_levels(domain, names)
        except PgmestError as error:
            item.fail(f"is no table: {error}")
        found.append(names)
    return tuple(dict.fromkeys(found))
