"""Orders and sums between columns hold in every decoded row; the oracle lists all rows of small schemas."""

from __future__ import annotations

import itertools
import re
from functools import reduce
from operator import add
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.data.dataset import Dataset
from pgmest.errors import SchemaError
from pgmest.schema import Schema, draft

START = np.datetime64("2020-01-30")


@st.composite
def number(draw, low=(-3, 3), span=(0, 7)):
    least = draw(st.integers(*low))
    most = least + draw(st.integers(*span))
    column = {"type": "integer", "min": least, "max": most, "width": draw(st.integers(1, 4))}
    if draw(st.integers(0, 2)) == 0:
        column |= {"missing": True, "outside": draw(st.sampled_from(("clip", "missing")))}
    return column


def as_dates(columns: dict) -> dict:
    """The same columns as dates, a day for each whole number."""
    days = {
        name: {key: str(START + value) for key, value in one.items() if key in ("min", "max")}
        for name, one in columns.items()
    }
    rest = {
        name: {key: value for key, value in one.items() if key not in ("min", "max")} for name, one in columns.items()
    }
    return {name: {**rest[name], **days[name], "type": "date"} for name in columns}


def as_reals(columns: dict) -> dict:
    """The same columns in tenths, in the same bins."""
    made = {}
    for name, one in columns.items():
        edges = [value - 0.5 for value in (*range(one["min"], one["max"] + 1, one["width"]), one["max"] + 1)]
        rest = {key: value for key, value in one.items() if key not in ("min", "max", "width")}
        made[name] = {**rest, "type": "real", "decimals": 1, "edges": [edge / 10 for edge in edges]}
    return made


CHAINS = ([["a", "b"]], [["a", "b", "c"]], [["a", "b"], ["a", "c"]], [["a", "c"], ["b", "c"]], [["a", "b"], ["b", "c"]])


@st.composite
def ordered(draw):
    columns = {name: draw(number()) for name in "abc"}
    if draw(st.booleans()):  # one range, as for an admission and a discharge: differences are coded
        columns = {
            name: {**one, "min": columns["a"]["min"], "max": columns["a"]["max"]} for name, one in columns.items()
        }
    chains = draw(st.sampled_from(CHAINS))
    return {"columns": columns, "constraints": [{"ordered": chain} for chain in chains]}


def schema_of(description: dict) -> Schema:
    """The schema, if its bounds leave any rows."""
    problem = ""
    try:
        return Schema.from_dict(description)
    except SchemaError as error:
        problem = str(error)
    assert "cannot hold" in problem
    assume(False)
    raise AssertionError


def bounded(column: Any) -> list[int]:
    """Return the whole numbers of a column."""
    return list(range(int(column.low), int(column.high) + 1))


def all_rows(schema: Schema, names: str) -> pd.DataFrame:
    """Every row of whole numbers and nulls within the bounds."""
    values = []
    for column in schema.described:
        held = bounded(column)
        values.append([*held, None] if column.missing else held)
    return pd.DataFrame(list(itertools.product(*values)), columns=list(names)).astype("Int64")


def in_order(table: pd.DataFrame, chains: list[list[str]]) -> np.ndarray:
    met = np.ones(len(table), dtype=bool)
    claims = {pair for chain in chains for pair in itertools.combinations(chain, 2)}
    for _ in range(2):
        claims |= {(a, d) for a, b in claims for c, d in claims if b == c}
    for earlier, later in claims:
        late = (table[earlier] > table[later]).to_numpy(dtype=bool, na_value=False)
        met &= ~late
    return met


def cells(data: Dataset) -> set[tuple[int, ...]]:
    return set(map(tuple, data.codes.tolist()))


def possible(schema: Schema) -> set[tuple[int, ...]]:
    """The cells that no structural zero excludes."""
    left = np.ones(schema.domain.shape, dtype=bool)
    names = list(schema.domain)
    for clique, mask in schema.structural_zeros.items():
        axes = np.argsort([names.index(name) for name in clique])
        shape = [schema.domain[name] if name in clique else 1 for name in names]
        left &= ~np.transpose(mask, axes).reshape(shape)
    return set(map(tuple, np.argwhere(left).tolist()))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(ordered())
