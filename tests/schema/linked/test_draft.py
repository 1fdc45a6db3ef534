"""Drafts of linked tables: which columns join, how many rows hang on one, and what holds within a parent."""

import numpy as np
import pandas as pd
import pytest

from pgmest.data.frames import ReadingWarning
from pgmest.errors import ArgumentError, DataError
from pgmest.schema import LinkedSchema, draft


def survey(count=60):
    """Households with a head and 0 to 3 children, with person numbers of their own."""
    homes = np.repeat(np.arange(count), 1 + np.arange(count) % 4)
    first = np.append(True, homes[1:] != homes[:-1])
    persons = pd.DataFrame(
        {
            "pid": np.arange(5000, 5000 + len(homes)),
            "hid": [f"H{home}" for home in homes],
            "role": np.where(first, "head", "child"),
            "age": np.where(first, 30 + homes % 40, homes % 15),
        }
    )
    sizes = 1 + np.arange(count) % 4
    households = pd.DataFrame(
        {"region": ["N", "S"] * (count // 2), "hid": [f"H{home}" for home in range(count)], "size": sizes}
    )
    return {"persons": persons, "households": households}


def test_a_draft_finds_keys_counts_and_rules():
    text = draft(survey())
    schema = LinkedSchema.parse(text)
    assert schema.drafted
    assert schema.tables == ("households", "persons")
    persons = schema.parts["persons"]
    assert (persons.link, persons.at_most) == (("hid",), 4)
    assert schema.parts["households"].computed == {"size": "persons"}
    assert list(persons.schema.domain) == ["role", "age"]
    assert "# READ FROM THE PRIVATE DATA: pid IS LEFT OUT" in text
    assert "#   - exactly: {role: head, count: 1}  # READ FROM THE PRIVATE DATA" in text
    assert "{role: child, count" not in text
    ready = text.replace("# within:", "within:").replace("#   - exactly", "  - exactly")
    assert [str(rule) for rule in LinkedSchema.parse(ready).rules] == ["exactly: {role: head, count: 1}"]
    linked = schema.encode(survey())
    assert linked.tables["persons"].rows == len(survey()["persons"])


def test_a_column_that_numbers_the_rows_of_a_household_is_computed():
    tables = survey()
    tables["persons"]["place"] = tables["persons"].groupby("hid").cumcount() + 1
    text = draft(tables)
    assert "      place: {type: sequence}  # READ FROM THE PRIVATE DATA" in text
    assert LinkedSchema.parse(text).parts["persons"].computed == {"place": None}


def test_what_persons_repeat_of_their_household_is_left_out():
    tables = survey()
    weights = np.round(np.random.default_rng(0).random(60), 4)
    tables["households"]["weight"] = weights
    homes = tables["persons"]["hid"].str[1:].astype(int).to_numpy()
    tables["persons"] = tables["persons"].assign(region=np.where(homes % 2, "S", "N"), w=weights[homes], same="N")
    text = draft(tables)
    assert "region IS LEFT OUT: IT REPEATS 'region' of households" in text
    assert "w IS LEFT OUT: IT REPEATS 'weight' of households" in text
    assert list(LinkedSchema.parse(text).parts["persons"].schema.domain) == ["role", "age", "same"]


def test_a_few_crowded_parents_do_not_set_the_limit():
    tables = survey(200)
    more = pd.DataFrame({"pid": range(9000, 9090), "hid": "H1", "role": "child", "age": 3})
    text = draft({**tables, "persons": pd.concat([tables["persons"], more])})
    assert "at_most: 4\n" in text
    assert "A ROW OF households HAS UP TO 92 ROWS; THIS LIMIT KEEPS 85.1 % OF ALL" in text


def hospital():
    patients = pd.DataFrame({"id": range(100, 140), "sex": ["F", "M"] * 20})
    visits = pd.DataFrame(
        {"patient_id": np.repeat(range(100, 140), 3), "no": [1, 2, 3] * 40, "ward": ["A", "B", "C", "A"] * 30}
    )
    codes = visits.loc[np.repeat(range(120), 2), ["patient_id", "no"]].assign(code=["x", "y", "z"] * 80)
    return {"visits": visits, "patients": patients, "codes": codes.reset_index(drop=True)}


def test_three_levels_with_a_key_of_two_columns_and_other_names():
    text = draft(hospital())
    schema = LinkedSchema.parse(text)
    assert schema.tables == ("patients", "visits", "codes")
    assert "key: {patients: id, visits: patient_id}" in text
    keys = {name: (part.parent, part.link, part.key) for name, part in schema.parts.items()}
    assert keys["visits"] == ("patients", ("patient_id",), ("patient_id", "no"))
    assert keys["codes"] == ("visits", ("patient_id", "no"), ())
    assert schema.encode(hospital()).tables["codes"].rows == 240


def test_keys_of_three_levels_contain_those_of_the_parents():
    tables = hospital()
    tables["visits"] = tables["visits"].assign(visit_id=[f"v{row}" for row in range(120)])
    tables["codes"] = tables["codes"].assign(visit_id=[f"v{row}" for row in np.repeat(range(120), 2)])
    schema = LinkedSchema.parse(
        draft({name: frame.drop(columns="no", errors="ignore") for name, frame in tables.items()})
    )
    assert schema.parts["visits"].key == schema.parts["codes"].link == ("patient_id", "visit_id")
    lacking = {**tables, "codes": tables["codes"].drop(columns=["patient_id", "no"])}
    with pytest.raises(DataError, match="add patient_id of 'visits' to 'codes'"):
        draft(lacking)


def test_files_are_drafted_with_how_they_are_read(tmp_path):
    for name, frame in survey().items():
        frame.to_csv(tmp_path / f"{name}.txt", index=False, sep=";")
    with pytest.warns(ReadingWarning):
        text = draft({name: tmp_path / f"{name}.txt" for name in survey()})
    schema = LinkedSchema.parse(text)
    assert schema.parts["persons"].schema.file == {"delimiter": ";"}
    assert schema.encode({name: tmp_path / f"{name}.txt" for name in survey()}) is not None


def test_row_numbers_of_two_tables_are_no_key():
    tables = survey()
    tables["households"] = tables["households"].assign(id=range(60))
    tables["persons"] = tables["persons"].assign(id=range(len(tables["persons"])))
    assert LinkedSchema.parse(draft(tables)).parts["persons"].link == ("hid",)


@pytest.mark.parametrize(
    ("tables", "options", "error", "match"),
    [
        (lambda: {"a": survey()["persons"]}, {}, ArgumentError, "at least two tables"),
        (survey, {"bought": True}, ArgumentError, "cannot buy"),
        (lambda: {**survey(), "persons": survey()["persons"].drop(columns="hid")}, {}, DataError, "share no column"),
        (lambda: {**survey(), "persons": survey()["persons"].iloc[:0]}, {}, DataError, "no rows"),
    ],
)
def test_what_cannot_be_drafted_is_refused(tables, options, error, match):
    with pytest.raises(error, match=match):
        draft(tables(), **options)


def test_a_survey_weight_of_a_linked_table_is_said_to_have_no_use_there():
    tables = survey()
    tables["persons"]["pweight"] = np.linspace(1.5, 80.25, len(tables["persons"]))
    text = draft(tables)
    assert "pweight MAY BE A SURVEY WEIGHT; LINKED TABLES HAVE NO weight:." in text
    LinkedSchema.parse("\n".join(line for line in text.splitlines() if not line.startswith("drafted_from")))


def many_to_many():
    generator = np.random.default_rng(0)
    books = pd.DataFrame({"book": range(300), "genre": generator.choice(["g", "h"], 300)})
    authors = pd.DataFrame({"author": range(200), "land": generator.choice(["l", "m"], 200)})
    wrote = pd.DataFrame({"book": generator.integers(0, 300, 500), "author": generator.integers(0, 200, 500)})
    return {"books": books, "authors": authors, "wrote": wrote.assign(role=generator.choice(["a", "b"], 500))}


@pytest.mark.parametrize("order", [("books", "authors", "wrote"), ("wrote", "authors", "books")])
def test_a_table_with_two_parents_is_told_a_way_that_works(order):
    tables = {name: many_to_many()[name] for name in order}
    with pytest.raises(DataError, match="a table has one parent") as raised:
        draft(tables)
    told = str(raised.value)
    assert "'wrote' name rows of two tables" in told
    call = told[told.index("wrote.merge(") :].removesuffix(" in pandas.")
    wrote = eval(call, tables)
    kept = "books" if "merge(authors" in call else "authors"
    lost = {"books": "author", "authors": "book"}[kept]
    text = draft({kept: tables[kept], "wrote": wrote.drop(columns=lost)})
    assert f"parent: {kept}" in text
    assert {"genre:", "land:", "role:"} <= set(text.split())


def test_tables_without_a_common_key_are_not_said_to_have_two_parents():
    with pytest.raises(DataError, match="each of these tables but one has one parent"):
        draft({"a": pd.DataFrame({"x": range(50)}), "b": pd.DataFrame({"y": list("cd") * 25})})
