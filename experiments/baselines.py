"""python -m experiments.baselines [--seeds N] [--only PATTERN] [--workers N] [--keep] [--against FILE]: one commit.

Measure the accuracy, coverage and speed of the code as it is, so that a later change can be held against it:

- *accuracy*: LAMP on pairs, triples and prefix sums of the flagship's tables, on its strongest pairs at small budgets,
  with public tables, and with trees of codes or areas; LinkedLAMP on households. Errors are total variation distances.
- *coverage*: the share of answers that 95 % intervals hold, and their mean width in counts, for each class of answers.
- *seconds*: processor seconds of each run, and a few calls that are timed by themselves, on one thread.

Rows are kept in build/baselines/COMMIT, so that a command that was stopped goes on where it was. --keep writes
experiments/results/baselines.{csv,md}. --against FILE prints, for each class, the ratio of the rows of this commit to
those of FILE, over the runs that both have; the exit code is 1 if a class is outside the limits. The command refuses
uncommitted changes to the package. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pgmest as pg
from experiments import hierarchies, problems, wide
from experiments.compare import workloads
from experiments.compare.cells import DELTA, TABLES
from experiments.compare.cells import EPSILONS as BUDGETS
from experiments.coverage_of_mechanisms import fits, scores
from experiments.coverage_of_mechanisms.tables import PARTS, data_of
from experiments.data import load, load_domain
from experiments.flagship import public, strongest
from experiments.households import coverage as linked_coverage
from experiments.households import tables as households
from experiments.households.worlds import WORLDS
from experiments.kept_runs import EXPERIMENTS, KeptRuns, MechanismRun, add_options, made_by, wanted
from pgmest.mechanisms import LAMP
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.trees import family_table

RESULTS = EXPERIMENTS / "results"
TREES = ("austria", "acs/MA2019", "travel_survey", "codes 8,000")
"""The tables of `experiments.hierarchies` on which LAMP knows the tree."""
LINKED = (*households.NAMES, *WORLDS)
COVERED = ("LAMP", "MST", "AIM", "fixed")
TIMED = 5
"""The calls of which the fastest counts, where a call is timed by itself."""
LIMITS = {"error": 1.02, "width": 1.1, "seconds": 1.1}
"""The largest ratio of a class to the baseline, in the geometric mean over its runs."""
LEAST_HELD = 0.93
"""The smallest share of answers that intervals of a class hold."""

Row = dict[str, Any]


# -- runs --------------------------------------------------------------------------------------------------------------


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return work(), time.process_time() - start


def _of_workload(workload: str) -> Callable[[MechanismRun], Iterator[Row]]:
    def measure(run: MechanismRun) -> Iterator[Row]:
        data, mechanism = load(run.table), LAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation")
        asked = workloads.asked(data.domain, workload)
        result, seconds = _timed(lambda: mechanism.fit(data, asked, seed=run.seed, progress=False))
        errors = workloads.errors(data, result.model)
        yield {"class": workload, "error": errors["error" if workload == "pairs" else workload], "seconds": seconds}

    return measure


def _strongest(run: MechanismRun) -> Iterator[Row]:
    data = strongest.table(run.table)
    cliques = itertools.combinations(data.domain.attributes, 2)
    pairs = [pair for pair in cliques if data.domain.size(pair) <= strongest.MOST_CELLS]
    neighbors = pg.privacy.AddRemove(strongest.RECORDS_PER_PERSON)
    mechanism = LAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation", neighbors=neighbors)
    result, seconds = _timed(lambda: mechanism.fit(data, seed=run.seed, progress=False))
    errors = strongest.errors(data, result.model, pairs)
    top = strongest.strongest(data, pairs)
    yield {"class": "strongest pairs", "error": float(np.mean([errors[pair] for pair in top])), "seconds": seconds}


def _public(run: MechanismRun) -> Iterator[Row]:
    case = next(case for case in public.CASES if case.name == run.table)
    private, known = case.load()
    mechanism = LAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation", prior=known)
    result, seconds = _timed(lambda: mechanism.fit(private, seed=run.seed, progress=False))
    yield {"class": "public tables", "error": workloads.error(private, result.model), "seconds": seconds}


def _trees(run: MechanismRun) -> Iterator[Row]:
    row = hierarchies.measure(MechanismRun(run.table, "LAMP", run.epsilon, run.seed))
    seconds = row.pop("seconds")
    yield {"class": "trees", "error": float(np.exp(np.mean(np.log(list(row.values()))))), "seconds": seconds}


def _households(run: MechanismRun) -> Iterator[Row]:
    true = WORLDS[run.table].families() if run.table in WORLDS else households.load(run.table)
    mechanism = LinkedLAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation")
    data = households.as_linked(true)
    result, seconds = _timed(lambda: mechanism.fit(data, seed=run.seed, progress=False))
    made = family_table(result.sample(seed=run.seed), "persons")
    errors = households.errors(true, made)
    chosen = [errors[name] for name in households.CLASSES if errors[name] > 0]
    yield {"class": "households", "error": float(np.exp(np.mean(np.log(chosen)))), "seconds": seconds}
    if run.table not in WORLDS:
        judged = linked_coverage.judged(result, true, run.seed)
        for level, kind in itertools.product(("households", "persons"), linked_coverage.KINDS):
            name = f"{level}, {kind}"
            if f"{name}, held" in judged:
                yield {"class": name, "held": judged[f"{name}, held"], "width": judged[f"{name}, width"]}


def _coverage(run: MechanismRun) -> Iterator[Row]:
    data = data_of(run.table)
    result, seconds = _timed(lambda: fits.result_of(fits.Run(*_fields(run)), data))
    cliques = [measurement.clique for measurement in result.measurements]
    yield {"class": f"fit of {run.mechanism}", "seconds": seconds}
    for row in scores.rows_of(result.model, data, cliques, run.seed, levels=False):
        if row["answers"]:
            yield {
                "class": f"{row['class']}, {run.mechanism}",
                "held": row["held"],
                "width": row["width"],
                "seconds": row["next"],
            }


def _fields(run: MechanismRun) -> tuple[str, str, float, int]:
    return run.table, run.mechanism, run.epsilon, run.seed


def _oracle(name: str) -> Callable[[], Callable[[], Any]]:
    def prepared() -> Callable[[], Any]:
        problem = problems.chain(int(name.rsplit("-")[-1])) if name.startswith("chain") else problems.adult14_fifteen()
        potentials = problem.potentials()
        return lambda: pg.marginals(potentials)

    return prepared


def _solved() -> Callable[[], Any]:
    problem = problems.adult14_pairs()
    measurements = problem.measurements()
    return lambda: pg.estimate(measurements, problem.domain, tolerance=1e-3)


def _fitted(mechanism: str) -> Callable[[], Callable[[], Any]]:
    def prepared() -> Callable[[], Any]:
        data, settings = load("adult14"), {"epsilon": 1.0, "delta": DELTA, "backend": "simulation"}
        return lambda: getattr(pg.mechanisms, mechanism)(**settings).fit(data, seed=0, progress=False)

    return prepared


def _intervals() -> Callable[[], Any]:
    result = _fitted("MST")()()
    pairs = itertools.cycle(itertools.combinations(result.model.domain, 2))
    return lambda: result.interval(next(pairs))


def _wide() -> Callable[[], Any]:
    data = wide.made(200, 50_000)
    return lambda: LAMP(epsilon=1.0, delta=DELTA, backend="simulation").fit(data, seed=0, progress=False)


CALLS: dict[str, Callable[[], Callable[[], Any]]] = {
    "oracle, chain-100": _oracle("chain-100"),
    "oracle, chain-1000": _oracle("chain-1000"),
    "oracle, fifteen triples of Adult": _oracle("fifteen"),
    "Adult pairs, solved to 0.1 %": _solved,
    "MST, Adult14": _fitted("MST"),
    "AIM, Adult14": _fitted("AIM"),
    "an interval after MST, not the first": _intervals,
    "LAMP, 200 columns": _wide,
}
"""The calls that are timed by themselves: each prepares its input and returns the call."""


def _calls(run: MechanismRun) -> Iterator[Row]:
    call = CALLS[run.table]()
    call()
    times = [_timed(call)[1] for _ in range(1 if run.table == "LAMP, 200 columns" else TIMED)]
    yield {"class": run.table, "seconds": min(times)}


PARTS_OF: dict[str, tuple[Callable[[MechanismRun], Iterator[Row]], tuple[str, ...], tuple[str, ...], Any]] = {
    "calls": (_calls, tuple(CALLS), ("",), (1.0,)),
    "pairs": (_of_workload("pairs"), TABLES, ("LAMP",), BUDGETS),
    "strongest": (_strongest, strongest.TABLES, ("LAMP",), strongest.EPSILONS),
    "public": (_public, tuple(case.name for case in public.CASES), ("LAMP",), BUDGETS),
    "trees": (_trees, TREES, ("LAMP",), BUDGETS),
    "households": (_households, LINKED, ("LinkedLAMP",), linked_coverage.EPSILONS),
    "coverage": (_coverage, tuple(PARTS), COVERED, BUDGETS),
    **{name: (_of_workload(name), TABLES, ("LAMP",), BUDGETS) for name in workloads.NAMES if name != "pairs"},
}
"""What measures a part, and its tables, mechanisms and budgets."""


class BaselineRun(MechanismRun):
    """A run whose table is "part: table"."""

    @property
    def name(self) -> str:
        """The name of its file."""
        return super().name.replace(":", "").replace(",", "").replace("%", "")


def runs(seeds: int) -> list[BaselineRun]:
    """Return all runs, those with the first seed first; calls are timed once."""
    return [
        BaselineRun(f"{part}: {table}", mechanism, epsilon, seed)
        for seed in range(seeds)
        for part, (_, tables, mechanisms, epsilons) in PARTS_OF.items()
        if part != "calls" or not seed
        for mechanism, table, epsilon in itertools.product(mechanisms, tables, epsilons)
        if part != "prefixes" or workloads.ordered(load_domain(table))
    ]


def measure(run: BaselineRun) -> Row:
    """Return the rows of a run."""
    part, table = run.table.split(": ", 1)
    return {"rows": list(PARTS_OF[part][0](MechanismRun(table, run.mechanism, run.epsilon, run.seed)))}


# -- tables ------------------------------------------------------------------------------------------------------------


def commit() -> str:
    """Return the commit of the package, which has no other changes."""
    changed = subprocess.run(["git", "status", "--porcelain", "pgmest"], capture_output=True, text=True, check=True)
    if changed.stdout.strip():
        raise SystemExit("The package has uncommitted changes: commit them first, since rows are kept by commit.")
    return subprocess.check_output(["git", "rev-parse", "--short=8", "HEAD"], text=True).strip()


def table_of(kept: KeptRuns, every: list[BaselineRun]) -> pd.DataFrame:
    """Return one row for each run and class that was measured."""
    rows = []
    for run in every:
        row = kept.row(run)
        if row is not None:
            part, table = run.table.split(": ", 1)
            keys = {"part": part, "table": table, "mechanism": run.mechanism, "epsilon": run.epsilon, "seed": run.seed}
            rows += [{**keys, **measured} for measured in row["rows"]]
    columns = ["part", "class", "table", "mechanism", "epsilon", "seed", "error", "held", "width", "seconds"]
    return pd.DataFrame(rows).reindex(columns=columns)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each class and budget: geometric means of errors, widths and seconds, the mean share held."""

    def geometric(values: pd.Series) -> float:
        positive = values[values > 0]
        return float(np.exp(np.log(positive).mean())) if len(positive) else float("nan")

    groups = rows.groupby(["part", "class", "epsilon"], sort=False)
    columns = {name: groups[name].agg(geometric) for name in ("error", "width", "seconds")}
    return pd.DataFrame({**columns, "held": groups["held"].mean(), "runs": groups.size()}).reset_index()


