"""Forecast: the measurements that LAMP is likely to make on a table with typical dependences, before any is paid for.

No record is read and none is made up. The forecast assumes facts about tables in general: values as unequal as in
Zipf's law, and dependences as in tables of censuses, surveys, health, credit and emergency calls. With the noise of the
budget, it then estimates dependences from scores and divides the budget as `Rounds` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.emphasis import EMPHASIS_SHARE, STRONG
from pgmest.mechanisms.lamp.allocation import ItemErrors, allocate, select_candidates
from pgmest.mechanisms.lamp.candidates import (
    SHARE_GRID,
    CandidateMarginal,
    interaction_fraction,
    one_way_candidate,
    total_candidate,
)
from pgmest.mechanisms.lamp.dependence import posterior_dependence
from pgmest.mechanisms.lamp.emphasis import VISIBLE, emphasized_tables, measured_ahead
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.initial_measurements import InitialMeasurements
from pgmest.mechanisms.lamp.scorer import POWER
from pgmest.mechanisms.lamp.typical_tables import (
    CLASSES,
    TYPICAL,
    TableKind,
    class_of,
    typical_counts,
    typical_dependences,
)
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.mechanisms.lamp.workload_sensitivity import WorkloadSensitivity
from pgmest.tables.domain import Clique

MOST_KINDS, SIZE_STEP = 200, 1.2
"""The largest number of kinds of tables, by their numbers of values, that are computed exactly, and the ratio between
the numbers of values that are computed if there are more."""

MOST_FAIR_SHARES = 20
"""A table that is not worth its cost at this many times an equal share of the budget is never measured."""

NORMAL_95 = 1.96
"""Half of the width of a 95 % interval, in standard deviations."""

DEPENDENT = tuple(TYPICAL[level] for level in (0.5, 0.75, 0.9, 0.95))
"""The dependences of measured tables, each as likely: those of the upper half of typical pairs."""


@dataclass(frozen=True)
class ExpectedTable:
    """The error to expect of a table if it is measured.

    Attributes:
        clique: The attributes.
        cells: The number of cells.
        groups: The number of groups of each attribute over which it is measured if its dependence is strong.
        share: The share of the budget that it gets then.
        error: The expected error (total variation), the error of its one-way marginals included.
        half_width: Half of the width of a 95 % interval of a frequent count.
        worst: The expected error if the values of each attribute are about equally frequent, which is the worst case.
        least: The least dependence (total variation from independence; for triples, from what their pairs imply) that
            is worth the cost if neighboring values depend alike; inf if none is. 0 for a single attribute.
        least_by_value: The same if neighboring values have nothing in common.
    """

    clique: Clique
    cells: int
    groups: tuple[int, ...]
    share: float
    error: float
    half_width: float
    worst: float
    least: float = 0.0
    least_by_value: float = 0.0

    def held(self) -> ExpectedTable:
        """Return the table without any error, as an invariant holds it."""
        return replace(self, error=0.0, half_width=0.0, worst=0.0, least=0.0, least_by_value=0.0)


@dataclass(eq=False)
class Forecast:
    """The measurements that a run is likely to make.

    Attributes:
        demand: The demand of the workload.
        first: The initial measurements.
        records: The assumed number of records.
        scoring_share: The share of the budget for scores.
        score_stddev: The standard deviation of the noise in a score, in counts.
        worth: The least part of a table's error that measuring it must remove (`LAMP.min_error_reduction`).
        unscored: Whether all tables are measured without scores.
    """

    demand: WorkloadDemand
    first: InitialMeasurements
    records: float
    scoring_share: float
    score_stddev: float
    worth: float
    unscored: bool = False
    _kinds: dict[tuple[int, ...], TableKind] = field(default_factory=dict)
    _leasts: dict[tuple[tuple[int, ...], float, float], float] = field(default_factory=dict)
    _variances: dict[tuple[tuple[int, ...], float], float] = field(default_factory=dict)

    @cached_property
    def tables(self) -> dict[Clique, float]:
        """The pairs and triples of the workload that can depend, with their importance."""
        sizes, wanted = self.first.domain, {**self.demand.pairs, **self.demand.triples}
        return {clique: weight for clique, weight in wanted.items() if min(sizes[name] for name in clique) > 1}

    @property
    def left(self) -> float:
        """The share of the budget after the initial measurements and the scores."""
        return max(0.0, 1 - sum(self.first.shares.values()) - (0.0 if self.unscored else self.scoring_share))

    @cached_property
    def emphasized(self) -> list[Clique]:
        """The pairs and triples that matter."""
        return emphasized_tables(self.demand, self.first.domain)

    @cached_property
    def ahead(self) -> dict[Clique, tuple[CandidateMarginal, float]]:
        """The emphasized tables that are certainly measured, with their shares of the budget before all scores."""
        if self.unscored:
            return {}
        strong = (class_of(STRONG),)
        candidates = [replace(self.kind(clique).candidate(strong), clique=clique) for clique in self.emphasized]
        return measured_ahead(candidates, EMPHASIS_SHARE * self.left, self.worth)

    @cached_property
    def chosen(self) -> dict[Clique, tuple[CandidateMarginal, float]]:
        """The candidates that are likely to be measured, with their shares.

        Which of the tables depend is drawn at random, so the choice is typical in number and sizes, not one by one.
        Emphasized tables are chosen one by one.
        """
        if not self.tables or not self.left > 0:
            return {}
        counts = {name: typical_counts(self.first.domain[name], self.records) for name in self.demand.attributes}
        levels = {name: nested_groups(own) for name, own in counts.items()}
        item_errors: ItemErrors = WorkloadSensitivity.of(self.demand, counts, levels).item_errors
        if self.unscored:
            everything = [*self._again(), *(self.kind(clique).unscored(clique) for clique in self.tables)]
            shares = allocate(everything, item_errors, self.left)
            return {c.clique: (c, float(share)) for c, share in zip(everything, shares, strict=True) if share > 0}
        estimated = [candidate for candidate in self._estimated() if candidate.clique not in self.ahead]
        most = self.left * min(1.0, MOST_FAIR_SHARES / max(1, len(estimated)))
        able = [candidate for candidate in estimated if candidate.reduction(most) >= self.worth]
        left = self.left - sum(share for _, share in self.ahead.values())
        again = [*self._again(), *(_after(candidate, share) for candidate, share in self.ahead.values())]
        found = select_candidates([*again, *able], item_errors, left, self.worth)
        shares = {clique: share for clique, (_, share) in found.items()}
        return found | {c: (candidate, share + shares.get(c, 0.0)) for c, (candidate, share) in self.ahead.items()}

    def _again(self) -> list[CandidateMarginal]:
        """Return the candidates for measuring the number of records and one-way marginals again."""
        noise_model, shares, found = self.first.noise_model, self.first.shares, []
        if () in shares:
            stddev = 1 / math.sqrt(float(noise_model.precision(shares[()])))
            found.append(total_candidate(stddev, noise_model))
        return [*found, *map(self._one_way, self.demand.attributes)]

    def _one_way(self, name: str, even: bool = False) -> CandidateMarginal:
        size = self.first.domain[name]
        counts = np.full(size, self.records / size) if even else typical_counts(size, self.records)
        return one_way_candidate((name,), counts, self.first.stddev(name), self.first.noise_model)

    def _estimated(self) -> list[CandidateMarginal]:
        """Return the candidates for the tables, whose dependences are estimated from scores with noise."""
        rng, cliques, kinds = np.random.default_rng(0), list(self.tables), list(map(self.kind, self.tables))
        true = rng.permutation(typical_dependences(len(cliques)))
        whole = np.array([float(kind.distance(each)) for kind, each in zip(kinds, true, strict=True)])
        distances = {name: self._one_way_distance(name) ** POWER for name in self.demand.attributes}
        one_way = np.array([sum(distances[name] for name in clique) ** (1 / POWER) for clique in cliques])
        noise, stddev = rng.normal(size=len(cliques)), np.full(len(cliques), self.score_stddev)
        explained = np.hypot([kind.chances[-1] for kind in kinds], one_way)
        found = posterior_dependence(np.hypot(whole, one_way) + noise * stddev, explained, stddev, self.records)
        if self._rounded:
            found = found.mean(axis=1, keepdims=True)
        logs = [np.log(np.maximum(some, CLASSES[1] / 2)) for some in (CLASSES, found[:, :, None] / (2 * self.records))]
        places = np.abs(logs[0] - logs[1]).argmin(axis=2)
        return [
            replace(kind.candidate(tuple(map(int, own))), clique=clique)
            for clique, kind, own in zip(cliques, kinds, places, strict=True)
        ]

    def _one_way_distance(self, name: str) -> float:
        """Return the expected l1 error of a one-way marginal after the initial measurements."""
        counts, noise = typical_counts(self.first.domain[name], self.records), self.first.stddev(name)
        return MEAN_ABSOLUTE * float((counts * noise / np.hypot(counts, noise)).sum())

    def kind(self, clique: Clique) -> TableKind:
        """Return the kind of a pair or triple."""
        return self.kind_of([self.first.domain[name] for name in clique])

    def kind_of(self, sizes: Sequence[int]) -> TableKind:
        """Return the kind of tables with these numbers of values."""
        step = SIZE_STEP if self._rounded else 1.0
        key = tuple(sorted(size if step == 1 else max(2, round(step ** round(math.log(size, step)))) for size in sizes))
        if key not in self._kinds:
            self._kinds[key] = TableKind.of(key, self.records, self.first.noise_model)
        return self._kinds[key]

    @cached_property
    def _rounded(self) -> bool:
        sizes = self.first.domain
        return len({tuple(sorted(sizes[name] for name in clique)) for clique in self.tables}) > MOST_KINDS

    # -- expected errors ----------------------------------------------------------------------------------------------

    @cached_property
    def one_way(self) -> dict[str, ExpectedTable]:
        """The errors to expect of the one-way marginals."""
        found = {}
        for name in self.demand.attributes:
            again, size, noise_model = self._one_way(name), self.first.domain[name], self.first.noise_model
            share = self.chosen[name,][1] if (name,) in self.chosen else 0.0
            error, worst = (self._left(each, share) for each in (again, self._one_way(name, even=True)))
            precision = 1 / (self.first.stddev(name) ** 2 * interaction_fraction((size,)))
            own = 1 / (precision + float(noise_model.interaction_precision(share, (size,)))) if size > 1 else 0.0
            width = NORMAL_95 * math.sqrt(own + self.total_variance / size**2)
            whole = self.first.shares[name,] + share
            found[name] = ExpectedTable((name,), size, (size,), whole, error, width, max(error, worst))
        return found

    @cached_property
    def total_variance(self) -> float:
        """The variance of the number of records; its error is divided evenly among the codes of an attribute."""
        return self.first.total_variance({c: share for c, (_, share) in self.chosen.items() if len(c) < 2})

    def measured(self) -> list[ExpectedTable]:
        """Return the tables that are likely to be measured, in typical number and sizes."""
        return [
            self._expected(clique, candidate, share)
            for clique, (candidate, share) in self.chosen.items()
            if len(clique) > 1 and share > 0
        ]

    @cached_property
    def likely_error(self) -> float | None:
        """The expected error of the tables that are likely to be measured, on average; None without any.

        The noisier the scores, the more the choice is luck. So the error lies between that of the tables that the
        forecast chooses and that of all tables that can be worth measuring, by the reliability of a score.
        """
        chosen = [table.error for table in self.measured()]
        if not chosen or self.unscored:
            return float(np.mean(chosen)) if chosen else None
        able = [table.error for table in self.expected.values() if not math.isinf(table.least)] or chosen
        spread = float(np.std(typical_dependences(len(self.tables)))) or 1.0
        luck = 1 / (1 + (spread * 2 * self.records / self.score_stddev) ** 2)
        return float((1 - luck) * np.mean(chosen) + luck * np.mean(able))

    def _expected(self, clique: Clique, candidate: CandidateMarginal, share: float) -> ExpectedTable:
        """Return the error to expect of a table that is measured with a share of the budget."""
        kind, importance = self.kind(clique), self.tables[clique]
        shape = kind.shape(candidate.level(share))
        own, parts = self._left(candidate, share), [self.one_way[name] for name in clique]
        error, worst = math.hypot(own, *(p.error for p in parts)), math.hypot(own, *(p.worst for p in parts))
        certain = self.unscored or clique in self.ahead
        own = self._variance(kind, candidate, share, STRONG) if certain else self._typical_variance(kind, importance)
        width = self.with_margins(NORMAL_95 * math.sqrt(own), parts)
        sizes = sorted(clique, key=self.first.domain.__getitem__)
        groups = tuple(shape[sizes.index(name)] for name in clique)
        cells = math.prod(self.first.domain[name] for name in clique)
        return ExpectedTable(clique, cells, groups, share, min(1.0, error), width, min(1.0, worst))

    def _typical_variance(self, kind: TableKind, importance: float) -> float:
        """Return the variance of a frequent cell, in counts, over the dependences at which a table is measured."""
        key = kind.sizes, importance
        if key not in self._variances:
            least, found = self.least(kind, importance), []
            # no typical dependence may be worth the cost: noise in its score made one of them seem so, or it is rare
            assumed = [each for each in DEPENDENT if each >= least] or [max(DEPENDENT), min(least, kind.most)]
            for dependence in assumed:
                candidate = kind.candidate((class_of(dependence),))
                share = self.share_if_measured(candidate, importance)
                found.append(self._variance(kind, candidate, share, dependence))
            self._variances[key] = float(np.mean(found))
        return self._variances[key]

    def _variance(self, kind: TableKind, candidate: CandidateMarginal, share: float, dependence: float) -> float:
        """Return the variance of a frequent cell, in counts, of a table that is measured with a share of the budget."""
        level = candidate.level(share)
        precision = max(float(self.first.noise_model.interaction_precision(share, kind.shape(level))), 1e-300)
        return 1 / precision + kind.inside(level, dependence) ** 2 + kind.shrunk(level, dependence, precision) ** 2

    def _left(self, candidate: CandidateMarginal, share: float) -> float:
        """Return the expected error (total variation) of a candidate that is measured with a share of the budget."""
        return min(1.0, (1 - candidate.reduction(share)) * float(candidate.errors[0]) / (2 * self.records))

    @staticmethod
    def with_margins(width: float, margins: Sequence[ExpectedTable]) -> float:
        """Return half of the width for a cell, given that of its interaction, and its one-way marginals.

        The error of a marginal is divided among the cells of the other attributes by their shares: by that of the
        records that have the same values as a record, on average over the records.
        """
        same = [float(np.square(typical_counts(margin.cells, 1.0)).sum()) for margin in margins]
        others = [math.prod(same[:axis] + same[axis + 1 :]) for axis in range(len(same))]
        return math.hypot(width, *(margin.half_width * share for margin, share in zip(margins, others, strict=True)))

    @cached_property
    def _price(self) -> float:
        """The gain (in counts, for importance 1) for which another share of the budget is worth its cost.

        It is the median over the tables that are likely to be measured; 0 without any.
        """
        measured = [each for each in self.chosen.items() if len(each[0]) > 1 and each[0] not in self.ahead]
        gains = [_gain(candidate, share) * self.tables[clique] for clique, (candidate, share) in measured]
        return float(np.median(gains)) if gains else 0.0

    def share_of(self, candidate: CandidateMarginal, importance: float) -> float:
        """Return the share of the budget that a table gets beside those that are likely to be measured."""
        if not self._price:
            return self.left / max(1, len(self.demand.attributes) - 1)  # that of a spanning tree
        gains = -np.diff(candidate.errors) / np.diff(SHARE_GRID) * importance
        return min(float(SHARE_GRID[int((gains > self._price).sum())]), self.left)

    def share_if_measured(self, candidate: CandidateMarginal, importance: float) -> float:
        """Return the share of the budget that a table gets if it is measured: enough to be worth its cost."""
        enough = SHARE_GRID[(candidate.errors > (1 - self.worth) * candidate.errors[0]).sum() :]
        least = float(enough[0]) if len(enough) else self.left
        return max(self.share_of(candidate, importance), min(least, self.left), float(SHARE_GRID[1]))

    @cached_property
    def expected(self) -> dict[Clique, ExpectedTable]:
        """The error to expect of each table of the workload if it is measured and depends strongly."""
        return {clique: self.if_measured(clique) for clique in self.tables}

    def if_measured(self, clique: Clique, dependence: float = STRONG) -> ExpectedTable:
        """Return the error to expect of a table if it is measured, with a strong dependence or another one."""
        kind, importance = self.kind(clique), self.tables[clique]
        if clique in self.ahead or (self.unscored and clique in self.chosen):
            return self._expected(clique, *self.chosen[clique])
        candidate = kind.candidate((class_of(dependence),))
        found = self._expected(clique, candidate, self.share_if_measured(candidate, importance))
        least, by_value = (self.least(kind, importance, visible) for visible in (VISIBLE, 0.0))
        return replace(found, least=least, least_by_value=max(least, by_value))

    def least(self, kind: TableKind, importance: float, visible: float = VISIBLE) -> float:
        """Return the least of `CLASSES` at which a table is worth its cost, by bisection; inf if none is."""
        key = kind.sizes, importance, visible
        if key not in self._leasts:
            self._leasts[key] = self._bisected(kind, importance, visible)
        return self._leasts[key]

    def _bisected(self, kind: TableKind, importance: float, visible: float) -> float:
        low, high = 0, int((kind.most > CLASSES).sum())
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.pays(kind, middle, importance, visible) else (middle + 1, high)
        return float(CLASSES[low]) if low < len(CLASSES) and CLASSES[low] < kind.most else math.inf

    def pays(self, kind: TableKind, place: int, importance: float, visible: float = VISIBLE) -> bool:
        """Return whether measuring a table whose dependence is `CLASSES[place]` is worth its cost."""
        candidate = kind.candidate((place,), visible)
        return candidate.reduction(self.share_of(candidate, importance)) >= self.worth


def _after(candidate: CandidateMarginal, share: float) -> CandidateMarginal:
    """Return the candidate for measuring a marginal again that was measured with a share of the budget."""
    errors = np.interp(np.minimum(SHARE_GRID + share, 1.0), SHARE_GRID, candidate.errors)
    return replace(candidate, errors=errors, measured=True)


def _gain(candidate: CandidateMarginal, share: float) -> float:
    """Return the error that another bit of budget would remove, by its share."""
    place = min(max(int(np.searchsorted(SHARE_GRID, share, side="right")), 1), len(SHARE_GRID) - 1)
    return float((candidate.errors[place - 1] - candidate.errors[place]) / (SHARE_GRID[place] - SHARE_GRID[place - 1]))
