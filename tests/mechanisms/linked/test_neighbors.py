"""What one unit more or less moves, by brute force: no more families than the noise of each run is made for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.data.linked import LinkedDataset
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.trees import family_table
from pgmest.privacy.neighbors import AddRemove, Change
from pgmest.schema import LinkedSchema

TABLES = """
tables:
  patients: {key: id, columns: {sex: {type: categorical, values: [F, M], outside: clip}}}
  contacts:
    parent: patients
    key: {patients: id, contacts: patient}
    at_most: 1
    columns: {near: {type: boolean}}
  visits:
    parent: patients
    key: {patients: id, visits: patient}
    at_most: 2
    columns: {ward: {type: categorical, values: [A, B], outside: clip}}
    within: [at_least: {ward: B, count: 1}]
  codes:
    parent: visits
    key: [patient, no]
    at_most: 2
    columns: {acute: {type: boolean}}
  drugs:
    parent: codes
    key: [patient, no, code]
    at_most: 3
    columns: {dose: {type: integer, min: 0, max: 1}}
"""
SCHEMAS = {
    levels: LinkedSchema.parse(TABLES[: TABLES.index(end)] if end else TABLES)
    for levels, end in {2: "  codes:", 3: "  drugs:", 4: ""}.items()
}
PATIENT = ", columns: {sex: {type: categorical, values: [F, M], outside: clip}}}"
UNNAMED = LinkedSchema.parse(TABLES.replace(PATIENT, "}"))
"""A schema whose root has no columns, so that its table need not be given."""
COLUMNS = {
    "patients": ["id", "sex"],
    "contacts": ["patient", "near"],
    "visits": ["patient", "no", "ward"],
    "codes": ["patient", "no", "code", "acute"],
    "drugs": ["patient", "no", "code", "dose"],
}
"""The columns of each table: the patient first, a value last."""
VALUES: dict[str, tuple[Any, Any]] = {
    "patients": ("F", "M"),
    "contacts": (True, False),
    "visits": ("A", "B"),
    "codes": (True, False),
    "drugs": (0, 1),
}
PATIENTS = ("1", "2", "3", "4", "5", None)
SECRET = bytes(range(16))
pytestmark = pytest.mark.filterwarnings("ignore:rows of table")
Rows = dict[str, list[tuple[Any, ...]]]


@st.composite
def rows_of(draw: st.DrawFn, patients: tuple[str | None, ...], roots: int | None = None) -> Rows:
    """Return rows that name these patients, with few numbers, so that many keys are shared or name no row."""
    number = st.sampled_from(["1", "2", None])
    made: Rows = {}
    for name, columns in COLUMNS.items():
        keys = [st.sampled_from(patients), *[number] * (len(columns) - 2)]
        least, most = (roots, roots) if name == "patients" and roots is not None else (0, 7)
        made[name] = draw(st.lists(st.tuples(*keys, st.sampled_from(VALUES[name])), min_size=least, max_size=most))
    return made


def joined(one: Rows, other: Rows) -> Rows:
    return {name: [*rows, *other[name]] for name, rows in one.items()}


def frames_of(rows: Rows, schema: LinkedSchema) -> dict[str, pd.DataFrame]:
    made = {name: pd.DataFrame(rows[name], columns=COLUMNS[name]) for name in schema.tables}
    keys = {name: COLUMNS[name][:-1] for name in made}
    return {name: frame.astype(dict.fromkeys(keys[name], object)) for name, frame in made.items()}


def encoded(rows: Rows, schema: LinkedSchema) -> LinkedDataset:
    frames = frames_of(rows, schema)
    if not schema.parts["patients"].schema.described:
        del frames["patients"]
    return schema.encode(frames, key=SECRET)


def families_of(linked: LinkedDataset, child: str) -> Counter[Any]:
    """Return how often each family of a child table occurs."""
    families = family_table(linked, child)
    ends = np.cumsum(families.sizes)
    children = (families.children[end - size : end].tolist() for end, size in zip(ends, families.sizes, strict=True))
    return Counter((str(parent), str(rows)) for parent, rows in zip(families.parents.tolist(), children, strict=True))


def differences(one: LinkedDataset, other: LinkedDataset, child: str) -> tuple[int, int]:
    """Return how many families of a child table are in the first tables only, and in the second ones only."""
    mine, theirs = families_of(one, child), families_of(other, child)
    return (mine - theirs).total(), (theirs - mine).total()


def check_one_unit(one: LinkedDataset, other: LinkedDataset) -> None:
    """Check that families only come, or only go, and at most as many as each run's noise hides."""
    directions = set()
    for child in one.order[1:]:
        mechanism, data = LinkedLAMP(epsilon=1.0)._run_on(one, child, len(one.order) - 1)
        lost, come = differences(one, other, child)
        assert isinstance(mechanism.neighbors, AddRemove)
        assert lost + come <= mechanism.neighbors.records == data.records_per_person
        directions |= {lost > 0, -(come > 0)} - {False}
    assert len(directions) <= 1
    assert abs(len(one) - len(other)) <= 1


