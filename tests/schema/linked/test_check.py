"""The check of linked tables, for their owner."""

import json

import pandas as pd
import pytest

from pgmest.data.frames import ReadingWarning
from pgmest.errors import DataError
from pgmest.schema import LinkedSchema

from .conftest import SURVEY


def test_tables_that_fit_have_no_remarks(survey, frames):
    check = survey.check(frames)
    assert check.remarks_on_links() == []
    assert "All rows join, and no rule is broken." in str(check)
    assert "persons of a row of households: 1: 33.3 %, 2: 33.3 %, 3: 33.3 %" in str(check)
    assert all(found.left_out == () for found in check.checks.values())
    assert str(check).count("do not publish") == 1


def test_everything_that_does_not_fit_is_counted(survey, frames):
    households = pd.concat(
        [frames["households"], pd.DataFrame({"hid": [13, 14, None], "region": "N", "size": [3, 5, 0]})]
    )
    lodgers = pd.DataFrame({"hid": [12] * 6 + [99, None], "role": "lodger", "region": "elsewhere", "age": 30})
    young = pd.DataFrame({"hid": [14, 14], "role": ["head", "child"], "region": "elsewhere", "age": [20, 15]})
    check = survey.check({"households": households, "persons": pd.concat([frames["persons"], lodgers, young])})
    join = check.joins["persons"]
    assert (join.keyless, join.orphans, join.sizes) == (1, 1, (0, 0, 2, 0, 0, 0, 0, 1))
    assert (join.crowded, join.beyond) == (1, 3)
    assert (check.joins["households"].keyless, check.joins["households"].doubled) == (1, 2)
    assert [rule.broken for rule in check.rules] == [0, 1, 1, 2]  # too many lodgers, a head too young, two wrong sizes
    told = str(check)
    for text in (
        "1 row (6.25 %) without a key: left out",
        "1 row (6.25 %) whose 'households' is not there: left out",
        "2 rows (33.3 %) whose key another row has",
        "1 of 3 rows of households have more than at_most: 4 (up to 7): 3 rows (18.8 %) left out",
        "at_most: {role: [spouse, lodger], count: 2}: 1 of 3 rows (33.3 %) break it",
        "size is the number of persons: 2 of 3 rows (66.7 %) break it",
    ):
        assert text in told
    assert any(name.startswith("persons: older") for name in check.alarming)
    held = json.loads(json.dumps(check.to_json()))
    assert held["joins"]["persons"]["parents_with_more"] == 1
    assert held["within"][0] == {"table": "persons", "rule": "exactly: {role: head, count: 1}", "rows": 3, "broken": 0}


def test_counts_of_a_middle_table_belong_to_its_rows():
    schema = LinkedSchema.parse(
        """
tables:
  patients: {key: pid}
  visits: {parent: patients, key: pid, at_most: 3, columns: {codes: {type: count, of: codes}}}
  codes: {parent: visits, key: [pid, vid], at_most: 3, columns: {acute: {type: boolean}}}
"""
    )
    visits = pd.DataFrame({"pid": ["b", "a", "b"], "vid": [1, 2, 3], "codes": [2, 1, 0]})
    codes = pd.DataFrame({"pid": ["a", "b", "b"], "vid": [2, 1, 1], "acute": [True, False, True]})
    check = schema.check({"patients": pd.DataFrame({"pid": ["a", "b"]}), "visits": visits, "codes": codes})
    assert [rule.broken for rule in check.rules] == [0]


def test_numbers_of_rows_are_checked_in_any_order(frames):
    schema = LinkedSchema.parse(SURVEY.replace("      role: {", "      number: {type: sequence}\n      role: {"))
    for numbers, wrong in (([2, 1, 1, 3, 1, 2], 0), ([1, 2, 1, 0, 1, 2], 3), ([1, 1, 1, 1, 2, None], 5)):
        check = schema.check({**frames, "persons": frames["persons"].assign(number=numbers)})
        assert check.rules[-1].text == "number numbers the rows of one row of households"
        assert check.rules[-1].broken == wrong
    assert len(schema.check(frames).rules) == 4  # which tables need not have


def test_errors_name_the_table(survey, frames):
    with pytest.raises(DataError, match="table 'persons': the table has no rows"):
        survey.check({**frames, "persons": frames["persons"].iloc[:0]})
    with pytest.raises(DataError, match="table 'households': "):
        LinkedSchema.parse(
            SURVEY.replace("region: {type: categorical, values: [N", "area: {type: categorical, values: [N")
        ).check(frames)


def test_rows_that_are_no_records_are_counted_for_every_table(survey, frames, tmp_path):
    text = SURVEY.replace("  households:\n", "  households:\n    file: {skip_rows: [Sum]}\n")
    text = text.replace("  persons:\n", "  persons:\n    file: {skip_rows: ['Note:*']}\n")
    changed, files = LinkedSchema.parse(text), {name: tmp_path / f"{name}.csv" for name in frames}
    last = {"households": "Sum" + "," * (frames["households"].shape[1] - 1), "persons": "Note: early" + ",x" * 9}
    for name, path in files.items():
        path.write_text(frames[name].to_csv(index=False) + last[name] + "\n")
    check = changed.check(files)
    assert {name: join.skipped for name, join in check.joins.items()} == {
        "households": {"Sum": 1},
        "persons": {"Note:*": 1},
    }
    assert check.checks["persons"].verdict == survey.check(frames).checks["persons"].verdict
    assert "households: 3 rows; 1 row (1 of Sum) left out, as no records" in str(check)
    assert check.to_json()["joins"]["persons"]["rows_skipped"] == {"Note:*": 1}
    files["persons"].write_text(frames["persons"].to_csv(index=False) + "Total,,,\n")
    with pytest.warns(ReadingWarning, match=r"persons\.csv: the last row is no record.*the schema does not say so"):
        survey.check({**frames, "persons": files["persons"]})


def test_a_synthetic_table_is_read_where_the_private_one_has_titles(frames, tmp_path):
    text = SURVEY.replace("  households:\n", "  households:\n    file: {skip: 2}\n")
    schema, path = LinkedSchema.parse(text), tmp_path / "households.csv"
    written = frames["households"].to_csv(index=False)
    for titles in ("Households\n\n", ""):
        path.write_text(titles + written)
        check = schema.check({**frames, "households": path})
        assert check.joins["households"].rows == 3
        assert check.checks["households"].kept == 1


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        (range(14, 68), ["14 to 19: 11.1 %", "36 to 40: 9.26 %", "63 to 67: 9.26 %"]),
        ([0, 0, *[40] * 8], ["0: 20 %", "40: 80 %"]),
        ([0, *[1] * 50, *[2] * 40, *[3] * 8, 5000], ["0: 1 %", "1: 50 %", "2: 40 %", "3: 8 %", "5000: 1 %"]),
        ([1, 11], ["1: 50 %, 11: 50 %"]),
    ],
)
def test_large_numbers_of_rows_of_a_parent_are_shown_in_ranges(sizes, shown):
    sizes = list(sizes)
    schema = LinkedSchema.parse(
        "tables:\n  schools: {key: school}\n  pupils: {parent: schools, key: school, at_most: 5000, "
        "columns: {sex: {type: categorical, values: [f, m], outside: clip}}}\n"
    )
    pupils = pd.DataFrame({"school": [place for place, size in enumerate(sizes) for _ in range(size)], "sex": "f"})
    check = schema.check({"schools": pd.DataFrame({"school": range(len(sizes))}), "pupils": pupils})
    line = str(check.joins["pupils"])
    assert all(text in line for text in shown)
    assert "more" not in line
