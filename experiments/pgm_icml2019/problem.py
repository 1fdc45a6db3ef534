"""The four problems of PGM section 5.1: a table, 15 sets of three attributes, prefix queries on the numeric ones.

The paper does not print its triples, but the authors' repository (github.com/ryan112358/private-pgm) tells how they
were drawn: of all triples with at most as many cells as there are records, in the order of the attributes of the
domain, NumPy's `RandomState(0)` chooses 15 without replacement. The tables are those of
github.com/ryan112358/hd-datasets in January 2019, and the order is that of its files (`published_order`). The rule
gives the paper's number of queries on Titanic and Adult to the unit, and on Loans and Stroke all digits but one:
352,201 where the paper prints 362,201, and 17,116 where it prints 17,716. On Adult that is the file of 14 attributes;
the one of 15, which has `education` too and is the paper's in the other columns of its Table 1, would give 73,683.

Attributes of 100 or 101 values are asked about by prefixes, as in that repository; on Adult, as in the script that it
publishes for this table, `age` and `hours-per-week`, too.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from experiments.data import find, load
from experiments.pgm_icml2019.titanic import NAME as TITANIC
from pgmest.data.dataset import Dataset
from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.workloads import Projectable, Workload, prefixes

DATASETS = ("titanic", "adult", "loans", "stroke")
TABLES = {"titanic": TITANIC, "adult": "adult14", "loans": "loans", "stroke": "stroke"}
PAPER_QUERIES = {"titanic": 4851, "adult": 62876, "loans": 362201, "stroke": 17716}
PAPER_RECORDS = {"titanic": 1304, "adult": 48842, "loans": 42535, "stroke": 19434}
PAPER_ATTRIBUTES = {"titanic": 9, "adult": 15, "loans": 48, "stroke": 110}
PAPER_DOMAIN = {"titanic": 3e8, "adult": 1e19, "loans": 5e80, "stroke": 4e104}
TRIPLES = 15

BINS = (100, 101)
"""Numbers of values of attributes that are asked about by prefixes: 100 bins, and one more for a missing number."""
NUMERIC = {"adult": ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")}
FIRST = {"titanic": ("Survived",)}
"""Attributes that come before the others; on Loans, all that are numbers do."""
SORTED = ("stroke",)
"""Tables whose attributes are in alphabetical order."""
CATEGORICAL = (
    "term", "grade", "sub_grade", "emp_length", "home_ownership", "verification_status", "issue_d", "loan_status",
    "purpose", "zip_code", "addr_state", "earliest_cr_line", "last_pymnt_d", "next_pymnt_d", "last_credit_pull_d",
    "debt_settlement_flag", "debt_settlement_flag_date", "settlement_status", "settlement_date",
)  # fmt: skip
"""Attributes of Loans that are no numbers."""
TITANIC_LAST = ("Embarked", "Cabin")


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
def problem(name: str) -> Problem:
    """The problem on one table."""
    domain = Domain.load(find(TABLES[name]) / "domain.json")
    numeric = NUMERIC.get(name) or tuple(attribute for attribute in domain if domain[attribute] in BINS)
    triples = drawn_triples(domain, PAPER_RECORDS[name], published_order(name, domain))
    tree = JunctionTree.from_cliques(domain, triples)
    source = functools.partial(load, TABLES[name])
    return Problem(name, domain, numeric, prefixes(domain, triples, numeric), int(tree.total_cells), source)


def published_order(name: str, attributes: Iterable[str]) -> list[str]:
    """The order of attributes in the authors' file of the domain; ours is that of the columns."""
    if name in SORTED:
        return sorted(attributes)
    first, last = FIRST.get(name, ()), {"titanic": TITANIC_LAST, "loans": CATEGORICAL}.get(name, ())
    middle = [attribute for attribute in attributes if attribute not in {*first, *last}]
    return [*first, *middle, *last]


def drawn_triples(domain: Domain, records: int, order: Iterable[str]) -> tuple[Clique, ...]:
    """The 15 triples of the authors' rule, the attributes of each in the given order."""
    triples = itertools.combinations(order, 3)
    small = [triple for triple in triples if math.prod(domain[name] for name in triple) <= records]
    chosen = np.random.RandomState(0).choice(len(small), TRIPLES, replace=False)
    return tuple(small[place] for place in chosen)
