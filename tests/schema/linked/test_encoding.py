"""Linked tables of values to codes and back: any library, keys of any type, and rows that do not fit."""

import warnings
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.frames import ReadingWarning
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import ArgumentError, DataError, SchemaError
from pgmest.schema import LinkedSchema

from .conftest import SURVEY

KEY = b"sixteen byte key"


LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "pyarrow": pa.Table.from_pandas,
    "duckdb": lambda frame: duckdb.from_arrow(pa.Table.from_pandas(frame)),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_codes_and_its_own_tables(survey, frames, library):
    given = {name: LIBRARIES[library](frame) for name, frame in frames.items()}
    expected, linked = survey.encode(frames), survey.encode(given)
    assert linked == expected
    assert linked.sizes("persons").tolist() == [2, 1, 3]
    assert not any(rule.broken(linked).any() for rule in linked.rules)
    tables = survey.typed(given).decode(linked, seed=0)
    kind = {"lazy": pl.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}.get(library, pd.DataFrame)
    assert all(isinstance(table, kind) for table in tables.values())
    assert survey.encode(tables) == linked
    if library == "pandas":
        for name, table in tables.items():
            assert list(table.columns) == list(frames[name].columns)
            assert table.dtypes.drop("age", errors="ignore").equals(frames[name].dtypes.drop("age", errors="ignore"))


@pytest.mark.parametrize(
    ("library", "kind"),
    [("pandas", "int64"), ("pandas", "Int64"), ("pandas", "UInt16"), ("polars", pl.Int32), ("pyarrow", pa.int16())],
)
def test_keys_keep_their_type_if_it_holds_them(survey, frames, library, kind):
    def typed(frame):
        if library == "pandas":
            return frame.astype({"hid": kind})
        if library == "polars":
            return pl.from_pandas(frame).with_columns(pl.col("hid").cast(kind))
        table = pa.Table.from_pandas(frame, preserve_index=False)
        return table.set_column(table.column_names.index("hid"), "hid", table["hid"].cast(kind))

    given = {name: typed(frame) for name, frame in frames.items()}
    for name, table in survey.typed(given).decode(survey.encode(given), seed=0).items():
        mine, theirs = (one["hid"].type if library == "pyarrow" else one["hid"].dtype for one in (table, given[name]))
        assert mine == theirs
    many = LinkedDataset(
        {
            "households": LinkedTable(survey.encode(frames).tables["households"].dataset.take(np.zeros(200, int))),
            "persons": survey.encode(frames).tables["persons"],
        },
        survey.rules,
    )
    small = {name: frame.astype({"hid": "Int8"}) for name, frame in frames.items()}
    assert survey.typed(small).decode(many, seed=0)["households"]["hid"].max() == 200


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".csv.gz"])
def test_files_are_read(survey, frames, tmp_path, ending):
    paths = {name: tmp_path / (name + ending) for name in frames}
    for name, frame in frames.items():
        frame.to_parquet(paths[name]) if ending == ".parquet" else frame.to_csv(paths[name], index=False)
    assert survey.encode(paths) == survey.encode(frames)


@pytest.mark.parametrize(
    "keys",
    [
        ([1, 2, 3], ["1", "1", "2", "3", "3", "3"]),
        ([1.0, 2.0, 3.0], ["1", "1.0", " 2 ", "3", "3.00", "3"]),
        (["a", "B", "b"], ["a", "a", "B", "b", "b", "b"]),
        ([10**17, 10**17 + 1, 10**17 + 2], [10**17, 10**17, 10**17 + 1, *[10**17 + 2] * 3]),
        (["007", "7", "07"], ["007", "007", "7", *["07"] * 3]),
        ([True, "x", 0], ["true", "true", "x", 0.0, "0", 0]),
        (pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]), [f"2020-01-0{day}" for day in (1, 1, 2, 3, 3, 3)]),
    ],
)
def test_keys_that_are_written_alike_are_the_same(survey, frames, keys):
    changed = {
        name: frame.assign(hid=pd.Series(held)) for (name, frame), held in zip(frames.items(), keys, strict=True)
    }
    assert survey.encode(changed) == survey.encode(frames)


def test_rows_that_do_not_fit_are_left_out_with_a_warning(survey, frames):
    households = pd.concat([frames["households"], pd.DataFrame({"hid": [None, 14], "region": "N", "size": 0})])
    lost = pd.DataFrame({"hid": [None, 99, ""], "role": "head", "region": "elsewhere", "age": 30})
    changed = {"households": households, "persons": pd.concat([frames["persons"].astype({"hid": object}), lost])}
    with pytest.warns(ReadingWarning, match="rows of table 'persons' are left out: without a key, without a parent"):
        linked = survey.encode(changed)
    assert linked.sizes("persons").tolist() == [2, 1, 3, 0]
    assert linked.take([0, 1, 2]) == survey.encode(frames)


