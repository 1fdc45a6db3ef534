"""Measure coverage and width of default intervals of published tables, and of intervals about a population.

`python -m experiments.intervals` draws tables of records from a population, publishes them (rounded, suppressed, as
ranges, as percentages, with rounded totals beside noisy tables, exact), estimates a model, and asks `pg.interval` for
95 % intervals of several classes of answers. It writes experiments/results/intervals.{csv,md}.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.published_tables import random_rounding, suppressed
from pgmest._base.files import write_atomically

OUT = Path(__file__).parent / "results" / "intervals.md"
TRIALS = 20
RECORDS = 2_000
PAIRS = (("education-num", "marital-status"), ("marital-status", "sex"), ("sex", "race"))
CHAIN = (("education-num", "sex"), ("marital-status", "race"))
"""Pairs of attributes that are not published."""
NAMES = tuple(dict.fromkeys(name for pair in PAIRS for name in pair))
BASE, THRESHOLD, STDDEV = 5, 10, 5.0
RANGES = np.array([0, 1, 10, 25, 50, 100, 250, 500, 1_000, RECORDS + 1])
CLOSE = 1e-6
"""In counts; ends of intervals are rounded by less."""

Table = np.ndarray
Answer = pg.LinearMeasurement


def _singles(data: pg.Dataset) -> list[Answer]:
    return [Answer.exact(data.project(name).values, name) for name in NAMES]


def _each(make: Callable[[Table, tuple[str, ...]], Answer], data: pg.Dataset, singles: bool = True) -> list[Answer]:
    """Publish all pairs, and all attributes, in one way."""
    cliques = [*PAIRS, *((name,) for name in NAMES if singles)]
    return [make(data.project(clique).values, clique) for clique in cliques]


def rounded(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish tables and totals rounded to the nearest multiple."""
    return _each(lambda table, clique: Answer.rounded(BASE * np.floor(table / BASE + 0.5), clique, BASE), data)


