"""Rows of one parent in an order: sorted when they are read, and in order when they are drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import ArgumentError, DataError, SchemaError
from pgmest.schema import LinkedSchema, draft

HOSPITAL = """
tables:
  patients: {key: pid}
  visits:
    parent: patients
    key: pid
    at_most: 6
    order: day
    columns:
      day: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month, missing: true}
      ward: {type: categorical, values: [A, B, C], outside: clip}
      nth: {type: sequence}
  codes: {parent: visits, key: [pid, no], at_most: 3, columns: {code: {type: integer, min: 0, max: 9}}}
"""
SCHEMA = LinkedSchema.parse(HOSPITAL)
VISITS = st.lists(
    st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 365)), st.sampled_from("ABC"), st.integers(0, 3)),
    min_size=1,
    max_size=15,
)


def tables_of(visits):
    """Return tables of visits (patient, day or None, ward, number of codes)."""
    days = [None if day is None else pd.Timestamp("2020-01-01") + pd.Timedelta(days=day) for _, day, _, _ in visits]
    frame = pd.DataFrame(
        {
            "pid": [patient for patient, *_ in visits],
            "no": range(len(visits)),
            "day": pd.Series(days, dtype="datetime64[ns]"),
            "ward": [ward for _, _, ward, _ in visits],
            "nth": 1,
        }
    )
    rows = [(pid, no, number % 10) for no, (pid, *_, count) in enumerate(visits) for number in range(no, no + count)]
    codes = pd.DataFrame(rows or np.empty((0, 3)), columns=["pid", "no", "code"])
    return {"patients": pd.DataFrame({"pid": range(5)}), "visits": frame, "codes": codes}


@settings(max_examples=15)
@given(VISITS, st.randoms(use_true_random=False))
def test_rows_are_sorted_and_what_hangs_on_them_follows(visits, random):
    key = b"sixteen byte key"
    frames = tables_of(visits)
    linked = SCHEMA.encode(frames, key=key)
    parents = linked.link("visits")[1]
    days = linked.tables["visits"].dataset.column("day").astype(int)
    assert all((np.diff(days[parents == parent]) >= 0).all() for parent in range(5))
    held = sorted(
        zip(
            linked.units("codes").tolist(),
            days[linked.link("codes")[1]].tolist(),
            linked.tables["codes"].dataset.column("code").tolist(),
            strict=True,
        )
    )
    unsorted = LinkedSchema.parse(HOSPITAL.replace("    order: day\n", "")).encode(frames, key=key)
    others = unsorted.tables["visits"].dataset.column("day")[unsorted.link("codes")[1]]
    codes = unsorted.tables["codes"].dataset.column("code").tolist()
    assert held == sorted(zip(unsorted.units("codes").tolist(), others.tolist(), codes, strict=True))
    shuffled = {**frames, "visits": frames["visits"].sample(frac=1, random_state=random.randrange(1000))}
    again = SCHEMA.encode(shuffled, key=key)
    assert np.array_equal(again.tables["visits"].dataset.column("day"), days)


@settings(max_examples=15)
@given(VISITS)
def test_drawn_rows_are_in_order_and_encode_to_the_same(visits):
    linked = SCHEMA.encode(tables_of(visits))
    made = SCHEMA.decode(linked, seed=0)
    for _, rows in made["visits"].groupby("pid"):
        assert rows["day"].dropna().is_monotonic_increasing
        assert rows["nth"].tolist() == list(range(1, len(rows) + 1))
    assert SCHEMA.encode(made) == linked.in_order()


def test_days_within_one_bin_and_ties_keep_their_order():
    frames = tables_of([(0, 20, "A", 0), (0, 5, "B", 0), (0, None, "C", 0), (0, 5, "C", 0), (1, 3, "A", 0)])
    visits = SCHEMA.encode(frames).tables["visits"].dataset
    assert visits.column("ward").tolist() == [1, 2, 0, 2, 0]  # 5 B, 5 C, 20 A, none C; and the other patient
    numbered = LinkedSchema.parse(HOSPITAL.replace("order: day", "order: nth"))
    frames["visits"]["nth"] = [3, 1, 2, 4, 1]
    assert numbered.parts["visits"].order_by is None
    assert numbered.encode(frames).tables["visits"].dataset.column("ward").tolist() == [1, 2, 0, 2, 0]
    frames["visits"]["nth"] = ["3", "1", "?", "4", "1"]
    assert numbered.encode(frames).tables["visits"].dataset.column("ward").tolist() == [1, 0, 2, 2, 0]


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("order: day", "order: ward", "a column with an order.*day, nth"),
        ("order: day", "order: date", "a column with an order"),
        ("order: day", "order: [day]", "must be text"),
        ("patients: {key: pid}", "patients: {key: pid, order: day}", "add parent:"),
    ],
)
def test_orders_that_cannot_be_are_refused(old, new, match):
    with pytest.raises(SchemaError, match=match):
        LinkedSchema.parse(HOSPITAL.replace(old, new))


def test_an_order_by_what_a_rule_compares_is_refused():
    text = HOSPITAL.replace("day: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month", "day: {type: integer, "
                            "min: 0, max: 99, width: 10")  # fmt: skip
    rule = "    within:\n      - older: {ward: A, than: {ward: B}, by: 1, column: day}\n"
    LinkedSchema.parse(text)
    with pytest.raises(SchemaError, match="which a rule older: compares"):
        LinkedSchema.parse(text.replace("  codes:", rule + "  codes:"))


def test_linked_datasets_out_of_order_are_refused():
    root, rows = LinkedTable(Dataset.from_codes(np.zeros((2, 1), int), {"x": 1})), np.array([0, 1, 0])
    visits = Dataset.from_codes(np.array([[2], [0], [1]]), {"day": 3})
    for order_by in (None, "day"):
        table = LinkedTable(visits, "patients", rows, 4, ordered=True, order_by=order_by)
        if order_by is None:
            assert "in order" in repr(LinkedDataset({"patients": root, "visits": table}))
        else:
            with pytest.raises(DataError, match="not in order of 'day'"):
                LinkedDataset({"patients": root, "visits": table})
    with pytest.raises(ArgumentError, match="order_by"):
        LinkedTable(visits, "patients", rows, 4, ordered=True, order_by="ward")
    with pytest.raises(ArgumentError, match="order_by"):
        LinkedTable(visits, "patients", rows, 4, order_by="day")
    for ordered, order_by in ((True, None), (False, "day"), (True, "nope")):
        with pytest.raises(ArgumentError, match="only the rows of one parent row have an order"):
            LinkedTable(visits, ordered=ordered, order_by=order_by)


def test_decoding_another_order_is_refused():
    linked = SCHEMA.encode(tables_of([(0, 1, "A", 1)]))
    with pytest.raises(SchemaError, match="ordered by day, but by nth"):
        LinkedSchema.parse(HOSPITAL.replace("order: day", "order: nth")).decode(linked)


def test_a_draft_proposes_an_order_by_a_number_or_a_date():
    generator = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(300, size=120), unit="D")
    visits = pd.DataFrame({"pid": np.repeat(range(40), 3), "day": days})
    patients = pd.DataFrame({"pid": range(40), "sex": generator.integers(2, size=40)})
    assert "# order: day\n" in draft({"patients": patients, "visits": visits})
    visits["number"] = np.tile([1, 2, 3], 40)
    assert "# order: number\n" in draft({"patients": patients, "visits": visits})
    alone = visits.drop(columns=["day", "number"]).assign(ward=generator.integers(3, size=120))
    assert "# order:" not in draft({"patients": patients, "visits": alone})
