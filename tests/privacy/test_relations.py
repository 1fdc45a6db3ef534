"""Relations between tables: a cost of one is converted to another by proven steps only, and never added as it is."""

import itertools
import math
from collections import deque

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, BudgetTypeError, LedgerError
from pgmest.privacy import GDP, AddRemove, ApproxDP, Curator, DatasetLedger, Epsilon, Replace, Rho
from pgmest.privacy.relations import Relation, converted, group_cost, relation_of
from tests.privacy.amounts import epsilon as epsilon_of
from tests.privacy.amounts import rho

DATA = pg.Dataset.from_codes(np.zeros((5, 1), int), {"a": 2})
MOST = 8
TABLES = [table for table in itertools.product(range(MOST + 1), repeat=2) if sum(table) <= MOST]
"""All tables of at most eight rows with two values, as counts."""


def related(one, two, neighbors):
    """Return whether two tables are neighbors, by the definition."""
    apart = [a - b for a, b in zip(one, two, strict=True)]
    added, removed = sum(d for d in apart if d > 0), -sum(d for d in apart if d < 0)
    if isinstance(neighbors, Replace):
        return added == removed <= neighbors.records
    return min(added, removed) == 0 and max(added, removed) <= neighbors.records


def distances(start, neighbors):
    """The least number of steps from a table to each other one."""
    found, waiting = {start: 0}, deque([start])
    while waiting:
        table = waiting.popleft()
        for other in TABLES:
            if other not in found and related(table, other, neighbors):
                found[other] = found[table] + 1
                waiting.append(other)
    return found


RELATIONS = [kind(records) for kind in (AddRemove, Replace) for records in (1, 2, 3, 4)]


@pytest.mark.parametrize("run", RELATIONS, ids=repr)
@pytest.mark.parametrize("ledger", RELATIONS, ids=repr)
def test_so_many_steps_join_any_two_tables(run, ledger):
    """Compare with brute force: the number suffices for all tables, and some need it."""
    steps = Relation(run).steps_to(Relation(ledger))
    most = 0
    for start in TABLES:
        found = distances(start, run)
        for other in TABLES:
            if other != start and related(start, other, ledger):
                most = max(most, found.get(other, math.inf))
    assert most == (math.inf if steps is None else steps)


CELLS = list(itertools.product(range(2), repeat=2))
PAIRS = [table for table in itertools.product(range(4), repeat=4) if sum(table) <= 3]
"""All tables of at most three rows with two attributes of two values, as counts of the cells."""
FIXED = [(), ((),), (("a",),), (("a",), ("b",)), (("a", "b"),), (("a",), ("a", "b"))]


def cliques_agree(one, two, invariants):
    """Return whether the marginals of two tables of `PAIRS` agree."""
    counts = np.array([one, two]).reshape(2, 2, 2)
    dropped = [tuple(1 + axis for axis, name in enumerate("ab") if name not in clique) for clique in invariants]
    return all(np.array_equal(*counts.sum(axis=axes)) for axes in dropped)


@pytest.mark.parametrize("records", [(1, 2), (1, 3), (2, 2), (2, 3)], ids=str)
def test_so_many_steps_join_any_two_tables_that_agree_on_invariants(records):
    """Two rows may have to be replaced together, such that the marginals of both attributes stay as they are."""
    for ran, held in itertools.product(FIXED, repeat=2):
        run, ledger = Relation(Replace(records[0]), None, ran), Relation(Replace(records[1]), None, held)
        near = {
            one: [two for two in PAIRS if related(one, two, run.neighbors) and cliques_agree(one, two, ran)]
            for one in PAIRS
        }
        most = 0
        for start in PAIRS:
            found, waiting = {start: 0}, deque([start])
            while waiting:
                table = waiting.popleft()
                waiting.extend(two for two in near[table] if two not in found)
                found = {**{two: found[table] + 1 for two in near[table]}, **found}
            ends = [two for two in PAIRS if related(start, two, ledger.neighbors) and cliques_agree(start, two, held)]
            most = max([most, *(found.get(two, math.inf) for two in ends if two != start)])
        steps = run.steps_to(ledger)
        assert most <= (math.inf if steps is None else steps), (ran, held)
        assert records[0] > 1 or steps is not None or most in (0, math.inf), (ran, held)


PROVINCES = {"a": 3, "b": 2}
"""The sizes of an area, whose first two values are one province, and of another attribute."""
BY_AREA = [table for table in itertools.product(range(3), repeat=6) if sum(table) <= 2]
BY_PROVINCE = [("a",), ("a@province",), ("a@province", "b"), ("a", "b"), ("a@town",)]


