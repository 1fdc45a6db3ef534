"""Rehearsal: a run of a mechanism on made-up records, which shows the errors, noise and time to expect.

A rehearsal needs no private record: its inputs are the domain, the budget and a public guess of the number of records.
So it costs nothing and may be published. The made-up records are as uneven and as dependent as those of typical tables
(`made_up`), so the errors are typical, too. Other pairs depend in them than in the real records, so that an adaptive
mechanism may measure other tables of these.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pgmest._base.widths import joined
from pgmest.data.dataset import Dataset
from pgmest.errors import PgmestError, at_least, percent_text, plural
from pgmest.measurements.measured_tables import MeasuredTable, determines, measured_tables
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.emphasis import emphasized_cliques
from pgmest.mechanisms.made_up import made_up
from pgmest.mechanisms.mechanism import Mechanism, relevant_workload
from pgmest.mechanisms.notices import WeakPromiseWarning, delta_warnings, epsilon_warnings
from pgmest.mechanisms.rehearsal_text import ALL_PAID, plan_lines
from pgmest.mechanisms.remedies import TooWeak, changes, too_weak
from pgmest.models.error_bars import interval
from pgmest.privacy.budgets import Budget
from pgmest.queries import Kron
from pgmest.queries.levels import cliques_by_level
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.workloads import Workload

CELL_COUNTS = (10, 100, 1000, 10_000, 100_000)
"""The counts of cells for which a rehearsed plan shows the relative noise."""
MOST_RECORDS, QUICK_RECORDS, QUICK_SECONDS = 1_000_000, 50_000, 12.0
"""The largest numbers of made-up records, in a whole and in a quick rehearsal, and the seconds after which a quick one
measures nothing more: it then ends within 20 seconds at 30 columns."""
MOST_TABLES, MOST_CELLS = 1_500, 1_000_000
"""The largest number of tables of several columns whose errors are computed, and of the cells of one."""
MOST_WIDTHS = 200
"""The largest number of tables of several columns of which a plan has half-widths."""
MOST_BY_LEVEL = 300
"""The largest number of tables by level whose errors are computed."""


@dataclass(frozen=True)
class ExpectedTable:
    """The error of a table in a rehearsal.

    Attributes:
        clique: the attributes, or levels of their hierarchies.
        cells: the number of cells.
        error: the total variation distance between the made-up records and the model.
        half_width: half of the width of a 95 % interval, in records, the mean over the records; None where it is not
            computed, and for models without intervals.
        measured: whether the rehearsal measured a table with all these attributes.
        dependence: the total variation of the made-up table from independence, its sampling error included; 0 for a
            single attribute.
    """

    clique: Clique
    cells: int
    error: float
    half_width: float | None
    measured: bool = True
    dependence: float = 0.0


@dataclass(frozen=True)
class RehearsedPlan:
    """The errors, noise, time and memory to expect of a mechanism at its budget, from a rehearsal.

    Attributes:
        mechanism: the mechanism with its budget.
        records: the assumed number of records.
        tables: the tables that the rehearsal measured, with their noise: small cliques first, then the least noise.
        seconds: the time of the rehearsal on this machine.
        megabytes: the size of the model's tables; None if the model has no junction tree.
        warnings: reasons to reconsider the budget or the workload before paying.
        budget: the budget of the run, in its own type.
        spent: the part of the budget that the rehearsal spent; less than 1 if a limit of time ended it.
        matters: the marginals that matter, with whether the rehearsal measured them.
        rehearsed: the number of made-up records.
        columns: the expected error of each single attribute.
        pairs: the expected error of each table of several attributes of the workload.
        by_level: the same of attributes and tables at coarser levels of hierarchies.
        too_weak: the tables that the budget cannot tell from noise value by value, even if their dependence is strong.
        remedies: changes that help, with their effect in further rehearsals.
    """

    mechanism: Mechanism
    records: int
    tables: tuple[MeasuredTable, ...]
    seconds: float
    megabytes: float | None
    warnings: tuple[str, ...]
    budget: Budget | None = None
    spent: float = 1.0
    matters: Mapping[Clique, bool] = field(default_factory=dict)
    rehearsed: int = 0
    columns: tuple[ExpectedTable, ...] = ()
    pairs: tuple[ExpectedTable, ...] = ()
    by_level: tuple[ExpectedTable, ...] = ()
    too_weak: tuple[TooWeak, ...] = ()
    remedies: tuple[str, ...] = ()

    @property
    def measured_pairs(self) -> int:
        """The number of tables of several attributes that the rehearsal measured."""
        return sum(table.measured for table in self.pairs)

    @property
    def mean_error(self) -> float:
        """The mean error of all tables of several attributes, measured or not; NaN without any."""
        return float(np.mean([table.error for table in self.pairs])) if self.pairs else math.nan

    def relative_errors(self) -> list[tuple[int, float]]:
        """Return pairs of a cell's count and its relative noise, by the median standard deviation of the tables."""
        noisy = [table.stddev for table in self.tables if table.stddev]
        if not noisy:
            return []
        typical = float(np.median(noisy))
        return [(count, typical / count) for count in CELL_COUNTS if count <= max(self.records, CELL_COUNTS[0])]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "mechanism": type(self.mechanism).__name__,
            "budget": str(self.budget or self.mechanism.budget()),
            "records_expected": self.records,
            "records_rehearsed": self.rehearsed,
            "seconds": round(self.seconds, 3),
            "megabytes": self.megabytes,
            "spent": self.spent,
            "columns": [dataclasses.asdict(table) for table in self.columns],
            "pairs": [dataclasses.asdict(table) for table in self.pairs],
            **({"by_level": [dataclasses.asdict(table) for table in self.by_level]} if self.by_level else {}),
            "matters": [{"clique": list(clique), "measured": found} for clique, found in self.matters.items()],
            "tables": [
                {**dataclasses.asdict(table), "clique": list(table.clique), "error": table.error}
                for table in self.tables
            ],
            "too_weak": [dataclasses.asdict(table) for table in self.too_weak],
            "remedies": list(self.remedies),
            "relative_error_by_count": [{"count": count, "error": error} for count, error in self.relative_errors()],
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        return "\n".join(plan_lines(self))

    __repr__ = __str__


