"""Reading schemas: what each key means, and errors that name the line, the column, the value and the remedy."""

import contextlib
import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import FileFormatError, PgmestError, SchemaError, UnknownAttributeError
from pgmest.schema import Schema

TEXT = """\
# people
columns:
  sex: {type: categorical, values: [F, M], other: X}
  age:
    type: integer
    min: 0
    max: 99
    width: 20
    missing: true
  smokes: {type: categorical, values: [yes, no, off], missing: true}
  zip: {type: categorical, values: [01234, 5], outside: error}
"""


def test_domain_and_labels():
    schema = Schema.parse(TEXT)
    assert schema.domain == pg.Domain({"sex": 3, "age": 6, "smokes": 4, "zip": 2})
    assert schema.labels("age") == ["0..19", "20..39", "40..59", "60..79", "80..99", "missing"]
    assert schema.labels("smokes") == ["yes", "no", "off", "missing"]  # not booleans
    assert schema.labels("zip") == ["01234", "5"]  # no octal number
    assert repr(schema) == "Schema(schema: sex (3), age (6), smokes (4), zip (2))"
    assert not schema.drafted
    with pytest.raises(UnknownAttributeError, match="Did you mean 'age'"):
        schema.labels("agee")


def test_yaml_json_toml_and_plain_data_say_the_same(tmp_path):
    plain = {
        "columns": {
            "age": {"type": "integer", "min": 0, "max": 9, "missing": ["?"]},
            "born": {"type": "date", "min": "2020-01-01", "max": "2020-01-31"},
        },
        "constraints": [{"impossible": {"age": {"max": 3}, "born": "2020-01-02"}}],
    }
    (tmp_path / "s.json").write_text(json.dumps(plain, indent=1))
    (tmp_path / "s.toml").write_text(
        '[columns]\nage = {type = "integer", min = 0, max = 9, missing = ["?"]}\n'
        'born = {type = "date", min = 2020-01-01, max = 2020-01-31}\n'
        "[[constraints]]\nimpossible = {age = {max = 3}, born = 2020-01-02}\n"
    )
    (tmp_path / "s.yaml").write_text(
        "columns:\n  age: {type: integer, min: 0, max: 9, missing: ['?']}\n"
        "  born: {type: date, min: 2020-01-01, max: 2020-01-31}\n"
        "constraints:\n  - impossible: {age: {max: 3}, born: 2020-01-02}\n"
    )
    expected = Schema.from_dict(plain)
    for path in sorted(tmp_path.iterdir()):
        schema = Schema.load(path)
        assert schema.domain == expected.domain
        assert schema.column("age").markers == {"", "?"}
        np.testing.assert_array_equal(
            schema.structural_zeros[("age", "born")], expected.structural_zeros["age", "born"]
        )


