"""Schemas of linked tables: what they say, and what is refused."""

import json

import numpy as np
import pytest

import pgmest as pg
from pgmest.data.linked_rules import AtMost, Exactly, Older
from pgmest.errors import SchemaError
from pgmest.schema import LinkedSchema, Schema

from .conftest import SURVEY


def test_a_schema_with_tables_is_a_linked_one(survey, tmp_path):
    (tmp_path / "survey.yaml").write_text(SURVEY)
    read = Schema.parse(SURVEY)
    assert isinstance(read, LinkedSchema)
    for schema in (pg.Schema.load(tmp_path / "survey.yaml"), read, LinkedSchema.from_dict(survey.description), survey):
        assert isinstance(schema, LinkedSchema)
        assert schema.tables == ("households", "persons")
        assert (schema.root, schema.protected, schema.children("households")) == (
            "households",
            "households",
            ("persons",),
        )
        exactly, at_most, older = schema.rules
        assert exactly == Exactly("persons", "role", (0,), 1)
        assert at_most == AtMost("persons", "role", (1, 3), 2)
        assert isinstance(older, Older)
        assert (older.codes, older.than, older.by, older.column) == ((0,), (2,), 12, "age")
        assert older.least[:2] == (0, 5)
        assert older.greatest[:2] == (4, 9)
        assert np.isnan(older.least[-1])
        assert str(exactly) == "exactly: {role: head, count: 1}"
    assert Schema.parse("columns: {a: {type: boolean}}").tables == ()


def test_a_schema_says_so_in_json_and_drafts_are_known(survey):
    description = {**survey.description, "drafted_from_private_data": True, "unit": "persons"}
    schema = LinkedSchema.parse(json.dumps(description))
    assert schema.drafted
    assert schema.protected == "persons"
    assert schema.marked_lines == ()
    assert LinkedSchema.parse(SURVEY + "# READ FROM THE PRIVATE DATA").marked_lines == (20,)


def test_what_is_of_one_table_alone_is_refused(survey):
    for ask in (lambda: survey.domain, lambda: survey.labels("age"), lambda: survey.select(["age"])):
        with pytest.raises(SchemaError, match="describes linked tables"):
            ask()


THREE = """
tables:
  patients: {key: pid, columns: {sex: {type: boolean}}}
  visits: {parent: patients, key: pid, at_most: 5, columns: {ward: {type: boolean}}}
  codes: {parent: visits, key: [pid, no], at_most: 3, columns: {acute: {type: boolean}}}
  stays: {parent: visits, key: {visits: [pid, no], stays: [patient, visit]}, at_most: 1}
"""


def test_keys_of_several_columns_and_of_other_names():
    schema = LinkedSchema.parse(THREE)
    assert schema.tables == ("patients", "visits", "codes", "stays")
    keys = {name: (part.link, part.key, part.numbered) for name, part in schema.parts.items()}
    assert keys["patients"] == ((), ("pid",), "pid")
    assert keys["visits"] == (("pid",), ("pid", "no"), "no")
    assert keys["codes"] == (("pid", "no"), (), None)
    assert keys["stays"] == (("patient", "visit"), (), None)


CHANGES = [
    ("key: hid\n    columns", "kye: hid\n    columns", "unknown key 'kye'. Did you mean 'key'"),
    (
        "    key: hid\n    at_most",
        "    at_most",
        "table 'persons' needs 'key:', the column that it shares with 'households'",
    ),
    ("at_most: 4\n", "\n", "table 'persons' needs 'at_most:'"),
    ("at_most: 4\n", "at_most: 0\n", "at_most must be a whole number of at least 1"),
    ("at_most: 4\n", "at_most: 1000000\n", "must be at most 10,000, not 1,000,000"),
    ("parent: households", "parent: houses", "'houses', which is no table"),
    ("parent: households\n", "\n", "households, persons have none"),
    ("    key: hid\n    columns", "    key: hid\n    at_most: 3\n    columns", "add parent:"),
    ("size: {type: count, of: persons}", "size: {type: count, of: pets}", "must be one of persons"),
    ("size: {type: count, of: persons}", "size: {type: sequence}", "the table has no parent"),
    ("size: {type: count, of: persons}", "size: {type: count}", "needs 'of:'"),
    ("      role: {type: categorical", "      hid: {type: categorical", "has 'hid' as a key"),
    ("exactly: {role: head", "exactly: {rolle: head", "names 'rolle', which is no attribute"),
    ("exactly: {role: head", "exactly: {role: boss", "boss"),
    ("exactly: {role: head, count: 1}", "exactly: {role: head}", "needs 'count:'"),
    ("exactly: {role: head, count: 1}", "exactly: {role: head, count: 5}", "at_most: 4 are counted"),
    ("exactly: {role: head, count: 1}", "exactly: {role: lodger, count: 3}", "contradicts another one"),
    (
        "exactly: {role: head, count: 1}",
        "exactly: {role: head, count: 1}\n      - impossible: {role: head}",
        "no row of 'households' with at most 4 rows of 'persons' can keep all of these: exactly: {role: head",
    ),
    ("- exactly: {role: head", "- exakt: {role: head", "Did you mean 'exactly'"),
    ("exactly: {role: head", "exactly: {role: head, region: elsewhere", "must name one column"),
    ("than: {role: child}", "than: {role: [child, head]}", "names head on both sides"),
    ("than: {role: child}", "than: {region: elsewhere}", "must name 'role'"),
    ("column: age", "column: role", "must name a column of type integer or real"),
    ("by: 12", "by: 112", "asks for 112 in all"),
    ("by: 12", "by: many", "must be a number"),
    (
        "column: age}\n",
        "column: age}\n      - older: {role: child, than: {role: head}, by: 1, column: age}\n",
        "leads in a circle",
    ),
    (
        "column: age}\n",
        "column: age}\n      - older: {role: lodger, than: {role: head}, by: 90, column: age}\n",
        "asks for 102 in all",
    ),
    ("age: {type: integer, min: 0, max: 99, width: 5", "age: {type: integer, bounds: bought", "to be bought"),
    ("tables:\n", "columns: {}\ntables:\n", "unknown key 'columns'"),
    ("tables:\n", "unit: {column: hid, at_most: 3}\ntables:\n", "must be the name of the table"),
    ("  households:\n", "  '':\n", "table '' must have a name"),
    ("  households:\n", "  another of persons:\n", "table 'another of persons' must have another name"),
    (
        "region: {type",
        "number of persons: {type",
        "table 'households': column 'number of persons' must have another name",
    ),
    ("  households:\n", "  house.holds:\n", "table 'house.holds' must have no dot in its name"),
    ("tables:\n", "unit: people\ntables:\n", "must be one of households, persons"),
]


