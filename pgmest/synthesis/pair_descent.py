"""Coordinate descent of records toward many two-way tables, one attribute after the other.

The tables of all pairs do not fit in a cache, and changing a record reads all of them. The tables that contain one
attribute do fit: they stay in the cache while the codes of that attribute change in all records. The distance is that
of `local_search`, and never grows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pgmest._base.threads import get_threads, run_together
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True)
class PairDescent:
    """The target tables, as `kernels.change_attribute` reads them.

    Attributes:
        sizes: the number of codes of each attribute.
        targets: the target counts, one table after the other.
        links: for each attribute an array with a row for each of its tables. The columns are the other attribute, its
            number of codes, the start of the table in `targets`, and the strides there of the other attribute and of
            the attribute itself.
        scales: for each attribute the factors of the weights of its tables.
    """

    sizes: tuple[int, ...]
    targets: np.ndarray
    links: tuple[np.ndarray, ...]
    scales: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls,
        cliques: Sequence[Clique],
        domain: Domain,
        wanted: Sequence[np.ndarray],
        variances: Sequence[float] | None = None,
    ) -> PairDescent:
        """Return the descent for tables of two attributes each.

        Args:
            cliques: the attributes of each table.
            domain: the attributes of the records.
            wanted: the target counts of each table.
            variances: the variance of the noise in each count, as in `local_search.TargetTable`; 0 by default.
        """
        axis = {name: axis for axis, name in enumerate(domain)}
        first, second = np.array([[axis[name] for name in clique] for clique in cliques], np.int64).reshape(-1, 2).T
        rows, columns = np.array([table.shape for table in wanted], np.int64).reshape(-1, 2).T
        starts, one = np.cumsum(rows * columns) - rows * columns, np.ones(len(rows), dtype=np.int64)
        targets = np.empty(int((rows * columns).sum()), dtype=np.float32)
        for start, table in zip(starts, wanted, strict=True):
            targets[start : start + table.size] = np.ravel(table)
        links = np.concatenate(
            [
                np.column_stack([second, columns, starts, one, columns]),
                np.column_stack([first, rows, starts, columns, one]),
            ]
        )
        noise = np.zeros(len(rows)) if variances is None else np.asarray(variances)
        scales, own = np.tile((1 / np.sqrt(noise + 1)).astype(np.float32), 2), np.concatenate([first, second])
        order = np.lexsort([*links.T[::-1], own])
        cuts = np.cumsum(np.bincount(own, minlength=len(domain)))[:-1]
        return cls(domain.shape, targets, tuple(np.split(links[order], cuts)), tuple(np.split(scales[order], cuts)))

    @property
    def steps(self) -> float:
        """The number of cells that a sweep reads for each record."""
        return float(sum(len(links) * padded(size) for links, size in zip(self.links, self.sizes, strict=True)))

    def sweep(self, rows: np.ndarray) -> int:
        """Change the codes of all records, shape (records, attributes), in place; return the number of changes."""
        return sum(self.change(rows, attribute) for attribute in range(len(self.sizes)))

    def change_together(self, rows: np.ndarray, attributes: Sequence[int]) -> int:
        """Change the codes of several attributes in all records, each on a thread; return the number of changes.

        The tables of these attributes with each other do not count, so that the result does not depend on the number of
        threads, and the distance to all other tables does not grow.

        Args:
            rows: the records, shape (records, attributes); changed in place.
            attributes: the attributes.
        """
        tasks = [partial(self.change, rows, attribute, attributes) for attribute in attributes]
        return sum(run_together(tasks) if get_threads() > 1 else (task() for task in tasks))

    def change(self, rows: np.ndarray, attribute: int, without: Collection[int] = ()) -> int:
        """Change the codes of one attribute in all records, in place; return the number of changes.

        Args:
            rows: the records, shape (records, attributes).
            attribute: the attribute.
            without: the attributes whose tables with this one do not count.
        """
        from pgmest.synthesis.kernels import change_attribute

        counted = ~np.isin(self.links[attribute][:, 0], list(without))
        links, scales, size = self.links[attribute][counted], self.scales[attribute][counted], self.sizes[attribute]
        if not len(links) or size == 1:
            return 0
        width = padded(size)
        begins = (np.cumsum(np.append(0, links[:-1, 1])) * width).astype(np.uint64)
        costs, weights = np.zeros((2, int(links[:, 1].sum()) * width), dtype=np.float32)
        cells, gain = np.empty(len(links), dtype=np.uint64), np.empty(width, dtype=np.float32)
        others, rest = links[:, 0].astype(np.uint64), np.ascontiguousarray(links[:, 1:])
        return change_attribute(
            rows, attribute, size, width, others, begins, rest, scales, self.targets, costs, weights, cells, gain
        )


def padded(size: int) -> int:
    """Return the number of codes, rounded up to a multiple of four, because the kernel sums costs in groups of four."""
    return -(-size // 4) * 4
