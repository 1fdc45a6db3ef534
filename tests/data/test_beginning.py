"""The beginning of a table in a file: titles, no header, a header of several rows, and tables without any."""

import csv
import datetime
import io
import re
import zipfile
from contextlib import suppress

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.data.beginning import beginning_of
from pgmest.data.chunked_reader import column_names, read_pieces
from pgmest.data.frames import read_frame
from pgmest.data.table_file import TableFile
from pgmest.errors import ArgumentError, FileFormatError, PgmestError, SchemaError
from pgmest.schema import Schema, draft

CENSUS = ["39, State-gov, 77516, Bachelors, <=50K", "50, Private, 83311, HS-grad, >50K"] * 30
QUALTRICS = [
    ["StartDate", "Duration (in seconds)", "Q1", "Q2"],
    ["Start Date", "Duration (in seconds)", "How old are you,\nin years?", "What is good?"],
    ['{"ImportId":"startDate","timeZone":"America/Denver"}', '{"ImportId":"duration"}', *['{"ImportId":"Q"}'] * 2],
    *(["2024-03-01 12:34:56", str(i), str(i + 20), "good"] for i in range(30)),
]
PEOPLE = [["age", "sex", "town"], *([str(i), "F" if i % 3 else "M", "Aix"] for i in range(30))]


def text_of(rows, delimiter=","):
    made = io.StringIO()
    csv.writer(made, delimiter=delimiter).writerows(rows)
    return made.getvalue()


def written(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return TableFile(path)


def guessed(folder, text, name="table.csv"):
    return beginning_of(written(folder, text, name)).file.said


def names_and_rows(file):
    pieces = list(read_pieces(file))
    return list(pieces[0]), sum(len(next(iter(piece.values()))) for piece in pieces)


# -- tables that are read as they stand -----------------------------------------------------------------------------

labels = st.text("abcdefgh XYZ", min_size=1, max_size=6).filter(lambda text: text.strip() == text)
names = st.one_of(st.lists(labels, unique=True, min_size=1, max_size=6), st.integers(1, 6).map(lambda n: [*range(n)]))
years = st.integers(1, 5).map(lambda n: ["country", *range(2015, 2015 + n)])
odd_integers = st.lists(st.integers(-50, 50), unique=True, min_size=1, max_size=6)


@st.composite
def columns_of_values(draw, rows):
    kind = draw(st.sampled_from(["integers", "floats", "dates", "labels", "texts", "booleans"]))
    few = draw(st.lists(labels, min_size=1, max_size=4))
    values = {
        "integers": st.integers(-3000, 3000),
        "floats": st.floats(-10, 10),
        "dates": st.dates(datetime.date(2000, 1, 1), datetime.date(2030, 1, 1)),
        "labels": st.sampled_from(few),
        "texts": st.text("abc, \"'XYZ", max_size=12),
        "booleans": st.booleans(),
    }[kind]
    return draw(st.lists(st.one_of(values, values, st.none()), min_size=rows, max_size=rows))


@given(st.data(), st.one_of(names, years, odd_integers), st.booleans())
def test_any_table_with_a_header_written_by_pandas_is_read_with_exactly_its_header(
    tmp_path_factory, data, header, index
):
    rows = data.draw(st.integers(0, 30))
    frame = pd.DataFrame({name: data.draw(columns_of_values(rows)) for name in header}, columns=pd.Index(header))
    assume(not any(str(name) in set(map(str, frame[name])) for name in header if isinstance(name, str)))
    path = tmp_path_factory.getbasetemp() / "headed.csv"
    frame.to_csv(path, index=index)
    found = beginning_of(TableFile(path))
    assert found.file.said == {}
    assert found.decided == ()
    assert column_names(path) == [*(["Unnamed: 0"] if index else []), *map(str, header)]


@given(st.data(), st.lists(labels, unique=True, min_size=1, max_size=5))
def test_a_table_of_texts_is_never_changed_whatever_its_first_row_is(tmp_path_factory, data, header):
    rows = data.draw(
        st.lists(st.lists(st.sampled_from([*header, "a", "b"]), min_size=len(header), max_size=len(header)))
    )
    file = written(tmp_path_factory.getbasetemp(), text_of([header, *rows]))
    assert beginning_of(file).file == file


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "a",
        "a,b\n",
        "a,b\n1,2\n",
        "a,b\n" + "1,2,\n" * 20,  # delimiters at the end of each row
        "a,b\n" + "1,2\n" * 10 + "1,2,3\n",  # a row with too many fields is an error, no title
        ",a\n" + "0,5\n1,6\n" * 9,  # as pandas writes an index
        "age\n" + "5\n" * 20,
        "5\n3\n9\n" * 10,  # one column of whole numbers may have one as its name
        "country,0.1,0.5,0.9\n" + "x,0.2,0.4,0.6\ny,0.05,0.7,1.5\n" * 10,  # quantiles
        "2020-01-01,2020-01-02\n" + "3,4\n" * 10,
        ",n,m\nx,1,2\n" + "y,3,4\n" * 9,  # an index of texts
        ",n,m\nx,1,\n" + "y,3,4\n" * 9,
        "n,m\nrefused,refused\n" + "3,4\n" * 20 + "refused,5\n",
        "n,m\nrefused,refused\n" + "3,4\n" * 20,  # may be a record
        "unknown,income\nrefused,refused\n" + "refused,5\n" * 10,
    ],
)
def test_what_may_be_a_header_is_one(tmp_path, text):
    assert guessed(tmp_path, text) == {}


