"""Table files: other delimiters, encodings, endings and sheets give the same table, in every way to read one."""

import csv
import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.data.chunked_reader import column_names, read_pieces
from pgmest.data.frames import ReadingWarning, read_frame, write_frame
from pgmest.data.table_file import TableFile, file_format, table_file
from pgmest.errors import ArgumentError, DataError, FileFormatError
from pgmest.schema import Schema, draft

HEADER = ["name", "größe", "note"]
ROWS = [["Jürgen; jr", "1,5", "a\tb"], ["Zoë", "", 'say "x"'], ["", "2", "line\nend"], ["7", "007", " "]]
SCHEMA = Schema.from_dict(
    {
        "columns": {
            "name": {"type": "categorical", "values": ["Jürgen; jr", "Zoë"], "other": "other"},
            "größe": {"type": "real", "edges": [0, 1, 2, 9], "decimal": ",", "missing": True},
        }
    }
)


def written(path, delimiter=",", encoding="utf-8", rows=ROWS, header=HEADER):
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "wt", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path


CASES = [
    ("table.csv", ",", "utf-8", {}),
    ("table.csv", ";", "utf-8", {"delimiter": ";"}),
    ("table.csv", "|", "utf-8", {"delimiter": "pipe"}),
    ("table.csv", ";", "cp1252", {"delimiter": "semicolon", "encoding": "cp1252"}),
    ("table.csv", ",", "utf-8-sig", {}),
    ("table.csv", ",", "utf-16", {"encoding": "utf-16"}),
    ("table.csv", "\t", "utf-8", {"delimiter": "\\t"}),
    ("table.tsv", "\t", "utf-8", {}),
    ("TABLE.TSV", "\t", "utf-8", {}),
    ("table.tsv.gz", "\t", "utf-8", {}),
    ("table.tsv", ",", "utf-8", {"delimiter": ","}),
]


@pytest.mark.parametrize(("name", "delimiter", "encoding", "said"), CASES)
def test_every_clothing_holds_the_same_table(tmp_path, name, delimiter, encoding, said):
    plain = written(tmp_path / "plain.csv")
    file = TableFile(written(tmp_path / name, delimiter, encoding), **said)
    assert column_names(file) == HEADER
    for one, other in zip(read_pieces(file), read_pieces(plain), strict=True):
        assert {n: v.array.tolist() for n, v in one.items()} == {n: v.array.tolist() for n, v in other.items()}
    assert SCHEMA.encode(file) == SCHEMA.encode(plain)
    assert SCHEMA.check(file).to_json() == SCHEMA.check(plain).to_json()
    kept = Schema.from_dict({**SCHEMA.description, "file": file.said})
    assert kept.encode(str(file.path)) == SCHEMA.encode(plain)


def test_a_draft_says_how_its_file_is_read(tmp_path):
    path = written(tmp_path / "t.csv", ";", "cp1252", [["a", "1", "x"]] * 30, ["k", "größe", "n"])
    text = draft(TableFile(path, ";", "cp1252"))
    assert 'file: {delimiter: ";", encoding: "cp1252"}' in text
    assert '"größe"' in text
    assert Schema.parse(text).encode(path).records == 30


@given(
    rows=st.lists(st.lists(st.text(max_size=6), min_size=2, max_size=2), max_size=6),
    delimiter=st.sampled_from([",", ";", "\t", "|", ":"]),
)
def test_what_is_quoted_is_read_as_it_stands(tmp_path_factory, rows, delimiter):
    rows = [[field.replace("\r", "").replace("\0", "").replace("\n", "").lstrip(" ") for field in row] for row in rows]
    rows = [["x", *row] for row in rows]
    folder = tmp_path_factory.mktemp("tables")
    path = folder / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([["a", "b", "c"], *rows])
    pieces = list(read_pieces(TableFile(path, delimiter)))
    found = [list(row) for piece in pieces for row in zip(*(piece[name].array for name in "abc"), strict=True)]
    assert found == rows


@pytest.mark.parametrize("ending", [".tsv", ".tsv.gz", ".csv", ".csv.gz"])
def test_tables_of_codes(tmp_path, ending):
    domain = {"a": 3, "b b": 2}
    data = pg.Dataset.from_codes(np.array([[0, 1], [2, 0]]), domain)
    data.save(tmp_path / f"codes{ending}")
    assert pg.Dataset.load(tmp_path / f"codes{ending}", domain) == data
    path = written(tmp_path / "codes2.csv", ";", rows=[[0, 1], [2, 0]], header=["a", "b b"])
    assert pg.Dataset.load(path, domain, delimiter=";") == data
    assert pg.Dataset.load(TableFile(path, ";"), domain) == data
    with pytest.raises(FileFormatError, match="--delimiter ';'"):
        pg.Dataset.load(path, domain)


