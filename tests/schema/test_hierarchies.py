"""`hierarchy:` of a schema: every way to say the tree, what becomes of other and missing values, and clear errors."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import SchemaError
from pgmest.schema import Schema, draft
from pgmest.schema.draft_codes import classification_of
from pgmest.schema.hierarchies import with_values

CODES = "{type: categorical, values: [A00, A01, B20], other: other, missing: true, hierarchy: "
BOOK = "code,chapter,block\nA00,I,A0\nA01,I,A0\nB20,II,B2\n"


def tree(column: str, others: str = "") -> pg.Hierarchy:
    """Return the hierarchy of column x."""
    return Schema.parse(f"columns:\n  x: {column}\n{others}").domain.hierarchies["x"]


def groups(found: pg.Hierarchy) -> dict[str, list[str]]:
    """Return the label of the group of each code, by level."""
    return {level: [found.label(level, one) for one in found.groups(level)] for level in found.names}


@pytest.mark.parametrize(
    "said",
    [
        "{prefixes: [1, 2], names: [chapter, block]}}",
        "{chapter: {A: [A00, A01], B: [B20]}, block: {A0: [A00, A01], B2: B20}}}",
        "{chapter: {A: [A0], B: [B2]}, block: {A0: [A00, A01], B2: [B20]}}}",
    ],
)
def test_codes_have_levels_and_other_values_their_own_groups(said):
    assert groups(tree(CODES + said)) == {
        "chapter": ["A", "A", "B", "other", "missing"],
        "block": ["A0", "A0", "B2", "other", "missing"],
    }


def test_lists_may_name_other_and_missing_values_and_own_groups_have_labels_of_their_own():
    found = groups(tree(CODES + "{chapter: {A: [A00, A01], rest: [B20, other, null]}}}"))
    assert found == {"chapter": ["A", "A", "rest", "rest", "rest"]}
    found = groups(tree(CODES + "{chapter: {other: [A00, A01], missing: [B20]}}}"))
    assert found == {"chapter": ["other", "other", "missing", "other (not listed)", "missing (no value)"]}


def test_prefixes_of_codes_in_small_and_capital_letters_and_of_numbers():
    found = tree(
        "{type: categorical, values: [a00, A01, B], outside: clip, ignore_case: true, hierarchy: {prefixes: [1]}}"
    )
    assert groups(found) == {"prefix1": ["a", "a", "B"]}
    found = tree("{type: categorical, values: [1111, 1120, 2110], outside: clip, hierarchy: {prefixes: [1, 2]}}")
    assert groups(found) == {"prefix1": ["1", "1", "2"], "prefix2": ["11", "11", "21"]}


def test_dates_have_years_quarters_and_months():
    found = groups(
        tree(
            "{type: date, min: 2019-12-01, max: 2020-04-30, unit: month, missing: true, "
            "hierarchy: [year, quarter, month]}"
        )
    )
    assert found["year"] == ["2019", "2020", "2020", "2020", "2020", "missing"]
    assert found["quarter"] == ["2019-Q4", "2020-Q1", "2020-Q1", "2020-Q1", "2020-Q2", "missing"]
    assert found["month"] == ["2019-12", "2020-01", "2020-02", "2020-03", "2020-04", "missing"]
    weeks = groups(tree("{type: date, min: 2020-12-30, max: 2021-01-05, hierarchy: [week]}"))["week"]
    assert weeks == ["2020-W53"] * 5 + ["2021-W01"] * 2
    hours = groups(tree("{type: date, min: 2020-01-01, max: 2020-01-02, unit: hour, hierarchy: [day, hour]}"))
    assert hours["day"] == ["2020-01-01"] * 24 + ["2020-01-02"] * 24
    assert hours["hour"][:2] == ["2020-01-01 00", "2020-01-01 01"]


def test_numbers_have_wider_ranges():
    halves = "{half: {low: {min: 0, max: 0.5}, high: {min: 0.5}}}"
    found = groups(tree(f"{{type: real, min: 0, max: 1, bins: 4, hierarchy: {halves}}}"))
    assert found == {"half": ["low"] * 2 + ["high"] * 2}
    lists = "{life: {minor: {min: 0, max: 17}, adult: [{min: 18, max: 99}, null]}}"
    found = groups(tree(f"{{type: integer, min: 0, max: 99, missing: true, hierarchy: {lists}}}"))
    assert found["life"] == ["minor"] * 18 + ["adult"] * 83


AREAS = """\
  state: {type: categorical, values: [OH, IL], outside: clip}
  region: {type: categorical, values: [Midwest, West], outside: clip}