def test_exactly_the_codes_without_ordered_values_are_impossible(description):
    schema = schema_of(description)
    chains = [one["ordered"] for one in description["constraints"]]
    rows = all_rows(schema, "abc")
    good = rows[in_order(rows, chains)]
    assert cells(schema.encode(good)) == possible(schema)
    codes = np.array(sorted(possible(schema)))
    data = Dataset.from_codes(list(np.repeat(codes, 3, axis=0).T), schema.domain)
    drawn = schema.decode(data, seed=0)
    assert in_order(drawn, chains).all()
    assert schema.encode(drawn) == data
    every = np.array(list(itertools.product(*map(range, schema.domain.shape))))
    assert in_order(schema.decode(Dataset.from_codes(list(every.T), schema.domain), seed=0), chains).all()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(ordered())
def test_dates_and_decimals_are_coded_as_the_whole_numbers_are(description):
    whole, columns = schema_of(description), description["columns"]
    dates = schema_of(description | {"columns": as_dates(columns)})
    assert dates.domain == whole.domain
    assert cells_of_zeros(dates) == cells_of_zeros(whole)
    chains = [one["ordered"] for one in description["constraints"]]
    reals = schema_of(description | {"columns": as_reals(columns)})
    codes = [np.random.default_rng(0).integers(0, size, 200) for size in reals.domain.shape]
    assert in_order(reals.decode(Dataset.from_codes(codes, reals.domain), seed=1), chains).all()


def cells_of_zeros(schema: Schema) -> dict:
    return {clique: mask.tolist() for clique, mask in schema.structural_zeros.items()}


def test_rows_that_break_an_order_are_counted_as_they_are():
    column = {"type": "integer", "min": 0, "max": 9, "width": 2, "missing": True, "outside": "error"}
    description = {"columns": dict.fromkeys("abc", column), "constraints": [{"ordered": ["a", "b", "c"]}]}
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.integers(0, 10, (300, 3)), columns=list("abc")).astype("Int64")
    rows = rows.mask(rng.random(rows.shape) < 0.2)
    schema = Schema.from_dict(description)
    data = schema.encode(rows)
    assert data.codes.tolist() == Schema.from_dict({"columns": description["columns"]}).encode(rows).codes.tolist()
    assert not cells(data) <= possible(schema)
    fitted = pg.Synthesizer("lamp", epsilon=10.0, backend="simulation").fit(rows, schema, seed=0)
    assert cells(fitted.model_.sample(2000, seed=0)) <= possible(schema)
    assert in_order(fitted.sample(2000, seed=0), [["a", "b", "c"]]).all()


