"""Names are data: linked tables and columns called like anything inside the package are fitted right, or refused."""

import itertools
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import PgmestError, SchemaError

WORDS = ("another of ", "next of ", "pairs of ", "number of ", "another of another of ", "of ", "Another of ", "")
TABLES = ("t", "h", "rows", "codes", "answers", "table", "records", "weight", "unit", "parent", "null", "a@b", "a:b, c")
TABLES += ("a=b", "../x", "{0}", "%s", "<b>", "__class__", "another", "another of", "number of", "pairs of", "é")
COLUMNS = ("x", "index", "records", "number of records", "x@level", "given x", "t.x", ".", "count", "low", "weight_")

GENERATOR = np.random.default_rng(0)
HOMES, PEOPLE = 60, 150
OWNERS = np.sort(GENERATOR.integers(0, HOMES, PEOPLE))
CODES = {"home": GENERATOR.integers(0, 3, HOMES), "person": GENERATOR.integers(0, 4, PEOPLE)}


def fitted(parent: str, child: str, column: str, inside: str, ordered: bool, charged: list[object]) -> pg.Synthesizer:
    """Return the fit of the same records in tables and columns with these names."""
    order = {"order": inside} if ordered else {}
    kinds = [{"type": "integer", "min": 0, "max": most} for most in (2, 3)]
    tables = {
        parent: {"key": "hid", "columns": {column: kinds[0]}},
        child: {"parent": parent, "key": "hid", "at_most": 9, "columns": {inside: kinds[1]}, **order},
    }
    homes = pd.DataFrame({"hid": range(HOMES), column: CODES["home"]})
    people = pd.DataFrame({"hid": OWNERS, inside: CODES["person"]})
    schema = pg.Schema.from_dict({"tables": tables})
    synthesizer = pg.Synthesizer(rho=10.0, backend="simulation")
    return synthesizer.fit({parent: homes, child: people}, schema, seed=0, progress=charged.append)


@cache
def expected(ordered: bool) -> list[list[object]]:
    """Return what is released with ordinary names."""
    names = "households", "persons", "region", "age"
    return released(fitted(*names, ordered, []), *names)


def released(synthesizer: pg.Synthesizer, parent: str, child: str, column: str, inside: str) -> list[list[object]]:
    made = synthesizer.sample(seed=0)
    counts = [
        synthesizer.interval(f"{parent}.{column}", table=parent),
        synthesizer.interval(f"{child}.{inside}", table=child),
        synthesizer.interval([f"number of {child}", f"{parent}.{column}"], table=parent),
        synthesizer.interval([f"{parent}.{column}", f"{child}.{inside}"], table=child),
        synthesizer.interval(pg.HowMany(child, {inside: 1})),
    ]
    if column != inside:
        counts += [synthesizer.interval(name) for name in (column, inside)]
    else:
        counts += counts[:2]
    return [made[parent][column].tolist(), made[child][inside].tolist(), *(one["count"].tolist() for one in counts)]


def is_right(parent: str, child: str, column: str, inside: str, ordered: bool = False) -> bool:
    """Return False if the names are refused before anything is paid; assert that they change nothing otherwise."""
    charged: list[object] = []
    try:
        synthesizer = fitted(parent, child, column, inside, ordered, charged)
    except PgmestError as error:
        problem = str(error)
    else:
        assert released(synthesizer, parent, child, column, inside) == expected(ordered)
        return True
    assert (charged, "name" in problem) == ([], True)
    return False


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("ordered", [False, True])
def test_a_root_named_like_something_about_its_child(word, ordered):
    refused = word in ("another of ", "next of ", "pairs of ", "another of another of ")
    parent = f"{word}persons" if word else "households"
    assert is_right(parent, "persons", "age", "age", ordered) != refused


@pytest.mark.parametrize(
    ("column", "inside", "right"),
    [
        ("number of persons", "age", False),
        ("age", "number of persons", False),
        ("persons.age", "age", False),
        ("another of persons.age", "age", False),
        ("age", "next of persons.age", True),
        ("region", "households.region", False),
        ("households.region", "persons.age", True),
        ("number of persons rows", "another of age", True),
        ("persons.age", "height", True),
    ],
)
def test_columns_named_like_something_about_their_tables(column, inside, right):
    assert is_right("households", "persons", column, inside) == right


