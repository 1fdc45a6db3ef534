"""Define the questions of the comparisons: all pairs, triples, and prefix sums of pairs, and how wrong its answers are.

A workload is drawn from the domain alone, with a fixed seed, so that every mechanism is judged by the same questions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

import pgmest as pg
from pgmest.data.dataset import Dataset
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

NAMES = ("pairs", "triples", "prefixes")
MOST_CELLS = 10_000
"""Marginals with more cells are not asked for."""
MOST_PAIRS, MOST_TRIPLES = 1_000, 200
"""The number of marginals to draw if a table has more of them."""
ORDERED_FROM = 9
"""Attributes with so many values or more are taken as ordered, by their codes, and asked for by prefix sums. The tables
do not say which attributes are numeric; this rule is the same for all of them."""


@cache
def cliques(domain: Domain, size: int) -> list[Clique]:
    """The marginals of so many attributes that are asked for."""
    most = MOST_PAIRS if size == 2 else MOST_TRIPLES
    sizes = np.array(domain.shape, dtype=float)
    every = np.array(list(itertools.combinations(range(len(domain)), size)))
    allowed = every[np.prod(sizes[every], axis=1) <= MOST_CELLS]
    if len(allowed) > most:
        chosen = np.random.default_rng(0).choice(len(allowed), most, replace=False)
        allowed = allowed[np.sort(chosen)]
    return [tuple(domain.attributes[place] for place in row) for row in allowed]


def asked(domain: Domain, workload: str) -> Any:
    """The workload that a mechanism is given: None for all pairs, else a `pgmest.workloads.Workload`."""
    if workload == "triples":
        return pg.workloads.marginals(cliques(domain, 3))
    if workload == "prefixes":
        return pg.workloads.prefixes(domain, _ordered_pairs(domain), ordered(domain))
    return None


def ordered(domain: Domain) -> list[str]:
    """The attributes that are asked for by prefix sums."""
    return [name for name in domain if domain[name] >= ORDERED_FROM]


def _ordered_pairs(domain: Domain) -> list[Clique]:
    numeric = set(ordered(domain))
    return [pair for pair in cliques(domain, 2) if numeric.intersection(pair)]


def errors(data: Dataset, source: Any) -> dict[str, float]:
    """The average errors of a model, of records or of any other source of marginals, as fractions of the records.

    `error` and `triples` are total variation distances. `prefixes` is the error of "this value of the one, at most that
    of the other": half the sum over the values of attributes that are not ordered, averaged over the prefixes of those
    that are. NaN where nothing is asked for.
    """
    pairs, triples = cliques(data.domain, 2), cliques(data.domain, 3)
    numeric = ordered(data.domain)
    truth, found = data.project_many(pairs), _answers(source, pairs)
    prefixes = [
        _prefix_error(true, mine, numeric)
        for true, mine in zip(truth, found, strict=True)
        if set(numeric).intersection(true.domain)
    ]
    of_triples = zip(data.project_many(triples), _answers(source, triples), strict=True)
    return {
        "error": _mean(itertools.starmap(total_variation, zip(truth, found, strict=True))),
        "triples": _mean(itertools.starmap(total_variation, of_triples)),
        "prefixes": _mean(prefixes),
    }


def error(data: Dataset, source: Any) -> float:
    """The average total variation distance of pairs, alone."""
    pairs = cliques(data.domain, 2)
    both = zip(data.project_many(pairs), _answers(source, pairs), strict=True)
    return _mean(itertools.starmap(total_variation, both))


def _mean(values: Iterable[float]) -> float:
    every = list(values)
    return float(np.mean(every)) if every else float("nan")


def _answers(source: Any, wanted: list[Clique]) -> list[Factor]:
    many: Callable[[list[Clique]], list[Factor]] | None = getattr(source, "project_many", None)
    return [_clipped(table) for table in (many(wanted) if many else map(source.project, wanted))]


def _clipped(table: Factor) -> Factor:
    """Without the negative counts that least squares has, which are no part of a distribution: at 0, and the others
    scaled to the total that the table had. Without that the distance would not be one of total variation."""
    if not (table.values < 0).any():
        return table
    total, positive = float(table.values.sum()), np.maximum(table.values, 0.0)
    return Factor(table.domain, positive * (max(total, 0.0) / positive.sum() if positive.any() else 0.0))


def _prefix_error(true: Factor, mine: Factor, numeric: list[str]) -> float:
    difference = true.values - mine.transpose(true.domain.attributes).values
    prefixes = 1
    for axis, name in enumerate(true.domain):
        if name in numeric:
            difference = difference.cumsum(axis=axis)
            prefixes *= true.domain[name]
    whole = 1.0 if len(true.domain) == sum(name in numeric for name in true.domain) else 0.5
    return whole * float(np.abs(difference).sum()) / prefixes / float(true.values.sum())