@pytest.mark.parametrize("outside", ["clip", "missing"])
def test_engines_code_orders_as_frames_are_coded(outside):
    rng, records = np.random.default_rng(1), 500
    start = START + rng.integers(-30, 400, records)
    end = start + rng.integers(-20, 100, records)
    low = rng.normal(0, 1, records).round(2)
    table = pd.DataFrame({"start": start, "end": end, "low": low, "high": low + rng.normal(1, 1, records)})
    table[["a", "b"]] = rng.uniform(-1, 6, (records, 2)).round(3)
    table["t"] = (table.a + table.b + (np.arange(records) % 5 == 0)).round(3)
    table = table.mask(rng.random(table.shape) < 0.2)
    table["written"] = (table.end + pd.Timedelta(3, "D")).dt.strftime("%Y-%m-%d")
    date = {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": 10, "missing": True, "outside": outside}
    real = {"type": "real", "min": -2, "max": 2, "bins": 8, "missing": outside == "missing", "outside": outside}
    part = {"type": "real", "min": 0, "max": 5, "bins": 7, "decimals": 2, "missing": True, "outside": outside}
    columns = {"start": date, "end": date, "written": date, "low": real, "high": real, "a": part, "b": part, "t": part}
    constraints = [{"ordered": ["start", "end", "written"]}, {"ordered": ["low", "high"]}, {"sum": {"t": ["a", "b"]}}]
    schema = Schema.from_dict({"columns": columns, "constraints": constraints})
    cliques = [("start", "end"), ("end", "written"), ("low", "high"), ("a", "b")]
    expected, counted = schema.encode(table).project_many(cliques), schema.check(table).broken
    assert all(0 < one.broken < one.rows for one in counted)
    for lazy in (pl.from_pandas(table).lazy(), duckdb.from_df(table)):
        for found, wanted in zip(schema.encode(lazy).project_many(cliques), expected, strict=True):
            np.testing.assert_array_equal(found.values, wanted.values)
        assert [one.to_json() for one in schema.check(lazy).broken] == [one.to_json() for one in counted]


def test_real_numbers_of_any_precision_keep_their_order():
    column = {"type": "real", "min": 0, "max": 1, "bins": 4}
    schema = Schema.from_dict({"columns": dict.fromkeys("abc", column), "constraints": [{"ordered": ["a", "b", "c"]}]})
    codes = np.array(sorted(possible(schema)))
    data = Dataset.from_codes(list(np.repeat(codes, 50, axis=0).T), schema.domain)
    drawn = schema.decode(data, seed=0)
    assert ((drawn.a <= drawn.b) & (drawn.b <= drawn.c)).all()
    assert schema.encode(drawn) == data


def test_other_constraints_may_name_ordered_columns():
    column = {"type": "integer", "min": 0, "max": 9}
    constraints = [{"ordered": ["a", "b"]}, {"impossible": {"b": 5}}, {"impossible": {"a": 1, "b": 2}}]
    schema = Schema.from_dict({"columns": dict.fromkeys("ab", column), "constraints": constraints})
    assert possible(schema) == {(a, b) for a in range(10) for b in range(a, 10) if b != 5 and (a, b) != (1, 2)}
    table = pd.DataFrame({"a": [1, 1, 4, 5], "b": [2, 1, 3, 5]})
    assert [one.broken for one in schema.check(table).broken] == [1, 1, 1]


# -- sums -------------------------------------------------------------------------------------------------------------

SUMS = (
    [{"t": ["a", "b"]}],
    [{"t": ["a", "b", "c"]}],
    [{"s": ["a", "b"]}, {"t": ["s", "c"]}],
    [{"t": ["s", "c"], "s": ["b", "a"]}],
)


@st.composite
def summed(draw):
    columns = {name: draw(number((-2, 2), (0, 4))) for name in "abc"}
    columns |= {name: draw(number((-6, 6), (0, 14))) | {"missing": True} for name in "st"}
    return {"columns": columns, "constraints": [{"sum": one} for one in draw(st.sampled_from(SUMS))]}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(summed(), st.integers(0, 999))
def test_totals_are_computed_and_within_their_bounds(description, seed):
    schema = schema_of(description)
    assert list(schema.domain) == list("abc" if len(schema.sums) == 2 else "abcs")
    codes = np.random.default_rng(seed).integers(0, schema.domain.shape, (300, len(schema.domain)))
    data = Dataset.from_codes(list(codes.T), schema.domain)
    drawn = schema.decode(data, seed=seed)
    assert list(drawn) == ["a", "b", "c", "s", "t"]
    assert adds_up(schema, drawn)
    for column in schema.described:
        assert drawn[column.name].dropna().between(column.low, column.high).all()  # type: ignore[attr-defined]
    named, free = {column.name: column for column in schema.described}, np.ones(data.records, dtype=bool)
    for one in schema.sums:  # rows whose bins hold no total beyond the bounds stay in their bins
        bins = [(named[name].points, data.column(name)) for name in one.leaves]  # type: ignore[attr-defined]
        gaps = np.any([column >= len(points[0]) for points, column in bins], axis=0)
        low, high = (sum(points[end][column % len(points[end])] for points, column in bins) for end in (0, 1))
        free &= gaps | ((low >= one.total.low) & (high <= one.total.high))
    assert (schema.encode(drawn).codes == codes)[free].all()


def adds_up(schema: Schema, table: pd.DataFrame) -> bool:
    sums_of_parts = {one.name: reduce(add, (table[part] for part in one.parts)) for one in schema.sums}
    return all(table[name].equals(total.astype(table[name].dtype)) for name, total in sums_of_parts.items())


def test_totals_of_decimals_and_of_floats():
    for decimals in (2, None):
        part = {"type": "real", "min": 0, "max": 10, "bins": 5} | ({"decimals": decimals} if decimals else {})
        schema = Schema.from_dict(
            {"columns": {"t": part, "a": part, "b": part}, "constraints": [{"sum": {"t": ["a", "b"]}}]}
        )
        codes = np.array(sorted(possible(schema)))
        drawn = schema.decode(Dataset.from_codes(list(np.repeat(codes, 30, axis=0).T), schema.domain), seed=0)
        assert list(drawn) == ["t", "a", "b"]
        np.testing.assert_allclose(drawn.t, drawn.a + drawn.b, rtol=1e-15, atol=1e-14)
        assert drawn.t.max() <= 10
        if decimals:
            assert (drawn.t == (drawn.a + drawn.b).round(2)).all()


@pytest.mark.parametrize("order", ["tab", "atb", "abt"])
def test_a_total_may_be_any_column_and_lack_in_the_table(order, tmp_path):
    columns = {name: {"type": "integer", "min": 0, "max": 8 if name == "t" else 4} for name in order}
    schema = Schema.from_dict({"columns": columns, "constraints": [{"sum": {"t": ["a", "b"]}}]})
    table = pd.DataFrame({"a": [1, 4, 0], "b": [2, 4, 0]})
    table.to_csv(tmp_path / "table.csv", index=False)
    expected = table.assign(t=[3, 8, 0])[list(order)]
    for given_table in (table, expected, tmp_path / "table.csv", pl.from_pandas(table).lazy()):
        data = schema.encode(given_table)
        assert data.project(("a", "b")).values[[1, 4, 0], [2, 4, 0]].sum() == data.records == 3
        if not isinstance(given_table, pl.LazyFrame):
            assert schema.decode(data, seed=0)["t"].tolist() == [3, 8, 0]
        check = schema.check(given_table)
        shown = [name for name in order if name != "t" or given_table is expected]
        assert [one.column.name for one in check.columns] == shown
        assert [one.rows for one in check.broken] == ([3] if given_table is expected else [])


# -- what cannot be said ----------------------------------------------------------------------------------------------

COLUMNS = """\
columns:
  a: {type: integer, min: 0, max: 9}
  b: {type: integer, min: 0, max: 9}
  c: {type: integer, min: 20, max: 29, missing: true}
  r: {type: real, min: 0, max: 9, bins: 3, decimals: 2}
  q: {type: real, min: 0, max: 9, bins: 3}
  day: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month}
  word: {type: categorical, values: [x, y], other: z}
  t: {type: integer, min: 0, max: 18}
  x: {type: integer, min: 0, max: 0}
  small: {type: integer, min: -5, max: -1}
  open: {type: integer, bounds: bought}
constraints:
"""


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        ("ordered: [a]", "needs two columns or more, such as [start, end], not 1."),
        ("ordered: a", "must be a list, such as [a, b], not 'a'."),
        ("ordered: {columns: [a, b]}", "must be a list, such as [a, b], not a mapping."),
        ("ordered: [a, z]", "names 'z', which is no column of the schema (a, b, c, r, q, day, word, t, x, small)."),
        ("ordered: [a, b, a]", "names 'a' twice."),
        ("ordered: [a, word]", "names 'word' of type categorical, but it is about numbers and dates."),
        ("ordered: [a, day]", "compares 'a' of type integer with 'day' of type date: give them one type."),
        ("ordered: [a, r]", "compares 'a' of type integer with 'r' of type real: give them one type."),
        ("ordered: [r, q]", "compares 'r' with decimals: 2 and 'q' with decimals: all: give them the same decimals."),
        ("ordered: [c, a]", "cannot hold: 'c' is at least 20, but 'a' at most 9. Correct the bounds"),
        ("ordered: [a, open]", "is about 'open', whose codes are not known before they are bought: state its bounds."),
        ("sum: {t: [a, open]}", "is about 'open', whose codes are not known before they are bought: state its bounds."),
        ("sum: {open: [a, b]}", "is about 'open', whose codes are not known before they are bought: state its bounds."),
        ("sum: {}", "names no total."),
        ("sum: [t, a, b]", "must be a mapping of a total to its parts, such as {total: [a, b]}, not a list."),
        ("sum: {t: [a]}", "needs two parts or more, such as [a, b], not 1."),
        ("sum: {t: [a, z]}", "names 'z', which is no column of the schema"),
        ("sum: {t: [a, t]}", "names 't' as a part of itself."),
        ("sum: {t: [a, a]}", "names 'a' twice."),
        ("sum: {t: [a, day]}", "names 'day' of type date, but only numbers have a sum."),
        ("sum: {t: [a, word]}", "names 'word' of type categorical, but it is about numbers and dates."),
        ("sum: {t: [a, r]}", "adds 'r' of type real up to 't' of type integer: give them one."),
        ("sum: {r: [r, q]}", "names 'r' as a part of itself."),
        ("sum: {t: [a, c]}", "needs 'missing: true' in column 't' (s, line 9): its part 'c' may be missing."),
        ("sum: {small: [a, b]}", "cannot hold: 'small' is whole numbers within -5..-1, but its parts sum up to 0..18"),
        ("sum: {t: [a, b], a: [small, b]}", "names 'b', which is already a part of 't'."),
    ],
)  # fmt: skip
def test_wrong_orders_and_sums(constraint, text):
    with pytest.raises(SchemaError, match=re.escape(text)) as caught:
        Schema.parse(COLUMNS + f"  - {constraint}\n", "s")
    assert "line 14" in str(caught.value)


