"""Measure coverage and width of default intervals of published tables, and of intervals about a population.

`python -m experiments.intervals` draws tables of records from a population, publishes them (rounded, suppressed, as
ranges, as percentages, with rounded totals beside noisy tables, exact), estimates a model, and asks `pg.interval` for
95 % intervals of several classes of answers. It writes experiments/results/intervals.{csv,md}.
"""

from __future__ import annotations

import argparse
import time
import warnings
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
    """Return the mean education of each marital status."""
    values = np.asarray(table.values)
    return (np.arange(len(values)) @ values) / np.maximum(values.sum(axis=0), 1e-9)


def questions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield classes of answers, and their questions as arguments of `pg.interval`."""
    sizes = {"education-num": 16, "marital-status": 7, "sex": 2, "race": 5}
    for pair in PAIRS:
        yield "cells", {"query": pair}
    for name in NAMES:
        yield "attributes", {"query": (name,)}
    yield "prefix sums", {"query": pg.Kron({"education-num": pg.queries.prefix(16)})}
    for pair in PAIRS:
        yield "prefix sums", {"query": pg.Kron({pair[0]: pg.queries.prefix(sizes[pair[0]]), pair[1]: pg.queries.identity(sizes[pair[1]])})}
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
    query, clique, given = question["query"], question.get("clique"), question.get("given")
    if callable(query) and clique is not None:
        return np.asarray(query(table.project(clique)))
    if isinstance(query, np.ndarray):
        return query @ table.project(clique).values.reshape(-1)
    if isinstance(query, pg.Kron):
        return query.apply(table.project(query.attributes))
    names = (query,) if isinstance(query, str) else query
    if given:
        ((other, code),) = given.items()
        return table.project((*names, other)).values[..., code]
    return table.project(names).values


def run(make: Callable[..., list[Answer]], about: str, kinds: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield a row for each class of answers and kind of interval."""
    whole = pg.datasets.load("census").select(NAMES)
    population = whole.project(NAMES)
    expected = pg.Factor(population.domain, population.values * (RECORDS / whole.records))
    held, widths, chosen, seconds = (defaultdict[tuple[str, str], list[Any]](list) for _ in range(4))
    for trial in range(TRIALS):
        generator = np.random.default_rng([trial, 2026])
        data = whole.take(generator.integers(0, whole.records, RECORDS))
        truth: Any = data if about == "table" else expected
        model = pg.estimate(make(data, generator), whole.domain)
        for kind in kinds:
            for name, question in questions():
                if name == "means" and kind == "bounds":
                    continue
                started = time.perf_counter()
                found = pg.interval(model, **question, kind=kind, about=about)
                seconds[name, kind].append(time.perf_counter() - started)
                low, high = (np.asarray(end.values).reshape(-1) for end in found)
                true = np.asarray(_truth(truth, question)).reshape(-1)
                held[name, kind].append((low - CLOSE <= true) & (true <= high + CLOSE))
                widths[name, kind].append(high - low)
                chosen[name, kind].append(found.kind)
    for name, kind in held:
        yield {
            "published": make.__name__,
            "about": about,
            "answers": name,
            "kind": kind,
            "chosen": "+".join(sorted(set(chosen[name, kind]))),
            "number": sum(map(len, held[name, kind])),
            "held": float(np.concatenate(held[name, kind]).mean()),
            "median width": float(np.median(np.concatenate(widths[name, kind]))),
            "mean width": float(np.mean(np.concatenate(widths[name, kind]))),
            "seconds": float(np.sum(seconds[name, kind])) / TRIALS,
        }
