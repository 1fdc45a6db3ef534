"""Linked tables in a Synthesizer, with a mechanism that draws whole households again."""

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pgmest as pg
from pgmest.data.linked import LinkedDataset
from pgmest.errors import ArgumentError, FileFormatError, SchemaError
from pgmest.evaluation.reports.linked import statement_of
from pgmest.privacy.statement import PrivacyStatement
from pgmest.schema import LinkedSchema

from .linked_stand_in import Redrawn

SURVEY = """
tables:
  households:
    key: hid
    columns:
      region: {type: categorical, values: [N, S], outside: clip}
      persons: {type: count, of: persons}
  persons:
    parent: households
    key: hid
    at_most: 6
    columns:
      role: {type: categorical, values: [head, child, other], outside: clip}
      age: {type: integer, min: 0, max: 99, width: 10}
    within:
      - exactly: {role: head, count: 1}
      - older: {role: head, than: {role: child}, by: 12, column: age}
"""


def survey_of(count):
    """Households with a head, and with 0 to 3 children."""
    rows = [("head", 30 + home % 40) for home in range(count)]
    homes = list(range(count))
    for home in range(count):
        rows += [("child", age) for age in range(5, 5 + home % 4)]
        homes += [home] * (home % 4)
    households = pd.DataFrame(
        {"region": list("NS") * (count // 2), "persons": 0, "hid": [f"H{home}" for home in range(count)]}
    )
    persons = pd.DataFrame(
        {"age": [row[1] for row in rows], "role": [row[0] for row in rows], "hid": [f"H{home}" for home in homes]}
    )
    return {"households": households, "persons": persons}


@pytest.fixture(scope="module")
def fitted():
    return pg.Synthesizer(Redrawn()).fit(survey_of(40), pg.Schema.parse(SURVEY), seed=3)


def test_synthetic_tables_join_and_keep_the_rules(fitted):
    tables = fitted.sample(500, seed=0)
    households, persons = tables["households"], tables["persons"]
    assert list(tables) == ["households", "persons"]
    assert len(households) == 500
    assert households["hid"].is_unique
    assert persons["hid"].isin(households["hid"]).all()
    sizes = persons.groupby("hid").size().reindex(households["hid"], fill_value=0)
    assert sizes.tolist() == households["persons"].tolist()
    heads = persons[persons["role"] == "head"].set_index("hid")["age"]
    assert heads.index.is_unique
    assert set(heads.index) == set(households["hid"])
    children = persons[persons["role"] == "child"]
    assert (heads.reindex(children["hid"]).to_numpy() - children["age"].to_numpy() >= 12).all()
    assert list(households.columns) == ["region", "persons", "hid"]
    assert list(persons.columns) == ["age", "role", "hid"]
    assert persons["hid"].dtype == survey_of(2)["persons"]["hid"].dtype


def test_the_same_seed_gives_the_same_tables(fitted):
    first, second, third = (fitted.sample(20, seed=seed) for seed in (1, 1, 2))
    assert all(first[name].equals(second[name]) for name in first)
    assert not first["persons"].equals(third["persons"])


def test_the_mechanism_gets_codes_and_only_the_options_that_were_given(fitted, tmp_path):
    linked, seed, options = fitted.mechanism.calls[0]
    assert isinstance(linked, LinkedDataset)
    assert (seed, options) == (3, {})
    assert not any(rule.broken(linked).any() for rule in linked.rules)
    assert list(fitted.feature_names_in_) == ["households.region", "persons.role", "persons.age"]
    mechanism = Redrawn()
    pg.Synthesizer(mechanism).fit(linked, SURVEY_SCHEMA, progress=False, time_limit=5.0)
    assert mechanism.calls == [(linked, None, {"progress": False, "time_limit": 5.0})]


SURVEY_SCHEMA = LinkedSchema.parse(SURVEY)


def test_files_and_other_libraries(tmp_path):
    (tmp_path / "survey.yaml").write_text(SURVEY)
    for name, frame in survey_of(10).items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    paths = {name: tmp_path / f"{name}.csv" for name in ("households", "persons")}
    from_files = pg.Synthesizer(Redrawn()).fit(paths, tmp_path / "survey.yaml").sample(seed=0)
    assert list(from_files["households"].columns) == ["region", "persons", "hid"]
    given = {name: pl.from_pandas(frame) for name, frame in survey_of(10).items()}
    tables = pg.Synthesizer(Redrawn()).fit(given, SURVEY_SCHEMA).sample(seed=0)
    assert all(isinstance(table, pl.DataFrame) for table in tables.values())
    assert tables["persons"].schema == given["persons"].schema


def test_names_that_are_no_texts_come_back():
    schema = pg.Schema.parse(SURVEY.replace("age: {", "7: {").replace("column: age", "column: '7'"))
    given = survey_of(4)
    given["persons"] = given["persons"].rename(columns={"age": 7})
    assert list(pg.Synthesizer(Redrawn()).fit(given, schema).sample(seed=0)["persons"].columns) == [7, "role", "hid"]


def test_lamp_makes_tables_that_join_and_states_what_it_protects():
    synthesizer = pg.Synthesizer(epsilon=3.0, backend="simulation").fit(survey_of(200), SURVEY_SCHEMA, seed=0)
    tables = synthesizer.sample(seed=0)
    households, persons = tables["households"], tables["persons"]
    assert 100 < len(households) < 300
    assert persons["hid"].isin(households["hid"]).all()
    assert (persons[persons["role"] == "head"]["hid"].to_numpy() == households["hid"].to_numpy()).all()
    statement = statement_of(synthesizer.result_, SURVEY_SCHEMA)
    assert (statement.epsilon, statement.delta, statement.insecure) == (3.0, 1e-9, True)
    assert not any(rule.broken(SURVEY_SCHEMA.encode(tables)).any() for rule in SURVEY_SCHEMA.rules)
    assert synthesizer.ledger_.insecure
    assert synthesizer.privacy_["protected"] == SURVEY_SCHEMA.protection
    assert synthesizer.kept_ is None
    asked = synthesizer.interval(["persons.role"], given={"another of persons.role": "head"})
    assert asked["persons.role"].tolist()[0] == "head"
    assert (asked["low"] <= asked["high"]).all()
    with pytest.raises(ArgumentError, match="'bakend' is not a parameter of LinkedLAMP"):
        pg.Synthesizer(epsilon=1.0, bakend="simulation").fit(survey_of(4), SURVEY_SCHEMA)


def test_a_file_gives_the_same_answers_and_tables(tmp_path):
    given = survey_of(100)
    given["persons"] = given["persons"].rename(columns={"age": 7})
    given["persons"][4711] = 1
    text = SURVEY.replace("age: {", "7: {").replace("column: age", "column: '7'")
    fitted = pg.Synthesizer(epsilon=3.0, backend="simulation").fit(given, LinkedSchema.parse(text), seed=0)
    fitted.save(tmp_path / "survey.npz")
    assert b"4711" not in (tmp_path / "survey.npz").read_bytes()  # a column that the schema does not have
    loaded = pg.Synthesizer.load(tmp_path / "survey.npz")
    children = pg.HowMany("persons", {"role": "child"}, most=2)
    questions: list[tuple[Any, dict[str, Any]]] = [
        (["role", "region"], {}),
        ((), {"table": "persons"}),
        (["region", "number of persons"], {"given": {"region": "N"}}),
        (["persons.role", "another of persons.role"], {}),
        ([children, "region"], {"measure": "share"}),
        (lambda tables: tables["households"]["persons"] > 1, {"given": {children: (1, None)}}),
    ]
    for attributes, options in questions:
        one, other = (some.interval(attributes, **options) for some in (fitted, loaded))
        assert one.equals(other), attributes
    for name, table in fitted.sample(30, seed=1).items():
        assert table.equals(loaded.sample(30, seed=1)[name])
    assert loaded.privacy_ == fitted.privacy_
    assert not any(rule.broken(loaded.model_).any() for rule in LinkedSchema.parse(text).rules)
    with pytest.raises(ArgumentError, match="loaded from a file, which has no result and no ledger"):
        loaded.report(tmp_path / "page.html")


def test_files_without_a_schema_or_with_another_one_are_refused(tmp_path):
    fitted = pg.Synthesizer(epsilon=3.0, backend="simulation").fit(survey_of(20), SURVEY_SCHEMA, seed=0)
    made: Any = fitted.result_
    described = dict(SURVEY_SCHEMA.description)
    other = SURVEY.replace("[head, child, other]", "[head, child]")
    for about, match in (
        ({}, "linked tables without a schema"),
        ({"schema": 3}, "does not fit its tables"),
        ({"schema": {"columns": {"a": {"type": "boolean"}}}}, "it describes a single table"),
        ({"schema": dict(LinkedSchema.parse(other).description)}, "but the schema describes"),
        ({"schema": described, "names": []}, "wrong names of columns"),
        ({"schema": described, "names": {"persons": {"7": "x"}}}, "wrong names of columns"),
    ):
        made.about.clear()
        made.describe(**about)
        made.save(tmp_path / "x.npz")
        with pytest.raises(FileFormatError, match=match):
            pg.Synthesizer.load(tmp_path / "x.npz")
    with pytest.raises(ArgumentError, match="RedrawnResult has no intervals and no file"):
        pg.Synthesizer(Redrawn()).fit(survey_of(4), SURVEY_SCHEMA).save(tmp_path / "y.npz")


def test_constraints_of_a_table_hold_in_synthetic_tables():
    given = survey_of(40)
    given["persons"].loc[given["persons"]["role"] == "child", "role"] = ["child", "other"] * 30
    text = SURVEY.replace("    within:", "    constraints: [{impossible: {role: other, age: {max: 9}}}]\n    within:")
    others = given["persons"]["role"].to_numpy() == "other"
    assert (others & (given["persons"]["age"].to_numpy() < 10)).any()
    for epsilon in (0.1, 10.0):
        synthesizer = pg.Synthesizer(epsilon=epsilon, backend="simulation")
        synthesizer.fit(given, LinkedSchema.parse(text), seed=0, progress=False)
        for n in (None, 200):
            persons = synthesizer.sample(n, seed=0)["persons"]
            assert not ((persons["role"] == "other") & (persons["age"] < 10)).any()


def test_persons_are_the_unit_where_the_schema_says_so():
    schema = LinkedSchema.parse(SURVEY + "unit: persons")
    synthesizer = pg.Synthesizer(epsilon=1.0, backend="simulation").fit(survey_of(4), schema, seed=0)
    assert synthesizer.privacy_["protected"].startswith("one row of 'persons', added, removed or changed")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"workload": [("age", "role")]}, "workload= is for a single table"),
        ({"buy_share": 0.2}, "buy_share= is for a single table"),
    ],
)
def test_what_is_for_single_tables_is_refused(options, match):
    with pytest.raises(ArgumentError, match=match):
        pg.Synthesizer(Redrawn()).fit(survey_of(4), SURVEY_SCHEMA, **options)


