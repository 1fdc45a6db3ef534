"""Measure how often intervals of analyses of released records hold: several tables combined, one table, real records.

`python -m experiments.analyses [--seconds N]` treats tables as populations, releases records of them by LAMP, MST and
AIM, and runs regressions, correlations, means by group, quantiles and Gini coefficients on `sample_tables(20)`, joined
by `combine`, on one synthetic table as if it were real, and on the real records. Each run is kept in build/analyses, so
that a command that was stopped goes on where it was. It writes experiments/results/analyses.md.
Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pgmest as pg
from experiments.data import load
from experiments.kept_runs import MechanismRun
from pgmest._base.files import write_atomically
from pgmest.analyses.combine import combine

OUT = Path(__file__).parent / "results" / "analyses.md"
KEPT = Path(__file__).resolve().parents[1] / "build" / "analyses"
TABLES: dict[str, tuple[str, ...]] = {
    "adult": ("age", "education-num", "marital-status", "occupation", "race", "sex", "income>50K"),
    "acs/IL_OH": ("SEX", "MARST", "RACE", "HISPAN", "EDUC", "EMPSTAT", "HCOVANY"),
    "BR2000": (),
    "fire": (),
    "loans": ("grade", "term", "home_ownership", "emp_length", "purpose", "loan_status"),
}
"""Data sets and the attributes used; () for the first seven of those with at most 40 values."""
MECHANISMS, EPSILONS, SEEDS = ("LAMP", "MST", "AIM"), (0.1, 1.0, 10.0), 1
RECORDS, DRAWN = 8000, 20
FEWEST = 30
"""Means of smaller groups, and logistic regressions with fewer records of an outcome, are left out."""
MOST_GROUPS, REACH = 6, 1.959964
WAYS = ("combined", "one table", "real records")
KINDS = {"ols": "regression", "logit": "regression", "correlation": "regression"}

Answers = dict[str, tuple[np.ndarray, np.ndarray]]
"""For each class of analyses, estimates and their variances; NaN where there is no such estimate."""


def population_of(name: str) -> pg.Dataset:
    """Return the records that are the population."""
    data = load(name)
    names = TABLES[name] or [one for one in data.domain if 1 < data.domain[one] <= 40][:7]
    return data.select(names)


def linear(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes of a linear regression with their variances; the first column of x is constant."""
    inverse = np.linalg.pinv(x.T @ x)
    found = inverse @ (x.T @ y)
    variance = np.sum((y - x @ found) ** 2) / (len(y) - x.shape[1])
    return found[1:], variance * np.diag(inverse)[1:]


