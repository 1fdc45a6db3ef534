"""Questions about whole households: numbers of rows, functions of the tables, and what such questions refuse."""

from __future__ import annotations

import gc
import json
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pgmest as pg
from pgmest.analyses.combine import combine
from pgmest.data.linked import LinkedDataset
from pgmest.errors import ArgumentError, DuplicateAttributeError, QueryError, UnknownAttributeError
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.trees import family_table
from pgmest.schema import LinkedSchema

SURVEY = """
tables:
  households:
    key: hid
    columns:
      region: {type: categorical, values: [N, S], outside: clip}
      size: {type: count, of: persons}
  persons:
    parent: households
    key: hid
    at_most: 4
    columns:
      age: {type: integer, min: 0, max: 99, width: 25}
      work: {type: boolean}
"""
WORKERS = pg.HowMany("persons", {"work": True}, most=2, name="workers")


def survey() -> dict[str, pd.DataFrame]:
    generator = np.random.default_rng(0)
    homes = pd.DataFrame({"hid": np.arange(200), "region": generator.choice(["N", "S"], 200)})
    homes["size"] = generator.integers(4, size=200)
    people = pd.DataFrame({"hid": np.repeat(homes["hid"], homes["size"])})
    return {
        "households": homes,
        "persons": people.assign(
            age=generator.integers(100, size=len(people)), work=generator.random(len(people)) < 0.5
        ),
    }


@pytest.fixture(scope="module")
def fitted() -> pg.Synthesizer:
    return fit(0)


def fit(seed: int) -> pg.Synthesizer:
    synthesizer = pg.Synthesizer(epsilon=10.0, backend="simulation")
    return synthesizer.fit(survey(), LinkedSchema.parse(SURVEY), seed=seed, progress=False)


def workers(tables: Any) -> Any:
    """Return the number of workers of each household, as numbers of all households."""
    working = tables["persons"][tables["persons"]["work"]]
    return working.groupby("hid").size().reindex(tables["households"]["hid"], fill_value=0)


def test_numbers_of_rows_and_functions_give_the_same_answers(fitted: pg.Synthesizer) -> None:
    counts, found = fitted.interval(WORKERS), fitted.interval(lambda tables: np.minimum(workers(tables), 2))
    assert counts["workers"].tolist() == ["0", "1", "2+"]
    assert found["value"].tolist() == [0, 1, 2]
    for name in ("count", "low", "high"):
        assert np.allclose(counts[name], found[name])
    true = np.bincount(np.minimum(workers(survey()), 2))
    assert ((counts["low"] <= true) & (true <= counts["high"])).all()
    assert (counts["low"] < counts["count"]).all()
    mean = fitted.interval(workers, measure="mean")
    assert mean.pop("basis").tolist() == ["measured"]
    assert mean.to_numpy().tolist() == fitted.interval(WORKERS, measure="mean").to_numpy().tolist()
    assert mean["low"][0] < workers(survey()).mean() < mean["high"][0]


def test_shares_are_of_the_given_households(fitted: pg.Synthesizer) -> None:
    shares = fitted.interval([WORKERS, "region"], measure="share")
    assert list(shares) == ["workers", "region", "share", "low", "high"]
    assert shares["share"].sum() == pytest.approx(1)
    north = fitted.interval([WORKERS], given={"region": "N"}, measure="share")
    part = shares[shares["region"] == "N"]["share"]
    assert np.allclose(north["share"], part / part.sum())
    assert ((north["low"] >= 0) & (north["high"] <= 1)).all()
    several = fitted.interval("region", given={WORKERS: (1, None), "size": {2, 3}}, measure="share", level=0.5)
    assert several["share"].sum() == pytest.approx(1)
    wide = fitted.interval("region", given={WORKERS: (1, None), "size": {2, 3}}, measure="share")
    assert (wide["low"] <= several["low"]).all()
    tables = fitted.sample()
    kept = (workers(tables) >= 1).to_numpy() & tables["households"]["size"].isin([2, 3]).to_numpy()
    assert several["share"][0] == pytest.approx((tables["households"]["region"][kept] == "N").mean())


