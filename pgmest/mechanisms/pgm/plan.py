"""What PGM would do with its budget, before it spends any; and what it did, afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import plural
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.mechanisms.pgm.dependence import Dependence
from pgmest.mechanisms.pgm.first import FirstQuestions
from pgmest.mechanisms.pgm.groups import nested_groups
from pgmest.mechanisms.pgm.offers import Prices, histogram, interaction, pair_offer
from pgmest.tables.domain import Clique
from pgmest.tables.groups import is_identity, summed

SHOWN = 12
"""Rows of a printed table."""


@dataclass(frozen=True)
class Purchase:
    """What was bought in one of the rounds, and why.

    Attributes:
        round: 0 for the one-way marginals and the number of records that come first.
        clique: what was measured; () is the number of records.
        groups: into how many groups of codes each attribute was divided.
        share: of the budget.
        stddev: of the noise.
        before: the total variation by which the model was thought to be wrong, by noisy scores; None for an attribute.
        after: by which it is expected to be wrong afterwards.
    """

    round: int
    clique: Clique
    groups: tuple[int, ...]
    share: float
    stddev: float
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True)
class Plan:
    """What a budget can carry on a table of so many records, from public knowledge alone.

    Attributes:
        records: the number of records that it is made for.
        first_stddev: of the noise in the first answers about each attribute, counts or their contrasts.
        one_way_errors: the expected error of each attribute's marginal, as a total variation distance, if nothing but
            one-way marginals is bought, and its values are equally frequent (the worst case).
        score_stddev: of the noise in the scores, as a total variation distance.
        least_dependence: of each pair the least dependence (total variation from independence) that is worth buying
            if as many pairs are bought as join all attributes; inf where even the strongest possible is not, and 0
            where even what chance makes of independent attributes is. Where triples are asked for, of these, too,
            beyond what their pairs tell.
    """

    records: int
    first_stddev: dict[str, float]
    one_way_errors: dict[str, float]
    score_stddev: float
    least_dependence: dict[Clique, float]

    @property
    def independent_only(self) -> bool:
        """Whether no pair can be worth its price, so that `Independent` would do as well."""
        return all(math.isinf(least) for least in self.least_dependence.values())

    def _worth(self, kind: str, ways: int, beyond: str) -> str:
        """How many marginals of so many attributes can be worth measuring, and when."""
        known = [least for clique, least in self.least_dependence.items() if len(clique) == ways]
        possible = [least for least in known if not math.isinf(least)]
        line = f"{len(possible)} of {plural(len(known), kind)} can be worth measuring"
        if possible:
            line += f", if {min(possible):.3f} (the median {np.median(possible):.3f}) or more {beyond}"
        return line

    def __str__(self) -> str:
        lines = [f"PGM on {self.records:,} records of {plural(len(self.one_way_errors), 'attribute')}", ""]
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
            lines.append(self._worth("triple", 3, "from what their pairs tell"))
        lines.append(f"scores of pairs have a standard error of {self.score_stddev:.4f}")
        if self.independent_only:
            lines.append(
                "WARNING: this budget carries one-way marginals only. Independent would do as well; take more budget, "
                "more records, or fewer values."
            )
        return "\n".join(lines)


def planned(
    records: int,
    pairs: Sequence[Clique],
    first: FirstQuestions,
    score_stddev: float,
    worth: float,
    coarse_level: int,
) -> Plan:
    """The plan for a table of so many records.

    Args:
        records: how many there may be; an assumption, not read from the data.
        pairs: those that matter.
        first: the first one-way marginals, and their shares of the budget.
        score_stddev: in counts.
        worth, coarse_level: as `PGM` has them.
    """
    domain, prices, names = first.domain, first.prices, [name for clique in first.shares for name in clique]
    stddev, whole = {name: first.stddev(name) for name in names}, sum(first.shares.values())
    alone = whole ** (prices.power / 2)  # of the noise, if the whole budget is spent on them
    noise = {name: stddev[name] * alone * math.sqrt(interaction((domain[name],))) for name in names}  # total known
    errors = {name: min(1.0, MEAN_ABSOLUTE * domain[name] * noise[name] / (2 * records)) for name in names}
    fair = (1 - whole) / max(1, len(names) - 1)
    kinds = {
        pair: tuple(sorted(domain[name] for name in pair)) for pair in pairs
    }  # pairs of equal sizes have equal prices
    least = {kind: _least_dependence(kind, records, fair, prices, worth, coarse_level) for kind in set(kinds.values())}
    return Plan(
        records, stddev, errors, score_stddev / (2 * records), {pair: least[kind] for pair, kind in kinds.items()}
    )


def _least_dependence(
    sizes: tuple[int, ...], records: int, share: float, prices: Prices, worth: float, coarse_level: int
) -> float:
    """The least dependence of a pair that a share of the budget takes the part `worth` of away."""
    uniform = [np.full(size, records / size) for size in sizes]
    levels = [nested_groups(counts) for counts in uniform]
    depth = range(max(map(len, levels)))
    groups = [[side[min(level, len(side) - 1)] for side in levels] for level in depth]
    sides = [tuple(histogram(summed(c, (g,))) for c, g in zip(uniform, at, strict=True)) for at in groups]
    finest = [all(map(is_identity, at)) for at in groups]

    def pays(dependence: float) -> bool:
        counts = 2 * records * dependence
        found = Dependence(counts, counts)
        offer = pair_offer(("a", "b"), sides, finest, found, coarse_level, float(records), prices)
        return offer.reduction(share) >= worth

    low, high = 0.0, 1 - 1 / min(sizes)
    if high == 0.0 or not pays(high):
        return math.inf
    if pays(0.0):
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def report_of(purchases: Iterable[Purchase], believed: int | None = None) -> str:
    """What was bought, why, and with what gain, as text: the pairs and triples, the largest gain first.

    Args:
        purchases: of a run.
        believed: the number of pairs that a public table is believed of; None where there is none.
    """
    bought = list(purchases)
    singles = sum(p.share for p in bought if len(p.clique) < 2)
    pairs = [p for p in bought if len(p.clique) > 1 and p.before is not None and p.after is not None]
    names, triples = ({p.clique for p in bought if len(p.clique) == ways} for ways in (2, 3))
    rest = plural(len(names), "pair") + (f", {plural(len(triples), 'triple')}" if triples else "")
    lines = [f"{singles:.0%} of the budget for one-way marginals, the rest for {rest} and scores"]
    if believed is not None:
        lines.append(f"the public table is taken for the dependence of {plural(believed, 'pair')}")
    if pairs:
        lines.append(f"{'pair':40} {'round':>5} {'groups':>9} {'share':>7} {'error before':>12} {'expected':>9}")
    gain = {id(p): (p.before or 0.0) - (p.after or 0.0) for p in pairs}
    for p in sorted(pairs, key=lambda p: -gain[id(p)])[:SHOWN]:
        size = "x".join(map(str, p.groups))
        name = " x ".join(p.clique)[:40]
        lines.append(f"{name:40} {p.round:5} {size:>9} {p.share:7.2%} {p.before:12.4f} {p.after:9.4f}")
    if len(pairs) > SHOWN:
        lines.append(f"... and {plural(len(pairs) - SHOWN, 'purchase')} with less gain")
    return "\n".join(lines)
