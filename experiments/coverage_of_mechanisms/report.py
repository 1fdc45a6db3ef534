"""The report: coverage and widths against their targets, and a figure of nominal against real coverage."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from experiments.coverage_of_mechanisms.fits import EPSILONS, MAIN, ON_ALL, OTHERS
from experiments.coverage_of_mechanisms.questions import CLASSES, COMBINED, MOST_ANSWERS, NAIVE, UNMEASURED
from experiments.coverage_of_mechanisms.scores import OTHER_LEVELS, VERSION
from experiments.coverage_of_mechanisms.summaries import FEWEST, by_table, summary
from experiments.coverage_of_mechanisms.tables import ALL, HOSTILE, PARTS, SMALL
from pgmest._base.files import atomic_path, write_atomically

LEAST, MOST, LEAST_TABLE = 0.93, 0.98, 0.85
"""The targets of 95 % intervals: the share that holds over all tables, and on the worst table."""
LEAST_JOINED = 0.90
"""The target of regressions of released records."""
WIDE, WIDE_UNMEASURED = 1.2, 1.6
"""The targets of widths, over those of the oracle."""

HEAD = f"""# What 95 % intervals hold after a mechanism

Made by `python -m experiments.coverage mechanisms`; not edited. The intervals are those of `pg.interval(model, query)`.
Every number weights the tables evenly. At most {MOST_ANSWERS:,} answers of a class are judged after each fit, drawn at
random.

- *Held*: the share of the answers whose interval holds the truth, at epsilon {" / ".join(f"{e:g}" for e in EPSILONS)}.
  The target is {LEAST:.0%} to {MOST:.0%}, and {LEAST_JOINED:.0%} for regressions of released records.
- *Worst*: the table where that share is smallest, of those with at least {FEWEST} answers of the class, and its budget.
  The target is {LEAST_TABLE:.0%}.
- *Present*: the share among cells that hold a record. Most cells of most tables are empty, and easy to hold.
- *Width*: the mean width over that of an oracle that knows how far the model's answers are off: twice 1.96 times the
  root mean square of their errors, over the answers of the class and all seeds; the geometric mean over tables.
  The oracle gives every answer of a class the same width, so that better than 1 is possible where some are surer than
  others. The target is {WIDE} where the class was measured, and {WIDE_UNMEASURED} where it was not.
- *Next*: the median milliseconds of a question after the first.

