"""Which tables a sweep over records gathers from and scatters to: the cliques, joined where that saves work.

A sweep costs a look-up and an addition for each record and table. Cliques inside others, and cliques whose union has
few cells, are therefore read through one joint table; what that table holds is summed to the cliques afterwards, at a
cost that does not depend on the number of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

JOINT_CELLS = 1 << 14
"""Cliques are joined up to this many cells: potentials and sums of such tables lie in the the second level of cache."""

CELLS_PER_RECORD = 0.02
"""And up to this many cells per record, because summing the tables should cost less than the sweep."""


@dataclass(frozen=True)
class RecordTables:
    """The tables of a sweep, and how they give and take the values of a layout's cliques.

    Attributes:
        layout: the cliques.
        hosts: the tables' attributes, in domain order.
        places: for each clique the position of the host that holds its attributes.
    """

    layout: Layout
    hosts: tuple[Clique, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, layout: Layout, records: int) -> RecordTables:
        """Join the cliques first come, first served, largest first; each goes where the union stays smallest."""
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
        """Where the tables lie in the flat array of a sweep."""
        return Layout(self.layout.domain, self.hosts)

    @cached_property
    def _ways(self) -> tuple[_Way, ...]:
        """For each clique how its table lies in its host's."""
        return tuple(
            _Way.of(
                clique,
                self.joint.domains[place],
                slice(*map(int, self.layout.offsets[c : c + 2])),
                slice(*map(int, self.joint.offsets[place : place + 2])),
            )
            for c, (clique, place) in enumerate(zip(self.layout.cliques, self.places, strict=True))
        )

    def join(self, theta: np.ndarray, out: np.ndarray) -> np.ndarray:
        """The potentials of the cliques, added up in the tables."""
        out.fill(0.0)
        for way in self._ways:
            table = theta[way.cells].reshape(way.shape).transpose(way.to_host).reshape(way.spread_shape)
            hosted = out[way.hosted].reshape(way.host_shape)
            hosted += table
        return out

    def split(self, mass: np.ndarray, combine: np.ufunc, out: np.ndarray) -> np.ndarray:
        """What the tables hold, reduced to each clique's cells by `combine` (np.add or np.maximum)."""
        for way in self._ways:
            table = mass[way.hosted].reshape(way.host_shape)
            if way.summed:
                table = combine.reduce(table, axis=way.summed)
            out[way.cells] = table.transpose(way.to_clique).reshape(-1)
        return out


@dataclass(frozen=True)
class _Way:
    """Between a clique's table and its host's.

    Attributes:
        cells, hosted: where the two tables lie in their flat arrays.
        shape, host_shape: theirs.
        to_host, to_clique: transpositions from the clique's order of axes to the host's, and back.
        spread_shape: the clique's, in the host's order, with 1 for each axis that it lacks.
        summed: these axes.
    """

    cells: slice
    hosted: slice
    shape: tuple[int, ...]
    host_shape: tuple[int, ...]
    to_host: tuple[int, ...]
    to_clique: tuple[int, ...]
    spread_shape: tuple[int, ...]
    summed: tuple[int, ...]

    @classmethod
    def of(cls, clique: Clique, host: Domain, cells: slice, hosted: slice) -> _Way:
        kept = [name for name in host if name in clique]
        return cls(
            cells,
            hosted,
            shape=tuple(host[name] for name in clique),
            host_shape=host.shape,
            to_host=tuple(clique.index(name) for name in kept),
            to_clique=tuple(kept.index(name) for name in clique),
            spread_shape=tuple(size if name in clique else 1 for name, size in host.items()),
            summed=tuple(axis for axis, name in enumerate(host) if name not in clique),
        )
