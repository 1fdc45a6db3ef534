"""Rules between rows that a draft of linked tables proposes: they hold, can be uncommented, and are no accidents."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from pgmest.schema import LinkedSchema, draft


def tables_of(count: int = 300, *, bound: bool = True) -> dict[str, pd.DataFrame]:
    """Return families with visits; nothing but keys and sizes binds rows to one another unless `bound`."""
    rng = np.random.default_rng(0)
    homes = pd.DataFrame({"hid": [f"H{home}" for home in range(count)], "region": rng.choice(["N", "S"], count)})
    homes["kind"] = rng.choice([1, 2], count)
    homes["moved"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, count), unit="D")
    sizes = rng.integers(1, 5, count)
    places = np.repeat(np.arange(count), sizes)
    first = np.append(True, places[1:] != places[:-1])
    persons = pd.DataFrame({"hid": homes["hid"].to_numpy()[places]})
    persons["role"] = np.where(first, "head", "child") if bound else rng.choice(["head", "child"], len(places))
    persons["age"] = rng.integers(0, 90, len(places))
    persons["code"] = rng.choice([10, 20, 30], len(places))
    persons["seen"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, len(places)), unit="D")
    if bound:
        persons["age"] = np.where(first, rng.integers(30, 70, count)[places], rng.integers(0, 15, len(places)))
        none = (homes["kind"].to_numpy()[places] == 2) & (persons["code"] == 30)
        persons.loc[none, "code"] = 10
        persons["seen"] = homes["moved"].to_numpy()[places] + pd.to_timedelta(
            rng.integers(0, 90, len(places)), unit="D"
        )
    return {"homes": homes, "persons": persons}


def uncommented(text: str) -> str:
    """Return a draft with all proposed rules and constraints of its linked tables."""
    opened = text.replace("# within:", "within:").replace("# constraints:", "constraints:")
    forms = "exactly|at_most|older|impossible|ordered"
    return re.sub(rf"^( +)#( +- (?:{forms}):)", r"\1 \2", opened, flags=re.MULTILINE)


def test_rules_that_hold_are_proposed_and_can_be_uncommented():
    tables = tables_of()
    text = draft(tables)
    for rule in (
        "exactly: {role: head, count: 1}",
        "impossible: {homes.kind: 2, persons.code: 30}",
        "ordered: [homes.moved, seen]",
    ):
        assert f"#   - {rule}  # READ FROM THE PRIVATE DATA" in text
    (by,) = re.findall(r"older: \{role: head, than: \{role: child\}, by: (\d+), column: age\}", text)
    assert 16 <= int(by) <= 30
    schema = LinkedSchema.parse(uncommented(text))
    assert {"Exactly", "Older", "Impossible"} == {type(rule).__name__ for rule in schema.rules}
    assert [rule for rule in schema.check(tables).rules if rule.broken] == []


def test_sizes_that_exclude_values_are_proposed():
    tables = tables_of()
    tables["homes"]["size"] = tables["persons"].groupby("hid").size().reindex(tables["homes"]["hid"]).to_numpy()
    text = draft(tables)
    assert "impossible: {homes.size: 1, persons.role: child}" in text
    LinkedSchema.parse(uncommented(text))


@pytest.mark.parametrize("form", ["exactly", "older", "impossible", "ordered"])
def test_independent_rows_give_no_rules(form):
    assert f"- {form}:" not in draft(tables_of(bound=False))


def test_a_few_parents_give_no_rules():
    assert "- older:" not in draft(tables_of(15))


def workers() -> dict[str, pd.DataFrame]:
    """Return homes with columns that follow from their people, and people."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"hid": np.repeat(range(400), rng.integers(1, 6, 400))})
    people["emp"] = rng.choice([1, 2, 3, 4], len(people))
    people["job"] = rng.choice(["nurse", "clerk", "none"], len(people))
    people["wage"] = rng.integers(0, 5000, len(people))
    homes = pd.DataFrame({"hid": range(400)})
    by = people.groupby("hid")
    homes["workers"] = people[people["emp"] <= 2].groupby("hid").size().reindex(range(400), fill_value=0)
    homes["income"] = by["wage"].sum()
    homes["top"] = by["wage"].max()
    homes["low"] = by["wage"].min()
    homes["nursed"] = (people["job"] == "nurse").groupby(people["hid"]).any()
    homes["rooms"] = rng.integers(1, 6, 400)
    return {"homes": homes, "people": people}


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ("workers", "THE NUMBER OF ROWS WITH emp 1, 2"),
        ("income", "THE SUM OF wage"),
        ("top", "THE GREATEST wage"),
        ("low", "THE LEAST wage"),
        ("nursed", "WHETHER A ROW HAS job nurse"),
    ],
)
def test_columns_that_follow_from_the_rows_below_are_noticed(column, what):
    text = draft(workers())
    assert f"{column} of homes IS {what}: SYNTHETIC TABLES WILL NOT AGREE." in text
    assert "rooms of homes IS" not in text
    LinkedSchema.parse(text)


@pytest.mark.filterwarnings("error")
def test_the_greatest_and_the_least_are_of_rows_that_have_a_number():
    tables = workers()
    of_one = tables["people"].groupby("hid")["wage"].transform("size") == 1
    tables["people"].loc[~of_one & (tables["people"].index % 7 == 0), "wage"] = np.nan
    by = tables["people"].groupby("hid")["wage"]
    tables["homes"]["top"], tables["homes"]["low"] = by.max(), by.min()
    text = draft({"homes": tables["homes"].dropna(), "people": tables["people"]})
    assert "top of homes IS THE GREATEST wage" in text
    assert "low of homes IS THE LEAST wage" in text