@settings(max_examples=60)
@given(st.data(), st.sampled_from([2, 3, 4]))
def test_one_row_of_the_root_with_all_that_hangs_on_it_is_one_unit(data: st.DataObject, levels: int) -> None:
    """Whatever keys it shares with other rows: a new one, one of orphans, or one that other rows of the root have."""
    rows = data.draw(rows_of(PATIENTS))
    own = data.draw(st.sampled_from(["1", "2", "9"]))
    unit = data.draw(rows_of((own,), roots=1))
    schema = SCHEMAS[levels]
    whole = joined(rows, unit) if data.draw(st.booleans()) else joined(unit, rows)
    check_one_unit(encoded(rows, schema), encoded(whole, schema))


@settings(max_examples=60)
@given(rows_of(PATIENTS), st.sampled_from([2, 3, 4]), st.booleans())
def test_all_rows_that_name_one_patient_are_one_unit(rows: Rows, levels: int, named: bool) -> None:
    """Also if there is no table of patients, but only rows that name them."""
    schema = UNNAMED if named else SCHEMAS[levels]
    whole = encoded(rows, schema)
    for patient in PATIENTS[:-1]:
        rest = {name: [row for row in mine if row[0] != patient] for name, mine in rows.items()}
        check_one_unit(whole, encoded(rest, schema))


def test_each_root_key_that_occurs_once_counts_and_no_other() -> None:
    rows: Rows = {
        "patients": [("1", "F"), ("2", "M"), ("2", "M"), ("3", "F"), (None, "F")],
        "contacts": [("1", True), ("2", True)],
        "visits": [("1", "1", "A"), ("2", "1", "A"), ("3", "1", "B"), ("9", "1", "A")],
        "codes": [("1", "1", "1", True), ("2", "1", "1", True), ("3", "2", "1", True), ("3", "1", None, False)],
        "drugs": [("1", "1", "1", 0), ("3", "1", None, 1)],
    }
    linked = encoded(rows, SCHEMAS[4])
    assert {name: table.rows for name, table in linked.tables.items()} == {
        "patients": 2,
        "contacts": 1,
        "visits": 2,
        "codes": 2,
        "drugs": 1,
    }
    assert linked.sizes("codes").tolist() == [1, 1]


@settings(max_examples=60)
@given(st.data(), st.sampled_from(["visits", "contacts", "codes", "drugs"]))
def test_one_row_of_the_lowest_table_changes_one_family_unless_it_moves(data: st.DataObject, unit: str) -> None:
    levels = {"visits": 2, "contacts": 4, "codes": 3, "drugs": 4}[unit]
    ending = {2: "  codes:", 3: "  drugs:", 4: "\n\n"}[levels]
    text = f"unit: {unit}{TABLES.partition(ending)[0]}"
    schema = LinkedSchema.parse(text if data.draw(st.booleans()) else text.replace(PATIENT, "}"))
    rows = data.draw(rows_of(PATIENTS))
    keys = data.draw(st.tuples(*[st.sampled_from(["1", "2", "9"])] * (len(COLUMNS[unit]) - 1)))
    more = [[], *([(*keys, value)] for value in VALUES[unit])]
    variants = [{**rows, unit: [*rows[unit], *added]} for added in more]
    without, *with_row = (encoded(one, schema) for one in variants)
    for one, other in ((without, with_row[0]), (without, with_row[1]), tuple(with_row)):
        for child in one.order[1:]:
            assert LinkedLAMP(epsilon=1.0)._run_on(one, child, 1)[0].neighbors == Change()
            assert max(differences(one, other, child)) <= 1


def test_a_row_that_moves_changes_two_families_which_the_statement_says() -> None:
    schema = LinkedSchema.parse("unit: contacts" + TABLES.partition("  visits:")[0])
    rows: Rows = {"patients": [("1", "F"), ("2", "M")], "contacts": [("1", True)]}
    moved = {**rows, "contacts": [("2", True)]}
    made = [schema.encode({n: pd.DataFrame(r, columns=COLUMNS[n]) for n, r in one.items()}) for one in (rows, moved)]
    assert differences(made[0], made[1], "contacts") == (2, 2)
    assert "not moved to another row of 'patients'" in schema.protection


READERS = {
    "polars": lambda frame, path: pl.from_pandas(frame),
    "lazy": lambda frame, path: pl.from_pandas(frame).lazy(),
    "pyarrow": lambda frame, path: pa.Table.from_pandas(frame),
    "duckdb": lambda frame, path: duckdb.from_arrow(pa.Table.from_pandas(frame)),
    "csv": lambda frame, path: frame.to_csv(path.with_suffix(".csv"), index=False) or path.with_suffix(".csv"),
    "parquet": lambda frame, path: frame.to_parquet(path.with_suffix(".parquet")) or path.with_suffix(".parquet"),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_joins_alike(reader: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for number in range(3):
        keys, rows = np.array(["1", "02", "2", None], dtype=object), {}
        for name, columns in COLUMNS.items():
            drawn = zip(*(generator.choice(keys, 12) for _ in columns[1:]), generator.integers(2, size=12), strict=True)
            rows[name] = [(*row, VALUES[name][code]) for *row, code in drawn]
        rows["patients"] += [("1", "F"), ("02", "M"), ("02", "F")][number:]
        frames = frames_of(rows, SCHEMAS[4])
        given = {name: READERS[reader](frame, tmp_path / f"{name}{number}") for name, frame in frames.items()}
        assert SCHEMAS[4].encode(given, key=SECRET) == SCHEMAS[4].encode(frames, key=SECRET)
