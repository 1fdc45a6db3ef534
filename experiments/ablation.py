"""python -m experiments.ablation [--stage NAME] [--class NAME] [--seeds N] [--workers N] [--keep]: what stages pay.

Run LAMP and LinkedLAMP as they are and with one stage taken out, on the classes of tables that the stage is for, and
print the ratio of the errors: above 1, the stage helps. A stage stays if taking it out costs 1 % of the errors of
pairs, 3 % of its own class (5 % for linked tables), or breaks the coverage of intervals.

Stages are taken out by replacing a function or constant of the code (`STAGES`). Each class has few, small tables and
two budgets. Rows are kept in build/ablation/COMMIT, so that a command that was stopped goes on where it was. --keep
writes experiments/results/ablation.{csv,md}; the rows of stages that are not in the code any more stay there, with the
last commit that had them. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import pgmest as pg
from experiments import hierarchies
from experiments.baselines import PARTS_OF, RESULTS, BaselineRun, commit
from experiments.compare.cells import DELTA
from experiments.flagship import strongest
from experiments.kept_runs import KeptRuns, MechanismRun, made_by
from pgmest.mechanisms.lamp import one_way
from pgmest.mechanisms.lamp.tree_counts import _means
from pgmest.tables.distances import total_variation

LAMP, LINKED = "pgmest.mechanisms.lamp", "pgmest.mechanisms.linked"
FLAT = ("titanic", "adult14", "BR2000", "acs/MA2019", "acs/NATIONAL2019")
TREES = ("austria", "acs/MA2019", "travel_survey", "codes 8,000", "listed 8,000")
EMPHASIZED = 2
"""The number of the strongest pairs of a table that matter in the class "emphasized"."""


@dataclass(frozen=True)
class Stage:
    """A stage of the code.

    Attributes:
        lines: The number of lines that would go with it.
        classes: The classes of tables that it is for.
        patches: The replacements that take it out, by the names of what they replace.
    """

    lines: int
    classes: Sequence[str]
    patches: Mapping[str, Any]


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _empty(*_: Any, **__: Any) -> dict[str, Any]:
    return {}


STAGES: dict[str, Stage] = {
    "pairs at levels": Stage(45, ("trees", "random trees"), {f"{LAMP}.workload_demand._pairs_at_levels": lambda _: ()}),
    "tree_counts, siblings": Stage(
        15,
        ("trees",),
        {
            f"{LAMP}.tree_counts.TreeAnswers._by_siblings": lambda answers, values: _means(
                values, answers.variance**0.5, np.full(len(values), answers.total / len(values))
            )
        },
    ),
    "tree_counts, even branches": Stage(
        40,
        ("trees",),
        {
            f"{LAMP}.tree_counts._even_inside_branches": lambda _, __, counts, labels, ___: (
                counts,
                np.bincount(labels) > 0,
            )
        },
    ),
    "small_budgets": Stage(140, ("strongest",), {f"{LAMP}.rounds.is_small": lambda *_: False}),
    "small_budgets, one-way marginals again": Stage(15, ("strongest",), {f"{LAMP}.rounds.AGAIN": 1e-9}),
    "small_budgets, weight of dependence": Stage(15, ("strongest",), {f"{LAMP}.rounds.DEPENDENCE_WEIGHT": 0.0}),
    "screening": Stage(90, ("strongest",), {f"{LAMP}.scored_rounds.selections": _nothing}),
    "emphasis": Stage(125, ("emphasized",), {f"{LAMP}.lamp.measure_emphasized": _nothing}),
    "scores of the public table": Stage(
        50, ("public",), {f"{LAMP}.scored_rounds.ScoredRounds._can_compare": lambda rounds: False}
    ),
    "scores of the public table, significance": Stage(
        25,
        ("public",),
        {
            f"{LAMP}.scored_rounds.significantly_negative": lambda differences, _: {
                pair for pair, difference in differences.items() if difference < 0
            }
        },
    ),
    "priors from neighboring codes": Stage(
        120,
        ("pairs", "strongest", "trees"),
        {f"{LAMP}.one_way._by_neighbors": lambda *_: [], f"{LAMP}.one_way._kept": one_way._estimate},
    ),
    "cross-fitting": Stage(60, ("pairs",), {f"{LAMP}.lamp.cross_fitted": lambda evidence, _: evidence}),
    "sides": Stage(
        349,
        ("households",),
        {
            f"{LINKED}.assembly.child_sums": _empty,
            f"{LINKED}.sides.Sides.scaled": lambda sides, table, *_: table,
        },
    ),
    "numbers": Stage(220, ("households",), {f"{LINKED}.rounds.LinkedRounds._numbered": False}),
    "size_limits": Stage(161, ("households",), {f"{LINKED}.family_lamp.size_limits": _empty}),
    "twins": Stage(151, ("households",), {f"{LINKED}.rounds.twin_tables": _empty}),
    "cuts of lengths": Stage(60, ("households",), {f"{LINKED}.rounds.LinkedRounds._cut": lambda *_: 0.0}),
}
"""The stages that the code has; one that was deleted keeps its rows in the results."""


# -- classes -----------------------------------------------------------------------------------------------------------


def _of_baselines(part: str) -> Callable[[MechanismRun], float]:
    return lambda run: next(row["error"] for row in PARTS_OF[part][0](run) if "error" in row)


def _levels(run: MechanismRun) -> float:
    row = hierarchies.measure(MechanismRun(run.table, "LAMP asked for triples", run.epsilon, run.seed))
    return float(np.exp(np.mean([np.log(value) for name, value in row.items() if name != "seconds"])))


def _emphasized(run: MechanismRun) -> float:
    data = strongest.table(run.table)
    pairs = [pair for pair in itertools.combinations(data.domain, 2) if data.domain.size(pair) <= strongest.MOST_CELLS]
    chosen = strongest.strongest(data, pairs)[:EMPHASIZED]
    mechanism = pg.mechanisms.LAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation")
    workload = pg.workloads.emphasized(data.domain, None, chosen)
    result = mechanism.fit(data, workload, seed=run.seed, progress=False)
    true, made = data.project_many(chosen), result.model.project_many(chosen)
    return float(np.mean([total_variation(one, other) for one, other in zip(true, made, strict=True)]))


BUDGETS = (0.1, 1.0)
CLASSES: dict[str, tuple[Callable[[MechanismRun], float], Sequence[str], Sequence[float]]] = {
    "pairs": (_of_baselines("pairs"), FLAT, BUDGETS),
    "strongest": (_of_baselines("strongest"), strongest.TABLES, (0.3, 1.0)),
    "public": (_of_baselines("public"), PARTS_OF["public"][1], BUDGETS),
    "trees": (_of_baselines("trees"), TREES, BUDGETS),
    "random trees": (_of_baselines("trees"), ("random 8,000", "random MA2019", "random travel 5"), BUDGETS),
    "levels": (_levels, ("austria", "travel 5", "codes 8,000"), BUDGETS),
    "emphasized": (_emphasized, strongest.TABLES, (0.3, 1.0)),
    "households": (_of_baselines("households"), ("anytown", "bare", "tail", "few"), (0.3, 3.0)),
}
"""What measures the error of a run of a class, and its tables and budgets."""


def measure(run: BaselineRun) -> dict[str, Any]:
    """Return the error of a run, whose mechanism names the stage that is taken out."""
    part, table = run.table.split(": ", 1)
    with ExitStack() as replaced:
        for name, other in STAGES[run.mechanism].patches.items() if run.mechanism else ():
            replaced.enter_context(mock.patch(name, other))
        return {"error": CLASSES[part][0](MechanismRun(table, "LAMP", run.epsilon, run.seed))}


def runs(stages: Sequence[str], classes: Sequence[str], seeds: int) -> list[BaselineRun]:
    """Return the runs of some stages, each class first as it is."""
    wanted: dict[str, list[str]] = {name: [""] for name in CLASSES}
    for stage in stages:
        for name in STAGES[stage].classes:
            wanted[name].append(stage)
    return [
        BaselineRun(f"{name}: {table}", stage, epsilon, seed)
        for name, without in wanted.items()
        if len(without) > 1 and (not classes or name in classes)
        for seed, stage, table, epsilon in itertools.product(range(seeds), without, *CLASSES[name][1:])
    ]


# -- table -------------------------------------------------------------------------------------------------------------

COLUMNS = ["stage", "class", "ratio", "smaller budget", "larger budget", "runs", "seeds", "lines", "commit"]


def summary(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the geometric mean of error without / error with, for each stage and class, at both budgets and at each.

    Args:
        rows: The errors of runs; the stage that is taken out is in "mechanism", empty for the code as it is.
        name: The commit that was measured.
    """
    rows = rows.assign(**{"class": rows["table"].str.split(": ").str[0]})
    keys = ["table", "epsilon", "seed"]
    whole: Any = rows[rows["mechanism"] == ""][[*keys, "error"]]
    both: Any = rows[rows["mechanism"] != ""].merge(whole, on=keys, suffixes=("", " with"))
    both["log"] = np.log(both["error"] / both["error with"])
    found = []
    for (stage, kind), group in both.groupby(["mechanism", "class"], sort=False):
        means = np.exp(group.groupby("epsilon")["log"].mean())
        ratio, count = float(np.exp(group["log"].mean())), group["seed"].nunique()
        found.append(
            [stage, kind, ratio, means.iloc[0], means.iloc[-1], len(group), count, STAGES[str(stage)].lines, name]
        )
    return pd.DataFrame(found, columns=COLUMNS)


