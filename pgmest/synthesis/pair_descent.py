"""Coordinate descent of records toward many two-way tables, one attribute after the other.

The tables of all pairs do not fit in a cache, and changing a record reads all of them. The tables that contain one
attribute do fit: they stay in the cache while the codes of that attribute change in all records. The distance is that
of `local_search`, and never grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True)
class PairDescent:
    """The target tables, as `kernels.change_attribute` reads them.

    Attributes:
        sizes: the number of codes of each attribute.
        targets: the target counts, one table after the other.
        links: for each attribute an array with a row for each of its tables. The columns are the other attribute, its
            number of codes, the start of the table's costs in the workspace, the start of the table in `targets`, and
            the strides there of the other attribute and of the attribute itself.
    """

    sizes: tuple[int, ...]
    targets: np.ndarray
    links: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, tables: Sequence[Factor], domain: Domain, wanted: Sequence[np.ndarray]) -> PairDescent:
        """Return the descent for tables of two attributes each; `wanted` holds the target counts of each table."""
        targets = np.concatenate([np.ravel(table) for table in wanted], dtype=np.float32, casting="same_kind")
        axis, linked = {name: axis for axis, name in enumerate(domain)}, [[] for _ in domain]
        start = 0
        for table in tables:
            one, two = (axis[name] for name in table.domain)
            rows, columns = table.domain.shape
            linked[one].append((two, columns, 0, start, 1, columns))
            linked[two].append((one, rows, 0, start, columns, 1))
            start += rows * columns
        links = []
        for own, size in zip(linked, domain.shape, strict=True):
            found = np.array(sorted(own), dtype=np.int64).reshape(-1, 6)
            found[:, 2] = np.cumsum(np.append(0, found[:-1, 1])) * padded(size) if len(found) else 0
            links.append(found)
        return cls(domain.shape, targets, tuple(links))

    def sweep(self, rows: np.ndarray) -> int:
        """Change the codes of all records, shape (records, attributes), in place; return the number of changes."""
        return sum(self.change(rows, attribute) for attribute in range(len(self.sizes)))

    def change(self, rows: np.ndarray, attribute: int) -> int:
        """Change the codes of one attribute in all records, in place; return the number of changes."""
        from pgmest.synthesis.kernels import change_attribute

        links, size = self.links[attribute], self.sizes[attribute]
        if not len(links) or size == 1:
            return 0
        width = padded(size)
        costs, weights = np.zeros((2, int(links[:, 1].sum()) * width), dtype=np.float32)
        cells, gain = np.empty(len(links), dtype=np.uint64), np.empty(width, dtype=np.float32)
        others, begins = links[:, 0].astype(np.uint64), links[:, 2].astype(np.uint64)
        rest = np.ascontiguousarray(links[:, [1, 3, 4, 5]])
        return change_attribute(
            rows, attribute, size, width, others, begins, rest, self.targets, costs, weights, cells, gain
        )


def padded(size: int) -> int:
    """Return the number of codes, rounded up to a multiple of four, because the kernel sums costs in groups of four."""
    return -(-size // 4) * 4