@given(st.binary(max_size=300), st.sampled_from(["csv", "txt", "csv.gz", "xlsx", "zip", "parquet"]))
def test_of_any_bytes_nothing_is_raised_but_errors_of_ours(tmp_path_factory, raw, ending):
    path = tmp_path_factory.getbasetemp() / f"bytes.{ending}"
    path.write_bytes(raw)
    with suppress(PgmestError):
        assert beginning_of(TableFile(path)).file.path == path


# -- no header ------------------------------------------------------------------------------------------------------


def test_a_first_row_that_is_a_record_is_one(tmp_path):
    path = tmp_path / "census.csv"
    path.write_text("\n".join(CENSUS))
    with pytest.warns(UserWarning, match=r"census\.csv: there is no header row, it seems: the first row reads like"):
        text = draft(path)
    assert "file: {header: false}\n" in text
    assert "# THE TABLE: there is no header row, it seems" in text
    assert "State-gov:" not in text
    assert Schema.parse(text).encode(path).records == 60
    named = TableFile(path, header=["age", "work", "weight", "school", "income"])
    assert names_and_rows(named) == (["age", "work", "weight", "school", "income"], 60)
    with pytest.raises(FileFormatError, match="it has 5 columns, but header lists 2 names"):
        column_names(TableFile(path, header=["a", "b"]))


@pytest.mark.parametrize(
    "rows",
    [
        [
            ["5.1", "3.5", "1.4", "setosa"],
            *([f"{4 + i / 10:.1f}", f"{3 + i % 9 / 10}", "1.2", "setosa"] for i in range(20)),
        ],
        [["1", "2", "1", "5"], *([str(1 + i % 5), str(1 + i % 3), str(1 + i % 2), "5"] for i in range(20))],
        [[f"2024-01-{1 + i % 28:02} 10:00:00", "INFO" if i % 2 else "WARN"] for i in range(40)],
    ],
)
def test_other_tables_without_a_header(tmp_path, rows):
    found = beginning_of(written(tmp_path, text_of(rows))).file
    assert found.said == {"header": 0}
    assert names_and_rows(found) == ([f"column {i}" for i in range(1, len(rows[0]) + 1)], len(rows))


def test_texts_that_look_like_a_record_are_only_a_doubt(tmp_path):
    file = written(tmp_path, text_of([["p", "x", "e"], *([a, b, c] for a in "pq" for b in "xy" for c in "eof")] * 3))
    found = beginning_of(file)
    assert found.file == file
    assert found.doubts == (
        "the first row reads like a record, not like the names of the columns; if so, say header: false (--no-header)",
    )


