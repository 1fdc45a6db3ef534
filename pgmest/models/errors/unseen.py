"""UnseenDependence: dependence that a model may lack, because its tables were not measured or not finely enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pgmest.measurements.selection import PaidSelection
from pgmest.models.errors.bounded_sizes import mean_below, sizes_below
from pgmest.models.errors.model_tables import ModelTables
from pgmest.models.errors.selected_bounds import SelectedBounds
from pgmest.models.errors.smooth_shares import SmoothShares, mean_shares, shown_share
from pgmest.tables.domain import Clique

LEAST_REST = 0.1
"""The least share of the weakest measured dependence on the strongest path between its attributes that a pair may have
beyond the model, as both are known with errors."""
TRIPLE_SHARE = 0.5
"""The three-way dependence of a triple, as a share of the weakest dependence of its pairs."""
NOTHING_MEASURED = 0.1
"""The dependence of a pair, a total variation distance, if no pair was measured."""
NOTHING_SHOWN = 0.165
"""The dependence of a pair if pairs were chosen and all their codes were merged: the prior mean of measured pairs
(`measured_tables.USUAL`), as sizes below a bound are drawn around a mean."""
VARIATION = 0.7
"""The standard deviation of the logarithm of a dependence around its estimate."""
BOUND_SHARE = 0.7
"""The expected distance of a table that lost a selection, relative to its bound."""
FEWEST = 1.0
"""Codes of fewer records than this are taken to have this many when dependence is passed on through them."""


@dataclass(frozen=True, eq=False)
class UnseenDependence:
    """The size and the shape of dependence that a model may lack.

    Attributes:
        tables: the model's marginals.
        deviations: for each measured pair, its shrunk deviations from independence, in counts of codes.
        sizes: the expected l1 norm of the true deviations of each measured pair, which is larger than that.
        dependence: the expected l1 distance of some tables from the model, if their mechanism knows it.
        selections: the marginals that were compared with models and not chosen.
        bounds: bounds that earlier selections gave, as `selected_bounds`.
        errors: returns drawn errors of a measured table, shape (count, *shape), or None for other tables.
        smooth: what the answers about measured pairs show of the shares of smooth dependence.
        alike: as in `KnownErrors`.
    """

    tables: ModelTables
    deviations: Mapping[Clique, np.ndarray]
    sizes: Mapping[Clique, float]
    dependence: Mapping[Clique, float]
    selections: Sequence[PaidSelection] = ()
    bounds: Mapping[Clique, float] = field(default_factory=dict)
    errors: Callable[[Clique], np.ndarray | None] = lambda _: None
    smooth: Sequence[SmoothShares] = ()
    alike: bool = False

    # -- its size ---------------------------------------------------------------------------------------------------

    def distance(self, clique: Clique) -> float:
        """Return the expected l1 distance of a table from the model's, in counts, without sampling error."""
        if clique in self.dependence:
            return self.dependence[clique]
        if self.was_passed_over(clique):
            return mean_below(self.without_bound(clique), self.selected_bound(clique))
        if len(clique) == 2:
            return 2 * self.tables.total * self._typical(clique)
        pairs = list(self.tables.pairs(clique))
        share = self._growth * min(map(self._strength, pairs))
        return 2 * self.tables.total * min(share, *map(self._unevenness, pairs))

    def was_passed_over(self, clique: Clique) -> bool:
        """Return whether this is a pair that was not chosen where others were, and of which no more is known."""
        return len(clique) == 2 and self._were_chosen and clique not in self.dependence

    def without_bound(self, pair: Clique) -> float:
        """Return the expected l1 distance of a pair that was passed over, but for what its selections say.

        It is what the model leaves of the weakest measured dependence on the strongest path between its attributes: in
        a maximum spanning tree, no pair depends more than that.
        """
        weakest = 2 * self.tables.total * self._weakest_on_path(*pair)
        return max(weakest - self._implied(pair), LEAST_REST * weakest)

    def _implied(self, pair: Clique) -> float:
        """Return the l1 distance of the model's table of a pair from independence, in counts."""
        return float(np.abs(self.tables.table(pair) - self.tables.independent(pair)).sum())

    def _unevenness(self, pair: Clique) -> float:
        r"""Return the geometric mean of $1 - \sum_i p_i^2$ of two attributes, with the shares p of their codes.

        A pair of attributes of two codes has this total variation distance from independence, times its correlation;
        copies of each other, of any number of codes, have this distance.
        """
        one, other = (1 - float(np.square(self.tables.counts(n) / self.tables.total).sum()) for n in pair)
        return math.sqrt(max(one, 0.0) * max(other, 0.0))

    @cached_property
    def _growth(self) -> float:
        """The dependence of a triple as a share of the weakest one of its pairs.

        If pairs depend more than one-way marginals are uneven, triples are taken to depend more than pairs alike. It is
        next to infinite if all one-way marginals are even; no table then depends more than copies of its attributes.
        """
        one_way = []
        for name in self.tables.domain:
            counts = self.tables.counts(name)
            one_way.append(float(np.abs(counts - counts.sum() / counts.size).sum()) / (2 * self.tables.total))
        pairs = list(self.strengths.values())
        return max(TRIPLE_SHARE, float(np.mean(pairs or [0.0])) / max(float(np.mean(one_way)), 1e-300))

    def bound(self, clique: Clique) -> float:
        """Return the expected l1 distance of a table at a bound by the selections that it lost; inf if none."""
        return BOUND_SHARE * self.selected_bound(clique)

    def selected_bound(self, clique: Clique) -> float:
        """Return a bound on the l1 distance of a table from the model's by the selections that it lost; inf if none."""
        return self._selected.of(clique)

    @cached_property
    def strengths(self) -> dict[Clique, float]:
        """The total variation distance of each measured pair from independence."""
        return {pair: size / (2 * self.tables.total) for pair, size in self.sizes.items()}

    def _strength(self, pair: Clique) -> float:
        if pair in self.strengths:
            return self.strengths[pair]
        return self.distance(pair) / (2 * self.tables.total)

    @property
    def _were_chosen(self) -> bool:
        """True if the measured pairs were chosen for their dependence, so that other pairs depend less."""
        return bool(self.selections or self.dependence or self.bounds) and not self.alike

    def _typical(self, pair: Clique) -> float:
        """Return the expected dependence of a pair, a total variation distance, beyond what other pairs say about it.

        A pair that was not measured is as dependent as a measured one if the measured ones were not chosen by their
        dependence: relative to `_unevenness`, it is the mean over them, each of which is left out in turn.
        """
        return float(self._left_out_shares.mean()) * self._unevenness(pair) if self.deviations else NOTHING_MEASURED

    @cached_property
    def _left_out_shares(self) -> np.ndarray:
        """The distances of measured pairs from what other pairs say about them, relative to `_unevenness`."""
        return np.array([self._share(pair, self._left_out(pair)) for pair in self.deviations])

    def _share(self, pair: Clique, distance: float) -> float:
        """Return a total variation distance of a pair relative to `_unevenness`, at most 1."""
        most = self._unevenness(pair)
        return min(1.0, distance / most) if most > 0 else 0.0

    def _left_out(self, pair: Clique) -> float:
        """Return the distance of a measured pair from what the attribute with the strongest path between says."""
        one, other = pair
        between = self._neighbors[one].keys() & self._neighbors[other].keys()
        if not between:
            return self.strengths[pair]
        middle = max(sorted(between), key=lambda name: min(self._neighbors[name][one], self._neighbors[name][other]))
        counts = np.maximum(self.tables.counts(middle), FEWEST)
        implied = self._deviation(one, middle) / counts @ self._deviation(middle, other)
        off = self.deviations[pair]
        shrunk = max(0.0, self.sizes[pair] - float(np.abs(off).sum()))
        return (float(np.abs(off - implied).sum()) + shrunk) / (2 * self.tables.total)

    def _deviation(self, one: str, other: str) -> np.ndarray:
        """Return the deviations of a measured pair from independence, with the axes in this order."""
        return self.deviations[one, other] if (one, other) in self.deviations else self.deviations[other, one].T

    @cached_property
    def _neighbors(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for (one, other), strength in self.strengths.items():
            found.setdefault(one, {})[other] = strength
            found.setdefault(other, {})[one] = strength
        return found

    def _weakest_on_path(self, start: str, end: str) -> float:
        """Return the weakest dependence on the path whose weakest one is strongest.

        Without a path, it is the median over measured pairs, relative to `_unevenness`.
        """
        if not self.strengths:
            return min(NOTHING_SHOWN, self._unevenness((start, end)))
        widest, done = {start: math.inf}, set[str]()
        while open_names := widest.keys() - done:
            name = max(sorted(open_names), key=widest.__getitem__)
            if name == end:
                return widest[end]
            done.add(name)
            for other, strength in self._neighbors.get(name, {}).items():
                widest[other] = max(widest.get(other, 0.0), min(widest[name], strength))
        shares = [self._share(pair, strength) for pair, strength in self.strengths.items()]
        return float(np.median(shares)) * self._unevenness((start, end))

    @property
    def selected_bounds(self) -> dict[Clique, float]:
        """For each marginal that lost a selection, a bound on its l1 distance from the model's."""
        return self._selected.every()

    @cached_property
    def _selected(self) -> SelectedBounds:
        return SelectedBounds(self.tables, self.selections, self.bounds, self.errors, self.shown)

    def shown(self, clique: Clique, labels: Sequence[np.ndarray]) -> float:
        """Return the share of a table's dependence, an l1 norm, that groups of codes show.

        Args:
            clique: the attributes.
            labels: the group of each code of each attribute.
        """
        shares = [self.tables.counts(name) / self.tables.total for name in clique]
        return shown_share(shares, [self.tables.basis(name) for name in clique], labels, self.spectrum)

    # -- its shape --------------------------------------------------------------------------------------------------

    def is_like_measured(self, clique: Clique) -> bool:
        """Return whether this is a pair that was not measured, where others were, but not for their dependence."""
        return len(clique) == 2 and bool(self.deviations) and not self._were_chosen

    def like_measured(self, pair: Clique, field: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return drawn dependence of any size, shape (count, *shape), with l1 norms as those of measured pairs.

        In each draw, the pair depends as much as one of the measured pairs, chosen at random, beyond what other pairs
        say about that. So its dependence varies as much as theirs: where few of many pairs depend, it may, too.
        """
        shares = self._left_out_shares[generator.integers(0, len(self._left_out_shares), len(field))]
        size = float(np.abs(field).sum()) / len(field)
        wanted = 2 * self.tables.total * self._unevenness(pair) * shares
        return field * (wanted / max(size, 1e-300)).reshape(-1, 1, 1)

    def scaled(self, field: np.ndarray, distance: float, generator: np.random.Generator) -> np.ndarray:
        """Return drawn dependence of any size, shape (count, *shape), with this expected l1 norm."""
        size = float(np.abs(field).sum()) / len(field)
        varied = np.exp(VARIATION * generator.standard_normal(len(field)) - VARIATION**2 / 2)
        return field * (distance / max(size, 1e-300) * varied).reshape(-1, *[1] * field[0].ndim)

    def passed_over(
        self, pair: Clique, sampling: np.ndarray, dependence: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Return drawn errors of a pair that was passed over, with l1 norms that its bound allows.

        The bound leaves dependence what sampling error does not need, as both add in squares. A table that is bound to
        be nearer to the model's than drawn sampling error is has a reason for that, and is anywhere below the bound.

        Args:
            pair: the attributes.
            sampling: drawn sampling errors, shape (count, *shape).
            dependence: drawn dependence of any size, of the same shape.
            generator: the random generator.
        """
        bound, apart = self.selected_bound(pair), (-1, *[1] * (sampling.ndim - 1))
        own, size = (np.abs(part).sum(axis=(1, 2)) for part in (sampling, dependence))
        rest = np.sqrt(np.maximum(bound**2 - np.square(own), 0.0))
        drawn = sizes_below(self.without_bound(pair), rest, generator)
        drawn = np.divide(drawn, size, out=np.zeros_like(size), where=size > 0)
        nearer = generator.random(len(own)) * min(bound, float(own.max(initial=0.0)))
        left = np.divide(nearer, own, out=np.ones_like(own), where=own > bound)
        return sampling * left.reshape(apart) + dependence * drawn.reshape(apart)

    def within(self, bound: float, sampling: np.ndarray, dependence: np.ndarray) -> np.ndarray:
        """Return the sums of drawn sampling errors and dependence, with an expected l1 norm of at most a bound.

        Sampling errors are certain to be there, so that a bound leaves dependence as much as they do not need. Both add
        in squares.
        """
        both, count = sampling + dependence, len(sampling)
        if float(np.abs(both).sum()) <= bound * count:
            return both
        sizes = [float(np.abs(part).sum()) / count for part in (sampling, dependence)]
        needed = min(sizes[0], bound)
        rest = min(sizes[1], math.sqrt(bound**2 - needed**2))
        return sampling * (needed / max(sizes[0], 1e-300)) + dependence * (rest / max(sizes[1], 1e-300))

    @cached_property
    def spectrum(self) -> np.ndarray:
        """The mean shares of the squared dependence of measured pairs in the products of smooth functions."""
        return mean_shares(self.smooth)
