r"""Equivalent potentials whose cliques agree about their maxima, for sweeps that multiply linear numbers.

The potentials of a distribution are not unique: if A and B share attributes, then for any function h of these
attributes :math:`\theta_A + h, \theta_B - h` gives the same distribution. Solvers drift along such directions. If one
measured table says that a value occurs and another says that it does not, the potentials of one table grow without
bound and those of the other fall, far beyond the range of a product of linear numbers, while their sum hardly changes.

Max-sum diffusion (Kovalevsky and Koval 1975; Werner 2007, "A linear programming approach to max-sum problem") moves
such functions between all cliques that share some attributes S, until their max-marginals on S are equal. The total
potential of each record stays the same; the sum of the cliques' maxima, which bounds it, falls with every pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pgmest.tables.clique_vector import Layout

PASSES = 5
"""The number of diffusion passes over all shared sets of attributes. The first pass removes most of the disagreement,
and five remove nearly all of it that can be removed."""

PATIENCE, LONGEST_BACKOFF = 3, 256
"""The number of refused runs before the first diffusion, which takes as long as several runs in logs; and the most runs
to skip. If diffusion does not help, PATIENCE runs are skipped, then twice as many, up to the second number."""


class AgreeingPotentials:
    """A shift of potentials, equivalent to zero, with which sweeps by contraction accept them.

    There is no shift until the sweeps have refused some potentials. The shift is kept for later runs, because the next
    potentials of a solver are similar.

    Args:
        layout: the layout of the potentials.
    """

    def __init__(self, layout: Layout):
        self._layout = layout
        self._shift: np.ndarray | None = None
        self._sum: np.ndarray = np.empty(0)
        self.accept()

    def skip(self) -> bool:
        """Return whether to skip this run, because the runs before it failed (backoff)."""
        skip = self._to_skip > 0
        self._to_skip -= skip
        return skip

    def shifted(self, theta: np.ndarray) -> np.ndarray:
        """Return shifted potentials, in an array that the next call overwrites; `theta` itself without a shift."""
        if self._shift is None:
            return theta
        return np.add(theta, self._shift, out=self._sum)

    def accept(self) -> None:
        """Note that the sweeps accepted the last potentials: reset the backoff."""
        self._refusals, self._to_skip, self._backoff = 0, 0, PATIENCE

    def renew(self, theta: np.ndarray) -> bool:
        """Note that the sweeps refused `theta`; return whether there is a new shift with which to try again."""
        self._refusals += 1
        if self._refusals < PATIENCE:
            return False
        self._to_skip, self._backoff = self._backoff, min(2 * self._backoff, LONGEST_BACKOFF)  # until `accept`
        self._shift, self._sum = self._new_shift(theta), np.empty_like(theta)
        return True

    def reset(self) -> None:
        """Forget the shift, so that later results do not depend on earlier runs."""
        self._shift = None
        self.accept()

    def _new_shift(self, theta: np.ndarray) -> np.ndarray:
        """Return a shift by diffusion, starting from zero or the present shift, whichever agrees better."""
        begin, starts = self._layout.offsets[:-1], [np.zeros(len(theta))]
        if self._shift is not None:
            starts.append(self._shift)
        start = min(starts, key=lambda shift: float(np.maximum.reduceat(theta + shift, begin).sum()))
        return diffused(theta, start, self._shared)

    @cached_property
    def _shared(self) -> list[Shared]:
        return shared_attributes(self._layout)


class Shared:
    """The cliques that share some attributes, and their tables with the axes of these attributes first.

    Args:
        layout: the layout of the tables.
        attributes: the shared attributes, in any order.
        positions: the positions of the cliques in the layout.
    """

    def __init__(self, layout: Layout, attributes: frozenset[str], positions: Sequence[int]):
        names = tuple(sorted(attributes))
        self.axes: int = len(names)
        self._tables = []
        for position in positions:
            clique = layout.cliques[position]
            order = [clique.index(name) for name in (*names, *(name for name in clique if name not in attributes))]
            cells = slice(int(layout.offsets[position]), int(layout.offsets[position + 1]))
            self._tables.append((cells, layout.domains[position].shape, order))

    def tables(self, flat: np.ndarray) -> list[np.ndarray]:
        """Return the tables as views of a flat array."""
        return [flat[cells].reshape(shape).transpose(order) for cells, shape, order in self._tables]


def shared_attributes(layout: Layout) -> list[Shared]:
    """Return all intersections of two cliques, the larger ones first."""
    sets = [frozenset(clique) for clique in layout.cliques]
    holding: dict[str, set[int]] = {}
    for position, names in enumerate(sets):
        for name in names:
            holding.setdefault(name, set()).add(position)
    pairs = {pair for positions in holding.values() for pair in itertools.combinations(sorted(positions), 2)}
    found = sorted({sets[a] & sets[b] for a, b in pairs}, key=lambda names: (-len(names), sorted(names)))
    return [Shared(layout, names, sorted(set.intersection(*(holding[name] for name in names)))) for names in found]


def diffused(theta: np.ndarray, shift: np.ndarray, shared: Sequence[Shared], passes: int = PASSES) -> np.ndarray:
    """Return the shift after some passes of diffusion at `theta` that start from another shift.

    The shift is a sum of moves between cliques, so it does not change the distribution of any potentials.

    Args:
        theta, shift: flat arrays, float64.
        shared: `shared_attributes` of their layout.
        passes: the number of passes.
    """
    moved, sums = shift.copy(), theta + shift
    with np.errstate(invalid="ignore"):  # the caller reports potentials that are NaN or +inf
        for _ in range(passes):
            for some in shared:
                _equalize_max_marginals(some.tables(sums), some.tables(moved), some.axes)
    return moved


def _equalize_max_marginals(tables: list[np.ndarray], shifts: list[np.ndarray], shared: int) -> None:
    """Give the tables the mean of their max-marginals on the first `shared` axes; add the moves to the shifts.

    If a value is impossible in one table, the other tables get their lowest mean there, and that table takes up the
    difference.
    """
    maxima = np.stack([table.max(axis=tuple(range(shared, table.ndim))) for table in tables])
    mean, known = maxima.mean(axis=0), np.isfinite(maxima)
    possible = known.all(axis=0)
    if not possible.any():
        return
    moves = np.subtract(np.where(possible, mean, mean[possible].min()), maxima, out=np.zeros_like(maxima), where=known)
    takers = maxima.argmin(axis=0)[np.newaxis]
    left = np.take_along_axis(moves, takers, axis=0) - moves.sum(axis=0)
    np.put_along_axis(moves, takers, left, axis=0)  # the moves have to add up to exactly zero
    for table, shift, move in zip(tables, shifts, moves, strict=True):
        move = move.reshape(*move.shape, *[1] * (table.ndim - shared))
        table += move
        shift += move
