"""The report of linked tables: errors by table and budget, and ratios to the other designs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.households.tables import CLASSES
from experiments.kept_runs import EXPERIMENTS

RESULTS = EXPERIMENTS / "results"
HEAD = """# Linked tables: persons in households

`python -m experiments.households` makes this table. Three tables of households and persons: anytown (4,070
households, four attributes of a person, none of a household), eusilc (6,000; seven and eight), travel_survey (27,980;
five and five). A household with at most eight persons is protected, delta is 1e-9, noise is simulated. Errors are mean
total variation distances in thousandths, means of the seeds that were run: *size*, *household*, *person*: single
attributes and pairs; *between*: an attribute of a household x one of a person; *within*: an attribute of one person x
one of another; *someone*, *how many*: in how many households anybody, or 0, 1, 2, 3 and more persons, have a value. The
last column is the geometric mean over the classes relative to *pair*.

- *linked*: `LinkedLAMP`.
- *pair*: LAMP on one row a household with a random ordered pair of its persons, who change places afterwards.
- *independent*: LAMP on households and on persons, half of the budget each; persons are dealt at random.
- *flat*: LAMP on one row a household with eight persons in the order of the file, repaired afterwards.
- *dpsynth* (google/dpsynth, `dpsynth.relational` of August 2026: MST, size_sliced, three of eight slots, one run) and
  *flat AIM* were measured once, with an earlier version of LAMP's tables, and are quoted from `households_quoted.csv`.
"""
TITLES = ("size", "household", "person", "between", "within", "someone", "how many")


def write(rows: pd.DataFrame) -> None:
    """Write the rows, and the report of them."""
    if rows.empty:
        return
    rows.sort_values(["table", "design", "epsilon", "seed"]).to_csv(RESULTS / "households.csv", index=False)
    quoted = pd.read_csv(RESULTS / "households_quoted.csv")
    means = rows.groupby(["table", "epsilon", "design"])[[*CLASSES, "seconds"]].mean()
    seeds = rows.groupby(["table", "epsilon", "design"]).size()
    lines = [HEAD, "| table, epsilon | design | " + " | ".join(TITLES) + " | seconds | seeds | relative |"]
    lines.append("|---|---|" + "---:|" * (len(TITLES) + 3))
    for (table, epsilon), group in means.groupby(level=[0, 1]):
        found = group.droplevel([0, 1])
        others = quoted[(quoted.table == table) & (quoted.epsilon == epsilon)].set_index("design")
        for design in [d for d in ("linked", "pair", "independent", "flat") if d in found.index]:
            row = found.loc[design]
            number = seeds[table, epsilon, design]
            lines.append(_line(f"{table}, {epsilon:g}", design, row, row["seconds"], number, found))
        for design, row in others.iterrows():
            lines.append(_line(f"{table}, {epsilon:g}", f"{design} (quoted)", row, row["seconds"], 1, found))
    lines += ["", *_summary(means)]
    (RESULTS / "households.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(head: str, design: str, row: pd.Series, seconds: float, seeds: int, found: pd.DataFrame) -> str:
    cells = [f"{1000 * row[name]:.0f}" for name in CLASSES]
    relative = f"{_relative(row, found.loc['pair']):.2f}" if "pair" in found.index else ""
    return f"| {head} | {design} | " + " | ".join([*cells, f"{seconds:.0f}", str(seeds), relative]) + " |"


def _relative(row: pd.Series, other: pd.Series) -> float:
    ratios = [max(row[name], 1e-4) / max(other[name], 1e-4) for name in CLASSES]
    return float(np.exp(np.mean(np.log(ratios))))


def _summary(means: pd.DataFrame) -> list[str]:
    """Return the ratios of LinkedLAMP to each design and to the best of them, by class."""
    lines = ["| LinkedLAMP relative to | " + " | ".join(TITLES) + " | all |", "|---|" + "---:|" * (len(TITLES) + 1)]
    wide = means[list(CLASSES)].clip(lower=1e-4).unstack("design")
    ours = wide.xs("linked", axis=1, level="design") if "linked" in means.index.get_level_values("design") else None
    if ours is None:
        return []
    others = [d for d in ("pair", "independent", "flat") if d in means.index.get_level_values("design")]
    for design in others:
        ratio = (ours / wide.xs(design, axis=1, level="design")).dropna()
        lines.append(_ratios(design, ratio))
    best = pd.concat([wide.xs(d, axis=1, level="design") for d in others]).groupby(level=[0, 1]).min()
    lines.append(_ratios("the best of these, class by class", (ours / best).dropna()))
    worst = (ours / best).dropna().max()
    lines.append("| the same, the largest ratio | " + " | ".join(f"{worst[name]:.2f}" for name in CLASSES) + " | |")
    return lines


def _ratios(design: str, ratio: pd.DataFrame) -> str:
    logs = np.log(ratio[list(CLASSES)])
    cells = [f"{np.exp(logs[name].mean()):.2f}" for name in CLASSES]
    return f"| {design} | " + " | ".join([*cells, f"**{np.exp(logs.to_numpy().mean()):.2f}**"]) + " |"
