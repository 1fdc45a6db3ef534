"""Linked tables with given values of the root: `sample(given=)` chooses among the fitted rows of the root."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, ImpossibleModelError, QueryError, UnknownAttributeError
from pgmest.schema import LinkedSchema

SCHEMA = LinkedSchema.parse("""
tables:
  homes:
    key: hid
    columns:
      region: {type: categorical, values: [N, S, W], outside: clip}
      rent: {type: integer, min: 0, max: 999, width: 250}
      size: {type: count, of: people}
  people:
    parent: homes
    key: hid
    at_most: 3
    columns:
      sex: {type: categorical, values: [f, m], outside: clip}
      age: {type: integer, min: 0, max: 99, width: 10}
""")


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    region = generator.choice(["N", "S"], 400)
    homes = pd.DataFrame({"hid": range(400), "region": region, "rent": generator.integers(0, 1000, 400), "size": 0})
    sizes = np.where(region == "N", 2, generator.integers(0, 4, 400))
    people = pd.DataFrame({"hid": np.repeat(range(400), sizes), "sex": generator.choice(["f", "m"], sizes.sum())})
    people["age"] = generator.integers(0, 100, len(people))
    return pg.Synthesizer(epsilon=20, backend="simulation").fit({"homes": homes, "people": people}, SCHEMA, seed=0)


@pytest.mark.parametrize("n", [None, 5, 100, 1000])
@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ({"region": "N"}, lambda homes: homes["region"] == "N"),
        ({"homes.region": ["N", "S"]}, lambda homes: homes["region"].isin(["N", "S"])),
        ({"rent": (300, 420)}, lambda homes: homes["rent"].between(300, 420)),  # a part of a bin
        ({"size": (2, None)}, lambda homes: homes["size"] >= 2),
        ({"region": "S", "size": 1}, lambda homes: (homes["region"] == "S") & (homes["size"] == 1)),
    ],
)
def test_all_rows_of_the_root_have_the_given_values(fitted, given, holds, n):
    tables = fitted.sample(n, seed=1, given=given)
    homes, people = tables["homes"], tables["people"]
    assert holds(homes).all()
    assert len(homes) == n or (n is None and len(homes))
    assert homes["hid"].is_unique
    assert people["hid"].isin(homes["hid"]).all()
    assert (people.groupby("hid").size().reindex(homes["hid"], fill_value=0).to_numpy() == homes["size"]).all()


def test_given_rows_of_another_table_are_counted(fitted):
    tables = fitted.sample(60, seed=1, given={pg.HowMany("people", {"sex": "f", "age": (50, None)}): (2, None)})
    old = tables["people"].query("sex == 'f' and age >= 50").groupby("hid").size()
    assert (old.reindex(tables["homes"]["hid"], fill_value=0) >= 2).all()


def test_the_rows_that_have_the_values_are_as_many_as_are_fitted(fitted):
    every, north = fitted.sample(seed=0)["homes"], fitted.sample(seed=0, given={"region": "N"})["homes"]
    assert len(north) == (every["region"] == "N").sum()
    part = fitted.sample(seed=0, given={"rent": (0, 124)})["homes"]  # half of a bin
    assert len(part) == pytest.approx((every["rent"] < 250).sum() / 2, rel=0.4)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"sex": "f"}, QueryError, "count rows with pgmest.HowMany"),
        ({"regoin": "N"}, UnknownAttributeError, "region"),
        ({"region": "X"}, QueryError, "'region' is X"),
        (pd.DataFrame({"region": ["N"]}), ArgumentError, "drawn as a whole"),
        ({len: 3}, ArgumentError, "columns of 'homes'"),
        ({pg.HowMany("people", {"age": (53, None)}): (1, None)}, ArgumentError, "a part of a bin of 'age'"),
        ({"size": 0, "region": "N"}, ImpossibleModelError, "no synthetic row of 'homes' has size=0, region='N'"),
    ],
)
def test_what_cannot_be_given_is_refused(fitted, given, error, match):
    with pytest.raises(error, match=match):
        fitted.sample(10, seed=0, given=given)


def test_given_values_and_orders_with_rows_below_hold_together():
    schema = LinkedSchema.parse("""
tables:
  patients:
    key: pid
    columns:
      born: {type: integer, min: 0, max: 99, width: 50}
      died: {type: integer, min: 0, max: 99, width: 50}
    constraints:
      - ordered: [born, died]
  visits:
    parent: patients
    key: pid
    at_most: 3
    columns:
      day: {type: integer, min: 0, max: 99, width: 10}
    constraints:
      - ordered: [patients.born, day]
""")
    generator = np.random.default_rng(0)
    born = generator.integers(0, 100, 300)
    died = generator.integers(born, 100)
    keys = np.repeat(np.arange(300), generator.integers(0, 4, 300))
    patients = pd.DataFrame({"pid": range(300), "born": born, "died": died})
    visits = pd.DataFrame({"pid": keys, "day": generator.integers(born[keys], 100)})
    synthesizer = pg.Synthesizer(epsilon=20, backend="simulation").fit(
        {"patients": patients, "visits": visits}, schema, seed=0
    )
    tables = synthesizer.sample(300, seed=0, given={"born": (0, 49), "died": (0, 49)})
    made = tables["visits"].merge(tables["patients"], on="pid")
    assert tables["patients"][["born", "died"]].lt(50).all(axis=None)
    assert (tables["patients"]["born"] <= tables["patients"]["died"]).all()
    assert (made["born"] <= made["day"]).all()
    every = synthesizer.sample(3000, seed=1)["patients"].query("born < 50 and died < 50")["born"]
    given_rows = synthesizer.sample(3000, seed=2, given={"born": (0, 49), "died": (0, 49)})["patients"]["born"]
    assert given_rows.mean() == pytest.approx(every.mean(), abs=1.5)  # as among unconditioned draws with these values
    for given in ({"born": (20, 30)}, {"patients.born": 20}, {"died": (60, 70)}):  # days may leave such rows no value
        with pytest.raises(ArgumentError, match="takes a part of a bin"):
            synthesizer.sample(300, seed=0, given=given)
