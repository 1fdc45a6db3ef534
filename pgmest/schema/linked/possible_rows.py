"""Synthetic linked tables without rows that the constraints of a table call impossible.

A mechanism for linked tables need not know the constraints of single tables. What it returns is changed here, which
costs no privacy: a code of an impossible row is replaced by one that possible rows have beside its other codes, as long
as no rule within its parent breaks that held before. Rows of a parent for which this fails get the codes of another
parent's rows. Rows in order are sorted again, and the rows that hang on them go with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, places_of
from pgmest.schema.linked.schema import LinkedSchema
from pgmest.tables.domain import Clique

ROUNDS = 8
"""The most times that codes of an impossible row are replaced one by one."""

Zeros = Mapping[Clique, np.ndarray]


def possible_rows(schema: LinkedSchema, linked: LinkedDataset, generator: np.random.Generator) -> LinkedDataset:
    """Return linked tables without impossible combinations, if each table has a row without one.

    Args:
        schema: the schema, with the constraints of each table.
        linked: synthetic tables.
        generator: of the choice among codes.
    """
    for name, part in schema.parts.items():
        zeros = part.schema.structural_zeros
        if zeros and _impossible(linked.tables[name].dataset, zeros).any():
            linked = _Repair(linked, name, zeros, generator).run()
    return linked


def _impossible(data: Dataset, zeros: Zeros) -> np.ndarray:
    """Return which rows have an impossible combination, shape (rows,)."""
    found = np.zeros(data.records, dtype=bool)
    for clique, mask in zeros.items():
        found |= mask[tuple(data.column(name) for name in clique)]
    return found


class _Repair:
    """The repair of one table."""

    def __init__(self, linked: LinkedDataset, name: str, zeros: Zeros, generator: np.random.Generator):
        self.linked, self.name, self.zeros, self.generator = linked, name, zeros, generator
        self.rules = [rule for rule in linked.rules if rule.table == name]
        self.parent = None if name == linked.root else linked.link(name)[1]
        self.broken = self._broken(linked)

    def run(self) -> LinkedDataset:
        """Return the linked tables with possible rows."""
        for _ in range(ROUNDS):
            if not _impossible(self._data, self.zeros).any():
                return self.linked
            for clique, mask in self.zeros.items():
                self._replace_codes(clique, mask)
        return self._with_rows_of_others()

    @property
    def _data(self) -> Dataset:
        return self.linked.tables[self.name].dataset

    def _replace_codes(self, clique: Clique, mask: np.ndarray) -> None:
        """Replace one code of each impossible row of a clique, and undo this where a rule breaks."""
        data = self._data
        bad = np.flatnonzero(mask[tuple(data.column(name) for name in clique)])
        good = np.flatnonzero(~_impossible(data, self.zeros))
        if not len(bad) or not len(good):
            return
        columns = {name: data.column(name).astype(np.int64) for name in data.domain}
        changed = self.generator.integers(len(clique), size=len(bad))
        for place, attribute in enumerate(clique):
            rows = bad[changed == place]
            others = [name for name in clique if name != attribute]
            donors = self._alike(columns, others, rows, good)
            found = donors >= 0
            columns[attribute][rows[found]] = columns[attribute][donors[found]]
        changed_linked = self._with(columns)
        if self.parent is None:
            self.linked = changed_linked
            return
        wrong = np.any(self._broken(changed_linked) & ~self.broken, axis=0)[self.parent]
        for name, column in columns.items():
            column[wrong] = data.column(name)[wrong]
        self.linked = self._with(columns)

    def _alike(
        self, columns: Mapping[str, np.ndarray], names: list[str], rows: np.ndarray, among: np.ndarray
    ) -> np.ndarray:
        """Return for each row a random one of `among` with the same codes, or -1."""
        keys = np.zeros(len(rows) + len(among), dtype=np.int64)
        for name in names:
            codes = np.concatenate([columns[name][rows], columns[name][among]])
            keys = np.unique(np.stack([keys, codes]), axis=1, return_inverse=True)[1].reshape(-1)
        mine, theirs = keys[: len(rows)], keys[len(rows) :]
        order = np.argsort(theirs, kind="stable")
        first, last = (np.searchsorted(theirs[order], mine, side=side) for side in ("left", "right"))
        chosen = first + (self.generator.random(len(rows)) * (last - first)).astype(np.int64)
        return np.where(last > first, among[order[np.minimum(chosen, len(order) - 1)]], -1)

    def _with_rows_of_others(self) -> LinkedDataset:
        """Give all rows of parents with an impossible row the codes of another parent's rows, as many if possible."""
        data, bad = self._data, _impossible(self._data, self.zeros)
        if not bad.any() or bad.all():
            return self.linked
        parent = np.arange(data.records) if self.parent is None else self.parent
        parents = int(parent.max()) + 1
        size = np.bincount(parent, minlength=parents)
        wrong = np.bincount(parent[bad], minlength=parents) > 0
        kept = np.flatnonzero(~wrong & (size > 0))
        if self.parent is not None and self.rules:
            kept = kept[~np.any(self._broken(self.linked), axis=0)[kept]]
        order = np.argsort(parent, kind="stable")
        starts = np.concatenate([[0], np.cumsum(size)])
        source = np.arange(data.records)
        for one in np.flatnonzero(wrong):
            alike = kept[size[kept] == size[one]]
            if len(alike):
                donor = self.generator.choice(alike)
                source[order[starts[one] : starts[one + 1]]] = order[starts[donor] : starts[donor + 1]]
        left = np.flatnonzero(bad[source])  # of parents of a size that no other has: their rows one by one
        source[left] = self.generator.choice(np.flatnonzero(~bad), len(left))
        return self._with({name: data.column(name)[source] for name in data.domain})

    def _with(self, columns: Mapping[str, np.ndarray]) -> LinkedDataset:
        """Return the linked tables with other codes of the rows, which are sorted within their parents if in order."""
        domain, table, tables = self._data.domain, self.linked.tables[self.name], dict(self.linked.tables)
        made = Dataset.from_codes([columns[name] for name in domain], domain)
        if table.order_by is not None and self.parent is not None:
            source = np.empty(len(self.parent), dtype=np.int64)  # the row that comes to each place
            source[np.argsort(self.parent, kind="stable")] = np.lexsort((columns[table.order_by], self.parent))
            made, places = made.take(source), places_of(source, len(source))
            for child in self.linked.children(self.name):
                rows = self.linked.link(child)[1]
                tables[child] = replace(tables[child], parent_rows=places[rows])
        tables[self.name] = replace(table, dataset=made)
        return replace(self.linked, tables=tables)

    def _broken(self, linked: LinkedDataset) -> np.ndarray:
        """Return which rows of the parent table break which rule about this table, shape (rules, rows)."""
        if self.parent is None:
            return np.empty((0, 0), dtype=bool)
        rows = linked.tables[linked.link(self.name)[0]].rows
        return np.array([rule.broken(linked) for rule in self.rules], dtype=bool).reshape(-1, rows)
