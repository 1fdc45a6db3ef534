"""Long names become short texts that differ where the names do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgmest._base.widths import joined, key_of_names, short_names, shortened, width

PARTS = st.sampled_from(
    ["How satisfied are you with ", "the food", "性別", "the staff", " of our canteen? ", "x" * 40, "é"]
)
NAMES = st.lists(st.lists(PARTS, max_size=9).map("".join), max_size=30)


@given(NAMES, st.integers(16, 40))
def test_short_names_are_short_and_differ(names, columns):
    short = short_names(names, columns)
    assert list(short) == list(dict.fromkeys(names))
    assert len(set(short.values())) == len(short)
    assert all(width(text) <= columns for text in short.values())
    assert all(text == name for name, text in short.items() if width(name) <= columns)
    assert key_of_names(short) == [(text, name) for name, text in short.items() if width(name) > columns]


def test_names_with_one_beginning_and_end_show_where_they_differ():
    names = [f"How satisfied are you, on the whole, with the {what} in our house?" for what in ("food", "rooms")]
    assert [text.split("…")[1].split()[0] for text in short_names(names).values()] == ["food", "rooms"]
    assert joined(names, names, " x ").count("…") >= 2
    assert shortened("age") == "age"


def test_names_of_several_lines_become_different_texts_on_one():
    names = ["a\nb", r"a\nb", "a\tb", "c", "long " * 20 + "\n1", "long " * 20 + "\n2"]
    short = short_names(names)
    assert list(short) == names
    assert len(set(short.values())) == len(names)
    assert all(text.isprintable() for text in short.values())
    assert (short[r"a\nb"], short["c"]) == (r"a\nb", "c")