@pytest.mark.parametrize(
    ("constraints", "text"),
    [
        (["ordered: [a, b]", "ordered: [b, t, a]"], "puts 'b' before 't' before 'a' before 'b'"),
        (["sum: {t: [a, b]}", "sum: {c: [a, small]}"], "names 'a', which is already a part of 't'"),
        (["sum: {t: [a, b]}", "sum: {t: [small, c]}"], "gives 't' a second time. A total is one sum"),
        (["sum: {t: [a, b]}", "sum: {a: [t, small]}"], "a total cannot be a part of itself."),
        (["sum: {t: [b, small], b: [a, x]}", "impossible: {t: 3}"], "is about 't', a total without codes of its own"),
        (["sum: {t: [a, b]}", "ordered: [a, t]"], "is about 't', which is also ordered."),
        (["sum: {b: [a, small]}", "ordered: [small, a]"], "must be that of the sum of its parts, min: -5 and max: 8."),
    ],
)  # fmt: skip
def test_orders_and_sums_that_contradict_each_other(constraints, text):
    with pytest.raises(SchemaError, match=re.escape(text)):
        Schema.parse(COLUMNS + "".join(f"  - {constraint}\n" for constraint in constraints), "s")


# -- drafts and checks ------------------------------------------------------------------------------------------------