Bold numbers miss their target.
"""


def write(rows: pd.DataFrame, folder: Path) -> None:
    """Write the rows and the report; rows about intervals as they were before are left out."""
    rows = _where(rows, _current(rows))
    with atomic_path(folder / "coverage_mechanisms.csv") as path:
        rows.to_csv(path, index=False, float_format="%.5g")
    write_atomically(folder / "coverage_mechanisms.md", "\n".join(_lines(rows)) + "\n")


def _current(rows: pd.DataFrame) -> pd.Series:
    """Return which rows are about intervals as they are made today."""
    versions = cast("pd.Series", rows["version"]) if "version" in rows else pd.Series(np.nan, index=rows.index)
    return versions.eq(VERSION)


def _of(rows: pd.DataFrame, mechanisms: Collection[str], tables: Collection[str]) -> pd.DataFrame:
    return _where(rows, rows["mechanism"].isin(list(mechanisms)) & rows["table"].isin(list(tables)))


def _where(rows: pd.DataFrame, condition: Any) -> pd.DataFrame:
    """Return the rows of which a condition is true."""
    return cast("pd.DataFrame", rows[condition])


def _lines(rows: pd.DataFrame) -> Iterator[str]:
    yield HEAD
    parts, whole = _of(rows, MAIN, PARTS), _of(rows, ON_ALL, ALL)
    others, hostile, small = _of(rows, OTHERS, PARTS), _of(rows, MAIN, HOSTILE), _of(rows, MAIN, SMALL)
    if len(parts):
        yield f"Tables of up to seven attributes: {', '.join(PARTS)}. {_seeds(parts)}"
        yield from ("", *_counted(parts), "", *_table(parts), "", *_of_levels(parts))
    yield from ("", "The classes:", "", *(f"- *{name}*: {text}." for name, text in CLASSES.items()))
    if len(small):
        yield from ("", "## Tables of few records", "")
        yield f"Tables of 500 to 900 records, at epsilon 0.1 and 1: {'; '.join(SMALL)}. {_seeds(small)}"
        yield "They were made to check rules that were found on the others, and decided between three of them."
        yield from ("", *_counted(small), "", *_table(small))
    if len(whole):
        tables = [name for name in ALL if name in set(whole["table"])]
        yield from ("", "## Tables with all their attributes", "")
        yield f"Tables: {', '.join(name.removesuffix(' (all)') for name in tables)}. {_seeds(whole)}"
        yield "Released records are not judged here. The questions about one run share few errors: an attribute that"
        yield "many measured pairs have may be missed in all of them."
        yield from ("", *_counted(whole), "", *_table(whole))
    if len(others):
        yield from ("", "## Other mechanisms", "", "With the estimators of their papers.", "", *_table(others))
    if len(hostile):
        yield from ("", "## Tables made to be hostile", "", *_of_hostile(hostile))
    refused = _where(rows, rows["refused"] > 0)
    if len(refused):
        yield from ("", "## Questions without an interval", "", "| mechanism | class | questions | for example |")
        yield "|---|---|---:|---|"
        for key, group in refused.groupby(["mechanism", "class"], sort=False):
            mechanism, name = cast("tuple[str, str]", key)
            note = str(next(iter(group["note"]))).replace("|", "/").replace("\n", " ")
            yield f"| {mechanism} | {name} | {group['refused'].sum()} | {note} |"
    of_records, joined = rows["class"].isin((COMBINED, NAIVE)), (rows["class"] == COMBINED) & (rows["answers"] > 0)
    yield from ("", "## Seconds", "", "Of the first question after a fit, and of 20 tables of released records:", "")
    yield from ("| mechanism | first, median | most | tables, median | most |", "|---|---:|---:|---:|---:|")
    for name, group in rows.groupby("mechanism", sort=False):
        parts = (np.asarray(group["first"][asked]) for asked in (~of_records, joined))
        cells = (f"{np.median(part):.2f} | {part.max():.2f}" if len(part) else " | " for part in parts)
        yield f"| {name} | {' | '.join(cells)} |"


def _seeds(rows: pd.DataFrame) -> str:
    """Say how many runs of each mechanism there are on a table."""
    runs = rows.drop_duplicates(["mechanism", "table", "epsilon", "seed"]).groupby("mechanism", sort=False)
    kinds = runs.apply(lambda own: len(own) / len(own.drop_duplicates(["table", "epsilon"])), include_groups=False)
    told = ", ".join(f"{name} {mean:.3g}" for name, mean in kinds.items())
    return f"Runs on each table and budget, with noise of their own: {told}."


def _misses(table: pd.DataFrame) -> pd.DataFrame:
    """Return which targets each row of a summary misses, as columns of booleans; the naive class has none."""
    joined, naive = table["class"].eq(COMBINED), table["class"].eq(NAIVE)
    wide = np.where(table["class"].isin(UNMEASURED), WIDE_UNMEASURED, WIDE)
    held = table["held"].round(6)  # ends of the range are in it, whatever the order of sums
    few, many = held < np.where(joined, LEAST_JOINED, LEAST), held > MOST
    return pd.DataFrame(
        {
            "held": (few | many & ~joined) & ~naive,
            "worst": (table["worst"] < LEAST_TABLE) & ~naive & ~joined,
            "ratio": (table["ratio"] > wide) & ~naive & ~joined,
        }
    )


def _counted(rows: pd.DataFrame) -> list[str]:
    """Return how many classes, mechanisms and budgets meet each target."""
    table = summary(rows)
    table = _where(table, table["class"] != NAIVE)
    missed, count = _misses(table).sum(), len(table)
    return [
        f"Of {count} combinations of a class, a mechanism and a budget {count - missed['held']} hold {LEAST:.0%} to "
        f"{MOST:.0%} over all tables, {count - missed['worst']} hold {LEAST_TABLE:.0%} on the worst table, and "
        f"{count - missed['ratio']} are as narrow as they should be."
    ]


def _table(rows: pd.DataFrame) -> Iterator[str]:
    yield "| class | mechanism | answers | held | worst | present | width | next, ms |"
    yield "|---|---|---:|---:|---|---:|---:|---:|"
    table = summary(rows)
    missed = _misses(table)
    for name in CLASSES:
        for mechanism in dict.fromkeys(table["mechanism"]):
            here = _where(table, table["class"].eq(name) & table["mechanism"].eq(mechanism)).sort_values("epsilon")
            if here.empty:
                continue
            wrong = missed.loc[here.index]
            held = _joined(here["held"], wrong["held"], "{:.1%}")
            width = _joined(here["ratio"], wrong["ratio"], "{:.2f}")
            cells = name.startswith("cells") or name == "triples"
            present = _joined(here["present"], wrong["held"] & False, "{:.1%}") if cells else ""
            answers, worst = f"{here['answers'].sum():,}", _worst(here, wrong["worst"])
            columns = (name, mechanism, answers, held, worst, present, width, f"{1000 * here['next'].median():.1f}")
            yield f"| {' | '.join(columns)} |"


def _joined(values: Any, missed: Any, form: str) -> str:
    texts = (form.format(value).replace("%", "") for value in values)
    return " / ".join(f"**{text}**" if miss else text for text, miss in zip(texts, missed, strict=True))


def _worst(rows: pd.DataFrame, missed: Any) -> str:
    known = _where(rows, rows["worst"].notna())
    if known.empty:
        return ""
    worst = known.sort_values(["worst", "epsilon"]).iloc[0]
    text = f"{worst['worst']:.0%}"
    return f"{f'**{text}**' if missed.loc[worst.name] else text} {worst['worst table']} at {worst['epsilon']:g}"


def _of_hostile(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each hostile table and mechanism: the share held in each class, over the budgets."""
    names = [name for name in CLASSES if name in set(rows["class"])]
    yield f"| table | mechanism | {' | '.join(names)} |"
    yield f"|---|---|{'---:|' * len(names)}"
    table = by_table(rows, ["mechanism", "class"])
    for key, group in table.groupby(["table", "mechanism"], sort=False):
        place, mechanism = cast("tuple[str, str]", key)
        held = group.set_index("class")["held"].reindex(names)
        texts = ("" if np.isnan(one) else f"**{one:.0%}**" if one < LEAST_TABLE else f"{one:.0%}" for one in held)
        yield f"| {place} | {mechanism} | {' | '.join(texts)} |"


def _of_levels(rows: pd.DataFrame) -> Iterator[str]:
    """Return what intervals of several levels hold, over classes and tables, at the budget that has them."""
    columns = [f"held {level:.0%}" for level in OTHER_LEVELS]
    asked = _where(rows, rows[columns[0]].notna() & rows["class"].ne(NAIVE))
    if len(asked):
        means: Any = asked.groupby(["mechanism", "class", "table"])[columns].mean().groupby("mechanism").mean()
        yield "Intervals of other levels, over all classes but the last, at epsilon 1, one seed."
        yield from (
            "",
            f"| level | {' | '.join(f'{level:.0%}' for level in OTHER_LEVELS)} |",
            "|---|---:|---:|---:|---:|",
        )
        for name in (name for name in MAIN if name in means.index):
            yield f"| {name} | {' | '.join(f'{100 * share:.1f}' for share in means.loc[name])} |"