constraints:
  - determines: {from: x, to: state, table: {p1: OH, p2: OH, p3: IL}}
  - determines: {from: state, to: region, table: {OH: Midwest, IL: West}}
"""
PUMA = "{type: categorical, values: [p1, p2, p3], other: elsewhere, hierarchy: {columns: [region, state]}}"


def test_other_columns_are_levels_by_public_constraints_alone():
    schema = Schema.parse(f"columns:\n  x: {PUMA}\n{AREAS}")
    expected = {"region": ["Midwest", "Midwest", "West", "elsewhere"], "state": ["OH", "OH", "IL", "elsewhere"]}
    assert groups(schema.domain.hierarchies["x"]) == expected
    assert groups(schema.select("x").domain.hierarchies["x"]) == expected
    with pytest.raises(SchemaError, match=r"line 2: .*'p3'|line 2: .*for p3"):
        Schema.parse(f"columns:\n  x: {PUMA}\n{AREAS}".replace(", p3: IL", ""))
    with pytest.raises(SchemaError, match="never learned from the records"):
        Schema.parse(f"columns:\n  x: {PUMA}\n{AREAS}".partition("constraints")[0])


def loaded(folder, levels: str, book: str = BOOK, more: str = "") -> Schema:
    (folder / "codes.csv").write_text(book)
    said = f"{{file: codes.csv, column: code, levels: {levels}}}"
    path = folder / "people.yaml"
    path.write_text(f"columns:\n  x: {{type: categorical, values: {said}, other: other{more}}}\n")
    return Schema.load(path)


def test_a_file_has_a_column_for_each_level_and_the_description_needs_no_file(tmp_path):
    schema = loaded(tmp_path, "[chapter, block]")
    expected = {"chapter": ["I", "I", "II", "other"], "block": ["A0", "A0", "B2", "other"]}
    assert groups(schema.domain.hierarchies["x"]) == expected
    (tmp_path / "codes.csv").unlink()
    again = Schema.parse(json.dumps(schema.description))
    assert again.domain.hierarchies == schema.domain.hierarchies


@pytest.mark.parametrize(
    ("levels", "book", "more", "message"),
    [
        ("[chapters]", BOOK, "", r"line 2: column 'x': values: levels names 'chapters'; .*: code, chapter, block"),
        ("[chapter, block]", "code,chapter,block\nA00,I,A\nA01,II,A\n", "", r"'A' of 'block'.*record 1.*record 2"),
        ("[chapter]", "code,chapter\nA00,I\nA01,\n", "", r"'chapter' of .* has no group in record 2"),
        ("[]", BOOK, "", "names no column"),
        ("[chapter]", BOOK, ", hierarchy: {prefixes: [1]}", "leave one of them out"),
    ],
)
def test_files_whose_levels_cannot_be_are_refused(tmp_path, levels, book, more, message):
    with pytest.raises(SchemaError, match=message):
        loaded(tmp_path, levels, book, more)


INTEGER = "{type: integer, min: 0, max: 9, width: 5, hierarchy: "


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (CODES + "{chapter: {A: [A00, A01]}}}", r"line 2: column 'x': hierarchy leaves values in no group .*: B20"),
        (CODES + "{chapter: {A: [A00, A01], B: [B20, B21]}}}", r"line 2: .*chapter: B must be .*not 'B21'"),
        (CODES + "{chapter: {A: [A00, A01], B: [B20, A01]}}}", r"line 2: .*'A01' into two groups, 'A' and 'B'"),
        (CODES + "{chapter: {A: [A00], A: [A01], B: [B20]}}}", r"'A' stands here a second time"),
        (CODES + "{b: {x: [A00], y: [A01, B20]}, c: {v: [A00, A01], w: [B20]}}}", "are not nested: the group 'v'"),
        (CODES + "{chapter@: {A: [A00, A01, B20]}}}", "names of levels"),
        (CODES + "{chapter: [A00, A01, B20]}}", "must be a mapping of groups"),
        (CODES + "{prefixes: [2, 1]}}", "growing"),
        (CODES + "{prefixes: [1], names: [a, b]}}", "must be one name, one for each of prefixes, not a, b"),
        (CODES + "{prefixes: [1, 2], names: [a]}}", "must be 2 different names, one for each of prefixes, not a"),
        (CODES + "{prefix: [1]}}", r"line 2: .*prefix is the name of a level.*Did you mean 'prefixes'"),
        (CODES + "{column: [state]}}", "Did you mean 'columns'"),
        (CODES + "{prefixes: [1], chapter: {A: [A00]}}}", "unknown key 'chapter'"),
        (CODES + "{}}", "names no level"),
        (CODES + "yes}", "must be levels with their groups"),
        (CODES + "[year]}", "goes with type: date"),
        (CODES + "{columns: [state]}}", "names 'state', which is no column"),
        ("{type: categorical, values: [110, 1111], outside: clip, hierarchy: {prefixes: [1]}}", 'such as "0110"'),
        ("{type: categorical, values: [110, 1111], other: other, hierarchy: {prefixes: [1]}}", 'such as "0110"'),
        (INTEGER + "{prefixes: [1]}}", "goes with type: categorical"),
        (INTEGER + "{widths: [5]}}", "must be a mapping of groups"),
        (INTEGER + "{half: {low: {min: 0, max: 6}, high: {min: 5, max: 9}}}}", r"cuts the bin 5\.\.9 in two"),
        (INTEGER + "{half: {low: {min: 0, max: 2}, high: {min: 5, max: 9}}}}", "holds no whole bin"),
        ("{type: date, min: 2020-01-20, max: 2020-03-20, width: 10, hierarchy: [month]}", r"2020-01 and 2020-02"),
        ("{type: date, min: 2020-01-01, max: 2021-12-31, hierarchy: [month, week]}", "not nested"),
        ("{type: date, min: 2020-01-01, max: 2020-12-31, hierarchy: [decade]}", "must be one of year"),
        ("{type: date, min: 2020-01-01, max: 2020-12-31, hierarchy: [year, year]}", "names 'year' twice"),
        ("{type: integer, bounds: bought, hierarchy: {low: {a: {max: 9}}}}", "needs public bounds"),
        ("{type: categorical, values: bought, hierarchy: {c: {A: [a]}}}", "needs? a public list"),
        ("{type: categorical, values: bought, among: [a, b], hierarchy: {c: {A: [a]}}}", "in no group of 'c': b"),
    ],
)
def test_hierarchies_that_cannot_be_are_refused_where_they_stand(column, message):
    with pytest.raises(SchemaError, match=message):
        Schema.parse(f"columns:\n  x: {column}\n")


def test_ordered_columns_keep_their_hierarchies():
    day = "{type: date, min: 2020-01-01, max: 2020-12-31, hierarchy: [month]}"
    text = f"columns:\n  a: {day}\n  x: {day}\nconstraints:\n  - ordered: [a, x]"
    found = Schema.parse(text).domain.hierarchies
    assert [one.sizes["month"] for one in found.values()] == [12, 12]


def test_encoded_tables_know_the_levels_in_every_library():
    schema = Schema.parse(f"columns:\n  x: {CODES}{{prefixes: [1]}}}}\n")
    frame = pd.DataFrame({"x": ["A00", "B20", "Z", None, "A01"]})
    assert schema.encode(frame).project("x@prefix1").values.tolist() == [2, 1, 1, 1]
    assert schema.labels("x@prefix1") == ["A", "B", "other", "missing"]
    import polars as pl

    lazy = schema.encode(pl.from_pandas(frame).lazy())
    assert lazy.project("x@prefix1").values.tolist() == [2, 1, 1, 1]


def test_bought_values_keep_the_groups_that_they_have():
    lists = {"c": {"I": ["b1", "b2"], "II": ["b3"]}, "b": {"b1": ["A"], "b2": ["B"], "b3": ["C"]}}
    assert with_values(lists, ["A"]) == {"c": {"I": ["b1"]}, "b": {"b1": ["A"]}}
    column = {"type": "categorical", "values": "bought", "among": ["A", "B", "C"], "hierarchy": lists}
    rows = np.repeat(["A", "B"], 500)
    found = pg.Synthesizer("mst", epsilon=5.0, backend="simulation").fit(
        pd.DataFrame({"x": rows, "y": rows}),
        {"columns": {"x": column, "y": {**column, "hierarchy": {"prefixes": [1]}}}},
        seed=0,
    )
    assert groups(found.schema_.domain.hierarchies["x"]) == {"c": ["I", "I", "other"], "b": ["b1", "b2", "other"]}
    assert found.model_.project("x@c").values.sum() == pytest.approx(found.model_.total)
    assert found.model_.domain.hierarchies.keys() == {"x", "y"}


def coded(count: int = 1200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    town = rng.integers(0, 12, count)
    return pd.DataFrame(
        {
            "dx": rng.choice([f"{letter}0{i}.{j}" for letter in "AB" for i in (1, 2) for j in (0, 1)], count),
            "isco": rng.choice([1111, 1112, 2111, 2120], count),
            "room": rng.choice([1011, 1012, 2031], count),
            "town": [f"town {i}" for i in town],
            "district": [f"d{i // 3}" for i in town],
            "state": [f"s{i // 6}" for i in town],
        }
    )


def test_drafts_propose_levels_of_public_codes_and_of_columns_that_others_determine():
    text = draft(coded())
    assert "ITS FREQUENT VALUES ARE WRITTEN LIKE CODES OF ICD-10." in text
    assert text.count("# hierarchy: {prefixes:") == 2
    assert "town may say hierarchy: {columns: [state, district]}" in text
    assert not Schema.parse(text).domain.hierarchies  # comments say nothing yet
    said = text.replace("    # hierarchy", "    hierarchy").replace("# constraints:", "constraints:")
    said = said.replace("#   - ", "  - ").replace("  town:\n", "  town:\n    hierarchy: {columns: [state, district]}\n")
    found = Schema.parse(said).domain.hierarchies
    assert {name: dict(tree.sizes) for name, tree in found.items()} == {
        "dx": {"prefix1": 2, "prefix3": 4},
        "isco": {"prefix1": 2, "prefix2": 2, "prefix3": 3},
        "town": {"state": 2, "district": 4},
    }
    bought = draft(coded(), bought=True)
    said = bought.replace("    # hierarchy", "    hierarchy")
    assert Schema.parse(said).bought["dx"].plain("hierarchy") == {"prefixes": [1, 3]}
    assert "A01" not in bought


@pytest.mark.parametrize(
    ("name", "codes", "expected"),
    [
        ("diagnosis", ["A00", "A01", "B20"], ("ICD-10", (1,))),
        ("drug", ["A10BA02", "A10BA03", "C01AA05"], ("ATC", (1, 3, 4, 5))),
        ("industry", ["01.1", "01.11", "47.2"], ("NACE", (2, 4))),
        ("home_plz", ["6020", "6060", "1010"], ("postal areas", (1, 2, 3))),
        ("county fips", ["01001", "01003", "36061"], ("FIPS", (2,))),
        ("NAICSP", ["611M1", "6111", "722Z", "23"], ("NAICS", (2, 3, 4))),
        ("naics_2017", ["611110", "611210", "722511"], ("NAICS", (2, 3, 4, 5))),
        ("industry", ["11", "111", "1111"], ("NAICS", (2, 3))),
        ("soc", ["29-1141", "29-1171", "11-1011"], ("SOC", (2, 4, 6))),
        ("anything", ["29-1141", "29-1171.00", "11-1011"], ("SOC", (2, 4, 6))),
        ("SOCP", ["291141", "291171", "1110XX"], ("SOC", (2, 3, 5))),
        ("occupation", ["2211", "2212", "3112"], ("ISCO", (1, 2, 3))),
        ("ind", ["10", "20", "30"], None),
        ("amount", ["611110", "611210", "722511"], None),
        ("amount", ["1111", "1112", "2111"], None),
        ("grade", ["A", "B", "C"], None),
        ("diagnosis", ["A00", "B01", "C20"], None),
        ("diagnosis", ["A00", "A01", "none"], None),
    ],
)
def test_codes_are_known_by_their_notation_and_their_names(name, codes, expected):
    found = classification_of(name, codes)
    assert (found and (found[0].name, found[1])) == expected


@given(st.data())
@settings(max_examples=25)
def test_all_notations_of_a_random_tree_are_one_tree_and_survive_selection_and_files(data):
    blocks = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=9))
    chapters = data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5))
    missing = data.draw(st.booleans())
    values = [f"v{place}" for place in range(len(blocks))]
    rows = [(value, f"c{chapters[block]}", f"b{block}") for value, block in zip(values, blocks, strict=True)]
    by_value: dict[str, dict[str, list[str]]] = {"chapter": {}, "block": {}}
    by_block: dict[str, dict[str, list[str]]] = {"chapter": {}, "block": by_value["block"]}
    for value, chapter, block in rows:
        by_value["chapter"].setdefault(chapter, []).append(value)
        by_value["block"].setdefault(block, []).append(value)
        members = by_block["chapter"].setdefault(chapter, [])
        members += [] if block in members else [block]
    column = {"type": "categorical", "values": values, "other": "z", "missing": missing}
    levels = {
        name: {"type": "categorical", "values": list(dict.fromkeys(row[k] for row in rows)), "other": "z"}
        for k, name in ((1, "chapter"), (2, "block"))
    }
    determined = {
        "columns": {"x": {**column, "hierarchy": {"columns": ["chapter", "block"]}}, **levels},
        "constraints": [
            {"determines": {"from": "x", "to": to, "table": {row[0]: row[k] for row in rows}}}
            for k, to in ((1, "chapter"), (2, "block"))
        ],
    }
    found = [
        Schema.from_dict({"columns": {"x": {**column, "hierarchy": by_value}}}),
        Schema.from_dict({"columns": {"x": {**column, "hierarchy": by_block}}}),
        Schema.from_dict(determined),
        Schema.from_dict(determined).select(["x"]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "codes.csv").write_text("\n".join(map(",".join, [("code", "chapter", "block"), *rows])) + "\n")
        told = {"file": "codes.csv", "column": "code", "levels": ["chapter", "block"]}
        Path(folder, "schema.json").write_text(json.dumps({"columns": {"x": {**column, "values": told}}}))
        found.append(Schema.load(Path(folder, "schema.json")))
    expected = [*(row[1:] for row in rows), ("z", "z"), *([("missing", "missing")] if missing else [])]
    for schema in found:
        for copy in (schema, Schema.from_dict(schema.description)):
            assert list(zip(*groups(copy.domain.hierarchies["x"]).values(), strict=True)) == expected
