"""Measure what error bars cover: `Model.uncertainty` on tables whose truth is known.

`python -m experiments.coverage` measures marginals of some tables with noise, several times over, estimates, asks for
95 % intervals, and counts how often these hold the true count. It writes experiments/results/coverage.md.

`python -m experiments.coverage mechanisms` does the same for the default intervals (`Model.interval`) of what
mechanisms measured, and writes experiments/results/coverage_mechanisms.md.

Two kinds of truth. A *table* is a data set; its attributes depend on each other in ways that were not measured. A
*model* is one that was fitted to the same marginals of the same data set, and its own answers are the truth: then
nothing is wrong with the structure, and all that remains is noise.

For comparison the measured cells have intervals by the delta method, too: those of least squares under the constraints
that the marginals agree with each other, exact for an estimate that is linear in the answers.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pgmest as pg
from experiments.data import load
from pgmest._base.files import write_atomically
from pgmest.models.uncertainty import Uncertainty, redraw

OUT = Path(__file__).parent / "results" / "coverage.md"
TRIALS = 6
REPLICATES = 50
REACH = 1.959964  # of a 95 % interval, in standard errors
CLOSE = 1e-6  # counts; ends of intervals are rounded by less

_CENSUS_PAIRS = (
    *(("education-num", "occupation"), ("marital-status", "sex"), ("occupation", "sex")),
    *(("marital-status", "income>50K"), ("education-num", "income>50K")),
)
_SPARSE_PAIRS = (("age", "occupation"), ("hours-per-week", "occupation"), ("age", "relationship"))
_LOANS_PAIRS = (
    *(("grade", "term"), ("grade", "purpose"), ("term", "loan_status")),
    *(("home_ownership", "emp_length"), ("home_ownership", "purpose"), ("loan_status", "grade")),
)


@dataclass(frozen=True)
class Case:
    """A setting: the measurements and questions, and the kind and size of the noise.

    Attributes:
        table: the name of the data, of whose attributes `pairs` names some.
        pairs: the marginals to measure.
        unmeasured: the marginals that are asked for besides.
        stddev: of the noise, counts.
        exact_structure: whether the truth is a model on the measured marginals, rather than the table.
        settings: further arguments of `pg.estimate`, and "noise".
    """

    table: str
    pairs: tuple[tuple[str, ...], ...]
    unmeasured: tuple[tuple[str, ...], ...]
    stddev: float
    exact_structure: bool = False
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for clique in self.pairs for name in clique))


def cases() -> Iterator[Case]:
    """All cases, in the order of the table."""
    census = (_CENSUS_PAIRS, (("education-num", "marital-status"), ("occupation", "income>50K")))
    sparse = (_SPARSE_PAIRS, (("hours-per-week", "relationship"),))
    loans = (_LOANS_PAIRS, (("grade", "emp_length"), ("purpose", "loan_status")))
    for name, (pairs, unmeasured), stddevs in (
        ("census", census, (3.0, 30.0, 150.0)),
        ("census, sparse", sparse, (3.0, 30.0)),
        ("loans", loans, (5.0, 100.0)),
    ):
        for stddev in stddevs:
            yield Case(name, pairs, unmeasured, stddev)
            yield Case(name, pairs, unmeasured, stddev, exact_structure=True)
    yield Case("census", *census, 30.0, settings=(("total", "known"),))
    yield Case("census", *census, 30.0, settings=(("noise", "laplace"),))
    yield Case("census", *census, 30.0, settings=(("noise", "laplace"), ("loss", "l1")))
    yield Case("census", *census, 30.0, settings=(("method", "mirror_flow"),))
    yield Case("census", *census, 30.0, exact_structure=True, settings=(("method", "mirror_flow"),))
    yield Case("loans", *loans, 100.0, settings=(("method", "mirror_flow"),))


@cache
def table(name: str, names: tuple[str, ...]) -> pg.Dataset:
    """The data of a case."""
    data = pg.datasets.load("census") if name.startswith("census") else load(name)
    return data.select(names)


@cache
def fitted(name: str, pairs: tuple[tuple[str, ...], ...]) -> pg.Model:
    """A model with almost the table's own marginals on the pairs, but no other structure."""
    data = table(name, tuple(dict.fromkeys(attribute for clique in pairs for attribute in clique)))
    exact = [pg.LinearMeasurement(data.project(clique), clique, 1.0) for clique in pairs]
    return pg.estimate(exact, data.domain)


@cache
def linear_shares(domain: pg.Domain, pairs: tuple[tuple[str, ...], ...]) -> list[np.ndarray]:
    """The standard errors of the measured cells by least squares, as shares of the noise's standard deviation.

    The constraints: whatever two marginals share, and the total, is the same in both. What they fix of the noise, an
    orthogonal projection of all cells, is taken out of it.
    """
    stops = np.cumsum([0, *(domain.size(clique) for clique in pairs)])

    def sums(position: int, names: tuple[str, ...]) -> np.ndarray:
        clique, shape = pairs[position], domain.project(pairs[position]).shape
        found = np.zeros((domain.size(names), stops[-1]))
        codes = dict(zip(clique, np.indices(shape).reshape(len(shape), -1), strict=True))
        row = np.zeros(int(np.prod(shape)), dtype=np.int64)
        for name in names:
            row = row * domain[name] + codes[name]
        found[row, np.arange(stops[position], stops[position + 1])] = 1.0
        return found

    both = [
        (i, j, tuple(n for n in pairs[i] if n in pairs[j])) for i, j in itertools.combinations(range(len(pairs)), 2)
    ]
    _, scale, rows = np.linalg.svd(np.vstack([sums(i, n) - sums(j, n) for i, j, n in both]), full_matrices=False)
    fixed = np.sum(rows[scale > 1e-9] ** 2, axis=0)
    return np.split(np.sqrt(np.maximum(1.0 - fixed, 0.0)), stops[1:-1])


