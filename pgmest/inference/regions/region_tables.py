"""The tables of a region graph: the positions of inner regions in outer ones, and of both in flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pgmest.errors import ShapeError
from pgmest.inference.regions.region_graph import RegionGraph
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique

Tables = list[np.ndarray]


class Edge:
    """An inner region inside the outer region at position `outer`; both have their axes in domain order."""

    def __init__(self, outer: int, clique: Clique, region: Clique, shape: tuple[int, ...]):
        self.outer = outer
        self.shape = shape
        self._dropped = tuple(axis for axis, name in enumerate(clique) if name not in region)
        self._index = tuple(slice(None) if name in region else None for name in clique)

    def project(self, table: np.ndarray, reduce: Callable[..., np.ndarray] = np.add.reduce) -> np.ndarray:
        """Return the outer table reduced to the inner region."""
        return reduce(table, axis=self._dropped)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return a view of a table of the inner region that broadcasts over the outer region."""
        return values[self._index]


class _Host(NamedTuple):
    """The region of a clique, the axes of the region in the clique, and the position of the clique's table."""

    region: int
    axes: tuple[int, ...]
    start: int
    end: int
    shape: tuple[int, ...]


class RegionTables:
    """The regions of the cliques of a layout as tables.

    Attributes:
        layout, graph: the cliques and their regions.
        edges: for each inner region, the edges to the outer regions around it.
        inside: for each outer region, its edges as (inner region, position among the edges of that region).
    """

    def __init__(self, layout: Layout, graph: RegionGraph):
        self.layout = layout
        self.graph = graph
        self.edges: list[list[Edge]] = [
            [Edge(o, graph.outer[o], region, graph.domain.project(region).shape) for o in above]
            for region, above in zip(graph.inner, graph.holders, strict=True)
        ]
        self.inside: list[list[tuple[int, int]]] = [[] for _ in graph.outer]
        for i, above in enumerate(graph.holders):
            for position, o in enumerate(above):
                self.inside[o].append((i, position))

    def split(self, flat: np.ndarray) -> tuple[Tables, Tables]:
        """Return the tables of the outer and the inner regions, each the sum of the tables of its cliques."""
        if flat.shape != (self.layout.cells,):
            raise ShapeError.of("the flat array", (self.layout.cells,), flat.shape)
        domain, graph = self.graph.domain, self.graph
        regions = [np.zeros(domain.project(region).shape) for region in (*graph.outer, *graph.inner)]
        for host in self._hosts:
            regions[host.region] += flat[host.start : host.end].reshape(host.shape).transpose(host.axes)
        return regions[: len(graph.outer)], regions[len(graph.outer) :]

    def constant(self, flat: np.ndarray) -> float:
        """Return the sum of the entries of empty cliques."""
        starts = zip(self.layout.cliques, self.layout.offsets.tolist(), strict=False)
        return float(sum(flat[start] for clique, start in starts if not clique))

    def write(self, flat: np.ndarray, outer: Sequence[np.ndarray], inner: Sequence[np.ndarray], scale: float) -> None:
        """Fill a flat array with the tables of the cliques, times `scale`."""
        flat[:] = scale  # the value of an empty clique; the loop overwrites all others
        regions = (*outer, *inner)
        for host in self._hosts:
            table = regions[host.region].transpose(np.argsort(host.axes))
            np.multiply(table, scale, out=flat[host.start : host.end].reshape(host.shape))

    def disagreement(self, outer: Sequence[np.ndarray], inner: Sequence[np.ndarray]) -> float:
        """Return the largest L1 distance between the table of an inner region and the sums of an outer one."""
        distances = (
            float(np.abs(edge.project(outer[edge.outer]) - table).sum())
            for edges, table in zip(self.edges, inner, strict=True)
            for edge in edges
        )
        return max(distances, default=0.0)

    @cached_property
    def measured(self) -> tuple[list[bool], list[bool]]:
        """Flags of the outer and of the inner regions that are cliques of the layout."""
        hosts = {host.region for host in self._hosts}
        n = len(self.graph.outer)
        return [o in hosts for o in range(n)], [n + i in hosts for i in range(len(self.graph.inner))]

    @cached_property
    def _hosts(self) -> list[_Host]:
        regions = {region: place for place, region in enumerate((*self.graph.outer, *self.graph.inner))}
        offsets, hosts = self.layout.offsets.tolist(), []
        for position, clique in enumerate(self.layout.cliques):
            region = self.graph.domain.ordered(clique)
            if region:
                axes = tuple(clique.index(name) for name in region)
                shape = self.layout.domains[position].shape
                hosts.append(_Host(regions[region], axes, offsets[position], offsets[position + 1], shape))
        return hosts