def hospital(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    admission = np.datetime64("2019-01-01") + rng.integers(0, 700, rows)
    table = pd.DataFrame({"admission": admission, "discharge": admission + rng.integers(0, 20, rows)})
    for name in ("room", "care", "drugs"):
        table[name] = rng.integers(1, 90, rows)
    table["services"] = table.care + table.drugs
    table["bill"] = table.room + table.services
    table["paid"] = (table.room * rng.uniform(0.2, 1, rows)).astype(int)
    return table


def test_a_draft_proposes_what_holds_and_is_valid_with_it():
    table = hospital()
    text = draft(table)
    assert "#   - ordered: [admission, discharge]  # READ FROM THE PRIVATE DATA\n" in text
    assert "#   - ordered: [paid, room]  # READ FROM THE PRIVATE DATA\n" in text
    assert "#   - sum: {services: [care, drugs]}  # READ FROM THE PRIVATE DATA\n" in text
    assert "#   - sum: {bill: [room, services]}  # READ FROM THE PRIVATE DATA\n" in text
    assert text.count("ordered:") == 2
    lines = [
        line[1:] if line.startswith(("#   - ordered", "#   - sum", "# constraints")) else line
        for line in text.split("\n")
    ]
    schema = Schema.parse("\n".join(line[1:] if line.startswith(" constraints") else line for line in lines))
    assert len(schema.order.chains) == len(schema.sums) == 2
    assert not [one for one in schema.check(table).broken if one.broken]


def test_a_draft_proposes_nothing_that_one_row_breaks():
    table = hospital()
    table.loc[17, ["discharge", "bill", "services"]] = [np.datetime64("2018-12-31"), -12, 0]
    table.loc[18, "paid"] = table.room[18] + 1
    text = draft(table)
    assert "ordered:" not in text
    assert "sum:" not in text
    table.loc[17, "bill"] = -1  # now a marker of missing values, and these break no sum
    assert "sum: {bill: [room, services]}" in draft(table)
    assert "ordered:" not in draft(hospital(), bought=True)  # whose bounds are not known yet


def test_a_check_counts_the_rows_that_break_a_constraint():
    number = {"type": "integer", "min": 0, "max": 9, "missing": True}
    columns = {"a": number, "b": {**number, "outside": "missing"}, "t": {**number, "max": 18}}
    schema = Schema.from_dict(
        {"columns": columns, "constraints": [{"ordered": ["a", "b"]}, {"sum": {"t": ["a", "b"]}}]}
    )
    table = pd.DataFrame({"a": [1, 5, None, 9, 2], "b": [2, 4, 0, None, 2], "t": [3, 9, 0, 9, 5]})
    checked = schema.check(table)
    assert [(one.text, one.rows, one.broken) for one in checked.broken] == [
        ("ordered: [a, b]", 3, 1),
        ("sum: {t: [a, b]}", 3, 1),
    ]
    assert "ordered: [a, b]: 1 of 3 rows (33.3 %) break it, and a synthetic table none" in str(checked)
    assert checked.to_json()["constraints"][1] == {"constraint": "sum: {t: [a, b]}", "rows": 3, "broken": 1}
    assert schema.decode(schema.encode(table), seed=0).b.isna().tolist() == [False, False, False, True, False]


def test_tables_may_lack_totals_and_schemas_round_trip(tmp_path):
    part = {"type": "integer", "min": 0, "max": 9}
    description = {
        "columns": {"t": {**part, "max": 18}, "a": part, "b": part},
        "constraints": [{"sum": {"t": ["a", "b"]}}, {"ordered": ["a", "b"]}],
    }
    schema = Schema.from_dict(description)
    data = schema.encode(pd.DataFrame({"a": [1, 2], "b": [1, 5]}))
    drawn = schema.decode(data, seed=0)
    assert drawn.t.tolist() == [2, 7]
    again = Schema.from_dict(schema.description)
    assert again.domain == schema.domain
    assert cells_of_zeros(again) == cells_of_zeros(schema)
    for like in ("polars", "pyarrow"):
        assert schema.decode(data, seed=0, like=like).to_pandas().equals(drawn)


@pytest.mark.parametrize("mechanism", ["lamp", "mst", "aim", "privbayes"])
def test_synthetic_rows_keep_orders_and_sums(mechanism):
    table = hospital(1500)
    date = {"type": "date", "min": "2019-01-01", "max": "2020-12-31", "unit": "month"}
    number = {"type": "integer", "min": 0, "max": 99, "width": 10}
    columns = {"admission": date, "discharge": date, **dict.fromkeys(("room", "care", "paid"), number)}
    columns |= {"drugs": number, "services": {**number, "max": 170}, "bill": {**number, "max": 200}}
    constraints = [{"ordered": ["admission", "discharge"]}, {"sum": {"services": ["care", "drugs"]}}]
    constraints += [{"sum": {"bill": ["room", "services"]}}]
    schema = Schema.from_dict({"columns": columns, "constraints": constraints})
    fitted = pg.Synthesizer(mechanism, epsilon=2.0, backend="simulation").fit(table, schema, seed=0)
    drawn = fitted.sample(1000, seed=0)
    assert (drawn.admission <= drawn.discharge).all()
    assert (drawn.services == drawn.care + drawn.drugs).all()
    assert (drawn.bill == drawn.room + drawn.services).all()
    assert list(drawn) == [name for name in table if name in columns]
    assert list(fitted.feature_names_in_) == list(columns)


def test_no_value_in_an_order_reads_as_a_missing_one():
    columns = {
        "a": {"type": "integer", "edges": [0, 6, 8, 10], "missing": [7]},
        "b": {"type": "integer", "edges": [0, 6, 8, 10], "missing": [3, 9]},
        "c": {"type": "integer", "min": 0, "max": 12, "width": 4, "missing": [11, 12]},
    }
    schema = Schema.from_dict({"columns": columns, "constraints": [{"ordered": ["a", "b", "c"]}]})
    table = pd.DataFrame({"a": [6, 1, 8, 8] * 50, "b": [8, 2, 8, 9] * 50, "c": [10, 2, 12, 9] * 50})
    data = schema.encode(table)
    drawn = schema.decode(data, seed=0)
    assert drawn.isna().sum().tolist() == [0, 50, 50]
    assert schema.encode(drawn) == data


@pytest.mark.parametrize(
    ("a", "b", "t"),
    [
        ({"max": 4}, {"max": 4}, {"max": 8, "missing": [5]}),
        ({"max": 4, "points": [0], "missing": [2]}, {"max": 4}, {"max": 6}),
        ({"max": 9, "width": 5, "missing": [2, 3]}, {"max": 9, "width": 5, "missing": [9]}, {"min": 3, "max": 11}),
    ],
)
def test_no_total_and_no_part_that_was_moved_reads_as_a_missing_value(a, b, t):
    number = {"type": "integer", "min": 0, "missing": True}
    columns = {"a": number | a, "b": number | b, "t": number | t}
    schema = Schema.from_dict({"columns": columns, "constraints": [{"sum": {"t": ["a", "b"]}}]})
    values = [[number for number in range(one["max"] + 1) if number not in markers_of(one)] for one in (a, b)]
    table = pd.DataFrame(itertools.product(*values), columns=["a", "b"])
    drawn = schema.decode(schema.encode(pd.concat([table] * 10)), seed=0)
    assert not any(drawn[name].isin(markers_of(one)).any() for name, one in (("a", a), ("b", b), ("t", t)))
    assert (drawn.t == drawn.a + drawn.b).all()
    assert drawn.t.between(t.get("min", 0), t["max"]).all()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(summed(), st.sets(st.integers(-3, 9), min_size=1, max_size=3), st.integers(0, 999))
def test_totals_beside_markers_are_within_their_bounds(description, markers, seed):
    columns = {name: one | {"missing": sorted(markers)} for name, one in description["columns"].items()}
    schema = schema_of(description | {"columns": columns})
    codes = np.random.default_rng(seed).integers(0, schema.domain.shape, (300, len(schema.domain)))
    drawn = schema.decode(Dataset.from_codes(list(codes.T), schema.domain), seed=seed)
    assert adds_up(schema, drawn)
    for column in schema.described:
        assert drawn[column.name].dropna().between(column.low, column.high).all()  # type: ignore[attr-defined]


def markers_of(column: dict) -> list[int]:
    return column.get("missing", [])


def test_parts_that_are_ordered_are_not_moved():
    number = {"type": "integer", "min": 0, "max": 4}
    columns = {"a": number, "b": number, "c": number, "t": {**number, "max": 8, "missing": [5, 6]}}
    constraints = [{"sum": {"t": ["a", "c"]}}, {"ordered": ["a", "b"]}]
    schema = Schema.from_dict({"columns": columns, "constraints": constraints})
    rows = pd.DataFrame(itertools.product(range(5), repeat=3), columns=["a", "b", "c"]).query("a <= b")
    total = rows["a"] + rows["c"]
    drawn = schema.decode(schema.encode(rows.assign(t=total)), seed=0)
    assert (drawn[["a", "b"]].to_numpy() == rows[["a", "b"]].to_numpy()).all()
    assert (drawn.t == drawn.a + drawn.c).all()
    assert (drawn.t == 5).sum() < (total == 5).sum()
