"""Control totals by label, and the rows of a survey in their cells, for `rake`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pgmest.data.frames import narrowed
from pgmest.errors import ArgumentError, ControlError, excerpt, listed, plural
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

AGREEMENT = 1e-9
"""Control totals agree if they differ by at most this share of the total."""

SHOWN = 5
"""A message lists at most this many categories or controls."""


@dataclass(frozen=True)
class Controls:
    """The control totals of a survey, with codes for the labels.

    Attributes:
        labels: the labels of each column, each with its code.
        tables: the totals by the columns' names, a table over codes for each.
        listed: for each of these tables, True where a total was given.
    """

    labels: dict[str, dict[Any, int]]
    tables: dict[Clique, np.ndarray]
    listed: dict[Clique, np.ndarray]

    @classmethod
    def of(cls, margins: Any, free: bool = False) -> Controls:
        """Read the argument `margins` of `rake`; if `free`, a missing total stays NaN.

        Raises:
            ArgumentError: it has another form.
        """
        cells: dict[Clique, dict[tuple[Any, ...], float]] = {}
        for key, given in margins.items():
            names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, tuple) else ()
            if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
                raise ArgumentError.of("margins", key, "keyed by names of columns, or tuples of different names")
            cells[names] = _totals(given, names, free)
        labels: dict[str, dict[Any, int]] = {}
        for names, totals in cells.items():
            for key in totals:
                for name, label in zip(names, key, strict=True):
                    known = labels.setdefault(name, {})
                    known.setdefault(label, len(known))
        made = cls(labels, {}, {})
        for names, totals in cells.items():
            shape = made.domain.project(names).shape
            made.tables[names], made.listed[names] = np.zeros(shape), np.zeros(shape, dtype=bool)
            for key, total in totals.items():
                cell = tuple(labels[name][label] for name, label in zip(names, key, strict=True))
                made.tables[names][cell], made.listed[names][cell] = total, True
        return made

    @property
    def domain(self) -> Domain:
        """The columns with their numbers of labels."""
        return Domain({name: len(known) for name, known in self.labels.items()})

    @property
    def total(self) -> float:
        """The total of all controls, which must agree; 0 without controls."""
        return float(next(iter(self.tables.values())).sum()) if self.tables else 0.0

    def text(self, names: Clique, cell: Iterable[Any]) -> str:
        """Return the labels of a cell, such as "sex='f', age='old'"."""
        shown = []
        for name, code in zip(names, cell, strict=True):
            label = list(self.labels[name])[int(code)]
            shown.append(f"{name}={label.item() if isinstance(label, np.generic) else label!r}")
        return ", ".join(shown)

    def check_agreement(self) -> None:
        """Check that all controls have one total, and the same totals of the columns that they share.

        Raises:
            ControlError: they do not.
        """
        totals = {names: float(table.sum()) for names, table in self.tables.items()}
        if totals and max(totals.values()) - min(totals.values()) > AGREEMENT * max(totals.values()):
            shown = ", ".join(f"{' x '.join(names)} {total:.10g}" for names, total in totals.items())
            raise ControlError(
                f"the controls have different totals: {shown}. Scale them to one total, for example each to shares by "
                "dividing by its sum."
            )
        for one, other in combinations(self.tables, 2):
            shared = tuple(name for name in one if name in other)
            if not shared:
                continue
            left, right = (Factor(self.domain.project(n), self.tables[n]).project(shared).values for n in (one, other))
            apart = np.abs(left - right)
            if apart.max() > AGREEMENT * self.total:
                cell = np.unravel_index(int(apart.argmax()), apart.shape)
                raise ControlError(
                    f"the controls of {' x '.join(one)} and of {' x '.join(other)} contradict each other: for "
                    f"{self.text(shared, cell)} they add up to {left[cell]:.10g} and {right[cell]:.10g}."
                )

    def codes(self, frame: Any, counted: np.ndarray) -> dict[str, np.ndarray]:
        """Return the code of each row in each column, shape (rows,); rows that are not counted may have code 0.

        Args:
            frame: a dataframe of any library.
            counted: the rows with weight, as booleans.

        Raises:
            ArgumentError, DataError: `frame` is not a dataframe, or lacks a column.
            ControlError: a counted row has a category without a control.
        """
        table = narrowed(frame, list(self.labels))
        return {name: self._codes_of(table[name].to_list(), name, counted) for name in self.labels}

    def check_covered(self, codes: Mapping[str, np.ndarray], counted: np.ndarray) -> None:
        """Check that each cell with counted rows has a control, and each positive control counted rows.

        Raises:
            ControlError: one does not.
        """
        for names, totals in self.tables.items():
            cells = self.cells(names, codes)
            present = np.bincount(cells[counted], minlength=totals.size) > 0
            self._check_covered(names, present.reshape(totals.shape), totals)

    def cells(self, names: Clique, codes: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the cell of each row in a control, row-major, shape (rows,)."""
        places = tuple(codes[name].astype(np.int64) for name in names)
        return np.asarray(np.ravel_multi_index(places, self.tables[names].shape))

    def _codes_of(self, items: list[Any], name: str, counted: np.ndarray) -> np.ndarray:
        """Return the codes of the labels in a column."""
        known = self.labels[name]
        items = [as_label(item) for item in items]
        codes = np.fromiter((_code(known, item) for item in items), dtype=np.int64, count=len(items))
        unknown = (codes < 0) & counted
        if unknown.any():
            missing = {excerpt(items[row], 40): None for row in np.flatnonzero(unknown)}
            raise ControlError(
                f"{plural(int(unknown.sum()), 'respondent')} with {name} in ({listed(missing, SHOWN)}), which no "
                f"control of {name} names; its categories are {listed(map(excerpt, known), SHOWN)}. Give a control for "
                "each category, of the same type, or leave these rows out or without weight."
            )
        return np.where(codes < 0, 0, codes)

    def _check_covered(self, names: Clique, present: np.ndarray, totals: np.ndarray) -> None:
        """Check that cells with respondents have a control, and that cells with a positive control have respondents."""
        unlisted, empty = present & ~self.listed[names], ~present & (totals > 0)
        for wrong, problem, remedy in (
            (empty, "have no respondents with weight", "Combine them with other categories, or leave out totals"),
            (unlisted, "have respondents, but no control", "Give a control for each combination that occurs"),
        ):
            if wrong.any():
                cells = [f"({self.text(names, cell)})" for cell in np.argwhere(wrong)]
                raise ControlError(
                    f"{plural(len(cells), 'cell')} of {' x '.join(names)} {problem}: {listed(cells, SHOWN)}. {remedy}."
                )


