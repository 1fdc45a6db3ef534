"""Errors of linked tables, against loops over households."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import DataError
from pgmest.evaluation import linked_errors


def survey(households, persons, members, at_most=5, ordered=False):
    """Households (region, income) and persons (age, job), and the household of each person."""
    root = Dataset.from_codes(np.array(households, int).reshape(-1, 2), {"region": 3, "income": 2})
    child = Dataset.from_codes(np.array(persons, int).reshape(-1, 2), {"age": 4, "job": 2})
    table = LinkedTable(child, "households", np.array(members, int), at_most, ordered=ordered)
    return LinkedDataset({"households": LinkedTable(root), "persons": table})


@st.composite
def surveys(draw):
    households = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=5))
    sizes = draw(st.lists(st.integers(0, 5), min_size=len(households), max_size=len(households)))
    persons = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=sum(sizes), max_size=sum(sizes)))
    return survey(households, persons, np.repeat(range(len(sizes)), sizes), ordered=True)


def distributions(linked):
    """All compared distributions, as dicts of weights, by class and name."""
    household, person = (linked.tables[name].dataset for name in ("households", "persons"))
    members = [np.flatnonzero(linked.link("persons")[1] == row) for row in range(len(linked))]
    column = {name: data.column(name).tolist() for data in (household, person) for name in data.domain}
    found: dict[tuple[str, str, str], list] = {("persons", "size", "size"): [(len(one), 1.0) for one in members]}
    for table, names, rows in (
        ("households", ("region", "income"), len(linked)),
        ("persons", ("age", "job"), person.records),
    ):
        for clique in ((names[0],), (names[1],), names):
            cells = [(tuple(column[name][row] for name in clique), 1.0) for row in range(rows)]
            found[table, "marginals", " x ".join(clique)] = cells
    for a, b in itertools.product(("region", "income"), ("age", "job")):
        cells = [((column[a][home], column[b][row]), 1.0) for home, one in enumerate(members) for row in one]
        found["persons", "between", f"households.{a} x {b}"] = cells
    for a, b in itertools.product(("age", "job"), repeat=2):
        cells = []
        for one in members:
            pairs = list(itertools.permutations(one, 2))
            cells += [((column[a][row], column[b][other]), 1 / len(pairs)) for row, other in pairs]
        found["persons", "within", f"{a} x {b} of another"] = cells
        follow = [pair for one in members for pair in itertools.pairwise(one)]
        found["persons", "next", f"{a} x {b} of the next"] = [
            ((column[a][row], column[b][other]), 1.0) for row, other in follow
        ]
    for name in ("age", "job"):
        for code in range(person.domain[name]):
            counts = [sum(column[name][row] == code for row in one) for one in members]
            found["persons", "someone", f"{name} = code {code}"] = [(bool(count), 1.0) for count in counts]
            found["persons", "how_many", f"{name} = code {code}"] = [(min(count, 3), 1.0) for count in counts]
    return found


def distance(mine, theirs):
    tables = []
    for cells in (mine, theirs):
        total = sum(weight for _, weight in cells)
        table = {}
        for cell, weight in cells:
            table[cell] = table.get(cell, 0.0) + weight / total
        tables.append(table)
    if not all(tables):
        return float(any(tables))
    return sum(abs(tables[0].get(cell, 0.0) - tables[1].get(cell, 0.0)) for cell in {**tables[0], **tables[1]}) / 2


@settings(max_examples=60)
@given(surveys(), surveys())
def test_errors_are_those_of_loops(true, made):
    errors = linked_errors(true, made)
    mine, theirs = distributions(true), distributions(made)
    compared = set()
    for table, kinds in errors.errors.items():
        for kind, found in kinds.items():
            for name, error in found.items():
                if kind != "within_alike":
                    key = (table, kind, name)
                    assert error == pytest.approx(distance(mine[key], theirs[key])), key
                    compared.add(key)
                else:
                    assert error == kinds["within"][f"{name} x {name} of another"]
    varied = {
        name
        for table in true.tables.values()
        for name in table.domain
        if len(set(table.dataset.column(name).tolist())) > 1
    }
    for table, kind, name in set(mine) - compared:
        used = {attribute for attribute in ("region", "income", "age", "job") if attribute in name}
        share = np.mean([bool(cell) for cell, _ in mine[table, kind, name]]) if kind in ("someone", "how_many") else 0.5
        assert not used <= varied or not 0.02 <= share <= 0.98


def test_the_same_tables_have_no_errors_and_a_report_names_the_worst():
    true = survey([(0, 0), (1, 1), (2, 0)], [(0, 0), (1, 1), (2, 0), (3, 1)], [0, 0, 1, 2])
    assert all(error == 0 for kinds in linked_errors(true, true).summary().values() for error in kinds.values())
    made = survey([(0, 0), (1, 1), (2, 0)], [(0, 0), (1, 1), (2, 0), (3, 1)], [0, 0, 0, 0])
    errors = linked_errors(true, made, {"persons": {"age": ["child", "teen", "adult", "old"]}})
    error, table, kind, _ = errors.worst(1)[0]
    assert (error, table) == (pytest.approx(1.0), "persons")
    assert kind in ("size", "between", "within")
    assert errors.errors["persons"]["someone"]["age = old"] == 0
    assert errors.errors["persons"]["someone"]["age = child"] == 0
    assert errors.errors["persons"]["size"]["size"] == pytest.approx(2 / 3 + 1 / 3)
    assert str(errors).split("\n")[1].split() == ["size", "-", "1.0000"]
    assert errors.to_json()["rows"] == {"households": [3, 3], "persons": [4, 4]}
    assert np.isnan(errors.mean("households", "size"))


def test_the_worst_lists_a_table_of_one_row_and_another_once():
    rng = np.random.default_rng(0)
    homes = [(i % 3, i % 2) for i in range(40)]
    true, made = (
        survey(homes, [tuple(row) for row in rng.integers(0, 2, (80, 2))], sorted(i % 40 for i in range(80)))
        for _ in range(2)
    )
    errors = linked_errors(true, made)
    pairs = errors.errors["persons"]["within"]
    assert {"age x job of another", "job x age of another"} <= set(pairs)
    listed = [name for *_, kind, name in errors.worst(100) if kind == "within"]
    assert "age x job of another" in listed
    assert "job x age of another" not in listed
    assert len(errors.worst(100)) > len(listed) >= 3


def test_three_levels_are_compared_with_all_tables_above():
    none = Dataset.from_codes(np.zeros((2, 1), int), {"a": 2})
    root = Dataset.from_codes(np.array([[0], [1]]), {"a": 2})
    codes = Dataset.from_codes(np.array([[0], [1]]), {"a": 2})

    def made(at):
        below = LinkedTable(codes, "visits", np.array(at), 2)
        middle = LinkedTable(none, "patients", np.array([0, 1]), 2)
        return LinkedDataset({"patients": LinkedTable(root), "visits": middle, "codes": below})

    found = linked_errors(made([0, 1]), made([1, 0])).errors["codes"]["between"]
    assert found == {"patients.a x a": 1.0}  # the attribute of visits has one value


def test_other_tables_are_refused():
    true = survey([(0, 0)], [(0, 0)], [0])
    with pytest.raises(DataError, match="no rows"):
        linked_errors(true, survey([], [], []))
    with pytest.raises(DataError, match="other tables or attributes"):
        linked_errors(true, LinkedDataset({"households": true.tables["households"]}))