def test_means_are_of_each_cell(fitted: pg.Synthesizer) -> None:
    means = fitted.interval([pg.HowMany("persons", name="persons"), "size", WORKERS], measure="mean")
    there = means["mean"].notna()
    assert np.allclose(means["mean"][there], means["size"][there].astype(int))
    assert not there[means["size"] == "0"].all()  # nobody works in a household of nobody
    assert (means["low"][~there] == 0).all()
    size = fitted.interval("size", measure="mean")["mean"][0]
    assert size == pytest.approx(fitted.sample()["households"]["size"].mean())
    capped = pg.HowMany("persons", most=1)
    assert fitted.interval(capped, measure="mean")["mean"][0] > 1  # a mean is of numbers, not of "1+"


def test_a_mean_of_years_is_as_sure_as_one_of_ages(fitted: pg.Synthesizer) -> None:
    ages = fitted.interval([workers, "region"], measure="mean")
    years = fitted.interval([lambda tables: 2000 + workers(tables), "region"], measure="mean")
    for name in ("mean", "low", "high"):
        assert np.allclose(years[name] - 2000, ages[name], atol=0.02)


@pytest.mark.parametrize("kind", ["integer", "real"])
def test_a_column_of_numbers_has_a_mean_of_those_that_have_one(kind: str) -> None:
    tables = survey()
    generator = np.random.default_rng(3)
    income = generator.integers(0, 5000, 200).astype(float)
    tables["households"]["income"] = np.where(generator.random(200) < 0.25, np.nan, income)
    column = f"      income: {{type: {kind}, min: 0, max: 4999, width: 500, missing: true}}\n      size:"
    schema = LinkedSchema.parse(SURVEY.replace("      size:", column))
    model = pg.Synthesizer(epsilon=50.0, backend="simulation").fit(tables, schema, seed=0, progress=False)
    found = model.interval("income", measure="mean")
    true = float(np.nanmean(tables["households"]["income"]))
    assert found["mean"][0] == pytest.approx(true, rel=0.1)
    assert 0 <= found["low"][0] <= true <= found["high"][0] <= 4999
    by_region = model.interval(["income", "region"], measure="mean")
    assert by_region["mean"].between(0, 4999).all()
    with pytest.raises(QueryError, match="'region' has no numbers to take the mean of"):
        model.interval("region", measure="mean")


def test_values_may_come_with_keys_in_any_order(fitted: pg.Synthesizer) -> None:
    expected = fitted.interval(workers).to_numpy().tolist()

    def shuffled(tables: Any) -> Any:
        return workers(tables).sample(frac=1, random_state=0)

    def frame(tables: Any) -> Any:
        return shuffled(tables).rename("n").reset_index()

    def array(tables: Any) -> Any:
        return workers(tables).tolist()

    for function in (shuffled, frame, array):
        assert fitted.interval(function).to_numpy().tolist() == expected
    texts = fitted.interval(lambda tables: np.where(workers(tables) > 0, "some", "none"))
    assert texts["value"].tolist() == ["none", "some"]


def test_polars_tables_give_polars_answers() -> None:
    tables = {name: pl.from_pandas(table) for name, table in survey().items()}
    fitted = pg.Synthesizer(epsilon=10.0, backend="simulation").fit(
        tables, LinkedSchema.parse(SURVEY), seed=0, progress=False
    )

    def oldest(tables: Any) -> Any:
        by_home = tables["persons"].group_by("hid").agg(pl.col("age").max())
        return tables["households"].join(by_home, on="hid", how="left").select("hid", pl.col("age").fill_null(0))

    found = fitted.interval(oldest, measure="mean")
    assert isinstance(found, pl.DataFrame)
    assert found["low"][0] < found["mean"][0] < found["high"][0]


