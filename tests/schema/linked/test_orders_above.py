"""`ordered:` between columns of a table and of its parent, for all kinds of columns and directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import SchemaError
from pgmest.schema import LinkedSchema

DATES = {
    "born": "{type: date, min: 2020-01-01, max: 2022-12-31, unit: month}",
    "died": "{type: date, min: 2020-01-01, max: 2023-12-31, unit: year, missing: true}",
    "day": "{type: date, min: 2020-01-01, max: 2023-12-31, unit: month, missing: true}",
    "left": "{type: date, min: 2020-01-01, max: 2023-12-31, unit: year}",
    "found": "{type: date, min: 2020-01-01, max: 2023-12-31, unit: month}",
}


def schema_of(*constraints: str, order: str = "", kinds: dict[str, str] = DATES, codes: str = "") -> LinkedSchema:
    """Return patients with visits and codes; `constraints` are those of visits."""
    return LinkedSchema.parse(f"""
tables:
  patients:
    key: id
    columns: {{born: {kinds["born"]}, died: {kinds["died"]}}}
    constraints: [{{ordered: [born, died]}}]
  visits:
    parent: patients
    key: id
    at_most: 4
    {order}
    columns: {{day: {kinds["day"]}, left: {kinds["left"]}}}
    constraints: [{", ".join(f"{{{one}}}" for one in constraints)}]
  codes:
    parent: visits
    key: [id, no]
    at_most: 2
    columns: {{found: {kinds["found"]}}}
    {codes}
