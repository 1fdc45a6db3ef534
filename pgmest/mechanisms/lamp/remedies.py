"""Remedies: what the tables take that a budget cannot carry, and what would help a plan as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgmest.errors import listed, percent_text
from pgmest.mechanisms.emphasis import STRONG
from pgmest.mechanisms.lamp.candidates import SHARE_GRID, NoiseModel
from pgmest.mechanisms.lamp.forecast import ExpectedTable, Forecast
from pgmest.mechanisms.lamp.initial_measurements import InitialMeasurements
from pgmest.mechanisms.lamp.scores import scores_stddev
from pgmest.mechanisms.lamp.small_budgets import is_small, small_scores_stddev, small_scoring_share
from pgmest.mechanisms.lamp.typical_tables import TableKind, class_of
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.privacy.budgets import Budget
from pgmest.privacy.neighbors import AddRemove
from pgmest.privacy.noise import noise_for
from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from pgmest.mechanisms.lamp.lamp import LAMP

LARGER = 1e4
"""The largest factor by which a budget is raised to find out what a table takes."""

MOST_EPSILON = 100.0
"""A larger epsilon is no promise, so no plan asks for it."""

FEWER_VALUES = (512, 256, 128, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2)
"""The numbers of values to which attributes are reduced to find out what a budget can carry."""

MANY_VALUES, COARSE_VALUES = 32, 16
"""Attributes with more values than the first are reduced to the second to show what coarser bins would gain."""

MOST_TABLES = 1500
"""The largest number of pairs and triples for which the effect of other budgets is computed; it takes seconds each."""

DETAILED = 6
"""The largest number of tables for which a plan says what they take."""


@dataclass(frozen=True)
class TooWeak:
    """A table of which even a strong dependence is not worth its cost value by value, and what it takes.

    Attributes:
        clique: The attributes.
        cells: The number of cells.
        least: The least dependence that is worth its cost if neighboring values depend alike; None without one.
        detailed: Whether the next two were computed, which is done for a few tables.
        budget: The budget that would carry the table, in words; None if no reasonable budget would.
        values: The largest number of values of its attributes that the budget can carry; None without one.
    """

    clique: Clique
    cells: int
    least: float | None
    detailed: bool = False
    budget: str | None = None
    values: int | None = None


def forecast_of(mechanism: LAMP, domain: Domain, demand: WorkloadDemand, records: float) -> Forecast:
    """Return the forecast of a run."""
    noise_model = NoiseModel.of(mechanism.budget(), mechanism.neighbors)
    first_share = mechanism.first_share if demand.pairs or demand.has_range_queries else 1.0
    total_known = not isinstance(mechanism.neighbors, AddRemove)
    first = InitialMeasurements.of(domain, demand, noise_model, first_share, total_known)
    scoring_share, stddev = _scoring(mechanism, demand, records)
    worth, unscored = mechanism.min_error_reduction, mechanism.measures_all(domain, demand)
    return Forecast(demand, first, records, scoring_share, stddev, worth, unscored)


def _scoring(mechanism: LAMP, demand: WorkloadDemand, records: float) -> tuple[float, float]:
    """Return the share of the budget for scores, and the standard deviation of a score.

    A pair is scored in each round. With a small budget other pairs are selected each time.
    """
    budget, neighbors, pairs = mechanism.budget(), mechanism.neighbors, len(demand.pairs)
    share, releases = mechanism.scoring_share, mechanism.rounds + bool(demand.triples)
    stddev = scores_stddev(2 * max(1, pairs), budget * share, neighbors)
    one = scores_stddev(2 * max(1, pairs), budget * (share / releases), neighbors)
    if mechanism.prior is None and is_small(one, records):
        share = small_scoring_share(mechanism.first_share, share)
        stddev = small_scores_stddev(pairs, len(demand.attributes), budget * (share / releases), neighbors)
    return share, stddev


def too_weak(mechanism: LAMP, forecast: Forecast, tables: list[ExpectedTable]) -> Iterator[TooWeak]:
    """Yield the tables of which a strong dependence is not worth its cost, the emphasized and largest first.

    For up to `DETAILED` tables of different sizes, the result says what they take.
    """
    weak = [table for table in tables if table.least_by_value > min(STRONG, forecast.kind(table.clique).most)]
    weak.sort(key=lambda table: (table.clique not in forecast.emphasized, -table.cells))
    seen: set[tuple[int, ...]] = set()
    for table in weak:
        least, sizes = None if math.isinf(table.least) else table.least, forecast.kind(table.clique).sizes
        if sizes in seen or len(seen) >= DETAILED:
            yield TooWeak(table.clique, table.cells, least)
        else:
            seen.add(sizes)
            takes = _budget_for(mechanism, forecast, table), _values_for(forecast, table)
            yield TooWeak(table.clique, table.cells, least, True, *takes)


def _budget_for(mechanism: LAMP, forecast: Forecast, table: ExpectedTable) -> str | None:
    """Return the budget, in words, with which a strong dependence is worth its cost at the share of the table."""
    noise_model, importance = forecast.first.noise_model, forecast.tables[table.clique]
    richer = replace(noise_model, whole=noise_model.whole / LARGER**noise_model.power)
    kind = TableKind.of(forecast.kind(table.clique).sizes, forecast.records, richer)
    candidate = kind.candidate((class_of(STRONG),), 0.0)
    paying = [float(share) for share in SHARE_GRID if candidate.reduction(float(share)) >= forecast.worth]
    if not paying:
        return None
    share = forecast.share_of(forecast.kind(table.clique).candidate((class_of(STRONG),)), importance)
    factor = max(1.0, paying[0] * LARGER / max(share, SHARE_GRID[1]))
    if mechanism.epsilon is None:
        rho = (mechanism.rho or 0.0) * factor
        return f"rho {rho:.2g}" if rho < MOST_EPSILON else None
    low, high = math.log(mechanism.epsilon), math.log(MOST_EPSILON)
    if low >= high or _variance(replace(mechanism, epsilon=MOST_EPSILON).budget(), mechanism) > (
        wanted := noise_model.whole / factor**noise_model.power
    ):
        return None
    for _ in range(12):
        middle = (low + high) / 2
        enough = _variance(replace(mechanism, epsilon=math.exp(middle)).budget(), mechanism) <= wanted
        low, high = (low, middle) if enough else (middle, high)
    return f"epsilon {math.exp(high):.2g}"


def _variance(budget: Budget, mechanism: LAMP) -> float:
    return noise_for(budget, mechanism.neighbors).stddev ** 2


def _values_for(forecast: Forecast, table: ExpectedTable) -> int | None:
    """Return the largest number of values of a table's attributes with which a strong dependence is worth its cost."""
    sizes = [forecast.first.domain[name] for name in table.clique]
    for most in FEWER_VALUES:
        kind = forecast.kind_of([min(size, most) for size in sizes])
        if most < max(sizes) and forecast.pays(kind, class_of(STRONG), forecast.tables[table.clique], 0.0):
            return most
    return None