def fails(tables: Any) -> Any:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (fails, r"fails raises ZeroDivisionError on the synthetic tables: division by zero"),
        (lambda tables: np.ones((3, 2)), r"shape \(3, 2\)"),
        (lambda tables: None, "returns nothing"),
        (lambda tables: tables["persons"]["age"] > 75, "value for each of the [0-9]+ rows of 'persons'"),
        (lambda tables: "some", "returns 'some'"),
        (lambda tables: workers(tables).sum() / np.float64(0), "a ratio to 0"),
        (lambda tables: workers(tables).max(), "fewer than two units"),
        (lambda tables: float((workers(tables) > 9).sum()), "fewer than two units"),
        (lambda tables: tables["persons"]["age"].median(), "smoothly|fewer than two units"),
        (lambda tables: np.random.default_rng().random(), "smoothly"),
        (lambda tables: len(tables["persons"]) ** 3, "smoothly"),
        (lambda tables: tables["persons"]["age"].iloc[0] + 1000, "smoothly|fewer than two units"),
        (lambda tables: np.arange(len(tables["persons"]) // 2), "values without some units"),
        (lambda tables: tables["persons"].set_index("hid")["age"][:7].rename_axis("id"), "values without some units"),
        (lambda tables: np.zeros(5000), "at most"),
        (lambda tables: tables["persons"].groupby("hid")["age"].max(), "no value for"),
        (lambda tables: tables["persons"].set_index("hid")["age"], "no value for"),
        (lambda tables: pd.concat([workers(tables), workers(tables)[:1]]), "[0-9]+ values for the [0-9]+ rows"),
        (lambda tables: workers(tables) / 0, "no value for"),
        (lambda tables: (workers(tables) + 1) / 0, "an infinite value"),
        (lambda tables: tables["households"], "the columns"),
        (lambda tables: workers(tables).rank(), "ranks"),
        (lambda tables: workers(tables) / workers(tables).sum(), "ranks"),
        (lambda tables: np.arange(len(tables["households"])), "ranks"),
        (lambda tables: np.random.default_rng().random(len(tables["households"])), "random"),
        (lambda tables: [{} for _ in range(len(tables["households"]))], "numbers, truth values or texts"),
        (lambda tables: [[1], *([2, 3] for _ in tables["households"]["hid"][1:])], "numbers, truth values or texts"),
        (
            lambda tables: np.array(["a", *[1.5] * (len(tables["households"]) - 1)], dtype=object),
            "compared|depend|ranks",
        ),
    ],
    ids=[
        *(
            "raises",
            "two columns",
            "nothing",
            "of persons",
            "text",
            "no ratio",
            "largest",
            "none of a kind",
            "median",
            "one random",
        ),
        *(
            "cube",
            "first",
            "other length",
            "other labels",
            "too many",
            "not all",
            "rows of persons",
            "one twice",
            "nan",
            "infinite",
        ),
        *("a table", "rank", "share", "place", "random", "objects", "lists", "none"),
    ],
)
def test_functions_that_give_no_value_of_each_household_are_refused(
    fitted: pg.Synthesizer, function: Any, text: str
) -> None:
    with np.errstate(all="ignore"), pytest.raises(QueryError, match=text):
        fitted.interval(function)


def test_functions_of_all_tables_have_the_intervals_of_the_sums_that_they_are(fitted: pg.Synthesizer) -> None:
    share = fitted.interval(lambda tables: (workers(tables) > 0).mean())
    assert list(share) == ["estimate", "low", "high", "basis"]
    assert share.pop("basis").tolist() == ["measured"]
    expected = fitted.interval(pg.HowMany("persons", {"work": True}, most=1), measure="share").iloc[1, 1:]
    estimate, low, high = expected.astype(float)
    assert share["estimate"][0] == pytest.approx(estimate)
    assert np.allclose(share.iloc[0, 1:], (low, high), atol=0.2 * (high - low))
    counts = fitted.interval(lambda tables: np.bincount(np.minimum(workers(tables), 2), minlength=3))
    assert counts["value"].tolist() == [0, 1, 2]
    assert set(counts.pop("basis")) == {"measured"}
    assert np.allclose(counts.iloc[:, 1:], fitted.interval(WORKERS).iloc[:, 1:].astype(float))
    by_work = fitted.interval(lambda tables: tables["persons"].groupby("work")["age"].mean(), level=0.9)
    assert by_work["value"].tolist() == [False, True]
    assert (by_work["low"] < by_work["estimate"]).all()
    ages = fitted.interval(lambda tables: tables["persons"].groupby("hid")["age"].std().mean()).iloc[0]
    assert ages["basis"] == "dependence"  # how far ages of one household are apart follows from no answer
    assert ages["low"] < survey()["persons"].groupby("hid")["age"].std().mean() < ages["high"]
    ratio = fitted.interval(lambda tables: np.corrcoef(workers(tables), tables["households"]["size"])[0, 1])
    true = np.corrcoef(workers(survey()), survey()["households"]["size"])[0, 1]
    assert ratio["low"][0] < true < ratio["high"][0]


