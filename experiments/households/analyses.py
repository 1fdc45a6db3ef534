"""python -m experiments.households.analyses [--only PATTERN] [--fresh] [--report] [--workers N]: weighted analyses.

LinkedLAMP on four generated tables of households and on three others, at four budgets and two seeds. Then means,
shares and regression slopes of households and of persons, drawn at random, are computed on the synthetic tables with 20
sets of weights and joined by `combine`; beside them stand the intervals that an analyst would give of the synthetic
tables alone. Earlier runs are reused (`experiments.kept_runs`). The tables go to
experiments/results/households_analyses.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from experiments.households.coverage import EPSILONS, held_and_width
from experiments.households.designs import DELTA
from experiments.households.runs import LinkedRun
from experiments.households.tables import NAMES, as_linked, load
from experiments.households.whole import condition as drawn_condition
from experiments.households.whole import number as number_of
from experiments.households.worlds import WORLDS
from experiments.kept_runs import KeptRuns, run_and_report
from pgmest.analyses.combine import combine
from pgmest.analyses.sampled_tables import SampledTables
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.trees import family_table

KINDS = {
    "household mean": "the mean number of persons of a kind, or the share of households with one",
    "household slope": "the slope of that on the number of persons, or on the number of persons of another kind",
    "person mean": "the mean code of persons, or the share of a kind",
    "person slope": "the slope of that on a code of the same person, on their number, or on a code of the household",
}
"""The classes of analyses. A kind of person is a value, a range or a set of values of one attribute or of two."""
ASKED, SETS, SEEDS = 40, 20, 2
"""The number of analyses of a class that are drawn, of sets of weights, and of seeds."""
SHARES = (0.01, 0.99)
"""The true shares that analyses are about."""
HEAD = """# Linked tables: analyses with sets of weights

`python -m experiments.households.analyses` makes this table. After `LinkedLAMP` (delta is 1e-9, noise is simulated),
means, shares and slopes of least squares are computed with each of 20 sets of weights (`sample_tables(20)`) and joined
by `combine`, without the analyst's error of sampling: the intervals are about the table behind the answers. *Held*: the
share of 95 % intervals that have the value in the private table, in percent, mean of tables and seeds; *worst*: the
smallest one of a table and budget, mean of seeds; *width*: the mean width, relative to that of an oracle that gives
each analysis of a class the same width in its standard errors. *One table*: the share that the usual intervals of the
synthetic table alone hold.
"""
ABOUT = {
    "generated": "The households of [Linked tables: generated households](household_worlds.md), on which no constant "
    "of the intervals was chosen.",
    "others": "The same on anytown, eusilc and travel_survey, on which they were chosen.",
}

KEPT = KeptRuns("households_analyses", LinkedRun)
RUNS = [LinkedRun(t, e, s) for s in range(SEEDS) for t in (*WORLDS, *NAMES) for e in EPSILONS]
Pair = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The rows of an analysis: the household of each, the outcome, and what it is regressed on."""


def measure(run: LinkedRun) -> dict[str, Any]:
    """Run LinkedLAMP, and return what its sets of weights hold."""
    true = WORLDS[run.table].families() if run.table in WORLDS else load(run.table)
    mechanism = LinkedLAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation")
    result = mechanism.fit(as_linked(true), seed=1000 * run.seed + int(10 * run.epsilon), progress=False)
    return judged(result, true, run.table, run.seed)


def judged(result: Any, true: Families, table: str, seed: int) -> dict[str, Any]:
    """Return what intervals of the analyses of each class hold, and how wide they are."""
    made = family_table(result.model, "persons")
    drawn = result.unit_weights(SETS, seed=seed)
    sets = SampledTables([{}] * SETS, weight="weight", spread=drawn.spread)
    one = np.full((1, len(made.sizes)), drawn.weights.sum(axis=1).mean() / len(made.sizes))
    found: dict[str, Any] = {}
    for kind in KINDS:
        generator = np.random.default_rng([zlib.crc32(table.encode()), list(KINDS).index(kind)])
        slope, exact, alone, errors, estimates = kind.endswith("slope"), [], [], [], []
        for analysis in _analyses(true, kind, generator):
            truth, _ = estimated(analysis(true), np.ones((1, len(true.sizes))), slope)
            estimate, error = estimated(analysis(made), one, slope)
            several, _ = estimated(analysis(made), drawn.weights, slope)
            if np.isfinite([truth[0], estimate[0], error[0]]).all() and error[0] > 0:
                exact, alone = [*exact, truth[0]], [*alone, estimate[0]]
                errors, estimates = [*errors, error[0]], [*estimates, several]
        values, spread = np.array(exact), np.array(errors)
        joined = combine([(row, np.zeros(len(row))) for row in np.array(estimates).T], tables=sets)
        low, high = joined.interval()
        off = (joined.estimate - values) / spread
        found[f"{kind}, held"] = float(((low <= values) & (values <= high)).mean())
        found[f"{kind}, width"] = float(((high - low) / spread).mean() / (2 * 1.96 * np.sqrt(np.square(off).mean())))
        found[f"{kind}, alone"] = float((np.abs(np.array(alone) - values) <= 1.96 * spread).mean())
    return found


