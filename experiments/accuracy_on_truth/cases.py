"""The cases: tables, measured marginals, noise levels, and the true marginals that estimates are scored on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.data import load
from experiments.problems import adult14_nine, adult14_pairs
from pgmest.data.dataset import Dataset
from pgmest.graph.junction_tree import JunctionTree
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.simulation import simulate_measurements
from pgmest.tables.domain import Clique, Domain

MOST_CELLS = 10_000
"""Unmeasured marginals of more cells are not scored."""

TRIPLES = 20
TREE_CELLS = 30_000
_LOANS = (
    *("grade", "term", "home_ownership", "verification_status", "loan_status", "purpose", "emp_length", "addr_state"),
    *("inq_last_6mths", "sub_grade", "pub_rec", "delinq_2yrs"),
)


@dataclass(frozen=True)
class Case:
    """Marginals of one table to be measured, and the noise levels to try.

    Attributes:
        name: short; it labels rows and panels.
        data: the records.
        cliques: the measured marginals.
        stddevs: of the noise on each cell, counts.
    """

    name: str
    data: Dataset
    cliques: tuple[Clique, ...]
    stddevs: tuple[float, ...]

    @property
    def domain(self) -> Domain:
        return self.data.domain

    def measurements(self, stddev: float, seed: int) -> list[LinearMeasurement]:
        return simulate_measurements(self.data, self.cliques, stddev, np.random.default_rng(seed))

    @cached_property
    def pairs(self) -> list[Clique]:
        """Every unmeasured two-way marginal of at most MOST_CELLS cells."""
        return [pair for pair in itertools.combinations(self.domain, 2) if self._to_score(pair)]

    @cached_property
    def triples(self) -> list[Clique]:
        """Some unmeasured three-way marginals of at most MOST_CELLS cells."""
        every = [triple for triple in itertools.combinations(self.domain, 3) if self._to_score(triple)]
        chosen = np.random.default_rng(0).choice(len(every), min(TRIPLES, len(every)), replace=False)
        return [every[i] for i in sorted(chosen)]

    def _to_score(self, clique: Clique) -> bool:
        measured = any(set(clique) <= set(other) for other in self.cliques)
        return not measured and self.domain.size(clique) <= MOST_CELLS

    def true_counts(self, cliques: Iterable[Clique]) -> list[np.ndarray]:
        return [factor.values for factor in self.data.project_many(cliques)]


def all_cases() -> list[Case]:
    """Seven cases from six tables. Noise levels follow the number of records where that is far from Adult's."""
    adult, usual = load("adult14"), (1.0, 10.0, 50.0, 200.0)
    return [
        Case("adult14 pairs", adult, adult14_pairs().cliques, usual),
        Case("adult14 nine triples", adult, adult14_nine().cliques, usual),
        _dependent_pairs("fire", load("fire"), 25, (10.0, 50.0, 200.0, 1000.0)),
        _dependent_pairs("titanic", load("titanic"), 15, (0.3, 1.0, 5.0, 20.0)),
        _dependent_pairs("BR2000", load("BR2000"), 25, usual),
        _dependent_pairs("acs-ipums23", load("acs-ipums23"), 40, usual),
        _dependent_pairs("loans, 12 attributes", load("loans").select(_LOANS), 20, usual),
    ]


def _dependent_pairs(name: str, data: Dataset, pairs: int, stddevs: tuple[float, ...]) -> Case:
    """All one-way marginals and the pairs of largest mutual information that keep the junction tree small."""
    candidates = [pair for pair in itertools.combinations(data.domain, 2) if data.domain.size(pair) <= MOST_CELLS]
    information = [_mutual_information(factor.values) for factor in data.project_many(candidates)]
    chosen: list[Clique] = [(attribute,) for attribute in data.domain]
    wanted = len(chosen) + pairs
    for i in np.argsort(information)[::-1]:
        if JunctionTree.from_cliques(data.domain, [*chosen, candidates[i]]).total_cells <= TREE_CELLS:
            chosen.append(candidates[i])
        if len(chosen) == wanted:
            break
    return Case(name, data, tuple(chosen), stddevs)


def _mutual_information(counts: np.ndarray) -> float:
    joint = counts / counts.sum()
    independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    seen = joint > 0
    return float(np.sum(joint[seen] * np.log(joint[seen] / independent[seen])))
