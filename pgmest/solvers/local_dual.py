"""The dual function of least squares over the local polytope, evaluated in one compiled pass (local_kernels.py)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from pgmest._base.threads import get_threads, run_together
from pgmest.inference.regions.region_tables import RegionTables, Tables
from pgmest.losses.base import dot
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers import local_columns as f
from pgmest.tables.domain import Clique

POSITIVE_SHARE = 0.1
"""A guess at the share of positive cells in a measured table, by which variables are scaled; most cells are empty."""

THREAD_CELLS = 1 << 17
"""The number of cells per thread: with fewer cells, starting another thread costs more time than it saves."""


@dataclass(frozen=True)
class DualPoint:
    """The dual function at a point.

    Attributes:
        multipliers: the scaled multipliers.
        value: minus the dual value.
        slope: the gradient of `value`.
        loss: the loss of the tables at these multipliers.
        inconsistency: the largest L1 disagreement of these tables, each of which sums to about 1.
    """

    multipliers: np.ndarray
    value: float
    slope: np.ndarray
    loss: float
    inconsistency: float


class LocalDual:
    """The dual function, whose variables are scaled to about equal curvature.

    Args:
        tables: the regions; every outer region that contains an inner one is measured.
        loss: a loss of marginals that sum to one, with a positive precision in each cell.

    Attributes:
        size: the number of variables.
    """

    def __init__(self, tables: RegionTables, loss: WeightedSquares):
        self._arrays = _RegionArrays(tables, loss)
        arrays = self._arrays
        precision = np.broadcast_to(np.asarray(loss.precision), (loss.layout.cells,))
        empty = [int(start) for clique, start in zip(loss.cliques, loss.layout.offsets, strict=False) if not clique]
        self._constant = loss.constant + sum(0.5 * float(precision[at] * (1 - loss.target[at]) ** 2) for at in empty)
        self._parts = int(arrays.parts)
        self.size: int = self._parts + len(arrays.nodes)
        self._multipliers, self._sums = np.zeros(self._parts), np.zeros(self._parts)
        self._agreed = np.zeros(max(1, arrays.agreed))
        self._masses, self._losses = np.zeros(len(arrays.nodes)), np.zeros(len(arrays.nodes))

    def at(self, x: np.ndarray) -> DualPoint:
        """Return the value and the slope at scaled multipliers."""
        from pgmest.solvers.local_kernels import disagreement

        arrays, (levels, _) = self._arrays, self._pass(x, np.empty(0))
        loss = self._constant + float(self._losses.sum())
        value = loss + dot(self._multipliers, self._sums) + float(levels @ (self._masses - 1.0))
        slope = np.empty(self.size)
        inconsistency = disagreement(
            arrays.spaces, arrays.scales, arrays.owned, self._sums, slope[: self._parts], self._agreed
        )
        slope[self._parts :] = (self._masses - 1.0) / arrays.level_scales
        np.negative(slope, out=slope)
        return DualPoint(x, -value, slope, loss, inconsistency)

    def tables(self, x: np.ndarray) -> tuple[Tables, Tables]:
        """Return the tables of the outer and of the inner regions at scaled multipliers.

        The table of an inner region that was not measured is the mean of the marginals of the regions that contain it.
        """
        from pgmest.solvers.local_kernels import disagreement

        arrays = self._arrays
        _, cells = self._pass(x, np.empty(arrays.cells))
        disagreement(arrays.spaces, arrays.scales, arrays.owned, self._sums, np.empty(self._parts), self._agreed)
        return arrays.regions(cells, self._agreed)

    def _pass(self, x: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the best tables; return the multipliers of the totals, and `cells` with the tables if not empty."""
        from pgmest.solvers.local_kernels import best_tables, centered

        arrays = self._arrays
        centered(arrays.spaces, arrays.scales, x[: self._parts], self._multipliers)
        levels = x[self._parts :] / arrays.level_scales
        self._sums[:] = 0.0
        inputs: tuple[Any, ...] = (
            arrays.nodes,
            arrays.edges,
            arrays.entries,
            arrays.target,
            arrays.variance,
            arrays.uniform,
        )
        outputs = (self._sums, self._masses, self._losses, cells)
        run_together(
            partial(best_tables, begin, end, *inputs, self._multipliers, levels, np.empty(arrays.widest), *outputs)
            for begin, end in pairwise(arrays.cuts(get_threads()))
        )
        return levels, cells