WRONG = [
    (
        "age: {type: intger}",
        "column 'age': type must be one of categorical, boolean, integer, real, date, time, duration, not 'intger'.",
    ),
    ("age: {min: 0}", "column 'age' needs 'type:', one of categorical, boolean, integer, real, date, time, duration."),
    ("age: 7", "column 'age' must be a mapping such as {type: integer, min: 0, max: 99}, not 7."),
    ("age: {type: integer, minimum: 0}", "column 'age' has an unknown key 'minimum'. Did you mean 'min'?"),
    ("age: {type: integer, min: 0}", "column 'age' needs 'max:', a public bound of its values."),
    ("age: {type: integer, min: 5, max: 4}", "column 'age': max must be at least min (5), not 4."),
    ("age: {type: integer, min: 0.5, max: 4}", "column 'age': min must be a whole number, not 0.5."),
    ("age: {type: integer, min: a, max: 4}", "column 'age': min must be a number, not 'a'."),
    (
        "age: {type: integer, min: 0, max: 4, bins: 6}",
        "bins must be at most 5, as there are no more whole values, not 6.",
    ),
    ("age: {type: integer, min: 0, max: 4, width: 0}", "width must be a whole number of at least 1, not 0."),
    ("age: {type: integer, min: 0, max: 4, bins: 2, width: 2}", "width does not go with bins; leave one of them out."),
    ("age: {type: integer, min: 0, edges: [0, 2]}", "min does not go with edges, which say it all."),
    ("age: {type: integer, min: 0, max: 9, bins: [0, 5, 9]}", "bins must be a number, not a list. List the ends of"),
    ("age: {type: real, bins: [0, 5, 9]}", "List the ends of bins as edges: [...], without min and max."),
    ("day: {type: date, min: 2020-01-01, max: 2020-09-01, width: [2020-02-01]}", "width must be a number, not a list."),
    ("age: {type: integer, min: 0, max: 9, edges: 3}", "edges must list the ends of bins, such as [0, 18, 65], not 3."),
    ("age: {type: integer, edges: [0, 2, 2]}", "column 'age': edges must ascend."),
    ("age: {type: integer, edges: [0]}", "edges must list at least two numbers."),
    (
        "age: {type: integer, min: 0, max: 1000000000000}",
        "makes 1,000,000,000,001 bins, more than 10,000,000; make them wider.",
    ),
    ("age: {type: integer, min: 0, max: 4, outside: drop}", "outside must be one of clip, error, not 'drop'."),
    ("age: {type: integer, min: 0, max: 4, outside: missing}", "outside must be one of clip, error, not 'missing'."),
    ("x: {type: real, min: 0, max: 1}", "column 'x' needs bins: <how many>, width: <of a bin>, or edges: [a, b, ...]."),
    ("x: {type: real, min: 1, max: 1, bins: 2}", "column 'x': max must be more than min (1), not 1."),
    ("x: {type: real, min: 0, max: 1, bins: 20, decimals: 1}", "decimals of 1 leaves some bins without a value"),
    ("x: {type: real, min: 0, max: .inf, bins: 2}", "max must be a number, not '.inf'."),
    ("d: {type: date, min: 1.1.2020, max: 2020-01-01}", "min must be a date such as 2020-12-31, not '1.1.2020'."),
    ("d: {type: date, min: 2020-01-02, max: 2020-01-01, unit: year}", "max must be at least min ('2020-01-02')"),
    (
        "d: {type: date, min: 2020-01-02, max: 2021-01-01, unit: week}",
        "unit must be one of second, minute, hour, day, month, year, not 'week'.",
    ),
    ("s: {type: categorical, values: []}", "values must list at least one value."),
    ("s: {type: categorical, values: a}", "values must be a list, such as [a, b], not 'a'."),
    ("s: {type: categorical, values: [a, 1, 1.0], other: z}", "column 's': values lists '1' twice."),
    ("s: {type: categorical, values: [a, null], other: z}", "must not be null: say missing: true for missing values."),
    ("s: {type: categorical, values: [a], other: a}", "other must be a value that is not listed, not 'a'."),
    (
        "s: {type: categorical, values: [a]}",
        "must say what becomes of other values: other: <label>, or missing: true, or outside: error.",
    ),
    ("s: {type: boolean, missing: 7}", "missing must be a list, such as [a, b], not 7."),
]


