"""No mechanism raises after it has spent: what it can know beforehand, it refuses before, and all else it survives."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import zeros
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import AtLeast, AtMost, Exactly
from pgmest.errors import PgmestError
from pgmest.mechanisms.invariants import HELD, INVARIANTS
from pgmest.mechanisms.known_zeros import HONORED, ZEROS
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.privacy import AddRemove, Neighbors, Replace

KINDS: dict[str, dict[str, Any]] = {
    "AIM": {"rounds": 4},
    "AIM as published": {},
    "DualQuery": {"samples": 10, "steps": 3, "max_iterations": 5},
    "DualQuery original": {"samples": 10, "steps": 3, "estimator": "original"},
    "HDMM": {},
    "HDMM original": {"estimator": "original"},
    "HDMM local": {"estimator": "local"},
    "Independent": {},
    "LAMP": {"records": 200},
    "LAMP of public records": {"records": 200},
    "MST": {},
    "MWEM": {"rounds": 3},
    "MWEM original": {"rounds": 3, "estimator": "original"},
    "PMWPub": {"rounds": 2, "replays": 3},
    "PMWPub pgm": {"rounds": 2, "estimator": "pgm"},
    "PPSyn": {"rounds": 3},
    "PriView": {},
    "PriView pgm": {"estimator": "pgm"},
    "PrivBayes": {},
    "PrivBayes original": {"estimator": "original"},
    "PrivMRF": {},
    "PrivSyn": {},
    "PrivSyn pgm": {"estimator": "pgm"},
    "TopDown": {},
    "Transformed": {},
}
"""The mechanisms, each with parameters under which a run takes a moment."""

NO_ZEROS = ("DualQuery original", "HDMM original", "HDMM local", "MWEM original", "PriView", "PrivBayes original")
"""Models that cannot exclude a cell, and say so."""

EPSILONS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A run: private records, the public facts about them, and the arguments of a mechanism."""

    data: pg.Dataset
    rules: tuple[Any, ...]
    invariants: tuple[Any, ...]
    budget: dict[str, Any]
    neighbors: Neighbors
    workload: Any


@st.composite
def budgets(draw: st.DrawFn) -> dict[str, Any]:
    epsilon = draw(st.sampled_from(EPSILONS))
    return draw(st.sampled_from([{"epsilon": epsilon}, {"epsilon": epsilon, "delta": 0.0}, {"rho": epsilon**2 / 8}]))


@st.composite
def tables_of_zeros(draw: st.DrawFn, domain: pg.Domain) -> tuple[Any, ...]:
    kind = draw(st.sampled_from(["none", "none", "pairs", "ties", "functions", "one cell", "one code"]))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    names, rules = domain.attributes, []
    if kind == "one cell":
        mask = np.ones(domain.shape, dtype=bool)
        mask[tuple(generator.integers(domain.shape))] = False
        return (zeros.impossible(names, mask),)
    if kind == "one code":
        code = int(generator.integers(domain[names[-1]]))
        return (zeros.only(names[-1], [code]),)
    for first, name in {"pairs": combinations(names, 2)}.get(kind, ((names[0], name) for name in names[1:])):
        if kind == "functions":
            codes = generator.integers(domain[name], size=domain[first])
            rules.append(zeros.function(name, of=first, codes=codes.tolist()))
        elif kind in ("pairs", "ties"):
            mask = generator.random(domain.project((first, name)).shape) < 0.4
            mask[0, 0] = False  # so that a record is possible
            rules.append(zeros.impossible((first, name), mask))
    return tuple(rules)