def test_streamed_records_are_separated_as_the_ending_says(tmp_path):
    model = pg.estimate([pg.LinearMeasurement([[4.0, 3], [1, 5]], ("a", "b"), 1.0)], {"a": 2, "b": 2})
    from pgmest.sampling import write_samples

    write_samples(model, 50, tmp_path / "records.tsv", seed=0)
    assert (tmp_path / "records.tsv").read_text().startswith("a\tb\n")
    assert pg.Dataset.load(tmp_path / "records.tsv", model.domain).records == 50


def test_fields_with_tabs_come_back(tmp_path):
    frame = pd.DataFrame({"a": ["x\ty", 'q"', "line\nend", "plain"], "b": [1, 2, 3, 4]})
    write_frame(frame, tmp_path / "t.tsv")
    assert read_frame(tmp_path / "t.tsv").to_native().equals(frame)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": "ab"}, "delimiter"),
        ({"delimiter": ""}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"delimiter": "\n"}, "delimiter"),
        ({"delimiter": "5"}, "delimiter"),
        ({"delimiter": "，"}, "delimiter"),
        ({"delimiter": 7}, "delimiter"),
        ({"encoding": "klingon"}, "encoding"),
        ({"encoding": "hex"}, "encoding"),
        ({"encoding": 7}, "encoding"),
        ({"sheet": "one"}, "no workbook"),
        ({"sheet": 0}, "sheet"),
    ],
)
def test_options_that_cannot_be(options, words):
    with pytest.raises(ArgumentError, match=words):
        TableFile("table.csv", **options)


def test_options_of_files_that_have_none():
    with pytest.raises(ArgumentError, match=r"no text, so it has no delimiter and no encoding"):
        TableFile("table.parquet", ";", "utf-8")
    assert (
        table_file("table.parquet", delimiter=";", encoding="utf-8", header=2).said == {}
    )  # a schema's, for another file, are not meant for it
    assert table_file(TableFile("table.csv", "|"), delimiter=";").delimiter == "|"
    with pytest.raises(FileFormatError, match="read, not written"):
        file_format("out.xlsx")
    with pytest.raises(FileFormatError, match=r"Save the workbook as \.xlsx"):
        file_format("old.xls")


def test_a_wrong_column_names_the_nearest(tmp_path):
    path = written(tmp_path / "table.csv", ";")
    with pytest.raises(DataError, match=r"'grosse' \(did you mean 'größe'\?\).*name, größe, note"):
        list(read_pieces(TableFile(path, ";"), ["grosse"]))


def test_bytes_of_another_encoding_are_said_in_a_draft(tmp_path):
    rows = [["Jiří", "1", "x"], ["Zoë", "2", "y"]] * 60
    path = written(tmp_path / "table.csv", ",", "cp1250", rows, ["k", "n", "m"])
    with pytest.warns(ReadingWarning, match=r"it is not UTF-8, and may be in one of several encodings: say which"):
        assert "120 VALUES ARE NOT UTF-8" in draft(path)
    path = written(tmp_path / "head.csv", ",", "cp1250", rows)
    with pytest.raises(FileFormatError, match=r"not UTF-8 text.*--encoding"):
        draft(path)


class TestWorkbooks:
    @pytest.fixture
    def book(self, tmp_path):
        openpyxl = pytest.importorskip("openpyxl")

        def make(rows, title="人", name="book.xlsx"):
            made = openpyxl.Workbook()
            made.active.title = "notes"
            sheet = made.create_sheet(title)
            for row in rows:
                sheet.append(row)
            made.save(tmp_path / name)
            return tmp_path / name

        return make

    def test_cells_have_their_types(self, book):
        import datetime

        path = book([[], HEADER, ["Zoë", 1.5, datetime.datetime(2020, 1, 2)], ["7", None, True], [None] * 3])
        for sheet in ("人", 2, "2"):
            (piece,) = list(read_pieces(TableFile(path, sheet=sheet)))
            assert piece["name"].array.tolist() == ["Zoë", "7"]
            assert piece["größe"].gaps.tolist() == [False, True]
        assert SCHEMA.encode(TableFile(path, sheet=2)).codes.tolist() == [[1, 1], [2, 3]]

    def test_pieces_and_a_single_column(self, book):
        path = TableFile(book([["a"], [1], [None], [2], [None]]), sheet=2)
        pieces = [piece["a"] for piece in read_pieces(path, rows=2)]
        assert [len(piece) for piece in pieces] == [2, 1]
        assert [gap for piece in pieces for gap in piece.gaps] == [False, True, False]

    def test_codes(self, book):
        path = book([["a", "b"], [0, 1], [1, 0]])
        assert pg.Dataset.load(path, {"b": 2, "a": 2}, sheet="人").codes.tolist() == [[1, 0], [0, 1]]

    def test_what_is_no_workbook_or_sheet(self, book, tmp_path):
        path = book([["a"], [1]])
        with pytest.raises(FileFormatError, match=r"no sheet 'x'.*notes, 人"):
            column_names(TableFile(path, sheet="x"))
        with pytest.raises(FileFormatError, match="its sheet is empty"):
            column_names(path)
        (tmp_path / "no.xlsx").write_text("no")
        with pytest.raises(FileFormatError, match="not a whole Excel workbook"):
            column_names(tmp_path / "no.xlsx")
        with pytest.raises(FileFormatError, match="cannot be read"):
            column_names(tmp_path / "absent.xlsx")
        path.write_bytes(path.read_bytes()[:-400])
        with pytest.raises(FileFormatError):
            list(read_pieces(TableFile(path, sheet=2)))
        with pytest.raises(FileFormatError, match="several columns are named a"):
            column_names(TableFile(book([["a", "a"], [1, 2]], name="twice.xlsx"), sheet=2))


