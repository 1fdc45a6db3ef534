"""Rows below a table that are no records: drafts and checks recognize them, and take no record for one."""

import csv
import gzip
import io
import warnings

import pandas as pd
import pytest

from pgmest.data.beginning import extent_of
from pgmest.data.frames import ReadingWarning
from pgmest.data.table_file import TableFile
from pgmest.schema import Schema, draft

PEOPLE = [[("North", "South", "West")[i % 3], "fm"[i % 2], str(20 + i), f"{100 + 7.5 * i:.2f}"] for i in range(40)]
HEADER = ["region", "sex", "age", "income"]
TOTAL = ["Total", "", "", "9850.00"]
BLANK = ["", "", "", ""]


def text_of(rows, delimiter=","):
    made = io.StringIO()
    csv.writer(made, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return made.getvalue()


def found_below(folder, below, rows=PEOPLE, header=HEADER):
    path = folder / "t.csv"
    path.write_text(text_of([header, *rows, *below]), encoding="utf-8")
    return extent_of(TableFile(path)).file.skip_rows


@pytest.mark.parametrize(
    ("below", "texts"),
    [
        ([TOTAL], ("Total",)),
        ([["", "", "Insgesamt", "9.850,00 €"]], ("Insgesamt",)),
        ([["Sum", "", "1,580", "9850"], ["Mean", "", "39.5", "-"]], ("Sum", "Mean")),
        ([["Total (n = 40)", "", "", "9850"]], ("Total (n = 40)",)),
        ([BLANK, TOTAL, BLANK, ["Source: office", "", "", ""]], ("", "Total", "Source:*")),
        ([TOTAL, ["* early", "", "", ""], ["(1) of residents", "", "", ""]], ("Total", "* early", "(1) of residents")),
        ([["Fuente: INE"], ["made by a tool on a rainy day in May"]], ("Fuente:*", "made by a tool on a rainy day*")),
        ([BLANK, BLANK], ("",)),
    ],
)  # fmt: skip
def test_totals_and_notes_at_the_end_are_recognized(tmp_path, below, texts):
    assert found_below(tmp_path, below) == texts
    file = extent_of(TableFile(tmp_path / "t.csv")).file
    assert Schema.parse(draft(file)).encode(file).records == 40


@pytest.mark.parametrize(
    "below",
    [
        [],
        [["North", "", "", ""]],  # a record that lacks nearly all
        [["East", "", "", ""]],
        [["Total", "f", "33", "120.00"]],  # the company
        [["East", "f", "33", ""]],
        [TOTAL, PEOPLE[0]],  # not at the end
        [["1580", "", "", ""]],
    ],
)
def test_records_at_the_end_stay_records(tmp_path, below):
    assert found_below(tmp_path, below) is None


def test_what_other_records_are_called_is_no_total_and_no_note(tmp_path):
    groups = [[(*["men", "women", "Total"],)[i % 3], "", str(i), str(2 * i)] for i in range(30)]
    assert found_below(tmp_path, [], groups) is None
    numbered = [[f"#{i}", "a", str(i), str(2 * i)] for i in range(30)]
    assert found_below(tmp_path, [["#31", "", "", ""]], numbered) is None
    assert found_below(tmp_path, [TOTAL], PEOPLE[:4]) is None  # too few
    assert found_below(tmp_path, [["Total"]], [[row[0]] for row in PEOPLE], ["region"]) is None


@pytest.mark.parametrize("kind", ["long", "long.gz", "utf-16", "xlsx", "titles"])
def test_the_end_of_any_file_is_found(tmp_path, kind):
    rows = [*(PEOPLE * 120 if "long" in kind else PEOPLE), TOTAL, ["Source: office", "", "", ""]]
    path = tmp_path / ("t.xlsx" if kind == "xlsx" else "t.csv.gz" if kind == "long.gz" else "t.csv")
    text, encoding = text_of([HEADER, *rows]), "utf-16" if kind == "utf-16" else "utf-8"
    if kind == "titles":
        text = "Persons of 2024\n\n" + text
    if kind == "xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in [HEADER, *rows[:-1], [], rows[-1]]:
            book.active.append([field or None for field in row])
        book.save(path)
    else:
        path.write_bytes((gzip.compress if kind == "long.gz" else bytes)(text.encode(encoding)))
    found = extent_of(TableFile(path, encoding="utf-16" if kind == "utf-16" else None))
    assert found.file.skip_rows == ("Total", "Source:*")
    assert found.file.skip == (2 if kind == "titles" else None)


def test_a_draft_and_a_check_say_it_and_a_schema_decides(tmp_path):
    found_below(tmp_path, [TOTAL, ["Source: office"]])
    with pytest.warns(
        ReadingWarning, match=r"the last 2 rows are no records, it seems \(first value: 'Total', 'Source: off"
    ):
        text = draft(tmp_path / "t.csv")
    assert 'file: {skip_rows: ["Total", "Source:*"]}' in text
    assert "# READ FROM THE PRIVATE DATA: THE ROWS THAT ARE NO RECORDS (skip_rows)." in text
    schema = Schema.parse(text)
    assert list(schema.labels("region")) == ["North", "South", "West"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schema.check(tmp_path / "t.csv").skipped == {"Total": 1, "Source:*": 1}
    found_below(tmp_path, [TOTAL])
    silent = Schema.parse(text.replace('file: {skip_rows: ["Total", "Source:*"]}', ""))
    with pytest.warns(
        ReadingWarning, match=r"the last row is no record, it seems .* the schema does not say so \(file:\)"
    ):
        silent.check(tmp_path / "t.csv")


def test_a_last_row_that_has_the_sums_is_said_in_any_table():
    costs = [10.5 + i * i / 4 for i in range(40)]
    frame = pd.DataFrame({"town": [*"abcde" * 8, None], "cost": [*costs, sum(costs)], "age": [7] * 41})
    assert "THE LAST ROW, WHICH HAS THE SUM OF ALL OTHERS IN cost." in draft(frame)
    assert "THE LAST ROW" not in draft(frame[:-1])
    assert "THE LAST ROW" not in draft(pd.DataFrame({"x": [1, 0, 0, 1, 0, 0, 0, 2]}))