@st.composite
def workloads(draw: st.DrawFn, domain: pg.Domain) -> Any:
    names = domain.attributes
    most = min(3, len(names))
    kind = draw(st.sampled_from(["none", "none", "single", "kway", "some", "prefixes", "weights", "total"]))
    if kind == "single":
        return [draw(st.sampled_from(names))]
    if kind == "kway":
        return pg.workloads.all_kway(domain, draw(st.integers(1, most)))
    if kind == "some":
        return draw(st.lists(st.lists(st.sampled_from(names), unique=True, max_size=most), min_size=1, max_size=3))
    if kind == "prefixes":
        name = draw(st.sampled_from(names))
        return pg.workloads.Workload([pg.workloads.Item((name,), pg.queries.prefix(domain[name]))])
    if kind == "weights":
        cliques = list(combinations(names, most))
        return pg.workloads.marginals(cliques, [0.0, *[2.0] * (len(cliques) - 1)] if len(cliques) > 1 else None)
    return [(), (names[0],)] if kind == "total" else None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 2, 3, 4, 7]), min_size=1, max_size=4))
    domain = pg.Domain({"abcd"[place]: size for place, size in enumerate(sizes)})
    rules = draw(tables_of_zeros(domain))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    possible = np.ones(domain.shape, dtype=bool)
    for rule in rules:
        axes = domain.axes(rule.attributes)
        mask = np.transpose(rule.mask(domain), np.argsort(axes))
        possible &= ~mask.reshape([size if place in axes else 1 for place, size in enumerate(domain.shape)])
    cells = np.flatnonzero(possible)
    records = draw(st.sampled_from([0, 1, 2, 30, 500]))
    weights = generator.dirichlet(np.full(len(cells), 0.3)) if len(cells) else None
    if len(cells):
        drawn = np.unravel_index(generator.choice(cells, records, p=weights), domain.shape)
    else:
        drawn = [np.zeros(records, dtype=int)] * len(domain)
    data = pg.Dataset.from_codes([np.array(column) for column in drawn], domain)
    number = draw(st.integers(1, len(domain)))
    table = tuple(domain.attributes[:number])
    exact = pg.LinearMeasurement.exact(data.project(table).values, table)
    facts = [(), (), ((),), (table,), (exact,), ((domain.attributes[-1],), table)]
    neighbors = draw(st.sampled_from([AddRemove(), AddRemove(3), Replace()]))
    return Case(data, rules, draw(st.sampled_from(facts)), draw(budgets()), neighbors, draw(workloads(domain)))


def made(kind: str, case: Case, **parameters: Any) -> Mechanism:
    name, given = kind.split()[0], dict(KINDS[kind])
    if kind == "LAMP of public records":
        given["prior"] = case.data
    if name == "PMWPub":
        given["public"] = case.data
    if name == "TopDown":
        given["spine"] = case.data.domain.attributes[0]
    if name == "Transformed":
        inside = pg.mechanisms.MST(**case.budget, backend="simulation")
        return pg.mechanisms.Transformed(mechanism=inside, steps=[pg.transforms.compress_rare], **parameters)
    return getattr(pg.mechanisms, name)(**case.budget, backend="simulation", **given, **parameters)


def check(kind: str, case: Case) -> None:
    """Check that a run refuses before it spends, or ends with a model and records that hold what it promises."""
    spent: list[Any] = []
    try:
        facts = {"structural_zeros": case.rules or None, "invariants": case.invariants or None}
        mechanism = made(kind, case, neighbors=case.neighbors, **facts)
        result = mechanism.fit(case.data, case.workload, seed=0, progress=spent.append)
    except PgmestError:
        if spent:
            raise
        return
    domain, details = case.data.domain, result.details
    assert np.isfinite(result.model.total)
    for clique in (*domain.attributes, ()):
        assert np.isfinite(result.project(clique).values).all()
    if kind == "HDMM original":
        return
    records = result.sample(seed=0)
    assert records.domain == domain
    assert records.records == round(result.model.total)
    if kind == "TopDown" and case.rules and case.invariants:
        return  # the root is fitted before what zeros and exact tables of areas leave together; the details say so
    if case.rules and kind not in NO_ZEROS:
        assert details[ZEROS].startswith(HONORED)
        for rule in case.rules:
            assert not records.project(rule.attributes).values[rule.mask(domain)].any()
    if case.invariants:
        assert details[INVARIANTS] == HELD
        for one in case.invariants:
            clique = one.clique if isinstance(one, pg.LinearMeasurement) else one
            assert (records.project(clique).values == case.data.project(clique).values).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@given(cases())
@settings(max_examples=40)
def test_mechanisms_refuse_before_they_spend(kind: str, case: Case) -> None:
    note(repr(case))
    check(kind, case)