def areas_agree(one, two, invariants):
    """Return whether two tables of `BY_AREA` agree on tables by area or province; towns are areas."""
    areas = np.array([one, two]).reshape(2, 3, 2)
    levels = {"a": areas, "a@town": areas, "a@province": np.stack([areas[:, :2].sum(axis=1), areas[:, 2]], axis=1)}
    tables = [levels[clique[0]] if "b" in clique else levels[clique[0]].sum(axis=2) for clique in invariants]
    return all(np.array_equal(*table) for table in tables)


@pytest.mark.parametrize("records", [(1, 1), (1, 2), (2, 1)], ids=str)
def test_a_ledger_of_areas_charges_runs_that_publish_provinces(records):
    """The number of steps suffices for all tables, and is refused only if one of them cannot be reached."""
    tree = pg.Hierarchy("a", {"province": [0, 0, 1], "town": [0, 1, 2]})
    data = pg.Dataset.from_codes(np.zeros((1, 2), int), pg.Domain(PROVINCES).with_hierarchies(tree))
    for ran, held in itertools.product(BY_PROVINCE, repeat=2):
        run = relation_of(Replace(records[0]), data, (ran,))
        ledger = Relation(Replace(records[1]), None, (held,))
        near = {
            one: [two for two in BY_AREA if related(one, two, run.neighbors) and areas_agree(one, two, [ran])]
            for one in BY_AREA
        }
        most = 0
        for start in BY_AREA:
            found, waiting = {start: 0}, deque([start])
            while waiting:
                table = waiting.popleft()
                new = [two for two in near[table] if two not in found]
                found.update(dict.fromkeys(new, found[table] + 1))
                waiting.extend(new)
            ends = (two for two in BY_AREA if related(start, two, ledger.neighbors) and areas_agree(start, two, [held]))
            most = max([most, *(found.get(two, math.inf) for two in ends)])
        steps = run.steps_to(ledger)
        assert most <= (math.inf if steps is None else steps), (ran, held)
        covered = {"a", "a@town"} if ran[0] != "a" else {"a"}
        named_finer = held[0] in covered or ran[0] == held[0]
        assert (steps is not None) == (named_finer and set(ran[1:]) <= set(held[1:])), (ran, held)
        assert Relation.from_json(run.to_json()) == run


def test_units_are_never_converted():
    rows, patients, houses = Relation(AddRemove()), Relation(AddRemove(8), "patient"), Relation(AddRemove(8), "house")
    for one, two in itertools.permutations((rows, patients, houses), 2):
        assert one.steps_to(two) is None
    assert patients.steps_to(Relation(AddRemove(), "patient")) == 1  # whatever the bounds of the two runs


@st.composite
def chains(draw):
    """Distributions over four outcomes, each a neighbor of the next."""
    weights = st.lists(st.integers(1, 60), min_size=4, max_size=4)
    return [np.array(row) / sum(row) for row in draw(st.lists(weights, min_size=2, max_size=5))]


def pure(p, q):
    return float(np.abs(np.log(p / q)).max())


def hockey_stick(p, q, epsilon):
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def zcdp(p, q):
    """The least rho, over a fine grid of orders."""
    orders = 1 + np.geomspace(1e-4, 1e4, 4000)
    found = 0.0
    for a, b in ((p, q), (q, p)):
        logs = orders[:, None] * np.log(a / b) + np.log(b)
        top = logs.max(axis=1)
        renyi = (top + np.log(np.exp(logs - top[:, None]).sum(axis=1))) / (orders - 1)
        found = max(found, float((renyi / orders).max()))
    return found


@given(chains(), st.floats(0.0, 2.0))
def test_what_a_chain_of_neighbors_costs_is_bounded_by_the_group_cost(chain, epsilon):
    steps, pairs, ends = len(chain) - 1, list(itertools.pairwise(chain)), (chain[0], chain[-1])
    worst = Epsilon(max(pure(*pair) for pair in pairs))
    assert pure(*ends) <= epsilon_of(group_cost(worst, steps)) * (1 + 1e-9) + 1e-12
    least = Rho(max(zcdp(*pair) for pair in pairs))
    assert zcdp(*ends) <= rho(group_cost(least, steps)) * (1 + 1e-3) + 1e-9
    delta = max(hockey_stick(*pair, epsilon) for pair in pairs)
    try:
        group = group_cost(ApproxDP(epsilon, min(delta, 1.0)), steps)
    except BudgetTypeError:
        return
    assert isinstance(group, ApproxDP)
    assert hockey_stick(*ends, group.epsilon) <= group.delta * (1 + 1e-9) + 1e-12


