"""Drafts read columns as a person would: codes, identifiers, dates, markers of missing values, and amounts."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.schema import Schema, draft
from pgmest.schema.gap_words import GAP_TEXTS
from pgmest.schema.guess import guess
from pgmest.schema.guess_times import NAMED_CLOCKS
from pgmest.schema.periods import date_text
from pgmest.schema.tally import Tally

MARK = "# READ FROM THE PRIVATE DATA"
ROWS = 2000


def public(text):
    """Return the schema that a careless owner makes of a draft: all marks and notes are deleted."""
    lines = [line.split(MARK)[0].rstrip() for line in text.split("\n") if line[:1] != "#" and "drafted" not in line]
    return Schema.parse("\n".join(lines))


def one(values, name="c"):
    """Return the lines of the draft of one column, its notes, and its schema."""
    text = draft(pd.DataFrame({name: values, "beside": ["x", "y"] * (len(values) // 2) + ["x"] * (len(values) % 2)}))
    lines = text[text.index("columns:\n") : text.index("  beside:")].split("\n")[1:-1]
    return [line.strip() for line in lines], public(text)


def synthetic(table, rows=3000, **options):
    schema = public(draft(table))
    made = pg.Synthesizer("independent", epsilon=1.0, backend="simulation", **options).fit(table, schema, seed=0)
    return made.sample(rows, seed=0)


def rng():
    return np.random.default_rng(0)


# -- codes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        [1, 2, 3, 4, 5],
        [1, 2, 7, 9],
        list(range(1, 32)),
        [0.5, 1.0, 2.5],
        [1001, 6037, 48201],
        [-2, -1, 0, 1, 2],
    ],
)
@pytest.mark.parametrize("kind", ["number", "text", "gaps"])
def test_few_distinct_numbers_are_codes_and_nobody_gets_another_one(values, kind):
    drawn = pd.Series(rng().choice(values, ROWS))
    drawn = drawn.astype(str) if kind == "text" else drawn.where(rng().random(ROWS) < 0.9) if kind == "gaps" else drawn
    lines, schema = one(drawn)
    assert lines[1] == "type: categorical"
    assert [float(label) for label in schema.labels("c")[: len(values)]] == values
    assert schema.domain["c"] == len(values) + (kind == "gaps")
    made = synthetic(pd.DataFrame({"c": drawn}))["c"].dropna()
    assert set(made.astype(float)) <= set(map(float, values))
    assert made.dtype.kind in ("O" if kind == "text" else "if") or kind in ("text", "gaps")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-50, 99_999), min_size=2, max_size=31, unique=True), st.integers(0, 99))
def test_no_code_is_drawn_that_nobody_has(codes, seed):
    table = pd.DataFrame({"answer": np.random.default_rng(seed).choice(codes, 40 * len(codes)), "row": 1})
    schema = public(draft(table))
    if "answer" not in schema.domain or schema.column("answer").kind == "date":
        return
    data = pg.Dataset.from_codes(list(np.indices(schema.domain.shape).reshape(2, -1)), schema.domain)
    drawn = set(schema.decode(data, seed=0)["answer"].dropna())
    assert drawn <= set(table["answer"])
    assert schema.check(table).columns[0].other == 0


def test_rare_codes_are_not_listed_and_said():
    lines, schema = one([*[0] * 900, *[1] * 95, 2, 2, 2, 7, 8])
    assert "values: [0, 1, 2]" in lines
    assert f"{MARK}: 2 OF 5 VALUES ARE NOT LISTED: 0.2 % OF THE ROWS COUNT AS THE NEAREST LISTED NUMBER." in lines
    assert schema.decode(schema.encode(pd.DataFrame({"c": [7, 8], "beside": "x"})), seed=0)["c"].tolist() == [2, 2]


def test_codes_that_add_up_are_amounts():
    adults, children = rng().integers(1, 4, ROWS), rng().integers(0, 4, ROWS)
    text = draft(
        pd.DataFrame({"adults": adults, "children": children, "persons": adults + children, "sex": adults % 2})
    )
    assert "#   - sum: {persons: [adults, children]}" in text
    assert "  persons:\n    type: integer\n    min: 1\n    max: 6\n" in text
    assert "  sex:\n    type: categorical" in text


def test_what_a_long_list_leaves_out_is_said():
    lines, schema = one([f"C{x:03}" for x in rng().integers(0, 100, 5000)])
    listed = set(schema.labels("c")) - {"other"}
    drawn = rng().integers(0, 100, 5000)
    share = np.mean([f"C{x:03}" not in listed for x in drawn])
    assert len(listed) == 50
    assert any(
        re.search(rf"50 OF 100 VALUES ARE NOT LISTED: {100 * share:.1f} % OF THE ROWS BECOME 'other'", x) for x in lines
    )
    commonest = 1 / np.arange(1, 554)
    labels = rng().choice(
        [f"job {chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(553)], 4000, p=commonest / commonest.sum()
    )
    lines, _ = one(labels)
    assert any(f"{len(set(labels)) - 50} OF {len(set(labels))} VALUES ARE NOT LISTED" in line for line in lines)


# -- identifiers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("respondent_id", rng().choice(10**7, ROWS, replace=False)),
        ("Unnamed: 0", np.arange(ROWS)),
        ("x", np.arange(1, ROWS + 1)[::-1]),
        ("x", rng().choice(10**7, ROWS, replace=False)),
        ("x", np.cumsum(rng().integers(1, 99, ROWS))),
        ("x", 10**8 + rng().choice(10**7, ROWS, replace=False)),
        ("x", [f"u{i}" for i in range(ROWS)]),
        ("x", [f"{i:04}-{(i * 7919) % 10007}" for i in range(ROWS)]),
        ("patient_id", rng().integers(0, 800, ROWS)),
        ("PatientID", rng().integers(1, 13, ROWS)),
        ("subject_number", rng().integers(1, 60, ROWS)),
        ("id", [f"P{i:03}" for i in rng().integers(0, 60, ROWS)]),
        ("patient", [f"P{i:04}" for i in rng().integers(0, 300, ROWS)]),
        ("subject", rng().integers(1, 60, ROWS)),
        ("Patient", [f"P{i:02}" for i in rng().integers(0, 20, ROWS)]),
        ("last_name", rng().choice([f"{a}{b}son" for a in "ABCDEFG" for b in "aeiou"], ROWS)),
        ("who", [f"person {i}@mail.org".replace(" ", "") for i in rng().integers(0, 30, ROWS)]),
        ("code", [f"AX{i:02}" for i in np.repeat(np.arange(40), 2)]),
        ("household", np.repeat(np.arange(800), 3)[:ROWS]),
        ("card", 4 * 10**11 + rng().integers(0, 700, ROWS) * 7919),
    ],
)
def test_identifiers_are_left_out_with_and_without_their_marks(name, values):
    text = draft(pd.DataFrame({name: values, "sex": ["F", "M"] * (len(values) // 2)}))
    assert f"{MARK}: {name} IS LEFT OUT: IT " in text
    assert "IDENTIFIER" in text
    assert name not in public(text).domain
    assert not set(map(str, np.unique(values)[:100])) & set(re.findall(r"[\w@.-]{3,}", text))


@pytest.mark.parametrize(
    "values",
    [
        rng().gamma(2, 20_000, 500).astype(int),
        rng().integers(18, 90, 300),
        rng().integers(0, 500, ROWS),
        rng().gamma(2, 20_000, 500).round(-2).astype(int),
        rng().normal(0, 1e6, 400).astype(int),
        np.arange(40) * 1.25,
        np.arange(400).astype(float),
    ],
)
def test_amounts_are_no_identifiers(values):
    lines, _ = one(values, "amount")
    assert lines[1] in ("type: integer", "type: real")


@pytest.mark.parametrize(
    ("written", "ignored"),
    [("{} kg", "[kg]"), ("{}cm", "[cm]"), ("{} years", "[years]"), ("{} °C", '["°C"]'), ("P{}", None)],
)
def test_units_of_numbers_are_ignored(written, ignored):
    values = [written.format(x) for x in rng().integers(45, 120, ROWS)]
    lines, schema = one(values)
    assert (f"ignore: {ignored}" in lines) == (lines[1] == "type: integer") == (ignored is not None)
    assert ignored is None or schema.check(pd.DataFrame({"c": values, "beside": "x"})).kept == 1


def test_tenths_of_degrees_are_amounts_and_texts_such_as_numbers_are_read():
    lines, _ = one(rng().normal(37, 0.6, ROWS).round(1))
    assert lines[1] == "type: real"
    lines, _ = one(rng().choice(["E11", "I10", "1E5", "F32"], ROWS))  # codes of diseases
    assert lines[1] == "type: categorical"
    assert one(rng().integers(0, 101, ROWS))[0][1:4] == ["type: integer", "min: 0", "max: 100"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("household", [1, 2, 3, 4, 5]),
        ("patient", ["yes", "no"]),
        ("gender_id", [1, 2]),
        ("name", ["aspirin", "placebo"]),
        ("household", ["1 person", "2 persons", "3 persons"]),
        ("shop_id", list(range(12))),
    ],
)
def test_labels_of_columns_called_like_identifiers_are_listed(name, values):
    text = draft(pd.DataFrame({name: rng().choice(values, 500), "x": 1}))
    assert "LEFT OUT" not in text
    assert name in public(text).domain


def test_county_codes_are_no_amounts():
    codes = np.unique(rng().integers(1001, 56045, 150))
    lines, schema = one(rng().choice(codes, 9000), "fips")
    assert "type: categorical" in lines
    assert "other: other" in lines
    assert set(schema.labels("fips")) <= {*map(str, codes), "other"}
    many = rng().integers(1001, 56045, 50_000)
    assert "fips IS LEFT OUT" in one(many, "fips")[0][0]


def test_repeated_identifiers_are_proposed_as_the_unit():
    person = np.repeat(np.arange(400), rng().integers(1, 6, 400))
    table = pd.DataFrame({"patient id": [f"P{x:04}" for x in person], "ward": rng().choice(["A", "B"], len(person))})
    text = draft(table)
    most = np.bincount(person).max()
    assert f'# unit: {{column: "patient id", at_most: {most}}}\n'.replace('"', "") in text.replace('"', "")
    assert f"patient id HAS 400 VALUES WITH UP TO {most} ROWS EACH, HALF OF THEM WITH AT MOST 3." in text
    uncommented = "\n".join(line.removeprefix("# ") if line.startswith("# unit") else line for line in text.split("\n"))
    assert Schema.parse(uncommented).unit.column == "patient id"
    assert Schema.parse(uncommented).encode(table).records == len(person)
    assert "unit" not in draft(table.drop_duplicates("patient id"))
    assert "unit" not in draft(table[["ward"]])


# -- missing values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["none", "None", "NA", "N/A", "missing"])
def test_words_that_may_be_answers_are_categories_beside_other_texts(word):
    lines, schema = one(rng().choice([word, "one", "two or more"], ROWS))
    assert word in schema.labels("c")
    assert not any(line.startswith("missing:") for line in lines)
    assert any("IS IT ONE, OR A MISSING VALUE?" in line for line in lines)
    table = pd.DataFrame({"c": rng().choice([word, "one"], ROWS)})
    assert 0.4 < (synthetic(table)["c"] == word).mean() < 0.6


@pytest.mark.parametrize("word", ["none", "NA", "?", "-"])
def test_words_among_numbers_and_dates_mean_missing_values(word):
    for values in (
        rng().integers(0, 99, ROWS).astype(str),
        (np.datetime64("2020-01-01") + np.arange(ROWS)).astype(str),
    ):
        mixed = np.where(rng().random(ROWS) < 0.2, word, values)
        lines, schema = one(mixed)
        assert any(line.startswith("missing: [") and word in line for line in lines)
        assert schema.check(pd.DataFrame({"c": mixed, "beside": "x"})).columns[0].missing == (mixed == word).sum()


@pytest.mark.parametrize(
    ("marker", "values"),
    [
        (-1, rng().integers(0, 60, ROWS)),
        (-9, rng().integers(1, 6, ROWS)),
        (999, rng().integers(0, 120, ROWS)),
        (9999, rng().integers(1950, 2020, ROWS)),
        (-99, rng().gamma(2, 20, ROWS)),
    ],
)
def test_numbers_that_stand_apart_mean_missing_values(marker, values):
    mixed = np.where(rng().random(ROWS) < 0.1, marker, values)
    for written in (mixed, mixed.astype(str)):
        lines, schema = one(written)
        assert f"missing: [{marker}]" in lines
        assert schema.labels("c")[-1] == "missing"


@pytest.mark.parametrize("values", [range(-3, 4), range(-10, 30), [-1, 0, 1], [1, 2, 7, 9], range(0, 1000)])
def test_numbers_of_a_scale_do_not_mean_missing_values(values):
    lines, _ = one(rng().choice(list(values), ROWS))
    assert not any(line.startswith("missing:") for line in lines)


@pytest.mark.parametrize("top", ["85+", "85 and over", ">85", "≥ 85", "85 or more", "85 plus"])
def test_a_top_bin_is_read(top):
    age = rng().integers(0, 100, ROWS)
    written = np.where(age < 85, age.astype(str), top)
    lines, schema = one(written)
    assert lines[1:4] == ["type: integer", "min: 0", "max: 85"]
    assert any("COUNTS AS 85, THE TOP BIN" in line for line in lines)
    checked = schema.check(pd.DataFrame({"c": written, "beside": "x"})).columns[0]
    assert (checked.kept, checked.missing) == (1.0, 0)
    assert checked.counts.sum(axis=0)[85] == (age >= 85).sum()
    lazy = schema.encode(pl.DataFrame({"c": written, "beside": "x"}).lazy())
    assert (lazy.project("c").values == checked.counts.sum(axis=0)).all()


def test_a_few_sizes_with_a_top_stay_labels():
    lines, _ = one(rng().choice(["1", "2", "10", "11+"], ROWS))
    assert 'values: ["1", "2", "10", "11+"]' in lines


# -- dates ------------------------------------------------------------------------------------------------------------

DAYS = pd.Series(pd.date_range("2015-01-01", periods=ROWS))


FORMS = ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d %B %Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%y", "%m/%d/%y"]


@pytest.mark.parametrize(
    "form",
    [
        *(*FORMS, "%Y-%d-%m", "%Y%m%d", "%Y%m", "%d%m%Y", "%d.%m.%Y %H:%M", "%A, %d %B %Y", "%d%b%Y"),
        *("%d.%m.%Y um %H:%M Uhr", "%d/%m/%Y à %Hh%M"),
    ],
)
def test_dates_are_read_in_their_format(form):
    written = DAYS.dt.strftime(form)
    lines, schema = one(written)
    assert "type: date" in lines
    assert f'format: "{form}"' in lines
    assert schema.check(pd.DataFrame({"c": written, "beside": "x"})).kept == 1.0
    assert schema.decode(schema.encode(pd.DataFrame({"c": written, "beside": "x"})), seed=0)["c"].dt.year.min() == 2015


@pytest.mark.parametrize("form", ["%G-W%V", "KW %V/%G"])
def test_weeks_are_dates_with_a_bin_each(form):
    days = pd.date_range("2015-01-01", periods=700)
    written = [date_text(day, form) for day in days]
    lines, schema = one(written)
    table = pd.DataFrame({"c": written, "beside": "x"})
    assert {"type: date", f'format: "{form}"'} <= set(lines)
    assert schema.check(table).kept == 1.0
    codes = schema.encode(table)
    assert (codes.column("c") == schema.encode(pd.DataFrame({"c": days, "beside": "x"})).column("c")).all()
    assert schema.decode(codes, seed=0, written=True)["c"].tolist() == written


def test_dates_in_two_formats_are_said_to_be():
    days = DAYS[:400]
    written = [f"{day:%Y-%m-%d}" if place % 5 < 3 else f"{day:%d/%m/%Y}" for place, day in enumerate(days)]
    lines, _ = one(written)
    assert any("160 OTHER VALUES ARE WRITTEN %d/%m/%Y: WRITE ALL DATES IN ONE FORMAT" in line for line in lines)
    assert not any("COULD AS WELL BE" in line for line in lines)


def test_all_spellings_of_an_unknown_day_are_markers():
    written = DAYS.dt.strftime("%d.%m.%Y").tolist() + ["1.1.1900", "01.01.1900"] * 9
    lines, _ = one(written)
    assert 'missing: ["1.1.1900", "01.01.1900"]' in lines


def test_dates_that_are_not_in_utf_8_are_counted_as_such():
    written = [day.strftime("%d. M\ufffdrz %Y" if day.month == 3 else "%d. %B %Y") for day in DAYS]
    march = sum(day.month == 3 for day in DAYS)
    assert any(f"{march} VALUES ARE NOT UTF-8" in line for line in one(written)[0])


@pytest.mark.parametrize("text", ["(5)", "5-", "\u22125"])
def test_numbers_without_a_hyphen_in_front_are_not_read_as_negative_ones(text):
    texts = [*map(str, range(300)), text]
    lines, schema = one(texts)
    assert any(f'"{text}" (1 ROW) IS NOT A NUMBER, AND BECOMES MISSING' in line for line in lines)
    assert schema.check(pd.DataFrame({"c": texts, "beside": "x"})).columns[0].missing == 1


@pytest.mark.parametrize(("hour", "minute"), NAMED_CLOCKS)
def test_times_with_a_word_are_times(hour, minute):
    texts = [f"{i % 24}{hour}{i * 7 % 60:02}{minute}" for i in range(ROWS)]
    lines, schema = one(texts)
    assert {"type: time", f'format: "%H{hour}%M{minute}"'} <= set(lines)
    assert schema.check(pd.DataFrame({"c": texts, "beside": "x"})).kept == 1.0


@pytest.mark.parametrize("form", ["%Y%m%d", "%Y%m"])
def test_dates_as_whole_numbers_come_back_as_such(form):
    table = pd.DataFrame({"c": DAYS.dt.strftime(form).astype(int)})
    for frame in (table, pl.from_pandas(table)):
        made = synthetic(frame)["c"]
        read = pd.to_datetime(pd.Series(made.to_list()).astype(str), format=form, errors="coerce")
        assert read.notna().all()
        assert made.dtype == frame["c"].dtype
    dates = synthetic(table.astype(str))["c"]  # texts have the type that follows from the schema
    assert dates.dtype.kind == "M"
    assert dates.notna().all()


def test_dates_that_cannot_be_read_are_counted_and_missing():
    odd = [f"{i % 5 + 40}.13.2020" for i in range(100)]
    lines, schema = one([*DAYS.dt.strftime("%d.%m.%Y"), *odd[:5], *(f"about {i}" for i in range(95))])
    assert "missing: true" in lines
    assert f"{MARK}: 100 VALUES ARE NOT A DATE, AND WILL BE MISSING." in lines
    few = pd.DataFrame({"c": [*DAYS.dt.strftime("%d.%m.%Y"), *odd], "beside": "x"})
    lines, schema = one(few["c"])
    assert any('"40.13.2020" (20 ROWS) IS NOT A DATE, AND BECOMES MISSING.' in line for line in lines)
    assert schema.check(few).columns[0].missing == 100


def test_of_dates_in_two_formats_the_others_are_counted():
    two = [f"{day:%d.%m.%Y}" if place % 3 else f"{day:%Y-%m-%d}" for place, day in enumerate(DAYS)]
    lines, schema = one(two)
    assert 'format: "%d.%m.%Y"' in lines
    assert f"{MARK}: {-(-ROWS // 3)} VALUES ARE NOT A DATE, AND WILL BE MISSING." in lines
    assert "missing: true" in lines
    counts = schema.encode(pd.DataFrame({"c": two, "beside": "x"})).project("c").values
    assert counts[-1] == -(-ROWS // 3)
    assert counts[:-1].max() < 50


def test_days_that_stand_apart_are_missing():
    days = np.where(rng().random(ROWS) < 0.1, np.datetime64("1900-01-01"), DAYS.to_numpy().astype("M8[D]"))
    for values in (days, days.astype(str), pd.Series(days).dt.strftime("%Y%m%d").astype(int)):
        lines, schema = one(values)
        assert "min: 2015-01-01" in lines
        assert any(line in ('missing: ["1900-01-01"]', "missing: [19000101]") for line in lines)
        assert schema.domain["c"] < 100


def test_numbers_with_eight_digits_are_no_dates():
    lines, _ = one(rng().integers(10**7, 10**8, 50).repeat(40))
    assert "type: date" not in lines
    lines, _ = one([f"{i % 12}.{i % 30}" for i in range(ROWS)])
    assert "type: date" not in lines


# -- amounts ----------------------------------------------------------------------------------------------------------


def test_a_value_that_many_have_is_drawn_exactly():
    draws = rng()
    table = pd.DataFrame(
        {
            "gain": np.where(draws.random(ROWS) < 0.7, 0, draws.integers(1000, 30_000, ROWS)),
            "tip": np.where(draws.random(ROWS) < 0.35, 0.0, draws.gamma(2, 2, ROWS).round(2)),
            "wage": np.where(draws.random(ROWS) < 0.2, 7.25, draws.gamma(3, 5, ROWS)),
            "top": np.minimum(draws.gamma(2, 30_000, ROWS).astype(int), 99_999),
        }
    )
    text = draft(table)
    assert text.count("points: [0]") == 2
    assert "points: [7.25]" in text
    assert "points: [99999]" in text
    made = synthetic(table)
    for name, value in {"gain": 0, "tip": 0.0, "wage": 7.25, "top": 99_999}.items():
        assert abs((made[name] == value).mean() - (table[name] == value).mean()) < 0.03


def test_bins_grow_where_most_amounts_are_small():
    lines, schema = one(np.exp(rng().normal(3, 1.5, ROWS)).round(2))
    assert any(line.startswith("edges: [0, ") and ", 70, 100, 150, 200, " in line for line in lines)
    counts = schema.encode(pd.DataFrame({"c": np.exp(rng().normal(3, 1.5, ROWS)), "beside": "x"})).project("c").values
    assert counts.max() < 0.3 * ROWS


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(st.just(0.0), st.floats(-1e6, 1e6), st.integers(0, 10**6).map(lambda x: x / 100)),
        min_size=30,
        max_size=60,
    ),
    st.integers(1, 40),
)
def test_every_range_has_its_values_and_draws_no_others(values, copies):
    table = pd.DataFrame({"c": values + values[:1] * copies})
    schema = public(draft(table))
    if "c" not in schema.domain:
        return
    assert schema.check(table).columns[0].clipped == 0
    drawn, span = schema.decode(schema.encode(table), seed=0)["c"], max(values) - min(values)
    assert drawn.between(min(0, min(values) - span), max(values) + span).all()
    common = table["c"].value_counts()
    if common.iloc[0] >= 0.3 * len(table):
        assert (drawn == common.index[0]).sum() >= common.iloc[0]


# -- what holds between columns ---------------------------------------------------------------------------------------


def test_columns_that_determine_others_are_proposed():
    draws = rng()
    area = draws.integers(0, 30, ROWS)
    table = pd.DataFrame(
        {
            "puma": area * 100 + 101,
            "area": [f"area {x}" for x in area],
            "state": np.array(["OH", "IL", "IN"])[area % 3],
            "zone": np.array(["East", "West", "West"])[area % 3],
            "sex": draws.choice(["F", "M"], ROWS),
            "flag": np.where(np.arange(ROWS) == 3, "yes", "no"),
            "own": [f"o{i // 2}" for i in range(ROWS)],
        }
    )
    text = draft(table)
    found = re.findall(r"determines: \{from: (\w+), to: (\w+), table", text)
    assert found == [("puma", "area"), ("puma", "state"), ("state", "zone")]
    kept = text.replace("# constraints:", "constraints:").replace("#   - determines", "  - determines")
    schema = Schema.parse(kept)
    assert len(schema.structural_zeros) == 3
    assert not [one for one in schema.check(table).broken if one.broken]
    table.loc[7, "zone"] = "East" if table.loc[7, "zone"] == "West" else "West"
    assert "to: zone" not in draft(table)


def test_what_holds_by_accident_is_not_proposed():
    table = pd.DataFrame({name: rng().permutation(np.repeat(["a", "b"], [297, 3])) for name in "uvw"})
    table["near"] = np.arange(300) // 2
    assert "determines" not in draft(table)
    assert "determines" not in draft(table.head(12))


# -- drafts of files of offices ---------------------------------------------------------------------------------------


def test_a_few_zeros_do_not_make_codes_of_amounts():
    draws = rng()
    debts = np.where(draws.random(ROWS) < 0.9, 0, draws.integers(1000, 200_000, ROWS))
    lines, schema = one(debts)
    assert "type: integer" in lines
    assert "points: [0]" in lines
    assert schema.check(pd.DataFrame({"c": debts, "beside": "x"})).columns[0].kept == 1
    counties = draws.choice(draws.choice(50_000, 80, replace=False) * 2 + 1, ROWS)
    assert "type: categorical" in one(counties)[0]


def test_numbers_below_what_a_device_detects_are_missing_and_a_low_top_bin_is_odd():
    draws = rng()
    found = np.round(draws.normal(5, 1, ROWS), 1).astype(str).astype(object)
    found[draws.random(ROWS) < 0.2] = "< 0.5"
    lines, schema = one(found)
    assert "type: real" in lines
    rows = int((found == "< 0.5").sum())
    assert f'{MARK}: "< 0.5" ({rows} ROWS) IS NOT A NUMBER, AND BECOMES MISSING.' in lines
    assert schema.check(pd.DataFrame({"c": found, "beside": "x"})).columns[0].missing == rows
    ages = draws.integers(0, 120, ROWS).astype(str).astype(object)
    ages[7] = ">100"
    assert 'missing: [">100"]' in one(ages)[0]


def test_codes_with_exponents_fit_their_draft():
    values = ["1e+05", "2e+05", "50"] * 200
    lines, schema = one(values)
    assert "values: [50, 100000, 200000]" in lines
    table = pd.DataFrame({"c": values, "beside": "x"})
    assert schema.check(table).columns[0].kept == 1
    assert schema.check(pl.from_pandas(table).lazy()).columns[0].kept == 1


def test_persons_with_a_row_each_are_no_unit():
    text = draft(pd.DataFrame({"email": [f"u{i}@example.org" for i in range(300)], "sex": ["F", "M", "F"] * 100}))
    assert "unit:" not in text
    assert "ITS 300 VALUES ALL DIFFER" in text


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_infinite_numbers_are_drafted_in_silence():
    table = pd.DataFrame({name: rng().normal(size=300) for name in "abc"})
    table.iloc[::7] = np.inf
    table.iloc[::11, 0] = -np.inf
    assert "VALUES ARE INFINITE" in draft(table)


@pytest.mark.parametrize("mark", [" ", "\u00a0", "\u202f", "'", "\u2019"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_separators_of_thousands_are_met(mark, decimal):
    amounts = np.round(rng().gamma(2, 2000, ROWS), 2)
    texts = [f"{amount:,.2f}".replace(".", "p").replace(",", mark).replace("p", decimal) + " €" for amount in amounts]
    lines, schema = one(texts)
    assert {"type: real", "decimals: 2"} <= set(lines)
    found = schema.encode(pd.DataFrame({"c": texts, "beside": "x"})).project(("c",)).values
    assert found.tolist() == schema.encode(pd.DataFrame({"c": amounts, "beside": "x"})).project(("c",)).values.tolist()


def test_numbers_in_groups_that_are_no_thousands_stay_texts():
    draws = rng()
    numbers = [" ".join(map(str, row)) for row in draws.integers(100, 1000, (300, 3))]
    pressures = [f"{high} {low}" for high, low in zip(*draws.integers(60, 180, (2, 300)), strict=True)]
    for texts in (numbers, pressures):
        assert "LEFT OUT" in one(texts)[0][0]


def test_clocks_and_durations_are_told_apart():
    minutes = rng().integers(0, 1440, ROWS)
    clocks = np.array([f"{minute // 60:02d}:{minute % 60:02d}" for minute in minutes], dtype=object)
    clocks[::20] = "99:99"
    assert "type: time" in one(clocks)[0]
    runs = [f"00:{minute % 60:02d}:{minute % 7:02d}" for minute in minutes]
    lines, schema = one(runs)
    assert "type: duration" in lines
    assert not schema.check(pd.DataFrame({"c": runs, "beside": "x"})).columns[0].remarks
    assert any("MINUTES:SECONDS" in line for line in one([f"{60 + minute}:15" for minute in minutes])[0])
    assert not any("MINUTES:SECONDS" in line for line in one([f"{60 + minute}:15:00" for minute in minutes])[0])


def test_names_and_values_of_several_lines_stay_on_one():
    table = pd.DataFrame({"first\nsecond": ['a\n"b"\t\\', "c"] * 50})
    text = draft(table)
    assert r'values: ["a\n\"b\"\t\\", c]' in text
    found = str(public(text).check(table))
    assert r"first\nsecond" in found
    assert len(found.split("\n")) == 6


def test_zero_has_no_sign():
    assert "values: [-0.1, 0, 0.1]" in one([f"{number:.1f}" for number in (-0.1, -0.0, 0.1)] * 40)[0]


def test_what_is_proposed_together_can_be_stated_together():
    draws = rng()
    table = pd.DataFrame({"male": draws.integers(20, 60, 500), "female": draws.integers(0, 20, 500)})
    table["total"] = table.male + table.female
    table["region"] = draws.integers(0, 400, 500)
    table["place"] = table.region + draws.integers(1, 9, 500) / 10
    table["low"], table["high"] = draws.integers(0, 300, 500), draws.integers(1, 200, 500)
    table["high"] = table.low + table.high
    text = draft(table)
    assert "#   - sum: {total: [male, female]}" in text
    assert "#   - ordered: [low, high]" in text
    assert "[region, place]" not in text  # one has decimals, and a schema orders columns of one type
    stated = re.sub("^#   - ", "  - ", text.replace("# constraints:", "constraints:"), flags=re.M)
    assert not [one for one in public(stated).check(table).broken if one.broken]


def test_few_numbers_in_a_notation_are_labels():
    draws = rng()
    marks = ["1,0", "1,3", "1,7", "2,0", "5,0"]
    assert 'values: ["1,0", "1,3", "1,7", "2,0", "5,0"]' in one(draws.choice(marks, 500))[0]
    assert 'values: ["0%", "15%", "20%"]' in one(draws.choice(["0%", "15%", "20%"], 500))[0]
    assert "type: integer" in one([f"{number}%" for number in draws.integers(0, 100, 500)])[0]


@pytest.mark.parametrize("name", ["Kundennummer", "PatNr", "Vorname", "Nachname"])
def test_german_names_of_identifiers_are_known(name):
    assert "IS LEFT OUT: IT IS CALLED" in one([f"N{number % 40}" for number in range(400)], name)[0][0]


# -- notations of statistical offices and hospitals -----------------------------------------------------------------


def test_weights_with_a_unit_and_a_decimal_comma_are_numbers():
    lines, _ = one([f"{x:.1f} kg".replace(".", ",") for x in rng().normal(75, 12, ROWS)])
    assert {"type: real", "ignore: [kg]", 'decimal: ","'} <= set(lines)


def test_a_number_apart_from_others_may_mean_a_missing_value():
    lines, _ = one([*rng().integers(18, 80, ROWS), *[99] * 100])
    assert any("99 (100 ROWS) LIES APART FROM ALL OTHERS, WHICH ARE AT MOST 79" in line for line in lines)
    lines, _ = one(rng().integers(0, 100, ROWS))
    assert not any("LIES APART" in line for line in lines)


def test_errors_of_spreadsheets_are_missing_values():
    lines, _ = one([*map(str, rng().random(ROWS)), "#DIV/0!", "#WERT!"])
    assert 'missing: ["#DIV/0!", "#WERT!"]' in lines


def test_a_proportion_ends_at_one():
    lines, _ = one([*rng().random(ROWS).round(3), 1.0])
    assert "max: 1" in lines


# -- words for missing values -----------------------------------------------------------------------------------------

GAP_WORDS = ["k.A.", "k. A.", "unbekannt", "Keine Angabe", "n/a", "s/d", "sin dato", "non renseigné", "NR", "inconnu"]
GAP_WORDS += ["b.d.", "-", ".", ":", "нет данных", "don’t know"]


def drafted_lines(values):
    return guess("x", Tally.of(np.array(values, dtype=object))).described()


def test_words_for_missing_values_are_markers_however_many_and_frequent():
    few = drafted_lines([*"12345" * 4, *GAP_WORDS * 3])
    assert few[:2] == ["type: categorical", "values: [1, 2, 3, 4, 5]"]
    many = drafted_lines([*map(str, range(100)), *GAP_WORDS * 3])
    assert many[:3] == ["type: integer", "min: 0", "max: 99"]
    days = drafted_lines([*(f"2021-03-{day:02}" for day in range(1, 31)), *GAP_WORDS * 3])
    assert days[0] == "type: date"
    for lines in (few, many, days):
        schema = Schema.parse("columns:\n  x: {" + ", ".join(lines) + "}")
        assert schema.described[0].markers >= set(GAP_WORDS)


def test_a_word_for_a_missing_value_among_other_texts_may_be_an_answer():
    def notes(*values):
        return guess("x", Tally.of(np.array(values * 40, dtype=object))).notes

    assert notes("red", "blue", "Unbekannt") == ("Unbekannt IS LISTED AS AN ANSWER: IS IT ONE, OR A MISSING VALUE?",)
    assert notes("red", "blue", "k.A.", "refused") == (
        "k.A. AND refused ARE LISTED AS ANSWERS: ARE THEY ANSWERS, OR MISSING VALUES?",
    )
    assert notes("ND", "SD", "NC", "NR") == ()  # states
    assert guess("x", Tally.of(np.array(["yes", "no", "unknown"] * 40, dtype=object))).lines[0] == "type: categorical"


@pytest.mark.parametrize("texts", [("FALSE", "TRUE"), ("false", "true"), ("False", "True")])
def test_booleans_are_written_as_the_table_writes_them(tmp_path, texts):
    (tmp_path / "t.csv").write_text("\n".join(["c", *texts * 20]) + "\n")
    schema = Schema.parse(draft(tmp_path / "t.csv"))
    data = schema.encode(tmp_path / "t.csv")
    schema.decode(data, written=True).to_csv(tmp_path / "s.csv", index=False)
    assert (tmp_path / "s.csv").read_text() == (tmp_path / "t.csv").read_text()


def test_codes_that_differ_in_a_last_zero_are_labels():
    codes = ["1.1", "1.10", "1.2", "1.20", "2.1"] * 20
    text = draft(pd.DataFrame({"code": codes}))
    assert 'values: ["1.1", "1.2", "1.10", "1.20", "2.1"]' in text
    assert '"1.1" AND "1.10" ARE LISTED AS TWO VALUES: IF THEY ARE ONE NUMBER, WRITE THEM ALIKE.' in text
    assert "values: [1, 1.5, 2]" in draft(pd.DataFrame({"dose": ["1", "1.0", "1.5", "2", "2.0"] * 20}))
    assert "type: real" in draft(pd.DataFrame({"x": [f"{i / 10}" for i in range(500)] + ["1.10"]}))


@pytest.mark.parametrize("marker", [text for text in GAP_TEXTS if text])
@pytest.mark.parametrize("values", [["1", "2", "3"], ["1.5", "2.5"], ["0", "1"]], ids=["whole", "decimal", "binary"])
def test_markers_among_few_numbers_are_missing_and_no_value(marker, values):
    for every in (2, 40):
        column = [marker if i % every == 0 else values[i % len(values)] for i in range(1, 601)]
        text = draft(pd.DataFrame({"x": column}))
        schema = Schema.parse(text)
        assert schema.labels("x")[-1] == "missing"
        assert marker not in schema.labels("x")
        assert schema.encode(pd.DataFrame({"x": column})).project("x").values[-1] == column.count(marker)