def test_values_of_a_function_keep_their_labels_in_whatever_order_they_come(fitted: pg.Synthesizer) -> None:
    sorted_once = fitted.interval(lambda tables: tables["households"]["region"].value_counts().sort_index())
    found = fitted.interval(lambda tables: tables["households"]["region"].value_counts())
    assert set(found["value"]) == {"N", "S"}
    for table in (found, sorted_once):
        assert set(table.pop("basis")) == {"measured"}
    assert np.allclose(found.set_index("value").loc[["N", "S"]], sorted_once.set_index("value"))


def test_functions_may_change_the_tables_that_they_get(fitted: pg.Synthesizer) -> None:
    expected = fitted.interval([WORKERS, "region"])["count"].tolist()

    def changes(tables: Any) -> Any:
        tables["households"]["region"] = "N"
        tables["persons"]["work"] = False
        return workers(tables)

    assert fitted.interval(changes)["changes"].tolist() == [0]
    assert fitted.interval([WORKERS, lambda tables: tables["households"]["region"]])["count"].tolist() == expected


def test_a_synthesizer_that_was_asked_is_pickled(fitted: pg.Synthesizer) -> None:
    expected = fitted.interval(WORKERS).to_numpy().tolist()
    assert pickle.loads(pickle.dumps(fitted)).interval(WORKERS).to_numpy().tolist() == expected


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("2+", "its values are numbers"),
        (None, "its values are numbers"),
        (float("nan"), "its values are numbers"),
        ({"1"}, "its values are numbers"),
        ((1, 2, 3), "a range of two ends"),
        (("a", None), "its values are numbers"),
        ({1: 2}, "its values are numbers"),
        ((), "a range of two ends"),
        ([], "no value"),
        ((3, 1), "no value"),
    ],
    ids=["label", "none", "nan", "text", "three ends", "text ends", "mapping", "no ends", "empty", "crossed"],
)
def test_conditions_that_allow_no_number_are_refused(fitted: pg.Synthesizer, wanted: Any, text: str) -> None:
    for given in (WORKERS, "size", workers):
        with pytest.raises(QueryError, match=text):
            fitted.interval("region", given={given: wanted})
    with pytest.raises(QueryError, match="its values are texts"):
        fitted.interval("size", given={lambda tables: tables["households"]["region"]: 1})


@pytest.mark.parametrize("homes", [0, 1, 200])
def test_tables_smaller_than_the_noise_have_wide_intervals(homes: int) -> None:
    tables = survey()
    kept = {name: table[table["hid"] < homes] for name, table in tables.items()}
    fitted = pg.Synthesizer(epsilon=0.02 if homes else 1.0, backend="simulation").fit(
        kept, LinkedSchema.parse(SURVEY), seed=0, progress=False
    )
    counts, means = fitted.interval(WORKERS), fitted.interval([WORKERS, "region"], measure="mean")
    true = np.bincount(np.minimum(workers(kept), 2), minlength=3)
    assert ((counts["low"] <= true) & (true <= counts["high"])).all()
    assert (counts["high"] > homes).all()
    assert means[["low", "high"]].to_numpy().tolist() == [[0, 4], [0, 4]]
    assert fitted.interval(lambda tables: workers(tables), measure="mean")["high"][0] == np.inf