# -- titles and several rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("above", "skip"),
    [
        ("Report on people,,\nSource: office,,\n\n", 3),
        ("Report on people\n\n", 2),
        ("Report on people,,\n,,\n", 2),
        ("Report, 2020\n", 1),
        ("# made by a tool\n# on a day\n", 2),
        ('"a title\nof two lines"\n', 1),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig", "latin-1"])
def test_titles_are_skipped(tmp_path, above, skip, encoding):
    path = tmp_path / "table.csv"
    path.write_text(above + text_of(PEOPLE), encoding=encoding, newline="")
    file = TableFile(path, encoding=None if encoding.startswith("utf-8") else encoding)
    found = beginning_of(file)
    assert found.file.skip == skip
    assert found.decided == (f"title rows skipped: {skip}; the columns are named by row {skip + 1}",)
    assert names_and_rows(found.file) == (["age", "sex", "town"], 30)
    assert read_frame(found.file).columns == ["age", "sex", "town"]
    with pytest.raises(FileFormatError, match=rf"the names of the columns are in row {skip + 1} of the file\. Say so"):
        list(read_pieces(file, ["age", "sex"]))


@given(st.lists(st.text("abc ", min_size=1).filter(str.strip), min_size=1, max_size=5), st.integers(0, 2))
def test_any_titles_above_any_table_are_skipped(tmp_path_factory, titles, blanks):
    text = "".join(f"{title}\n" for title in titles) + "\n" * blanks + text_of(PEOPLE)
    found = beginning_of(written(tmp_path_factory.getbasetemp(), text)).file
    assert found.skip == len(titles) + blanks
    assert names_and_rows(found) == (["age", "sex", "town"], 30)


def test_a_survey_tool_writes_three_rows_of_header(tmp_path):
    found = beginning_of(written(tmp_path, text_of(QUALTRICS)))
    assert found.file.said == {"header": 3}
    assert names_and_rows(found.file) == (QUALTRICS[0], 30)
    assert found.notes[0].endswith("table.csv: the header has 3 rows, as survey tools write it")


def test_a_row_of_units_and_options_under_the_questions(tmp_path):
    units = [["time", "speed", "name"], ["s", "m/s", "text"], *([str(i), str(i * 2), f"z{i}"] for i in range(30))]
    assert guessed(tmp_path, text_of(units)) == {"header": 2}
    options = [["Id", "Pets", "", ""], ["", "Cat", "Dog", "Fish"], *([str(i), "1", "0", "1"] for i in range(30))]
    found = beginning_of(written(tmp_path, text_of(options))).file
    assert found.said == {"header": 2}
    options[2:] = [[str(i), "Cat", "", "Fish"] for i in range(30)]  # an answer may be the name of its column
    assert guessed(tmp_path, text_of(options)) == {"header": 2}
    assert names_and_rows(found) == (["Id", "Pets Cat", "Pets Dog", "Pets Fish"], 30)


def test_workbooks_have_titles_and_second_rows_too(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    born = [["Register of people"], [], [None, "name", "born", "size"]]
    rows = [[None, f"n{i}", datetime.datetime(2000, 1, 1 + i), i / 2] for i in range(20)]
    for row in [*born, *rows]:
        book.active.append(row)
    book.save(tmp_path / "book.xlsx")
    found = beginning_of(TableFile(tmp_path / "book.xlsx"))
    assert found.file.said == {"skip": 2}
    assert names_and_rows(found.file) == (["name", "born", "size"], 20)
    below = TableFile(tmp_path / "book.xlsx", skip=3, header=False)
    assert names_and_rows(below) == (["column 1", "column 2", "column 3"], 20)
    book.active.insert_rows(4)
    for place, unit in enumerate(["text", "day", "m"], 2):
        book.active.cell(4, place, unit)
    book.save(tmp_path / "book.xlsx")
    assert beginning_of(TableFile(tmp_path / "book.xlsx")).file.said == {"skip": 2, "header": 2}


def test_a_title_above_two_columns(tmp_path):
    rows = [[f"n{i}", str(i)] for i in range(20)]
    assert guessed(tmp_path, text_of([["Ages", ""], ["name", "age"], *rows])) == {"skip": 1}
    assert guessed(tmp_path, text_of([["name", ""], *rows])) == {}  # a header that lacks a name
    assert guessed(tmp_path, text_of([["name", ""], ["n", "unknown"], *[[a, "b"] for a, _ in rows]])) == {}


@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.parametrize("titles", [[], [["Survey 2020"]]])
@pytest.mark.parametrize(
    ("header", "names", "doubts"),
    [
        (["name", None, "size", "place"], ["name", "Unnamed: 1", "size", "place"], "column 2, .*'Unnamed: 1'"),
        (["name", "rank", "size", None], ["name", "rank", "size", "Unnamed: 3"], "column 4, .*'Unnamed: 3'"),
        ([None, "rank", "size", "place"], ["Unnamed: 0", "rank", "size", "place"], None),
        (["name", None, "size", None], ["name", "Unnamed: 1", "size", "Unnamed: 3"], "columns 2, 4, .*'Unnamed: 1'"),
        (["name", "rank", "size", "place"], ["name", "rank", "size", "place"], None),
    ],
)
def test_columns_of_a_sheet_without_a_name_are_named_by_their_place(tmp_path, left, titles, header, names, doubts):
    """As in text files; columns without any value are none."""
    openpyxl = pytest.importorskip("openpyxl")
    titles = titles if header[0] and header.count(None) < 2 else []  # elsewhere a title looks like a name that spans
    book = openpyxl.Workbook()
    records = [[f"n{i}", i, i / 2, "x"] for i in range(20)]
    for row in [*titles, header, *records]:
        book.active.append([*[None] * left, *row])
    book.active.cell(2 + len(titles), left + 9).font = openpyxl.styles.Font(bold=True)  # an empty cell with a format
    book.save(tmp_path / "book.xlsx")
    found = beginning_of(TableFile(tmp_path / "book.xlsx"))
    assert found.file.said == ({"skip": 1} if titles else {})
    if doubts is None or left:
        assert bool(found.doubts) == (doubts is not None)
    else:
        (text,) = found.doubts
        assert re.search(f"the header has no name for {doubts}", text)
    assert names_and_rows(found.file) == (names, 20)
    text = text_of([*titles, ["" if name is None else name for name in header], *records])
    if header[-1] is not None and not titles:
        assert names_and_rows(beginning_of(written(tmp_path, text)).file) == (names, 20)


MERGED = [["region", "men", "", "women", "", "code"], ["", "2019", "2020", "2019", "2020", ""]]
MERGED_RECORDS = [["North" if i % 3 else "South", i, 2 * i, 3 * i, i * i, f"c{i % 4}"] for i in range(40)]
YEARS = ["region", "men 2019", "men 2020", "women 2019", "women 2020", "code"]


def test_names_that_span_columns_make_a_header_of_several_rows(tmp_path):
    """Merged cells of a sheet have their text in the first of them; the others are empty."""
    assert names_and_rows(beginning_of(written(tmp_path, text_of(MERGED + MERGED_RECORDS))).file) == (YEARS, 40)
    units = ["", "1", "1", "EUR", "EUR", "text"]
    third = beginning_of(written(tmp_path, text_of([*MERGED, units, *MERGED_RECORDS])))
    assert third.decided == (
        f"the header has 3 rows, in the first of which names span columns; they are named {', '.join(YEARS)}",
    )
    assert names_and_rows(third.file) == (YEARS, 40)
    repeated = [["region", "men", "men", "women", "women", "code"], MERGED[1]]
    assert names_and_rows(beginning_of(written(tmp_path, text_of(repeated + MERGED_RECORDS))).file) == (YEARS, 40)
    levels = [["region", "persons", "", "", "", "code"], ["", "men", "", "women", "", ""], MERGED[1]]
    names = ["region", *(f"persons {name}" for name in YEARS[1:-1]), "code"]
    assert names_and_rows(beginning_of(written(tmp_path, text_of(levels + MERGED_RECORDS))).file) == (names, 40)


def test_a_header_that_lacks_names_is_no_header_of_two_rows(tmp_path):
    found = beginning_of(written(tmp_path, text_of([MERGED[0], *MERGED_RECORDS])))
    assert found.file.said == {}
    assert found.doubts == (
        "the header has no name for columns 3, 5, which gets one such as 'Unnamed: 2'; if names span several columns, "
        "say header: 2 (--header 2)",
    )
    answers = [["North", "", "2", "3", "4", ""], *MERGED_RECORDS]  # a record that lacks two values
    assert beginning_of(written(tmp_path, text_of([MERGED[0], *answers]))).file.said == {}
    index = text_of([["", "a", "b"], *([i, i * 2, i * 3] for i in range(30))])
    assert beginning_of(written(tmp_path, index)).notes == ()


# -- the options ----------------------------------------------------------------------------------------------------


def test_options_hold_for_every_way_to_read_a_file(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("a title\n0,1\n1,0\n")
    domain = {"column 1": 2, "column 2": 2}
    data = pg.Dataset.load(path, domain, skip=1, header=0)
    assert data.codes.tolist() == [[0, 1], [1, 0]]
    assert pg.Dataset.load(TableFile(path, skip=1, header=["x", "y"]), {"x": 2, "y": 2}).codes.tolist() == [
        [0, 1],
        [1, 0],
    ]
    path.write_text("a\n\n5\n\n")  # blank lines of a single column are missing values
    assert names_and_rows(TableFile(path, header=0)) == (["column 1"], 4)


def test_a_row_with_too_few_fields_is_named_by_its_line(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("title\na,b\nunit,unit\n1,2\n3\n")
    with pytest.raises(FileFormatError, match="line 5 has 1 field where the header has 2"):
        list(read_pieces(TableFile(path, skip=1, header=2)))
    path.write_text("1,2\n3,4,5\n")
    with pytest.raises(FileFormatError, match="line 2 has 3 fields where the header has 2"):
        list(read_pieces(TableFile(path, header=0)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"skip": -1}, "skip"),
        ({"skip": True}, "skip"),
        ({"skip": "2"}, "skip"),
        ({"header": -1}, "header"),
        ({"header": 10}, "header"),
        ({"header": "name"}, "header"),
        ({"header": []}, "header"),
        ({"header": ["a", "a"]}, "no two alike"),
        ({"header": ["a", 1]}, "header"),
    ],
)
def test_other_options_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        TableFile("table.csv", **options)
    with pytest.raises(SchemaError, match="file"):
        Schema.from_dict({"columns": {"a": {"type": "boolean"}}, "file": options})


def test_a_parquet_file_has_its_header():
    with pytest.raises(ArgumentError, match="leave skip and header out"):
        TableFile("table.parquet", header=0)


# -- other endings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "delimiter", "shown"),
    [
        ("t.txt", "\t", "a tab"),
        ("t.dat", ";", "';'"),
        ("t.data", " ", "a blank"),
        ("t.txt", "|", "'|'"),
        ("t.DAT", ",", ""),
    ],
)
def test_texts_of_any_delimiter(tmp_path, name, delimiter, shown):
    found = beginning_of(written(tmp_path, text_of(PEOPLE, delimiter), name))
    assert found.decided == ((f"the delimiter is taken to be {shown}",) if shown else ())
    assert names_and_rows(found.file) == (["age", "sex", "town"], 30)
    if shown:
        with pytest.raises(FileFormatError, match=r"does not fit the delimiter ','; .* seems to be meant"):
            column_names(tmp_path / name)


def test_a_file_in_two_bytes_a_character_is_told_its_encoding(tmp_path):
    (tmp_path / "t.txt").write_text(text_of(PEOPLE, "\t"), encoding="utf-16")
    with pytest.raises(
        FileFormatError, match="It seems to be utf-16: say --encoding utf-16, or encoding: utf-16 in a schema"
    ):
        column_names(tmp_path / "t.txt")


@pytest.mark.parametrize(("delimiter", "shown"), [(";", "';'"), ("\t", "a tab"), ("|", "'|'")])
@pytest.mark.parametrize("above", ["", "Residents, by town, of 2024\n\n"])
def test_a_csv_file_with_another_delimiter_is_drafted_without_an_option(tmp_path, delimiter, shown, above):
    rows = [
        ["age", "income", "town"],
        *([str(20 + i), f"{1000 + i / 4:.2f}".replace(".", ","), "ab"[i % 2]] for i in range(30)),
    ]
    found = beginning_of(written(tmp_path, above + text_of(rows, delimiter)))
    assert found.decided[0] == f"the delimiter is taken to be {shown}"
    assert names_and_rows(found.file) == (rows[0], 30)


def test_a_comma_in_a_name_does_not_make_it_the_delimiter(tmp_path):
    found = beginning_of(written(tmp_path, "Age, years;Sex;Town\n" + "20;f;a\n" * 20))
    assert names_and_rows(found.file) == (["Age, years", "Sex", "Town"], 20)


@pytest.mark.parametrize(
    "text",
    [
        "diagnoses\n" + "I10;E11\nI10\nE11;J45;M54\n" * 10,  # lists in a single column
        "note\n" + "a;b\nc\n" * 10,
        "a,b\n" + "1;2,3;4\n" * 20,
        "a;b|c\n" + "1;2|3\n" * 20,  # two delimiters are possible
    ],
)
def test_a_comma_stays_the_delimiter_where_another_one_is_not_certain(tmp_path, text):
    assert "delimiter" not in guessed(tmp_path, text)


def test_columns_aligned_by_blanks(tmp_path):
    rows = "".join(f"{i:4d}   {i * 2.5:6.1f} x\n" for i in range(30))
    found = beginning_of(written(tmp_path, "id    size name\n" + rows, "t.dat")).file
    assert names_and_rows(found) == (["id", "size", "name"], 30)


@pytest.mark.parametrize("inner", ["people.csv", "data/people.tsv", "people.txt", "people.csv.gz", "people.parquet"])
def test_a_zip_file_holds_one_table(tmp_path, inner):
    frame = pd.DataFrame(PEOPLE[1:], columns=PEOPLE[0])
    plain = tmp_path / inner.split("/")[-1]
    if inner.endswith("parquet"):
        frame.to_parquet(plain)
    else:
        frame.to_csv(plain, index=False, sep="\t" if inner.endswith((".tsv", ".txt")) else ",")
    with zipfile.ZipFile(tmp_path / "people.zip", "w") as archive:
        archive.write(plain, inner)
        archive.writestr("__MACOSX/._people.csv", b"?")
        archive.writestr("readme.md", "about it")
    file = beginning_of(TableFile(tmp_path / "people.zip")).file
    assert names_and_rows(file) == (PEOPLE[0], 30)
    assert names_and_rows(file) == names_and_rows(beginning_of(TableFile(plain)).file)
    assert len(read_frame(file)) == 30


def test_zip_files_that_hold_no_single_table_are_refused(tmp_path):
    path = tmp_path / "people.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    with pytest.raises(FileFormatError, match=r"it holds 2 tables: a\.csv, b\.csv\. Unpack it"):
        column_names(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.doc", "")
    with pytest.raises(FileFormatError, match=r"it holds no table, only a\.doc"):
        column_names(path)
    path.write_bytes(b"PK no")
    with pytest.raises(FileFormatError, match=r"not a whole \.zip file"):
        column_names(path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        column_names(tmp_path / "absent.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", "a,b\n" + "1,2\n" * 5000)
    raw = bytearray(path.read_bytes())
    raw[60:64] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    with pytest.raises(FileFormatError, match=r"not a whole \.zip file"):
        list(read_pieces(path))


def test_a_schema_of_titles_and_two_rows_of_header_reads_a_synthetic_table(tmp_path):
    units = [["time", "speed"], ["s", "m/s"], *([str(i), str(i * 2)] for i in range(30))]
    private = written(tmp_path, "Report\n\n" + text_of(units))
    assert beginning_of(private).file.said == {"skip": 2, "header": 2}
    number = "{type: integer, min: 0, max: 99}"
    schema = Schema.parse(f"file: {{skip: 2, header: 2}}\ncolumns:\n  time: {number}\n  speed: {number}\n")
    assert schema.encode(private.path).records == 30
    out = written(tmp_path, text_of([units[0], *[units[0], *units[2:]]]), "synthetic.csv")
    assert schema.encode(out.path).records == 30


def test_a_check_says_what_the_schema_leaves_out(tmp_path):
    file = written(tmp_path, text_of(QUALTRICS))
    schema = Schema.parse("columns:\n  Q1: {type: integer, min: 0, max: 99, missing: true}\n")
    with pytest.warns(
        UserWarning, match="the header has 3 rows, as survey tools write it: so it seems, but the schema"
    ):
        assert schema.check(file).rows == 32
    said = Schema.parse("file: {header: 3}\ncolumns:\n  Q1: {type: integer, min: 0, max: 99}\n")
    assert said.check(file).rows == 30
    assert said.encode(file.path).records == 30
