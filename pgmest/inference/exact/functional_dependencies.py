"""Functional dependencies: an oracle whose cliques on an attribute b = f(a) are computed on a instead.

Where b = f(a), a table over (b, c) is the table over (a, c) with rows added up, and a table over (a, b, c) is it with
rows laid out. So b may be substituted by a wherever that makes the junction tree narrower. Solvers still see the
cliques that were measured; what runs is the plan of the substitutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.inference.exact.plan import Plan
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique

Source = tuple[str, np.ndarray]
"""An attribute, and for each of its codes that of another attribute."""


@dataclass(frozen=True, eq=False)
class Collapse:
    """Which clique substitutes which.

    Attributes:
        outer: the cliques that solvers see.
        functions: attribute -> what it is a function of; following them ends.
        replaced: the attributes among these that are substituted everywhere by what they are functions of. The others
            are so only in cliques that hold that, too, where they cost most and say nothing.
        kept: the sets of attributes whose cliques stay as they are, because they state the functions.
    """

    outer: Layout
    functions: Mapping[str, Source]
    replaced: frozenset[str]
    kept: frozenset[frozenset[str]]

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """For each outer clique the one that stands for it."""
        return tuple(c if frozenset(c) in self.kept else self._narrowed(c) for c in self.outer.cliques)

    def _narrowed(self, clique: Clique) -> Clique:
        narrowed = tuple(dict.fromkeys(self._stand_in(name, clique) for name in clique))
        return clique if narrowed == clique else self._narrowed(narrowed)

    def _stand_in(self, name: str, clique: Clique) -> str:
        """The last attribute that `name` is a function of, through others or not, and that may take its place."""
        found, source, substitutable = name, name, True
        while source in self.functions:
            substitutable = substitutable and source in self.replaced
            source = self.functions[source][0]
            if substitutable or source in clique:
                found, substitutable = source, True
        return found

    @cached_property
    def inner(self) -> Layout:
        """The cliques that run."""
        return Layout.of(self.outer.domain, self.cliques)

    @cached_property
    def _parts(self) -> Sequence[tuple[slice, slice, np.ndarray | None]]:
        """Per outer clique its stretch, that of the inner one, and each inner cell's outer cell (None: the same)."""
        parts = []
        for position, (clique, stand_in) in enumerate(zip(self.outer.cliques, self.cliques, strict=True)):
            inside = self.inner.index[stand_in]
            outer_cells = slice(*(int(end) for end in self.outer.offsets[position : position + 2]))
            inner_cells = slice(*(int(end) for end in self.inner.offsets[inside : inside + 2]))
            parts.append((outer_cells, inner_cells, None if clique == stand_in else self._outer_cells(clique, inside)))
        return parts

    def _outer_cells(self, clique: Clique, inside: int) -> np.ndarray:
        inner, domain = self.inner.domains[inside], self.outer.domain
        codes = dict(zip(inner, np.indices(inner.shape, sparse=True), strict=True))
        index = np.zeros(inner.shape, dtype=np.int64)
        for name in clique:
            root, mapping = name, np.arange(domain[name])
            while root not in codes:
                root, step = self.functions[root]
                mapping = mapping[step]
            index = index * domain[name] + mapping[codes[root]]
        return index.reshape(-1)

    def inward(self, theta: np.ndarray) -> np.ndarray:
        """Potentials on the inner cliques: the same function of every record that obeys the functions."""
        inner = np.zeros(self.inner.cells)
        for outside, inside, cells in self._parts:
            inner[inside] += theta[outside] if cells is None else theta[outside][cells]
        return inner

    def outward(self, mu: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Marginals on the outer cliques, from those on the inner ones."""
        for outside, inside, cells in self._parts:
            out[outside] = mu[inside] if cells is None else np.bincount(cells, mu[inside], outside.stop - outside.start)
        return out

    def largest(self, values: np.ndarray, out: np.ndarray) -> np.ndarray:
        """The largest value of the inner cells of each outer cell, -inf where it has none."""
        for outside, inside, cells in self._parts:
            if cells is None:
                out[outside] = values[inside]
            else:
                out[outside] = -np.inf
                np.maximum.at(out[outside], cells, values[inside])
        return out


class CollapsedOracle:
    """The marginal oracle with potentials and marginals of the outer cliques, run on the inner ones.

    It keeps the contract of `MarginalOracle`, and offers what else solvers ask of an `ExactOracle`; `inner` is one, or
    a `GpuOracle`.
    """

    def __init__(self, inner: Any, collapse: Collapse):
        self.inner = inner
        self.collapse = collapse
        self.layout: Layout = collapse.outer

    @property
    def plan(self) -> Plan:
        """What is run."""
        return self.inner.plan

    @property
    def calls(self) -> int:
        """How many sweeps have run so far."""
        return self.inner.calls

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """The marginals scaled to `total`, and the log-partition function; as `ExactOracle.run`."""
        mu, log_partition = self.inner.run(self.collapse.inward(theta), total)
        return self._outward(mu, out), log_partition

    def maximum(self, theta: np.ndarray) -> float:
        """The largest total potential of any record."""
        return self.inner.maximum(self.collapse.inward(theta))

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """For each outer cell, the largest total potential of a record that falls into it (-inf: none can)."""
        best = np.empty(self.layout.cells) if out is None else out
        return self.collapse.largest(self.inner.max_marginals(self.collapse.inward(theta)), best)

    def covariance(self, direction: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The derivative of the marginals along `direction` at the potentials of the last run."""
        return self._outward(self.inner.covariance(self.collapse.inward(direction)), out)

    def _outward(self, mu: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        return self.collapse.outward(mu, np.empty(self.layout.cells) if out is None else out)