def rehearse(
    mechanism: Mechanism,
    domain: Domain,
    records: int,
    workload: Any = None,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    quick: bool = False,
) -> RehearsedPlan:
    """Run a mechanism on made-up records with simulated noise, and return what to expect of a private run.

    >>> import pgmest as pg
    >>> plan = rehearse(pg.mechanisms.MST(rho=0.1), pg.Domain({"age": 10, "sex": 2}), 1000)
    >>> sorted(table.clique for table in plan.tables), plan.warnings
    ([('age',), ('age', 'sex'), ('sex',)], ())

    Args:
        mechanism: the mechanism with its budget.
        domain: the attributes.
        records: a public guess of the number of records.
        workload: the workload, as for `Mechanism.fit`.
        seed: the seed of the made-up records and of the simulated noise.
        time_limit: the seconds after which the rehearsal measures nothing more. No remedies are rehearsed after them,
            and a rehearsal that they ended is not compared with another.
        quick: whether to rehearse once, for a few seconds and on at most 50,000 records, and to look for no remedies.

    Raises:
        ArgumentError: if `records` is not an integer of at least 1; or as for `Mechanism.fit`.
    """
    count, start = at_least("records", records, 1), time.perf_counter()
    limit = min(time_limit or QUICK_SECONDS, QUICK_SECONDS) if quick else time_limit
    most = QUICK_RECORDS if quick else MOST_RECORDS
    items = None if workload is None else relevant_workload(domain, workload)
    plan = _Rehearsal(mechanism, domain, count, items, seed, limit, min(count, most)).plan()
    weak, helpful = tuple(too_weak(mechanism, domain, [table.clique for table in plan.pairs], count)), []
    if quick or plan.spent < ALL_PAID:
        return replace(plan, too_weak=weak)
    able = [table for table in plan.pairs if table.clique not in {one.clique for one in weak}]
    for change in changes(mechanism, domain, items, able) if len(plan.pairs) > 1 else ():
        if limit is not None and time.perf_counter() - start > limit:
            break
        facts = change.mechanism, change.domain, count, change.workload, seed, limit, min(count, most)
        with suppress(PgmestError):  # a change that the mechanism cannot make, such as of public records' attributes
            changed = _Rehearsal(*facts).plan()
            if changed.spent >= ALL_PAID:
                helpful.append(f"{change.text}: {_gain(change.example, changed, plan)}")
    return replace(plan, too_weak=weak, remedies=tuple(helpful))