def test_nothing_runs_before_all_is_checked():
    mechanism = Redrawn()
    with pytest.raises(ArgumentError, match="lamp, the mechanism for linked tables"):
        pg.Synthesizer("mst", epsilon=1.0).fit(survey_of(4), SURVEY_SCHEMA)
    with pytest.raises(SchemaError, match="drafted_from_private_data"):
        pg.Synthesizer(mechanism).fit(
            survey_of(4),
            {**SURVEY_SCHEMA.description, "drafted_from_private_data": True},
        )
    wrong = {**survey_of(4), "persons": survey_of(4)["persons"].assign(role=3.5)}
    with pytest.raises(SchemaError, match="role"):
        pg.Synthesizer(mechanism).fit(wrong, SURVEY_SCHEMA)
    assert mechanism.calls == []


@pytest.mark.parametrize(("encoded", "fitted"), [("", "unit: persons"), ("unit: persons", "unit: households")])
def test_data_of_another_unit_or_limit_are_refused_whatever_the_records(encoded, fitted):
    mechanism, other = Redrawn(), LinkedSchema.parse(SURVEY + fitted)
    linked = LinkedSchema.parse(SURVEY + encoded).encode(survey_of(4))
    lower = LinkedSchema.parse(SURVEY.replace("at_most: 6", "at_most: 5") + encoded)
    for rows in ([0, 1, 2, 3], []):
        with pytest.raises(SchemaError, match=rf"the data protect rows of '{linked.unit}', but .*'{other.protected}'"):
            pg.Synthesizer(mechanism).fit(linked.take(rows), other)
        with pytest.raises(
            SchemaError, match="may have 6 rows of 'persons' in the data, but the schema says at_most: 5"
        ):
            pg.Synthesizer(mechanism).fit(linked.take(rows), lower)
    assert mechanism.calls == []


