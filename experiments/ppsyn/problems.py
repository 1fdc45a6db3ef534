"""Define the problems of PPSyn's section 5: tables, workloads and ranges, drawn once with a fixed seed."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.data import load
from pgmest.data.dataset import Dataset
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Workload, random_kway

TABLES = ("adult14", "BR2000", "loans")
"""ADULT is the version with 14 attributes: its hours-per-week has the 99 cells of the paper's Example 2."""

TARGETS = {"adult14": "income>50K", "BR2000": "a13"}
"""The attribute that the support vector machine predicts."""

MARGINALS, MAX_CELLS = 64, 10_000
"""The number of random marginals, and their largest size; the paper states neither."""

COMBINATIONS = {3: 210, 5: 37}
"""The combinations of attributes that ranges are asked about, as in the paper."""

FEW = 10
"""A range with fewer records says little about a mechanism."""

BOXES = 10
"""Ranges for each combination; the paper does not say how many."""

SEED = 0


@dataclass(frozen=True, eq=False)
class Range:
    """A box: codes low[i] <= code < high[i] of attribute i."""

    clique: Clique
    low: tuple[int, ...]
    high: tuple[int, ...]

    def fraction(self, data: Dataset) -> float:
        """The share of the records inside."""
        inside = np.ones(data.records, dtype=bool)
        for name, low, high in zip(self.clique, self.low, self.high, strict=True):
            column = data.column(name)
            inside &= (column >= low) & (column < high)
        return float(inside.mean())


def table(name: str) -> Dataset:
    """All records and attributes."""
    return load(name)


@functools.cache
def workload(name: str, d: int, marginals: int = MARGINALS, max_cells: float = MAX_CELLS) -> Workload:
    """Random d-way marginals of at most `max_cells` cells, each attribute equally likely (section 5.1.1)."""
    domain = table(name).domain
    possible = math.comb(len(domain), d)
    return random_kway(domain, d, min(marginals, possible), seed=SEED, max_cells=max_cells)


@functools.cache
def ranges(name: str, attributes: int, seed: int = SEED) -> tuple[Range, ...]:
    """Random boxes about random combinations of attributes, drawn by weights that are squared exponential numbers."""
    domain, rng = table(name).domain, np.random.default_rng(seed)
    cliques = weighted_combinations(domain, attributes, COMBINATIONS[attributes], rng)
    return tuple(random_box(domain, clique, rng) for clique in cliques for _ in range(BOXES))


def weighted_combinations(domain: Domain, k: int, count: int, rng: np.random.Generator) -> Sequence[Clique]:
    """Different sets of k attributes, each attribute with a probability proportional to its weight."""
    weights = rng.exponential(size=len(domain)) ** 2
    found: dict[Clique, None] = {}
    while len(found) < min(count, math.comb(len(domain), k)):
        places = np.sort(rng.choice(len(domain), k, replace=False, p=weights / weights.sum()))
        found[tuple(domain.attributes[place] for place in places)] = None
        weights = weights * 0.999 + 1e-3 * weights.max()  # rare attributes come in where the likely sets are used up
    return list(found)


def random_box(domain: Domain, clique: Clique, rng: np.random.Generator) -> Range:
    """Two different cut points for each attribute, all equally likely."""
    ends = [np.sort(rng.choice(domain[name] + 1, 2, replace=False)) for name in clique]
    return Range(clique, tuple(int(low) for low, _ in ends), tuple(int(high) for _, high in ends))