@dataclass
class Score:
    """Sums over trials and cells: intervals, those that hold the truth, their widths, and those of raw noise."""

    cells: int = 0
    covered: int = 0
    width: float = 0.0
    raw_width: float = 0.0

    def add(self, truth: np.ndarray, found: Uncertainty, raw_stddev: np.ndarray | float) -> None:
        low, high = (end.datavector() for end in found.interval(0.95))
        self.add_intervals(truth, low, high, raw_stddev)

    def add_intervals(
        self, truth: np.ndarray, low: np.ndarray, high: np.ndarray, raw_stddev: np.ndarray | float
    ) -> None:
        self.cells += truth.size
        self.covered += int(np.count_nonzero((truth >= low - CLOSE) & (truth <= high + CLOSE)))
        self.width += float(np.sum(high - low))
        self.raw_width += float(np.sum(np.broadcast_to(2 * REACH * raw_stddev, truth.shape)))

    @property
    def share(self) -> float:
        return self.covered / self.cells

    def __str__(self) -> str:
        return f"{self.share:.1%} | {self.width / self.raw_width:.2f}"


def run(case: Case) -> tuple[dict[str, Score], float]:
    """Scores by kind of question, and the seconds that error bars took in each trial."""
    settings = dict(case.settings)
    noise = settings.pop("noise", "gaussian")
    truth: Any = fitted(case.table, case.pairs) if case.exact_structure else table(case.table, case.names)
    domain = truth.domain
    if settings.get("total") == "known":
        settings["total"] = truth.total
    first, other = case.pairs[0]
    prefix = pg.Kron({first: pg.queries.prefix(domain[first])})
    summed = case.stddev * np.sqrt(domain[other] * np.arange(1, domain[first] + 1))
    scores: dict[str, Score] = {kind: Score() for kind in ("measured", "delta", "prefix", "unmeasured")}
    linear, seconds = linear_shares(domain, case.pairs), 0.0
    for trial in range(TRIALS):
        generator = np.random.default_rng([trial, 2024])
        measured = [
            redraw(pg.LinearMeasurement(exact, clique, case.stddev, noise=noise), exact, generator)
            for clique in case.pairs
            for exact in [truth.project(clique).datavector()]
        ]
        model = pg.estimate(measured, domain, **settings)
        start = time.perf_counter()
        for kind, cliques in (("measured", case.pairs), ("unmeasured", case.unmeasured)):
            for clique in cliques:
                exact, found = truth.project(clique).datavector(), model.uncertainty(clique, replicates=REPLICATES)
                scores[kind].add(exact, found, case.stddev)
        seconds += time.perf_counter() - start
        for clique, shares in zip(case.pairs, linear, strict=True):
            exact, answer = truth.project(clique).datavector(), model.project(clique).datavector()
            reach = REACH * case.stddev * shares
            scores["delta"].add_intervals(exact, answer - reach, answer + reach, case.stddev)
        found = model.uncertainty(prefix, replicates=REPLICATES)
        scores["prefix"].add(prefix.apply(truth.project((first,))), found, summed)
    return scores, seconds / TRIALS


def row(case: Case) -> str:
    """One line of the table."""
    scores, seconds = run(case)
    options = ", ".join(f"{name} {value}" for name, value in case.settings)
    return (
        f"| {case.table} | {'model' if case.exact_structure else 'table'} | {case.stddev:g} | {options} "
        f"| {' | '.join(map(str, scores.values()))} | {seconds:.1f} |"
    )


def main() -> None:
    """Run all cases and write the table; with "mechanisms" as argument those of `coverage_of_mechanisms`."""
    if "mechanisms" in sys.argv[1:]:
        from experiments.coverage_of_mechanisms import command

        return command.main()
    lines = [
        "# What 95 % intervals cover",
        "",
        f"Made by `python -m experiments.coverage`; not edited. {TRIALS} draws of the noise, {REPLICATES} replicates",
        "of each. Shares of cells whose interval holds the truth, and the mean width of the intervals against that of",
        "intervals of the raw noise: of a measured cell, and for prefixes of the sum of the cells that make one up.",
        "",
        "- *Truth*: a *table*, whose structure was not all measured, or a *model* on the measured pairs, lacking none.",
        "- *By delta*: the measured cells, with standard errors of the delta method, which takes the estimate for",
        "  linear in the answers.",
        "- *Prefix*: cumulative counts of one attribute, which was measured in pairs only.",
        "- *Unmeasured*: pairs of attributes that were not measured. Where the truth is a table, most of what they are",
        "  off by is not noise, and error bars do not show it.",
        "- *Seconds*: of the first question, the replicates included, and of all others.",
        "",
        "| data | truth | stddev | settings | measured | width | by delta | width | prefix | width "
        "| unmeasured | width | seconds |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in cases():
        lines.append(row(case))
        print(lines[-1], flush=True)
    OUT.parent.mkdir(exist_ok=True)
    write_atomically(OUT, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