class _RegionArrays:
    """The regions and their overlaps as flat arrays for the kernels. Tables have the smallest attributes first.

    Attributes:
        nodes, edges, entries: the regions, their edges to inner regions, and the map of rows (local_kernels.py).
        target: y, by cell.
        variance: the variances by cell, for the regions whose variances differ.
        uniform: the variance of the first cell of each region.
        spaces, scales, owned: the overlaps (local_kernels.py).
        level_scales: the scale of the multiplier of the total of each region.
        parts, agreed, cells, widest: the number of cells of all edges, of all overlaps, of all tables, and of the
            longest row.
    """

    def __init__(self, tables: RegionTables, loss: WeightedSquares):
        self._tables = tables
        graph = tables.graph
        self._regions = (*graph.outer, *graph.inner)
        measured = [*tables.measured[0], *tables.measured[1]]
        self._measured = [region for region, found in enumerate(measured) if found]
        self._sizes = dict(graph.domain.items())
        precision = np.broadcast_to(np.asarray(loss.precision), (loss.layout.cells,))
        targets = [table for part in tables.split(loss.target) for table in part]
        variances = [table for part in tables.split(1.0 / precision) for table in part]
        self._lay_cells(targets, variances)
        self._lay_parts(variances)
        self._lay_edges()

    def order(self, region: Clique) -> tuple[str, ...]:
        """Return a region's attributes, the smallest first."""
        return tuple(sorted(region, key=self._sizes.__getitem__))

    def cuts(self, threads: int) -> list[int]:
        """Return the positions at which to split the regions between threads, each with about the same cells."""
        threads = max(1, min(threads, self.cells // THREAD_CELLS, len(self.nodes)))
        ends = np.cumsum(self.nodes[:, f.ROWS] * self.nodes[:, f.COLUMNS])
        inside = np.searchsorted(ends, self.cells * np.arange(1, threads) / threads)
        return [0, *inside.tolist(), len(self.nodes)]

    def regions(self, cells: np.ndarray, agreed: np.ndarray) -> tuple[Tables, Tables]:
        """Return the tables of all regions, with axes in domain order; an outer region not measured is uniform."""
        graph = self._tables.graph
        found = [np.full(graph.domain.project(region).shape, 1.0 / graph.domain.size(region)) for region in graph.outer]
        found += [
            self._in_domain_order(region, agreed[at:]) for region, at in zip(graph.inner, self._agreed_at, strict=True)
        ]
        for node, region in zip(self.nodes, self._measured, strict=True):
            found[region] = self._in_domain_order(self._regions[region], cells[node[f.CELLS_START] :])
        return found[: len(graph.outer)], found[len(graph.outer) :]

    def _in_domain_order(self, region: Clique, cells: np.ndarray) -> np.ndarray:
        """Return the table at the start of `cells`, with its axes in domain order."""
        order = self.order(region)
        shape = [self._sizes[name] for name in order]
        return cells[: int(np.prod(shape))].reshape(shape).transpose([order.index(name) for name in region]).copy()

    def _lay_cells(self, targets: Tables, variances: Tables) -> None:
        """Lay out the answers and variances of the measured regions."""
        self.nodes: np.ndarray = np.zeros((len(self._measured), f.N_NODE), dtype=np.int64)
        uniform, flat_targets, flat_variances, start, varied = [], [], [], 0, 0
        for node, region in zip(self.nodes, self._measured, strict=True):
            names, order = self._regions[region], self.order(self._regions[region])
            axes = [names.index(name) for name in order]
            target, variance = (of[region].transpose(axes).reshape(-1) for of in (targets, variances))
            node[[f.CELLS_START, f.COLUMNS, f.ROWS]] = (
                start,
                self._sizes[order[-1]],
                target.size // self._sizes[order[-1]],
            )
            same = bool(np.all(variance == variance[0]))
            node[f.VARIANCE] = -1 if same else varied
            uniform.append(float(variance[0]))
            flat_targets.append(target)
            start += target.size
            if not same:
                flat_variances.append(variance)
                varied += variance.size
        self.target: np.ndarray = np.concatenate([np.empty(0), *flat_targets])
        self.variance: np.ndarray = np.concatenate([np.empty(0), *flat_variances])
        self.uniform: np.ndarray = np.array(uniform)
        self.cells: int = start
        self.widest: int = int(self.nodes[:, f.COLUMNS].max(initial=1))

    def _lay_parts(self, variances: Tables) -> None:
        """Lay out the multipliers of each overlap; a measured table of the overlap itself comes last."""
        tables, n = self._tables, len(self._tables.graph.outer)
        own = tables.measured[1]
        spaces, scales, self._agreed_at = [], [], []
        self.parts, self.agreed = 0, 0
        for i, edges in enumerate(tables.edges):
            holders = [edge.outer for edge in edges] + [n + i] * own[i]
            cells = self._tables.graph.domain.size(tables.graph.inner[i])
            spaces.append((self.parts, len(holders), cells, len(scales)))
            scales += [np.sqrt(variances[holder].sum() / cells * POSITIVE_SHARE) for holder in holders]
            self._agreed_at.append(self.agreed)
            self.parts += len(holders) * cells
            self.agreed += cells
        self.spaces: np.ndarray = np.array(spaces, dtype=np.int64).reshape(-1, 4)
        self.scales: np.ndarray = np.array(scales, dtype=np.float64)
        self.owned: np.ndarray = np.array(own, dtype=np.bool_)
        whole = [max(float(variances[region].sum()), np.finfo(float).tiny) for region in self._measured]
        self.level_scales: np.ndarray = np.sqrt(np.array(whole) * POSITIVE_SHARE)

    def _lay_edges(self) -> None:
        """Lay out the edges between measured regions and their inner regions."""
        graph, n = self._tables.graph, len(self._tables.graph.outer)
        edges, entries, offset = [], [], 0
        for node, region in zip(self.nodes, self._measured, strict=True):
            inner_regions = self._tables.inside[region] if region < n else [(region - n, -1)]
            node[f.EDGES] = len(edges)
            for i, position in inner_regions:
                start, count, cells, _ = self.spaces[i]
                rows, along = self._entries_of_rows(self.order(self._regions[region]), self.order(graph.inner[i]))
                edges.append((start + (position % count) * cells, along, offset))
                entries.append(rows)
                offset += len(rows)
            node[f.EDGES_END] = len(edges)
        self.edges: np.ndarray = np.array(edges, dtype=np.int64).reshape(-1, f.N_EDGE)
        self.entries: np.ndarray = np.concatenate([np.empty(0, dtype=np.int32), *entries])

    def _entries_of_rows(self, outer: tuple[str, ...], inner: tuple[str, ...]) -> tuple[np.ndarray, int]:
        """Return the inner region's cell at the start of each row of an outer region, and 1 if its cells run along the
        row (0 if the row lies in one cell)."""
        cells = np.arange(int(np.prod([self._sizes[name] for name in inner])), dtype=np.int32)
        table = cells.reshape([self._sizes[name] if name in inner else 1 for name in outer])[..., 0]
        shape = [self._sizes[name] for name in outer[:-1]]
        return np.broadcast_to(table, shape).reshape(-1), int(outer[-1] in inner)