@pytest.mark.parametrize(("old", "new", "match"), CHANGES)
def test_mistakes_are_named(old, new, match):
    assert old in SURVEY
    with pytest.raises(SchemaError) as error:
        LinkedSchema.parse(SURVEY.replace(old, new, 1))
    assert match in str(error.value)
    assert "schema, line " in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("key: [pid, no]", "key: no", "is identified by no for 'codes', but by pid, no for 'stays'"),
        ("stays: [patient, visit]", "stays: [patient]", "as many columns"),
        ("visits: [pid, no]", "visit: [pid, no]", "Did you mean 'visits'"),
        ("{key: pid", "{key: [pid, clinic]", "is identified by pid, clinic for 'patients', but by pid for 'visits'"),
        ("key: [pid, no]", "key: [pid, pid]", "each once"),
    ],
)
def test_keys_that_do_not_agree_are_named(old, new, match):
    with pytest.raises(SchemaError) as error:
        LinkedSchema.parse(THREE.replace(old, new, 1))
    assert match in str(error.value)


def test_keys_of_tables_with_children_contain_those_of_their_parents():
    """Otherwise rows of several units could share a key, and one of them would change what counts of the others."""
    three = THREE[: THREE.index("  stays")]
    four = three + "  drugs: {parent: codes, key: [pid, code], at_most: 2}\n"
    with pytest.raises(SchemaError, match=r"table 'visits' is identified by no, which must contain pid, .*\[pid, no\]"):
        LinkedSchema.parse(three.replace("key: [pid, no]", "key: no"))
    with pytest.raises(SchemaError, match=r"table 'codes' .* must contain pid, no, .* key: \[pid, no, code\]"):
        LinkedSchema.parse(four)
    assert LinkedSchema.parse(three.replace("[pid, no]", "[no, pid]")).parts["visits"].numbered == "no"
    assert LinkedSchema.parse(four.replace("[pid, code]", "[pid, no, code]")).parts["codes"].numbered == "code"


def test_units_on_which_something_hangs_are_refused():
    with pytest.raises(SchemaError, match="unit must not be 'visits': codes, stays hang on 'visits'"):
        LinkedSchema.parse("unit: visits" + THREE)
    assert LinkedSchema.parse("unit: stays" + THREE).protected == "stays"
    assert LinkedSchema.parse("unit: patients" + THREE).protected == "patients"


def test_keys_that_cannot_be_numbered_are_refused():
    both = (
        THREE.replace("pid,", "[clinic, pid],", 1)
        .replace("key: pid,", "key: [clinic, pid],")
        .replace("[pid, no]", "[clinic, pid, no]")
    )
    with pytest.raises(SchemaError, match="one column of its own"):
        LinkedSchema.parse(both.replace("[patient, visit]", "[clinic, patient, visit]"))
    same = (
        THREE.replace("key: [pid, no]", "key: pid")
        .replace("visits: [pid, no]", "visits: [pid]")
        .replace("[patient, visit]", "[patient]")
    )
    with pytest.raises(SchemaError, match="at_most: 1"):
        LinkedSchema.parse(same)
    assert LinkedSchema.parse(same.replace("at_most: 5", "at_most: 1")).parts["visits"].numbered is None


def test_a_single_table_needs_no_tables():
    with pytest.raises(SchemaError, match="at least two tables"):
        LinkedSchema.parse("tables: {a: {key: b, columns: {c: {type: boolean}}}}")


def test_lists_of_values_in_files_are_part_of_the_description(tmp_path):
    (tmp_path / "codes.csv").write_text("code,chapter\nA1,A\nA2,A\nB1,B\n")
    (tmp_path / "hospital.yaml").write_text("""
tables:
  patients: {key: id}
  visits:
    parent: patients
    key: id
    at_most: 3
    columns: {code: {type: categorical, values: {file: codes.csv, column: code, levels: [chapter]}, outside: clip}}
""")
    schema = LinkedSchema.load(tmp_path / "hospital.yaml")
    (tmp_path / "codes.csv").unlink()
    copy = LinkedSchema.from_dict(schema.description).parts["visits"].schema
    assert copy.labels("code") == ["A1", "A2", "B1"]
    assert copy.labels("code@chapter") == ["A", "B"]


@pytest.mark.parametrize("parents", ["[households, towns]", "{households: hid}"])
def test_a_second_parent_is_refused_with_a_way_out(parents):
    with pytest.raises(SchemaError, match=r"must be the name of one table.*join the columns of a second parent"):
        LinkedSchema.parse(SURVEY.replace("parent: households", f"parent: {parents}", 1))
