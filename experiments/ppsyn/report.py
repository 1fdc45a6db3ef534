"""The report on PPSyn: a table for each figure, and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments.papers.paper import Run
from experiments.papers.prose import bullets
from experiments.ppsyn import causes, cells, problems
from experiments.ppsyn.cells import LEAKS, MECHANISMS, PUBLISHED

HEAD = f"""# PPSyn: Figures 2 to 9, and what the leak is worth

Made by `python -m experiments.papers ppsyn`; not edited. Medians over the seeds that each table has; figures show
their range. delta is {cells.DELTA:g}, junction trees are limited to 1 MB, noise is simulated.

`{PUBLISHED}` is Algorithms 1 to 4 (T = 16 per attribute, eta 0.7), which read partitions and
budgets off the true counts, with AIM's candidates and weights of 1 / sigma^2; `PPSyn` is the private redesign. AIM, MST
and PrivMRF end in `mirror_flow`, which makes them better than their papers' forms; those are in a section below.
The workload is the same for every mechanism: {problems.MARGINALS} random
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
    (
        f"Figure 7 at other budgets: eta {cells.SMALLER_ETA:g} (0.7: Figure 3)",
        "eta_budgets",
        "epsilon",
        "workload_error",
        "",
    ),
    ("Figure 8: range error against eta", "eta", "eta", "ranges_3", "figure8.png"),
    ("Figure 9: workload error against d, BR2000, epsilon 0.1", "dimensions", "d", "workload_error", "figure9.png"),
)

LETTERS = f"""## To the letter, and the comparators as published

*{cells.LETTER}* has the workload's marginals alone as candidates and weighs
measurements by 1 / sigma (equation 6); `{PUBLISHED}` above has AIM's candidates, all
marginals of these attributes, and 1 / sigma^2. *plain* mechanisms end at the optimum of the loss, as in their papers,
not in `mirror_flow`, and the plain PrivMRF has no workload. On Loans, 8 of the 48 attributes are in none of the
{problems.MARGINALS} marginals of the workload; all mechanisms here measure their one-way marginals. *named*: the ranges
about attributes that the workload names. Seeds that a table does not have were not run, nor was epsilon 2 on Loans: at
0.5 a run of PPSyn to the letter takes more than a minute of processor, and the more budget, the more rounds.
"""

LETTER_ERRORS = {
    "Workload error (Figure 3)": "workload_error",
    "3-attribute ranges (Figure 4)": "ranges_3",
    "3-attribute ranges, named": "ranges_3_named",
    "5-attribute ranges (Figure 5)": "ranges_5",
}

EMPTY = f"""## How many ranges hold hardly a record

The share with fewer than {problems.FEW} records, for each seed that draws them: {len(cells.RANGE_SEEDS)} seeds for five
attributes. Prefixes are the same ranges, each from the first code on.
"""

LEAK = f"""## What the leak is worth

The published algorithm releases functions of the true counts without noise: the partition of a marginal, and the budget
that it asks for (by which it is also chosen). Here one of them is closed, or both, and nothing else is changed
(`experiments/ppsyn/leak.py`) but the number of rounds T, which is planned as {cells.FEW} or {cells.MORE}: the forms
that pay for more are worse with the 16 per attribute of the published one. *Published, {cells.FEW} (or {cells.MORE})
rounds* is the control: both leaks open, and no more rounds than the others.

- *partitions closed*: Algorithms 3 and 4 get the model's marginals instead of the true ones; *no partitions*: every
  cell is measured;
- *budgets closed*: the contributions that budgets and choices are computed from are measured with noise, for the tenth
  of the budget that the paper sets aside for selections; *chosen first*: a marginal is first chosen by the exponential
  mechanism, and then only its contribution is measured;
- *closed*: both, which is private.

Of the figure's lines each is the form of its group that is best in that setting, which favors the closed ones.
"""


CAUSES = f"""## What the differences come from

One thing is changed in each of these runs (`experiments/ppsyn/causes.py`): *to the letter* with AIM's candidates, with
weights of 1 / sigma^2, or with models of 16 MB; our private `PPSyn` with every cell measured instead of sums over
boxes; a workload of marginals of any size instead of at most {problems.MAX_CELLS:,} cells.
"""


