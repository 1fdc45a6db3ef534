"""Margins: control totals by area and category, and what each unit of the sample adds to each of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.errors import ArgumentError, ControlError, listed, plural
from pgmest.surveys.margin_forms import cell_totals
from pgmest.surveys.seed import RESPONDENTS, Seed, codes_of
from pgmest.surveys.zones import Zones
from pgmest.tables.domain import Clique

AGREEMENT = 1e-9
"""Controls agree if their sums differ by at most this share of the total."""

SHOWN = 5
"""A message lists at most this many categories or totals."""


@dataclass(frozen=True)
class Control:
    """Totals as the user gave them.

    Attributes:
        table: "respondents", "households" or "persons".
        names: the columns.
        cells: the totals by labels, one for each column; NaN for an unknown one. That of a numeric column has no label.
        numeric: whether this is the total of a numeric column.
    """

    table: str
    names: Clique
    cells: dict[tuple[Any, ...], float]
    numeric: bool

    @classmethod
    def of(cls, table: str, key: Any, given: Any, free: bool) -> Control:
        """Read the totals of one column or tuple of columns; if `free`, a missing total of a category is unknown.

        Raises:
            ArgumentError: they have another form.
        """
        names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, tuple) else ()
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise ArgumentError.of("margins", key, "keyed by names of columns, or tuples of different names")
        if not isinstance(given, Real):
            return cls(table, names, cell_totals(given, names, free), False)
        if len(names) > 1 or isinstance(given, bool) or not math.isfinite(given):
            raise ArgumentError.of(f"margins[{key!r}]", given, "a finite total of one numeric column, or a mapping")
        return cls(table, names, {(): float(given)}, True)

    def summed(self, names: Sequence[str]) -> dict[tuple[Any, ...], float]:
        """Return the sums of the totals by the labels of some of the columns."""
        places, sums = [self.names.index(name) for name in names], {}
        for labels, total in self.cells.items():
            key = tuple(labels[place] for place in places)
            sums[key] = sums.get(key, 0.0) + total
        return sums


def read_controls(tables: Mapping[str, Any], free: bool, expected: str) -> list[Control]:
    """Read the totals of some tables.

    Args:
        tables: for each table, a mapping of columns to totals.
        free: whether a total may be missing, which is then unknown.
        expected: the form of the argument `margins`, for the error.

    Raises:
        ArgumentError: they have another form.
    """
    for given in tables.values():
        if not isinstance(given, Mapping) or not given:
            raise ArgumentError.of("margins", given, expected)
    return [Control.of(table, key, one, free) for table, given in tables.items() for key, one in given.items()]


def check_agreement(controls: Sequence[Control]) -> None:
    """Check that controls of categories have one total, and the same totals of the columns that they share.

    Raises:
        ControlError: they do not.
    """
    counts = [control for control in controls if not control.numeric]
    totals = {" x ".join(control.names): control.summed(()).get((), 0.0) for control in counts}
    whole = max(totals.values(), default=0.0)
    if totals and whole - min(totals.values()) > AGREEMENT * whole:
        shown = ", ".join(f"{names} {total:.10g}" for names, total in totals.items())
        raise ControlError(
            f"the controls have different totals: {shown}. Scale them to one total, for example each to shares by "
            "dividing by its sum."
        )
    for one, other in combinations(counts, 2):
        shared = tuple(name for name in one.names if name in other.names)
        left, right = one.summed(shared), other.summed(shared)
        apart = {labels: abs(left.get(labels, 0.0) - right.get(labels, 0.0)) for labels in {**left, **right}}
        labels = max(apart, key=lambda each: apart[each])
        if apart[labels] > AGREEMENT * whole:
            raise ControlError(
                f"the controls of {' x '.join(one.names)} and of {' x '.join(other.names)} contradict each other: for "
                f"{label_text(shared, labels)} they add up to {left.get(labels, 0.0):.10g} and "
                f"{right.get(labels, 0.0):.10g}."
            )


def label_text(names: Iterable[str], labels: Iterable[Any]) -> str:
    """Return the labels of a cell in words, such as "sex='f', age='old'"."""
    items = (label.item() if isinstance(label, np.generic) else label for label in labels)
    return ", ".join(f"{name}={item!r}" for name, item in zip(names, items, strict=True)) or "all"


@dataclass(frozen=True, eq=False)
class Margin:
    """The totals of a control by area and category.

    Attributes:
        control: the control.
        area_names, own_names: its columns that are levels of the zones, and the others.
        areas: the labels of the areas, by `area_names`.
        categories: the labels of the cells within an area, by `own_names`.
        totals: shape (areas, categories); NaN where no total is known.
    """

    control: Control
    area_names: Clique
    own_names: Clique
    areas: list[tuple[Any, ...]]
    categories: list[tuple[Any, ...]]
    totals: np.ndarray

    @classmethod
    def of(cls, control: Control, zones: Zones, seed: Seed) -> Margin:
        """Divide a control into areas and categories.

        Raises:
            DataError: the table lacks a column.
            ControlError: zones and areas do not belong together.
        """
        names = control.names
        area_names = () if control.numeric else tuple(name for name in names if name in zones.columns)
        own_names = tuple(name for name in names if name not in area_names)
        seed.check_columns(control.table, own_names)
        if control.numeric:
            return cls(control, (), (), [()], [()], np.array([[control.cells[()]]]))
        inner, outer = ([names.index(name) for name in some] for some in (own_names, area_names))
        keys = [(tuple(cell[k] for k in outer), tuple(cell[k] for k in inner)) for cell in control.cells]
        areas = {area: code for code, area in enumerate(dict.fromkeys(area for area, _ in keys))}
        categories = {own: code for code, own in enumerate(dict.fromkeys(own for _, own in keys))}
        totals = np.zeros((len(areas), len(categories)))
        rows, columns = [areas[area] for area, _ in keys], [categories[own] for _, own in keys]
        totals[rows, columns] = list(control.cells.values())
        margin = cls(control, area_names, own_names, list(areas), list(categories), totals)
        margin._check_areas(zones)
        return margin

    def _check_areas(self, zones: Zones) -> None:
        """Check that zones and areas belong together."""
        places = zones.places(self.area_names)
        for missing, problem in (
            (dict.fromkeys(place for place in places if place not in set(self.areas)), "has no totals of"),
            (dict.fromkeys(area for area in self.areas if area not in set(places)), "is not among the zones of"),
        ):
            if missing:
                shown = listed((label_text(self.area_names, area) for area in missing), SHOWN)
                raise ControlError(
                    f"margins of {self.control.table}: {plural(len(missing), 'area')} ({shown}) {problem} "
                    f"{self.title}. Give totals for each area of the zones, of labels of one type; NaN where none is "
                    "known."
                )

    @property
    def title(self) -> str:
        """The columns in words."""
        return " x ".join(self.control.names)

    def text(self, area: int, category: int) -> str:
        """Return the name of a total."""
        table = "" if self.control.table == RESPONDENTS else f"{self.control.table}: "
        if self.control.numeric:
            return table + self.category_text(category)
        return table + label_text(self.area_names + self.own_names, self.areas[area] + self.categories[category])

    def area_text(self, area: int) -> str:
        """Return the labels of an area."""
        return label_text(self.area_names, self.areas[area])

    def category_text(self, category: int) -> str:
        """Return the labels of a category."""
        if self.control.numeric:
            return f"total of {self.title}"
        return label_text(self.own_names, self.categories[category])

    def area_of_zones(self, zones: Zones) -> np.ndarray:
        """Return the area of each zone."""
        return codes_of(zones.places(self.area_names), {area: code for code, area in enumerate(self.areas)})

    def incidence(self, seed: Seed) -> sparse.csr_array:
        """Return what each unit adds to each category: its rows, or the sum of a numeric column; (units, categories).

        Raises:
            ControlError: a unit with weight has a category that no total names.
            DataError: a numeric column is not numeric.
        """
        table, rows = self.control.table, seed.rows(self.control.table)
        codes = np.zeros(len(rows), dtype=np.int64) if self.control.numeric else self._codes(seed)
        amounts = seed.numbers(table, self.title) if self.control.numeric else np.ones(len(rows))
        unknown = np.flatnonzero((codes < 0) & (seed.weights[rows] > 0))
        if len(unknown):
            cells = zip(*(seed.labels(table, name, unknown) for name in self.own_names), strict=True)
            shown = listed(dict.fromkeys(f"({label_text(self.own_names, cell)})" for cell in cells), SHOWN)
            remedy = "leave these rows out or without weight" if table == RESPONDENTS else "NaN for one that has none"
            raise ControlError(
                f"{plural(len(unknown), table[:-1])} with {shown}, for which {self.title} has no total; it has "
                f"{listed((self.category_text(code) for code in range(len(self.categories))), SHOWN)}. Give a total of "
                f"each category, of the same type, or {remedy}."
            )
        known = (codes >= 0) & (amounts != 0.0)
        shape = (len(seed.weights), len(self.categories))
        return sparse.csr_array((amounts[known], (rows[known], codes[known])), shape=shape)

    def _codes(self, seed: Seed) -> np.ndarray:
        """Return the category of each row of the table; -1 for one without a total."""
        rows = len(seed.rows(self.control.table))
        cells, wanted = np.zeros(rows, dtype=np.int64), np.zeros(len(self.categories), dtype=np.int64)
        known = np.ones(rows, dtype=bool)
        for place, name in enumerate(self.own_names):
            labels = [category[place] for category in self.categories]
            codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
            own = seed.codes(self.control.table, name, codes)
            known &= own >= 0
            cells = cells * len(codes) + own
            wanted = wanted * len(codes) + codes_of(labels, codes)
        order = np.argsort(wanted)
        nearest = order[np.minimum(np.searchsorted(wanted[order], cells), len(order) - 1)]
        return np.where(known & (wanted[nearest] == cells), nearest, -1)
