"""python -m experiments.flagship.planned [TABLE ...]: the errors of runs, beside those that LAMP's plan expects.

For each table and budget, one run with simulated noise. The table in experiments/results/flagship_planned.md has the
mean error of the columns and of the measured pairs, as planned and in the run (total variation), the share of columns
whose error is within a factor of 2 of the planned one, and the number of measured pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.compare.cells import DELTA
from experiments.data import load
from pgmest._base.files import write_atomically
from pgmest.mechanisms import LAMP
from pgmest.privacy import AddRemove

RESULTS = Path(__file__).resolve().parents[1] / "results"
TABLES = ("titanic", "BR2000", "adult", "acs/MA2019")
BUDGETS = ((0.3, 1), (1.0, 1), (1.0, 4), (4.0, 1))
"""Epsilon, and the records of one person."""

HEAD = """\
# LAMP's plan beside its runs

`python -m experiments.flagship.planned`. Errors are mean total variation distances of columns and of measured pairs, as
planned before the run and as found in it, with simulated noise. The plan knows the numbers of values and records only;
"of one" is the number of records of one person; "within 2" is the share of columns within a factor of 2 of the plan.

| table | epsilon | of one | columns: plan | found | within 2 | pairs: plan | found | measured: plan | found |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


def rows(table: str) -> Iterator[str]:
    """Yield a row for each budget."""
    data = load(table)
    for epsilon, persons in BUDGETS:
        neighbors = AddRemove(persons)
        mechanism = LAMP(epsilon=epsilon, delta=DELTA, backend="simulation", records=20_000, neighbors=neighbors)
        plan = mechanism.plan(data.domain, data.records)
        result = mechanism.fit(data, seed=0, progress=False)
        scale = data.records / result.model.total
        measured = sorted({m.clique for m in result.measurements if len(m.clique) == 2})
        cliques = [(name,) for name in data.domain] + measured
        errors = {
            clique: np.abs(result.project(clique).values * scale - data.project(clique).values).sum()
            / (2 * data.records)
            for clique in cliques
        }
        ratios = np.array([error / max(errors[name,], 1e-12) for name, error in plan.one_way_errors.items()])
        columns = np.mean([errors[name,] for name in data.domain])
        pairs = np.mean([errors[pair] for pair in measured]) if measured else np.nan
        planned = np.mean(list(plan.one_way_errors.values()))
        yield (
            f"| {table} | {epsilon:g} | {persons} | {planned:.4f} | {columns:.4f} | "
            f"{np.mean((ratios > 0.5) & (ratios < 2)):.0%} | {plan.likely_error or np.nan:.4f} | {pairs:.4f} | "
            f"{plan.likely[0]} to {plan.likely[1]} | {len(measured)} |"
        )


def main() -> None:
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