def test_pyarrow_tables_give_pyarrow_answers() -> None:
    tables = {name: pa.Table.from_pandas(table, preserve_index=False) for name, table in survey().items()}
    fitted = pg.Synthesizer(epsilon=10.0, backend="simulation").fit(
        tables, LinkedSchema.parse(SURVEY), seed=0, progress=False
    )
    found = fitted.interval(lambda tables: tables["households"]["region"])
    assert isinstance(found, pa.Table)
    assert found["value"].to_pylist() == ["N", "S"]


def test_huge_values_have_finite_intervals(fitted: pg.Synthesizer) -> None:
    ends = ["mean", "low", "high"]
    small = fitted.interval(workers, measure="mean")[ends].to_numpy()
    huge = fitted.interval(lambda tables: workers(tables) * 1e200, measure="mean")[ends].to_numpy()
    assert np.allclose(huge / 1e200, small, rtol=0.2)


def test_questions_that_have_no_answer_say_what_has(fitted: pg.Synthesizer) -> None:
    with pytest.raises(QueryError, match=r"HowMany\('persons', \{'work': value\}\)"):
        fitted.interval([WORKERS, "work"])
    with pytest.raises(UnknownAttributeError, match="regoin"):
        fitted.interval([WORKERS, "regoin"])
    with pytest.raises(ArgumentError, match="households"):
        fitted.interval(WORKERS, table="persons")
    with pytest.raises(ArgumentError, match="kind"):
        fitted.interval(WORKERS, kind="noise")
    with pytest.raises(ArgumentError, match="measure"):
        fitted.interval(WORKERS, measure="median")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="attributes"):
        fitted.interval([WORKERS, 3])
    with pytest.raises(DuplicateAttributeError):
        fitted.interval([WORKERS, WORKERS])
    with pytest.raises(ArgumentError, match="table"):
        fitted.interval(pg.HowMany("visits"))
    with pytest.raises(UnknownAttributeError, match="wrok"):
        fitted.interval(pg.HowMany("persons", {"wrok": True}))
    with pytest.raises(QueryError, match="of rows of 'persons'"):
        fitted.interval("persons.work", measure="share")
    with pytest.raises(QueryError, match="a mean is of an attribute"):
        fitted.interval([], measure="mean")
    with pytest.raises(QueryError, match="no numbers"):
        fitted.interval("region", measure="mean")
    with pytest.raises(QueryError, match="no synthetic unit"):
        fitted.interval("region", given={WORKERS: (1, None), "size": 0}, measure="share")
    with pytest.raises(ArgumentError, match="combinations"):
        fitted.interval([pg.HowMany("persons", most=10**9)])
    for wrong in (
        {"table": 3},
        {"table": "persons", "given": "work"},
        {"table": "persons", "most": 0},
        {"table": "a", "given": {1: 2}},
    ):
        with pytest.raises(ArgumentError):
            pg.HowMany(**wrong)  # type: ignore[arg-type]


def test_a_single_table_has_no_such_questions() -> None:
    table = pd.DataFrame({"sex": ["F", "M"] * 50})
    schema = {"columns": {"sex": {"type": "categorical", "values": ["F", "M"], "outside": "clip"}}}
    fitted = pg.Synthesizer("independent", epsilon=1.0, backend="simulation").fit(table, schema, seed=0)
    with pytest.raises(ArgumentError, match="measure"):
        fitted.interval("sex", measure="share")
    with pytest.raises(ArgumentError, match="single table"):
        fitted.interval(len)


def test_sets_of_tables_differ_in_their_weights(fitted: pg.Synthesizer) -> None:
    sets = fitted.sample_tables(60, seed=0)
    first = sets[0]
    homes, people = first["households"], first["persons"]
    assert people["hid"].isin(homes["hid"]).all()
    assert homes["size"].tolist() == people.groupby("hid").size().reindex(homes["hid"], fill_value=0).tolist()
    assert people["weight"].tolist() == homes.set_index("hid")["weight"][people["hid"]].tolist()
    assert homes["weight"].min() > 0
    for other in sets[1:]:
        for name, table in other.items():
            assert table.drop(columns="weight").equals(first[name].drop(columns="weight"))
    assert not homes["weight"].equals(sets[1]["households"]["weight"])
    again = fitted.sample_tables(60, seed=0)
    assert again[7]["persons"].equals(sets[7]["persons"])


