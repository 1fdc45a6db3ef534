"""BudgetPlan, what LAMP can achieve with a budget before it spends any, and the report on a finished run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.errors import plural
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.mechanisms.lamp.candidates import NoiseModel, interaction_fraction, magnitude_histogram, table_candidate
from pgmest.mechanisms.lamp.dependence import Dependence
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.initial_measurements import InitialMeasurements
from pgmest.tables.domain import Clique
from pgmest.tables.groups import is_identity, summed

SHOWN = 12
"""The largest number of rows of a printed table."""


@dataclass(frozen=True)
class MeasuredMarginal:
    """A marginal that one of the rounds measured.

    Attributes:
        round: The number of the round; 0 is the initial measurement of one-way marginals and the number of records.
        clique: The attributes; () is the number of records.
        groups: The number of groups of codes of each attribute.
        share: The share of the budget.
        stddev: The standard deviation of the noise.
        before: The error of the model (total variation) as estimated from noisy scores; None for a single attribute.
        after: The expected error after the measurement.
    """

    round: int
    clique: Clique
    groups: tuple[int, ...]
    share: float
    stddev: float
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True)
class BudgetPlan:
    """The accuracy that a budget allows on a table of a given size, computed from public knowledge only.

    Attributes:
        records: The assumed number of records.
        first_stddev: The standard deviation of the noise in the initial answers about each attribute.
        one_way_errors: The expected error of each one-way marginal (total variation) if only one-way marginals are
            measured and all values are equally frequent, which is the worst case.
        score_stddev: The standard deviation of the noise in a score (total variation).
        least_dependence: For each pair, the smallest dependence (total variation from independence) at which measuring
            the pair is worthwhile, if the budget is divided among the pairs of a spanning tree. It is inf if no
            dependence is strong enough, and 0 if even the sampling error of independent attributes is. Triples of the
            workload are included: for them, the dependence is the distance from what their pairs imply.
    """

    records: int
    first_stddev: dict[str, float]
    one_way_errors: dict[str, float]
    score_stddev: float
    least_dependence: dict[Clique, float]

    @property
    def independent_only(self) -> bool:
        """Return whether no pair can be worth measuring, so that `Independent` is as accurate."""
        return all(math.isinf(least) for least in self.least_dependence.values())

    def _worth(self, kind: str, ways: int, beyond: str) -> str:
        """Return a line on the number of pairs or triples that can be worth measuring."""
        known = [least for clique, least in self.least_dependence.items() if len(clique) == ways]
        possible = [least for least in known if not math.isinf(least)]
        line = f"{len(possible)} of {plural(len(known), kind)} can be worth measuring"
        if possible:
            line += f", if {min(possible):.3f} (the median {np.median(possible):.3f}) or more {beyond}"
        return line

    def __str__(self) -> str:
        lines = [f"LAMP on {self.records:,} records of {plural(len(self.one_way_errors), 'attribute')}", ""]
        lines.append(f"{'attribute':24} {'stddev at first':>15} {'expected error':>15}")
        worst = sorted(self.one_way_errors, key=lambda name: -self.one_way_errors[name])
        lines += [
            f"{name[:24]:24} {self.first_stddev[name]:15.1f} {self.one_way_errors[name]:15.4f}"
            for name in worst[:SHOWN]
        ]
        if len(worst) > SHOWN:
            lines.append(f"... and {plural(len(worst) - SHOWN, 'attribute')} with less")
        lines += ["", self._worth("pair", 2, "from independence")]
        if any(len(clique) > 2 for clique in self.least_dependence):
            lines.append(self._worth("triple", 3, "from what their pairs imply"))
        lines.append(f"scores of pairs have a standard error of {self.score_stddev:.4f}")
        if self.independent_only:
            lines.append(
                "WARNING: this budget allows one-way marginals only. Independent is as accurate; use a larger budget, "
                "more records, or fewer values."
            )
        return "\n".join(lines)


def budget_plan(
    records: int,
    pairs: Sequence[Clique],
    first: InitialMeasurements,
    score_stddev: float,
    worth: float,
    coarse_level: int,
) -> BudgetPlan:
    """Return the plan for a table of a given size.

    Args:
        records: The assumed number of records, which is not read from the data.
        pairs: The pairs and triples of the workload.
        first: The initial measurements and their shares of the budget.
        score_stddev: The standard deviation of the noise in a score, in counts.
        worth: The smallest reduction of a pair's error that makes it worth measuring (`LAMP.min_error_reduction`).
        coarse_level: The level of the groups over which pairs are scored.
    """
    domain, noise_model, names = first.domain, first.noise_model, [name for clique in first.shares for name in clique]
    stddev, whole = {name: first.stddev(name) for name in names}, sum(first.shares.values())
    scale = whole ** (noise_model.power / 2)  # the factor of the noise if the whole budget is spent on them
    noise = {name: stddev[name] * scale * math.sqrt(interaction_fraction((domain[name],))) for name in names}
    errors = {name: min(1.0, MEAN_ABSOLUTE * domain[name] * noise[name] / (2 * records)) for name in names}
    fair = (1 - whole) / max(1, len(names) - 1)
    # pairs of the same sizes have the same result
    kinds = {pair: tuple(sorted(domain[name] for name in pair)) for pair in pairs}
    least = {
        kind: _least_dependence(kind, records, fair, noise_model, worth, coarse_level) for kind in set(kinds.values())
    }
    return BudgetPlan(
        records, stddev, errors, score_stddev / (2 * records), {pair: least[kind] for pair, kind in kinds.items()}
    )


def _least_dependence(
    sizes: tuple[int, ...], records: int, share: float, noise_model: NoiseModel, worth: float, coarse_level: int
) -> float:
    """Return the smallest dependence of which a share of the budget removes the fraction `worth`, by bisection."""
    uniform = [np.full(size, records / size) for size in sizes]
    levels = [nested_groups(counts) for counts in uniform]
    depth = range(max(map(len, levels)))
    groups = [[side[min(level, len(side) - 1)] for side in levels] for level in depth]
    sides = [tuple(magnitude_histogram(summed(c, (g,))) for c, g in zip(uniform, at, strict=True)) for at in groups]
    finest = [all(map(is_identity, at)) for at in groups]

    def pays(dependence: float) -> bool:
        counts = 2 * records * dependence
        found = Dependence(counts, counts)
        candidate = table_candidate(("a", "b"), sides, finest, found, coarse_level, float(records), noise_model)
        return candidate.reduction(share) >= worth

    low, high = 0.0, 1 - 1 / min(sizes)
    if high == 0.0 or not pays(high):
        return math.inf
    if pays(0.0):
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def measurement_report(measured_marginals: Iterable[MeasuredMarginal], public_pairs: int | None = None) -> str:
    """Return a report on the pairs and triples that a run measured, sorted by the expected gain.

    Args:
        measured_marginals: The measured marginals of the run.
        public_pairs: The number of pairs whose dependence is the public table's; None without a public table.
    """
    measured = list(measured_marginals)
    singles = sum(p.share for p in measured if len(p.clique) < 2)
    pairs = [p for p in measured if len(p.clique) > 1 and p.before is not None and p.after is not None]
    names, triples = ({p.clique for p in measured if len(p.clique) == ways} for ways in (2, 3))
    rest = plural(len(names), "pair") + (f", {plural(len(triples), 'triple')}" if triples else "")
    lines = [f"{singles:.0%} of the budget for one-way marginals, the rest for {rest} and scores"]
    if public_pairs is not None:
        lines.append(f"the public table gives the dependence of {plural(public_pairs, 'pair')}")
    if pairs:
        lines.append(f"{'pair':40} {'round':>5} {'groups':>9} {'share':>7} {'error before':>12} {'expected':>9}")
    gain = {id(p): (p.before or 0.0) - (p.after or 0.0) for p in pairs}
    for p in sorted(pairs, key=lambda p: -gain[id(p)])[:SHOWN]:
        size = "x".join(map(str, p.groups))
        name = " x ".join(p.clique)[:40]
        lines.append(f"{name:40} {p.round:5} {size:>9} {p.share:7.2%} {p.before:12.4f} {p.after:9.4f}")
    if len(pairs) > SHOWN:
        lines.append(f"... and {plural(len(pairs) - SHOWN, 'measurement')} with less gain")
    return "\n".join(lines)
