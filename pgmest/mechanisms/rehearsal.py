"""Rehearsal: a run of a mechanism on made-up records, which shows the noise, time and memory to expect.

A rehearsal needs no private record: its inputs are the domain, the budget and a public guess of the number of records.
So it costs nothing and may be published. The made-up records have dependence, since adaptive mechanisms look for it,
but not the dependence of the real records, for which other tables can be measured.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest._base.widths import joined, key_of_names, padded, short_names, width
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, memory_text, percent_text, plural
from pgmest.measurements.measured_tables import MeasuredTable, determines, measured_tables
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.notices import WeakPromiseWarning, delta_warnings, epsilon_warnings
from pgmest.privacy.budgets import Budget
from pgmest.tables.domain import Clique, Domain

CELL_COUNTS = (10, 100, 1000, 10_000, 100_000)
"""The counts of cells for which a rehearsed plan shows the relative noise."""
ALL_PAID = 0.999
"""A rehearsal that spent this part of the budget was not ended early."""
MOST_RECORDS = 100_000
"""The largest number of made-up records; more records would change the time, not the noise."""
CLASSES = 6
"""The number of classes in the mixture that makes up records."""
SHOWN = 20
"""The largest number of one-way tables, and of larger tables, that a printed plan lists."""


@dataclass(frozen=True)
class RehearsedPlan:
    """The noise, time and memory to expect of a mechanism at its budget, from a rehearsal without private records.

    Attributes:
        mechanism: the mechanism with its budget.
        records: the assumed number of records.
        tables: the tables that the rehearsal measured, the least noise first.
        seconds: the time of the rehearsal on this machine.
        megabytes: the size of the model's tables; None if the model has no junction tree.
        warnings: reasons to reconsider the budget or the workload before paying.
        budget: the budget of the run, in its own type.
        spent: the part of the budget that the rehearsal spent; less than 1 if a limit of time ended it.
        matters: the marginals that matter, with whether the rehearsal measured them.
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
            "seconds": round(self.seconds, 3),
            "megabytes": self.megabytes,
            "spent": self.spent,
            "matters": [{"clique": list(clique), "measured": found} for clique, found in self.matters.items()],
            "tables": [
                {**dataclasses.asdict(table), "clique": list(table.clique), "error": table.error}
                for table in self.tables
            ],
            "relative_error_by_count": [{"count": count, "error": error} for count, error in self.relative_errors()],
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        name = type(self.mechanism).__name__
        size = "" if self.megabytes is None else f", a model of {memory_text(1e6 * self.megabytes)}"
        budget = self.budget or self.mechanism.budget()
        yield f"{name} with {budget}, rehearsed on {plural(self.records, 'made-up record')}"
        yield f"{plural(len(self.tables), 'table')} measured, {self.seconds:.1f} s here{size}"
        if self.spent < ALL_PAID:
            text = f"The rehearsal was ended after {percent_text(self.spent, 1)} of the budget"
            yield f"{text}: a run measures more tables, or these with less noise."
        yield ""
        heading = ("table", "cells", "noise", "mean count", "error")
        names = tuple(dict.fromkeys(name for table in self.tables for name in table.clique))
        single = [table for table in self.tables if len(table.clique) < 2]
        larger = [table for table in self.tables if len(table.clique) > 1]
        shown = [*single[:SHOWN], *larger[:SHOWN]]
        rows = [
            (
                joined(table.clique, names, " x "),
                f"{table.cells:,}",
                f"{table.stddev:,.1f}",
                f"{table.mean_count:,.1f}",
                percent_text(table.error, 1) if table.stddev else "exact",
            )
            for table in shown
        ]
        widths = [max(map(width, cells)) for cells in zip(heading, *rows, strict=True)]
        for cells in (heading, *rows):
            aligned = (padded(cell, most, right=True) for cell, most in zip(cells[1:], widths[1:], strict=True))
            yield "  ".join([padded(cells[0], widths[0]), *aligned])
        if len(self.tables) > len(shown):
            left = plural(max(0, len(larger) - SHOWN), "table")
            yield f"... and {max(0, len(single) - SHOWN):,} of single columns and {left} of several, with more noise"
        yield ""
        for clique, measured in self.matters.items():
            found = "is measured in the rehearsal" if measured else "matters, but is NOT measured"
            yield f"{'*' if measured else '! '} {' x '.join(clique)} {found}"
        yield "noise on a cell of " + ", ".join(
            f"{count:,} records: {percent_text(error, 1)}" for count, error in self.relative_errors()
        )
        yield from (f"!  {warning}" for warning in self.warnings)
        yield from (f"   {text} = {name}" for text, name in key_of_names(short_names(names)))


def rehearse(
    mechanism: Mechanism,
    domain: Domain,
    records: int,
    workload: Any = None,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    matters: Iterable[Clique] = (),
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
        time_limit: the seconds after which the rehearsal measures nothing more.
        matters: the marginals that matter, of attributes or levels, of which the plan says whether they are measured.

    Raises:
        ArgumentError: if `records` is not an integer of at least 1; or as for `Mechanism.fit`.
    """
    if isinstance(records, bool) or not isinstance(records, int | np.integer) or records < 1:
        raise ArgumentError.of("records", records, "an integer of at least 1")
    trial = dataclasses.replace(mechanism, backend="simulation")
    data = made_up(domain, min(int(records), MOST_RECORDS), seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)  # the plan lists them
        result = trial.fit(data, workload, seed=seed, progress=False, time_limit=time_limit)
    seconds = time.perf_counter() - start
    tables = measured_tables(result.measurements, int(records), domain, result.invariants)
    tree = getattr(result.model, "junction_tree", None)
    megabytes = None if tree is None else float(tree.megabytes)
    weak = (*delta_warnings(mechanism.delta, int(records)), *epsilon_warnings(mechanism.epsilon))
    reasons = (*weak, *_noise_warnings(tables))
    ledger = result.ledger
    spent = 1 - ledger.remaining / ledger.budget
    facts = mechanism, int(records), tables, seconds, megabytes, reasons
    verdicts = {clique: any(determines(one.clique, clique, domain) for one in tables) for clique in matters}
    return RehearsedPlan(*facts, ledger.budget, spent, verdicts)


def made_up(domain: Domain, records: int, seed: int = 0) -> Dataset:
    """Return records with skewed and dependent attributes, drawn from a mixture of product distributions."""
    generator = np.random.default_rng(seed)
    classes = generator.integers(CLASSES, size=records)
    columns = []
    for size in domain.shape:
        weights = generator.dirichlet(np.full(size, 0.5), size=CLASSES).cumsum(axis=1)
        codes = (generator.random(records)[:, None] > weights[classes][:, :-1]).sum(axis=1)
        columns.append(codes.astype(code_type(size)))
    return Dataset.from_codes(columns, domain)


def _noise_warnings(tables: tuple[MeasuredTable, ...]) -> Iterator[str]:
    drowned = [table for table in tables if table.noise_dominated]
    if drowned:
        worst = max(drowned, key=lambda table: table.stddev / table.mean_count)
        yield (
            f"the noise exceeds the average count in {len(drowned)} of {plural(len(tables), 'table')}, most in "
            f"{joined(worst.clique, worst.clique, ' x ')} ({worst.stddev:,.1f} on cells of {worst.mean_count:,.2g}): "
            "fewer values or bins, a smaller workload, or a larger budget help."
        )
