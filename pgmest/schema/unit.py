"""Unit: whose privacy is protected where a person can have several rows, and which of the rows stay then.

    unit: {column: patient_id, at_most: 8}

Neighboring tables then differ in all rows of one person, whom a column tells apart from others. Of each person at most
`at_most` rows are counted, those that a keyed hash of the person and of the row says: what one person's rows are
changes nothing for another person's, in whatever order they stand. Adding or removing a person hence adds or removes at
most `at_most` of the counted records, and `AddRemove(at_most)` is the relation for what is asked of them.

One row more of a person who has more than `at_most` may replace a row that was counted before, of that person alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.values import Values
from pgmest.errors import DataError
from pgmest.schema.engine import EngineColumn
from pgmest.schema.engine_frames import quoted_name
from pgmest.schema.keyed_hash import place_within, row_hashes, text_hashes
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import text_of

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
        self._rows: list[np.ndarray] = []

    def add(self, column: str, values: Values) -> None:
        """Add the persons of further rows.

        Raises:
            DataError: the type of the column tells nobody apart.
        """
        if values.unread is not None:  # also for no rows: the error must not depend on whether there are any
            raise _no_person(column, values.unread)
        number = np.full(len(values), -1, dtype=np.int64)
        positions, distinct = values.where(~values.gaps).distinct()
        texts = map(text_of, distinct)
        numbers = [self._numbers.setdefault(text, len(self._numbers)) if text else -1 for text in texts]
        number[~values.gaps] = np.array(numbers, dtype=np.int64)[positions]
        self._rows.append(number)

    def counted(self) -> tuple[np.ndarray, int]:
        """Return the number of rows of each person, shape (persons,), and the number of rows of nobody."""
        person = np.concatenate([np.empty(0, dtype=np.int64), *self._rows])
        return np.bincount(person[person >= 0], minlength=len(self._numbers)), int((person < 0).sum())

    def kept(self, codes: Sequence[np.ndarray], at_most: int, key: bytes) -> np.ndarray:
        """Return the rows that stay, ascending, of a table with these columns of codes."""
        person = np.concatenate(self._rows)
        somebody = person >= 0
        counts = np.bincount(person[somebody], minlength=len(self._numbers) + 1)
        crowded = np.flatnonzero(somebody & (counts[person] > at_most))
        stays = somebody.copy()
        stays[crowded] = False
        found, positions = np.unique(person[crowded], return_inverse=True)
        texts = list(self._numbers)
        start = text_hashes((texts[number] for number in found), key)[positions]
        scores = row_hashes(start, person[crowded], [column[crowded] for column in codes])
        order = np.lexsort((scores, person[crowded]))
        chosen = crowded[order[place_within(person[crowded][order]) < at_most]]
        stays[chosen] = True
        return np.flatnonzero(stays)


# -- engines ----------------------------------------------------------------------------------------------------------


def person_in_engine(column: EngineColumn) -> nw.Expr:
    """Return the text that tells a person apart, null for nobody.

    Raises:
        DataError: the type of the column tells nobody apart.
    """
    import narwhals as nw

    if column.form == "unread" and column.kind != nw.Unknown:  # such as a UUID
        raise _no_person(column.name, str(column.kind))
    text = column.written
    return nw.when(text != "").then(text)


def bounded(frame: nw.LazyFrame[Any], person: str, codes: Sequence[str], at_most: int, key: bytes) -> nw.LazyFrame[Any]:
    """Return the rows that stay, as a table of the engine that holds them, with the columns of codes alone.

    Args:
        frame: with a column `person` (`person_in_engine`) and columns of codes.

    Raises:
        DataError: the engine has no keyed hash that is known here.
    """
    import narwhals as nw

    keepers = {"polars": _bounded_in_polars, "duckdb": _bounded_in_duckdb}
    engine = frame.implementation.name.lower()
    if engine not in keepers:
        raise DataError(
            f"the rows of one person cannot be bounded in {engine}: bring the table as a Parquet file, a dataframe, a "
            "DuckDB relation or a polars LazyFrame; or bound them yourself, and leave 'unit:' out of the schema."
        )
    frame = frame.filter(~nw.col(person).is_null())
    kept = keepers[engine](frame.to_native(), person, list(codes), at_most, key)
    return nw.from_native(kept).select(codes)


def _bounded_in_polars(frame: Any, person: str, codes: list[str], at_most: int, key: bytes) -> Any:
    pl = importlib.import_module("polars")
    copy = pl.int_range(pl.len()).over([person, *codes])
    parts = [pl.lit(key.hex()), pl.col(person), *(pl.col(name).cast(pl.String) for name in codes), copy.cast(pl.String)]
    place = pl.concat_str(parts, separator="\x1f").hash(int.from_bytes(key[:8], "little")).rank("ordinal").over(person)
    return frame.filter(place <= at_most)


def _bounded_in_duckdb(relation: Any, person: str, codes: list[str], at_most: int, key: bytes) -> Any:
    names = [quoted_name(name) for name in (person, *codes)]
    copy, place = quoted_name(_unused("copy", (person, *codes))), quoted_name(_unused("place", (person, *codes)))
    numbered = relation.select(f"*, row_number() over (partition by {', '.join(names)}) as {copy}")
    row = f"md5(concat_ws(chr(31), '{key.hex()}', {', '.join(names)}, {copy}))"
    ranked = numbered.select(f"*, row_number() over (partition by {names[0]} order by {row}) as {place}")
    return ranked.filter(f"{place} <= {at_most}")


def _unused(name: str, taken: Sequence[str]) -> str:
    while name.lower() in map(str.lower, taken):
        name += "_"
    return name


def _no_person(column: str, kind: str) -> DataError:
    return DataError(
        f"column '{column}', which tells persons apart, is of type {kind}; it must be of text or numbers: cast it."
    )
