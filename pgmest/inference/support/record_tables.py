"""The tables that a sweep over records gathers from and scatters to: cliques, merged if that saves work.

A sweep costs a look-up and an addition for each record and table. So cliques inside other cliques, and cliques whose
union has few cells, share one joint table. That table is summed to the cliques afterwards, at a cost that does not
depend on the number of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

JOINT_CELLS = 1 << 14
"""The most cells of a joint table; potentials and sums of such tables fit into the second-level cache."""

CELLS_PER_RECORD = 0.02
"""The most cells of a joint table per record, so that summing the tables costs less than the sweep."""


@dataclass(frozen=True)
class RecordTables:
    """The joint tables of a sweep, and the conversions between these and the cliques of a layout.

    Attributes:
        layout: the cliques.
        hosts: the attributes of each joint table, in domain order.
        places: for each clique, the position of the host table that holds its attributes.
    """

    layout: Layout
    hosts: tuple[Clique, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, layout: Layout, records: int) -> RecordTables:
        """Merge the cliques greedily, largest first: each goes to the table with which its union is smallest."""
        domain, limit = layout.domain, min(JOINT_CELLS, CELLS_PER_RECORD * records)
        order = sorted(range(len(layout.cliques)), key=lambda c: (-layout.sizes[c], sorted(layout.cliques[c])))
        hosts: list[frozenset[str]] = []
        places = [0] * len(layout.cliques)
        for c in order:
            clique = frozenset(layout.cliques[c])
            best, smallest = None, limit
            for position, host in enumerate(hosts):
                cells = domain.size(host | clique) if not clique <= host else 0
                if cells <= smallest:
                    best, smallest = position, cells
            if best is None:
                best = len(hosts)
                hosts.append(clique)
            hosts[best] |= clique
            places[c] = best
        ordered = tuple(map(domain.ordered, hosts))
        return cls(layout, ordered, tuple(places))

    @cached_property
    def joint(self) -> Layout:
        """The layout of the joint tables in the flat array of a sweep."""
        return Layout(self.layout.domain, self.hosts)

    @cached_property
    def _embeddings(self) -> tuple[_Embedding, ...]:
        """The position of the table of each clique in its host table."""
        return tuple(
            _Embedding.of(
                clique,
                self.joint.domains[place],
                slice(*map(int, self.layout.offsets[c : c + 2])),
                slice(*map(int, self.joint.offsets[place : place + 2])),
            )
            for c, (clique, place) in enumerate(zip(self.layout.cliques, self.places, strict=True))
        )

    def join(self, theta: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write the sums of the potentials of the cliques in each joint table to `out`, and return it."""
        out.fill(0.0)
        for e in self._embeddings:
            hosted = out[e.hosted].reshape(e.host_shape)
            hosted += theta[e.cells].reshape(e.shape).transpose(e.to_host).reshape(e.broadcast_shape)
        return out

    def split(self, mass: np.ndarray, combine: np.ufunc, out: np.ndarray) -> np.ndarray:
        """Reduce the joint tables to the cells of each clique by `combine` (np.add or np.maximum) into `out`."""
        for e in self._embeddings:
            table = mass[e.hosted].reshape(e.host_shape)
            if e.summed:
                table = combine.reduce(table, axis=e.summed)
            out[e.cells] = table.transpose(e.to_clique).reshape(-1)
        return out


@dataclass(frozen=True)
class _Embedding:
    """The position of the table of a clique in its host table.

    Attributes:
        cells, hosted: the ranges of the two tables in their flat arrays.
        shape, host_shape: the shapes of the two tables.
        to_host, to_clique: the transpositions from the axis order of the clique to that of the host, and back.
        broadcast_shape: the shape of the clique in the axis order of the host, with 1 for each axis that it lacks.
        summed: the axes that the clique lacks.
    """

    cells: slice
    hosted: slice
    shape: tuple[int, ...]
    host_shape: tuple[int, ...]
    to_host: tuple[int, ...]
    to_clique: tuple[int, ...]
    broadcast_shape: tuple[int, ...]
    summed: tuple[int, ...]

    @classmethod
    def of(cls, clique: Clique, host: Domain, cells: slice, hosted: slice) -> _Embedding:
        """Return the embedding of a clique in a host with these ranges of their flat arrays."""
        kept = [name for name in host if name in clique]
        return cls(
            cells,
            hosted,
            shape=tuple(host[name] for name in clique),
            host_shape=host.shape,
            to_host=tuple(clique.index(name) for name in kept),
            to_clique=tuple(kept.index(name) for name in clique),
            broadcast_shape=tuple(size if name in clique else 1 for name, size in host.items()),
            summed=tuple(axis for axis, name in enumerate(host) if name not in clique),
        )
