"""What Figure 1 compares: four tables, their workloads, and four mechanisms, each with and without PGM."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import pgmest
from experiments.data import find, load
from pgmest._base.errors import PgmestError
from pgmest.evaluation.workload_error import workload_error
from pgmest.graph.junction_tree import JunctionTree
from pgmest.privacy import Replace
from pgmest.queries.workloads import Workload, extended_triples, random_triples
from pgmest.tables.domain import Domain

DATASETS = ("titanic", "adult", "loans", "stroke")
ESTIMATORS = ("original", "pgm")
NUMERIC_FROM = 48
"""Attributes with at least so many values are taken for binned numbers, except those of names and codes below."""
CODES = {"zip_code", "addr_state", "HOSPNUM", "DMAJNCHX", "DSIDEX", "DNOSTRKX", "DDEADX", "FDEADX", "DDEADC", "FDEADC"}
NUMERIC = {
    "adult": ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week"),
    "titanic": ("Age", "Fare"),
}
TREE_CELLS = 2_000_000
"""Of the random workloads of a table, the first whose junction tree has at most so many cells (16 MB) is used."""

MECHANISMS: dict[str, dict[str, Any]] = {
    "MWEM": {"epsilon": 1.0, "rounds": 15},
    "PrivBayes": {"epsilon": 1.0},
    "HDMM": {"epsilon": 1.0},
    "DualQuery": {"epsilon": 1.0, "delta": 1e-3, "neighbors": Replace()},
}
"""DualQuery's number of records is public, as in its paper; the others pay for it or do without."""

PAPER = {
    "MWEM": dict.fromkeys(DATASETS),
    "PrivBayes": {"titanic": None, "adult": 1.3, "loans": 6.0, "stroke": 7.0},
    "HDMM": {"titanic": 6.6, "adult": 3.2, "loans": 27.0, "stroke": 6.3},
    "DualQuery": {"titanic": 1.2, "adult": 1.8, "loans": 3.5, "stroke": 4.4},
}
"""By what factor PGM lowered the workload error in the paper; None where the paper gives no number. Its four numbers
for HDMM and for DualQuery are read in the order titanic, adult, loans, stroke."""


@functools.cache
def workload_of(dataset: str) -> tuple[Workload, int]:
    """The extended workload, 15 random triples with prefix sums on numeric attributes, and its seed."""
    domain = Domain.load(find(dataset) / "domain.json")
    numeric = NUMERIC.get(dataset) or [name for name in domain if domain[name] >= NUMERIC_FROM and name not in CODES]
    for seed in itertools.count():
        tree = JunctionTree.from_cliques(domain, random_triples(domain, 15, seed).cliques)
        if tree.total_cells <= TREE_CELLS:
            return extended_triples(domain, numeric, 15, seed), seed
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class Cell:
    """One run of one mechanism on one table."""

    dataset: str
    mechanism: str
    estimator: str
    trial: int
    epsilon: float = 1.0

    @property
    def name(self) -> str:
        """Short and unique; it names the file of the result."""
        return f"{self.dataset}-{self.mechanism}-{self.estimator}-{self.epsilon:g}-{self.trial}"

    @property
    def available(self) -> bool:
        """Whether this version of pgmest has the mechanism."""
        return self.mechanism in pgmest.mechanisms.MECHANISMS

    def row(self) -> dict[str, Any]:
        """Run it, and say how far off it is: one line of the table.

        The error is the average over triples of ||W (x - x')||_1 / (2 ||W x||_1), a total variation distance on plain
        marginals. Half of what the script published with the paper prints; ratios are the same.
        """
        data, (workload, seed) = load(self.dataset), workload_of(self.dataset)
        options = {**MECHANISMS[self.mechanism], "epsilon": self.epsilon}
        kind = getattr(pgmest.mechanisms, self.mechanism)
        mechanism = kind(**options, estimator=self.estimator, backend="simulation")
        row = {**self.__dict__, "workload_seed": seed}
        try:
            result = mechanism.fit(data, workload, seed=self.trial, progress=False)
            error = workload_error(data, result, workload, norm="tv", per="answer")
        except (PgmestError, MemoryError) as failure:
            return {**row, "error": None, "seconds": None, "note": f"{type(failure).__name__}: {failure}"[:200]}
        return {**row, "error": error, "seconds": result.owner_only.seconds, "note": ""}
