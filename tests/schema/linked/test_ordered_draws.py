"""Rows in order by a column of an `ordered:` chain: no column leaves its bin where values in all bins exist."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import SchemaError
from pgmest.schema import LinkedSchema
from tests.schema.test_orders_and_sums import START, all_rows, as_dates, as_reals, in_order, ordered, schema_of


def linked_schema(description: dict[str, Any], order: str) -> LinkedSchema:
    visits = {"parent": "patients", "key": "pid", "at_most": 1000, "order": order, **description}
    return LinkedSchema.from_dict({"tables": {"patients": {"key": "pid"}, "visits": visits}})


def firsts(description: dict[str, Any]) -> list[str]:
    """Return the columns that come after no other one."""
    return sorted(
        set(description["columns"]) - {name for one in description["constraints"] for name in one["ordered"][1:]}
    )


def frames(visits: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {"patients": pd.DataFrame({"pid": range(int(visits["pid"].to_numpy().max()) + 1)}), "visits": visits}


def check(schema: LinkedSchema, visits: pd.DataFrame, chains: list[list[str]], order: str) -> None:
    """Check that tables of encoded rows are in both orders, and encode to the same codes."""
    linked = schema.encode(frames(visits))
    for seed in range(3):
        made = schema.decode(linked, seed=seed)
        assert in_order(made["visits"], chains).all()
        for _, rows in made["visits"].groupby("pid"):
            assert rows[order].dropna().is_monotonic_increasing
        assert schema.encode(made) == linked.in_order()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(ordered(), st.integers(0, 999), st.integers(1, 12))
def test_no_column_leaves_its_bin(description, seed, patients):
    chains = [one["ordered"] for one in description["constraints"]]
    rows = all_rows(schema_of(description), "abc")
    generator = np.random.default_rng(seed)
    rows: pd.DataFrame = rows.loc[in_order(rows, chains)].sample(n=60, replace=True, random_state=seed)
    rows.insert(0, "pid", generator.integers(patients, size=len(rows)))
    order = firsts(description)[seed % len(firsts(description))]
    check(linked_schema(description, order), rows, chains, order)
    if seed % 2:
        days = {name: (START + rows[name].astype("m8[D]")).astype("M8[ns]") for name in "abc"}
        dates = description | {"columns": as_dates(description["columns"])}
        check(linked_schema(dates, order), rows.assign(**days), chains, order)
    else:
        reals = description | {"columns": as_reals(description["columns"])}
        check(linked_schema(reals, order), rows.assign(**{name: rows[name] / 10 for name in "abc"}), chains, order)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(ordered(), st.integers(0, 999))
def test_codes_that_cannot_be_together_give_values_in_both_orders_and_in_the_bounds(description, seed):
    chains, generator = [one["ordered"] for one in description["constraints"]], np.random.default_rng(seed)
    schema_of(description)  # else nothing is possible
    order = firsts(description)[seed % len(firsts(description))]
    schema = linked_schema(description, order)
    visits = schema.parts["visits"].schema
    codes = np.array(list(itertools.product(*map(range, visits.domain.shape))))
    codes = codes[generator.permutation(len(codes))[:200]]
    patients = np.sort(generator.integers(9, size=len(codes)))
    codes = codes[np.lexsort((codes[:, "abc".index(order)], patients))]
    table = LinkedTable(
        Dataset.from_codes(list(codes.T), visits.domain), "patients", patients, 1000, ordered=True, order_by=order
    )
    root = LinkedTable(Dataset.from_codes(np.empty((9, 0), int), {}))
    made = schema.decode(LinkedDataset({"patients": root, "visits": table}), seed=0)["visits"]
    assert in_order(made, chains).all()
    for _, rows in made.groupby("pid"):
        assert rows[order].dropna().is_monotonic_increasing
    for column in visits.described:
        values = made[column.name].dropna()
        assert ((values >= column.low) & (values <= column.high)).all()  # type: ignore[attr-defined]


ORDER, OLDER = "    order: a\n", "    within: [{older: {role: x, than: {role: y}, by: 2, column: a}}]\n"
STAYS = """
tables:
  patients: {key: pid}
  visits:
    parent: patients
    key: pid
    at_most: 6
    order: a
    columns:
      role: {type: categorical, values: [x, y], outside: clip}
      a: {type: integer, min: 0, max: 99, bins: 1}
      b: {type: integer, min: 0, max: 99, width: 5}
    constraints: [{ordered: [a, b]}]