def _gain(example: Clique, changed: RehearsedPlan, plan: RehearsedPlan) -> str:
    """Return in words what a change gains: for an example, or for all tables of several attributes."""
    if example:
        now, then = ({table.clique: table.error for table in one.pairs}[example] for one in (changed, plan))
        return f"it is measured first, with an error of {percent_text(now, 1)} instead of {percent_text(then, 1)}"
    errors = " instead of ".join(percent_text(one.mean_error, 1) for one in (changed, plan))
    counts = f"{changed.measured_pairs:,} instead of {plan.measured_pairs:,} of {len(plan.pairs):,}"
    return f"the mean error of all tables is {errors} ({counts} are measured)"


@dataclass(frozen=True, eq=False)
class _Rehearsal:
    """A run on made-up records.

    Attributes:
        mechanism: the mechanism with its budget.
        domain: the attributes.
        records: the assumed number of records.
        workload: the checked workload; None for the default.
        seed: the seed of the records and of the noise.
        limit: the seconds after which nothing more is measured.
        rehearsed: the number of made-up records.
    """

    mechanism: Mechanism
    domain: Domain
    records: int
    workload: Workload | None
    seed: int
    limit: float | None
    rehearsed: int

    def plan(self) -> RehearsedPlan:
        """Run the mechanism, and return what it measured and how far the model is off; remedies are left out."""
        data = made_up(self.domain, self.rehearsed, self.seed, self.mechanism.structural_zeros)
        invariants = tuple(_of_made_up(one, data) for one in self.mechanism.invariants)
        trial = dataclasses.replace(self.mechanism, backend="simulation", invariants=invariants)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakPromiseWarning)  # the plan lists them
            result = trial.fit(data, self.workload, seed=self.seed, progress=False, time_limit=self.limit)
        seconds = time.perf_counter() - start
        tables = measured_tables(result.measurements, self.records, self.domain, result.invariants)
        tree, ledger, mechanism = getattr(result.model, "junction_tree", None), result.ledger, self.mechanism
        weak = (*delta_warnings(mechanism.delta, self.records), *epsilon_warnings(mechanism.epsilon))
        expected = _Errors(data, result.model, [table.clique for table in tables])
        cliques, matters = list(self._cliques()), emphasized_cliques(self.workload, self.domain)
        return RehearsedPlan(
            mechanism=mechanism,
            records=self.records,
            tables=tables,
            seconds=seconds,
            megabytes=None if tree is None else float(tree.megabytes),
            warnings=(*weak, *_noise_warnings(tables)),
            budget=ledger.budget,
            spent=1 - ledger.remaining / ledger.budget,
            matters={c: any(determines(one.clique, c, self.domain) for one in tables) for c in matters},
            rehearsed=self.rehearsed,
            columns=tuple(expected.of([(name,) for name in self.domain])),
            pairs=tuple(expected.of(cliques)),
            by_level=tuple(expected.of(self._by_level(cliques))),
        )

    def _cliques(self) -> Iterator[Clique]:
        """Yield the tables of several attributes that the workload asks for, and the pairs inside them."""
        several = [name for name, size in self.domain.items() if size > 1]
        asked = [several] if self.workload is None else [one.clique for one in self.workload]
        parts = [[n for n in names if n in several] for names in asked]
        inside = {pair for names in parts for pair in itertools.combinations(self.domain.ordered(names), 2)}
        if self.workload is not None:
            inside |= {self.domain.ordered(names) for names in parts if len(names) > 2}
        axes = self.domain.axes
        small = sorted((c for c in inside if self.domain.size(c) <= MOST_CELLS), key=lambda c: (len(c), axes(c)))
        step = math.ceil(len(small) / MOST_TABLES) if small else 1
        yield from small[::step]

    def _by_level(self, cliques: Iterable[Clique]) -> list[Clique]:
        """Return the attributes and tables by level, of the tables that the workload names by level, if any."""
        if not self.domain.hierarchies:
            return []
        queries = [one.query for one in self.workload or () if isinstance(one.query, Kron)]
        named = {query.axes for query in queries if len(query.axes) > 1 and self.domain.names_levels(query.axes)}
        single = [names for name in self.domain for names in cliques_by_level(self.domain, (name,))[1:]]
        several = [names for clique in cliques for names in cliques_by_level(self.domain, clique)[1:]]
        return [*single, *(names for names in several if not named or names in named)][:MOST_BY_LEVEL]


