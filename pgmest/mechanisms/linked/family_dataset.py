"""FamilyDataset: families as a Dataset, whose marginals are averages over the children of each family."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.fingerprints import hashes_of_rows, keyed_digest, mixed
from pgmest.mechanisms.linked.families import GRAIN, Families, Layout
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


class FamilyDataset(Dataset):
    r"""Families, each of which adds a total of at most 1 to every marginal.

    A family moves a marginal by non-negative numbers of sum at most 1. So it moves the answers to a query Q by a point
    in the convex hull of 0 and the columns of Q, which is no longer than the longest column, in l1 and in l2: the
    sensitivities are those of one record.

    It has no columns, so that nothing can count a child as a whole family.

    Attributes:
        families: the families.
        records_per_person: the largest number of families of one unit.
        unit_column: the table whose rows are the units, for ledgers of the dataset.
    """

    __slots__ = ("families",)

    families: Families

    def __init__(
        self,
        families: Families,
        records_per_person: int | None = None,
        unit_column: str | None = None,
        kept: dict[frozenset[str], Factor] | None = None,
    ):
        values: dict[str, Any] = {
            "domain": families.layout.domain,
            "columns": (),
            "records": len(families.sizes),
            "weights": None,
            "records_per_person": records_per_person,
            "unit_column": unit_column,
            "coding": None,
            "evidence": None,
            "families": families,
            "_kept": kept,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def layout(self) -> Layout:
        """The attributes."""
        return self.families.layout

    def grain_of(self, clique: Clique) -> float:
        """Return what the counts of a marginal are multiples of."""
        return 1.0 if self.layout.is_above(clique) else GRAIN

    def remembering(self) -> FamilyDataset:
        return FamilyDataset(self.families, self.records_per_person, self.unit_column, {})

    def fingerprint(self, key: bytes) -> str:
        families = self.families
        hashes = hashes_of_rows(tuple(families.parents.T), len(families.parents))
        np.add.at(hashes, families.owners, mixed(hashes_of_rows(tuple(families.children.T), len(families.children))))
        return keyed_digest(hashes, key)

    def _counted_together(self, cliques: Iterable[Clique]) -> dict[frozenset[str], Factor]:
        return {}

    def _counts(self, clique: Clique) -> np.ndarray:
        layout = self.layout
        if layout.is_above(clique):
            return self.families.above(clique)
        groups = [np.arange(self.domain[name]) for name in clique]
        return self.families.tables(clique, groups)[1]
