"""The report on PPSyn: a table for each figure, and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.ppsyn import cells, problems
from experiments.ppsyn.cells import LEAKS, MECHANISMS, PUBLISHED
from pgmest._base.files import write_atomically

HEAD = f"""# PPSyn: Figures 2 to 9, and what the leak is worth

Made by `python -m experiments.papers ppsyn`; not edited. Medians over the seeds that each table has; figures show
their range. delta is {cells.DELTA:g}, junction trees are limited to 1 MB, noise is simulated.

`{PUBLISHED}` is Algorithms 1 to 4 as published (T = 16 per attribute, eta 0.7), which read
partitions and budgets off the true counts; `PPSyn` is the private redesign.
Every mechanism is told the same workload: {problems.MARGINALS} random
marginals of at most {problems.MAX_CELLS:,} cells (the paper states neither number). Errors are the paper's: l1 per
record for the workload, the mean squared error of fractions for ranges ({problems.COMBINATIONS[3]} combinations of
three attributes, {problems.COMBINATIONS[5]} of five, {problems.BOXES} ranges each), and the misclassification of a
machine trained on records made from four folds and tested on the fifth. The paper prints no numbers beside its figures.
What a table does not have was not run yet.
"""

SECTIONS: Sequence[tuple[str, str, str, str, str]] = (
    ("Figure 3: workload error", "sweep", "epsilon", "workload_error", "figure3.png"),
    ("Figure 4: mean squared error of 3-attribute ranges", "sweep", "epsilon", "ranges_3", "figure4.png"),
    ("Figure 5: mean squared error of 5-attribute ranges", "sweep", "epsilon", "ranges_5", "figure5.png"),
    ("Figure 6: misclassification", "svm", "epsilon", "rate", "figure6.png"),
    ("Figure 7: workload error against eta", "eta", "eta", "workload_error", "figure7.png"),
    ("Figure 8: range error against eta", "eta", "eta", "ranges_3", "figure8.png"),
    ("Figure 9: workload error against d, BR2000, epsilon 0.1", "dimensions", "d", "workload_error", "figure9.png"),
)

LEAK = """## What the leak is worth

The published algorithm with its two leaks closed, one after the other (`experiments/ppsyn/leak.py`), and nothing else
changed but T, which is 6: the closed forms are worse with more rounds.


- *partitions closed*: Algorithms 3 and 4 get the model's marginals instead of the true ones;
- *budgets closed*: the contributions that budgets are computed from are measured with noise, for the tenth of the
  budget that the paper sets aside for selections, instead of being read off without;
- *closed*: both, which is private; *closed, chosen first*: a marginal is first chosen by the exponential mechanism and
  then only its contribution is measured; *closed, no partitions*: the same with every cell measured.
"""


def write(results: Path) -> None:
    """Write `ppsyn.md` from the tables that are there."""
    folder = results / "ppsyn"
    parts = [HEAD]
    if (folder / "figure2.png").is_file():
        parts.append("## Figure 2: the budget against the size of the partition\n\n![Figure 2](ppsyn/figure2.png)\n")
    for title, name, across, value, picture in SECTIONS:
        path = folder / f"{name}.csv"
        if path.is_file():
            table = pd.read_csv(path)
            if name == "svm":
                folds = [column for column in table if column.startswith("fold_")]
                table = table.assign(rate=table[folds].mean(axis=1))
            parts.append(f"## {title}\n\n{markdown(table, across, value)}\n\n![{title}](ppsyn/{picture})\n")
    if (folder / "leak.csv").is_file():
        table = pd.read_csv(folder / "leak.csv")
        parts += [LEAK, markdown(table, "epsilon", "workload_error"), "\n" + finding(table)]
        parts.append("![The published algorithm with its leak closed](ppsyn/leak.png)\n")
    write_atomically(results / "ppsyn.md", "\n".join(parts))


def markdown(table: pd.DataFrame, across: str, value: str) -> str:
    """Medians, a row for each table and mechanism, a column for each value of `across`."""
    order = {name: place for place, name in enumerate(["real records", *LEAKS, *MECHANISMS])}
    medians = table.groupby(["table", "mechanism", across])[value].median().unstack(across)
    medians = medians.loc[sorted(medians.index, key=lambda key: (key[0], order[key[1]]))]
    header = ["table", "mechanism", *(f"{across} {point:g}" for point in medians.columns), "seeds"]
    lines = ["| " + " | ".join(header) + " |", "|---" * 2 + "|---:" * (len(header) - 2) + "|"]
    counts = table.groupby(["table", "mechanism"])["seed"].nunique() if "seed" in table else None
    for key, values in medians.iterrows():
        name, mechanism = str(key[0]), str(key[1])  # type: ignore[index]
        cells_ = ["" if pd.isna(number) else f"{number:.3g}" for number in values]
        seeds = "5 folds" if counts is None else f"{counts[key]}"
        lines.append("| " + " | ".join([name, mechanism, *cells_, seeds]) + " |")
    return "\n".join(lines)


def finding(table: pd.DataFrame) -> str:
    """What closing the leak does, in numbers."""
    medians = table.groupby(["table", "mechanism", "epsilon"])["workload_error"].median().to_dict()
    lines = []
    for name, epsilon in sorted(set(zip(table["table"], table["epsilon"], strict=True))):
        names = (PUBLISHED, *LEAKS, "AIM", "PPSyn")
        found = {one: float(medians.get((name, one, epsilon), float("nan"))) for one in names}
        run = [value for one, value in found.items() if one.startswith("closed") and value == value]  # not NaN
        if not run:
            continue
        closed = min(run)
        lines.append(
            f"- {name}, epsilon {epsilon:g}: published {found[PUBLISHED]:.3f}, AIM {found['AIM']:.3f}; with the leak "
            f"closed at best {closed:.3f}, {closed / found[PUBLISHED]:.2f} times the published error and "
            f"{closed / found['AIM']:.2f} times AIM's. Our private PPSyn: {found['PPSyn']:.3f}."
        )
    return "\n".join(lines) + "\n"
