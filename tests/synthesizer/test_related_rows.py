"""Functions of several rows of a household: their intervals hold the truth, or say that they rest on dependence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pgmest as pg

Tables = dict[str, pd.DataFrame]
PERSONS = {
    "role": {"type": "categorical", "values": ["head", "partner", "child"], "outside": "clip"},
    "age": {"type": "integer", "min": 0, "max": 99, "width": 10},
    "work": {"type": "boolean"},
    "income": {"type": "integer", "min": 0, "max": 999, "width": 100},
}
HOUSEHOLDS = {
    "tables": {
        "homes": {"key": "hid", "columns": {"total": {"type": "integer", "min": 0, "max": 2999, "width": 250}}},
        "persons": {
            "parent": "homes",
            "key": "hid",
            "at_most": 5,
            "columns": PERSONS,
            "within": [
                {"exactly": {"role": "head", "count": 1}},
                {"at_most": {"role": "partner", "count": 1}},
            ],
        },
    }
}
PATIENTS = {
    "tables": {
        "patients": {"key": "id"},
        "visits": {
            "parent": "patients",
            "key": "id",
            "at_most": 5,
            "order": "day",
            "columns": {
                "day": {"type": "integer", "min": 0, "max": 364, "width": 14},
                "ward": {"type": "categorical", "values": ["A", "B", "C"], "outside": "clip"},
            },
        },
    }
}


def households(count: int = 1500) -> Tables:
    """Return couples of nearly the same age, their children, who are 25 to 34 years younger, and their incomes."""
    generator, rows = np.random.default_rng(0), []
    for hid, size in enumerate(generator.integers(1, 5, count)):
        age = int(generator.integers(25, 90))
        ages = [age, *([int(np.clip(age + generator.integers(-3, 4), 18, 99))] if size > 1 else [])]
        ages += [max(age - int(generator.integers(25, 35)), 0) for _ in range(size - 2)]
        works = generator.random() < 0.6
        for role, own in zip(("head", "partner", "child", "child"), ages, strict=False):
            working = works and 18 <= own < 67
            rows.append((hid, role, own, working, int(generator.integers(300, 999) if working else 100)))
    persons = pd.DataFrame(rows, columns=["hid", *PERSONS])
    homes = persons.groupby("hid").agg(total=("income", "sum")).reset_index()
    return {"homes": homes, "persons": persons}


def patients(count: int = 1500) -> Tables:
    """Return patients of whom some come again within days, from A to B and back."""
    generator, rows = np.random.default_rng(1), []
    for number in range(count):
        frail, day, ward = generator.random() < 0.3, 0, str(generator.choice(["A", "B", "C"]))
        for _ in range(generator.integers(1, 5)):
            day = min(364, day + int(generator.integers(1, 8) if frail else generator.integers(40, 100)))
            rows.append((number, day, ward))
            ward = {"A": "B", "B": "A"}.get(ward, "C") if frail else str(generator.choice(["A", "B", "C"]))
    return {
        "patients": pd.DataFrame({"id": np.arange(count)}),
        "visits": pd.DataFrame(rows, columns=["id", "day", "ward"]),
    }


def of_homes(tables: Any, values: Any) -> Any:
    """Return a value for each household, 0 for those without one."""
    return values.reindex(tables["homes"]["hid"], fill_value=0)


def ages_of(tables: Any, role: str) -> Any:
    """Return the age of the oldest person with a role, by household."""
    persons = tables["persons"]
    return persons[persons["role"] == role].groupby("hid")["age"].max()


def partners_apart(tables: Any) -> Any:
    return of_homes(tables, (ages_of(tables, "head") - ages_of(tables, "partner")).abs() > 10)


def young_parent(tables: Any) -> Any:
    return of_homes(tables, ages_of(tables, "head") - ages_of(tables, "child") < 18)


def both_work(tables: Any) -> Any:
    persons = tables["persons"]
    return of_homes(tables, persons[persons["role"] != "child"].groupby("hid")["work"].sum() == 2)


def total_is_the_sum(tables: Any) -> Any:
    sums = of_homes(tables, tables["persons"].groupby("hid")["income"].sum()).to_numpy()
    return np.abs(sums - tables["homes"]["total"].to_numpy()) < 300


def three_generations(tables: Any) -> Any:
    ages = tables["persons"].groupby("hid")["age"]
    return of_homes(tables, (ages.max() - ages.median() > 20) & (ages.median() - ages.min() > 20))


def back_in_a_week(tables: Any) -> Any:
    visits = tables["visits"].sort_values(["id", "day"])
    previous = visits.groupby("id")[["day", "ward"]].shift()
    back = (previous["ward"] == "A") & (visits["ward"] == "B") & (visits["day"] - previous["day"] <= 7)
    return back.groupby(visits["id"]).any().reindex(tables["patients"]["id"], fill_value=False)


def with_child(tables: Any) -> Any:
    return of_homes(tables, tables["persons"].groupby("hid")["role"].agg(lambda roles: (roles == "child").any()))


def of_four(tables: Any) -> Any:
    return of_homes(tables, tables["persons"].groupby("hid").size() >= 4)


def workers(tables: Any) -> Any:
    return of_homes(tables, tables["persons"].groupby("hid")["work"].sum() >= 2)


def once_in_ward(tables: Any) -> Any:
    visits = tables["visits"]
    return (visits["ward"] == "A").groupby(visits["id"]).any().reindex(tables["patients"]["id"], fill_value=False)


@pytest.fixture(scope="module")
def fitted() -> dict[str, tuple[pg.Synthesizer, Tables]]:
    def fit(tables: Tables, schema: Any) -> tuple[pg.Synthesizer, Tables]:
        made = pg.Synthesizer(epsilon=2.0, backend="simulation").fit(tables, schema, seed=0, progress=False)
        return made, tables

    return {"homes": fit(households(), HOUSEHOLDS), "visits": fit(patients(), PATIENTS)}


Function = Callable[[Any], Any]
RELATED: list[tuple[Function, str]] = [
    (partners_apart, "homes"),
    (young_parent, "homes"),
    (both_work, "homes"),
    (total_is_the_sum, "homes"),
    (three_generations, "homes"),
    (back_in_a_week, "visits"),
]
COUNTED: list[tuple[Function, str]] = [
    (with_child, "homes"),
    (of_four, "homes"),
    (workers, "homes"),
    (once_in_ward, "visits"),
]


def asked(made: pg.Synthesizer, function: Function) -> tuple[float, float, str]:
    """Return the ends of the share of rows for which a function is true, and their basis."""
    shares = made.interval(function, measure="share")
    true = shares[shares.iloc[:, 0].astype(bool)]
    row = true.iloc[0] if len(true) else shares.assign(low=1 - shares["high"], high=1 - shares["low"]).iloc[0]
    return float(row["low"]), float(row["high"]), str(row["basis"])


@pytest.mark.parametrize(("function", "world"), RELATED)
def test_relations_of_rows_hold_or_rest_on_dependence(fitted: Any, function: Function, world: str) -> None:
    made, tables = fitted[world]
    low, high, basis = asked(made, function)
    assert basis == "dependence" or low <= np.mean(function(tables)) <= high


def test_most_of_them_rest_on_dependence_and_hold_the_truth_all_the_same(fitted: Any) -> None:
    answers = [(*asked(fitted[world][0], function), np.mean(function(fitted[world][1]))) for function, world in RELATED]
    assert sum(basis == "dependence" for *_, basis, _ in answers) >= 4
    assert sum(low <= true <= high for low, high, _, true in answers) >= 5


@pytest.mark.parametrize(("function", "world"), COUNTED)
def test_numbers_of_rows_with_a_code_keep_their_intervals(fitted: Any, function: Function, world: str) -> None:
    made, tables = fitted[world]
    low, high, basis = asked(made, function)
    values = np.asarray(function(made.sample(seed=0))).astype(float)
    narrow = made.result_.unit_interval(values, np.ones(len(values)), counted=True)
    assert basis == "measured"
    assert low <= np.mean(function(tables)) <= high
    assert high - low == pytest.approx(float(narrow.high - narrow.low), rel=0.05)
    assert "basis" not in made.interval(pg.HowMany("persons" if world == "homes" else "visits"))


def test_rows_that_a_rule_asks_for_are_as_sure_as_households(fitted: Any, tmp_path: Path) -> None:
    made, _ = fitted["homes"]
    made.save(tmp_path / "model.npz")
    for asked_one in (made, pg.Synthesizer.load(tmp_path / "model.npz")):
        roles, homes = asked_one.interval("role").set_index("role"), asked_one.interval([])
        widths = roles["high"] - roles["low"]
        assert widths["head"] <= 1.1 * float((homes["high"] - homes["low"]).iloc[0])
        assert widths["head"] < widths["partner"]