def write(how: Run) -> None:
    """Write `ppsyn.md` from the tables that are there."""
    folder = how.results / "ppsyn"
    parts = [HEAD]
    if (folder / "figure2.png").is_file():
        parts.append("## Figure 2: the budget against the size of the partition\n\n![Figure 2](ppsyn/figure2.png)\n")
    for title, name, across, value, picture in SECTIONS:
        path = folder / f"{name}.csv"
        if path.is_file():
            table = pd.read_csv(path)
            if name == "svm":
                table = _with_rate(table).drop(columns="seed", errors="ignore")
            parts.append(f"## {title}\n\n{markdown(table, across, value)}\n")
            if picture:
                parts.append(f"![{title}](ppsyn/{picture})\n")
    if (folder / "letter.csv").is_file():
        table = pd.read_csv(folder / "letter.csv")
        parts.append(LETTERS)
        for title, value in LETTER_ERRORS.items():
            parts.append(f"**{title}**\n\n{markdown(table, 'epsilon', value)}\n")
        parts.append(f"**5-attribute ranges that other seeds drew, and prefixes**\n\n{drawn_again(table)}\n")
    if (folder / "ranges.csv").is_file():
        parts.append(f"{EMPTY}\n{emptiness(pd.read_csv(folder / 'ranges.csv'))}\n")
    if (folder / "loans_eta.csv").is_file():
        table = pd.read_csv(folder / "loans_eta.csv").fillna({"eta": cells.DEFAULT_ETA})
        parts.append("## Figures 7c and 8c: Loans, epsilon 0.5, to the letter, with three values of eta\n")
        parts += [markdown(table, "eta", value) + "\n" for value in ("workload_error", "ranges_3")]
    if (folder / "leak.csv").is_file():
        table = pd.read_csv(folder / "leak.csv")
        parts += [LEAK, markdown(table, "epsilon", "workload_error"), "\n" + finding(table)]
        parts.append("![The published algorithm with its leak closed](ppsyn/leak.png)\n")
    if (folder / "causes.csv").is_file():
        more = folder / "causes_svm.csv"
        rates = _with_rate(pd.read_csv(more)) if more.is_file() else pd.DataFrame()
        parts.append(tested_causes(pd.read_csv(folder / "causes.csv"), rates))
    how.write_report("ppsyn", "\n".join(parts))


def _with_rate(table: pd.DataFrame) -> pd.DataFrame:
    """With the mean rate over the folds."""
    return table.assign(rate=table.filter(like="fold_").mean(axis=1))


def tested_causes(table: pd.DataFrame, rates: pd.DataFrame) -> str:
    """The runs in which one thing is changed, and Figure 6 at other budgets and with another seed."""
    usual, larger = (table[table["max_cells"] == some] for some in (problems.MAX_CELLS, causes.UNLIMITED))
    ninth = usual["mechanism"].isin([PUBLISHED, *cells.PLAIN, causes.LARGER_PRIVMRF, cells.INDEPENDENT])
    ninth &= (usual["table"] == "BR2000") & (usual["epsilon"] == cells.DIMENSION_EPSILON)
    shown = [
        ("Workload error, d = 3", usual[usual["d"] == 3], "epsilon", "workload_error"),
        ("3-attribute ranges", usual[usual["d"] == 3], "epsilon", "ranges_3"),
        ("Figure 9, the others as published", usual[ninth], "d", "workload_error"),
        ("Figure 9, the errors of the models, without drawing records", usual[ninth], "d", "model_error"),
        ("Figure 9, workloads of marginals of any size", larger, "d", "workload_error"),
        ("Figure 6 at other budgets and with another seed", rates, "epsilon", "rate"),
    ]
    parts = [f"**{title}**\n\n{markdown(some, by, value)}\n" for title, some, by, value in shown if len(some)]
    return "\n".join([CAUSES, *parts])