def test_a_flat_table_afterwards_is_flat_again():
    synthesizer = pg.Synthesizer("independent", epsilon=1.0, backend="simulation")
    linked = pg.Synthesizer(Redrawn()).fit(survey_of(4), SURVEY_SCHEMA)
    linked.mechanism, linked.epsilon, linked._parameters = "independent", 1.0, {"backend": "simulation"}
    schema = {"columns": {"region": {"type": "categorical", "values": ["N", "S"], "outside": "clip"}}}
    for one in (synthesizer, linked):
        table = one.fit(survey_of(40)["households"], schema, seed=0).sample(5, seed=0)
        assert list(table.columns) == ["region"]


def test_the_unit_is_said_in_words():
    assert SURVEY_SCHEMA.protection == (
        "one row of 'households' and all that hangs on it (at most 6 rows of 'persons' for each row of 'households')"
    )
    persons = LinkedSchema.parse(SURVEY + "unit: persons").protection
    assert persons == (
        "one row of 'persons', added, removed or changed, but not moved to another row of 'households', with what that "
        "changes in the row of 'households' to which it belongs"
    )
    statement = PrivacyStatement("LAMP", 1.0, 1e-9, None, 1, False, False, protected=SURVEY_SCHEMA.protection)
    assert "one row of 'households' and all that hangs on it" in str(statement)
    assert "that such a unit is in the tables by a factor of at most 2.72" in str(statement)