def _analyses(true: Families, kind: str, generator: np.random.Generator) -> Iterator[Any]:
    """Yield functions of families that return the rows of an analysis."""
    found = 0
    while found < ASKED:
        one, other = (drawn_condition(true, generator) for _ in range(2))
        counted, own, on = generator.random() < 0.5, *(int(n) for n in generator.integers(1 << 30, size=2))

        def rows(
            families: Families,
            one: Any = one,
            other: Any = other,
            counted: bool = counted,
            own: int = own,
            on: int = on,
        ) -> Pair:
            layout, owners = families.layout, families.owners
            if kind.startswith("household"):
                count = number_of(families, one) * 1.0
                against = families.sizes if on % 2 else number_of(families, other)
                return np.arange(len(count)), count if counted else (count > 0) * 1.0, against * 1.0
            codes = families.children
            inside = np.ones(len(codes), dtype=bool)
            for place, allowed in one:
                inside &= allowed[codes[:, place]]
            outcome = codes[:, own % codes.shape[1]] * 1.0 if counted else inside * 1.0
            place = on % (len(layout.members) + len(layout.parents))
            above = place >= len(layout.members)
            against = families.parents[owners, place - len(layout.members)] if above else codes[:, place]
            return owners, outcome, against * 1.0

        _, outcome, against = rows(true)
        binary = set(np.unique(outcome)) <= {0.0, 1.0}
        rare = binary and not SHARES[0] <= outcome.mean() <= SHARES[1]
        apart = np.ptp(against) > 0 and np.ptp(outcome) > 0 and not np.array_equal(against, outcome)
        if not rare and apart:
            found += 1
            yield rows


def estimated(pair: Pair, weights: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return weighted means or slopes of least squares, and the usual standard errors, of each set of weights."""
    owners, y, x = pair
    columns = (np.ones(len(y)), y, y * y, x, x * x, x * y)
    sums = np.stack([np.bincount(owners, column, weights.shape[1]) for column in columns])
    n, sy, syy, sx, sxx, sxy = sums @ weights.T
    variance = syy / n - np.square(sy / n)
    if not slope:
        return sy / n, np.sqrt(np.maximum(variance, 0) / n)
    wide = sxx / n - np.square(sx / n)
    found = np.divide(sxy / n - sx * sy / n**2, wide, out=np.full(len(n), np.nan), where=wide > 1e-9)
    left = np.maximum(variance - np.square(found) * wide, 0)
    return found, np.sqrt(np.divide(left, n * wide, out=np.full(len(n), np.nan), where=wide > 1e-9))


def report(rows: pd.DataFrame) -> str:
    """Return the report of the rows."""
    generated = rows["table"].isin(list(WORLDS))
    parts = {"generated": rows[generated], "others": rows[~generated]}
    return HEAD + "".join(f"\n{ABOUT[name]}\n\n{_report(part)}" for name, part in parts.items() if len(part))


def _report(rows: pd.DataFrame) -> str:
    """Return the number of runs, and what intervals hold by class."""
    means = rows.drop(columns="seed").groupby(["table", "epsilon"]).mean()
    epsilons = " / ".join(f"{epsilon:g}" for epsilon in sorted(rows["epsilon"].unique()))
    lines = [f"Runs: {len(rows)}."]
    lines += ["", f"| analyses | held at epsilon {epsilons} | worst | width | one table |", "|---|---:|---:|---:|---:|"]
    for kind, meaning in KINDS.items():
        alone = " / ".join(f"{100 * v:.0f}" for v in means[f"{kind}, alone"].groupby(level="epsilon").mean())
        lines.append(f"| {meaning} | " + " | ".join([*held_and_width(means, kind), alone]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_and_report(KEPT, RUNS, measure, report, __doc__, "few-1-*", "households.analyses")
