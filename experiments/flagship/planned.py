"""python -m experiments.flagship.planned [TABLE ...]: errors and intervals of runs, beside those that plans expect.

For each table and budget, one quick plan and one run with simulated noise. The table in
experiments/results/flagship_planned.md has the mean error (total variation) and the mean half-width of 95 % intervals
of columns and of measured pairs, as planned and in the run, the share of columns whose error is within a factor of 2 of
the planned one, and the number of measured pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.cells import DELTA
from experiments.data import load
from pgmest._base.files import write_atomically
from pgmest.mechanisms import LAMP
from pgmest.mechanisms.rehearsal import ExpectedTable
from pgmest.privacy import AddRemove
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique

RESULTS = Path(__file__).resolve().parents[1] / "results"
TABLES = ("titanic", "BR2000", "adult", "acs/MA2019")
BUDGETS = ((0.3, 1), (1.0, 1), (1.0, 4), (4.0, 1))
"""Epsilon, and the records of one person."""

HEAD = """\
# LAMP's plan beside its runs

`python -m experiments.flagship.planned`. A plan is a rehearsal on made-up records; it knows the numbers of values and
records only. *Error* is the mean total variation distance of columns and of measured pairs, in the rehearsal and in the
run. *Width* is the mean half-width of 95 % intervals, in records. Noise is simulated. "Of one" is the number of records
of one person; "within 2" is the share of columns whose error is within a factor of 2 of the plan.

| table | epsilon | of one | columns: error, plan | run | within 2 | width, plan | run | pairs: error, plan | run \
| width, plan | run | measured, plan | run |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


def rows(table: str) -> Iterator[str]:
    """Yield a row for each budget."""
    data = load(table)
    for epsilon, persons in BUDGETS:
        neighbors = AddRemove(persons)
        mechanism = LAMP(epsilon=epsilon, delta=DELTA, backend="simulation", records=20_000, neighbors=neighbors)
        plan = mechanism.plan(data.domain, data.records, quick=True)
        result = mechanism.fit(data, seed=0, progress=False)
        columns = [(name,) for name in data.domain]
        pairs = sorted({data.domain.ordered(m.clique) for m in result.measurements if len(m.clique) == 2})
        errors = {c: total_variation(data.project(c), result.project(c)) for c in (*columns, *pairs)}
        ratios = np.array([errors[one.clique] / max(one.error, 1e-12) for one in plan.columns if one.cells > 1])
        measured = [one for one in plan.pairs if one.measured]
        entries = (
            _mean([one.error for one in plan.columns]),
            _mean([errors[clique] for clique in columns]),
            f"{np.mean((ratios > 0.5) & (ratios < 2)):.0%}",
            *_widths(plan.columns, result, columns),
            _mean([one.error for one in measured]),
            _mean([errors[pair] for pair in pairs]),
            *_widths(measured, result, pairs),
            str(len(measured)),
            str(len(pairs)),
        )
        yield f"| {table} | {epsilon:g} | {persons} | {' | '.join(entries)} |"


def _widths(planned: Sequence[ExpectedTable], result: Any, cliques: Sequence[Clique]) -> list[str]:
    """Return the mean half-widths of a plan, and those of a run's intervals, each weighted by the counts."""
    found = []
    for clique in cliques:
        halves, counts = 0.5 * result.interval(clique).width.values, np.maximum(result.project(clique).values, 0.0)
        found.append(float((halves * counts).sum() / counts.sum()))
    known = [one.half_width for one in planned if one.half_width is not None]
    return [f"{np.mean(values):.0f}" if values else "" for values in (known, found)]


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.4f}" if values else ""


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.flagship.planned", description=__doc__)
    parser.add_argument("tables", nargs="*", default=TABLES)
    found = []
    for table in parser.parse_args().tables:
        for row in rows(table):
            found.append(row)
            print(row, flush=True)
            write_atomically(RESULTS / "flagship_planned.md", HEAD + "\n".join(found) + "\n")


if __name__ == "__main__":
    main()
