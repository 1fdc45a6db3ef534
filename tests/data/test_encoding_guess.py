"""The encoding of a file is guessed where its bytes allow a single one, and left open elsewhere."""

import gzip
import warnings

import pytest

from pgmest.data.beginning import beginning_of
from pgmest.data.chunked_reader import column_names
from pgmest.data.encoding_guess import guess_encoding
from pgmest.data.frames import ReadingWarning
from pgmest.data.table_file import TableFile
from pgmest.errors import FileFormatError
from pgmest.schema import Schema, draft

GERMAN = "alter;größe;ort\n" + "".join(
    f"{i};1,{60 + i % 40};{('Köln', 'Gießen', 'München')[i % 3]}\n" for i in range(60)
)


def guessed(folder, text, encoding):
    path = folder / "t.csv"
    path.write_bytes(text.encode(encoding))
    return guess_encoding(TableFile(path))


@pytest.mark.parametrize("text", [GERMAN, "a,b\n1,2\n", "год,пол\n" + "2020,муж\n" * 9, "年齢,性別\n" + "3,男\n" * 40])
@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
    ],
)
def test_two_bytes_a_character_show_with_a_mark_and_without(tmp_path, text, encoding, found):
    assert guessed(tmp_path, text, encoding) == found


@pytest.mark.parametrize("mark", ["utf-32", "utf-16"])
def test_a_mark_tells_four_bytes_from_two(tmp_path, mark):
    assert guessed(tmp_path, GERMAN, mark) == mark


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        (GERMAN, "cp1252", "cp1252"),
        (GERMAN, "iso8859-2", "cp1252"),  # the same bytes
        ("ville\n" + "Orléans\nBesançon\nÉvreux\n" * 9, "latin-1", "cp1252"),
        ("ville\n" + "Genève\nOrléans\n" * 9, "latin-1", ""),  # Genčve in cp1250
        ("mesto\n" + "Plzeň\nDěčín\n" * 9, "cp1250", ""),
        ("şehir\n" + "Iğdır\n" * 9, "cp1254", ""),
        (GERMAN, "cp850", ""),
        (GERMAN, "mac-roman", ""),
        ("город\n" + "Москва\n" * 9, "cp1251", ""),
        ("都市\n" + "東京都\n" * 9, "shift_jis", ""),
        ("性别\n" + "男\n女\n" * 9, "gb18030", ""),
        ("혈액형\n" + "A형\nB형\n" * 9, "euc-kr", ""),
    ],
)
def test_a_byte_a_character_is_western_only_where_all_of_europe_reads_the_same(tmp_path, text, encoding, found):
    assert guessed(tmp_path, text, encoding) == found


def test_bytes_far_down_count(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(("town\n" + "Bonn\n" * 400_000 + "Köln\n").encode("cp1252")))
    assert guess_encoding(TableFile(path)) == "cp1252"


def test_zero_bytes_in_values_are_no_sign_of_two_bytes_a_character(tmp_path):
    assert guessed(tmp_path, "a,b\n" + "x\0y,1\nz,2\n" * 20, "utf-8") is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_a_draft_needs_no_option_and_its_schema_reads_what_it_writes(tmp_path, encoding):
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    path.write_bytes(GERMAN.encode(encoding))
    with pytest.warns(ReadingWarning, match=f"the encoding is taken to be {encoding}"):
        text = draft(path)
    assert f'file: {{delimiter: ";", encoding: "{encoding}"}}' in text
    schema = Schema.parse(text)
    data = schema.encode(path)
    assert data.records == 60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schema.check(path).verdict == "The schema fits the table."
    table = schema.decode(data, seed=0, written=True)
    out.write_bytes(table.to_csv(sep=";", index=False).encode(encoding))
    assert schema.encode(out) == data


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_reader_that_does_not_guess_names_the_encoding(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes(GERMAN.encode(encoding))
    with pytest.raises(FileFormatError, match=f"It seems to be {encoding}: say --encoding {encoding}, or"):
        column_names(tmp_path / "t.csv")


def test_a_stated_encoding_is_not_questioned(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(GERMAN.encode("cp1252"))
    found = beginning_of(TableFile(path, encoding="cp1250"))
    assert found.file.encoding == "cp1250"
    assert found.decided == ("the delimiter is taken to be ';'",)
