"""The four problems of PGM section 5.1: a table, 15 sets of three attributes, prefix queries on the numeric ones.

For Adult the triples are those of the authors' published code: 62,876 queries, as in the paper's Table 1. Those for the
other tables are not published. Here they are drawn at random and exchanged at random, one for another, as long as that
brings the number of queries nearer to the paper's; the first such draw within 1 % of it whose junction tree fits in
`TREE_CELLS` is used. Random triples as they come would have many times as many queries: whatever the paper drew from,
its triples were of small attributes. Those of stroke had few attributes in common, for plain MWEM ran there; here no
connected set of them may have more than `COMPONENT_CELLS`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from experiments.data import find, load
from experiments.problems import adult14_fifteen
from pgmest.data.dataset import Dataset
from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.workloads import Projectable, Workload, prefixes

DATASETS = ("titanic", "adult", "loans", "stroke")
TABLES = {"titanic": "titanic", "adult": "adult14", "loans": "loans", "stroke": "stroke"}
PAPER_QUERIES = {"titanic": 4851, "adult": 62876, "loans": 362201, "stroke": 17716}
PAPER_RECORDS = {"titanic": 1304, "adult": 48842, "loans": 42535, "stroke": 19434}
TRIPLES, NEAR, TREE_CELLS = 15, 0.01, 1_500_000
COMPONENT_CELLS = {"stroke": 50_000}

NUMERIC_FROM = 48
"""Attributes with at least so many values are taken for binned numbers, except those of names and codes below."""
CODES = {"zip_code", "addr_state", "HOSPNUM", "DMAJNCHX", "DSIDEX", "DNOSTRKX", "DDEADX", "FDEADX", "DDEADC", "FDEADC"}
NUMERIC = {
    "adult": ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week"),
    "titanic": ("Age", "Fare"),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """One of the four.

    Attributes:
        name: of the table in the paper.
        domain: its attributes.
        numeric: those asked for by prefix sums.
        workload: an item for each triple.
        tree_cells: of the triples' junction tree.
        source: loads the records.
    """

    name: str
    domain: Domain
    numeric: tuple[str, ...]
    workload: Workload
    tree_cells: int
    source: Callable[[], Dataset]

    @functools.cached_property
    def data(self) -> Dataset:
        """The records."""
        return self.source()

    @property
    def queries(self) -> int:
        """The number of queries; the paper's Table 1."""
        return self.workload.rows(self.domain)

    def error(self, estimated: Projectable) -> float:
        """The paper's error: the mean over triples of ||W (x - x')||_1 / (2 ||W x||_1)."""
        return self.error_of([item.answer(estimated.project(item.clique)) for item in self.workload])

    def error_of(self, answers: list[np.ndarray]) -> float:
        """The same, of the answers to each item."""
        pairs = zip(self.truth, answers, strict=True)
        return float(np.mean([np.abs(true - mine).sum() / (2 * np.abs(true).sum()) for true, mine in pairs]))

    @functools.cached_property
    def truth(self) -> list[np.ndarray]:
        """The true answers to each item, in counts."""
        return [item.answer(self.data.project(item.clique)) for item in self.workload]

    @property
    def uniform_error(self) -> float:
        """The error of a table in which every record is as likely: what knows nothing but N."""
        answers = []
        for item in self.workload:
            triple = self.domain.project(item.clique)
            answers.append(item.answer(Factor(triple, np.full(triple.shape, self.data.records / triple.size()))))
        return self.error_of(answers)


@functools.cache
def problem(name: str, draw: int = 0) -> Problem:
    """The problem on one table; another `draw` has other triples, except on Adult, whose triples are known."""
    domain = Domain.load(find(TABLES[name]) / "domain.json")
    numeric = NUMERIC.get(name) or tuple(n for n in domain if domain[n] >= NUMERIC_FROM and n not in CODES)
    triples = adult14_fifteen().cliques if name == "adult" else near_triples(domain, name, draw)
    tree = JunctionTree.from_cliques(domain, triples)
    source = functools.partial(load, TABLES[name])
    return Problem(name, domain, numeric, prefixes(domain, triples, numeric), int(tree.total_cells), source)


def near_triples(domain: Domain, name: str, draw: int = 0) -> tuple[Clique, ...]:
    """Fifteen random triples with about the paper's number of queries and a small junction tree; see the top."""
    for seed in range(100_000):
        triples = _exchanged(domain, PAPER_QUERIES[name], np.random.default_rng(seed))
        if not triples or largest_component(domain, triples) > COMPONENT_CELLS.get(name, math.inf):
            continue
        if JunctionTree.from_cliques(domain, triples).total_cells <= TREE_CELLS:
            draw -= 1
        if draw < 0:
            return triples
    raise AssertionError("no such triples")


def largest_component(domain: Domain, triples: Sequence[Clique]) -> float:
    """The cells of the largest table of attributes that the triples connect."""
    graph = nx.Graph()
    for triple in triples:
        nx.add_path(graph, triple)
    return max(math.prod(domain[name] for name in component) for component in nx.connected_components(graph))


def _exchanged(domain: Domain, queries: int, rng: np.random.Generator) -> tuple[Clique, ...]:
    """One draw, exchanged until it is near enough; nothing where it does not get there."""
    chosen = [_triple(domain, rng) for _ in range(TRIPLES)]
    off = abs(sum(map(domain.size, chosen)) - queries)
    for _ in range(5000):
        if off <= NEAR * queries and len(set(chosen)) == TRIPLES:
            return tuple(chosen)
        place, other = int(rng.integers(TRIPLES)), _triple(domain, rng)
        changed = [*chosen[:place], other, *chosen[place + 1 :]]
        now = abs(sum(map(domain.size, changed)) - queries)
        if now <= off and other not in chosen:
            chosen, off = changed, now
    return ()


def _triple(domain: Domain, rng: np.random.Generator) -> Clique:
    places = np.sort(rng.choice(len(domain), 3, replace=False))
    return tuple(domain.attributes[place] for place in places)