@pytest.mark.usefixtures("blank_pictures")
def test_reports(fitted, tmp_path):
    page = fitted.report(tmp_path / "report.html").read_text()
    for text in ("exactly: {role: head, count: 1}", "What the release says about persons", "number of persons"):
        assert text in page
    assert "do not publish" not in page
    private = fitted.owner_report(survey_of(40), tmp_path / "PRIVATE.html").read_text()
    for text in (
        "do not publish",
        "how many",
        "How the schema fits the raw tables",
        "persons: one attribute at a time",
    ):
        assert text in private
    assert fitted.owner_report(fitted.mechanism.calls[0][0], tmp_path / "PRIVATE-2.html").exists()


def test_intervals_have_labels_and_count_rows_of_one_table():
    synthesizer = pg.Synthesizer(epsilon=10.0, backend="simulation").fit(survey_of(200), SURVEY_SCHEMA, seed=0)
    roles = synthesizer.interval("role")
    assert list(roles.columns) == ["role", "count", "low", "high"]
    assert roles["role"].tolist() == ["head", "child", "other"]
    assert (roles["low"] <= roles["count"]).all()
    assert roles["low"][0] < 200 < roles["high"][0]
    sizes = synthesizer.interval(["region", "persons"])  # the computed column counts rows
    assert sizes["persons"].tolist() == [str(size) for size in range(7)] * 2
    assert sizes["count"].sum() == pytest.approx(200, abs=20)
    small = synthesizer.interval("persons.age", given={"region": "N", "persons": (None, 2)})
    large = synthesizer.interval("persons.age", given={"region": "N", "persons": {3, 4, 5, 6}})
    both = synthesizer.interval("persons.age", given={"region": "N"})
    assert (small["count"] + large["count"]).tolist() == pytest.approx(both["count"].tolist())
    assert synthesizer.interval((), table="persons")["count"][0] == pytest.approx(roles["count"].sum())
    with pytest.raises(ArgumentError, match="table"):
        synthesizer.interval("role", table="visits")