def rounded_at_random(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish tables and totals rounded up or down at random."""
    return _each(
        lambda table, clique: Answer.rounded(random_rounding(table, BASE, generator), clique, BASE, random=True), data
    )


def hidden(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish tables whose small counts are suppressed, with complements, beside exact totals."""
    tables = _each(
        lambda table, clique: Answer.suppressed(suppressed(table), clique, THRESHOLD, least=1), data, singles=False
    )
    return [*tables, *_singles(data)]


def ranges(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish the range in which each count lies."""

    def make(table: Table, clique: tuple[str, ...]) -> Answer:
        place = np.searchsorted(RANGES, table, side="right")
        return Answer.between(RANGES[place - 1], RANGES[place] - 1, clique)

    return [*_each(make, data, singles=False), Answer.exact([data.records], ())]


def percentages(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish whole percentages of the totals of each row, and the totals."""

    def make(table: Table, clique: tuple[str, ...]) -> Answer:
        totals = table.sum(axis=1, keepdims=True)
        return Answer.percentages(np.round(100 * table / np.maximum(totals, 1)), clique, of=totals)

    return [*_each(make, data, singles=False), *_singles(data)]


def noisy(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish noisy tables."""
    return _each(
        lambda table, clique: Answer(table + generator.normal(0, STDDEV, table.shape), clique, STDDEV), data, False
    )


def noisy_and_rounded(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish noisy tables and rounded totals of attributes."""
    return [*noisy(data, generator), *(one for one in rounded(data, generator) if len(one.clique) == 1)]


def noisy_and_hidden(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish two noisy tables and one whose small counts are suppressed."""
    return [hidden(data, generator)[0], *noisy(data, generator)[1:]]


def exact(data: pg.Dataset, generator: np.random.Generator) -> list[Answer]:
    """Publish exact tables."""
    return _each(Answer.exact, data, singles=False)


CASES: tuple[tuple[Callable[..., list[Answer]], str], ...] = (
    *((make, "table") for make in (rounded, rounded_at_random, hidden, ranges, percentages)),
    *((make, "table") for make in (noisy_and_rounded, noisy_and_hidden)),
    *((make, "population") for make in (exact, rounded, hidden, noisy)),
)


def _mean_share(table: pg.Factor) -> np.ndarray:
    """Return the mean education of each marital status; NaN without records."""
    values = np.asarray(table.values)
    sums = values.sum(axis=0)
    return np.divide(np.arange(len(values)) @ values, sums, out=np.full(len(sums), np.nan), where=sums > 0)


def questions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield classes of answers, and their questions as arguments of `pg.interval`."""
    sizes = {"education-num": 16, "marital-status": 7, "sex": 2, "race": 5}
    for pair in PAIRS:
        yield "cells", {"query": pair}
    for name in NAMES:
        yield "attributes", {"query": (name,)}
    yield "prefix sums", {"query": pg.Kron({"education-num": pg.queries.prefix(16)})}
    for one, other in PAIRS:
        factors = {one: pg.queries.prefix(sizes[one]), other: pg.queries.identity(sizes[other])}
        yield "prefix sums", {"query": pg.Kron(factors)}
    generator = np.random.default_rng(5)
    for pair in PAIRS:
        cells = sizes[pair[0]] * sizes[pair[1]]
        yield "random sums", {"query": (generator.random((10, cells)) < 0.5).astype(float), "clique": pair}
        difference = np.zeros((10, cells))
        for row in difference:
            row[generator.choice(cells, 2, replace=False)] = 1.0, -1.0
        yield "differences", {"query": difference, "clique": pair}
    for code in range(sizes["marital-status"]):
        yield "given", {"query": "education-num", "given": {"marital-status": code}}
    yield "means", {"query": _mean_share, "clique": PAIRS[0]}
    for pair in CHAIN:
        yield "not published", {"query": pair}


def _truth(table: Any, question: dict[str, Any]) -> np.ndarray:
    """Return the true answer of a model of a table over all attributes."""
    query: Any = question["query"]
    clique, given = question.get("clique"), question.get("given")
    if isinstance(query, np.ndarray):
        return query @ table.project(clique).values.reshape(-1)
    if isinstance(query, pg.Kron):
        return query.apply(table.project(query.attributes))
    if clique is not None:
        return np.asarray(query(table.project(clique)))
    names = (query,) if isinstance(query, str) else query
    if given:
        ((other, code),) = given.items()
        return table.project((*names, other)).values[..., code]
    return table.project(names).values


def run(make: Callable[..., list[Answer]], about: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each class of answers."""
    whole = pg.datasets.load("census").select(NAMES)
    population = whole.project(NAMES)
    expected = pg.Factor(population.domain, population.values * (RECORDS / whole.records))
    held, widths, kinds = (defaultdict[str, list[Any]](list) for _ in range(3))
    for trial in range(TRIALS):
        generator = np.random.default_rng([trial, 2026])
        data = whole.take(generator.integers(0, whole.records, RECORDS))
        truth: Any = data if about == "table" else expected
        model = pg.estimate(make(data, generator), whole.domain)
        for name, question in questions():
            found = pg.interval(model, **question, about=about)
            low, high = (np.asarray(end.values).reshape(-1) for end in found)
            true = np.asarray(_truth(truth, question)).reshape(-1)
            some = np.isfinite(true)
            held[name].append(((low - CLOSE <= true) & (true <= high + CLOSE))[some])
            widths[name].append((high - low)[some])
            kinds[name].append(found.kind)
    for name, inside in held.items():
        yield {
            "published": make.__name__.replace("_", " "),
            "about": about,
            "answers": name,
            "kind": " and ".join(sorted(set(kinds[name]))),
            "number": sum(map(len, inside)),
            "held": float(np.concatenate(inside).mean()),
            "median width": float(np.median(np.concatenate(widths[name]))),
            "mean width": float(np.mean(np.concatenate(widths[name]))),
        }


def report(rows: pd.DataFrame) -> str:
    """Return the report as Markdown."""
    lines = [
        "# What default intervals of published tables hold",
        "",
        f"Made by `python -m experiments.intervals`; not edited. {TRIALS} draws of {RECORDS:,} records of the census,",
        f"{len(PAIRS)} pairs of {len(NAMES)} attributes, published in several ways. *Held* is the share of answers",
        "whose 95 % interval holds the truth: that of the table, or the expected one of the population.",
        "",
    ]
    for name, make in {make.__name__.replace("_", " "): make for make, _ in CASES}.items():
        lines.append(f"- *{name}*: {(make.__doc__ or '').strip()}")
    lines += [
        "",
        "*Random sums* are of half of a pair's cells, *differences* those of two cells, *given* counts of an attribute",
        "by a code of another, *means* one attribute's by another, *not published* cells of pairs that no table has.",
        "",
        "| published | about | answers | kind | held | median width | mean width |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for row in rows.to_dict("records"):
        lines.append(
            f"| {row['published']} | {row['about']} | {row['answers']} | {row['kind']} | {row['held']:.1%} "
            f"| {row['median width']:.1f} | {row['mean width']:.1f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Run all cases and write the tables."""
    rows = []
    for make, about in CASES:
        rows += run(make, about)
        print(make.__name__, about, f"{np.mean([row['held'] for row in rows]):.3f}", flush=True)
    table = pd.DataFrame(rows)
    write_atomically(OUT.with_suffix(".csv"), table.round(4).to_csv(index=False))
    write_atomically(OUT, report(table))


if __name__ == "__main__":
    main()
