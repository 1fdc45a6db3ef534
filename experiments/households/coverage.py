"""python -m experiments.households.coverage [--only PATTERN] [--fresh] [--report] [--workers N]: do intervals hold?

LinkedLAMP on three tables of households and persons, at four budgets and three seeds; then the intervals of tables of
households and of persons are compared with the truth. Earlier runs are reused (`experiments.kept_runs`). The tables go
to experiments/results/households_coverage.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import itertools
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.households.designs import DELTA
from experiments.households.runs import LinkedRun
from experiments.households.tables import NAMES, as_linked, load
from experiments.kept_runs import KeptRuns, run_and_report
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.families import Families

EPSILONS, SEEDS = (0.3, 1.0, 3.0, 10.0), (0, 1, 2)
KINDS = {
    "counts": "each value of an attribute",
    "pairs": "cells of two attributes",
    "prefixes": "prefix sums of an attribute",
    "rectangles": "prefix rectangles of two attributes",
    "triples": "cells of three attributes",
}
"""The classes of questions, of which each is asked of households and of persons, some with attributes of both."""
MOST_TABLES, MOST_CELLS = 8, 20_000
"""The tables of a class that are judged, and the cells of one."""
HEAD = """# Linked tables: what 95 % intervals hold

`python -m experiments.households.coverage` makes this table. After `LinkedLAMP` on anytown, eusilc and travel_survey
(delta is 1e-9, noise is simulated), `result.interval` is asked about tables of households (with their number of
persons) and of persons (with attributes of their household). *Held*: the share of answers whose interval has the true
count, in percent, mean of tables and seeds; *present*: the same of cells that are not empty; *worst*: the smallest
share of a table and budget; *width*: the mean width, relative to that of an oracle that gives each answer of a class
the same width, from the errors of these answers.

"""


KEPT = KeptRuns("households_coverage", LinkedRun)
RUNS = [LinkedRun(table, epsilon, seed) for seed in SEEDS for table in NAMES for epsilon in EPSILONS]


def measure(run: LinkedRun) -> dict[str, Any]:
    """Run the mechanism, and return how often the intervals hold."""
    true = load(run.table)
    mechanism = LinkedLAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation")
    noise = zlib.crc32(run.name.encode())  # differs from run to run, so that chance is not the same on all tables
    result = mechanism.fit(as_linked(true), seed=noise, progress=False)
    return judged(result, true, run.seed)


def judged(result: Any, true: Families, seed: int) -> dict[str, Any]:
    """Return the share of intervals that hold, by level and class, their widths, and the seconds of an interval."""
    found: dict[str, Any] = {}
    start = time.process_time()
    asked = 0
    for level, rows in (("households", true.parents), ("persons", _persons(true))):
        model = result.model_of(level)
        data = pg.Dataset.from_codes(list(np.ascontiguousarray(rows.T)), model.domain)
        for kind in KINDS:
            held, widths, errors, present = [], [], [], []
            for query, names in _questions(model.domain, kind, np.random.default_rng([seed, len(kind)])):
                low, high = result.interval(query, table=level)
                table = data.project(names)
                exact = (query.apply(table) if isinstance(query, pg.Kron) else table.values).ravel()
                centre = model.answer(query).values if isinstance(query, pg.Kron) else model.project(names).values
                held.append((low.values.ravel() - 1e-9 <= exact) & (exact <= high.values.ravel() + 1e-9))
                widths.append((high.values - low.values).ravel())
                errors.append(exact - centre.ravel())
                present.append(exact > 0)
                asked += 1
            if not held:
                continue
            inside, there, off = map(np.concatenate, (held, present, errors))
            oracle = 2 * 1.96 * max(float(np.sqrt(np.mean(np.square(off)))), 1e-9)
            name = f"{level}, {kind}"
            found[f"{name}, held"] = float(inside.mean())
            found[f"{name}, present"] = float(inside[there].mean())
            found[f"{name}, width"] = float(np.concatenate(widths).mean()) / oracle
    return {**found, "interval_seconds": (time.process_time() - start) / max(1, asked)}


def _persons(families: Families) -> np.ndarray:
    return np.hstack([families.parents[families.owners], families.children])


def _questions(domain: pg.Domain, kind: str, generator: np.random.Generator) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield queries of a class with the attributes that they read."""
    order = {"counts": 1, "prefixes": 1, "pairs": 2, "rectangles": 2, "triples": 3}[kind]
    every = [c for c in itertools.combinations(domain, order) if domain.size(c) <= MOST_CELLS]
    for place in generator.permutation(len(every))[: None if order == 1 else MOST_TABLES]:
        names = every[place]
        if kind in ("counts", "pairs", "triples"):
            yield names, names
        else:
            yield pg.Kron({name: pg.queries.prefix(domain[name]) for name in names}), names


def report(rows: pd.DataFrame) -> str:
    """Return the report of the rows."""
    means = rows.drop(columns="seed").groupby(["table", "epsilon"]).mean()
    text = " / ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    lines = [HEAD + f"Runs: {len(rows)}. An interval takes {1000 * rows['interval_seconds'].mean():.0f} ms.", ""]
    lines += [f"| questions | held at epsilon {text} | present | worst | width |", "|---|---:|---:|---:|---:|"]
    for level, kind in itertools.product(("households", "persons"), KINDS):
        name = f"{level}, {kind}"
        if f"{name}, held" not in means:
            continue
        held, worst, width = held_and_width(means, name)
        cells = [held, f"{100 * means[f'{name}, present'].mean():.0f}", worst, width]
        lines.append(f"| {level}: {KINDS[kind]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def held_and_width(means: pd.DataFrame, name: str) -> list[str]:
    """Return cells of a report: what intervals of a class hold at each budget, the least of a table, and their width.

    Args:
        means: the means over seeds, by table and epsilon.
        name: the class, whose columns are "NAME, held" and "NAME, width".
    """
    held = means[f"{name}, held"].dropna()
    table, epsilon = held.idxmin()
    return [
        " / ".join(f"{100 * value:.0f}" for value in held.groupby(level="epsilon").mean()),
        f"{100 * held.min():.0f}, {table} at {epsilon:g}",
        f"{np.exp(np.log(means[f'{name}, width']).mean()):.2f}",
    ]


if __name__ == "__main__":
    run_and_report(KEPT, RUNS, measure, report, __doc__, "eusilc-1-*", "households.coverage")
