"""BudgetPlan, what LAMP can achieve with a budget before it spends any, and the report on a finished run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgmest.errors import plural
from pgmest.measurements.measured_tables import determines
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.duration import expected_seconds
from pgmest.mechanisms.lamp.forecast import ExpectedTable
from pgmest.mechanisms.lamp.level_forecast import expected_by_level
from pgmest.mechanisms.lamp.plan_text import plan_lines
from pgmest.mechanisms.lamp.remedies import TooWeak, forecast_of, likely, remedies, too_weak
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.mechanisms.notices import delta_warnings, epsilon_warnings
from pgmest.privacy.neighbors import AddRemove
from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from pgmest.mechanisms.lamp.lamp import LAMP

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
    """The accuracy to expect of a budget on a table of a given size, computed from public knowledge only.

    Attributes:
        budget: The budget and the neighboring relation, in words.
        records: The assumed number of records.
        first_stddev: The standard deviation of the noise in the initial answers about each attribute.
        one_way: The error to expect of each one-way marginal.
        tables: The error to expect of each pair and triple of the workload if it is measured.
        by_level: The same of attributes, pairs and triples at coarser levels of hierarchies.
        likely: The least and the largest number of tables that are likely to be measured.
        likely_error: The expected error of these tables on average; None without any.
        score_stddev: The standard deviation of the noise in a score (total variation).
        emphasized: The tables that matter (`pgmest.workloads.emphasized`).
        ahead: The emphasized tables that are certainly measured, since the budget can carry them.
        too_weak: For each table of which even a strong dependence is not worth its cost value by value, what it takes.
        remedies: Changes that help, with their effect.
        warnings: Reasons to reconsider the budget before paying.
        seconds: The expected time of a run, within a factor of two.
        unscored: Whether all tables are measured without scores.
    """

    budget: str
    records: int
    first_stddev: dict[str, float]
    one_way: tuple[ExpectedTable, ...]
    tables: tuple[ExpectedTable, ...]
    likely: tuple[int, int]
    likely_error: float | None
    score_stddev: float
    by_level: tuple[ExpectedTable, ...] = ()
    emphasized: tuple[Clique, ...] = ()
    ahead: tuple[Clique, ...] = ()
    too_weak: tuple[TooWeak, ...] = ()
    remedies: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    unscored: bool = False

    @property
    def one_way_errors(self) -> dict[str, float]:
        """The expected error of each one-way marginal (total variation)."""
        return {table.clique[0]: table.error for table in self.one_way}

    @property
    def least_dependence(self) -> dict[Clique, float]:
        """For each pair and triple, the least dependence that is worth its cost; inf if none is."""
        return {table.clique: table.least for table in self.tables}

    @property
    def independent_only(self) -> bool:
        """Return whether no pair can be worth measuring, so that `Independent` is as accurate."""
        return all(math.isinf(table.least) for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values; an infinite dependence is None."""

        def values(table: ExpectedTable) -> dict[str, Any]:
            found = dataclasses.asdict(table)
            return {key: None if value == math.inf else value for key, value in found.items()}

        return {
            "mechanism": "LAMP",
            "budget": self.budget,
            "records_expected": self.records,
            "columns": [values(table) for table in self.one_way],
            "tables": [values(table) for table in self.tables],
            **({"by_level": [values(table) for table in self.by_level]} if self.by_level else {}),
            "likely_measured": list(self.likely),
            "likely_error": self.likely_error,
            "score_error": self.score_stddev,
            "matters": [
                {"clique": list(clique), "measured": self.unscored or clique in self.ahead}
                for clique in self.emphasized
            ],
            "too_weak": [dataclasses.asdict(each) for each in self.too_weak],
            "remedies": list(self.remedies),
            "warnings": list(self.warnings),
            "seconds": round(self.seconds, 1),
        }

    def __str__(self) -> str:
        return "\n".join(plan_lines(self))

    __repr__ = __str__


def budget_plan(
    mechanism: LAMP, domain: Domain, records: int, demand: WorkloadDemand, asked: Iterable[Clique] = ()
) -> BudgetPlan:
    """Return the plan for a table of a given size.

    Args:
        mechanism: The mechanism with its budget.
        domain: The attributes, whose codes are in the order of their trees.
        records: The assumed number of records, which is not read from the data.
        demand: The demand of the workload.
        asked: The tables by level that the workload asks for.
    """
    forecast = forecast_of(mechanism, domain, demand, float(records))
    exact = [found for one in mechanism.invariants if (found := _counted(one))]

    def expected(tables: Iterable[ExpectedTable]) -> Iterator[ExpectedTable]:
        for table in tables:
            held = any(determines(one, table.clique, domain) for one in exact)
            yield table.held() if held else table

    tables = list(expected(forecast.expected.values()))
    return BudgetPlan(
        budget=_in_words(mechanism),
        records=records,
        first_stddev={name: forecast.first.stddev(name) for name in demand.attributes},
        one_way=tuple(expected(forecast.one_way.values())),
        tables=tuple(tables),
        by_level=tuple(expected(expected_by_level(forecast, asked).values())),
        likely=likely(forecast),
        likely_error=forecast.likely_error,
        score_stddev=forecast.score_stddev / (2 * records),
        emphasized=tuple(forecast.emphasized),
        ahead=tuple(forecast.ahead),
        too_weak=tuple(too_weak(mechanism, forecast, tables)),
        remedies=tuple(remedies(mechanism, forecast, tables)),
        warnings=(*delta_warnings(mechanism.delta, records), *epsilon_warnings(mechanism.epsilon)),
        unscored=forecast.unscored,
        seconds=sum(expected_seconds(mechanism, domain, records) or ()),
    )


def _counted(invariant: Any) -> Clique:
    """Return the table of which an invariant holds all counts; () if it holds others."""
    if not isinstance(invariant, LinearMeasurement):
        return tuple(invariant)
    return invariant.clique if invariant.query is None and invariant.exact_rows.all() else ()


def _in_words(mechanism: LAMP) -> str:
    """Return the budget of a mechanism, and the number of records of a person if these are several."""
    epsilon, delta = mechanism.requested
    text = str(mechanism.budget()) if epsilon is None else f"epsilon {epsilon:g} and delta {delta or 0:g}"
    records = mechanism.neighbors.records
    changed = "added or removed" if isinstance(mechanism.neighbors, AddRemove) else "replaced"
    return text if records == 1 else f"{text} for {records} records of a person, {changed} together"


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
