"""Unit: whose privacy is protected where a person can have several rows, and which of the rows stay then.

    unit: {column: patient_id, at_most: 8}

Neighboring tables then differ in all rows of one person, whom a column tells apart from others. Of each person at most
`at_most` rows are counted, those that a keyed hash of the person and of the row says: what one person's rows are
changes nothing for another person's, in whatever order they stand. Adding or removing a person hence adds or removes at
most `at_most` of the counted records, and `AddRemove(at_most)` is the relation for what is asked of them.

One row more of a person who has more than `at_most` may replace a row that was counted before, of that person alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.batches import by_partition
from pgmest.data.values import Values
from pgmest.schema.keyed_hash import text_hashes
from pgmest.schema.linked.keys import KeyColumn
from pgmest.schema.linked.linking import TableRows, link_rows
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import encoded_text

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True)
class Unit:
    """A person, by a column, and how many of a person's rows are counted.

    Attributes:
        column: its values tell persons apart; it never becomes an attribute. A row without a value in it is nobody's,
            and is left out.
        at_most: the most rows of one person that are counted.
    """

    column: str
    at_most: int

    @classmethod
    def from_node(cls, node: SchemaNode, columns: Sequence[str]) -> Unit:
        """`unit:` of a schema with these columns.

        Raises:
            SchemaError: it is no unit, or its column is described among the columns.
        """
        node.mapping("the column of persons and their most rows, such as {column: person_id, at_most: 8}")
        fields = node.fields(("column", "at_most"), ("column", "at_most"))
        name, at_most = fields["column"].text(), fields["at_most"].integer(1)
        if name in columns:
            fields["column"].fail(f"is '{name}', which tells persons apart and must not be among the columns, too.")
        return cls(name, at_most)


class Persons(KeyColumn):
    """The persons to whom the rows belong, gathered a piece of the table at a time.

    Two values are one person where they are one key of linked tables: 17, 17.0 and "17". The rows are a table that
    hangs on the persons.
    """

    role = "which tells persons apart"

    def __init__(self, column: str):
        super().__init__(column, {})

    @property
    def texts(self) -> list[str]:
        """The texts of the persons, by their numbers."""
        return list(self._numbers)

    def counted(self) -> tuple[np.ndarray, int]:
        """Return the number of rows of each person, shape (persons,), and the number of rows of nobody."""
        person = self.rows
        return np.bincount(person[person >= 0], minlength=len(self._numbers)), int((person < 0).sum())

    def kept(self, codes: Sequence[np.ndarray], at_most: int, key: bytes) -> np.ndarray:
        """Return the rows that stay, ascending, of a table with these columns of codes."""
        texts = self.texts
        rows = TableRows("persons", None, self.rows, at_most, codes)
        tables = {"persons": TableRows(None, np.arange(len(texts)), None, 0), "rows": rows}
        found = link_rows(tables, lambda numbers: text_hashes((texts[one] for one in numbers.tolist()), key))
        return np.sort(found["rows"].rows)


# -- engines ----------------------------------------------------------------------------------------------------------


def written_persons(column: str, values: Values) -> list[str | None]:
    """Return a text for each row's person, the same for the same person, that every engine can hold; None for nobody.

    Raises:
        DataError: the type of the column tells nobody apart.
    """
    persons = Persons(column)
    persons.add(values)
    texts = [encoded_text(text).decode("latin-1") for text in persons.texts]
    return [texts[number] if number >= 0 else None for number in persons.rows.tolist()]


def persons_in_engine(frame: nw.LazyFrame[Any], unit: Unit) -> nw.LazyFrame[Any]:
    """Return the person of each row, as `written_persons` gives it, in an engine that works on partitions."""

    def written(pieces: Iterator[Mapping[str, Values]]) -> Iterator[dict[str, Any]]:
        for piece in pieces:
            yield {unit.column: written_persons(unit.column, piece[unit.column])}

    return by_partition(frame.select(unit.column), written, {unit.column: np.dtype("U")})


def kept_persons(written: np.ndarray, codes: Sequence[np.ndarray], at_most: int, key: bytes) -> np.ndarray:
    """Return the rows that stay of a partition that has all rows of its persons, as `Persons.kept` does.

    Args:
        written: the person of each row as `written_persons` gives it.
        codes: columns of the rows.
        at_most: the most rows of one person.
        key: that of the choice.
    """
    persons = Persons("")
    texts = [None if text is None else text.encode("latin-1").decode("utf-8", "surrogatepass") for text in written]
    persons.add(Values.of(np.array([*texts, None], dtype=object)[:-1]))
    return persons.kept(codes, at_most, key)
