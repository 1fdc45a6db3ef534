"""Zones: the areas whose totals weights meet, with the larger areas that they are parts of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.frames import narrowed
from pgmest.errors import ArgumentError, ControlError, DataError, excerpt, listed, plural
from pgmest.surveys.margin_forms import as_label
from pgmest.surveys.seed import Seed, codes_of


@dataclass(frozen=True, eq=False)
class Zones:
    """The zones, each with the areas that it belongs to.

    Attributes:
        columns: the labels of each zone by level, in the order of the zones; empty without zones.
        zone: the level whose labels tell all zones apart; None without zones.
        count: the number of zones; 1 without zones.
        frame: the zones as a dataframe of narwhals; None if they were named by one column.
    """

    columns: dict[str, list[Any]]
    zone: str | None
    count: int
    frame: Any = None

    @classmethod
    def of(cls, given: Any, labels: dict[str, list[Any]]) -> Zones:
        """Read the argument `zones` of `rake_households`.

        Args:
            given: None, the name of a column of the margins, or a dataframe with a row for each zone.
            labels: the labels that the margins name, by column.

        Raises:
            ArgumentError, DataError: it has another form, or its rows do not tell the zones apart.
        """
        if given is None:
            return cls({}, None, 1)
        if isinstance(given, str):
            if given not in labels:
                raise ArgumentError.of("zones", given, f"a column of the margins, which have {listed(labels)}")
            return cls({given: labels[given]}, given, len(labels[given]))
        table = narrowed(given, None)
        columns = {name: [as_label(item) for item in table[name].to_list()] for name in table.columns}
        if not len(table):
            raise DataError("zones= has no rows; give a row for each zone.")
        for name, own in columns.items():
            if None in own:
                raise DataError(f"zones= has a row without {name}; give each zone its areas.")
        unique = [name for name, own in columns.items() if len(set(own)) == len(own)]
        if not unique:
            raise DataError(
                f"no column of zones= ({listed(columns)}) tells its {plural(len(table), 'row')} apart; give a row for "
                "each zone, with the label of the zone and of the areas that it belongs to."
            )
        return cls(columns, unique[0], len(table), table)

    def groups(self, seed: Seed) -> tuple[np.ndarray, np.ndarray]:
        """Return the group of each household and of each zone: households serve zones of the same group only.

        A household whose row names an area, by a column that the zones have, too, stays in this area. A household in an
        area without zones has the group -1.

        Raises:
            ControlError: a zone has no households.
        """
        units = seed.tables[seed.unit_table]
        shared = [name for name in self.columns if name in units.columns]
        known: dict[Any, int] = {}
        keys = list(zip(*(self.columns[name] for name in shared), strict=True)) if shared else [()] * self.count
        for key in keys:
            known.setdefault(key, len(known))
        zones = codes_of(keys, known)
        if not shared:
            return np.zeros(len(seed.weights), dtype=np.int64), zones
        every = np.arange(len(seed.weights))
        own = codes_of(zip(*(seed.labels(seed.unit_table, name, every) for name in shared), strict=True), known)
        present = np.bincount(own[(own >= 0) & (seed.weights > 0)], minlength=len(known)) > 0
        if not present.all():
            missing = [", ".join(map(excerpt, key)) for key, code in known.items() if not present[code]]
            raise ControlError(
                f"no households for {plural(len(missing), 'area')} by {listed(shared)}: {listed(missing, 5)}. "
                f"Households serve the zones with their own {listed(shared)} only; give labels of one type, join "
                "areas, or leave these columns out of the households."
            )
        return own, zones

    def places(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the labels of each zone in some levels."""
        return list(zip(*(self.columns[name] for name in names), strict=True)) if names else [()] * self.count
