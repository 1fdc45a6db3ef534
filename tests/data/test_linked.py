"""LinkedDataset and its rules, against loops over the rows."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import AtLeast, AtMost, Exactly, Older
from pgmest.errors import ArgumentError, DataError, ShapeError, UnknownAttributeError

ENDS: dict[str, Any] = {"least": (0.0, 10.0, 20.0, np.nan), "greatest": (9.0, 19.0, 29.0, np.nan)}
"""Three bins of ten years, and a code for missing ages."""


def table(rows, sizes, *parent):
    codes = np.random.default_rng(rows).integers(0, list(sizes.values()) or [1], (rows, max(len(sizes), 1)))
    return LinkedTable(Dataset.from_codes(codes[:, : len(sizes)], sizes), *parent)


@st.composite
def three_levels(draw):
    """Patients with visits with codes, and patients with contacts; any of them may be empty."""
    rows = {name: draw(st.integers(0, 6)) for name in ("patients", "visits", "codes", "contacts")}
    rows["visits"], rows["contacts"] = (
        rows["visits"] * (rows["patients"] > 0),
        rows["contacts"] * (rows["patients"] > 0),
    )
    rows["codes"] *= rows["visits"] > 0
    parents = {"visits": "patients", "codes": "visits", "contacts": "patients"}
    at = {
        name: np.array(
            draw(st.lists(st.integers(0, max(rows[above] - 1, 0)), min_size=rows[name], max_size=rows[name]))
        )
        for name, above in parents.items()
    }
    made = {name: table(rows[name], {"a": 3, "b": 2}, above, at[name], 6) for name, above in parents.items()}
    return LinkedDataset({**made, "patients": table(rows["patients"], {"a": 2})})


@given(three_levels())
def test_sizes_and_units_are_those_of_a_loop(linked):
    assert linked.root == linked.order[0] == "patients"
    assert set(linked.children("patients")) == {"visits", "contacts"}
    assert linked.children("codes") == ()
    assert linked.path("codes") == ("patients", "visits", "codes")
    visits, codes = linked.tables["visits"], linked.tables["codes"]
    assert linked.sizes("codes").tolist() == [list(codes.parent_rows).count(row) for row in range(visits.rows)]
    assert linked.units("codes").tolist() == [visits.parent_rows[row] for row in codes.parent_rows]
    assert linked.units("patients").tolist() == list(range(len(linked)))


@given(three_levels(), st.integers(1, 6))
def test_cutting_a_table_keeps_what_hangs_on_the_rows_that_stay(linked, limit):
    cut = linked.at_most("visits", limit)
    stay = []
    for patient in range(len(linked)):
        rows = np.flatnonzero(linked.link("visits")[1] == patient).tolist()
        stay += rows if len(rows) <= limit else [rows[number * len(rows) // limit] for number in range(limit)]
    stay.sort()
    assert cut.tables["visits"].at_most == min(limit, 6)
    assert cut.tables["visits"].dataset == linked.tables["visits"].dataset.take(stay)
    assert cut.link("visits")[1].tolist() == linked.link("visits")[1][stay].tolist()
    codes = [row for row, visit in enumerate(linked.link("codes")[1]) if visit in stay]
    assert cut.tables["codes"].dataset == linked.tables["codes"].dataset.take(codes)
    assert [stay[visit] for visit in cut.link("codes")[1]] == linked.link("codes")[1][codes].tolist()
    assert cut.tables["contacts"] is linked.tables["contacts"]
    for name, wrong in (("patients", 2), ("visits", 0), ("rooms", 2)):
        with pytest.raises(ArgumentError):
            linked.at_most(name, wrong)


@given(three_levels(), st.data())
def test_taking_units_takes_all_that_hangs_on_them(linked, data):
    rows = data.draw(st.lists(st.sampled_from(range(len(linked))), unique=True) if len(linked) else st.just([]))
    taken = linked.take(rows)
    assert len(taken) == len(rows)
    for name in linked.order:
        units, before = taken.units(name), linked.units(name)
        for place, row in enumerate(rows):
            mine = linked.tables[name].dataset.codes[before == row]
            assert taken.tables[name].dataset.codes[units == place].tolist() == mine.tolist()
    mask = np.isin(np.arange(len(linked)), rows)
    assert linked.take(mask) == linked.take(sorted(rows))


@given(three_levels(), st.randoms(use_true_random=False))
def test_rows_in_the_order_of_their_parents_are_the_same_rows(linked, random):
    order = random.sample(range(len(linked)), len(linked))
    sorted_rows = linked.take(order).in_order()
    for name in linked.order[1:]:
        assert (np.diff(sorted_rows.link(name)[1]) >= 0).all()
    assert sorted_rows.take(np.argsort(order)).in_order() == linked.in_order()


@pytest.mark.parametrize("rows", [[0, 0], [5], ["x"], 0.5, [-1, 1]])
def test_take_refuses_other_than_distinct_rows(rows):
    with pytest.raises(ArgumentError, match="rows"):
        LinkedDataset({"h": table(2, {"a": 2})}).take(rows)


def test_limits_multiply_along_a_path():
    none = np.empty(0)
    below = {"v": table(0, {}, "p", none, 5), "c": table(0, {}, "v", none, 3), "w": table(0, {}, "p", none, 2)}
    linked = LinkedDataset({**below, "p": table(4, {})}, unit="v")
    assert [linked.most(name) for name in "pvcw"] == [1, 1, 3, 0]
    assert [linked.most(name, "p") for name in "pvcw"] == [1, 5, 15, 2]


@pytest.mark.parametrize(
    ("tables", "match"),
    [
        ({}, "one table that has no parent"),
        ({"a": table(1, {}), "b": table(1, {})}, "a, b have none"),
        ({"a": table(1, {}), "b": table(1, {}, "c", np.zeros(1, int), 1)}, "'c', which is no table"),
        (
            {"a": table(1, {}), "b": table(0, {}, "c", np.empty(0), 1), "c": table(0, {}, "b", np.empty(0), 1)},
            "parents of one another",
        ),
        ({"a": table(1, {}), "b": table(1, {}, "a", np.array([1]), 1)}, "has rows 0 to 0"),
        ({"a": table(1, {}), "b": table(1, {}, "a", np.array([-1]), 1)}, "parent_rows of 'b' has -1"),
        ({"a": table(1, {}), "b": table(3, {}, "a", np.zeros(3, int), 2)}, "more than at_most=2"),
    ],
)
def test_tables_that_are_no_tree_are_refused(tables, match):
    with pytest.raises(DataError, match=match):
        LinkedDataset(tables)


@pytest.mark.parametrize(
    ("parent", "child", "columns", "problem"),
    [
        ("a", "b.c", ({}, {}), r"table 'b\.c' must have no dot in its name"),
        ("", "b", ({}, {}), "table '' must have a name"),
        ("another of b", "b", ({}, {}), "table 'another of b' must have another name: those that begin with 'another"),
        ("a", "next of a", ({}, {}), "table 'next of a' must have another name"),
        ("a", "pairs of x", ({}, {}), "table 'pairs of x' must have another name"),
        ("a", "b", ({"number of b": 2}, {}), "table 'a': column 'number of b' must have .* number of rows of 'b'"),
        ("a", "b", ({}, {"number of a": 2}), "table 'b': column 'number of a' must have another name"),
        ("a", "b", ({"b.x": 2}, {"x": 2}), r"table 'a': column 'b\.x' must .* not mean column 'x' of table 'b'"),
        ("a", "b", ({}, {"x": 2, "another of b.x": 2}), "column 'another of b.x' must .* column 'x' of table 'b'"),
    ],
)
def test_names_that_would_mean_two_things_are_refused(parent, child, columns, problem):
    with pytest.raises(ArgumentError, match=problem):
        LinkedDataset({parent: table(1, columns[0]), child: table(1, columns[1], parent, np.zeros(1, int), 2)})


def test_a_table_needs_all_or_nothing_of_its_parent():
    with pytest.raises(ArgumentError, match="at_most"):
        table(1, {}, "a", np.zeros(1, int))
    with pytest.raises(ArgumentError, match="at_most"):
        table(1, {}, "a", np.zeros(1, int), 0)
    with pytest.raises(ShapeError, match="parent_rows"):
        table(2, {}, "a", np.zeros(1, int), 1)
    with pytest.raises(DataError, match="whole numbers"):
        table(1, {}, "a", np.zeros(1), 1)
    with pytest.raises(DataError, match="weights"):
        LinkedTable(Dataset.from_codes(np.zeros((1, 1), int), {"a": 2}, [0.5]))
    with pytest.raises(ArgumentError, match="unit"):
        LinkedDataset({"a": table(1, {})}, unit="b")


def households(codes, parent_rows, parents):
    persons = Dataset.from_codes(np.array(codes, int).reshape(-1, 2), {"role": 3, "age": 4})
    child = LinkedTable(persons, "h", np.array(parent_rows, int), 9)
    return LinkedDataset({"h": table(parents, {}), "persons": child})


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)), max_size=9))
def test_rules_are_broken_where_a_loop_says_so(rows):
    linked = households([row[:2] for row in rows], [row[2] for row in rows], 3)
    members = [[row[:2] for row in rows if row[2] == parent] for parent in range(3)]
    counts = [sum(role in (0, 2) for role, _ in one) for one in members]
    at = ("persons", "role", (0, 2))
    assert Exactly(*at, 1).broken(linked).tolist() == [count != 1 for count in counts]
    assert AtMost(*at, 1).broken(linked).tolist() == [count > 1 for count in counts]
    assert AtLeast(*at, 2).broken(linked).tolist() == [count < 2 for count in counts]
    older = Older("persons", "role", (0,), (1,), 12, "age", **ENDS)
    pairs = [
        [(a, b) for (r, a), (s, b) in itertools.product(one, one) if (r, s) == (0, 1) and 3 not in (a, b)]
        for one in members
    ]
    assert older.broken(linked).tolist() == [any(10 * a + 9 - 10 * b < 12 for a, b in one) for one in pairs]
    assert older.broken(linked).tolist() == [any(not older.allowed[a, b] for a, b in one) for one in pairs]
    assert older.allowed[3].all()
    assert older.allowed[:, 3].all()


@pytest.mark.parametrize(
    ("rule", "error", "match"),
    [
        (Exactly("pets", "role", (0,), 1), DataError, "is about 'pets'"),
        (Exactly("h", "role", (0,), 1), DataError, "is about 'h'"),
        (Exactly("persons", "rolle", (0,), 1), UnknownAttributeError, "role"),
        (Exactly("persons", "role", (), 1), ArgumentError, "at least one"),
        (AtMost("persons", "role", (0, 0), 1), ArgumentError, "distinct"),
        (AtMost("persons", "role", (3,), 1), ArgumentError, "in 0..2"),
        (AtMost("persons", "role", (0,), -1), ArgumentError, "count"),
        (AtLeast("persons", "role", (0,), 10), DataError, "at_most=9"),
        (Older("persons", "role", (0,), (0, 1), 12, "age", **ENDS), ArgumentError, "than"),
        (Older("persons", "role", (0,), (1,), 12, "role", **ENDS), ShapeError, "least"),
        (Older("persons", "role", (0,), (1,), np.inf, "age", **ENDS), ArgumentError, "by"),
    ],
)
def test_rules_that_do_not_fit_are_refused(rule, error, match):
    linked = households([], [], 1)
    with pytest.raises(error, match=match):
        LinkedDataset(linked.tables, [rule])