def _code(known: Mapping[Any, int], item: Any) -> int:
    """Return the code of a label; -1 for a label without a control, and for objects that are no labels."""
    try:
        return known.get(item, -1)
    except TypeError:
        return -1


def as_label(item: Any) -> Any:
    """Return a label; None for all marks of missing values, of which no library finds one by another."""
    missing = type(item).__name__ in ("NAType", "NaTType") or (isinstance(item, float | np.floating) and item != item)
    return None if missing else item


# -- control totals in their forms ------------------------------------------------------------------------------------


def _totals(given: Any, names: Clique, free: bool) -> dict[tuple[Any, ...], float]:
    """Return the totals of one control by labels, each checked to be a count."""
    where = f"margins[{names[0]!r}]" if len(names) == 1 else f"margins[{names!r}]"
    pairs = _pairs(given, names, where)
    totals: dict[tuple[Any, ...], float] = {}
    for key, total in pairs:
        key = tuple(map(as_label, key))
        try:
            number = float(total)
        except (TypeError, ValueError):
            number = math.nan
        unknown = free and as_label(total) is None
        if not (0 <= number < math.inf or unknown) or isinstance(total, bool):
            raise ArgumentError.of(f"{where}[{excerpt(key, 40)}]", total, "a finite number of at least 0")
        try:
            repeated = key in totals
        except TypeError:
            raise ArgumentError.of(where, key, "a control by labels that can be keys of a dict") from None
        if repeated or len(key) != len(names):
            problem = "is there twice" if repeated else f"names {len(key)} labels for {plural(len(names), 'column')}"
            raise ArgumentError(f"{where}: the category {excerpt(key)} {problem}; give one total for each.")
        totals[key] = number
    if not totals:
        raise ArgumentError(f"{where} has no categories; give a total for each.")
    return totals


