"""Emphasized marginals: measured first, unless the budget cannot carry them; and the accounting stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DuplicateAttributeError, UnknownAttributeError
from pgmest.mechanisms.emphasis import prominent
from pgmest.mechanisms.registry import named_mechanism
from pgmest.workloads import Item, Workload, all_kway, emphasized, marginals

DOMAIN = pg.Domain({"code": 200, "ward": 40, "age": 20, "sex": 2, "readmitted": 2, "year": 5})
RECORDS = 6000


def visits(seed=0):
    """Return visits in which readmission depends on age, too weakly for the scores at a small budget."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(11, 4, RECORDS), 0, 19).astype(int)
    code = (rng.geometric(0.03, RECORDS) + 30 * (age // 7)) % 200
    readmitted = rng.random(RECORDS) < np.where(age < 8, 0.05, np.where(age < 13, 0.15, 0.35))
    columns = [
        code,
        code // 5,
        age,
        rng.integers(2, size=RECORDS),
        readmitted.astype(int),
        rng.integers(5, size=RECORDS),
    ]
    return pg.Dataset.from_codes([column.astype(np.uint8) for column in columns], DOMAIN)


DATA = visits()


def run(name, matters, seed=0, **parameters):
    more = {"records": 5000} if name == "lamp" else {}
    mechanism = named_mechanism(name, backend="simulation", **{"epsilon": 0.5, **parameters}, **more)
    workload = None if matters is None else emphasized(DOMAIN, None, matters)
    return mechanism.fit(DATA, workload, seed=seed, progress=False)


def error(result, clique):
    scale = RECORDS / result.model.total
    return 0.5 * np.abs(result.project(clique).values * scale - DATA.project(clique).values).sum() / RECORDS


@pytest.mark.parametrize(("name", "factor"), [("lamp", 0.75), ("aim", 1.0)])
def test_what_matters_is_measured_in_every_run_and_its_error_falls(name, factor):
    table, errors = ("age", "readmitted"), {}
    for matters in (None, [table]):
        results = [run(name, matters, seed) for seed in range(3)]
        errors[bool(matters)] = np.mean([error(result, table) for result in results])
        if matters:
            assert all(table in {m.clique for m in result.measurements} for result in results)
    assert errors[True] < factor * errors[False]


@pytest.mark.parametrize("name", ["lamp", "aim"])
def test_a_table_that_the_budget_cannot_carry_is_not_measured_ahead(name):
    result = run(name, [("code", "ward")], epsilon=0.1)
    assert ("code", "ward") not in {m.clique for m in result.measurements[: len(DOMAIN) + 2]}
    others = run(name, [("code", "ward"), ("sex", "readmitted")], epsilon=0.1)
    assert ("sex", "readmitted") in {m.clique for m in others.measurements}


@pytest.mark.parametrize("name", ["lamp", "aim", "hdmm", "mwem", "ppsyn"])
@pytest.mark.parametrize("matters", [None, [("age", "readmitted")]])
def test_a_run_spends_exactly_its_budget(name, matters):
    data = DATA.select(["age", "sex", "readmitted"])
    workload = None if matters is None else emphasized(data.domain, None, matters)
    mechanism = named_mechanism(name, epsilon=0.5, backend="simulation")
    ledger = mechanism.fit(data, workload, seed=0, progress=False).ledger
    assert 0 <= ledger.remaining / ledger.budget < 1e-6
    assert str(ledger.budget) == str(mechanism.budget())


def test_a_triple_that_matters_is_measured_with_its_pairs():
    result = run("lamp", [("age", "sex", "readmitted")], epsilon=2.0)
    measured = {m.clique for m in result.measurements}
    assert {("age", "sex"), ("age", "readmitted"), ("age", "sex", "readmitted")} <= measured
    assert result.details["report"].count("assumed") >= 3


def test_pure_privacy_and_a_known_number_of_records():
    pure = run("lamp", [("age", "readmitted")], epsilon=3.0, delta=0)
    assert ("age", "readmitted") in {m.clique for m in pure.measurements}
    replaced = run("lamp", [("age", "readmitted")], neighbors=pg.privacy.Replace())
    assert ("age", "readmitted") in {m.clique for m in replaced.measurements}


def test_with_a_public_table_scores_still_decide_about_it():
    prior = visits(1)
    mechanism = named_mechanism("lamp", epsilon=1.0, backend="simulation", prior=prior, records=5000)
    workload = emphasized(DOMAIN, None, [("age", "readmitted")])
    result = mechanism.fit(DATA, workload, seed=0, progress=False)
    assert "public_pairs" in result.details
    assert error(result, ("age", "readmitted")) < 0.1


@pytest.mark.parametrize("budget", [1e-4, 1e-2])
def test_budgets_that_carry_nothing(budget):
    result = run("lamp", [("age", "readmitted")], epsilon=budget)
    assert not any(len(m.clique) > 1 for m in result.measurements[: len(DOMAIN)])
    assert result.model.total > 0


def test_weights():
    assert prominent([]) == []
    assert prominent([1.0]) == prominent([2.0]) == [False]
    assert prominent([1.0, 2.0]) == [False, False]
    assert prominent([1.0, 5.0, 5.0, 5.0]) == [False, True, True, True]
    made = emphasized(DOMAIN, None, [("readmitted", "age")])
    assert len(made) == 16
    assert made.items[-1].clique == ("age", "readmitted")
    assert made.items[-1].weight == pytest.approx(2 + 6**1.5)
    half = emphasized(DOMAIN, 0.5 * all_kway(DOMAIN, 2), [("readmitted", "age")])
    assert half.items[-1].weight == pytest.approx(made.items[-1].weight / 2)
    queries = Workload([Item("age", np.ones((1, 20)))])
    assert emphasized(DOMAIN, queries, [("age", "sex")]).cliques == (("age",), ("age", "sex"))
    assert len(emphasized(DOMAIN, None, [("age", "sex"), ("sex", "age")])) == 16  # the same table twice


@pytest.mark.parametrize(
    ("matters", "kind", "text"),
    [
        ("age,sex", ArgumentError, "a list of tuples"),
        (["age", "sex"], ArgumentError, r"\[\('age', 'readmitted'\)\]"),
        ([], ArgumentError, "a list of tuples"),
        ([()], ArgumentError, "a list of tuples"),
        (5, ArgumentError, "a list of tuples"),
        ({"age": 1}, ArgumentError, "a list of tuples"),
        ([("age", 5)], UnknownAttributeError, "5"),
        ([("age", "sx")], UnknownAttributeError, "Did you mean 'sex'"),
        ([("age", "age")], DuplicateAttributeError, "age"),
    ],
)
def test_what_does_not_name_tables_is_refused(matters, kind, text):
    with pytest.raises(kind, match=text):
        emphasized(DOMAIN, marginals([("age", "sex")]), matters)