def logistic(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes of a logistic regression by Newton's method, with their variances."""
    if not FEWEST < y.sum() < len(y) - FEWEST:
        return np.full(x.shape[1] - 1, np.nan), np.full(x.shape[1] - 1, np.nan)
    found, information = np.zeros(x.shape[1]), np.eye(x.shape[1])
    for _ in range(40):
        p = 1 / (1 + np.exp(-np.clip(x @ found, -30, 30)))
        information = (x.T * (p * (1 - p))) @ x + 1e-8 * np.eye(x.shape[1])
        step = np.clip(np.linalg.solve(information, x.T @ (y - p)), -3, 3)
        found = found + step
        if np.abs(step).max() < 1e-8:
            break
    return found[1:], np.diag(np.linalg.pinv(information))[1:]


def means(values: np.ndarray, groups: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of the first groups with their variances."""
    parts = [values[groups == code] for code in range(min(number, MOST_GROUPS))]
    enough = [len(part) >= FEWEST for part in parts]
    return (
        np.array([part.mean() if known else np.nan for part, known in zip(parts, enough, strict=True)]),
        np.array(
            [part.var(ddof=1) / len(part) if known else np.nan for part, known in zip(parts, enough, strict=True)]
        ),
    )


def quartiles(codes: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the quartiles with values spread evenly within a code, and their variances."""
    levels, counts = np.array([0.25, 0.5, 0.75]), np.bincount(codes.astype(int), minlength=size) / len(codes)
    ends = np.append(0.0, np.cumsum(counts)) + 1e-12 * np.arange(size + 1)
    found = np.interp(levels, ends, np.arange(size + 1))
    density = np.maximum(counts[np.minimum(found.astype(int), size - 1)], 1 / len(codes))
    return found, levels * (1 - levels) / len(codes) / density**2


def gini(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gini coefficient of positive values, and its variance by its influence function."""
    ordered, n = np.sort(values), len(values)
    rank, mean = np.arange(1, n + 1) / n, ordered.mean()
    found = 2 * (rank @ ordered) / (n * mean) - 1 - 1 / n
    influence = (2 * (ordered * rank + mean - np.cumsum(ordered) / n) - (found + 1) * ordered) / mean
    return np.array([found]), np.array([influence.var() / n])


def analyzed(table: pg.Dataset, scales: list[tuple[float, float]]) -> Answers:
    """Return all analyses of a table, whose codes are standardized by given means and deviations."""
    codes, sizes, count = [column.astype(float) for column in table.columns], table.domain.shape, len(scales)
    standard = [(column - middle) / spread for column, (middle, spread) in zip(codes, scales, strict=True)]
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
    for i in range(count):
        j, k = (i + 1) % count, (i + 2) % count
        x = np.column_stack([np.ones(table.records), standard[j], standard[k]])
        found["ols"].append(linear(x, standard[i]))
        found["logit"].append(logistic(x, (codes[i] > scales[i][0]).astype(float)))
        r = np.corrcoef(standard[i], standard[j])[0, 1]
        found["correlation"].append((np.array([r]), np.array([(1 - r * r) ** 2 / table.records])))
        found["means by group"].append(means(standard[i], codes[j], sizes[j]))
        if sizes[i] >= 10:
            found["quartiles, Gini"] += [quartiles(codes[i], sizes[i]), gini(codes[i] + 0.5)]
    return {name: (np.concatenate([e for e, _ in v]), np.concatenate([q for _, q in v])) for name, v in found.items()}


@dataclass(frozen=True)
class Run(MechanismRun):
    """A run whose scores are kept."""

    @property
    def kept(self) -> Path:
        """The file of its scores."""
        return KEPT / f"{self.table.replace('/', '_')}-{self.mechanism}-{self.epsilon:g}-{self.seed}.json"


def scores(run: Run) -> dict[str, dict[str, list[float]]]:
    """Return, for each class, how many intervals each way holds, their number, and the widths over the real ones."""
    population = population_of(run.table)
    rows = np.random.default_rng([run.seed, 7]).choice(
        population.records, min(RECORDS, population.records // 2), replace=False
    )
    data = population.take(rows)
    columns = [column.astype(float) for column in population.columns]
    scales = [(float(column.mean()), max(float(column.std()), 1e-6)) for column in columns]
    mechanism = getattr(pg.mechanisms, run.mechanism)(epsilon=run.epsilon, delta=1e-9, backend="simulation")
    result = mechanism.fit(data, seed=run.seed, progress=False)
    tables = [analyzed(table, scales) for table in result.sample_tables(DRAWN, seed=run.seed)]
    one, real, truth = (analyzed(d, scales) for d in (result.sample(seed=run.seed), data, population))
    found: dict[str, dict[str, list[float]]] = {}
    for name, (exact, _) in truth.items():
        parts = [table[name] for table in [*tables, one, real]]
        known = np.isfinite(exact) & np.all([np.isfinite(e) & np.isfinite(v) for e, v in parts], axis=0)
        if not known.any():
            continue
        joined = combine([(estimate[known], variance[known]) for estimate, variance in parts[:DRAWN]])
        reach = joined.interval()[1] - joined.estimate
        held, widths = [np.sum(np.abs(joined.estimate - exact[known]) <= reach)], [reach]
        for estimate, variance in parts[DRAWN:]:
            widths.append(REACH * np.sqrt(variance[known]))
            held.append(np.sum(np.abs(estimate[known] - exact[known]) <= widths[-1]))
        wide = float(np.median(widths[0] / np.maximum(widths[2], 1e-12)))
        off = float(np.median(np.abs(joined.estimate - exact[known]) / np.maximum(reach, 1e-12)))
        found[name] = {"held": [float(h) for h in held], "of": [float(known.sum())], "wide": [wide], "off": [off]}
    return found


def runs() -> Iterator[Run]:
    """Yield all runs."""
    for seed, table, mechanism, epsilon in itertools.product(range(SEEDS), TABLES, MECHANISMS, EPSILONS):
        yield Run(table, mechanism, epsilon, seed)


def report(done: list[Run]) -> str:
    """Return the page: a line for each class, mechanism and budget."""
    sums: dict[tuple[str, str, float], dict[str, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for run in done:
        for name, found in json.loads(run.kept.read_text(encoding="utf-8")).items():
            key = KINDS.get(name, name), run.mechanism, run.epsilon
            sums[key][run.table].append(np.array([*found["held"], *found["of"], *found["wide"]]))
    lines, named = [], ", ".join(dict.fromkeys(run.table for run in done))
    for key in sorted(sums, key=lambda one: (one[0] != "regression", one[0], MECHANISMS.index(one[1]), one[2])):
        per_table = {table: np.sum(rows, axis=0) for table, rows in sums[key].items()}
        whole = np.sum(list(per_table.values()), axis=0)
        least = min(row[0] / row[3] for row in per_table.values())
        wide = np.median([row[4] for rows in sums[key].values() for row in rows])
        shares = " | ".join(f"{held / whole[3]:.0%}" for held in whole[:3])
        lines.append(f"| {key[0]} | {key[1]} | {key[2]:g} | {whole[3]:.0f} | {shares} | {least:.0%} | {wide:.1f} |")
    return "\n".join(
        [
            "# Analyses of released records",
            "",
            f"Made by `python -m experiments.analyses`; not edited. Tables: {named}, each taken for a",
            f"population of which at most {RECORDS:,} records are released. Shares of 95 % intervals that hold the",
            f"population's value: of {DRAWN} tables by `sample_tables`, joined by `combine`; of one synthetic table",
            "analyzed as if it were real; and of the real records. *Least*: the combined share on the table that has",
            "the least. *Width*: of combined intervals over those of the real records, the median. Regressions are",
            "linear and logistic ones with two features, and correlations.",
            "",
            "| class | mechanism | epsilon | answers | combined | one table | real records | least | width |",
            "|---|---|---:|---:|---:|---:|---:|---:|---:|",
            *lines,
            "",
        ]
    )


def main() -> None:
    """Do the runs that were not done, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m experiments.analyses", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run after so many")
    options = parser.parse_args()
    wanted, started = list(runs()), time.monotonic()
    warnings.simplefilter("ignore")
    KEPT.mkdir(parents=True, exist_ok=True)
    for run in wanted:
        if not run.kept.exists() and time.monotonic() - started < options.seconds:
            write_atomically(run.kept, json.dumps(scores(run)))
            print(run.kept.stem, flush=True)
    write_atomically(OUT, report([run for run in wanted if run.kept.exists()]))


if __name__ == "__main__":
    main()