@pytest.mark.filterwarnings("error")
def test_no_cell_of_a_workbook_causes_a_warning(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["x", "y"], ["a", 1], [1e10, 2]):
        book.active.append(row)
    book.active.cell(3, 1).number_format = "yyyy-mm-dd"
    book.save(tmp_path / "late.xlsx")
    (piece,) = read_pieces(tmp_path / "late.xlsx", ["y"])
    assert piece["y"].array.tolist() == [1, 2]


# -- files that state their delimiter ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "encoding", "end"),
    [("sep=;", "utf-8-sig", "\r\n"), ('"sep=;"', "utf-8", "\n"), ("SEP=;;;", "utf-16", "\n")],
)
def test_a_first_line_that_states_the_delimiter_is_read(tmp_path, stated, encoding, end):
    """Excel takes the delimiter from such a line, and other programs write it for Excel."""
    lines = [stated, "name;größe;note", *(f"Zoë;{i % 9},5;x,y" for i in range(30))]
    (tmp_path / "t.csv").write_bytes((end.join(lines) + end).encode(encoding))
    file = TableFile(tmp_path / "t.csv", encoding="utf-16" if encoding == "utf-16" else None)
    assert column_names(file) == HEADER
    assert list(read_frame(file).columns) == HEADER
    assert SCHEMA.encode(file).records == 30
    schema = Schema.parse(draft(file))
    assert schema.file["delimiter"] == ";"
    assert "skip" not in schema.file
    assert schema.encode(file).records == 30
    assert not schema.check(file).remarks()


def test_a_stated_delimiter_gives_way_to_a_given_one(tmp_path):
    (tmp_path / "t.csv").write_text("sep=,\na;b\n1;2\n")
    assert column_names(TableFile(tmp_path / "t.csv", ";")) == ["a", "b"]
    (tmp_path / "u.csv").write_text("sep=x\n1\n")
    assert column_names(tmp_path / "u.csv") == ["sep=x"]


# -- rows that are no records -----------------------------------------------------------------------------------------

TOTALS = [["Zoë", "1,5", "x"], ["", "2", ""], ["Total", "9", ""], ["", "", ""], ["Jürgen; jr", "2", "Total"]]
TOTALS += [["* preliminary", "", ""], ["Source: office", "", ""], ["Totals", "2", ""]]
SKIPPED = ["Total", "Source:*", "* preliminary", ""]
KEPT = ["Zoë", "", "Jürgen; jr", "Totals"]


def written_totals(folder, kind):
    if kind == "xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in [HEADER, *([field or None for field in row] for row in TOTALS)]:
            book.active.append(row)
        book.save(folder / "t.xlsx")
        return TableFile(folder / "t.xlsx", skip_rows=SKIPPED)
    path = written(folder / "t.csv", ";", rows=TOTALS)
    if kind == "short":  # as a person writes notes below a table
        path.write_text(path.read_text(encoding="utf-8") + "Source: web\nTotal;7\n", encoding="utf-8")
    return TableFile(path, ";", skip_rows=SKIPPED)


