"""Emphasized marginals: measured first, unless the budget cannot carry them; and the accounting stays as it is."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest

import pgmest as pg
from pgmest import transforms
from pgmest.errors import ArgumentError, DuplicateAttributeError, UnknownAttributeError
from pgmest.measurements.measured_tables import by_level
from pgmest.mechanisms import AIM, LAMP, Transformed
from pgmest.mechanisms.lamp.emphasis import emphasized_tables
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.mechanisms.registry import named_mechanism
from pgmest.workloads import Item, Workload, all_kway, as_workload, emphasized, marginals

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


# -- weights alone ----------------------------------------------------------------------------------------------------

FEW = DATA.select(["age", "sex", "readmitted", "year"])
PAIRS = list(combinations(FEW.domain, 2))


def weighted(heavy, weight):
    """Return all pairs with one large weight."""
    return marginals(PAIRS, [weight if pair == heavy else 1.0 for pair in PAIRS])


def aim(workload, seed=0, data=FEW, **budget):
    parameters = {"rounds": 8, "backend": "simulation", **(budget or {"epsilon": 0.5})}
    return AIM(**parameters).fit(data, workload, seed=seed, progress=False)


@pytest.mark.parametrize(
    ("heavy", "weight"),
    [(("age", "sex"), 1.0), (("age", "sex"), 50.0), (("sex", "year"), 50.0), (("age", "year"), 1e6)],
)
def test_aim_selects_by_its_scores_whatever_the_weights_are(heavy, weight):
    result = aim(weighted(heavy, weight), rho=1e6)
    scores = {}
    for pair in PAIRS:  # without noise the scores are w_r times the distances from independence
        first, second = (FEW.project((name,)).values for name in pair)
        distance = np.abs(FEW.project(pair).values - np.outer(first, second) / RECORDS).sum()
        each = {name: 3 + (weight - 1) * (name in heavy) for name in pair}  # each attribute is in three pairs
        scores[pair] = sum(each.values()) * distance
    kinds = [entry.kind for entry in result.ledger.entries]
    assert kinds[:6] == ["measure"] * 4 + ["select", "measure"]
    assert result.details["chosen"][0] == max(scores, key=lambda pair: scores[pair])
    assert [m.clique for m in result.measurements[4:]] == result.details["chosen"]


@pytest.mark.parametrize("seed", range(3))
def test_scaled_and_divided_weights_are_the_same_to_aim(seed):
    workload = weighted(("sex", "year"), 16.0)
    whole, *others = (aim(w, seed).details["chosen"] for w in (workload, 8 * workload, 0.5 * workload + 0.5 * workload))
    assert others == [whole, whole]


def test_large_weights_alone_are_not_measured_ahead():
    workload = weighted(("age", "readmitted"), 1000.0)
    assert emphasized_tables(WorkloadDemand.of(FEW.domain, workload), FEW.domain) == []
    heavy = 5 * all_kway(DOMAIN, 2) + marginals([("sex", "year")], [1e4])
    plan = LAMP(epsilon=0.5).plan(DOMAIN, RECORDS, heavy, quick=True)
    assert plan.matters == {}
    assert "matters:" not in str(plan)


# -- the mark of what matters -----------------------------------------------------------------------------------------


def test_the_mark_can_come_from_an_array():
    kinds = np.array(["table", "no"]) == "table"
    assert [Item("age", matters=kind).matters for kind in kinds] == [True, False]


def test_the_mark_survives_all_that_makes_a_workload_of_another():
    made = emphasized(DOMAIN, [("age", "sex")], [("sex", "year")])
    plain = marginals([("code",)])
    for workload in (
        made,
        0.5 * made,
        made * np.float64(3),
        made[:],
        as_workload(DOMAIN, made),
        as_workload(DOMAIN, [*made]),
    ):
        assert [item.matters for item in workload] == [False, True]
    assert [item.matters for item in plain + made] == [False, False, True]
    assert [item.matters for item in pickle.loads(pickle.dumps(made))] == [False, True]
    again = emphasized(DOMAIN, made, [("age", "year")])
    assert [item.matters for item in again] == [False, True, True]
    assert "age × sex\n" in str(made)
    assert str(made).endswith(f"sex × year    weight {made.weights[1]:g}, matters")
    assert str(Workload([Item("age", matters=True)])).endswith("age    matters")
    assert "matters=True" in repr(made.items[1])


@pytest.mark.parametrize("matters", ["no", 1, None, [True]])
def test_the_mark_is_a_bool(matters):
    with pytest.raises(ArgumentError, match="matters"):
        Item("age", matters=matters)


def test_items_of_the_same_queries_matter_if_one_of_them_does():
    domain = pg.Domain({"a": 3, "b": 2, "c": 1, "d": 2})
    for marks in ((True, False), (False, True), (False, False)):
        items = [Item(clique, matters=mark) for clique, mark in zip([("a", "b"), ("b", "a")], marks, strict=True)]
        demand = WorkloadDemand.of(domain, [*items, Item(("a", "d"))])
        assert [(item.clique, item.importance, item.matters) for item in demand.items] == [
            (("a", "b"), 2.0, any(marks)),
            (("a", "d"), 1.0, False),
        ]
        assert emphasized_tables(demand, domain) == [("a", "b")] * any(marks)
    summed = pg.Kron({"a": pg.queries.total(3), "b": pg.queries.identity(2), "d": pg.queries.prefix(2)})
    demand = WorkloadDemand.of(domain, [Item(("a", "b", "d"), summed, matters=True), Item(("a", "b"))])
    assert emphasized_tables(demand, domain) == [("b", "d")]
    constant = WorkloadDemand.of(domain, [Item(("a", "c"), matters=True), Item(("a", "b"))])
    assert emphasized_tables(constant, domain) == []


@pytest.mark.parametrize("name", ["aim", "lamp"])
def test_what_has_no_weight_does_not_matter(name):
    more = {"records": 5000} if name == "lamp" else {"rounds": 8}
    mechanism = named_mechanism(name, epsilon=0.5, backend="simulation", **more)
    pairs = marginals([("age", "sex"), ("sex", "year")])
    none = Workload([Item(("age", "readmitted"), weight=0.0, matters=True)])
    first, second = (mechanism.fit(FEW, w, seed=0, progress=False) for w in (pairs, pairs + none))
    assert [m.clique for m in first.measurements] == [m.clique for m in second.measurements]


def test_what_matters_is_measured_ahead_on_recoded_records():
    def merged(curator, spend):
        return transforms.merge(curator.domain, ("sex", "year"), "both")

    workload = emphasized(FEW.domain, None, [("age", "readmitted")])
    for given, fourth in ((workload, "measure"), (None, "select")):
        inside = AIM(epsilon=0.5, rounds=8, backend="simulation")
        result = Transformed(mechanism=inside, steps=[merged], share=0).fit(FEW, given, seed=0, progress=False)
        entries = result.ledger.entries  # the first three are the one-way marginals
        assert [entry.kind for entry in entries[:4]] == ["measure"] * 3 + [fourth]
        assert (entries[3].clique == ("age", "readmitted")) == (given is not None)


# -- how workloads are emphasized -------------------------------------------------------------------------------------


def test_the_weights_of_what_matters():
    made = emphasized(DOMAIN, None, [("readmitted", "age")])
    assert [item.matters for item in made] == [False] * 15 + [True]
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


# -- levels of hierarchies -----------------------------------------------------------------------------------------


TREE = pg.Hierarchy("code", {"chapter": [code // 50 for code in range(200)], "block": [c // 10 for c in range(200)]})
BY_LEVEL = pg.Dataset.from_codes(list(DATA.columns), DOMAIN.with_hierarchies(TREE)).select(["code", "age", "sex"])


@pytest.mark.parametrize("name", ["lamp", "aim", "hdmm", "mwem"])
def test_what_matters_may_be_a_level(name):
    """LAMP measures the pair in groups of codes, and AIM the groups of the level; each spends its whole budget."""
    more = {"records": 2000} if name == "lamp" else {}
    mechanism = named_mechanism(name, epsilon=0.5, backend="simulation", **more)
    matters = [("sex", "code@chapter")]
    workload = emphasized(BY_LEVEL.domain, None, matters)
    assert workload.items[-1].clique == ("code@chapter", "sex")
    result = mechanism.fit(BY_LEVEL, workload, seed=0, progress=False)
    assert result.ledger.remaining / result.ledger.budget < 1e-6
    if name == "aim":
        assert ("code@chapter", "sex") in {by_level(one, result.domain) for one in result.measurements[:4]}
    if name in ("lamp", "aim"):
        assert ("code", "sex") in {one.clique for one in result.measurements}
        true = BY_LEVEL.project("code").values.reshape(4, 50).sum(axis=1)
        assert np.abs(result.project("code@chapter").values - true).max() < 0.1 * RECORDS


def test_a_level_that_the_budget_can_carry_is_measured_where_its_codes_are_not():
    mechanism = AIM(epsilon=0.2, backend="simulation")
    chosen = {}
    for one in (("code", "age"), ("code@chapter", "age")):
        result = mechanism.fit(BY_LEVEL, emphasized(BY_LEVEL.domain, None, [one]), seed=0, progress=False)
        chosen[one] = {by_level(measured, result.domain) for measured in result.measurements[3:4]}
    assert chosen[("code@chapter", "age")] == {("code@chapter", "age")}
    assert chosen[("code", "age")] != {("code", "age")}


@pytest.mark.parametrize("wrong", [("code@bock", "sex"), ("sex@chapter", "code"), ("code@block", "code")], ids="-".join)
def test_levels_that_do_not_exist_do_not_matter(wrong):
    with pytest.raises((UnknownAttributeError, DuplicateAttributeError)):
        emphasized(BY_LEVEL.domain, None, [wrong])
