r"""Equivalent potentials whose cliques agree about their maxima, for sweeps that multiply linear numbers.

Cliques that share attributes determine their potentials only together: for any function h of what two of them share,
:math:`\theta_A + h, \theta_B - h` is the same distribution. Solvers drift along such directions: where one measured
table says that a value occurs and another that none of its cells does, the first one's potentials grow without end and
the other one's fall, far beyond what a product of linear numbers can hold, although the sum of the two hardly moves.

Max-sum diffusion (Kovalevsky and Koval 1975; Werner 2007, "A linear programming approach to max-sum problem") moves
such functions between all cliques that share some attributes S, until their max-marginals on S are equal. No record's
total potential changes; the sum of the cliques' maxima, which bounds the largest of them, falls with every pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pgmest.tables.clique_vector import Layout

PASSES = 5
"""Over all shared sets of attributes. The first takes away most of the disagreement, five nearly all that goes away."""

PATIENCE, LONGEST_REST = 3, 256
"""After so many refusals diffusion is tried, for it takes as long as some runs by logarithms. Where it does not help,
as many runs are not tried at all, then twice as many, up to the second number."""


class AgreeingPotentials:
    """What is added to potentials so that sweeps by contraction accept them; nothing until they have refused some.

    What helped with some potentials helps with those that a solver finds next, so it is kept.

    Args:
        layout: of the potentials.
    """

    def __init__(self, layout: Layout):
        self._layout = layout
        self._shift: np.ndarray | None = None
        self._sum: np.ndarray = np.empty(0)
        self._refusals, self._resting, self._rest = 0, 0, PATIENCE

    def rests(self) -> bool:
        """Whether this run is not to be tried, as those before it were in vain."""
        rests = self._resting > 0
        self._resting -= rests
        return rests

    def of(self, theta: np.ndarray) -> np.ndarray:
        """Potentials of the same distribution, in an array that the next call overwrites, or `theta` itself."""
        if self._shift is None or theta.dtype != np.float64:
            return theta
        return np.add(theta, self._shift, out=self._sum)

    def accept(self) -> None:
        """The potentials of the last call were accepted."""
        self._refusals, self._resting, self._rest = 0, 0, PATIENCE

    def renew(self, theta: np.ndarray) -> bool:
        """After a refusal: whether `of` now gives other potentials, which may be accepted. Of float32, which rounds off
        more than a shift is worth, none are looked for."""
        self._refusals += 1
        if self._refusals < PATIENCE or theta.dtype != np.float64:
            return False
        self._resting, self._rest = self._rest, min(2 * self._rest, LONGEST_REST)  # unless these are accepted
        self._shift, self._sum = self._found(theta), np.empty_like(theta)
        return True

    def forget(self) -> None:
        """As before the first refusal, so that what comes next does not depend on what was asked before."""
        self._shift = None
        self.accept()

    def _found(self, theta: np.ndarray) -> np.ndarray:
        """By diffusion from where the cliques agree better: at the potentials themselves, or at these and the shift."""
        begin, starts = self._layout.offsets[:-1], [np.zeros(len(theta))]
        if self._shift is not None:
            starts.append(self._shift)
        start = min(starts, key=lambda shift: float(np.maximum.reduceat(theta + shift, begin).sum()))
        return diffused(theta, start, self._shared)

    @cached_property
    def _shared(self) -> list[Shared]:
        return shared_attributes(self._layout)


class Shared:
    """The cliques that hold some attributes, and their tables with these attributes' axes first.

    Args:
        layout: where the tables lie.
        attributes: that are shared, in any order.
        positions: of the cliques in the layout.
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
        """Views of a flat array."""
        return [flat[cells].reshape(shape).transpose(order) for cells, shape, order in self._tables]


def shared_attributes(layout: Layout) -> list[Shared]:
    """All intersections of two cliques, the larger ones first."""
    sets = [frozenset(clique) for clique in layout.cliques]
    holding: dict[str, set[int]] = {}
    for position, names in enumerate(sets):
        for name in names:
            holding.setdefault(name, set()).add(position)
    pairs = {pair for positions in holding.values() for pair in itertools.combinations(sorted(positions), 2)}
    found = sorted({sets[a] & sets[b] for a, b in pairs}, key=lambda names: (-len(names), sorted(names)))
    return [Shared(layout, names, sorted(set.intersection(*(holding[name] for name in names)))) for names in found]


def diffused(theta: np.ndarray, shift: np.ndarray, shared: Sequence[Shared], passes: int = PASSES) -> np.ndarray:
    """A shift after some passes of diffusion at `theta` from another one.

    The shift is a sum of moves between cliques and of nothing else, so that it leaves the distribution of any other
    potentials as it is, too.

    Args:
        theta, shift: flat, float64.
        shared: `shared_attributes` of their layout.
    """
    moved, sums = shift.copy(), theta + shift
    with np.errstate(invalid="ignore"):  # where a potential is NaN or +inf, which is for others to say
        for _ in range(passes):
            for some in shared:
                _let_agree(some.tables(sums), some.tables(moved), some.axes)
    return moved


def _let_agree(tables: list[np.ndarray], shifts: list[np.ndarray], shared: int) -> None:
    """Give the tables the mean of their max-marginals on the first `shared` axes; note it in the shifts.

    A value that is impossible in one of them is put as low as any in the others: what they lose goes to that one.
    """
    maxima = np.stack([table.max(axis=tuple(range(shared, table.ndim))) for table in tables])
    mean, known = maxima.mean(axis=0), np.isfinite(maxima)
    possible = known.all(axis=0)
    if not possible.any():
        return
    moves = np.subtract(np.where(possible, mean, mean[possible].min()), maxima, out=np.zeros_like(maxima), where=known)
    takers = maxima.argmin(axis=0)[np.newaxis]
    left = np.take_along_axis(moves, takers, axis=0) - moves.sum(axis=0)
    np.put_along_axis(moves, takers, left, axis=0)  # so that all moves together are nothing, to the last digit
    for table, shift, move in zip(tables, shifts, moves, strict=True):
        move = move.reshape(*move.shape, *[1] * (table.ndim - shared))
        table += move
        shift += move
