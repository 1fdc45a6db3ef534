"""The text of a RehearsedPlan: expected errors, the tables that the budget cannot carry, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from pgmest._base.progress import duration_text
from pgmest._base.widths import joined, key_of_names, padded, short_names, width
from pgmest.errors import memory_text, percent_text, plural
from pgmest.mechanisms.emphasis import STRONG
from pgmest.privacy.neighbors import AddRemove
from pgmest.tables.domain import Clique
from pgmest.tables.hierarchy import split_level

if TYPE_CHECKING:
    from pgmest.mechanisms.rehearsal import ExpectedTable, RehearsedPlan
    from pgmest.mechanisms.remedies import TooWeak

ALL_PAID = 0.999
"""A rehearsal that spent this part of the budget was not ended early."""
SHOWN, SHOWN_TABLES, SHOWN_NOISE = 12, 15, 20
"""The largest numbers of columns that are listed, of tables of several columns that are listed one by one (more are
summarized by their size), and of measured tables with their noise."""
SHOWN_WEAK = 5
"""The largest number of tables of which the text says what they take."""
MOST_WIDTH = 110
"""The largest number of characters in a line of explanations."""


def plan_lines(plan: RehearsedPlan) -> Iterator[str]:
    """Yield the lines of a printed plan."""
    yield from _heading(plan)
    yield ""
    yield from _columns(plan)
    if plan.pairs:
        yield ""
        yield from _pairs(plan)
    yield ""
    yield from _noise(plan)
    yield ""
    for text in _sentences(plan):
        yield from wrap(text, MOST_WIDTH, subsequent_indent="   " if text.startswith("!") else "") or [""]
    if plan.remedies:
        yield ""
        yield "What would help:"
        for text in plan.remedies:
            yield from wrap(text, MOST_WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield from (f"   {text} = {name}" for text, name in key_of_names(short_names(_names(plan))))


def _heading(plan: RehearsedPlan) -> Iterator[str]:
    few = "" if plan.rehearsed == plan.records else f" for {plan.records:,}: real errors are smaller"
    text = f"{type(plan.mechanism).__name__} with {_budget(plan)}, rehearsed on "
    yield from wrap(f"{text}{plural(plan.rehearsed, 'made-up record')}{few}", MOST_WIDTH)
    yield "No record was read: this is what to expect of a table whose columns depend as those of typical tables do."
    size = "" if plan.megabytes is None else f", a model of {memory_text(1e6 * plan.megabytes)}"
    yield f"{plural(len(plan.tables), 'table')} measured, {duration_text(plan.seconds)} here{size}"
    if plan.spent < ALL_PAID:
        text = f"The rehearsal was ended after {percent_text(plan.spent, 1)} of the budget"
        yield f"{text}: a run measures more tables, or these with less noise."


def _budget(plan: RehearsedPlan) -> str:
    """Return the budget, and the number of records of a person if these are several."""
    (epsilon, delta), neighbors = plan.mechanism.requested, plan.mechanism.neighbors
    text = str(plan.budget) if epsilon is None else f"epsilon {epsilon:g} and delta {delta or 0:g}"
    changed = "added or removed" if isinstance(neighbors, AddRemove) else "replaced"
    return text if neighbors.records == 1 else f"{text} for {neighbors.records} records of a person, {changed} together"


def aligned(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose first column is aligned left and whose other columns are aligned right."""
    widths = [max(map(width, cells)) for cells in zip(heading, *rows, strict=True)]
    for cells in (heading, *rows):
        numbers = (padded(cell, most, right=True) for cell, most in zip(cells[1:], widths[1:], strict=True))
        yield "  ".join([padded(cells[0], widths[0]), *numbers])


def _columns(plan: RehearsedPlan) -> Iterator[str]:
    worst = sorted(plan.columns, key=lambda table: -table.error)
    levels = [table for table in plan.by_level if len(table.clique) == 1]
    rows = [
        (_called(plan, t.clique), f"{t.cells:,}", percent_text(t.error, 1), _count(t.half_width))
        for column in worst[:SHOWN]
        for t in (column, *(table for table in levels if _is_level_of(table, column)))
    ]
    yield from aligned(("column", "values", "error", "±"), rows)
    if len(worst) > SHOWN:
        yield f"... and {plural(len(worst) - SHOWN, 'column')} with less error"