@given(
    st.sampled_from([Epsilon, Rho, GDP]),
    st.lists(st.floats(1e-6, 3.0), min_size=1, max_size=5),
    st.integers(1, 20),
)
def test_the_charges_of_a_run_are_covered_by_what_it_reserves(kind, amounts, steps):
    """Converted one by one they come to no more than the whole, and no less than each alone."""
    whole = kind(math.fsum(amounts) * (1 + 1e-12))
    for ledger in (Rho(1.0), *([Epsilon(1.0), ApproxDP(1.0, 1e-6)] if kind is Epsilon else [])):
        parts = [converted(kind(amount), ledger, "x", steps).exact[0] for amount in amounts]
        assert sum(parts) <= converted(whole, ledger, "x", steps).exact[0] * (1 + 1e-9)
        assert all(part >= converted(kind(a), ledger, "x").exact[0] for part, a in zip(parts, amounts, strict=True))


def test_a_ledger_charges_a_run_for_its_steps_and_says_so(tmp_path):
    ledger = DatasetLedger.create(tmp_path / "l", Rho(1.0), neighbors=AddRemove(3))
    curator = Curator(DATA, Rho(0.05), ledger=ledger, neighbors=AddRemove(1))
    assert rho(ledger.committed) == pytest.approx(0.45, rel=1e-12)
    curator.measure("a", Rho(0.03))
    curator.close()
    ledger.refresh()
    assert rho(ledger.committed) == pytest.approx(0.27, rel=1e-12)
    assert "protects one row added or removed, hence counts for 3 steps" in str(ledger)
    assert ledger.to_json()["runs"][0]["steps"] == 3
    Curator(DATA, Rho(0.5), ledger=ledger, neighbors=AddRemove(4)).close()  # it protects more than that
    with pytest.raises(LedgerError, match="for a delta on thresholds no conversion is known"):
        Curator(DATA, Rho(0.05), ledger=ledger, neighbors=AddRemove(1), threshold_delta=1e-9)
    other = DatasetLedger.create(tmp_path / "many", Rho(1.0), neighbors=AddRemove(10**6))
    with pytest.raises(LedgerError, match="1,000,000 steps"):
        Curator(DATA, Rho(1e-13), ledger=other)


def test_patients_houses_and_rows_are_not_added_up(tmp_path):
    visits = pd.DataFrame({"patient": np.repeat(range(20), 5), "house": np.repeat(range(10), 10), "x": [0, 1] * 50})
    units = {"rows": {}, **{name: {"unit": {"column": name, "at_most": 2}} for name in ("patient", "house")}}
    wider = {"unit": {"column": "patient", "at_most": 4}}
    for name, own in units.items():
        unit = None if name == "rows" else name
        path = tmp_path / name
        DatasetLedger.create(path, Rho(1.0), unit=unit).close()
        for other, schema in {**units, "wider": wider}.items():
            described = {"columns": {"x": {"type": "integer", "min": 0, "max": 1}}, **schema}
            synthesizer = pg.Synthesizer("independent", rho=0.1)
            for table in (visits, pg.Schema.from_dict(described).encode(visits)):
                if schema == own or (name == "patient" and other == "wider"):
                    synthesizer.fit(table, described, seed=0, progress=False, ledger=path)
                else:
                    with pytest.raises(LedgerError, match="their costs cannot be added up"):
                        synthesizer.fit(table, described, seed=0, progress=False, ledger=path)
        runs = DatasetLedger(path).runs
        assert len(runs) == (4 if name == "patient" else 2)
        assert {run.relation.unit for run in runs} == {unit}


def test_the_unit_stays_with_the_records():
    visits = pd.DataFrame({"patient": [1, 1, 2, 3], "x": [0, 1, 1, 0], "y": [0, 0, 1, 1]})
    columns = {name: {"type": "integer", "min": 0, "max": 1} for name in "xy"}
    schema = pg.Schema.from_dict({"columns": columns, "unit": {"column": "patient", "at_most": 2}})
    data = schema.encode(visits)
    for made in (data, data.select(["x"]), data.take([0, 0, 1]), pg.Dataset.concat([data, data]), data.remembering()):
        assert made.unit_column == "patient"
    houses = pg.Dataset.from_codes(np.zeros((2, 2), int), data.domain, records_per_person=1, unit_column="house")
    assert pg.Dataset.concat([data, houses]).unit_column == "house or patient"


def test_what_a_new_ledger_protects_is_stated_once(tmp_path):
    with pytest.raises(ArgumentError, match="left out"):
        DatasetLedger.create(tmp_path / "l", Rho(1.0), neighbors=AddRemove(3), unit="patient")
    with pytest.raises(ArgumentError, match="unit"):
        DatasetLedger.create(tmp_path / "l", Rho(1.0), unit="")
    assert not (tmp_path / "l").exists()
    for wrong in (None, {}, {"neighbors": "Other", "records": 1}, {"neighbors": "AddRemove", "records": 0}, [1]):
        with pytest.raises(ArgumentError):
            Relation.from_json(wrong)
    for relation in (Relation(Replace(2)), Relation(AddRemove(), "patient")):
        assert Relation.from_json(relation.to_json()) == relation