def test_rows_beyond_at_most_and_what_hangs_on_them_are_left_out_with_a_warning():
    columns = "columns: {a: {type: categorical, values: [x], outside: clip}}"
    schema = LinkedSchema.parse(
        f"tables:\n  top: {{key: k}}\n  mid: {{parent: top, key: k, at_most: 2, {columns}}}\n"
        f"  low: {{parent: mid, key: [k, m], at_most: 1, {columns}}}\n"
    )
    mid = pd.DataFrame({"k": np.repeat([1, 2], 4), "m": [1, 2, 3, 4] * 2, "a": "x"})
    with pytest.warns(ReadingWarning) as caught:
        schema.encode({"mid": mid, "low": mid})
    said = [str(warning.message).split(". ")[0] for warning in caught]
    assert said == [
        "rows of table 'mid' are left out: beyond at_most",
        "rows of table 'low' are left out: of a parent left out",
    ]


def test_nothing_is_said_of_tables_that_fit(survey, frames):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        survey.encode(frames)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 99)), max_size=14))
def test_removing_a_household_changes_nothing_for_the_others(rows):
    """Also of crowded households, whose persons are chosen by the key, and of orphans."""
    survey = LinkedSchema.parse(SURVEY)
    roles = ["head", "spouse", "child", "lodger"]
    persons = pd.DataFrame(
        {"hid": [row[0] for row in rows], "role": [roles[row[1]] for row in rows], "age": [row[2] for row in rows]}
    ).assign(region="born here")
    households = pd.DataFrame({"hid": [0, 1, 2], "region": ["N", "S", "S"], "size": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = survey.encode({"households": households, "persons": persons}, key=KEY)
        for hid in range(3):
            fewer = {"households": households[households["hid"] != hid], "persons": persons[persons["hid"] != hid]}
            assert survey.encode(fewer, key=KEY) == whole.take([one for one in range(3) if one != hid])
    assert (whole.sizes("persons") == np.minimum([list(persons["hid"]).count(hid) for hid in range(3)], 4)).all()


def test_which_persons_of_a_crowded_household_count_follows_the_key_and_the_rules(survey):
    households = pd.DataFrame({"hid": range(40), "region": "N"})
    persons = pd.DataFrame(
        {"hid": np.repeat(range(40), 12), "region": "elsewhere", "role": (["lodger"] * 11 + ["head"]) * 40}
        | {"age": list(range(0, 60, 5)) * 40}
    )
    given = {"households": households, "persons": persons}
    linked = survey.encode(given, key=KEY)
    assert (linked.sizes("persons") == 4).all()
    assert not linked.rules[0].broken(linked).any()
    assert survey.encode(given, key=KEY) == linked
    assert survey.encode(given) != linked
    chosen = linked.tables["persons"].dataset.column("age").reshape(40, 4)
    assert len({tuple(row) for row in chosen.tolist()}) > 10  # not the same in each household
    counts = np.bincount(chosen.ravel(), minlength=12)[:11]
    assert counts.min() > 0  # whichever row they are


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda frames: frames["persons"], ArgumentError, "a table for each name"),
        (lambda frames: {"households": frames["households"]}, ArgumentError, "there is no table persons"),
        (lambda frames: {**frames, "pets": frames["persons"]}, ArgumentError, "pets is none of them"),
        (
            lambda frames: {**frames, "persons": frames["persons"].drop(columns="hid")},
            DataError,
            "table 'persons': .*hid",
        ),
        (
            lambda frames: {**frames, "persons": pl.from_pandas(frames["persons"]).with_columns(hid=pl.lit([1]))},
            DataError,
            "column 'hid', a key",
        ),
        (lambda frames: {**frames, "persons": 3}, ArgumentError, "dataframe"),
    ],
)
def test_tables_that_are_none_of_the_schema_are_refused(survey, frames, change, error, match):
    with pytest.raises(error, match=match):
        survey.encode(change(frames))