@pytest.mark.usefixtures("blank_pictures")
def test_a_report_says_how_far_off_counts_of_both_tables_may_be(tmp_path):
    synthesizer = pg.Synthesizer(epsilon=10.0, backend="simulation").fit(survey_of(200), SURVEY_SCHEMA, seed=0)
    text = synthesizer.report(tmp_path / "report.html").read_text()
    assert "How far off a count of households may be" in text
    assert "How far off a count of persons may be" in text
    rows = dict(re.findall(r"<tr><td>(persons(?:: | with )[^<]*)</td>(.*?)</tr>", text))
    assert [*rows][:2] == ["persons: 0", "persons: 1"]
    assert "persons with role = child: at least 1" in rows
    assert all(line.endswith("<td>measured</td>") for line in rows.values())
    children = pg.HowMany("persons", {"role": "child"}, most=1)
    low, high = synthesizer.interval(children, measure="share").to_numpy()[1, -2:]
    assert f"{100 * low:.1f} % and {100 * high:.1f} %" in rows["persons with role = child: at least 1"]
    assert "of the released households, " in text
    assert "Not listed: 1 attribute of many values" in text


@pytest.mark.usefixtures("blank_pictures")
def test_a_report_marks_what_was_not_measured_of_whole_patients(tmp_path):
    generator = np.random.default_rng(0)
    visits = pd.DataFrame({"patient": np.repeat(np.arange(60), 2), "visit": np.tile([1, 2], 60)})
    visits["ward"] = generator.choice(["A", "B"], 120)
    diagnoses = visits.drop(columns="ward").assign(
        acute=generator.random(120) < 0.5, code=generator.integers(9, size=120)
    )
    schema = LinkedSchema.parse("""
tables:
  patients: {key: patient}
  visits:
    parent: patients
    key: patient
    at_most: 3
    columns: {ward: {type: categorical, values: [A, B], other: other}}
  diagnoses:
    parent: visits
    key: [patient, visit]
    at_most: 9
    columns:
      acute: {type: boolean}
      code: {type: integer, min: 0, max: 9}
""")
    synthesizer = pg.Synthesizer(epsilon=5.0, backend="simulation").fit(
        {"visits": visits, "diagnoses": diagnoses}, schema, seed=0
    )
    text = synthesizer.report(tmp_path / "report.html").read_text()
    rows = dict(re.findall(r"<tr><td>((?:visits|diagnoses)(?:: | with )[^<]*)</td>(.*?)</tr>", text))
    assert "<td>measured" in rows["visits: 2"]
    assert "<td>NOT measured: rests on the model" in rows["diagnoses: 2"]
    assert "<td>NOT measured: only rows of diagnoses were" in rows["diagnoses with acute = true: at least 1"]
    assert not any("code" in name for name in rows)
    synthesizer.save(tmp_path / "hospital.npz")
    loaded, acute = pg.Synthesizer.load(tmp_path / "hospital.npz"), pg.HowMany("diagnoses", {"acute": True})
    for question in ("ward", "acute", acute):
        assert loaded.interval(question).equals(synthesizer.interval(question))
    assert [*loaded.sample_tables(2, seed=0)[0]["diagnoses"]][-1] == "weight"


def test_other_mechanisms_have_no_intervals(fitted):
    with pytest.raises(ArgumentError, match="RedrawnResult has no intervals"):
        fitted.interval("role")
