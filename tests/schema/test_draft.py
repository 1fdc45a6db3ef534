"""Drafts: they load, they fit the table, and they say what they took from the records."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgmest.data.frames import ReadingWarning
from pgmest.errors import DataError
from pgmest.schema import Schema, draft

PRIVATE = "# READ FROM THE PRIVATE DATA"

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "id": [f"P{i:04}" for i in range(120)],
        "age": [17 + i % 42 for i in range(120)],
        "sex": ["F", "M", "?"] * 40,
        "zip": ["01234", "02345"] * 60,
        "price": [f"{i * 1.25:.2f}" for i in range(120)],
        "visit": [f"2021-03-{1 + i % 28:02}" for i in range(120)],
        "member": ["true", "False", ""] * 40,
        "weird: 'name'": ["a # b", "- c", "null", "yes", "a # b"] * 24,
        "empty": [None] * 120,
        "income": RNG.permutation([i * 1005 for i in range(120)]),
    }
)
EXPECTED = f"""\
{PRIVATE}: THE TYPES of all columns, and which are left out.
#   They were chosen by the values of the 120 rows that were read.
{PRIVATE}: THE RANGES of age, price, visit, income.
#   State the bounds that are public, and bins that suit them; a value in points has a bin alone.
{PRIVATE}: THE VALUES of sex, zip, member, weird: 'name'.
#   List all that can occur, also what nobody has here. With outside: clip any other value counts as the
#   nearest listed number, or as the first listed text; other: LABEL keeps such values apart.
{PRIVATE}: MISSING VALUES of sex, member, weird: 'name'.
#   Say where a value can be missing, and what is written then.
{PRIVATE}: THE NOTATION of price.
#   Say how values are written.
columns:
  {PRIVATE}: id IS LEFT OUT: IT IS CALLED AN IDENTIFIER, AND ITS 120 VALUES ALL DIFFER.
  age:
    type: integer
    min: 0
    max: 59
  sex:
    type: categorical
    values: [F, M]
    missing: ["?"]
  zip:
    type: categorical
    values: ["01234", "02345"]
    outside: clip
  price:
    type: real
    min: 0
    max: 200
    bins: 20
    decimals: 2
    written: "{{0.00}}"
  visit:
    type: date
    min: 2021-01-01
    max: 2021-12-31
    unit: day
  member:
    type: boolean
    missing: true
  "weird: 'name'":
    type: categorical
    values: ["- c", "a # b", yes]
    missing: ["null"]
  {PRIVATE}: empty IS LEFT OUT: IT HOLDS NO VALUES.
  income:
    type: integer
    min: 0
    max: 119999
    bins: 50
    {PRIVATE}: ALL 120 VALUES DIFFER: IF THEY TELL PERSONS APART, DELETE THE COLUMN.