def _pairs(given: Any, names: Clique, where: str) -> list[tuple[tuple[Any, ...], Any]]:
    """Return pairs of labels and totals from a mapping, a Series, a cross table, a long table, or a Factor."""
    if isinstance(given, Mapping) and not isinstance(given, Factor):
        return _of_mapping(given, len(names))
    if isinstance(given, Factor):
        if set(given.domain) != set(names):
            raise ArgumentError(f"{where} is a table over {given.domain.attributes}; give one over {names}.")
        return [(cell, float(total)) for cell, total in np.ndenumerate(given.transpose(names).values)]
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, pandas.DataFrame) and _is_series(given, names):
        given = given.iloc[:, 0]
    if pandas is not None and isinstance(given, pandas.Series):
        return _ordered([(_key(index), total) for index, total in given.items()], given.index.names, names, where)
    if pandas is not None and isinstance(given, pandas.DataFrame) and not set(names) <= set(given.columns):
        pairs = [
            ((*_key(row), *_key(column)), given.iat[place, position])
            for place, row in enumerate(given.index)
            for position, column in enumerate(given.columns)
        ]
        return _ordered(pairs, [*given.index.names, *given.columns.names], names, where)
    if not hasattr(given, "columns"):
        raise ArgumentError.of(where, given, "a mapping of labels to totals, a Series, a table, or a Factor")
    long = narrowed(given, None)
    others = [name for name in long.columns if name not in names]
    if len(others) != 1 or not set(names) <= set(long.columns):
        raise ArgumentError(
            f"{where} is a table with the columns {listed(long.columns)}; give the columns {listed(names)} and one of "
            "totals."
        )
    keys = zip(*(long[name].to_list() for name in names), strict=True)
    return list(zip(keys, long[others[0]].to_list(), strict=True))


def _of_mapping(given: Mapping[Any, Any], depth: int) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the pairs of a mapping by label, by tuple of labels, or nested column by column."""
    pairs = []
    for label, total in given.items():
        if isinstance(total, Mapping):
            pairs += [((label, *inner), leaf) for inner, leaf in _of_mapping(total, depth - 1)]
        else:
            whole = isinstance(label, tuple) and (depth != 1 or len(label) == 1)
            pairs.append((label if whole else (label,), total))
    return pairs


def _is_series(table: Any, names: Clique) -> bool:
    """Return whether a pandas table is a Series, such as counts by label, as its only column."""
    return table.shape[1] == 1 and table.index.nlevels == len(names) and not set(names) <= set(table.columns)


def _key(label: Any) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


def _ordered(
    pairs: list[tuple[tuple[Any, ...], Any]], levels: Sequence[Any], names: Clique, where: str
) -> list[tuple[tuple[Any, ...], Any]]:
    """Return pairs with their labels in the order of the columns, if the levels of an index have names."""
    named = [level for level in levels if level is not None]
    if not named:
        return pairs
    if len(named) < len(levels):
        levels = [name if level is None else level for level, name in zip(levels, names, strict=False)]
    if len(levels) != len(names) or set(levels) != set(names):
        raise ArgumentError(f"{where} has the axes {listed(map(repr, levels))}; name them {listed(map(repr, names))}.")
    order = [list(levels).index(name) for name in names]
    return [(tuple(key[place] for place in order), total) for key, total in pairs]
