"""Unit: whose privacy is protected where a person can have several rows, and which of the rows stay then.

    unit: {column: patient_id, at_most: 8}

Neighboring tables then differ in all rows of one person, whom a column tells apart from others. Of each person at most
`at_most` rows are counted, those that a keyed hash of the person and of the row says: what one person's rows are
changes nothing for another person's, in whatever order they stand. Adding or removing a person hence adds or removes at
most `at_most` of the counted records, and `AddRemove(at_most)` is the relation for what is asked of them.

One row more of a person who has more than `at_most` may replace a row that was counted before, of that person alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.batches import by_partition
from pgmest.data.values import Values
from pgmest.errors import DataError
from pgmest.schema.keyed_hash import place_within, row_hashes, text_hashes
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import encoded_text, text_of

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
        fields = node.fields(("column", "at_most"), ("column", "at_most"))
        name, at_most = fields["column"].text(), fields["at_most"].integer(1)
        if name in columns:
            fields["column"].fail(f"is '{name}', which tells persons apart and must not be among the columns, too.")
        return cls(name, at_most)


class Persons:
    """The persons to whom the rows belong, gathered a piece of the table at a time.

    Two values are one person where they are written alike: 17, 17.0 and "17".
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.rows: list[np.ndarray] = []

    def add(self, column: str, values: Values) -> None:
        """Add the persons of further rows.

        Raises:
            DataError: the type of the column tells nobody apart.
        """
        if values.unread is not None:  # also for no rows: the error must not depend on whether there are any
            raise _no_person(column, values.unread)
        number = np.full(len(values), -1, dtype=np.int64)
        positions, distinct = values.where(~values.gaps).distinct()
        number[~values.gaps] = self._numbered(map(text_of, distinct))[positions]
        self.rows.append(number)

    def number(self, texts: Iterable[str | None]) -> None:
        """Add the persons of further rows by their texts."""
        self.rows.append(self._numbered(texts))

    def _numbered(self, texts: Iterable[str | None]) -> np.ndarray:
        numbers = (self._numbers.setdefault(text, len(self._numbers)) if text else -1 for text in texts)
        return np.fromiter(numbers, dtype=np.int64)

    @property
    def texts(self) -> list[str]:
        """The texts of the persons, by their numbers."""
        return list(self._numbers)

    def counted(self) -> tuple[np.ndarray, int]:
        """Return the number of rows of each person, shape (persons,), and the number of rows of nobody."""
        person = np.concatenate([np.empty(0, dtype=np.int64), *self.rows])
        return np.bincount(person[person >= 0], minlength=len(self._numbers)), int((person < 0).sum())

    def kept(self, codes: Sequence[np.ndarray], at_most: int, key: bytes) -> np.ndarray:
        """Return the rows that stay, ascending, of a table with these columns of codes."""
        person = np.concatenate(self.rows)
        somebody = person >= 0
        counts = np.bincount(person[somebody], minlength=len(self._numbers) + 1)
        crowded = np.flatnonzero(somebody & (counts[person] > at_most))
        stays = somebody.copy()
        stays[crowded] = False
        found, positions = np.unique(person[crowded], return_inverse=True)
        texts = self.texts
        start = text_hashes((texts[number] for number in found), key)[positions]
        scores = row_hashes(start, person[crowded], [column[crowded] for column in codes])
        order = np.lexsort((scores, person[crowded]))
        chosen = crowded[order[place_within(person[crowded][order]) < at_most]]
        stays[chosen] = True
        return np.flatnonzero(stays)


# -- engines ----------------------------------------------------------------------------------------------------------


def written_persons(column: str, values: Values) -> list[str | None]:
    """Return a text for each row's person, the same for the same person, that every engine can hold; None for nobody.

    Raises:
        DataError: the type of the column tells nobody apart.
    """
    persons = Persons()
    persons.add(column, values)
    (numbers,), texts = persons.rows, [encoded_text(text).decode("latin-1") for text in persons.texts]
    return [texts[number] if number >= 0 else None for number in numbers.tolist()]


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
    persons = Persons()
    texts = [None if text is None else text.encode("latin-1").decode("utf-8", "surrogatepass") for text in written]
    persons.number(texts)
    return persons.kept(codes, at_most, key)


def _no_person(column: str, kind: str) -> DataError:
    return DataError(
        f"column '{column}', which tells persons apart, is of type {kind}; it must be of text or numbers: cast it."
    )