"""


def test_lengths_within_wide_bins_are_those_of_a_table_without_an_order():
    generator = np.random.default_rng(0)
    a, b = np.sort(generator.integers(100, size=(2, 6000)), axis=0)
    for rows in (1, 2):  # of one patient
        visits = pd.DataFrame({"pid": np.arange(6000) // rows, "role": "x", "a": a, "b": b})
        made = [
            LinkedSchema.parse(text).decode(LinkedSchema.parse(text).encode(frames(visits)), seed=7)["visits"]
            for text in (STAYS, STAYS.replace(ORDER, ""))
        ]
        means = [(one["b"] - one["a"]).mean() for one in made]
        assert means[0] == pytest.approx(
            means[1], abs=1.5 * rows
        )  # three standard errors; two rows are only about right


def test_numbers_that_are_compared_leave_values_to_those_after_them():
    schema = LinkedSchema.parse(STAYS.replace(ORDER, OLDER))
    generator = np.random.default_rng(0)
    a = np.stack([generator.integers(2, 50, 500), np.zeros(500, int)], axis=1)
    a[:, 1] = generator.integers(a[:, 0] - 1)
    b = generator.integers(a, a + 4)
    visits = pd.DataFrame(
        {"pid": np.repeat(np.arange(500), 2), "role": ["x", "y"] * 500, "a": a.ravel(), "b": b.ravel()}
    )
    linked = schema.encode(frames(visits))
    made = schema.decode(linked, seed=0)
    assert schema.encode(made) == linked
    wide = made["visits"].pivot(index="pid", columns="role", values="a")
    assert (wide["x"] - wide["y"] >= 2).all()


@pytest.mark.parametrize(
    ("order", "match"),
    [
        ("c", "part of a sum"),
        ("d", "part of a sum"),
        ("b", "depend on other columns"),
        ("t", "depend on other columns"),
    ],
)
def test_columns_that_others_determine_are_refused(order, match):
    number = {"type": "integer", "min": 0, "max": 9}
    constraints = [{"ordered": ["a", "b"]}, {"sum": {"t": ["c", "d"]}}]
    columns = dict.fromkeys("abcd", number) | {"t": {"type": "integer", "min": 0, "max": 18}}
    linked_schema({"columns": columns, "constraints": constraints}, "a")
    with pytest.raises(SchemaError, match=match):
        linked_schema({"columns": columns, "constraints": constraints}, order)


def test_markers_of_missing_values_are_never_drawn_and_do_not_break_the_order():
    schema = LinkedSchema.parse("""
tables:
  patients: {key: pid}
  visits:
    parent: patients
    key: pid
    at_most: 9
    order: no
    columns: {no: {type: integer, edges: [0, 6, 8, 10], missing: [3, 7, 9]}}
""")
    visits = pd.DataFrame({"pid": np.repeat(np.arange(200), 4), "no": [9, 1, 2, 8, 6, 6, 3, 7] * 100})
    linked = schema.encode(frames(visits))
    made = schema.decode(linked, seed=0)
    assert made["visits"]["no"].isna().sum() == 300
    assert not made["visits"]["no"].isin([3, 7, 9]).any()
    assert schema.encode(made) == linked.in_order()


def test_times_of_a_zone_are_in_order_by_its_clock():
    schema = LinkedSchema.parse("""
tables:
  patients: {key: pid}
  visits:
    parent: patients
    key: pid
    at_most: 9
    order: at
    columns:
      at: {type: date, min: 2020-10-01, max: 2020-10-31, unit: hour, width: 48, missing: true}
      b: {type: integer, min: 0, max: 5}
""")
    zone = "Europe/Berlin"
    clock = pd.Series(pd.date_range("2020-10-24", periods=120, freq="h"), dtype="datetime64[ns]").sample(
        frac=1, random_state=0
    )
    at = clock.dt.tz_localize("UTC").dt.tz_convert(zone).reset_index(drop=True)
    at[5] = None
    visits = pd.DataFrame({"pid": np.repeat(np.arange(20), 6), "at": at, "b": np.tile(np.arange(6), 20)})
    linked = schema.encode(frames(visits))
    own = visits.assign(at=visits["at"].dt.tz_localize(None)).sort_values(["pid", "at"], kind="stable")
    assert linked.tables["visits"].dataset.column("b").tolist() == own["b"].tolist()
    made = schema.decode(linked, seed=0)
    assert schema.encode(made) == linked
    for _, rows in made["visits"].groupby("pid"):
        assert rows["at"].dropna().is_monotonic_increasing