@pytest.mark.parametrize(("line", "text"), WRONG)
def test_errors_name_line_and_column(line, text):
    with pytest.raises(SchemaError) as caught:
        Schema.parse(f"columns:\n  fine: {{type: boolean}}\n  {line}\n", "people.yaml")
    assert str(caught.value).startswith("people.yaml, line 3: ")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", SchemaError, "s, line 1: the schema must be a mapping of names to values, not None."),
        ("columns: {}", SchemaError, "s, line 1: the schema: columns must describe at least one column."),
        ("column: {}", SchemaError, "s, line 1: the schema has an unknown key 'column'. Did you mean 'columns'?"),
        ("constraints: []", SchemaError, "s, line 1: the schema needs 'columns:'."),
        (
            "columns:\n  a: {type: boolean}\n  a: {type: boolean}",
            SchemaError,
            "s, line 3: 'a' stands here a second time",
        ),
        ("columns: [", FileFormatError, "s: line 1: not valid YAML ("),
        ("columns: &a {}", FileFormatError, "s: line 1: not valid YAML (anchors and aliases are not read)."),
        ("columns: !!python/object:os.system {}", FileFormatError, "s: line 1: "),
        ("columns: !date x", FileFormatError, "s: line 1: "),
        ("? [a]\n: 1", SchemaError, "s, line 1: a name must be text."),
        ("[" * 5000, FileFormatError, "s: "),
        ("a: \x00", FileFormatError, "s: "),
        ("a: " + "1" * 5000, FileFormatError, "s: line 1: a value cannot be read."),
    ],
)
def test_what_is_no_schema(text, error, message):
    with pytest.raises(error) as caught:
        Schema.parse(text, "s")
    assert message in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileFormatError, match="cannot be read"):
        Schema.load(tmp_path / "absent.yaml")
    (tmp_path / "bad.toml").write_text("columns = ")
    with pytest.raises(FileFormatError, match=r"bad.toml: not valid TOML"):
        Schema.load(tmp_path / "bad.toml")


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.sampled_from(["integer", "real", "date"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["columns", "a", "type", "min", "max", "bins", "edges", "values", "other", "constraints"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_no_description_fails_otherwise(description):
    for text in (json.dumps({"columns": {"a": description}}), json.dumps(description)):
        with contextlib.suppress(PgmestError):
            Schema.parse(text)


# -- constraints ------------------------------------------------------------------------------------------------------

COLUMNS = """\
columns:
  age: {type: integer, min: 0, max: 29, width: 10, missing: true}
  state: {type: categorical, values: [single, married, widowed], other: else}
  years: {type: integer, min: 0, max: 3}
constraints:
"""


def possible(constraint: str, clique: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The combinations of labels that a constraint leaves."""
    schema = Schema.parse(COLUMNS + f"  - {constraint}\n")
    labels = [schema.labels(name) for name in clique]
    return [
        tuple(labels[axis][code] for axis, code in enumerate(cell))
        for cell in np.argwhere(~schema.structural_zeros[clique])
    ]


def test_impossible_ranges_take_whole_bins():
    left = possible("impossible: {age: {max: 24}, state: [married, widowed]}", ("age", "state"))
    assert ("0..9", "married") not in left
    assert ("10..19", "widowed") not in left
    assert ("20..29", "married") in left
    assert ("missing", "married") in left
    assert len(left) == 16 - 4


def test_missing_values_are_impossible_only_where_listed():
    left = possible("impossible: {age: [null, 5], years: 0}", ("age", "years"))
    assert {("missing", "0"), ("0..9", "0")} == {
        (a, y) for a in ("0..9", "10..19", "20..29", "missing") for y in "0123" if (a, y) not in left
    }


def test_functional_dependency():
    left = possible("determines: {from: years, to: age, table: {0: 5, 2: [15, 25]}}", ("years", "age"))
    of_years = {y: [age for years, age in left if years == y] for y in "0123"}
    assert of_years == {
        "0": ["0..9", "missing"],
        "1": ["0..9", "10..19", "20..29", "missing"],
        "2": ["10..19", "20..29", "missing"],
        "3": ["0..9", "10..19", "20..29", "missing"],
    }


def test_only_possible_rows():
    left = possible(
        "possible: {columns: [state, age], rows: [[single, 5], [[married, else], {min: 10}]]}", ("state", "age")
    )
    assert [pair for pair in left if pair[1] != "missing"] == [
        ("single", "0..9"),
        ("married", "10..19"),
        ("married", "20..29"),
        ("else", "10..19"),
        ("else", "20..29"),
    ]
    assert ("widowed", "missing") in left


def test_constraints_on_the_same_columns_add_up_and_reach_the_estimate():
    schema = Schema.parse(COLUMNS + "  - impossible: {age: 5, years: 1}\n  - impossible: {age: 5, years: 2}\n")
    zeros = schema.structural_zeros
    assert zeros["age", "years"].sum() == 2
    model = pg.estimate([], schema.domain, total=100, structural_zeros=zeros)
    np.testing.assert_array_equal(model.project(("age", "years")).values == 0, zeros["age", "years"])


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        ("forbidden: {}", "has an unknown key 'forbidden'"),
        ("{}", "must have one key, of impossible, determines, possible, ordered, sum."),
        ("impossible: {aeg: 5}", "names 'aeg', which is no column of the schema (age, state, years)."),
        ("impossible: {}", "names no column."),
        ("impossible: {age: 77}", "must be whole numbers within 0..29, the range of column 'age', not 77."),
        ("impossible: {age: {min: 3, max: 8}}", "holds no whole bin of column 'age'"),
        (
            "impossible: {state: divorced}",
            "must be a value of column 'state' (single, married, widowed, else), not 'divorced'.",
        ),
        ("impossible: {years: null}", "is null, but column 'years' has no code for missing values."),
        ("determines: {from: age, to: years}", "needs 'table:'."),
        ("determines: {from: age, to: age, table: {}}", "names 'age' twice."),
        ("possible: {columns: [age, years], rows: [[1]]}", "has a row of 1 values for 2 columns."),
    ],
)
def test_wrong_constraints(constraint, text):
    with pytest.raises(SchemaError, match=re.escape(text)) as caught:
        Schema.parse(COLUMNS + f"  - {constraint}\n")
    assert "line 6" in str(caught.value)


def test_data_of_another_schema_are_not_decoded():
    schema = Schema.parse(TEXT)
    with pytest.raises(SchemaError, match="the data are over"):
        schema.decode(pg.Dataset.from_frame(pd.DataFrame({"a": [0]}), {"a": 1}))
