"""The classes of answers whose intervals are judged, and their questions, drawn at random for each fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pgmest as pg
from pgmest.tables.domain import Clique

FEWEST_RECORDS = 100
"""Conditional means of fewer records than this are not judged: they are noise at most budgets."""

COMBINED, NAIVE = "regressions", "regressions, naive"
CLASSES = {
    "cells": "cells of pairs that were measured",
    "cells, unmeasured": "cells of pairs that were not measured",
    "prefixes": "prefix sums of one attribute",
    "prefixes of pairs": "prefix rectangles of two attributes, of pairs that were measured",
    "prefixes of pairs, unmeasured": "the same, of pairs that were not measured",
    "boxes": "random rectangles of codes, of pairs that were measured",
    "boxes, unmeasured": "the same, of pairs that were not measured",
    "triples": "cells of three attributes",
    "means": f"mean codes of one attribute given a code of another with {FEWEST_RECORDS} records, of measured pairs",
    "means, unmeasured": "the same, of pairs that were not measured",
    "slopes": "coefficients of regressions of codes, as functions of a table of three attributes",
    COMBINED: "coefficients of regressions of released records, joined over several tables by `combine`",
    NAIVE: "the same, of one released table, as if its records were real",
}
"""The classes of answers; the last two are about released records (`records.py`), the others about the model."""
UNMEASURED = (
    "cells, unmeasured",
    "prefixes of pairs, unmeasured",
    "boxes, unmeasured",
    "triples",
    "means, unmeasured",
    "slopes",
)
"""The classes about dependence that was not measured, or not all of it, whose intervals may be wider."""

MOST_QUESTIONS, MOST_CELLS, MOST_ANSWERS = 6, 20_000, 2_000
"""The marginals of a class, the cells of one, and the answers of a class that are judged, drawn at random."""
BOXES = 5
"""The ranges of each of the two attributes; the rectangles of a pair are their products."""


@dataclass(frozen=True)
class Question:
    """A question, its class, and a function of the table of a clique where it is no query."""

    kind: str
    query: Any
    clique: Clique | None = None

    def exact(self, source: Any) -> np.ndarray:
        """Return the answer of records, or of a model."""
        if self.clique is not None:
            return np.asarray(self.query(source.project(self.clique)), dtype=float)
        if isinstance(self.query, pg.Kron):
            return np.asarray(self.query.apply(source.project(self.query.attributes)), dtype=float)
        return source.project(self.query).values


def questions(domain: pg.Domain, cliques: Iterable[Iterable[str]], seed: int) -> Iterator[Question]:
    """Yield the questions about a model that was estimated from answers on these cliques."""
    generator, measured = np.random.default_rng([seed, len(domain)]), {frozenset(clique) for clique in cliques}
    names, pairs = domain.attributes, list(itertools.combinations(domain, 2))
    inside = [pair for pair in pairs if any(clique.issuperset(pair) for clique in measured)]
    outside = [pair for pair in pairs if pair not in set(inside)]
    for chosen, mark in ((inside, ""), (outside, ", unmeasured")):
        for pair in _some(domain, chosen, generator):
            yield Question(f"cells{mark}", pair)
            yield Question(f"prefixes of pairs{mark}", _product(domain, pair, pg.queries.prefix))
            yield Question(f"boxes{mark}", _product(domain, pair, lambda size: _ranges(size, generator)))
            yield Question(f"means{mark}", conditional_means, pair)
    for (name,) in _some(domain, [(name,) for name in names], generator):
        yield Question("prefixes", pg.Kron({name: pg.queries.prefix(domain[name])}))
    for triple in _some(domain, _triples(names, generator), generator):
        yield Question("triples", triple)
        for place in range(3):  # each attribute in turn is the outcome, the other two are the features
            yield Question("slopes", slopes, (*triple[place:], *triple[:place]))


def _some(domain: pg.Domain, cliques: Sequence[Clique], generator: np.random.Generator) -> list[Clique]:
    fitting = [clique for clique in cliques if 1 < domain.size(clique) <= MOST_CELLS]
    chosen = generator.permutation(len(fitting))[:MOST_QUESTIONS]
    return [fitting[place] for place in np.sort(chosen)]


def _triples(names: Clique, generator: np.random.Generator) -> list[Clique]:
    """Return a hundred triples at random, with repetitions where there are few; there may be a million of them."""
    if len(names) < 3:
        return []
    drawn = {tuple(sorted(generator.choice(len(names), 3, replace=False))) for _ in range(100)}
    return [tuple(names[place] for place in places) for places in sorted(drawn)]


def _product(domain: pg.Domain, pair: Clique, rows: Callable[[int], Any]) -> pg.Kron:
    return pg.Kron({name: rows(domain[name]) for name in pair})


def _ranges(size: int, generator: np.random.Generator) -> np.ndarray:
    """Return random ranges of codes as rows of zeros and ones, none of which holds all codes unless there is one."""
    rows = []
    for _ in range(BOXES):
        width = int(generator.integers(1, max(size, 2)))
        start = int(generator.integers(0, size - width + 1))
        rows.append((np.arange(size) >= start) & (np.arange(size) < start + width))
    return np.array(rows, dtype=float)


def conditional_means(table: pg.Factor) -> np.ndarray:
    """Return the mean code of the last attribute by the first one's; the middle where there are no records."""
    values = np.maximum(table.values, 0.0)
    codes, sums = np.arange(values.shape[1], dtype=float), values.sum(axis=1)
    return np.divide(values @ codes, sums, out=np.full(len(sums), codes.mean()), where=sums > 0)


def slopes(table: pg.Factor) -> np.ndarray:
    """Return the coefficients of the regression of the last attribute's code on the other codes, all standardized."""
    codes = np.indices(table.domain.shape).reshape(len(table.domain), -1).astype(float)
    weights = np.maximum(table.datavector(), 0.0) / max(float(np.maximum(table.values, 0.0).sum()), 1e-9)
    centered = codes - (codes @ weights)[:, None]
    covariance = (centered * weights) @ centered.T
    scale = np.sqrt(np.diag(covariance)) + 1e-9
    correlation = covariance / np.outer(scale, scale) + 1e-6 * np.eye(len(scale))
    return np.linalg.solve(correlation[:-1, :-1], correlation[:-1, -1])


def judged(question: Question, data: pg.Dataset, of_class: int, generator: np.random.Generator) -> np.ndarray:
    """Return the positions of the answers to judge, where `of_class` questions share the answers of a class."""
    places = np.arange(question.exact(data).size)
    if question.clique and question.query is conditional_means:
        places = np.flatnonzero(data.project(question.clique[:1]).values >= FEWEST_RECORDS)
    most = -(-MOST_ANSWERS // of_class)
    return np.sort(generator.permutation(places)[:most]) if len(places) > most else places