def _of_made_up(invariant: Any, data: Dataset) -> Any:
    """Return an invariant about made-up records: exact answers are those of the records, and bounds are left out."""
    if not isinstance(invariant, LinearMeasurement):
        return invariant
    if not invariant.exact_rows.all():
        return ()
    table = data.project(invariant.clique)
    values = table.values if invariant.query is None else invariant.query.answer(table, invariant.clique)
    return LinearMeasurement.exact(values, invariant.clique, invariant.query)


@dataclass(frozen=True, eq=False)
class _Errors:
    """How far a model is from made-up records.

    Attributes:
        data: the made-up records.
        model: the model.
        measured: the tables that were measured.
    """

    data: Dataset
    model: Any
    measured: list[Clique]

    def of(self, cliques: Iterable[Clique]) -> Iterator[ExpectedTable]:
        """Yield the errors of tables; half-widths of large tables are left out beyond the first `MOST_WIDTHS`."""
        for place, clique in enumerate(cliques):
            true, own = self.data.project(clique), self.model.project(clique)
            scale = self.data.records / max(float(own.values.sum()), 1e-300)
            error = min(1.0, total_variation(true, own * scale))
            width = self._half_width(clique, true) if len(clique) < 2 or place < MOST_WIDTHS else None
            known = any(determines(one, clique, self.data.domain) for one in self.measured)
            yield ExpectedTable(clique, true.values.size, error, width, known, _dependence(true))

    def _half_width(self, clique: Clique, true: Factor) -> float | None:
        if getattr(self.model, "known_errors", None) is None:
            return None
        with suppress(PgmestError):
            halves = 0.5 * interval(self.model, clique, kind="errors").width.values
            return float((halves * true.values).sum()) / self.data.records
        return None


def _dependence(table: Factor) -> float:
    """Return the total variation of a table from the product of its one-way marginals."""
    if table.values.ndim < 2:
        return 0.0
    records, product = float(table.values.sum()), np.ones(())
    for axis in range(table.values.ndim):
        others = tuple(other for other in range(table.values.ndim) if other != axis)
        product = np.multiply.outer(product, table.values.sum(axis=others) / records)
    return 0.5 * float(np.abs(table.values / records - product).sum())


def _noise_warnings(tables: tuple[MeasuredTable, ...]) -> Iterator[str]:
    drowned = [table for table in tables if table.noise_dominated]
    if drowned:
        worst = max(drowned, key=lambda table: table.stddev / table.mean_count)
        yield (
            f"the noise exceeds the average count in {len(drowned)} of {plural(len(tables), 'table')}, most in "
            f"{joined(worst.clique, worst.clique, ' x ')} ({worst.stddev:,.1f} on cells of {worst.mean_count:,.2g}): "
            "fewer values or bins, a smaller workload, or a larger budget help."
        )