def report(table: pd.DataFrame) -> str:
    """Return the table as Markdown."""
    lines = [
        "# What the stages of LAMP and LinkedLAMP are worth",
        "",
        "Made by `python -m experiments.ablation --keep`. The error without a stage over that with it, in",
        "the geometric mean over small tables and two budgets, and at each of these. Rows of deleted stages are those",
        "of the last commit that had them. Rows of 94f7818f were written by the same functions, but from runs of a",
        "script on three to five tables of each class, with one seed and one stage left out at a time: differences of",
        "one or two percent in them may be chance.",
        "",
        "| stage | class | without / with | smaller budget | larger budget | runs | seeds | lines | commit | |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for row in table.itertuples(index=False):
        state = "" if row[0] in STAGES else "deleted"
        ratios = " | ".join(f"{value:.3f}" for value in row[2:5])
        lines.append(f"| {row[0]} | {row[1]} | {ratios} | {' | '.join(map(str, row[5:]))} | {state} |")
    return "\n".join(lines) + "\n"


def keep(table: pd.DataFrame, folder: Path = RESULTS) -> pd.DataFrame:
    """Write the table with the rows of other stages and classes that were written before, and return both."""
    path = folder / "ablation.csv"
    if path.exists():
        whole = pd.concat([pd.read_csv(path), table])
        table = whole.drop_duplicates(["stage", "class"], keep="last").sort_values(["stage", "class"])
    table.to_csv(path, index=False, float_format="%.4f")
    (folder / "ablation.md").write_text(report(table), encoding="utf-8")
    return table


def main() -> None:
    """Measure what is missing of this commit, and print or write the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.ablation", description=__doc__)
    parser.add_argument("--stage", action="append", choices=list(STAGES), help="a stage (default all)")
    parser.add_argument("--class", action="append", dest="classes", choices=list(CLASSES), help="a class (default all)")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each kind (default 1)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--keep", action="store_true", help="write experiments/results/ablation.{csv,md}")
    options = parser.parse_args()
    name = commit()
    kept = KeptRuns(f"ablation/{name}", BaselineRun)
    every = runs(options.stage or list(STAGES), options.classes, options.seeds)
    missing = [run for run in every if kept.row(run) is None]
    for run, row in made_by(missing, measure, options.workers) if missing else ():
        print(f"{row['error']:.4g}", flush=True)
        kept.keep(run, row)
    table = summary(kept.table(every), name)
    if options.keep:
        table = keep(table)
    print(report(table))


if __name__ == "__main__":
    main()
