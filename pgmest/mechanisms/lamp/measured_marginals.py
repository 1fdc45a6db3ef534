"""MeasuredMarginal, what a round of LAMP measured, and the report on a finished run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pgmest.errors import plural
from pgmest.tables.domain import Clique

SHOWN = 12
"""The largest number of measurements that a report lists."""


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
        before = "assumed" if p.round == 0 else f"{p.before:.4f}"
        name = " x ".join(p.clique)[:40]
        lines.append(f"{name:40} {p.round:5} {size:>9} {p.share:7.2%} {before:>12} {p.after:9.4f}")
    if len(pairs) > SHOWN:
        lines.append(f"... and {plural(len(pairs) - SHOWN, 'measurement')} with less gain")
    return "\n".join(lines)
