"""Different texts never share a code, and which spelling is released never depends on the order of the rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.data.table_file import UNDECODED
from pgmest.data.values import Values, read_values
from pgmest.privacy import Curator, Rho
from pgmest.schema.readings import encoded_text, text_of
from pgmest.schema.texts import Texts
from pgmest.synthesizer.purchase import purchase
from pgmest.synthesizer.raw_table import RawTable

TEXTS = st.text(st.characters(codec=None) | st.sampled_from("?\ufffd\ud800\udcea\udfff\x00aA"), max_size=4)
SIMILAR = ["what?", "what\ud800", "what\udcff", "what\ufffd"]
BOUGHT = {"columns": {"job": {"type": "categorical", "values": "bought"}}}


def texts(ignore_case=False):
    return Texts("job", True, frozenset({""}), "missing", "here", ignore_case)


def objects(items):
    return Values.of_items(items)


@given(st.lists(TEXTS, unique=True))
@example(SIMILAR)
def test_bytes_of_different_texts_are_different(items):
    assert len({encoded_text(text) for text in items}) == len(items)


@given(st.lists(TEXTS, min_size=1), st.booleans())
@example(SIMILAR, False)
def test_a_code_has_one_text_and_a_text_one_code(items, ignore_case):
    column = texts(ignore_case)
    codes = column.encode(objects(items)).tolist()
    read = [text_of(text).lower() if ignore_case else text_of(text) for text in items]
    expected = [text or None for text in read]
    assert [None if code == column.gap_code else column.spellings[code] for code in codes] == expected
    assert len({(code, text) for code, text in zip(codes, expected, strict=True)}) == len(set(codes))
    assert len(set(codes)) == len(set(expected))


@given(st.lists(TEXTS, min_size=1), st.randoms(use_true_random=False))
def test_the_key_of_a_row_depends_on_its_text_alone(items, random):
    others = [*items]
    random.shuffle(others)
    keys = []
    for order in (items, others):
        column = texts()
        found = column.row_keys(column.encode(objects(order)))
        keys.append(dict(zip(map(text_of, order), found.tolist(), strict=True)))
    assert keys[0] == keys[1]


def bought(labels, unit=None):
    rows = pd.DataFrame({"job": pd.Series(labels, dtype=object), "who": [str(row // 2) for row in range(len(labels))]})
    schema = pg.Schema.from_dict({**BOUGHT, **({"unit": {"column": "who", "at_most": 1}} if unit else {})})
    key = b"k" * 16
    curator = Curator(RawTable.of(rows, schema, key), Rho(8.0), threshold_delta=1e-6, backend="simulation", seed=1)
    return purchase(curator, schema, Rho(8.0), delta=1e-6).schema.labels("job")


@settings(max_examples=15, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4, unique=True), st.randoms(use_true_random=False))
@example(SIMILAR, None)
def test_the_order_of_rows_changes_no_released_spelling(items, random):
    labels = [text for text in items for _ in range(60)]
    others = labels[::-1]
    if random is not None:
        random.shuffle(others)
    assert bought(labels) == bought(others)


def test_one_row_more_changes_no_spelling_that_others_have():
    labels = ["what?"] * 60
    assert "what?" in bought(labels)
    assert bought(["what\ud800", *labels]) == bought(labels)


def test_one_person_more_changes_no_row_that_is_kept_of_others():
    """The choice among the rows of a person depends on that person's rows, though codes depend on all rows."""
    labels = ["nurse", "cook"] * 200
    more = ["baker", "cook", *labels]
    kept = []
    for rows, first in ((labels, 0), (more, 2)):
        who = [str(1 + (row - first) // 2) if row >= first else "0" for row in range(len(rows))]
        schema = pg.Schema.from_dict({**BOUGHT, "unit": {"column": "who", "at_most": 1}})
        column = texts()
        table = RawTable.of(pd.DataFrame({"job": rows, "who": who}), schema, b"k" * 16)
        codes = table.coded((column,)).column("job")
        kept.append([column.spellings[code] for code in codes.tolist()])
    assert kept[1][1:] == kept[0]
    assert len(set(kept[0])) == 2


UNDECODABLE = {
    "utf-8": [b"caf\xe9", b"caf\xea", b"\xed\xa0\x80", "caf\ufffd".encode()],
    "utf-16-le": [b"\x00\xd8a\x00", b"\x01\xd8a\x00", "\ufffda".encode("utf-16-le")],
    "cp1252": [b"\x81", b"\x8d", b"?"],
    "shift_jis": [b"\x81\x20", b"\x82\x20", b"? "],
}


@pytest.mark.parametrize("encoding", UNDECODABLE)
def test_bytes_that_cannot_be_decoded_stay_different_texts(encoding):
    found = [item.decode(encoding, UNDECODED) for item in UNDECODABLE[encoding]]
    assert len(set(found)) == len(found)


def test_fields_of_a_file_and_texts_of_arrow_stay_different_too(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"job\n" + b"\n".join(UNDECODABLE["utf-8"]) + b"\n")
    column, schema = texts(), pg.Schema.from_dict(BOUGHT)
    codes = RawTable.of(path, schema).coded((column,)).column("job")
    assert len(set(codes.tolist())) == len(UNDECODABLE["utf-8"])
    held = pa.array(UNDECODABLE["utf-8"], pa.binary()).view(pa.string())
    assert len(set(read_values(pa.table({"job": held}))["job"].array)) == len(UNDECODABLE["utf-8"])
    np.testing.assert_array_equal(RawTable.of(path, schema).coded((texts(),)).column("job"), codes)
