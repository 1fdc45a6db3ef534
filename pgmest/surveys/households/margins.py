"""The totals of households and persons by label, and what each household adds to each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.errors import ArgumentError, ControlError, excerpt, listed, plural
from pgmest.surveys.controls import SHOWN, Controls
from pgmest.surveys.households.seed import HOUSEHOLDS, PERSONS, Seed, codes_of
from pgmest.surveys.households.zones import Zones
from pgmest.tables.domain import Clique


@dataclass(frozen=True, eq=False)
class Margin:
    """The totals of one table of households or persons.

    Attributes:
        table: "households" or "persons".
        names: the columns.
        areas: the labels of the areas, by `area_names`.
        categories: the labels of the cells within an area, by `own_names`.
        area_names, own_names: the columns that are levels of the zones, and the others.
        totals: shape (areas, categories); NaN where no total is set.
    """

    table: str
    names: Clique
    area_names: Clique
    own_names: Clique
    areas: list[tuple[Any, ...]]
    categories: list[tuple[Any, ...]]
    totals: np.ndarray

    @classmethod
    def of(cls, table: str, names: Clique, controls: Controls, zones: Zones, seed: Seed) -> Margin:
        """Divide a control of `Controls` into areas and categories."""
        area_names = tuple(name for name in names if name in zones.columns)
        own_names = tuple(name for name in names if name not in area_names)
        _check_columns(table, names, own_names, seed)
        order = [names.index(name) for name in (*area_names, *own_names)]
        values = np.where(controls.listed[names], controls.tables[names], -1.0).transpose(order)
        values = values.reshape(_size(controls, area_names), _size(controls, own_names))
        named, given = (values != -1.0).any(axis=1), (values != -1.0).any(axis=0)
        areas = [label for label, kept in zip(_labels(controls, area_names), named, strict=True) if kept]
        categories = [label for label, kept in zip(_labels(controls, own_names), given, strict=True) if kept]
        totals = values[named][:, given]
        margin = cls(table, names, area_names, own_names, areas, categories, np.where(totals == -1.0, 0.0, totals))
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
                shown = listed((self._text(self.area_names, area) for area in missing), SHOWN)
                raise ControlError(
                    f"margins of {self.table}: {plural(len(missing), 'area')} ({shown}) {problem} {self.title}. Give "
                    "totals for each area of the zones, of labels of one type; NaN where none is known."
                )

    @property
    def title(self) -> str:
        """The columns in words."""
        return " x ".join(self.names) or "all"

    def text(self, area: int, category: int) -> str:
        """Return the name of a total."""
        labels = self.areas[area] + self.categories[category]
        return f"{self.table}: {self._text(self.area_names + self.own_names, labels)}"

    def area_text(self, area: int) -> str:
        """Return the labels of an area."""
        return self._text(self.area_names, self.areas[area])

    def category_text(self, category: int) -> str:
        """Return the labels of a category."""
        return self._text(self.own_names, self.categories[category])

    @staticmethod
    def _text(names: Clique, labels: tuple[Any, ...]) -> str:
        items = (label.item() if isinstance(label, np.generic) else label for label in labels)
        return ", ".join(f"{name}={item!r}" for name, item in zip(names, items, strict=True)) or "all"

    def area_of_zones(self, zones: Zones) -> np.ndarray:
        """Return the area of each zone."""
        return codes_of(zones.places(self.area_names), {area: code for code, area in enumerate(self.areas)})

    def incidence(self, seed: Seed) -> sparse.csr_array:
        """Return how many rows of each category each household has, shape (households, categories).

        Raises:
            ControlError: a household with weight has a category that no total names.
        """
        rows = seed.rows(self.table)
        cells = [seed.labels(self.table, name) for name in self.own_names]
        places = list(zip(*cells, strict=True)) if cells else [()] * len(rows)
        codes = codes_of(places, {label: code for code, label in enumerate(self.categories)})
        unknown = np.flatnonzero((codes < 0) & (seed.weights[rows] > 0))
        if len(unknown):
            shown = listed(dict.fromkeys(self._text(self.own_names, places[row]) for row in unknown), SHOWN)
            raise ControlError(
                f"{plural(len(unknown), self.table[:-1])} with ({shown}), for which {self.title} has no total; it has "
                f"{listed((self.category_text(code) for code in range(len(self.categories))), SHOWN)}. Give a total of "
                "each category, of the same type, or NaN for one that has none."
            )
        known = codes >= 0
        shape = (len(seed.weights), len(self.categories))
        return sparse.csr_array((np.ones(int(known.sum())), (rows[known], codes[known])), shape=shape)


def read_margins(margins: Any) -> dict[str, Controls]:
    """Read the argument `margins` of `rake_households`.

    Raises:
        ArgumentError: it has another form.
    """
    expected = "a mapping with the totals of 'households', of 'persons', or both, each a mapping of columns to totals"
    if not isinstance(margins, Mapping) or not margins or not set(margins) <= {HOUSEHOLDS, PERSONS}:
        raise ArgumentError.of("margins", margins, expected)
    for given in margins.values():
        if not isinstance(given, Mapping) or not given:
            raise ArgumentError.of("margins", margins, expected)
    return {table: Controls.of(margins[table], free=True) for table in (HOUSEHOLDS, PERSONS) if table in margins}


def column_labels(controls: Mapping[str, Controls]) -> dict[str, list[Any]]:
    """Return the labels of each column of the margins."""
    found: dict[str, dict[Any, None]] = {}
    for one in controls.values():
        for name, known in one.labels.items():
            found.setdefault(name, {}).update(dict.fromkeys(known))
    return {name: list(known) for name, known in found.items()}


def _check_columns(table: str, names: Clique, own_names: Clique, seed: Seed) -> None:
    unknown = [name for name in own_names if name not in seed.columns(table)]
    if unknown:
        raise ControlError(
            f"margins of {table}: {listed(map(excerpt, unknown))} in {' x '.join(names)} is no column of the {table} "
            f"({listed(seed.columns(table))}), nor of the zones. Name columns of the tables, or give zones=."
        )


def _size(controls: Controls, names: Clique) -> int:
    return int(np.prod([len(controls.labels[name]) for name in names], dtype=np.int64))


def _labels(controls: Controls, names: Clique) -> list[tuple[Any, ...]]:
    """Return the labels of all cells, row-major."""
    found: list[tuple[Any, ...]] = [()]
    for name in names:
        found = [(*before, label) for before in found for label in controls.labels[name]]
    return found
