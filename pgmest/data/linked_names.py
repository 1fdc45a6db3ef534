"""Names of linked tables and their columns: they are joined to names of attributes, which must not mean two things.

"persons.age" is a column of a table, "another of persons.age" that of another row of the same parent row ("next of" if
they are in order), "number of persons" the number of rows of a parent row, and "pairs of persons" what answers about
two rows count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ANOTHER, NEXT, PAIRS = "another of ", "next of ", "pairs of "
"""The words before the name of a table in the names of attributes of another row, and of pairs of rows."""


def number_of(table: str) -> str:
    """Return the name of the number of rows of a table that hang on a row of its parent."""
    return f"number of {table}"


def name_problem(columns: Mapping[str, Collection[str]]) -> tuple[str, str | None, str] | None:
    """Return a table, its column (None for the table itself) and why it needs another name; None if none does.

    >>> name_problem({"households": ["number of persons"], "persons": ["age"]})
    ('households', 'number of persons', "must have another name, which is not that of the number of rows of 'persons'")

    Args:
        columns: the names of the columns of each table.
    """
    for table in columns:
        if not isinstance(table, str) or not table:
            return table, None, "must have a name that is a text and not empty"
        if "." in table:
            return table, None, "must have no dot in its name, as TABLE.COLUMN is a column"
        for words in (ANOTHER, NEXT, PAIRS):
            if table.startswith(words):
                return table, None, f"must have another name: those that begin with '{words}' are of other rows"
    numbers = {number_of(table): table for table in columns}
    full = {
        f"{words}{t}.{c}": (t, c, words) for t, held in columns.items() for c in held for words in ("", ANOTHER, NEXT)
    }
    for table, held in columns.items():
        for column in held:
            if column in numbers:
                other = f"the number of rows of '{numbers[column]}'"
                return table, column, f"must have another name, which is not that of {other}"
            of, name, words = full.get(column, (table, "", ""))
            if words or of != table:
                return table, column, f"must have another name, which does not mean column '{name}' of table '{of}'"
    return None
