"""Labels bought from private records are harmless wherever they are shown, and none of them makes a paid run fail."""

import io
import unicodedata

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.synthesizer.publishable import publishable

UNSAFE = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "＝1+1",
    " =1",
    "a\ud800",
    "\udcff",
    "x\x1b[2J",
    "a\nb",
    "\t=1",
    "\u202egpj",
    "\0",
]
PLAIN = ["-", "+", "-5", "+3,2", "-1e5", "cook", "O'Neil", "=", "50%", "a=b", "née", "日本", "x@y.org"]
TEXTS = st.one_of(
    st.text(min_size=1, max_size=6),
    st.text(st.sampled_from("=+-@'\" \t\n,;aA1\ud800\x1b\u202e＝"), min_size=1, max_size=5),
    st.sampled_from(
        [*UNSAFE, *PLAIN, "null", "NaN", "true", "True", "1", "1.0", "bought", "else", "Else", "''=x", "'=x"]
    ),
)


def safe(text):
    """Return whether a text is harmless in a spreadsheet, on a terminal and in a file."""
    if any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in text) or "\u202e" in text:
        return False
    start = text.lstrip()
    return len(start) < 2 or (start[0] not in "=@＝" and (start[0] not in "+-" or start[1] in "0123456789"))


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_labels_stay(text):
    assert publishable(text) == text


@pytest.mark.parametrize("text", UNSAFE)
def test_others_are_changed_or_left_out(text):
    found = publishable(text)
    assert found is None or found == f"'{text}"


@given(TEXTS)
def test_what_is_published_is_safe_and_stays_so(text):
    found = publishable(text)
    assert found is None or (safe(found) and publishable(found) == found)


@given(st.lists(TEXTS, min_size=1, max_size=4, unique=True), st.booleans())
@example(["=x", "'=x", "''=x"], False)
@example(["true", "True", "1"], True)
@settings(max_examples=60)
def test_whatever_texts_are_frequent_the_run_ends_and_its_table_is_safe(texts, ignore_case):
    """Bought, fitted, sampled, written and read, with one text or many that are hostile."""
    table = pd.DataFrame({"t": pd.Series(texts * 300, dtype=object), "s": ["F"] * (300 * len(texts))})
    described = {"type": "categorical", "values": "bought", "other": "else", "ignore_case": ignore_case}
    columns = {"t": described, "s": {"type": "categorical", "values": ["F"], "other": "else"}}
    synthesizer = pg.Synthesizer("independent", epsilon=50.0, delta=1e-6, backend="simulation")
    synthesizer.fit(table, {"columns": columns}, seed=0, progress=False)
    made = synthesizer.sample(200, seed=0)
    assert all(safe(label) for label in synthesizer.schema_.labels("t"))
    assert all(safe(text) for text in made["t"].dropna().unique())
    assert all(safe(text) for text in synthesizer.bought_.values())
    made.to_csv(io.BytesIO())
    coded = synthesizer.schema_.encode(table)
    assert coded.records == len(table)


def test_a_formula_keeps_its_records_under_its_new_name():
    table = pd.DataFrame({"t": ["=1+1"] * 600 + ["cook"] * 600})
    columns = {"t": {"type": "categorical", "values": "bought", "other": "else"}}
    synthesizer = pg.Synthesizer("independent", epsilon=50.0, delta=1e-6, backend="simulation")
    synthesizer.fit(table, {"columns": columns}, seed=0, progress=False)
    assert set(synthesizer.sample(1000, seed=0)["t"]) >= {"'=1+1", "cook"}
    assert synthesizer.schema_.encode(table).project("t").values.tolist()[:2] == [600, 600]