def markdown(table: pd.DataFrame, across: str, value: str) -> str:
    """Medians, a row for each table and mechanism, a column for each value of `across`."""
    known = ["real records", *LEAKS, cells.LETTER, *cells.VARIANTS, *cells.PLAIN, *MECHANISMS, cells.INDEPENDENT]
    order = {name: place for place, name in enumerate(known)}
    medians = table.groupby(["table", "mechanism", across])[value].median().unstack(across)
    medians = medians.loc[sorted(medians.index, key=lambda key: (key[0], order[key[1]]))]
    header = ["table", "mechanism", *(f"{across} {point:g}" for point in medians.columns), "seeds"]
    lines = ["| " + " | ".join(header) + " |", "|---" * 2 + "|---:" * (len(header) - 2) + "|"]
    counts = table.groupby(["table", "mechanism", across])["seed"].nunique() if "seed" in table else None
    for key, values in medians.iterrows():
        name, mechanism = str(key[0]), str(key[1])  # type: ignore[index]
        cells_ = ["" if pd.isna(number) else f"{number:.3g}" for number in values]
        seeds = "5 folds" if counts is None else _span(counts[key])
        lines.append("| " + " | ".join([name, mechanism, *cells_, seeds]) + " |")
    return "\n".join(lines)


def drawn_again(table: pd.DataFrame) -> str:
    """For each table, budget and draw of ranges the median error of the letter and of the best other mechanism."""
    lines = [
        "| table | epsilon | draws | to the letter is best in | median ratio to the best other |",
        "|---|---:|---|---|---:|",
    ]
    for (name, epsilon), rows in table.groupby(["table", "epsilon"]):
        for kind in ("ranges", "prefixes"):
            found = letter_against_others(rows, [f"{kind}_5_of_{seed}" for seed in cells.RANGE_SEEDS])
            if len(found):
                best = f"{int((found <= 1).sum())} of {len(found)}"
                lines.append(f"| {name} | {epsilon:g} | {kind} | {best} | {found.median():.2f} |")
    return "\n".join(lines)


def letter_against_others(
    rows: pd.DataFrame, values: Sequence[str], others: Sequence[str] = tuple(cells.PLAIN)
) -> pd.Series:
    """Return, for each of the errors, the letter's median over that of the best other mechanism."""
    medians = rows.groupby("mechanism")[list(values)].median()
    if cells.LETTER not in medians.index or not set(others) <= set(medians.index):
        return pd.Series(dtype=float)
    return medians.loc[cells.LETTER] / medians.loc[list(others)].min()


def emptiness(table: pd.DataFrame) -> str:
    """The shares of ranges with hardly a record, over the seeds."""
    lines = ["| table | attributes | boxes | prefixes |", "|---|---:|---|---|"]
    for (name, attributes), rows in table.groupby(["table", "attributes"]):
        shares = [
            ", ".join(f"{value:.0%}" for value in rows.loc[rows["prefixes"] == prefixes, "below"])
            for prefixes in (False, True)
        ]
        lines.append(f"| {name} | {attributes} | {shares[0]} | {shares[1]} |")
    return "\n".join(lines)


def _span(counts: pd.Series) -> str:
    """The number of seeds, or from the least to the most where settings have different ones."""
    least, most = int(counts.min()), int(counts.max())
    return f"{least}" if least == most else f"{least} to {most}"


def finding(table: pd.DataFrame) -> str:
    """Return the effect of closing each leak, in numbers."""
    best = cells.best_forms(table, "workload_error")
    medians = best.groupby(["table", "epsilon", "mechanism"])["workload_error"].median().unstack("mechanism")
    fewer, partitions, budgets, both = cells.GROUPS
    lines = []
    for key, found in medians.reindex(columns=[PUBLISHED, *cells.GROUPS, "AIM", "PPSyn"]).dropna().iterrows():
        name, epsilon = key  # type: ignore[misc]
        lines.append(
            f"{name}, epsilon {epsilon:g}: published {found[PUBLISHED]:.3f} (with fewer rounds {found[fewer]:.3f}), "
            f"AIM {found['AIM']:.3f}; partitions closed {found[partitions]:.3f}, budgets closed {found[budgets]:.3f}, "
            f"both {found[both]:.3f}, which is {found[both] / found[PUBLISHED]:.2f} times the published error and "
            f"{found[both] / found['AIM']:.2f} times AIM's. Our private PPSyn: {found['PPSyn']:.3f}."
        )
    return bullets(lines) + "\n"
