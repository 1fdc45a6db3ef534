"""Rows that a table's constraints call impossible are changed, and no rule within a household breaks for it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.schema import LinkedSchema
from pgmest.schema.linked.possible_rows import possible_rows

SURVEY = LinkedSchema.parse(
    """
tables:
  households:
    key: hid
    columns:
      region: {type: categorical, values: [N, S], outside: clip}
      coast: {type: boolean}
    constraints: [{impossible: {region: S, coast: true}}]
  persons:
    parent: households
    key: hid
    at_most: 5
    columns:
      role: {type: categorical, values: [head, child, other], outside: clip}
      age: {type: integer, min: 0, max: 49, width: 10}
      work: {type: boolean}
    constraints:
      - impossible: {role: head, age: {max: 19}}
      - impossible: {age: {max: 9}, work: true}
    within:
      - exactly: {role: head, count: 1}
      - older: {role: head, than: {role: child}, by: 12, column: age}
"""
)


def linked_of(households, persons, parents):
    domains = {name: part.schema.domain for name, part in SURVEY.parts.items()}
    root = LinkedTable(Dataset.from_codes(np.array(households, int).reshape(-1, 2), domains["households"]))
    child = Dataset.from_codes(np.array(persons, int).reshape(-1, 3), domains["persons"])
    table = LinkedTable(child, "households", np.array(parents, int), 5)
    return LinkedDataset({"households": root, "persons": table}, SURVEY.rules)


@st.composite
def families(draw):
    """Households with a head who may be too young, and with others who may have what they cannot have."""
    count = draw(st.integers(1, 6))
    households = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=count, max_size=count))
    persons, parents = [], []
    for home in range(count):
        others = draw(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 4), st.integers(0, 1)), max_size=4))
        persons += [(0, draw(st.integers(0, 4)), draw(st.integers(0, 1))), *others]
        parents += [home] * (1 + len(others))
    order = draw(st.permutations(range(len(parents))))
    return linked_of(households, [persons[row] for row in order], [parents[row] for row in order])


def impossible(linked):
    households, persons = (linked.tables[name].dataset.codes.astype(int) for name in ("households", "persons"))
    south = (households[:, 0] == 1) & (households[:, 1] == 1)
    young = (persons[:, 0] == 0) & (persons[:, 1] <= 1)
    return south, young | ((persons[:, 1] == 0) & (persons[:, 2] == 1))


@settings(max_examples=150)
@given(families())
def test_no_impossible_row_is_left_and_no_rule_breaks(linked):
    before, after = impossible(linked), possible_rows(SURVEY, linked, np.random.default_rng(0))
    for name, bad, left in zip(("households", "persons"), before, impossible(after), strict=True):
        assert not left.any() or bad.all()  # where nothing is possible, nothing can be learned
        if not bad.any():
            assert after.tables[name].dataset == linked.tables[name].dataset
    assert after.link("persons")[1].tolist() == linked.link("persons")[1].tolist()
    sizes = linked.sizes("persons")
    parents = linked.link("persons")[1]
    wrong = np.bincount(parents[before[1]], minlength=len(sizes)) > 0
    for rule in SURVEY.rules:
        broken = rule.broken(linked)
        whole = ~wrong & ~np.any([one.broken(linked) for one in SURVEY.rules], axis=0)
        for home in np.flatnonzero(rule.broken(after) & ~broken):
            assert not (whole & (sizes == sizes[home])).any()  # else that household's rows could be taken


def test_few_codes_change():
    rng = np.random.default_rng(0)
    ages = rng.integers(2, 5, 4000)
    persons = [
        (0, age, rng.integers(2)) if row % 2 == 0 else (2, rng.integers(5), rng.integers(2))
        for row, age in enumerate(ages)
    ]
    linked = linked_of(np.zeros((2000, 2)), persons, np.repeat(range(2000), 2))
    bad = impossible(linked)[1]
    after = possible_rows(SURVEY, linked, rng)
    changed = (linked.tables["persons"].dataset.codes != after.tables["persons"].dataset.codes).sum(axis=1)
    assert not impossible(after)[1].any()
    assert bad.sum() > 100
    assert (changed == bad).all()


VISITS = LinkedSchema.parse(
    """
tables:
  patients: {key: pid}
  visits:
    parent: patients
    key: pid
    at_most: 4
    order: day
    columns:
      day: {type: integer, min: 0, max: 3}
      ward: {type: integer, min: 0, max: 1}
    constraints: [{impossible: {day: {max: 1}, ward: 1}}]
  codes: {parent: visits, key: [pid, no], at_most: 3, columns: {code: {type: integer, min: 0, max: 9}}}
"""
)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(*(st.integers(0, most) for most in (2, 3, 1, 2))), min_size=1, max_size=12), st.integers(0, 9)
)
def test_rows_in_order_stay_in_order_and_keep_what_hangs_on_them(visits, seed):
    """Visits (patient, day, ward, number of codes); all codes of a visit are its patient."""
    visits = sorted(visits, key=lambda visit: visit[1])
    patients, days, wards, numbers = np.array(visits).T
    kept = np.array([np.count_nonzero(patients[:row] == one) < 4 for row, one in enumerate(patients)])
    patients, days, wards, numbers = (column[kept] for column in (patients, days, wards, numbers))
    of = np.repeat(np.arange(len(patients)), numbers)
    root = LinkedTable(Dataset.from_codes(np.empty((3, 0), int), {}))
    table = Dataset.from_codes([days, wards], {"day": 4, "ward": 2})
    codes = LinkedTable(Dataset.from_codes(patients[of, None], {"code": 10}), "visits", of, 3)
    in_order = LinkedTable(table, "patients", patients, 4, ordered=True, order_by="day")
    linked = LinkedDataset({"patients": root, "visits": in_order, "codes": codes})
    made = possible_rows(VISITS, linked, np.random.default_rng(seed))
    day, ward = (made.tables["visits"].dataset.column(name) for name in ("day", "ward"))
    bad = (days <= 1) & (wards == 1)
    assert not ((day <= 1) & (ward == 1)).any() or bad.all()
    assert made.tables["codes"].dataset == codes.dataset
    assert made.units("codes").tolist() == patients[of].tolist()
    assert sorted(made.sizes("codes")) == sorted(numbers)
    if not bad.any():
        assert made == linked


def test_a_row_that_comes_later_after_its_repair_takes_along_what_hangs_on_it():
    root = LinkedTable(Dataset.from_codes(np.empty((2, 0), int), {}))
    visits = Dataset.from_codes([[3, 1, 2], [1, 1, 1]], {"day": 4, "ward": 2})  # the second is impossible
    table = LinkedTable(visits, "patients", np.array([1, 0, 0]), 4, ordered=True, order_by="day")
    codes = LinkedTable(Dataset.from_codes([[0, 1, 2]], {"code": 10}), "visits", np.arange(3), 3)
    linked = LinkedDataset({"patients": root, "visits": table, "codes": codes})
    days = set()
    for seed in range(30):
        made = possible_rows(VISITS, linked, np.random.default_rng(seed))
        day = made.tables["visits"].dataset.column("day")[made.link("codes")[1]]
        assert day[[0, 2]].tolist() == [3, 2]
        days.add(int(day[1]))
    assert 3 in days  # then it is the last of its patient