def _pairs(plan: RehearsedPlan) -> Iterator[str]:
    """Yield the tables of several columns one by one, or a summary of many by their size."""
    levels = [table for table in plan.by_level if len(table.clique) > 1]
    if len(plan.pairs) <= SHOWN_TABLES:
        ordered = sorted(plan.pairs, key=lambda table: (not table.measured, table.error))
        shown = [one for t in ordered for one in (t, *(level for level in levels if _is_level_of(level, t)))]
        yield from aligned(("table", "cells", "", "error", "±"), [_row(plan, t) for t in shown[: 2 * SHOWN_TABLES]])
        if len(shown) > 2 * SHOWN_TABLES:
            yield f"... and {plural(len(shown) - 2 * SHOWN_TABLES, 'table')} more (all with --json)"
        return
    groups: dict[int, list[ExpectedTable]] = {}
    for table in plan.pairs:
        groups.setdefault(max(1, math.ceil(math.log10(table.cells))), []).append(table)
    rows = []
    for power, some in sorted(groups.items()):
        parts = [[table.error for table in some if table.measured == known] for known in (True, False)]
        medians = [percent_text(float(np.median(part)), 1) if part else "" for part in parts]
        example = sorted(some, key=lambda table: table.cells)[len(some) // 2].clique
        name = f"up to {10**power:,} cells, such as {_called(plan, example)}"
        rows.append((name, f"{len(some):,}", f"{len(parts[0]):,}", *medians))
    yield from aligned(("tables with", "number", "measured", "error of these", "of others"), rows)
    if levels:
        yield ""
        yield from aligned(("by level", "cells", "", "error", "±"), [_row(plan, t) for t in levels[:SHOWN_TABLES]])
    if len(levels) > SHOWN_TABLES:
        yield f"... and {plural(len(levels) - SHOWN_TABLES, 'table')} by level more (all with --json)"


def _row(plan: RehearsedPlan, table: ExpectedTable) -> tuple[str, ...]:
    found = "measured" if table.measured else "not measured"
    return (
        _called(plan, table.clique),
        f"{table.cells:,}",
        found,
        percent_text(table.error, 1),
        _count(table.half_width),
    )


def _noise(plan: RehearsedPlan) -> Iterator[str]:
    single = [table for table in plan.tables if len(table.clique) < 2]
    larger = [table for table in plan.tables if len(table.clique) > 1]
    shown = [*single[:SHOWN_NOISE], *larger[:SHOWN_NOISE]]
    rows = [
        (
            _called(plan, table.clique),
            f"{table.cells:,}",
            f"{table.stddev:,.1f}",
            f"{table.mean_count:,.1f}",
            percent_text(table.error, 1) if table.stddev else "exact",
        )
        for table in shown
    ]
    yield from aligned(("measured table", "answers", "noise", "mean count", "noise alone"), rows)
    if len(plan.tables) > len(shown):
        left = plural(max(0, len(larger) - SHOWN_NOISE), "table")
        yield f"... and {max(0, len(single) - SHOWN_NOISE):,} of single columns and {left} of several, with more noise"
    relative = [f"{count:,} records: {percent_text(error, 1)}" for count, error in plan.relative_errors()]
    if relative:
        yield f"noise on a cell of {', '.join(relative)}"


def _sentences(plan: RehearsedPlan) -> Iterator[str]:
    """Yield the explanations, and what was measured and what was not."""
    yield (
        "error: the share of the records in a wrong cell (total variation distance). ±: half of the 95 % interval of a "
        "count, in records. noise alone: the share of the records that the noise moves."
    )
    yield from _measured(plan)
    yield from _weak(plan)
    yield from (f"!  {warning}" for warning in plan.warnings)


def _measured(plan: RehearsedPlan) -> Iterator[str]:
    for clique, measured in plan.matters.items():
        name = _called(plan, clique)
        if measured:
            yield f"* {name} matters: it is measured in the rehearsal."
        else:
            yield f"!  {name} matters, but is NOT measured: the budget cannot carry it."
    if not plan.pairs:
        return
    if not plan.measured_pairs:
        yield (
            "WARNING: this budget allows one-way marginals only. Independent is as accurate; use a larger budget, more "
            "records, or fewer values."
        )
        return
    total = plural(len(plan.pairs), "pair" if max(len(table.clique) for table in plan.pairs) == 2 else "table")
    errors = [float(np.mean(part)) for part in _by_measured(plan) if part]
    others = "" if len(errors) < 2 else f", and {percent_text(errors[1], 1)} where only what others imply is kept"
    yield (
        f"{plan.measured_pairs:,} of {total} are measured in the rehearsal. The mean error is "
        f"{percent_text(errors[0], 1)} of these{others}."
    )


def _by_measured(plan: RehearsedPlan) -> list[list[float]]:
    return [[table.error for table in plan.pairs if table.measured == known] for known in (True, False)]


def _weak(plan: RehearsedPlan) -> Iterator[str]:
    """Yield sentences on the tables that the budget cannot carry, and on what they take."""
    if not plan.too_weak or not plan.measured_pairs:
        return
    names = ", ".join(_called(plan, weak.clique) for weak in plan.too_weak[:SHOWN_WEAK])
    more = len(plan.too_weak) - SHOWN_WEAK
    yield (
        f"!  {plural(len(plan.too_weak), 'table')} cannot be told from noise value by value, even if the dependence is "
        f"strong ({STRONG:g}): {names}" + (f" and {more:,} more." if more > 0 else ".")
    )
    for weak in plan.too_weak[:SHOWN_WEAK]:
        yield f"!  {_called(plan, weak.clique)}, {plural(weak.cells, 'cell')}: {_what_it_takes(weak)}"


def _what_it_takes(weak: TooWeak) -> str:
    ways = [f"it takes {weak.budget}" if weak.budget else "no reasonable budget is enough"]
    if weak.values:
        ways.append(f"at most {weak.values} values or groups of values of each column")
    return ", or ".join(ways) + "."


def _is_level_of(level: ExpectedTable, table: ExpectedTable) -> bool:
    """Return whether a table by level has the attributes of another one."""
    names = ((split_level(name) or (name,))[0] for name in level.clique)
    pairs = zip(table.clique, names, level.clique, strict=False)
    return len(level.clique) == len(table.clique) and all(name in (own, found) for name, found, own in pairs)


def _names(plan: RehearsedPlan) -> Clique:
    measured = (name for table in plan.tables for name in table.clique)
    return tuple(dict.fromkeys([*(table.clique[0] for table in plan.columns), *measured]))


def _called(plan: RehearsedPlan, clique: Clique) -> str:
    """Return the name of a table, with long names of columns shortened."""
    return joined(clique, _names(plan), " x ")


def _count(records: float | None) -> str:
    return "" if records is None else f"{records:,.0f}" if records >= 10 else f"{records:.1f}"
