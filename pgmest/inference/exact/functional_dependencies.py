"""Functional dependencies: an oracle that computes cliques on an attribute b = f(a) from cliques on a.

If b = f(a), the table over (b, c) is the table over (a, c) with rows summed, and the table over (a, b, c) has the same
entries in other cells. So b may be substituted by a wherever that makes the junction tree smaller. Solvers still see
the measured cliques; the oracle runs the plan of the substituted cliques.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique

Source = tuple[str, np.ndarray]
"""An attribute, and the code of another attribute for each of its codes."""


@dataclass(frozen=True, eq=False)
class Collapse:
    """The substitution of cliques by cliques without functionally dependent attributes.

    Attributes:
        outer: the cliques that solvers see.
        functions: attribute -> the attribute that determines it, and the function; without cycles.
        replaced: the dependent attributes that are substituted in all cliques. The others are substituted only in
            cliques that hold the attribute that determines them, where they are redundant.
        kept: the attribute sets of cliques that stay unchanged, because they state the functions.
    """

    outer: Layout
    functions: Mapping[str, Source]
    replaced: frozenset[str]
    kept: frozenset[frozenset[str]]

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The substitute of each outer clique."""
        return tuple(c if frozenset(c) in self.kept else self._narrowed(c) for c in self.outer.cliques)

    def _narrowed(self, clique: Clique) -> Clique:
        narrowed = tuple(dict.fromkeys(self._substitute(name, clique) for name in clique))
        return clique if narrowed == clique else self._narrowed(narrowed)

    def _substitute(self, name: str, clique: Clique) -> str:
        """Return the last attribute in the chain of functions from `name` that may substitute it in this clique."""
        found, source, substitutable = name, name, True
        while source in self.functions:
            substitutable = substitutable and source in self.replaced
            source = self.functions[source][0]
            if substitutable or source in clique:
                found, substitutable = source, True
        return found

    @cached_property
    def inner(self) -> Layout:
        """The layout of the substituted cliques."""
        return Layout.of(self.outer.domain, self.cliques)

    @cached_property
    def _parts(self) -> Sequence[tuple[slice, slice, np.ndarray | None]]:
        """The outer cells of each clique, its inner cells, and the outer cell of each inner one (None if equal)."""
        parts = []
        for position, (clique, substitute) in enumerate(zip(self.outer.cliques, self.cliques, strict=True)):
            inside = self.inner.index[substitute]
            outer_cells = slice(*(int(end) for end in self.outer.offsets[position : position + 2]))
            inner_cells = slice(*(int(end) for end in self.inner.offsets[inside : inside + 2]))
            parts.append(
                (outer_cells, inner_cells, None if clique == substitute else self._outer_cells(clique, inside))
            )
        return parts

    def _outer_cells(self, clique: Clique, inside: int) -> np.ndarray:
        """Return the cell of an outer clique for each cell of the inner clique at position `inside`."""
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
        """Return potentials on the inner cliques with the same total for every record that obeys the functions."""
        inner = np.zeros(self.inner.cells)
        for outside, inside, cells in self._parts:
            inner[inside] += theta[outside] if cells is None else theta[outside][cells]
        return inner

    def outward(self, mu: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write the marginals of the outer cliques, given those of the inner cliques, to `out` and return it."""
        for outside, inside, cells in self._parts:
            out[outside] = mu[inside] if cells is None else np.bincount(cells, mu[inside], outside.stop - outside.start)
        return out

    def largest(self, values: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write the largest value of the inner cells of each outer cell (-inf without any) to `out` and return it."""
        for outside, inside, cells in self._parts:
            if cells is None:
                out[outside] = values[inside]
            else:
                out[outside] = -np.inf
                np.maximum.at(out[outside], cells, values[inside])
        return out


class CollapsedOracle:
    """A `MarginalOracle` of the outer cliques that runs an oracle of the inner cliques.

    Attributes:
        inner: the oracle of the inner cliques.
        collapse: the substitution of cliques.
        layout: the outer cliques.
    """

    def __init__(self, inner: ExactOracle, collapse: Collapse):
        self.inner = inner
        self.collapse = collapse
        self.layout: Layout = collapse.outer

    @property
    def plan(self) -> PropagationPlan:
        """The inner cliques and their junction tree."""
        return self.inner.plan

    @property
    def calls(self) -> int:
        """The number of sweeps so far."""
        return self.inner.calls

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return the marginals scaled to `total`, and the log-partition function, as `ExactOracle.run` does."""
        mu, log_partition = self.inner.run(self.collapse.inward(theta), total)
        return self._outward(mu, out), log_partition

    def maximum(self, theta: np.ndarray) -> float:
        """Return the largest total potential of any record."""
        return self.inner.maximum(self.collapse.inward(theta))

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the largest total potential of a record in each outer cell, -inf for an impossible cell."""
        best = np.empty(self.layout.cells) if out is None else out
        return self.collapse.largest(self.inner.max_marginals(self.collapse.inward(theta)), best)

    def covariance(self, direction: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the derivative of the marginals along `direction` at the potentials of the last run."""
        return self._outward(self.inner.covariance(self.collapse.inward(direction)), out)

    def _outward(self, mu: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        return self.collapse.outward(mu, np.empty(self.layout.cells) if out is None else out)
