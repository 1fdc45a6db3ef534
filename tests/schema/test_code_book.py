"""Values in a file beside the schema."""

import pandas as pd
import pytest

import pgmest as pg
from pgmest.errors import SchemaError
from pgmest.schema import Schema

BOOK = "code,label\n1,Austria\n2,Chad\n3,Peru\n"


def loaded(folder, said, book=BOOK, name="codes.csv"):
    (folder / name).write_text(book)
    (folder / "people.yaml").write_text(f"columns:\n  land: {{type: categorical, values: {said}, other: other}}\n")
    return Schema.load(folder / "people.yaml")


def values(schema):
    return schema.description["columns"]["land"]["values"]


@pytest.mark.parametrize(
    ("said", "book", "expected"),
    [
        ("{file: codes.csv}", BOOK, [1, 2, 3]),
        ("{file: codes.csv, column: label}", BOOK, ["Austria", "Chad", "Peru"]),
        ("{file: codes.csv}", "code\n01\n02\n\n\n", ["01", "02"]),
        ("{file: codes.csv, delimiter: semicolon, column: code}", "x;code\na;1.5\nb;2\n", [1.5, 2.0]),
        ("{file: codes.csv, header: false}", "no\nyes\n", ["no", "yes"]),
        ("{file: codes.csv, skip: 1}", "title\ncode\nNA\n-1\n", ["NA", "-1"]),
    ],
)
def test_values_are_listed_as_if_they_stood_in_the_schema(tmp_path, said, book, expected):
    schema = loaded(tmp_path, said, book)
    assert values(schema) == expected
    listed = Schema.from_dict({"columns": {"land": {"type": "categorical", "values": expected, "other": "other"}}})
    assert schema.description == listed.description
    frame = pd.DataFrame({"land": [*map(str, expected), "elsewhere"]})
    assert schema.encode(frame) == listed.encode(frame)
    assert schema.encode(frame).codes[:, 0].tolist() == list(range(len(expected) + 1))


def test_values_in_workbooks_and_parquet_files(tmp_path):
    frame = pd.DataFrame({"code": [7, 8], "share": [0.5, 1.0], "day": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    frame.to_excel(tmp_path / "book.xlsx", index=False)
    frame.to_parquet(tmp_path / "book.parquet")
    for name in ("book.xlsx", "book.parquet"):
        assert values(loaded(tmp_path, f"{{file: {name}}}")) == [7, 8]
        assert values(loaded(tmp_path, f"{{file: {name}, column: share}}")) == [0.5, 1.0]
        assert values(loaded(tmp_path, f"{{file: {name}, column: day}}")) == ["2020-01-01", "2021-01-01"]


@pytest.mark.parametrize(
    ("said", "book", "message"),
    [
        ("{file: none.csv}", BOOK, r"line 2: column 'land': values cannot be read: .*none\.csv: cannot be read"),
        ("{file: codes.csv, column: cod}", BOOK, r"codes\.csv has no column 'cod'; its columns are: code, label"),
        ("{file: codes.csv}", "code\n", r"the column 'code' of .*codes\.csv has no values"),
        ("{file: codes.csv}", "code\n1\n\n2\n", "has no value in record 2"),
        ("{file: codes.csv}", "code,l\na,1\nb,2\na,3\n", "has 'a' in the records 1 and 3"),
        ("{column: code}", BOOK, "needs 'file:'"),
        ("{file: codes.csv, colum: code}", BOOK, "unknown key 'colum'. Did you mean 'column'"),
        ("{file: codes.csv, skip: -1}", BOOK, "cannot be read: skip"),
        ("{file: [a]}", BOOK, "must be text"),
        ("{file: codes.csv}", "a;b\n1;2\n", r"first line does not fit the delimiter ','.* delimiter: ';' in a schema"),
        ("{file: codes.csv, column: code}", "code ,label\n1,a\n", r"its columns are: 'code ', 'label'"),
        ("{file: people.yaml}", BOOK, "cannot be read"),
    ],
)
def test_errors_name_the_column_and_the_file(tmp_path, said, book, message):
    with pytest.raises(SchemaError, match=message):
        loaded(tmp_path, said, book)


@pytest.mark.parametrize("said", ["{file: codes.csv, column: name}", "{file: codes.csv, levels: [name]}"])
def test_texts_in_another_encoding_are_refused_and_read_when_it_is_said(tmp_path, said):
    (tmp_path / "codes.csv").write_bytes("code,name\n1,Korneuburg\n2,Gmünd\n".encode("cp1252"))
    (tmp_path / "people.yaml").write_text(f"columns:\n  land: {{type: categorical, values: {said}, other: other}}\n")
    with pytest.raises(SchemaError, match=r"is not UTF-8 text in record 2 .'Gm\?nd.*encoding: cp1252"):
        Schema.load(tmp_path / "people.yaml")
    told = said.replace("codes.csv", "codes.csv, encoding: cp1252")
    (tmp_path / "people.yaml").write_text(f"columns:\n  land: {{type: categorical, values: {told}, other: other}}\n")
    schema = Schema.load(tmp_path / "people.yaml")
    assert "Gmünd" in schema.labels("land@name" if "levels" in said else "land")


def test_a_public_list_of_values_to_be_bought_may_be_in_a_file(tmp_path):
    (tmp_path / "codes.csv").write_text(BOOK)
    text = "columns:\n  land: {type: categorical, values: bought, among: {file: codes.csv, column: label}}\n"
    (tmp_path / "people.yaml").write_text(text)
    assert Schema.load(tmp_path / "people.yaml").bought["land"].among == ("Austria", "Chad", "Peru")


def test_a_model_needs_the_file_no_more(tmp_path):
    schema = loaded(tmp_path, "{file: codes.csv, column: label}")
    frame = pd.DataFrame({"land": ["Chad", "Peru"] * 50})
    fitted = pg.Synthesizer("independent", epsilon=9.0, backend="simulation").fit(frame, schema, seed=0)
    fitted.save(tmp_path / "model.npz")
    (tmp_path / "codes.csv").unlink()
    again = pg.Synthesizer.load(tmp_path / "model.npz")
    assert again.schema_.labels("land") == ["Austria", "Chad", "Peru", "other"]
