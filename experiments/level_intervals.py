"""Measure what 95 % intervals of LAMP hold at each level of a tree of codes or areas, and how wide they are.

`python -m experiments.level_intervals [--only PATTERN] [--workers N]` fits the tables of `experiments.hierarchies` that
have different trees, and asks for intervals of the attribute with the tree alone (1), with one other attribute (2), and
of another attribute given a group of the level (given), at each level.

Each run is kept in build/level_intervals as a JSON file at once, so that a command that was stopped goes on where it
was. The tables are written to experiments/results/level_intervals.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any, cast

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.hierarchies import DELTA, EPSILONS, SEEDS, table
from experiments.kept_runs import KeptRuns, MechanismRun, run_and_report
from pgmest.models.errors.drawn_intervals import error_model_of
from pgmest.queries.levels import level_kron

NAMES = ("austria", "acs/NATIONAL2019", "acs/MA2019", "travel_survey", "codes 8,000", "codes 50,000")
OTHERS, GROUPS = 4, 5
"""The numbers of other attributes, and of given groups of a level, evenly chosen."""
REACH = 1.96
ROUNDING = 1e-6
KEPT = KeptRuns("level_intervals", MechanismRun)
RUNS = [MechanismRun(name, "LAMP", epsilon, seed) for seed in range(SEEDS) for name in NAMES for epsilon in EPSILONS]
KINDS = ("1", "2 measured", "2 not measured", "given")
PLACES = ("coarsest", "between", "finest")


def _evenly(items: Any, number: int) -> list[Any]:
    """Return some of the items, evenly chosen."""
    places = np.linspace(0, len(items) - 1, min(number, len(items))).round().astype(int)
    return [items[place] for place in places]


def measure(run: MechanismRun) -> dict[str, Any]:
    """Return the number of answers of each kind and level, of those that are held, and their squared errors and widths.

    Widths are halves of intervals, in standard errors.
    """
    data = table(run.table)
    ((attribute, tree),) = data.domain.hierarchies.items()
    started = time.process_time()
    fitted = pg.mechanisms.LAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation").fit(
        data, seed=run.seed, progress=False
    )
    model, found = fitted.model, defaultdict[str, float](float)
    errors = error_model_of(model)
    others = _evenly([name for name in data.domain if name != attribute], OTHERS)
    for level in (*tree.names, attribute):
        named = attribute if level == attribute else f"{attribute}@{level}"
        place = "finest" if level == attribute else "coarsest" if level == tree.names[0] else "between"
        _judge(found, f"1, {place}", data, model, (named,))
        size = tree.values if level == attribute else tree.size(level)
        for other in others:
            measured = errors.is_measured(data.domain.ordered((attribute, other)))
            _judge(found, f"2 {'' if measured else 'not '}measured, {place}", data, model, (named, other))
            for group in _evenly(range(size), GROUPS):
                _judge(found, f"given, {place}", data, model, (other,), (named, group))
    return {**found, "seconds": time.process_time() - started}


def _judge(
    found: dict[str, float],
    kind: str,
    data: pg.Dataset,
    model: Any,
    names: tuple[str, ...],
    given: tuple[str, int] | None = None,
) -> None:
    """Add the intervals of a table to those of its kind."""
    query = level_kron(data.domain, names if given is None else (*names, given[0]))
    true = query.apply(data.project(query.attributes))
    true = true if given is None else true[..., given[1]]
    evidence = None if given is None else dict([given])
    low, high = (end.values for end in model.interval(names, given=evidence))
    estimate = model.project(names, evidence).values
    for key, values in (
        ("answers", np.ones(true.shape)),
        ("held", (low - ROUNDING <= true) & (true <= high + ROUNDING)),
        ("squared widths", np.square((high - estimate) / REACH)),
        ("squared errors", np.square(estimate - true)),
    ):
        found[f"{kind}: {key}"] += float(values.sum())


NOTES = """
Intervals are those of `result.interval(("code@block", "sex"))` and `result.interval("sex", given={"code@block": 3})`.
*Held* is the percentage of answers whose interval holds the truth; the target is 93 to 97 at every level. *Width* is
that of intervals over that of an oracle, which knows the root mean square of the errors and gives all answers of a kind
the same width; a number below 1 with as many answers held says that intervals tell sure answers from others. Every
number weights the tables evenly. Tables are of a level alone (*1*), of a level and another attribute (*2*), measured or
not, and of another attribute for a given group (*given*).

Counts of a level are combined from the answers about its groups, the answers about codes, and what counts of codes are
likely to be: most codes of a long tail are rare, so that noisy counts of codes tell more about the sum of a chapter
than the sum of the noisy counts does. Where a pair was measured over groups of codes, the dependence inside groups is
what the noisy scores of the pair leave.

Pairs are measured over groups of codes and over branches of the tree; intervals join the answers by least squares.
"""


def _numbers(part: Any, kind: str) -> tuple[float, float]:
    """Return the percentage held, and the width, as means over tables."""
    sums = part.groupby("table")[[f"{kind}: {key}" for key in _KEYS]].sum()
    answers, held, widths, errors = (sums[f"{kind}: {key}"] for key in _KEYS)
    some = answers > 0
    ratios = np.sqrt(widths[some] / errors[some].clip(lower=1e-12))
    return float((100 * held[some] / answers[some]).mean()), float(np.exp(np.log(ratios).mean()))


_KEYS = ("answers", "held", "squared widths", "squared errors")


def _lines(rows: Any) -> list[str]:
    """Return the table of all kinds and levels as Markdown."""
    epsilons = sorted(rows["epsilon"].unique())
    heads = [f"held, {e:g}" for e in epsilons] + [f"width, {e:g}" for e in epsilons]
    lines = [f"| table | level | {' | '.join(heads)} |", f"|---|---|{'---:|' * len(heads)}"]
    for kind in KINDS:
        for place in PLACES:
            name = f"{kind}, {place}"
            if f"{name}: answers" not in rows or not rows[f"{name}: answers"].sum():
                continue
            numbers = [_numbers(rows[rows["epsilon"] == epsilon], name) for epsilon in epsilons]
            entries = [f"{held:.1f}" for held, _ in numbers] + [f"{width:.2f}" for _, width in numbers]
            entries = ["" if entry == "nan" else entry for entry in entries]
            lines.append(f"| {kind} | {place} | {' | '.join(entries)} |")
    return lines


def report(rows: pd.DataFrame) -> str:
    """Return the report as Markdown."""
    rows = cast(Any, rows.fillna(0.0))  # counts of answers of a kind that a table lacks
    lines = [
        "# Trees of codes and areas: what 95 % intervals hold at each level",
        "",
        f"LAMP, up to {SEEDS} seeds, at each epsilon; `python -m experiments.level_intervals`.",
        *NOTES.splitlines(),
        "",
        *_lines(rows),
        "",
    ]
    for name in NAMES:
        here = rows[rows["table"] == name]
        if not here.empty:
            lines += [f"## {name}: {next(iter(table(name).domain.hierarchies.values()))!r}", "", *_lines(here), ""]
    return "\n".join(lines)


def main() -> None:
    """Make the runs that are missing and write the report."""
    run_and_report(KEPT, RUNS, measure, report, __doc__, "austria-LAMP-*")


if __name__ == "__main__":
    main()
