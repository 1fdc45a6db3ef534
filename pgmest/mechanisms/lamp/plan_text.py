"""The text of a BudgetPlan: tables of expected errors, the tables that the budget cannot carry, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from pgmest._base.progress import duration_text
from pgmest._base.widths import joined, key_of_names, padded, short_names, width
from pgmest.errors import percent_text, plural
from pgmest.mechanisms.emphasis import STRONG
from pgmest.mechanisms.lamp.forecast import ExpectedTable
from pgmest.mechanisms.lamp.remedies import range_text
from pgmest.mechanisms.lamp.typical_tables import TYPICAL
from pgmest.tables.domain import Clique
from pgmest.tables.hierarchy import split_level

if TYPE_CHECKING:
    from pgmest.mechanisms.lamp.budget_plan import BudgetPlan
    from pgmest.mechanisms.lamp.remedies import TooWeak

SHOWN = 12
"""The largest number of rows of a printed table of columns."""

SHOWN_TABLES = 15
"""The largest number of pairs and triples that are listed one by one; more are summarized by their size."""

SHOWN_WEAK = 5
"""The largest number of tables of which the text says what they take."""

MOST_WIDTH = 110
"""The largest number of characters in a line of explanations."""

MATTERS = " *"
"""The mark of a table that matters."""


def aligned(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose first column is aligned left and whose other columns are aligned right."""
    widths = [max(map(width, cells)) for cells in zip(heading, *rows, strict=True)]
    for cells in (heading, *rows):
        numbers = (padded(cell, most, right=True) for cell, most in zip(cells[1:], widths[1:], strict=True))
        yield "  ".join([padded(cells[0], widths[0]), *numbers])


