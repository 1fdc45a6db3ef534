"""Seed: a sample of households with their persons, joined by a key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.codes import as_weights
from pgmest.data.frames import narrowed
from pgmest.errors import ArgumentError, DataError, excerpt, listed, plural
from pgmest.surveys.controls import as_label

HOUSEHOLDS, PERSONS = "households", "persons"
"""The names of the two tables in `margins`."""


@dataclass(frozen=True, eq=False)
class Seed:
    """The households and persons of a sample.

    Attributes:
        key: the column that joins the two tables.
        households: a row for each household, a dataframe of narwhals.
        persons: a row for each person.
        owners: the row of the household of each person, shape (persons,).
        weights: the initial weights of the households, shape (households,).
    """

    key: str
    households: Any
    persons: Any
    owners: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, households: Any, persons: Any, key: Any, weights: Any) -> Seed:
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
            if key not in table.columns:
                raise DataError(f"the table of {name} has no column {key!r}, only {listed(table.columns)}; name key=.")
        places: dict[Any, int] = {}
        keys = labels_of(above, key)
        for place, label in enumerate(keys):
            if label is None or label in places:
                problem = "is missing" if label is None else f"is {excerpt(label, 40)}, as that of another row"
                raise DataError(f"{key!r} of household {place} {problem}; give each household a key of its own.")
            places[label] = place
        owners = np.array([places.get(label, -1) for label in labels_of(below, key)], dtype=np.int64)
        orphans = np.flatnonzero(owners < 0)
        if len(orphans):
            label = labels_of(below, key)[orphans[0]]
            raise DataError(
                f"{plural(len(orphans), 'person')} belong to no household, such as row {orphans[0]} with {key} "
                f"{excerpt(label, 40)}; leave these rows out, or give keys of one type."
            )
        given = weights
        if isinstance(weights, str):
            if weights not in above.columns:
                raise DataError(f"weights={weights!r} is no column of households, which has {listed(above.columns)}.")
            given = above[weights].to_numpy()
        base = np.ones(len(above)) if given is None else as_weights(given, len(above))
        if not np.any(base > 0):
            raise DataError("no household has a positive weight; give at least one.")
        return cls(key, above, below, owners, base)

    def labels(self, table: str, column: str) -> list[Any]:
        """Return the labels of a column for each row of a table; persons have the columns of their household, too."""
        if table == HOUSEHOLDS or column not in self.persons.columns:
            found = labels_of(self.households, column)
            return found if table == HOUSEHOLDS else [found[owner] for owner in self.owners]
        return labels_of(self.persons, column)

    def columns(self, table: str) -> list[str]:
        """Return the columns by which totals of a table can be given."""
        own = [] if table == HOUSEHOLDS else list(self.persons.columns)
        return [*own, *(name for name in self.households.columns if name not in own)]

    def rows(self, table: str) -> np.ndarray:
        """Return the household of each row of a table."""
        return np.arange(len(self.weights)) if table == HOUSEHOLDS else self.owners


def labels_of(table: Any, column: str) -> list[Any]:
    """Return the labels of a column, None for missing ones."""
    return [as_label(item) for item in table[column].to_list()]


def codes_of(labels: Iterable[Any], known: dict[Any, int]) -> np.ndarray:
    """Return the code of each label; -1 for one that is not known."""
    found = []
    for label in labels:
        try:
            found.append(known.get(label, -1))
        except TypeError:  # a list or another object that is no label
            found.append(-1)
    return np.array(found, dtype=np.int64)
