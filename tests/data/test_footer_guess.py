"""Rows below a table that are no records: drafts and checks recognize them, and take no record for one."""

import csv
import gzip
import io
import warnings
from collections import Counter

import pandas as pd
import pytest

from pgmest.data.beginning import extent_of
from pgmest.data.chunked_reader import read_pieces
from pgmest.data.frames import ReadingWarning, read_frame
from pgmest.data.table_file import TableFile
from pgmest.errors import FileFormatError
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
        ([["Source: office, Bonn", " own", " 2024", " table 3", "p. 7", "x"]], ("Source:*",)),  # more fields than names
        ([TOTAL, ["Note: early", "no", "matter"]], ("Total", "Note:*")),
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


def test_totals_and_notes_among_records(tmp_path):
    sums = [["Subtotal", "", "", f"{1000 + i}"] for i in range(4)]
    rows = [row for i in range(4) for row in (*PEOPLE[10 * i : 10 * i + 10], sums[i])]
    assert found_below(tmp_path, [TOTAL], rows) == ("Subtotal", "Total")
    assert "rows within the table are no records, it seems (first value: 'Subtotal'), and the last row" in str(
        extent_of(TableFile(tmp_path / "t.csv")).decided
    )
    note = ["Note: a break in the series, of 2020", " see", " p. 3"]
    assert found_below(tmp_path, [], [*PEOPLE[:20], note, *PEOPLE[20:]]) == ("Note:*",)
    whole = ["Note: a break", "f", "20", "100.00"]  # may be a record
    assert found_below(tmp_path, [], [*PEOPLE[:20], whole, *PEOPLE[20:]]) is None
    assert found_below(tmp_path, [], [*PEOPLE[:20], note, whole, *PEOPLE[20:]]) is None
    empty = [["Subtotal", "", f"{200 + i}", f"{1000 + i}"] for i in range(4)]  # where others are
    assert found_below(tmp_path, [], [[*row[:1], "", row[2], row[3]] for row in PEOPLE] + empty + PEOPLE[:1]) is None


@pytest.mark.parametrize("rows", [7, 1000])
def test_notes_with_more_fields_than_names_are_left_out_and_counted(tmp_path, rows):
    note = ["Note: a break in the series", " of 2020", " see", " p. 3", "x"]
    table = [HEADER, *PEOPLE[:20], note, *PEOPLE[20:], TOTAL, note]
    (tmp_path / "t.csv").write_text(text_of(table), encoding="utf-8")
    file, left_out = TableFile(tmp_path / "t.csv", skip_rows=["Note:*", "Total"]), Counter()
    pieces = list(read_pieces(file, rows=rows, left_out=left_out))
    assert [age for piece in pieces for age in piece["age"].array] == [row[2] for row in PEOPLE]
    assert left_out == {"Note:*": 2, "Total": 1}
    assert read_frame(file)["age"].to_list() == [20 + i for i in range(40)]
    with pytest.raises(FileFormatError, match=r"line 22 has 5 fields where the header has 4.*--skip-rows 'Source:\*'"):
        list(read_pieces(TableFile(tmp_path / "t.csv", skip_rows=["Total"])))
    (tmp_path / "t.csv").write_text(text_of([*table, ["North", "f", "1", "2", "3"]]), encoding="utf-8")
    with pytest.raises(FileFormatError, match="line 45 has 5 fields where the header has 4"):
        list(read_pieces(file))
    with pytest.raises(FileFormatError, match="line 45 has 5 fields where the header has 4"):
        read_frame(file)


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