def report(rows: pd.DataFrame, name: str) -> str:
    """Return the summary as Markdown."""
    lines = [
        "# Baselines",
        "",
        f"Made by `python -m experiments.baselines --keep` at commit {name}; not edited. Geometric means over tables",
        f"and seeds ({rows['seed'].nunique()}) of errors (total variation distances), of widths of 95 % intervals",
        "(counts; for households over those of an oracle), and of processor seconds of a run or of an interval.",
        "",
        "| part | class | epsilon | error | held | width | seconds | runs |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in summary(rows).itertuples(index=False):
        held = "" if np.isnan(row.held) else f"{row.held:.1%}"
        numbers = ["" if np.isnan(value) else f"{value:.3g}" for value in (row.error, row.width, row.seconds)]
        entries = [row.part, row[1], f"{row.epsilon:g}", numbers[0], held, *numbers[1:], str(row.runs)]
        lines.append(f"| {' | '.join(entries)} |")
    return "\n".join(lines) + "\n"


def compared(rows: pd.DataFrame, before: pd.DataFrame) -> tuple[str, bool]:
    """Return the ratios of each class to the baseline, over the runs that both have, and whether all are in limits."""
    keys = ["part", "class", "table", "mechanism", "epsilon", "seed"]
    both = rows.merge(before, on=keys, suffixes=("", " before"))
    lines, within = [], True
    for (part, name), group in both.groupby(["part", "class"], sort=False):
        entries = []
        for column, limit in LIMITS.items():
            now, then = group[column], group[f"{column} before"]
            usable = (now > 0) & (then > 0)
            if usable.any():
                ratio = float(np.exp(np.log(now[usable] / then[usable]).mean()))
                within &= ratio <= limit
                entries.append(f"{column} {ratio:.3f}{'' if ratio <= limit else ' !'}")
        if group["held"].notna().any():
            held = float(group["held"].mean())
            bad = held < min(LEAST_HELD, float(group["held before"].mean()) - 0.01)
            within &= not bad
            entries.append(f"held {held:.1%} ({group['held before'].mean():.1%} before){' !' if bad else ''}")
        lines.append(f"{part}, {name}: {', '.join(entries)}")
    return "\n".join(lines), within


def main() -> None:
    """Measure what is missing of this commit, and write or compare the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.baselines", description=__doc__)
    add_options(parser, "pairs*")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each kind (default 1)")
    parser.add_argument("--keep", action="store_true", help="write experiments/results/baselines.{csv,md}")
    parser.add_argument("--against", type=Path, help="a table of an earlier commit, to which ratios are printed")
    options = parser.parse_args()
    name = commit()
    kept, every = KeptRuns(f"baselines/{name}", BaselineRun), runs(options.seeds)
    missing = wanted(every, options, lambda run: kept.row(run) is not None)
    for run, row in made_by(missing, measure, options.workers) if missing else ():
        print(f"{len(row['rows'])} rows", flush=True)
        kept.keep(run, row)
    rows = table_of(kept, every)
    if options.keep:
        rows.to_csv(RESULTS / "baselines.csv", index=False, float_format="%.5g")
        (RESULTS / "baselines.md").write_text(report(rows, name), encoding="utf-8")
    if options.against:
        text, within = compared(rows, pd.read_csv(options.against))
        print(text)
        sys.exit(not within)
    if not options.keep:
        print(report(rows, name))


if __name__ == "__main__":
    main()
