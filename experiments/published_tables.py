"""Tables published by the rules of two offices, and what can be reconstructed from them.

`python -m experiments.published_tables` takes tables of the American Community Survey (MA2019), publishes them
rounded at random to base 3 or 5, or suppressed below 10 with complements, and estimates a model of them. It writes
experiments/results/published_tables.md.

Compared: the mean absolute error of the cells as published (suppressed ones at the middle of their ends), after
iterative proportional fitting to these, after `estimate`, and, table by table, of the nearest whole-number table
that keeps to the ends and the totals (`scipy.optimize.milp`). And the bounds: how many cells hold the truth (all,
by construction), how wide they are, how many are a point.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

import pgmest as pg
from experiments.data import load
from pgmest._base.files import write_atomically
from pgmest.models.bounds import TableBounds

OUT = Path(__file__).parent / "results" / "published_tables.md"
DATA = "acs/MA2019"
PAIRS = (("PUMA", "MSP"), ("SEX", "RAC1P"), ("RAC1P", "HISP"), ("MSP", "SEX"), ("OWN_RENT", "RAC1P"))
UNPUBLISHED = (("MSP", "RAC1P"), ("PUMA", "SEX"))
THRESHOLD = 10


def random_rounding(table: np.ndarray, base: int, generator: np.random.Generator) -> np.ndarray:
    """Each count to the multiple below or above, so that the mean is the count."""
    below = base * np.floor(table / base)
    return below + base * (generator.random(table.shape) < (table - below) / base)


def suppressed(table: np.ndarray) -> np.ndarray:
    """NaN below the threshold (but zeros), and inf for complements: no row or column has exactly one cell hidden."""
    found = np.where((table > 0) & (table < THRESHOLD), np.nan, table)
    for _ in range(table.size):
        hidden = ~np.isfinite(found)
        for axis in (0, 1):
            for line in np.flatnonzero(hidden.sum(axis=axis) == 1):
                cells = found[:, line] if axis == 0 else found[line]
                shown = np.where(np.isfinite(cells) & (cells > 0), cells, np.inf)
                if np.isfinite(shown).any():
                    cells[np.argmin(shown)] = np.inf
        if np.array_equal(hidden, ~np.isfinite(found)):
            break
    return found


def published(data: pg.Dataset, rule: str, generator: np.random.Generator) -> list[pg.LinearMeasurement]:
    """The pairs by a rule, and the totals of single attributes: exact beside suppression, else rounded, too."""
    made = []
    singles = [(name,) for name in dict.fromkeys(name for pair in PAIRS for name in pair)]
    for clique in (*PAIRS, *singles):
        table = data.project(clique).values
        if rule == "suppressed":
            exact = len(clique) == 1
            make = pg.LinearMeasurement.exact if exact else pg.LinearMeasurement.suppressed
            made.append(make(table, clique) if exact else make(suppressed(table), clique, THRESHOLD, least=1))
        else:
            base = int(rule.removeprefix("rounded "))
            values = random_rounding(table, base, generator)
            made.append(pg.LinearMeasurement.rounded(values, clique, base, random=True))
    return made


def middles(measurement: pg.LinearMeasurement) -> np.ndarray:
    """The middle of the ends; of an open one the lower."""
    return np.maximum(measurement.values, 0.0)


def nearest_whole(
    measurement: pg.LinearMeasurement, singles: dict[tuple, pg.LinearMeasurement], shape: tuple
) -> np.ndarray:
    """The whole-number table between the ends, with the totals of its attributes, nearest to the middles."""
    cells, target = measurement.rows, middles(measurement)
    index = np.indices(shape).reshape(2, -1)
    rows = [index[axis] == code for axis in range(2) for code in range(shape[axis])]
    ends = [singles[(name,)] for name in measurement.clique]
    low, high = (np.concatenate([getattr(one, end) for one in ends]) for end in ("low", "high"))
    totals = np.hstack([np.array(rows, dtype=float), np.zeros((len(rows), cells))])
    away = [np.hstack([sign * np.eye(cells), -np.eye(cells)]) for sign in (1, -1)]
    found = milp(
        np.append(np.zeros(cells), np.ones(cells)),
        constraints=[
            LinearConstraint(totals, low, high),
            LinearConstraint(away[0], -np.inf, target),
            LinearConstraint(away[1], -np.inf, -target),
        ],
        bounds=Bounds(np.append(measurement.low, np.zeros(cells)), np.append(measurement.high, np.full(cells, np.inf))),
        integrality=np.append(np.ones(cells), np.zeros(cells)),
        options={"time_limit": 20.0},
    )
    return found.x[:cells]


def error(found: list[np.ndarray], truths: list[np.ndarray]) -> float:
    """The mean absolute error of all cells."""
    return float(
        np.abs(np.concatenate([f.reshape(-1) - t.reshape(-1) for f, t in zip(found, truths, strict=True)])).mean()
    )


def row(data: pg.Dataset, rule: str, seed: int) -> Iterator[str]:
    """One line of the table, cell by cell."""
    measurements = published(data, rule, np.random.default_rng(seed))
    singles = {m.clique: m for m in measurements if len(m.clique) == 1}
    pairs = [m for m in measurements if len(m.clique) == 2]
    truths = [data.project(m.clique).values for m in pairs]
    total = float(data.records)
    yield rule
    yield f"{error([middles(m) for m in pairs], truths):.2f}"
    fitted = pg.estimate(
        [pg.LinearMeasurement(middles(m), m.clique, 1.0) for m in measurements],
        data.domain,
        total=total,
        method="ipf",
        max_iterations=50,
    )
    yield f"{error([fitted.project(m.clique).values for m in pairs], truths):.2f}"
    start = time.perf_counter()
    model = pg.estimate(measurements, data.domain, total=total)
    seconds = time.perf_counter() - start
    yield f"{error([model.project(m.clique).values for m in pairs], truths):.2f}"
    whole = [nearest_whole(m, singles, data.domain.project(m.clique).shape) for m in pairs]
    yield f"{error(whole, truths):.2f}"
    exact = [data.project(clique).values for clique in UNPUBLISHED]
    yield f"{error([fitted.project(clique).values for clique in UNPUBLISHED], exact):.1f}"
    yield f"{error([model.project(clique).values for clique in UNPUBLISHED], exact):.1f}"
    yield f"{seconds:.2f}"
    compatible = TableBounds(measurements, data.domain, total=total)
    start = time.perf_counter()
    for cliques in (PAIRS, UNPUBLISHED):
        ends = [compatible.of(clique) for clique in cliques]
        low, high = (np.concatenate([getattr(one, end).datavector() for one in ends]) for end in ("low", "high"))
        truth = np.concatenate([data.project(clique).datavector() for clique in cliques])
        yield f"{np.mean((low <= truth) & (truth <= high)):.0%}"
        yield f"{np.mean(high - low):.1f}"
        yield f"{np.sum((high == low) & (truth > 0)):,}"
    yield f"{time.perf_counter() - start:.1f}"


def main() -> None:
    """Run all rules and write the table."""
    names = tuple(dict.fromkeys(name for pair in (*PAIRS, *UNPUBLISHED) for name in pair))
    data = load(DATA).select(names)
    columns = (
        *("rule", "as published", "IPF", "estimate", "whole numbers", "unpublished: IPF", "estimate", "seconds"),
        *("bounds hold", "width", "points", "unpublished: hold", "width", "points", "seconds"),
    )
    lines = [
        "# Published tables, reconstructed",
        "",
        f"Made by `python -m experiments.published_tables`; not edited. {DATA}, {data.records:,} records,",
        f"{len(PAIRS)} pairs of {len(names)} attributes and the totals of each attribute. Mean absolute errors of the",
        "pairs' cells; bounds of the same cells, and of pairs that were not published: how often they hold, their mean",
        "width, and how many cells that are not zero they reduce to a point, which are given away.",
        "",
        f"| {' | '.join(columns)} |",
        f"|---|{'---:|' * (len(columns) - 1)}",
    ]
    for seed, rule in enumerate(("rounded 3", "rounded 5", "suppressed")):
        lines.append(f"| {' | '.join(row(data, rule, seed))} |")
        print(lines[-1], flush=True)
    OUT.parent.mkdir(exist_ok=True)
    write_atomically(OUT, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