@pytest.mark.parametrize("kind", ["csv", "short", "xlsx"])
def test_rows_whose_first_value_says_so_are_no_records(tmp_path, kind):
    file = written_totals(tmp_path, kind)
    (piece,) = read_pieces(file)
    assert [value or "" for value in piece["name"].array] == KEPT
    assert [value or "" for value in read_frame(file)["name"].fill_null("").to_list()] == KEPT
    schema = Schema.from_dict(
        {"columns": SCHEMA.description["columns"], "file": {"skip_rows": SKIPPED}}
        | ({} if kind == "xlsx" else {"file": {"skip_rows": SKIPPED, "delimiter": ";"}})
    )
    assert schema.encode(file.path).records == 4
    checked = schema.check(file.path)
    counted = {"Total": 1, "": 1, "* preliminary": 1, "Source:*": 1}
    if kind == "short":
        counted |= {"Total": 2, "Source:*": 2}
    if kind == "xlsx":  # whose empty rows are no rows
        del counted[""]
    assert checked.to_json()["rows_skipped"] == counted
    assert "left out, as no records" in str(checked)


def test_no_row_decides_whether_another_one_is_a_record(tmp_path):
    def records(rows):
        path = written(tmp_path / "t.csv", rows=rows)
        return [record for piece in read_pieces(TableFile(path, skip_rows=SKIPPED)) for record in _rows(piece)]

    whole = records(TOTALS)
    for place, row in enumerate(TOTALS):
        rest = TOTALS[:place] + TOTALS[place + 1 :]
        assert records(rest) == [record for record in whole if record != tuple(row)]


def _rows(piece):
    return zip(*(values.array.tolist() for values in piece.values()), strict=True)


@pytest.mark.parametrize("texts", ["Total", [], ["*"], [7], 7])
def test_other_texts_are_refused(texts):
    with pytest.raises(ArgumentError, match="skip_rows"):
        TableFile("table.csv", skip_rows=texts)


def test_a_short_line_is_told_the_remedy(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\nSource: office\n")
    with pytest.raises(FileFormatError, match=r"--skip-rows 'Source:\*'"):
        list(read_pieces(tmp_path / "t.csv"))
    with pytest.raises(ArgumentError, match="leave skip_rows out"):
        TableFile("table.parquet", skip_rows=["Total"])


# -- one record decides nothing about how the others are read --------------------------------------------------------

ODD_FIELDS = [
    b"",
    b"sep=;",
    b"a",
    b"column 1",
    b"Total",
    b"<html>",
    b"PK\x03\x04",
    b"%PDF",
    b"{\\rtf",
    b'"' + b"a\x00" * 300 + b"\n\x00" + b'"',
    b'"' + b"\x00a" * 300 + b"\x00\n" + b'"',
    b"\x00" * 500,
    b"\xff\xff\xff",
    b"\xfc\xe4\xf6" * 40,
    b'"' + b"1\n" * 400 + b'"',
    b'"' + b";;;|||\t\t" * 50 + b'"',
    b"9" * 200_000,
    b'"quoted ""text"" , here"',
    "\ufeffx".encode(),
]


@pytest.mark.parametrize("place", [0, 7, 12])
@pytest.mark.parametrize("field", ODD_FIELDS, ids=repr)
@pytest.mark.parametrize("header", [True, False])
def test_no_record_decides_how_others_are_read(tmp_path, header, field, place):
    columns = {"a" if header else "column 1": {"type": "categorical", "values": ["x", "y"], "other": "?"}}
    columns["b" if header else "column 2"] = {"type": "integer", "min": 0, "max": 9, "missing": True}
    schema = Schema.from_dict({"columns": columns, "file": {} if header else {"header": False}})
    rows = [f"{'xy'[number % 2]},{number % 9}".encode() for number in range(12)]
    path = tmp_path / "t.csv"

    def codes(records):
        path.write_bytes(b"\n".join([*([b"a,b"] if header else []), *records, b""]))
        return schema.encode(path).codes.tolist()

    before = codes(rows)
    after = codes([*rows[:place], field + b",3", *rows[place:]])
    assert after[:place] + after[place + 1 :] == before
    assert after[place][1] == 3


def test_a_table_of_one_column_has_no_record_that_states_a_delimiter(tmp_path):
    described = {"type": "categorical", "values": ["x", "x;y"], "other": "?"}
    schema = Schema.from_dict({"columns": {"column 1": described}, "file": {"header": False}})
    for first in ("sep=;", "x"):
        (tmp_path / "t.csv").write_text(f"{first}\nx\nx;y\n")
        assert schema.encode(tmp_path / "t.csv").codes[1:, 0].tolist() == [0, 1]


def test_a_draft_says_that_the_line_with_the_delimiter_is_no_record(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("sep=;\n" + "".join(f"{number};{number % 7};2020-01-0{1 + number % 9}\n" for number in range(40)))
    schema = Schema.parse(draft(path))
    assert schema.file["header"] is False or schema.file["header"] == 0
    assert schema.encode(path).records == 40
