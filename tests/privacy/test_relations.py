"""Relations between tables: a ledger accepts the runs whose relation implies its own, and no others."""

import itertools

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, LedgerError
from pgmest.privacy import AddRemove, Curator, DatasetLedger, Replace, Rho
from pgmest.privacy.neighbors import Change, Neighbors
from pgmest.privacy.relations import Relation, relation_of
from tests.privacy.amounts import rho

DATA = pg.Dataset.from_codes(np.zeros((5, 1), int), {"a": 2})
TABLES = [table for table in itertools.product(range(5), repeat=2) if sum(table) <= 4]
"""All tables of at most four rows with two values, as counts."""


def related(one, two, neighbors):
    """Return whether two tables are neighbors, by the definition."""
    apart = [a - b for a, b in zip(one, two, strict=True)]
    added, removed = sum(d for d in apart if d > 0), -sum(d for d in apart if d < 0)
    if isinstance(neighbors, Replace):
        return added == removed <= neighbors.records
    few = max(added, removed) <= neighbors.records
    return few and (isinstance(neighbors, Change) or min(added, removed) == 0)


def implied(tables, run, ledger):
    """Return whether all tables that are neighbors by the function `ledger` are neighbors by `run`."""
    return all(run(*pair) for pair in itertools.product(tables, tables) if ledger(*pair))


RELATIONS: list[Neighbors] = [kind(records) for kind in (AddRemove, Replace, Change) for records in (1, 2, 3)]


@pytest.mark.parametrize("run", RELATIONS, ids=repr)
@pytest.mark.parametrize("ledger", RELATIONS, ids=repr)
def test_a_ledger_accepts_what_implies_its_relation(tmp_path, run, ledger):
    """Compare with brute force over all tables; a refused run pays nothing, and the remedy in its error works."""
    true = implied(TABLES, lambda a, b: related(a, b, run), lambda a, b: related(a, b, ledger))
    assert Relation(run).implies(Relation(ledger)) == true
    book = DatasetLedger.create(tmp_path / "l", Rho(1.0), neighbors=ledger)
    if true:
        Curator(DATA, Rho(0.1), ledger=book, neighbors=run).measure("a", Rho(0.1))
        assert rho(book.committed) == 0.1
        return
    with pytest.raises(LedgerError, match=r"cannot be added up. Run it with neighbors=\w+\(records=\d\)") as refused:
        Curator(DATA, Rho(0.1), ledger=book, neighbors=run)
    assert not book.committed
    assert repr(ledger) in str(refused.value)
    assert (f"(--records-per-person {ledger.records})" in str(refused.value)) == isinstance(ledger, AddRemove)
    Curator(DATA, Rho(0.1), ledger=book, neighbors=ledger).close()


UNITS = [Relation(AddRemove()), Relation(AddRemove(8), "patient"), Relation(AddRemove(2), "patient")]
UNITS += [Relation(AddRemove(8), "house"), Relation(Change(), "patient"), Relation(Replace(8)), Relation(Change(8))]


@pytest.mark.parametrize(("run", "ledger"), itertools.product(UNITS, repeat=2), ids=str)
def test_rows_and_units_and_two_units_never_imply_each_other(run, ledger):
    if run.unit != ledger.unit:
        assert not run.implies(ledger)
    elif run.unit is not None:  # whatever the bounds of the two runs
        assert run.implies(ledger) == (isinstance(run.neighbors, Change) or isinstance(ledger.neighbors, AddRemove))


CELLS = list(itertools.product(range(2), repeat=2))
PAIRS = [table for table in itertools.product(range(4), repeat=4) if sum(table) <= 3]
"""All tables of at most three rows with two attributes of two values, as counts of the cells."""
FIXED = [(), ((),), (("a",),), (("a",), ("b",)), (("a", "b"),), (("a",), ("a", "b"))]


def cliques_agree(one, two, invariants):
    """Return whether the marginals of two tables of `PAIRS` agree."""
    counts = np.array([one, two]).reshape(2, 2, 2)
    dropped = [tuple(1 + axis for axis, name in enumerate("ab") if name not in clique) for clique in invariants]
    return all(np.array_equal(*counts.sum(axis=axes)) for axes in dropped)


@pytest.mark.parametrize("ran", FIXED, ids=str)
@pytest.mark.parametrize("records", [(1, 1), (2, 1), (2, 2), (1, 2)], ids=str)
def test_a_ledger_of_invariants_accepts_what_implies_its_relation(records, ran):
    run = Relation(Replace(records[0]), None, ran)
    near = [p for p in itertools.product(PAIRS, PAIRS) if related(*p, Replace(records[1]))]
    for held in FIXED:
        ledger = Relation(Replace(records[1]), None, held)
        pairs = [pair for pair in near if cliques_agree(*pair, held)]
        true = all(related(*pair, run.neighbors) and cliques_agree(*pair, ran) for pair in pairs)
        assert true or not run.implies(ledger), held
        assert records != (2, 2) or run.implies(ledger) == true, held


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
def test_a_ledger_of_areas_accepts_runs_that_publish_provinces(records):
    tree = pg.Hierarchy("a", {"province": [0, 0, 1], "town": [0, 1, 2]})
    data = pg.Dataset.from_codes(np.zeros((1, 2), int), pg.Domain(PROVINCES).with_hierarchies(tree))
    near = [pair for pair in itertools.product(BY_AREA, BY_AREA) if related(*pair, Replace(records[1]))]
    for ran, held in itertools.product(BY_PROVINCE, repeat=2):
        run = relation_of(Replace(records[0]), data, (ran,))
        pairs = [pair for pair in near if areas_agree(*pair, [held])]
        true = all(related(*pair, run.neighbors) and areas_agree(*pair, [ran]) for pair in pairs)
        implies = run.implies(Relation(Replace(records[1]), None, (held,)))
        assert true or not implies, (ran, held)
        covered = {"a", "a@town"} if ran[0] != "a" else {"a"}
        named_finer = held[0] in covered or ran[0] == held[0]
        enough = records[0] >= records[1]
        assert implies == (enough and named_finer and set(ran[1:]) <= set(held[1:])), (ran, held)
        assert Relation.from_json(run.to_json()) == run


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