def plan_lines(plan: BudgetPlan) -> Iterator[str]:
    """Yield the lines of a printed plan."""
    columns = plural(len(plan.one_way), "column")
    yield f"LAMP with {plan.budget}, on about {plan.records:,} records of {columns}"
    yield "No record was read: this is what to expect of a table whose columns depend as those of typical tables do."
    yield ""
    yield from _columns(plan)
    if plan.tables:
        yield ""
        yield from _tables(plan)
    yield ""
    for text in _sentences(plan):
        yield from wrap(text, MOST_WIDTH, subsequent_indent="   " if text.startswith("!") else "") or [""]
    if plan.remedies:
        yield ""
        yield "What would help:"
        for text in plan.remedies:
            yield from wrap(text, MOST_WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield from (f"   {text} = {name}" for text, name in key_of_names(short_names(plan.first_stddev)))


def _sentences(plan: BudgetPlan) -> Iterator[str]:
    """Yield the explanations, and the sentences on what is likely to be measured and what is not."""
    yield (
        "error: the expected share of the records in a wrong cell (total variation distance). ±: half of the 95 % "
        "interval of a frequent count, in records. if even: the error if all values are about equally frequent, which "
        "is the worst case; the other numbers assume that few values are frequent (Zipf's law)."
    )
    yield f"A run takes about {duration_text(plan.seconds)} of one processor core."
    if plan.tables:
        half, tenth, strong = (TYPICAL[level] for level in (0.5, 0.9, 0.95))
        yield (
            "needs: the least dependence (total variation from independence) that is worth its cost, over ranges of "
            "neighboring values and value by value. In typical tables, half of the pairs have a dependence of "
            f"{half:g} or more, one in ten {tenth:g}, one in twenty {strong:g}."
        )
        yield from _likely(plan)
    yield from _weak(plan)
    yield from (f"!  {warning}" for warning in plan.warnings)


def _columns(plan: BudgetPlan) -> Iterator[str]:
    worst = sorted(plan.one_way, key=lambda table: -table.error)
    levels = [table for table in plan.by_level if len(table.clique) == 1]
    rows = [
        (
            _called(plan, t.clique),
            f"{t.cells:,}",
            percent_text(t.error, 1),
            percent_text(t.worst, 1),
            _count(t.half_width),
        )
        for column in worst[:SHOWN]
        for t in (column, *(table for table in levels if _is_level_of(table, column)))
    ]
    yield from aligned(("column", "values", "error", "if even", "±"), rows)
    if len(worst) > SHOWN:
        yield f"... and {plural(len(worst) - SHOWN, 'column')} with less error"


def _tables(plan: BudgetPlan) -> Iterator[str]:
    """Yield the pairs and triples one by one, or the emphasized ones and a summary of the others by their size."""
    special = [table for table in plan.tables if table.clique in plan.emphasized]
    others = [table for table in plan.tables if table.clique not in plan.emphasized]
    heading = ("error if measured", "±", "needs", "value by value")
    levels = [table for table in plan.by_level if len(table.clique) > 1]
    if len(plan.tables) <= SHOWN_TABLES:
        shown = [*special, *sorted(others, key=lambda table: (table.least_by_value, table.error))]
        shown = [one for t in shown for one in (t, *(level for level in levels if _is_level_of(level, t)))]
        shown, left = shown[: 2 * SHOWN_TABLES], len(shown) - 2 * SHOWN_TABLES
        yield from aligned(("table", "cells", *heading), [(*_name(plan, table), *_row([table])) for table in shown])
        if left > 0:
            yield f"... and {plural(left, 'table')} more (all with --json)"
        return
    if special:
        yield from aligned(("table", "cells", *heading), [(*_name(plan, table), *_row([table])) for table in special])
        yield ""
    groups: dict[int, list[ExpectedTable]] = {}
    for table in others:
        groups.setdefault(max(1, math.ceil(math.log10(table.cells))), []).append(table)
    rows = [
        (f"up to {10**power:,} cells, such as {_called(plan, _median(some).clique)}", f"{len(some):,}", *_row(some))
        for power, some in sorted(groups.items())
    ]
    yield from aligned(("tables with", "number", *heading), rows)
    if levels:
        shown = levels[:SHOWN_TABLES]
        yield ""
        yield from aligned(("by level", "cells", *heading), [(*_name(plan, table), *_row([table])) for table in shown])
    if len(levels) > SHOWN_TABLES:
        yield f"... and {plural(len(levels) - SHOWN_TABLES, 'table')} by level more (all with --json)"


def _is_level_of(level: ExpectedTable, table: ExpectedTable) -> bool:
    """Return whether a table by level has the attributes of another one."""
    names = ((split_level(name) or (name,))[0] for name in level.clique)
    pairs = zip(table.clique, names, level.clique, strict=False)
    return len(level.clique) == len(table.clique) and all(name in (own, found) for name, found, own in pairs)


def _name(plan: BudgetPlan, table: ExpectedTable) -> tuple[str, str]:
    mark = MATTERS if table.clique in plan.emphasized else ""
    return _called(plan, table.clique) + mark, f"{table.cells:,}"


def _row(tables: Sequence[ExpectedTable]) -> tuple[str, str, str, str]:
    """Return the medians of the error, the interval and the least dependences of some tables."""
    error, half, least, by_value = (
        float(np.median([getattr(table, name) for table in tables]))
        for name in ("error", "half_width", "least", "least_by_value")
    )
    return percent_text(error, 1), _count(half), _dependence(least), _dependence(by_value)


def _median(tables: Sequence[ExpectedTable]) -> ExpectedTable:
    return sorted(tables, key=lambda table: table.cells)[len(tables) // 2]


def _likely(plan: BudgetPlan) -> Iterator[str]:
    """Yield sentences on the tables that are likely to be measured."""
    if plan.independent_only:
        yield (
            "WARNING: this budget allows one-way marginals only. Independent is as accurate; use a larger budget, more "
            "records, or fewer values."
        )
        return
    total = plural(len(plan.tables), "pair" if max(len(table.clique) for table in plan.tables) == 2 else "table")
    error = "" if plan.likely_error is None else f", with an error of about {percent_text(plan.likely_error, 1)}"
    yield ""
    yield f"{range_text(*plan.likely).capitalize()} of {total} are likely to be measured{error}."
    if plan.unscored:
        yield "All are measured without scores, which would cost more than they gain."
        return
    yield (
        f"Noisy scores choose them. The standard error of a score is {plan.score_stddev:.2g}, so dependences below "
        f"{2 * plan.score_stddev:.2g} are found by luck only. Dependences that are not measured are lost, except for "
        "what follows from the measured ones."
    )
    for clique in plan.ahead:
        yield f"* {_called(plan, clique)} matters: it is measured in any case, before the others are scored."


def _weak(plan: BudgetPlan) -> Iterator[str]:
    """Yield sentences on the tables that the budget cannot carry, and on what they take."""
    for clique in plan.emphasized:
        if clique not in plan.ahead and not plan.unscored:
            name = _called(plan, clique)
            yield f"!  {name} matters, but the budget cannot carry it: the answer would be mostly noise."
    if not plan.too_weak or plan.independent_only:
        return
    names = ", ".join(_called(plan, weak.clique) for weak in plan.too_weak[:SHOWN_WEAK])
    more = len(plan.too_weak) - SHOWN_WEAK
    yield (
        f"!  {plural(len(plan.too_weak), 'table')} cannot be told from noise value by value, even if the dependence is "
        f"strong ({STRONG:g}): {names}" + (f" and {more:,} more." if more > 0 else ".")
    )
    for weak in [weak for weak in plan.too_weak if weak.detailed][:SHOWN_WEAK]:
        yield f"!  {_called(plan, weak.clique)}, {plural(weak.cells, 'cell')}: {_what_it_takes(weak)}"


def _what_it_takes(weak: TooWeak) -> str:
    ways = [f"it takes {weak.budget}" if weak.budget else "no reasonable budget is enough"]
    if weak.values:
        ways.append(f"at most {weak.values} values or groups of values of each column")
    text = ", or ".join(ways) + "."
    if weak.least is not None:
        text += f" Ranges of neighboring values show a dependence of {weak.least:.2g} or more."
    return text


def _called(plan: BudgetPlan, clique: Clique) -> str:
    """Return the name of a table, with long names of columns shortened."""
    return joined(clique, tuple(plan.first_stddev), " x ")


def _dependence(least: float) -> str:
    return "never" if math.isinf(least) else "any" if least == 0 else f"{least:.2f}"


def _count(records: float) -> str:
    return f"{records:,.0f}" if records >= 10 else f"{records:.1f}"
