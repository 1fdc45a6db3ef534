"""Seed: the units of a sample that get weights: respondents, or households with their persons, joined by a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest.data.codes import as_weights
from pgmest.data.frames import narrowed, table_columns
from pgmest.data.names import index_names
from pgmest.errors import ArgumentError, DataError, ShapeError, excerpt, plural
from pgmest.surveys.margin_forms import as_label

RESPONDENTS, HOUSEHOLDS, PERSONS = "respondents", "households", "persons"
"""The names of the tables: `rake` has the first, `rake_households` the others."""


@dataclass(frozen=True, eq=False)
class Seed:
    """The units of a sample.

    Attributes:
        tables: the rows by table, dataframes of narwhals; the first table has a row for each unit.
        weights: the initial weights of the units, shape (units,).
        key: the column that joins households and persons; "" for respondents.
        owners: the unit of each person, shape (persons,).
    """

    tables: dict[str, Any]
    weights: np.ndarray
    key: str = ""
    owners: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _coded: dict[tuple[str, str], tuple[np.ndarray, list[Any]]] = field(default_factory=dict)

    @classmethod
    def respondents(cls, frame: Any, names: Iterable[str], weights: Any) -> tuple[Seed, np.ndarray]:
        """Read the named columns of a dataframe of any library, and the initial weights, shape (rows, replicates).

        Raises:
            ArgumentError, DataError, ShapeError: as for `rake`.
        """
        table = _selected(RESPONDENTS, frame, names, MARGIN_REMEDY)
        initial = _initial_weights(frame, weights, RESPONDENTS, len(table))
        initial = initial[:, None] if initial.ndim == 1 else initial
        return cls({RESPONDENTS: table}, initial.max(axis=1)), initial

    @classmethod
    def households(cls, households: Any, persons: Any, key: Any, weights: Any) -> Seed:
        """Read two dataframes of any library.

        Raises:
            ArgumentError, DataError: a table is no dataframe or lacks a column, a household has no key or that of
                another, a person belongs to no household, or a weight is not valid.
            ShapeError: there is another number of weights than of households.
        """
        if not isinstance(key, str):
            raise ArgumentError.of("key", key, "the name of the column that both tables share")
        above, below = narrowed(households, None), narrowed(persons, None)
        for name, table in ((HOUSEHOLDS, above), (PERSONS, below)):
            _check_columns(name, [key], table.columns, "Name the column that both tables share by key=.")
        places: dict[Any, int] = {}
        for place, label in enumerate(_labels(above, key)):
            if label is None or label in places:
                problem = "is missing" if label is None else f"is {excerpt(label, 40)}, as that of another row"
                raise DataError(f"{key!r} of household {place} {problem}; give each household a key of its own.")
            places[label] = place
        keys = _labels(below, key)
        owners = codes_of(keys, places)
        orphans = np.flatnonzero(owners < 0)
        if len(orphans):
            raise DataError(
                f"{plural(len(orphans), 'person')} belong to no household, such as row {orphans[0]} with {key} "
                f"{excerpt(keys[orphans[0]], 40)}; leave these rows out, or give keys of one type."
            )
        base = _initial_weights(above, weights, HOUSEHOLDS, len(above))
        if base.ndim > 1:
            raise ShapeError.of("weights", base.shape[:1], base.shape, "Give one weight for each household.")
        if not np.any(base > 0):
            raise DataError("no household has a positive weight; give one weight for each, at least one positive.")
        return cls({HOUSEHOLDS: above, PERSONS: below}, base, key, owners)

    @property
    def unit_table(self) -> str:
        """The table with a row for each unit."""
        return next(iter(self.tables))

    def check_columns(self, table: str, names: Iterable[str]) -> None:
        """Check that totals of a table can be given by some columns; persons have those of their household, too.

        Raises:
            DataError: they cannot.
        """
        own = dict.fromkeys(name for one in {table, self.unit_table} for name in self.tables[one].columns)
        _check_columns(table, names, list(own), MARGIN_REMEDY)

    def rows(self, table: str) -> np.ndarray:
        """Return the unit of each row of a table."""
        return self.owners if table == PERSONS else np.arange(len(self.weights))

    def codes(self, table: str, column: str, known: Mapping[Any, int]) -> np.ndarray:
        """Return the code of the label of each row of a table; -1 for a label that is not known."""
        codes, labels = self._coded_column(table, column)
        return codes_of(labels, known)[codes] if len(codes) else codes

    def labels(self, table: str, column: str, rows: np.ndarray) -> list[Any]:
        """Return the labels of some rows of a table."""
        codes, labels = self._coded_column(table, column)
        return [labels[code] for code in codes[rows]]

    def numbers(self, table: str, column: str) -> np.ndarray:
        """Return a numeric column of a table.

        Raises:
            DataError: it is not numeric, or a row with weight has a value that is missing or not finite.
        """
        source, rows = self._source(table, column)
        items, weighted = source[column], self.weights[self.rows(table)] > 0
        try:
            values = np.asarray(items.to_numpy(), dtype=np.float64)[rows]
        except (TypeError, ValueError):
            values = np.full(len(weighted), np.nan)
        if items.dtype.is_temporal() or not np.isfinite(values[weighted]).all():
            raise DataError(
                f"column '{column}' of the {table} has a total, but not a finite number in every row with weight; give "
                "its categories totals, or leave out rows without a number."
            )
        return np.where(weighted, values, 0.0)

    def _coded_column(self, table: str, column: str) -> tuple[np.ndarray, list[Any]]:
        """Return a code for the label of each row of a table, and the labels by code."""
        if (table, column) not in self._coded:
            source, rows = self._source(table, column)
            codes, labels = _numbered(source[column].to_list())
            self._coded[table, column] = codes[rows], labels
        return self._coded[table, column]

    def _source(self, table: str, column: str) -> tuple[Any, Any]:
        """Return the dataframe with a column of a table, and its row for each row of the table."""
        if column in self.tables[table].columns:
            return self.tables[table], slice(None)
        return self.tables[self.unit_table], self.owners


MARGIN_REMEDY = "Margins are keyed by columns of the table, and by those of zones= where there are zones."
"""The remedy in the error of a margin by a column that does not exist."""


def _initial_weights(frame: Any, weights: Any, table: str, rows: int) -> np.ndarray:
    """Return the initial weights of the rows of a table, shape (rows,) or (rows, replicates).

    Raises:
        ArgumentError, DataError, ShapeError: as for `rake`.
    """
    if isinstance(weights, str):
        weights = _selected(table, frame, [weights], "Name the column of the weights.")[weights].to_numpy()
    ours, theirs = getattr(frame, "index", None), getattr(weights, "index", None)
    if hasattr(ours, "equals") and hasattr(theirs, "equals") and not theirs.equals(ours):  # type: ignore[union-attr]
        raise ArgumentError(
            "weights= has another index than the frame; give an array in the order of its rows (.to_numpy())."
        )
    if weights is None:
        return np.ones(rows)
    array = np.asarray(weights)
    if array.ndim != 2:
        return as_weights(weights, rows)
    if not array.shape[1] or len(array) != rows:
        raise ShapeError.of("weights", (rows, "replicates"), array.shape, "Give a weight for each row and replicate.")
    return np.stack([as_weights(column, rows) for column in array.T], axis=1)


def codes_of(labels: Iterable[Any], known: Mapping[Any, int]) -> np.ndarray:
    """Return the code of each label; -1 for one that is not known."""
    codes = []
    for label in labels:
        try:
            codes.append(known.get(label, -1))
        except TypeError:  # a list or another object that is no label
            codes.append(-1)
    return np.array(codes, dtype=np.int64)


def _numbered(items: list[Any]) -> tuple[np.ndarray, list[Any]]:
    """Return a code for each item, and the label of each code, None for missing ones."""
    try:
        known = {item: code for code, item in enumerate(dict.fromkeys(items))}
        codes = np.fromiter(map(known.__getitem__, items), dtype=np.int64, count=len(items))
    except TypeError:  # a list or another object that is no label has a code of its own
        return np.arange(len(items)), [as_label(item) for item in items]
    return codes, [as_label(item) for item in known]


def _labels(table: Any, column: str) -> list[Any]:
    return [as_label(item) for item in table[column].to_list()]


def _selected(table: str, frame: Any, names: Iterable[str], remedy: str) -> Any:
    """Return some columns of a dataframe of any library."""
    names, columns = list(dict.fromkeys(names)), table_columns(frame)
    _check_columns(table, [name for name in names if name not in index_names(frame)], columns, remedy)
    return narrowed(frame, names)


def _check_columns(table: str, names: Iterable[str], columns: list[str], remedy: str) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        raise DataError.missing_columns(missing, columns, f"table of {table}", remedy)
