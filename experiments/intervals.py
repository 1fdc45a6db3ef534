"""Measure coverage and width of the three kinds of interval (`Model.interval`) on tables whose truth is known.

`python -m experiments.intervals` measures pairs of some tables with noise, several times over, and asks for 95 %
intervals of measured cells, of cumulative counts, and of pairs that were not measured. It writes
experiments/results/intervals.md.
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import pgmest as pg
from experiments.coverage import CLOSE, REACH, Case, cases, table
from pgmest._base.files import write_atomically
from pgmest.models.uncertainty import redraw

OUT = Path(__file__).parent / "results" / "intervals.md"
TRIALS = 2
DRAWS, WARM_UP = 200, 100
KINDS = ("noise", "posterior", "bounds")


def chosen() -> list[Case]:
    """The cases of `experiments.coverage` with a table as truth and ordinary settings."""
    return [case for case in cases() if not case.exact_structure and not case.settings]


def run(case: Case) -> dict[tuple[str, str], list[np.ndarray]]:
    """By class and kind: for each trial whether cells are held, and widths over those of raw noise."""
    data: Any = table(case.table, case.names)
    first, other = case.pairs[0]
    prefix = pg.Kron({first: pg.queries.prefix(data.domain[first])})
    sums = case.stddev * np.sqrt(data.domain[other] * np.arange(1, data.domain[first] + 1))
    found: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for trial in range(TRIALS):
        generator = np.random.default_rng([trial, 2024])
        blank = [pg.LinearMeasurement(data.project(clique), clique, case.stddev) for clique in case.pairs]
        model = pg.estimate([redraw(m, m.values, generator) for m in blank], data.domain)
        start = time.perf_counter()
        model.posterior(DRAWS, trial, warm_up=WARM_UP)
        found["seconds", "posterior"].append(np.array([time.perf_counter() - start]))
        questions = [("measured", pair, data.project(pair).values, case.stddev) for pair in case.pairs]
        questions += [("unmeasured", pair, data.project(pair).values, case.stddev) for pair in case.unmeasured]
        questions.append(("prefix", prefix, prefix.apply(data.project((first,))), sums))
        for name, query, truth, raw in questions:
            for kind in KINDS:
                if kind == "bounds" and name == "measured" and query != case.pairs[0]:
                    continue  # two linear programs for every cell: one table is enough
                low, high = model.interval(query, kind=kind)
                held = (truth >= low.values - CLOSE) & (truth <= high.values + CLOSE)
                width = (high - low).values / (2 * REACH * raw)
                found[name, kind].append(np.stack([held.reshape(-1).astype(float), width.reshape(-1)]))
    return found


def row(case: Case) -> str:
    """One line of the table."""
    found = run(case)
    cells = [case.table, f"{case.stddev:g}"]
    for name in ("measured", "prefix", "unmeasured"):
        for kind in KINDS:
            held, width = np.concatenate(found[name, kind], axis=1).mean(axis=1)
            cells.append(f"{held:.1%}, {width:.2f}")
    cells.append(f"{np.mean(found['seconds', 'posterior']):.0f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run all cases and write the table."""
    heads = [f"{name}: {kind}" for name in ("measured", "prefix", "unmeasured") for kind in KINDS]
    lines = [
        "# What three kinds of 95 % intervals hold",
        "",
        f"Made by `python -m experiments.intervals`; not edited. {TRIALS} draws of the noise; posteriors of {DRAWS}",
        f"draws, 4 chains, {WARM_UP} transitions of warm-up. Shares of cells whose interval holds the truth, and mean",
        "widths against those of intervals of the raw noise. The truth is the table: what was not measured is not in",
        "the model. Bounds of measured cells are of the first pair only. *Seconds* are those of a posterior.",
        "",
        f"| data | stddev | {' | '.join(heads)} | seconds |",
        f"|---|---:|{'---:|' * (len(heads) + 1)}",
    ]
    for case in chosen():
        lines.append(row(case))
        print(lines[-1], flush=True)
    OUT.parent.mkdir(exist_ok=True)
    write_atomically(OUT, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