@settings(max_examples=10, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_any_names_are_fitted_right_or_refused(data):
    parent, child = (
        data.draw(st.sampled_from(WORDS)) + data.draw(st.sampled_from(TABLES), f"table {number}") for number in (1, 2)
    )
    own = [*COLUMNS, *(f"{word}{table}{end}" for word in WORDS for table in (parent, child) for end in ("", ".x"))]
    column, inside = (data.draw(st.sampled_from(own), f"column {number}") for number in (1, 2))
    assume(parent != child)
    is_right(parent, child, column, inside, data.draw(st.booleans(), "ordered"))


def test_numbers_of_rows_of_tables_whose_names_end_alike_are_apart():
    kind = {"type": "boolean"}
    tables = {"homes": {"key": "hid", "columns": {"x": kind}}}
    for name in ("persons", "jobs of persons"):
        tables[name] = {"parent": "homes", "key": "hid", "at_most": 3, "columns": {"x": kind}}
    rows = {"homes": range(40), "persons": np.repeat(range(40), 3), "jobs of persons": range(20)}
    frames = {name: pd.DataFrame({"hid": hung, "x": True}) for name, hung in rows.items()}
    synthesizer = pg.Synthesizer(rho=1e3, backend="simulation").fit(frames, {"tables": tables}, seed=0, progress=False)
    for name, mean in (("persons", 3.0), ("jobs of persons", 0.5)):
        by_name = synthesizer.interval([f"number of {name}"], measure="mean")
        assert float(by_name["mean"].iloc[0]) == pytest.approx(mean, abs=0.2)


def test_a_name_that_a_count_and_a_column_have_is_ambiguous():
    tables = {
        "homes": {"key": "hid", "columns": {"size": {"type": "count", "of": "people"}}},
        "people": {
            "parent": "homes",
            "key": "hid",
            "at_most": 9,
            "columns": {"size": {"type": "integer", "min": 0, "max": 3}},
        },
    }
    sizes = np.bincount(OWNERS, minlength=HOMES)
    homes = pd.DataFrame({"hid": range(HOMES), "size": sizes})
    people = pd.DataFrame({"hid": OWNERS, "size": CODES["person"]})
    synthesizer = pg.Synthesizer(rho=1e5, backend="simulation")
    synthesizer.fit({"homes": homes, "people": people}, {"tables": tables}, seed=0, progress=False)
    with pytest.raises(pg.errors.ArgumentError, match=r"'size' may be homes\.size, people\.size: name the table"):
        synthesizer.interval("size")
    assert len(synthesizer.interval("people.size")) == 4
    assert len(synthesizer.interval("homes.size")) == 10


def test_a_column_that_is_also_the_name_of_a_level_is_refused():
    tree = {"type": "categorical", "values": ["a", "b"], "other": "o", "hierarchy": {"area": {"x": ["a"], "y": ["b"]}}}
    for kind in ({"type": "boolean"}, {"type": "integer", "bounds": "bought"}):
        with pytest.raises(SchemaError, match="'city@area' must have another name, which is not that of level 'area'"):
            pg.Schema.from_dict({"columns": {"city": tree, "city@area": kind}})


def test_every_pair_of_special_words_is_read_or_refused_by_the_schema():
    kind = {"type": "boolean"}
    for first, second in itertools.permutations((f"{word}t" for word in WORDS), 2):
        tables = {first: {"key": "hid", "columns": {"x": kind}}}
        tables[second] = {"parent": first, "key": "hid", "at_most": 2, "columns": {"x": kind}}
        words = ("another of ", "next of ", "pairs of ")
        if first.startswith(words) or second.startswith(words):
            with pytest.raises(SchemaError, match="must have another name"):
                pg.Schema.from_dict({"tables": tables})
        else:
            assert pg.Schema.from_dict({"tables": tables}).tables == (first, second)