# These hold in all rows. Uncomment what must hold by its meaning, with the line constraints:, and delete the others.
# constraints:
#   - determines: {{from: sex, to: member, table: {{F: true, M: false}}}}  {PRIVATE}
"""


def test_draft_of_a_table_and_of_its_file(tmp_path):
    text = draft(TABLE)
    assert text[text.index(f"{PRIVATE}: THE TYPES") :] == EXPECTED
    assert text.startswith("# A DRAFT, GUESSED FROM THE RECORDS. IT IS NOT SAFE TO PUBLISH")
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    assert draft(tmp_path / "t.csv") == text
    assert draft(pl.from_pandas(TABLE).lazy()) == text


def test_a_draft_is_a_schema_that_knows_what_it_is():
    schema = Schema.parse(draft(TABLE))
    assert schema.drafted
    data = schema.encode(TABLE)
    assert data.records == 120
    assert [name for name in schema.domain if data.project(name).values[-1] == 120] == []


def test_every_decision_must_be_taken_and_deleting_the_marks_publishes_no_identifier():
    text = draft(TABLE)
    lines = text.split("\n")
    marked = [number for number, line in enumerate(lines, 1) if "READ FROM THE PRIVATE DATA" in line]
    without_a_line = text.replace("drafted_from_private_data: true\n", "")
    schema = Schema.parse(without_a_line)
    assert schema.drafted
    assert len(schema.marked_lines) == len(marked) == 10
    one_left = without_a_line.replace(PRIVATE, "#", len(marked) - 2)
    assert Schema.parse(one_left).drafted
    assert Schema.parse(one_left.lower()).drafted
    headless = without_a_line[without_a_line.index(f"{PRIVATE}: THE TYPES") :].split("\n")
    for careless in (
        "\n".join(line for line in headless if "READ FROM" not in line),
        "\n".join(line.split("# READ FROM")[0] for line in headless),
        "\n".join(line.replace("READ FROM THE PRIVATE DATA", "") for line in headless),
    ):
        schema = Schema.parse(careless)
        assert not schema.drafted
        assert "id" not in schema.domain
        assert not any(label.startswith("P0") for name in schema.domain for label in schema.labels(name))


def test_many_values_are_cut_to_the_most_frequent():
    values = [f"v{i % 60:02}" for i in range(1000)] + ["v00"]
    schema = Schema.parse(draft(pd.DataFrame({"a": values})))
    assert schema.domain["a"] == 51
    assert "v00" in schema.labels("a")


@pytest.mark.parametrize("table", [pd.DataFrame({"a": []}), pd.DataFrame()])
def test_nothing_to_guess_from(table):
    with pytest.raises(DataError, match="nothing to guess from"):
        draft(table)


def column_of(values):
    return st.lists(values, min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        column_of(st.integers()),
        column_of(st.integers(-300, 300)),
        column_of(st.floats()),
        column_of(st.floats(-1e3, 1e3)),
        column_of(st.decimals(-1000, 1000, places=2).map(str)),
        column_of(st.text(max_size=6)),
        column_of(st.dates()),
        column_of(st.datetimes()),
        column_of(st.booleans() | st.none()),
        column_of(st.sampled_from(["yes", "no", "", "1", "0", "007", "1e5", "-", "."])),
    ),
    st.text(min_size=1, max_size=6),
)
@example([1e13, -2.225073858507e-311], "x")
@example([2.0**53], "x")
@example([0.0, 1.5], "x")
@example(["E11", "1e5"] * 4, "x")
def test_every_draft_loads_and_no_number_is_outside(values, name):
    table = pd.DataFrame({name: values, "number": np.arange(len(values))})
    schema = Schema.parse(draft(table))
    assert "number" in schema.domain
    if any(isinstance(value, float) and not abs(value) < 1e299 for value in values):
        return
    if name in schema.domain and name != "number" and schema.column(name).kind in ("integer", "real", "date"):
        strict = draft(table).replace("outside: clip\n", "outside: error\n")
        if schema.column(name).outside == "clip" and "outside: error\n  number:" not in strict:
            strict = strict.replace("  number:", "    outside: error\n  number:", 1)
        Schema.parse(strict).encode(table)


def test_a_few_words_among_numbers_mean_missing_values(tmp_path):
    (tmp_path / "ages.csv").write_text("age\n" + "\n".join([*map(str, range(60)), "unknown", "refused"]) + "\n")
    column = Schema.parse(draft(tmp_path / "ages.csv")).column("age")
    assert column.kind == "integer"
    assert {"unknown", "refused"} <= column.markers


def test_codes_with_letters_stay_text(tmp_path):
    codes = [str(code) for code in range(40)] + [f"V{code}" for code in range(10)]
    (tmp_path / "codes.csv").write_text("code\n" + "\n".join(codes) + "\n")
    assert type(Schema.parse(draft(tmp_path / "codes.csv")).column("code")).__name__ == "Categorical"


def test_days_that_do_not_exist_and_numbers_that_are_infinite(tmp_path):
    (tmp_path / "odd.csv").write_text("born,size,none\n2020-02-30,1e400,2020-02-30\n2020-02-29,1,2020-02-30\n")
    schema = Schema.parse(draft(tmp_path / "odd.csv"))
    kinds = [described["type"] for described in schema.description["columns"].values()]
    assert kinds == ["date", "categorical", "categorical"]


def test_a_file_that_begins_with_an_empty_line(tmp_path):
    (tmp_path / "late.csv").write_text("\nsex\nF\nM\n")
    assert Schema.parse(draft(tmp_path / "late.csv")).labels("sex")[:2] == ["F", "M"]


# -- messy tables -----------------------------------------------------------------------------------------------------


def drafted(**columns):
    text = draft(pd.DataFrame(columns))
    lines = [line.removesuffix(PRIVATE).strip() for line in text[text.index("columns:") :].split("\n")[1:]]
    return Schema.parse(text), lines


def test_a_few_odd_values_do_not_make_a_date_column_labels():
    days = [f"{1 + i % 28:02}.{1 + i % 12:02}.19{40 + i % 50}" for i in range(500)]
    odd = [f"about {1900 + i}" for i in range(49)]
    schema, lines = drafted(born=[*days, *odd])
    assert "type: date" in lines
    assert 'format: "%d.%m.%Y"' in lines
    assert "missing: true" in lines
    assert not any("about" in line for line in lines)
    assert schema.check(pd.DataFrame({"born": days})).kept == 1
    _, lines = drafted(born=[*days, *["unknown"] * 9, *["?"] * 3])
    assert 'missing: ["?", unknown]' in lines


def test_day_or_month_first_is_told_by_the_values_or_asked():
    assert 'format: "%m/%d/%Y"' in drafted(a=["12/31/2020", "01/02/2020"] * 20)[1]
    assert 'format: "%d/%m/%Y"' in drafted(a=["31/12/2020", "01/02/2020"] * 20)[1]
    doubtful = drafted(a=["01/02/2020", "03/04/2020"] * 20)[1]
    assert 'format: "%d/%m/%Y"' in doubtful
    assert any("IT COULD AS WELL BE WRITTEN %m/%d/%Y" in line for line in doubtful)


@pytest.mark.parametrize(
    ("values", "ignore", "decimal"),
    [
        (["$9,934.79", "$12.50", "$1,000,000"], 'ignore: ["$", ","]', None),
        (["9.934,79 €", "12,50 €", "1.000.000 €"], 'ignore: ["€", "."]', 'decimal: ","'),
        (["1,000", "2,500", "12,345,678"], 'ignore: [","]', None),
        (["12 %", "7 %", "55 %"], 'ignore: ["%"]', None),
        (["12,5", "7,25", "0,5"], None, 'decimal: ","'),
    ],
)
def test_currency_signs_and_separators_are_proposed(values, ignore, decimal):
    frame = pd.DataFrame({"a": values * 10})
    schema, lines = drafted(a=values * 10)
    assert schema.column("a").kind in ("integer", "real")
    assert ignore is None or ignore in lines
    assert decimal is None or decimal in lines
    assert schema.check(frame).kept == 1
    again = schema.check(pl.from_pandas(frame).lazy())
    assert [c.counts.tolist() for c in again.columns] == [c.counts.tolist() for c in schema.check(frame).columns]


def test_numbers_for_missing_values_are_proposed():
    assert "missing: [-99]" in drafted(a=[-99, -99, *range(60)])[1]
    assert "missing: [-99]" in drafted(a=["-99", "-99", *map(str, range(60))])[1]
    assert "missing: [999]" in drafted(a=[999, 999, *range(60)])[1]
    assert not any("missing" in line for line in drafted(a=[-99, *range(-300, 60)])[1])
    schema, _ = drafted(a=[-99.0, -99.0, 1.5, 2.5, 7.0])
    checked = schema.check(pd.DataFrame({"a": ["-99.0", "-99", "2.5"]})).columns[0]
    assert (checked.missing, checked.clipped) == (2, 0)


def test_mixed_case_is_one_value_and_booleans_keep_their_labels():
    schema, lines = drafted(a=["Red", "RED", "red", "Red", "Blue"] * 30)
    assert "values: [Blue, Red]" in lines
    assert "ignore_case: true" in lines
    assert schema.labels("a") == ["Blue", "Red"]
    schema, lines = drafted(a=["Yes", "YES", "no", "Yes", "no"] * 30)
    assert "type: boolean" in lines
    assert "labels: [no, Yes]" in lines
    assert set(schema.decode(schema.encode(pd.DataFrame({"a": ["YES", "n"]})), seed=0)["a"]) == {"Yes", "no"}


def test_sentences_and_rare_values_are_not_printed():
    comments = [f"the staff of ward {i % 30} was kind to me" for i in range(400)]
    _, lines = drafted(comment=comments, number=[1, 2] * 200)
    assert any("comment IS LEFT OUT: IT IS FREE TEXT" in line for line in lines)
    assert "values: [1, 2]" in lines
    assert not any("kind" in line for line in lines)
    cities = ["Bonn", "Ulm"] * 200 + ["Jane Doe"]
    _, lines = drafted(city=cities)
    assert "values: [Bonn, Ulm]" in lines
    assert not any("Jane" in line for line in lines)
    _, lines = drafted(answer=["Never worked for pay in the last twelve months", "Worked for pay"] * 50)
    assert "type: categorical" in lines


def test_labels_with_leading_zeros_and_grades_are_no_numbers():
    assert "type: categorical" in drafted(zip=["01234", "02345"] * 60)[1]
    assert "type: categorical" in drafted(grade=["1", "2", "3+"] * 60)[1]


def test_a_draft_without_columns_is_said():
    frame = pd.DataFrame({"id": range(60), "note": [f"a long remark about person {i} and others" for i in range(60)]})
    with pytest.warns(
        ReadingWarning, match="every column is left out of the draft: describe those that are to be kept"
    ):
        text = draft(frame)
    assert "note IS LEFT OUT" in text


@pytest.mark.parametrize("kind", ["frame", "lazy", "file", "linked"])
@pytest.mark.parametrize("read", [60, 300])
def test_a_draft_of_the_first_rows_says_so_wherever_it_states_a_value_or_count(tmp_path, monkeypatch, kind, read):
    monkeypatch.setattr(sys.modules[draft.__module__], "ROWS_READ", read)
    persons = np.repeat(np.arange(100), 3)  # 300 rows, 3 a person
    frame = pd.DataFrame(
        {"person_id": [f"P{one:05}" for one in persons], "age": persons % 7, "sex": ["F", "M", "F"] * 100}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    homes = pd.DataFrame({"person_id": frame["person_id"].unique(), "town": ["A", "B"] * 50})
    text = draft(
        {
            "frame": frame,
            "lazy": pl.from_pandas(frame).lazy(),
            "file": tmp_path / "t.csv",
            "linked": {"persons": homes, "visits": frame},
        }[kind]
    )
    marks = [line for line in text.splitlines()[5:] if "READ FROM THE PRIVATE DATA" in line]
    assert len(marks) >= 4
    partly = [line for line in marks if "READ FROM THE PRIVATE DATA, ITS FIRST 60 ROWS ALONE" in line]
    assert partly == (marks if read == 60 else [])
    if kind != "linked":
        assert len(Schema.parse(text).marked_lines) > len(marks)
        assert f"HAS {read // 3} VALUES WITH UP TO 3 ROWS EACH" in text


@pytest.mark.parametrize("name", ["PWGTP", "pspwght", "weight", "WTFINL", "perwt", "FINLWT21", "fnlwgt", "Gewicht"])
@pytest.mark.parametrize("kind", ["whole", "real", "text"])
def test_a_column_called_like_a_survey_weight_is_proposed_as_the_weight(name, kind):
    numbers = np.random.default_rng(1).gamma(4, 20, 400) + 1
    written = {"whole": numbers.astype(int), "real": numbers, "text": np.char.mod("%.3f", numbers)}[kind]
    table = pd.DataFrame({"sex": ["f", "m"] * 200, name: written})
    text = draft(table)
    line = next(line for line in text.splitlines() if line.startswith("# weight: {"))
    assert f"{PRIVATE}: {name} MAY BE A SURVEY WEIGHT" in text
    columns = "columns:\n  sex: {type: categorical, values: [f, m], outside: clip}\n"
    weight = Schema.parse(columns + line.removeprefix("# ")).weight
    assert weight.name == name
    assert numbers.max() <= weight.most <= 2 * numbers.max()


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("weight_kg", [61.5, 70.1] * 50),  # what a body weighs
        ("growth", [1.5, 2.5] * 50),
        ("score", [1.5, 2.5] * 50),
        ("weight", [0.0, 2.5] * 50),  # a row that stands for nobody
        ("weight", [np.nan, 2.5] * 50),
        ("weight", [1.0] * 100),
        ("weight", ["light", "heavy"] * 50),
    ],
)
def test_no_other_column_is_proposed_as_the_weight(name, numbers):
    assert "weight: {" not in draft(pd.DataFrame({"sex": ["f", "m"] * 50, name: numbers}))


def test_of_many_replicate_weights_a_few_are_proposed():
    weights = np.random.default_rng(1).integers(1, 90, (100, 20))
    table = pd.DataFrame(weights, columns=[f"PWGTP{i}" for i in range(20)])
    assert draft(table).count("# weight: {") == 3


def test_a_draft_says_how_many_rows_it_has_read(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("sex,age\n" + "f,31\nm,40\n" * 30)
    assert "chosen by the values of the 60 rows that were read." in draft(path)
    many = pd.DataFrame({"sex": np.tile(["f", "m"], 500_100)})
    text = draft(many)
    assert "chosen by the values of the 1,000,000 rows that were read." in text
    assert "ITS FIRST 1,000,000 ROWS ALONE" in text