def test_empty_tables_are_ordinary(survey, frames):
    empty = {name: frame.iloc[:0] for name, frame in frames.items()}
    for tables, sizes in ((empty, []), ({**frames, "persons": empty["persons"]}, [0, 0, 0])):
        linked = survey.encode(tables)
        assert linked.sizes("persons").tolist() == sizes
        tables = survey.decode(linked, seed=0)
        assert len(tables["households"]) == len(sizes)
        assert len(tables["persons"]) == 0
        assert list(tables["persons"].columns) == ["hid", "region", "role", "age"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert survey.encode({**frames, "households": empty["households"]}).tables["persons"].rows == 0


def test_a_root_without_columns_need_not_be_given(frames):
    schema = LinkedSchema.parse(
        """
tables:
  households: {key: hid}
  persons: {parent: households, key: hid, at_most: 8, columns: {age: {type: integer, min: 0, max: 99, missing: true}}}
"""
    )
    linked = schema.encode({"persons": frames["persons"]})
    assert linked.sizes("persons").tolist() == [2, 1, 3]
    assert linked == schema.encode({**frames, "households": frames["households"]})
    tables = schema.decode(linked, seed=0)
    assert tables["households"]["hid"].tolist() == [1, 2, 3]
    assert tables["persons"]["hid"].tolist() == [1, 1, 2, 3, 3, 3]


THREE = """
tables:
  patients:
    key: pid
    columns:
      sex: {type: categorical, values: [F, M], outside: clip}
      visits: {type: count, of: visits}
  visits:
    parent: patients
    key: pid
    at_most: 3
    columns:
      ward: {type: categorical, values: [A, B], outside: clip}
      place: {type: sequence}
      day: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month}
  codes: {parent: visits, key: [pid, no], at_most: 2, columns: {code: {type: integer, min: 1, max: 9}}}
  contacts: {parent: patients, key: {patients: pid, contacts: patient}, at_most: 2, columns: {sex: {type: boolean}}}
"""


@st.composite
def hospital(draw):
    """A LinkedDataset of the schema above."""
    schema = LinkedSchema.parse(THREE)
    rows, made = {"patients": draw(st.integers(0, 4))}, {}
    for name, part in schema.parts.items():
        link: tuple[Any, ...] = ()
        if part.parent:
            sizes = draw(st.lists(st.integers(0, part.at_most), min_size=rows[part.parent], max_size=rows[part.parent]))
            parent_rows = np.repeat(np.arange(len(sizes)), np.array(sizes, int))
            rows[name], link = len(parent_rows), (part.parent, parent_rows, part.at_most)
        shape = list(part.schema.domain.shape)
        codes = draw(
            st.lists(st.tuples(*(st.integers(0, size - 1) for size in shape)), min_size=rows[name], max_size=rows[name])
        )
        made[name] = LinkedTable(
            Dataset.from_codes(np.array(codes, int).reshape(-1, len(shape)), part.schema.domain), *link
        )
    return LinkedDataset(made)


@settings(max_examples=40)
@given(hospital(), st.sampled_from(["pandas", "polars", "pyarrow"]), st.booleans())
def test_three_levels_and_two_children_go_there_and_back(linked, library, written):
    schema = LinkedSchema.parse(THREE)
    tables = schema.decode(linked, seed=0, like=library, written=written and library == "pandas")
    assert schema.encode(tables) == linked
    frames = {name: table if library == "pandas" else table.to_pandas() for name, table in tables.items()}
    joined = frames["codes"].merge(frames["visits"], on=["pid", "no"], how="left")
    assert joined["ward"].notna().all()
    assert not frames["visits"].duplicated(["pid", "no"]).any()
    assert frames["visits"]["place"].tolist() == (frames["visits"].groupby("pid").cumcount() + 1).tolist()
    assert frames["contacts"]["patient"].isin(frames["patients"]["pid"]).all()
    counted = frames["visits"].groupby("pid").size().reindex(frames["patients"]["pid"], fill_value=0)
    assert counted.tolist() == frames["patients"]["visits"].tolist()


def test_data_of_another_schema_are_refused(survey, frames):
    linked = survey.encode(frames)
    other = LinkedSchema.parse(SURVEY.replace("width: 5", "width: 10"))
    with pytest.raises(SchemaError, match="table 'persons' is over"):
        other.decode(linked)
    single = LinkedSchema.parse(SURVEY.replace("at_most: 4", "at_most: 1").replace("count: 2", "count: 1"))
    for rows in ([0, 1, 2], [1], []):  # the error is about the limits, whatever the records are
        with pytest.raises(
            SchemaError, match="may have 4 rows of 'persons' in the data, but the schema says at_most: 1"
        ):
            single.decode(linked.take(rows))
    assert len(single.decode(linked.at_most("persons", 1), seed=0)["persons"]) == 3
    with pytest.raises(ArgumentError, match="a LinkedDataset"):
        survey.decode(linked.tables["persons"].dataset)
    with pytest.raises(ArgumentError, match="like"):
        survey.decode(linked, like="spreadsheet")