def remedies(mechanism: LAMP, forecast: Forecast, tables: list[ExpectedTable]) -> Iterator[str]:
    """Yield sentences on changes that would help, with their effect."""
    domain, demand = forecast.first.domain, forecast.demand
    if len(tables) > MOST_TABLES:
        yield "name the tables that matter (--matters), or ask for fewer (--workload): the budget is divided among all"
        return
    if not forecast.emphasized and (gain := _emphasis_gain(mechanism, forecast, tables)):
        yield gain
    for text, changed in _changes(mechanism, domain, demand.has_range_queries):
        asked = demand if changed[1] is domain else replace(demand, at_levels=())  # whose groups are of other codes
        other = forecast_of(*changed, asked, forecast.records)
        low, high = likely(other)
        error = other.likely_error
        found = "" if error is None else f", with an error of about {percent_text(error, 1)}"
        yield f"{text}: {range_text(low, high)} tables are likely to be measured{found}"
    if any(len(table.clique) > 2 for table in tables) or max(map(len, (i.clique for i in demand.items)), default=0) > 3:
        yield "--mechanism aim measures tables of four or more columns; LAMP builds them from pairs and triples"


def _changes(mechanism: LAMP, domain: Domain, has_range_queries: bool) -> Iterator[tuple[str, tuple[LAMP, Domain]]]:
    """Yield changes of the budget, the neighboring relation and the domain."""
    if mechanism.epsilon is not None:
        yield f"epsilon {2 * mechanism.epsilon:g}", (replace(mechanism, epsilon=2 * mechanism.epsilon), domain)
    else:
        yield f"rho {4 * (mechanism.rho or 0):g}", (replace(mechanism, rho=4 * (mechanism.rho or 0)), domain)
    count = mechanism.neighbors.records
    if count > 1:
        fewer = replace(mechanism.neighbors, records=max(1, count // 2))
        text = f"at_most {fewer.records} instead of {count}, which drops the other records of a person"
        yield text, (replace(mechanism, neighbors=fewer), domain)
    wide = [name for name, size in domain.items() if size > MANY_VALUES]
    if wide and not has_range_queries:
        fewer_values = Domain({name: COARSE_VALUES if name in wide else size for name, size in domain.items()})
        yield f"coarser bins or groups, {COARSE_VALUES} values each, of {listed(wide, 4)}", (mechanism, fewer_values)


def _emphasis_gain(mechanism: LAMP, forecast: Forecast, tables: list[ExpectedTable]) -> str | None:
    """Return the effect of emphasis, on the table with the median error among those that the budget can carry."""
    from pgmest.workloads import emphasized, marginals

    able = [t for t in tables if t.least_by_value <= STRONG and len(t.clique) == 2]
    if len(tables) < 3 or not able:
        return None
    example, domain = sorted(able, key=lambda table: table.error)[len(able) // 2], forecast.first.domain
    items = forecast.demand.items
    base = marginals([item.clique for item in items], [item.importance for item in items])
    demand = WorkloadDemand.of(domain, emphasized(domain, base, [example.clique]))
    with_emphasis = forecast_of(mechanism, domain, demand, forecast.records)
    if example.clique not in with_emphasis.ahead:
        return None
    after = with_emphasis.if_measured(example.clique).error
    return (
        f"--matters {','.join(example.clique)} (an example): this table is certainly measured, with an error of "
        f"{percent_text(after, 1)} instead of {percent_text(example.error, 1)}"
    )


def likely(forecast: Forecast) -> tuple[int, int]:
    """Return the least and the largest number of tables that are likely to be measured.

    On real tables, runs measured one to two times as many tables as the forecast, and up to two where it expects 0.
    """
    count = len(forecast.measured())
    if forecast.unscored:
        return count, count
    possible = sum(not math.isinf(forecast.least(forecast.kind(c), w)) for c, w in forecast.tables.items())
    return min(count, possible), min(2 * count + 2, possible)


def range_text(low: int, high: int) -> str:
    """Return a range of numbers in words, rounded to two digits.

    >>> range_text(3, 8), range_text(0, 0), range_text(2037, 4076)
    ('3 to 8', 'no', '2,000 to 4,100')
    """
    ends = [int(float(f"{end:.2g}")) for end in (low, high)]
    return "no" if not high else f"{ends[0]:,} to {ends[1]:,}" if ends[0] < ends[1] else f"{ends[0]:,}"