""")


def random_tables(schema: LinkedSchema, rng: np.random.Generator, count: int) -> LinkedDataset:
    """Return random codes; rows of the root are drawn until they keep all constraints and rules with all below."""
    made, parents = {}, {}
    for name, part in schema.parts.items():
        rows = count if part.parent is None else len(parents[name]) if name in parents else 0
        if part.parent is not None:
            sizes = rng.integers(0, part.at_most + 1, made[part.parent].rows)
            parents[name] = np.repeat(np.arange(made[part.parent].rows), sizes)
            rows = len(parents[name])
        domain = part.schema.domain
        columns = {one: rng.integers(0, domain[one], rows) for one in domain}
        if part.order_by is not None:
            places = np.lexsort((columns[part.order_by], parents[name]))
            columns = {one: column[places] for one, column in columns.items()}
        data = pg.Dataset.from_codes([columns[one] for one in domain], domain)
        if part.parent is None:
            made[name] = LinkedTable(data)
            continue
        order: Any = {"ordered": part.order is not None, "order_by": part.order_by}
        made[name] = LinkedTable(data, part.parent, parents[name], part.at_most, **order)
    linked = LinkedDataset(made, schema.rules)
    bad = np.zeros(len(linked), dtype=bool)
    for name, part in schema.parts.items():
        data = linked.tables[name].dataset
        for clique, mask in part.schema.structural_zeros.items():
            bad[linked.units(name)[mask[tuple(data.column(one) for one in clique)]]] = True
    for rule in schema.rules:
        parent = linked.link(rule.table)[0]
        bad[linked.units(parent)[rule.broken(linked)]] = True
    return linked.take(np.flatnonzero(~bad))


def joined(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return tables["visits"].merge(tables["patients"], on="id")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), in_order=st.booleans())
def test_values_of_rows_lie_between_those_of_their_parent(seed, in_order):
    order = "order: day" if in_order else ""
    codes = "constraints: [ordered: [day, found]]"
    schema = schema_of("ordered: [patients.born, day, left, died]", order=order, codes=codes)
    linked = random_tables(schema, np.random.default_rng(seed), 3000)
    tables = schema.decode(linked, seed=seed)
    rows = joined(tables)
    assert len(rows) > 20
    codes = tables["codes"].merge(tables["visits"], on=["id", "no"])
    for first, later, frame in (
        ("born", "day", rows),
        ("born", "left", rows),
        ("day", "left", rows),
        ("left", "died", rows),
        ("day", "died", rows),
        ("day", "found", codes),
        ("born", "died", tables["patients"]),
    ):
        assert not np.any(frame[first] > frame[later])
    encoded = schema.encode(tables)
    for name, part in schema.parts.items():
        for column in part.schema.domain:  # values stay in their bins
            before, after = (side.tables[name].dataset.column(column) for side in (linked, encoded))
            assert np.array_equal(np.sort(before), np.sort(after))
    if in_order:
        assert (tables["visits"].groupby("id")["day"].diff().dropna() >= pd.Timedelta(0)).all()


NUMBERS = {
    "born": "{type: integer, min: 0, max: 99, width: 10}",
    "died": "{type: integer, min: 0, max: 99, width: 7}",
    "day": "{type: integer, min: 0, max: 120, width: 9}",
    "left": "{type: integer, min: 0, max: 120, width: 30}",
    "found": "{type: integer, min: 0, max: 120, width: 30}",
}


@pytest.mark.parametrize("kind", ["integer", "real", "time"])
def test_all_kinds_of_numbers_are_ordered(kind):
    kinds = {name: text.replace("integer", kind) for name, text in NUMBERS.items()}
    if kind == "real":
        kinds = {name: text.replace("width: ", "bins: ") for name, text in kinds.items()}
    if kind == "time":
        kinds = dict.fromkeys(kinds, "{type: time, unit: minute, width: 90}")
    schema = schema_of("ordered: [born, day]", "ordered: [left, patients.died]", kinds=kinds)
    rows = joined(schema.decode(random_tables(schema, np.random.default_rng(3), 3000), seed=3))
    assert len(rows) > 20
    assert not np.any(rows["born"] > rows["day"])
    assert not np.any(rows["left"] > rows["died"])


@pytest.mark.parametrize(
    ("constraint", "match"),
    [
        ("ordered: [patients.brn, day]", "names 'patients.brn', which is no column"),
        (
            "ordered: [patients.died, day, patients.born]",
            r"needs ordered: \[died, born\] in the constraints of its parent",
        ),
        ("ordered: [day, patients.born, day]", "names 'day' twice"),
        ("ordered: [patients.born]", "needs two columns"),
    ],
)
def test_orders_that_cannot_be_are_named(constraint, match):
    with pytest.raises(SchemaError, match=match):
        schema_of(constraint)


def test_columns_of_other_types_are_refused():
    with pytest.raises(SchemaError, match=r"compares 'patients.born' of type integer with 'day' of type date"):
        schema_of("ordered: [patients.born, day]", kinds={**DATES, "born": "{type: integer, min: 0, max: 9}",
                                                           "died": "{type: integer, min: 0, max: 9}"})  # fmt: skip


def test_a_fit_keeps_the_order_and_the_check_counts_what_breaks_it():
    rng = np.random.default_rng(0)
    users = pd.DataFrame({"uid": range(300), "signup": pd.Timestamp("2020-01-01")})
    users["signup"] += pd.to_timedelta(rng.integers(0, 700, 300), unit="D")
    orders = pd.DataFrame({"uid": np.repeat(range(300), 2)})
    orders["ordered"] = users["signup"].to_numpy()[orders["uid"]] + pd.to_timedelta(rng.integers(0, 300, 600), unit="D")
    date = "{type: date, min: 2020-01-01, max: 2022-12-31, unit: year}"
    schema = LinkedSchema.parse(f"""
tables:
  users: {{key: uid, columns: {{signup: {date}}}}}
  orders:
    {{parent: users, key: uid, at_most: 3, columns: {{ordered: {date}}}, constraints: [ordered: [signup, ordered]]}}
""")
    tables = {"users": users, "orders": orders}
    (rule,) = schema.check(tables).rules
    assert (rule.text, rule.broken) == ("ordered: [users.signup, ordered]", 0)
    made = pg.Synthesizer(epsilon=5, backend="simulation").fit(tables, schema, seed=0).sample(seed=0)
    both = made["orders"].merge(made["users"], on="uid")
    assert len(both) > 300
    assert (both["ordered"] >= both["signup"]).all()
    orders.loc[:9, "ordered"] = pd.Timestamp("2020-01-01")
    users.loc[:4, "signup"] = pd.Timestamp("2021-06-01")
    assert schema.check(tables).rules[0].broken == 5


def test_bins_too_fine_for_rules_are_refused_with_a_remedy():
    fine = {
        name: text.replace("unit: month", "unit: day").replace("2020-01-01", "2010-01-01")
        for name, text in DATES.items()
    }
    with pytest.raises(SchemaError, match="make wider bins"):
        schema_of("ordered: [patients.born, day]", kinds=fine)