def test_intervals_of_sets_of_tables_are_about_those_of_questions(fitted: pg.Synthesizer) -> None:
    """They are wider on average: each weight varies by itself, too, for units of which there is no row."""
    wider = []
    for made in (fitted, *map(fit, range(1, 8))):
        sets = made.sample_tables(60, seed=0)
        means = [np.average(workers(one), weights=one["households"]["weight"]) for one in sets]
        joined, asked = combine([(mean, 0.0) for mean in means], tables=sets), made.interval(workers, measure="mean")
        assert float(joined.estimate) == pytest.approx(asked["mean"][0], abs=0.01)
        low, high = joined.interval()
        wider.append(float(high - low) / (asked["high"][0] - asked["low"][0]))
    assert 0.8 < np.mean(wider) < 1.7


def test_sets_of_tables_of_other_libraries_and_with_a_column_of_that_name() -> None:
    given = {name: pl.from_pandas(table) for name, table in survey().items()}
    given["persons"] = given["persons"].rename({"work": "weight"})
    schema = LinkedSchema.parse(SURVEY.replace("work:", "weight:"))
    made = pg.Synthesizer(epsilon=10.0, backend="simulation").fit(given, schema, seed=0, progress=False)
    sets = made.sample_tables(2, seed=0, about="table")
    assert sets.weight == "weight_"
    assert sets[1]["persons"].columns == ["hid", "age", "weight", "weight_"]
    for wrong, match in (
        ({"m": 1}, "m=1"),
        ({"m": 2, "n": 10}, "all of whose units have weights"),
        ({"m": 2, "attributes": "age"}, "all of whose units have weights"),
        ({"m": 2, "about": "population"}, "combine adds the error of sampling"),
    ):
        with pytest.raises(ArgumentError, match=match):
            made.sample_tables(**wrong)  # type: ignore[arg-type]


def test_the_private_tables_are_gone_when_questions_are_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    schema = LinkedSchema.parse(SURVEY)
    held: list[Any] = []

    def noted(linked: LinkedDataset, child: str) -> Families:
        families = family_table(linked, child)
        held.extend(map(weakref.ref, (families, families.parents, families.children)))
        return families

    monkeypatch.setattr("pgmest.mechanisms.linked.linked_lamp.family_table", noted)
    linked = schema.encode(survey())
    held.append(weakref.ref(linked))
    fitted = pg.Synthesizer(epsilon=10.0, backend="simulation").fit(linked, schema, seed=0, progress=False)
    spent = str(fitted.ledger_)
    del linked
    gc.collect()
    assert len(held) >= 4
    assert not any(one() is not None for one in held)
    assert fitted.interval([WORKERS, "region"]).shape == (6, 5)
    assert str(fitted.ledger_) == spent
    fitted.save(tmp_path / "made.npz")
    with np.load(tmp_path / "made.npz") as members:
        kept = {name: members[name] for name in members.files}
    result: Any = fitted.result_
    run, tables = result.runs["persons"], result.model.tables.values()
    expected = {f"tables/{i}/codes": np.array(table.dataset.columns) for i, table in enumerate(tables)}  # synthetic
    expected |= {"tables/1/parent_rows": result.model.link("persons")[1]}
    expected |= {"runs/0/parents": run.families.parents.T, "runs/0/children": run.families.children.T}
    for name in ("above", "lengths", "numbers"):
        expected |= {f"runs/0/{name}/{i}/values": one.values for i, one in enumerate(getattr(run, name))}
    for name, array in expected.items():
        np.testing.assert_array_equal(kept.pop(name), array, err_msg=name)
    assert all(name == "header" or "/query/" in name for name in kept)
    header = json.loads(kept["header"].tobytes())
    assert set(header) == {"format", "version", "kind", "about", "tables", "runs"}
    assert set(header["about"]) == {"schema", "privacy"}
    assert "seconds" not in json.dumps(header)
