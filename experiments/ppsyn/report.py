"""The report: a table for each figure, in Markdown."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.ppsyn.cells import DELTA
from experiments.ppsyn.figures import NUMBERS, PARAMETERS, SWEEPS
from pgmest._base.files import write_atomically

HEAD = """# PPSyn: figures 3 to 9

`python -m experiments.ppsyn`. Every mechanism is told the same workload, 60 random pairs of at most 15,000 cells, and
its synthetic records are judged by them, by 200 random boxes over 3 and over 5 attributes, and by a linear support
vector machine trained on them and tested on the real records. delta is {delta:g}, junction trees are limited to 1 MB,
noise is simulated, one seed. Of the 48 attributes of loans 17 are used. The tables are the figures' numbers.

`PPSynAsPublishedNotPrivate` reads partitions and budgets from the true marginals: it is **not private**, and its points
show what that buys. Both PPSyn are reimplementations: the parameters eta (share of the error that a measurement may
leave, or have as noise) and d (attributes of a marginal) are as in `help(pgmest.mechanisms.PPSyn)`.
"""


def write(table: pd.DataFrame, real: dict[str, float], pictures: list[Path], path: Path) -> None:
    """Write the report beside its pictures."""
    lines = [HEAD.format(delta=DELTA)]
    named = {picture.name.split("_")[0].removeprefix("figure"): picture for picture in pictures}
    for measure, number in sorted(NUMBERS.items(), key=lambda item: item[1]):
        label = SWEEPS.get(measure) or f"total variation error; across: {PARAMETERS[measure]}"
        lines.append(f"## Figure {number}: {label}\n")
        if measure == "svm":
            rates = ", ".join(f"{name} {rate:.3f}" for name, rate in real.items())
            lines.append(f"Trained on real records: {rates}.\n")
        picture = named[str(number)]
        lines += [_table(table, measure), "", f"![{measure}]({picture.parent.name}/{picture.name})", ""]
    write_atomically(path, "\n".join(lines))


def _table(table: pd.DataFrame, measure: str) -> str:
    if measure in PARAMETERS:
        rows = table[table[measure].notna()] if measure in table else table[:0]
        across, value = measure, "workload_error"
    else:
        swept = [name for name in PARAMETERS if name in table]
        rows, across, value = table[table[swept].isna().all(axis=1)], "epsilon", measure
    means = rows.groupby(["table", "mechanism", across], sort=False)[value].mean().unstack(across).sort_index(axis=1)
    header = ["table", "mechanism", *(f"{across} {point:g}" for point in means.columns)]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for (name, mechanism), values in means.iterrows():
        cells = ["" if pd.isna(number) else f"{number:.3g}" for number in values]
        lines.append("| " + " | ".join([str(name), str(mechanism), *cells]) + " |")
    return "\n".join(lines)
