"""The table and the report of the comparison."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.compare.cells import DELTA, EPSILONS, MBI_ITERATIONS, MORE_SEEDS, SEEDS, WORKLOAD_AWARE
from experiments.compare.workloads import MOST_CELLS, MOST_PAIRS, MOST_TRIPLES, ORDERED_FROM
from pgmest._base.files import atomic_path, write_atomically

RESULTS = Path(__file__).resolve().parents[1] / "results"

HEAD = """# All mechanisms on all tables

`python -m experiments.compare`. The error is the total variation distance between true and estimated marginals,
averaged over the pairs of attributes with at most {cells:,} cells (at most {pairs:,} of them); of the model,
not of records drawn from it, which are in compare.csv. The workload of every mechanism is all pairs; it
spends the budget named, delta {delta:g} where it uses one. Noise is simulated, junction trees are limited to 1 MB,
HDMM answers by least squares, its negative counts set to zero and the others scaled to its total before a distance is
taken, and DualQuery with its own records; one thread. A number is the median over the seeds,
{seeds},
and after it half of their range where there are several. A dash: refused or stopped, as listed below with the
reason, and then with the first seed only; no public table, for PMWPub; or not run.

Triples: the same distance over the triples with at most {cells:,} cells (at most {triples} of them). Prefix sums: over
the same pairs, the error of "this value of the one, at most that of the other", where attributes with {ordered} values
or more are taken as ordered by their codes. {aware} are run for each of the three as their workload;
the others measure the same for all, and are judged by one run.

Where mbi 2.0.0 estimates, it is given the mechanism's measurements and runs mirror descent, {iterations:,} iterations,
after the last of them for MST and after every round for AIM, started from its last estimate. Its seconds are by the
clock and of its estimates alone, with compilation, which each new set of cliques needs. (mbi's repository has an MST
and an AIM of its own, which its package does not contain.)
"""


def write(table: pd.DataFrame) -> None:
    """Write the results of all cells that were run."""
    with atomic_path(RESULTS / "compare.csv") as path:
        table.to_csv(path, index=False, float_format="%.7g")
    lines = [_head(table)]
    for epsilon in EPSILONS:
        rows = runs_for(table[table["epsilon"].eq(epsilon)], "pairs")
        lines += [f"## Epsilon {epsilon:g}: error", "", *_pivot(rows, "error", "{:.3f}"), ""]
    for workload, title in (("triples", "triples"), ("prefixes", "prefix sums")):
        for epsilon in EPSILONS:
            rows = runs_for(table[table["epsilon"].eq(epsilon)], workload)
            lines += [f"## Epsilon {epsilon:g}: error of {title}", "", *_pivot(rows, workload, "{:.4f}"), ""]
    rows = runs_for(table[table["epsilon"].eq(1.0)], "pairs")
    lines += [
        "## Epsilon 1: seconds of a processor",
        "",
        *_pivot(rows, "seconds", "{:.1f}"),
    ]
    notes = table[table["note"].fillna("").ne("")].drop_duplicates(["table", "mechanism"])
    if len(notes):
        lines += ["", "## What did not finish", ""]
        lines += [f"- {row.mechanism} on {row.table}: {str(row.note).splitlines()[0]}" for row in notes.itertuples()]
    write_atomically(RESULTS / "compare.md", "\n".join(lines) + "\n")


def runs_for(table: pd.DataFrame, workload: str) -> pd.DataFrame:
    """The runs by which a workload is judged: those that had it as theirs, and of other mechanisms all."""
    return table[table["workload"].eq(workload) | ~table["mechanism"].isin(WORKLOAD_AWARE)]


def _head(table: pd.DataFrame) -> str:
    pairs = table[table["workload"].eq("pairs") & table["error"].notna()]
    count = pairs.groupby(["table", "mechanism", "epsilon"])["seed"].nunique()
    share = (count >= len(SEEDS)).mean()
    budgets: dict[tuple[str, int], list[str]] = {}
    for (name, epsilon), most in MORE_SEEDS.items():
        budgets.setdefault((name, most), []).append(f"{epsilon:g}")
    more = "; ".join(f"up to {most} on {name} at {', '.join(at)}" for (name, most), at in budgets.items())
    seeds = f"{len(SEEDS)} ({more}) of {share:.0%} of the runs, and fewer of others"
    return HEAD.format(
        cells=MOST_CELLS, pairs=MOST_PAIRS, triples=MOST_TRIPLES, ordered=ORDERED_FROM, aware=", ".join(WORKLOAD_AWARE),
        delta=DELTA, iterations=MBI_ITERATIONS, seeds=seeds,
    )  # fmt: skip


def _spread(values: pd.Series, form: str) -> str:
    """The median, and half of the range where there are several."""
    known = values.dropna()
    if known.empty:
        return "-"
    middle, half = form.format(known.median()), (known.max() - known.min()) / 2
    return middle if len(known) < 2 else f"{middle} ±{form.format(half).lstrip('0') or '0'}"


def _pivot(rows: pd.DataFrame, value: str, form: str) -> list[str]:
    names, tables = list(dict.fromkeys(rows["mechanism"])), list(dict.fromkeys(rows["table"]))
    found = {key: group[value] for key, group in rows.groupby(["mechanism", "table"])}
    lines = ["| | " + " | ".join(tables) + " |", "|---|" + "---:|" * len(tables)]
    for name in names:
        values = [found.get((name, table), pd.Series(dtype=float)) for table in tables]
        lines.append(f"| {name} | " + " | ".join(_spread(each, form) for each in values) + " |")
    return lines