@st.composite
def wide_cases(draw: st.DrawFn) -> Case:
    """Draw a run on more attributes, whose pairs are selected or scored, and which zeros may tie to the first one."""
    sizes = [draw(st.sampled_from([2, 5])), *draw(st.lists(st.sampled_from([1, 2, 6, 20]), min_size=4, max_size=14))]
    domain = pg.Domain({f"x{place}": size for place, size in enumerate(sizes)})
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    count, tied = draw(st.sampled_from([0, 1, 400])), draw(st.sampled_from([0, 1, len(sizes) - 1]))
    first, rules, columns = generator.integers(0, sizes[0], count), [], []
    for place, size in enumerate(sizes[1:]):
        possible = generator.random((sizes[0], size)) < (0.5 if place < tied else 1.0)
        possible[:, 0] = True
        columns.append(np.argmax(possible[first] * generator.random((count, size)), axis=1) if count else first)
        if place < tied:
            rules.append(zeros.only(("x0", f"x{place + 1}"), possible))
    data = pg.Dataset.from_codes([first, *columns], domain)
    neighbors = draw(st.sampled_from([AddRemove(), Replace()]))
    facts = draw(st.sampled_from([(), (), (("x0",),), (("x0", "x1"), ("x2",))]))
    names = domain.attributes
    workload = draw(
        st.sampled_from([None, None, [names[:2]], [names[:3], names[1:4]], pg.workloads.all_kway(domain, 1)])
    )
    return Case(data, tuple(rules), facts, draw(budgets()), neighbors, workload)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", ["AIM", "LAMP", "LAMP of public records", "MST", "PPSyn", "PrivSyn pgm", "Transformed"]
)
@given(wide_cases())
@settings(max_examples=12)
def test_mechanisms_that_choose_refuse_before_they_spend(kind: str, case: Case) -> None:
    check(kind, case)


@st.composite
def linked_tables(draw: st.DrawFn) -> LinkedDataset:
    """Draw linked tables, of few or no rows, with attributes of one code, rules and structural zeros."""
    parent, child = (
        pg.Domain({name: draw(st.sampled_from([1, 2, 4])) for name in names[: draw(st.integers(0, 2))]})
        for names in ("rs", "ab")
    )
    at_most, count = draw(st.sampled_from([1, 2, 5, 20])), draw(st.sampled_from([0, 1, 40]))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    sizes = generator.integers(0, at_most + 1, count)
    rows = np.repeat(np.arange(count), sizes)
    datasets = [
        pg.Dataset.from_codes(generator.integers(0, domain.shape, (number, len(domain))), domain)
        for domain, number in ((parent, count), (child, len(rows)))
    ]
    rules, impossible = [], {}
    if child and draw(st.booleans()):
        kind = draw(st.sampled_from([AtLeast, AtMost, Exactly]))
        rules.append(kind("persons", "a", (0,), draw(st.integers(0, 1))))
    if len(child) == 2 and draw(st.booleans()):
        mask = generator.random(child.shape) < 0.5
        mask[0, 0] = False
        impossible[child.attributes] = mask
    persons = LinkedTable(datasets[1], "households", rows, at_most, impossible, ordered=draw(st.booleans()))
    return LinkedDataset({"households": LinkedTable(datasets[0]), "persons": persons}, rules)


def check_linked(linked: LinkedDataset, budget: dict[str, Any]) -> None:
    """Check that a run on linked tables refuses before it spends, or ends with tables that keep the rules."""
    spent: list[Any] = []
    try:
        result = LinkedLAMP(**budget, backend="simulation").fit(linked, seed=0, progress=spent.append)
    except PgmestError:
        if spent:
            raise
        return
    made = result.sample(seed=0)
    for name, table in linked.tables.items():
        assert made.tables[name].domain == table.domain
    assert not any(rule.broken(made).any() for rule in linked.rules)
    for clique, mask in linked.tables["persons"].structural_zeros.items():
        assert not made.tables["persons"].dataset.project(clique).values[mask].any()


@pytest.mark.filterwarnings("ignore")
@given(linked_tables(), budgets())
@settings(max_examples=40)
def test_linked_tables_are_refused_before_anything_is_spent(linked: LinkedDataset, budget: dict[str, Any]) -> None:
    check_linked(linked, budget)


def test_zeros_that_tie_all_attributes_leave_pairs_to_score() -> None:
    most, generator = 8, np.random.default_rng(0)
    size = np.minimum(1 + generator.poisson(1.4, 2000), most)
    domain, columns, rules = {"size": most}, [size - 1], []
    for place in range(1, most + 1):
        for name, codes in {"age": 16, "sex": 2, "work": 3}.items():
            domain[f"{name}{place}"] = codes + 1
            columns.append(np.where(size >= place, generator.integers(0, codes, 2000), codes))
            absent = np.zeros((most, codes + 1), dtype=bool)
            absent[: place - 1, :codes] = absent[place - 1 :, codes] = True
            rules.append(zeros.impossible(("size", f"{name}{place}"), absent))
    data = pg.Dataset.from_codes(columns, domain)
    result = pg.mechanisms.LAMP(epsilon=0.3, structural_zeros=rules, backend="simulation", records=500).fit(
        data, seed=0
    )
    assert result.details[ZEROS].startswith(HONORED)
    assert any(entry.kind == "select" for entry in result.ledger)
