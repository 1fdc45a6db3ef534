"""Survey weights: every record carries its weight, up to a public bound, and weighted answers follow from it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

import pgmest as pg
from pgmest.errors import SchemaError
from pgmest.privacy import AddRemove, Curator, Epsilon, Replace, Rho, audit

COLUMNS = {"sex": {"type": "categorical", "values": ["f", "m"], "outside": "clip"}}
HOSTILE = [
    None,
    "x",
    "",
    float("nan"),
    float("inf"),
    -float("inf"),
    -3.0,
    0,
    0.0,
    1e300,
    1e-300,
    99.99,
    100,
    101,
    "7",
    "1e2",
]


def schema(**weight) -> pg.Schema:
    return pg.Schema.from_dict({"columns": COLUMNS, "weight": {"column": "w", "max": 100, **weight}})


def frame(weights, sex="f") -> pd.DataFrame:
    return pd.DataFrame({"sex": sex, "w": pd.Series(list(weights), dtype=object)})


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20), st.integers(1, 50))
@settings(max_examples=50, deadline=None)
def test_the_weight_of_a_code_is_within_its_range(weights, bins):
    known = schema(bins=bins)
    data = known.encode(frame(weights))
    assert known.weight is not None
    coded = known.weight.attribute.values[data.column("w")]
    off = np.abs(coded - weights)
    assert off.max() <= 0.5 * 100 / bins + 1e-9
    assert (coded[np.array(weights) == 0] == 0).all()
    squares = known.weight.attribute.squares[data.column("w")]
    assert (np.abs(squares - np.square(weights)) <= 2 * 100 * 100 / bins + 1e-6).all()


def test_hostile_weights_count_for_nothing_or_as_the_bound():
    known = schema()
    assert known.weight is not None
    with pytest.warns(UserWarning, match="rows without a value, which count as 0"):
        data = known.encode(frame(HOSTILE))
    values = known.weight.attribute.values[data.column("w")]
    assert values.tolist()[:4] == [0.0] * 4
    assert values.max() <= 100
    assert (values >= 0).all()
    for one, value in zip(HOSTILE, values, strict=True):
        if isinstance(one, int | float) and one > 100:
            assert value == known.weight.attribute.values[-1]
        if isinstance(one, int | float) and one <= 0:
            assert value == 0.0


def test_checks_say_what_the_bound_does_in_every_engine():
    weights = [10.0, 50.0, 150.0, 400.0, 0.0, -1.0, 30.0]
    table = pl.DataFrame({"sex": ["f"] * 7, "w": weights})
    engines = [table.to_pandas(), table, table.lazy(), duckdb.connect().from_arrow(table.to_arrow())]
    for held in engines:
        checked = schema().check(held)
        found = checked.weight
        assert found is not None
        assert (found.rows, found.clipped, found.unweighted) == (7, 2, 2)
        assert (found.whole, found.bounded) == (640.0, 290.0)
        assert "2 of 7 weights are above 100 and count as that, which takes 54.7 % off" in str(checked)
        assert "weight w" in checked.alarming
        values = checked.to_json()["weight"]
        assert values["sum"] == 640.0
        assert values["sum_of_codes"] == pytest.approx(found.coded)
    coarse = schema(bins=1).check(table)
    assert "ranges of 100 change the sum of all weights by" in str(coarse)
    assert "ranges of" not in str(schema(bins=500).check(table))


@pytest.mark.parametrize("decimals", [None, 0])
def test_checks_advise_what_weights_take(decimals):
    """A weight has a max, bins and decimals; points:, missing: and types are of other columns."""
    rng = np.random.default_rng(0)
    weights = {
        "one number": np.where(rng.random(400) < 0.7, 15.0, rng.integers(20, 99, 400)),
        "few numbers": rng.choice([15.5, 80.25], 400),
        "gaps": np.where(rng.random(400) < 0.4, np.nan, 15.0),
        "one range": rng.uniform(1.0, 1.2, 400),
        "texts": np.full(400, "007"),
    }
    for name, values in weights.items():
        described = schema() if decimals is None else schema(decimals=decimals)
        checked = described.check(pl.DataFrame({"sex": ["f"] * 400, "w": values}, strict=False))
        notes = [text for column, text, _ in checked.remarks() if column in ("w", "weight w")]
        for key in ("points", "missing:", "type:", "edges", "unit:", "bins where"):
            assert not any(key in text for text in notes), (name, notes)
    unweighted = schema().check(pl.DataFrame({"sex": ["f"] * 9, "w": [None] * 5 + [3.0] * 4}))
    assert unweighted.alarming == ("weight w",)


def test_pieces_of_a_file_are_counted_together(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("sex,w\n" + "f,120\nm,10\n" * 500, encoding="utf-8")
    found = schema().check(path).weight
    assert found is not None
    assert (found.rows, found.clipped, found.whole, found.bounded) == (1000, 500, 65_000.0, 55_000.0)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"column": "w"}, "max"),
        ({"column": "sex"}, "must not be among the columns"),
        ({"max": 0}, "positive number"),
        ({"max": -5}, "positive number"),
        ({"max": float("inf")}, "."),
        ({"max": "many"}, "number"),
        ({"bins": 0}, "bins"),
        ({"bins": 10**6}, "at most 1,000"),
        ({"max": 99.5, "decimals": 0}, "whole number"),
        ({"min": 3}, "min"),
    ],
)
def test_mistakes(weight, message):
    described = {"column": "w", "max": 100, **weight}
    if weight == {"column": "w"}:
        described = weight
    with pytest.raises(SchemaError, match=message):
        pg.Schema.from_dict({"columns": COLUMNS, "weight": described})


def test_selections_and_files_keep_the_weight(tmp_path):
    known = schema(decimals=0)
    assert known.select(["sex"]).weight is None
    assert known.select(["w", "sex"]).domain == known.domain
    again = pg.Schema.from_dict(known.description)
    assert again.domain == known.domain
    path = tmp_path / "s.yaml"
    path.write_text("columns:\n  sex: {type: categorical, values: [f], other: m}\nweight: {column: w, max: 9}\n")
    loaded = pg.Schema.load(path)
    assert loaded.weight is not None
    assert loaded.weight.column.place.endswith("line 3")
    assert loaded.domain["w"] == 41


# -- privacy ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:column 'w' has rows without a value")
def test_neighboring_tables_differ_by_at_most_the_largest_weight():
    """All pairs of small tables that differ in one row, whatever its weight: their answers, and the noise."""
    known = schema(bins=4)
    assert known.weight is not None
    attribute, domain = known.weight.attribute, known.domain
    query = attribute.query(domain, "sex")
    rows = list(itertools.product(["f", "m"], [None, -1, 0, 3, 99, 1e9]))

    def answer(table) -> np.ndarray:
        data = known.encode(pd.DataFrame(table, columns=pd.Index(["sex", "w"])))
        return query.apply(data.project(("sex", "w")))

    few = [rows[place] for place in (0, 3, 7, 11)]
    before = answer(few)
    changes = [np.abs(answer([*few, row]) - before).sum() for row in rows]
    assert max(changes) == attribute.values.max()
    replaced = max(np.abs(answer([*few[1:], row]) - before).sum() for row in rows)
    data = known.encode(pd.DataFrame(few, columns=pd.Index(["sex", "w"])))
    for neighbors, most in ((AddRemove(), max(changes)), (Replace(), 2 * max(changes))):
        curator = Curator(data, Epsilon(1.0), backend="simulation", seed=0, neighbors=neighbors)
        noisy = curator.measure(("sex", "w"), Epsilon(1.0), query)
        assert noisy.stddev >= most * np.sqrt(2) * 0.98
        assert most >= (replaced if isinstance(neighbors, Replace) else max(changes))


def test_an_audit_of_weighted_counts_finds_no_more_than_the_charge():
    known = schema(bins=4)
    assert known.weight is not None
    query = known.weight.attribute.query(known.domain, "sex")
    one, two = (known.encode(frame([1e9] * count)) for count in (1, 2))

    def total(data: pg.Dataset, seed: int) -> float:
        curator = Curator(data, Rho(0.5), backend="simulation", seed=seed)
        return float(curator.measure(("sex", "w"), Rho(0.5), query).values[0])

    report = audit(total, one, two, trials=1000, delta=1e-3, claim=Rho(0.5))
    assert not report.contradicts(Rho(0.5))
    assert report.rho > 0.1


def test_weights_of_a_dataset_are_refused_with_the_remedy():
    data = pg.Dataset.from_codes(np.zeros((2, 1), dtype=int), {"sex": 2}, weights=[1.0, 2.0])
    with pytest.raises(pg.errors.DataError, match=r"carry its weight as an attribute with a public bound \(`weight:`"):
        Curator(data, Epsilon(1.0), backend="simulation", seed=0)


# -- answers ----------------------------------------------------------------------------------------------------------


def exact_model(data: pg.Dataset, stddev: float = 1e-3):
    tables = [pg.LinearMeasurement(data.project(data.domain).datavector(), data.domain.attributes, stddev)]
    return pg.estimate(tables, data.domain)


def test_weighted_tables_are_those_of_the_records():
    generator = np.random.default_rng(0)
    table = frame(generator.uniform(0, 100, 400)).assign(sex=generator.choice(["f", "m"], 400))
    known = schema(bins=200)
    assert known.weight is not None
    model = exact_model(known.encode(table))
    found = known.weight.attribute.table(model, "sex")
    totals: Any = table.groupby("sex")["w"].sum()
    true = totals.to_numpy(dtype=float)
    assert np.allclose(found.totals.values, true, rtol=5e-3)
    assert np.allclose(found.shares.values, true / true.sum(), atol=3e-3)
    assert known.weight.attribute.table(model, ()).totals.values == pytest.approx(true.sum(), rel=5e-3)
    w, y = table["w"].to_numpy(float), (table["sex"] == "f").to_numpy(float)
    p = w @ y / w.sum()
    assert found.sampling_stderr.values[0] == pytest.approx(np.sqrt(np.sum(w**2 * (y - p) ** 2)), rel=5e-3)
    plain = pg.surveys.WeightAttribute("w", known.weight.attribute.values, np.zeros(model.domain["w"]))
    ends, size = plain.table(model, "sex").interval(design_effect=50.0, kind="noise"), w.sum() ** 2 / (w @ w)
    reach = t.ppf(0.975, size / 50 - 1) * np.sqrt(50.0) * found.sampling_stderr.values  # about six effective draws
    assert np.allclose(ends.high.values - found.totals.values, reach, rtol=0.03)
    for attributes, error in (("w", pg.errors.QueryError), ("x", pg.errors.UnknownAttributeError)):
        with pytest.raises(error):
            known.weight.attribute.table(model, attributes)
    wrong: list[dict[str, Any]] = [{"about": "sample"}, {"design_effect": 0}, {"level": 1.5}]
    wrong.append({"design_effect": float("nan")})
    for options in wrong:
        with pytest.raises(pg.errors.ArgumentError):
            found.interval(**options)


def test_intervals_hold_for_the_sample_and_for_the_population():
    """Samples with unequal probabilities: intervals for the population hold, those for the table do not hold for it."""
    generator = np.random.default_rng(3)
    sex = generator.random(20_000) < 0.3
    chance = np.where(sex, 0.01, 0.03) * generator.uniform(0.5, 1.5, 20_000)
    known = schema(max=250, bins=25)
    assert known.weight is not None
    held = {"population": [], "table": [], "table for the population": []}
    for seed in range(10):
        drawn = generator.random(20_000) < chance
        weights = 1 / chance[drawn]
        weights *= 20_000 / weights.sum()
        table = frame(weights).assign(sex=np.where(sex[drawn], "f", "m"))
        data = known.encode(table)
        noisy = [Curator(data, Rho(5.0), backend="simulation", seed=seed).measure(("sex", "w"), Rho(5.0))]
        found = known.weight.attribute.table(pg.estimate(noisy, data.domain), "sex")
        sample, truth = float(weights[sex[drawn]].sum()), float(sex.sum())
        ends = {
            about: [end.values[0] for end in found.interval(about=about, kind="noise")]
            for about in ("population", "table")
        }
        for name, about, target in (
            ("population", "population", truth),
            ("table", "table", sample),
            ("table for the population", "table", truth),
        ):
            low, high = ends[about]
            held[name].append(low <= target <= high)
    share = {name: np.mean(found) for name, found in held.items()}
    assert share["population"] >= 0.8
    assert share["table"] >= 0.8
    assert share["table for the population"] < share["population"] - 0.15


# -- synthetic tables -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> tuple[pg.Synthesizer, pd.DataFrame]:
    generator = np.random.default_rng(1)
    sex = generator.choice(["f", "m"], 3000)
    table = pd.DataFrame({"sex": sex, "w": generator.integers(1, 60, 3000) + 40 * (sex == "f")})
    made = pg.Synthesizer("mst", epsilon=20.0, backend="simulation").fit(table, schema(decimals=0), seed=0)
    return made, table


def test_rows_carry_weights_and_populations_do_not(fitted):
    made, table = fitted
    rows = made.sample(seed=0)
    assert rows["w"].dtype.kind == "i"
    assert rows["w"].between(0, 100).all()
    true = table.groupby("sex")["w"].sum()
    assert np.allclose(rows.groupby("sex")["w"].sum(), true, rtol=0.05)
    assert np.allclose(made.weighted("sex").totals.values, true, rtol=0.05)
    ends = {about: made.weighted("sex").interval(about=about) for about in ("table", "population")}
    assert ((ends["table"].low.values <= true.to_numpy()) & (true.to_numpy() <= ends["table"].high.values)).all()
    assert (ends["population"].width.values > ends["table"].width.values).all()
    people = made.sample(seed=0, expanded=True)
    assert list(people) == ["sex"]
    assert len(people) == pytest.approx(true.sum(), rel=0.03)
    assert people["sex"].value_counts(normalize=True)["f"] == pytest.approx(true["f"] / true.sum(), abs=0.02)
    women = made.sample(seed=0, expanded=True, given={"sex": "f"})
    assert len(women) == pytest.approx(true["f"], rel=0.05)
    assert len(made.sample(17, seed=0, expanded=True)) == 17
    with pytest.raises(pg.errors.ArgumentError, match="given"):
        made.sample(expanded=True, given=pd.DataFrame({"sex": ["f"]}))


def test_a_schema_without_weight_says_how_to_add_one():
    table = pd.DataFrame({"sex": ["f", "m"] * 100})
    made = pg.Synthesizer("mst", epsilon=1.0, backend="simulation").fit(table, {"columns": COLUMNS}, seed=0)
    for call in (lambda: made.weighted("sex"), lambda: made.sample(expanded=True)):
        with pytest.raises(SchemaError, match="has no weight: add a line such as"):
            call()


def test_files_and_commands_know_the_weight(fitted, tmp_path, capsys):
    from pgmest.cli.main import main

    made, _ = fitted
    path = tmp_path / "model.npz"
    made.save(path)
    again = pg.Synthesizer.load(path)
    assert np.allclose(again.weighted("sex").totals.values, made.weighted("sex").totals.values)
    assert main(["query", str(path), "sex", "--weighted", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)[0]["counts"]
    assert np.allclose(counts, made.weighted("sex").totals.values)
    assert main(["sample", str(path), "--expanded", "--rows", "50", "--out", str(tmp_path / "p.csv")]) == 0
    assert pd.read_csv(tmp_path / "p.csv").shape == (50, 1)


@pytest.mark.parametrize("conditions", [[], ["--given", "sex=f"], ["--given", "w=10..50"]])
def test_weighted_intervals_of_the_command_say_whom_they_are_about(fitted, tmp_path, capsys, conditions):
    from pgmest.cli.main import main

    made, table = fitted
    path = str(tmp_path / "model.npz")
    made.save(path)
    answers = {}
    for about in (None, "table", "population"):
        options = [] if about is None else ["--about", about]
        assert main(["query", path, "sex", "--weighted", "--json", *conditions, *options]) == 0
        (answers[about],) = json.loads(capsys.readouterr().out)
    assert answers[None] == answers["population"]
    assert [answers[about]["about"] for about in ("table", "population")] == ["table", "population"]
    width = {about: np.subtract(one["high"], one["low"]) for about, one in answers.items()}
    w = table["w"].to_numpy()
    own = (table["sex"] == "f").to_numpy() & ((w >= 10) & (w <= 50) if "w=10..50" in conditions else True)
    sampling = np.sqrt((w**2 * (own - w[own].sum() / w.sum()) ** 2).sum())
    assert width["population"][0] >= 2 * 1.9 * sampling
    assert width["population"][0] > width["table"][0]
    if not conditions:
        for about in ("table", "population"):
            ends = made.weighted("sex").interval(about=about)
            assert np.allclose(answers[about]["low"], ends.low.values)
    assert main(["query", path, "sex", "--weighted", *conditions]) == 0
    assert "intervals are about the population (--about population)" in capsys.readouterr().err


def test_counts_without_weights_may_be_about_the_population(fitted, tmp_path, capsys):
    from pgmest.cli.main import main

    made, _ = fitted
    path = str(tmp_path / "model.npz")
    made.save(path)
    found = {}
    for about in ("table", "population"):
        assert main(["query", path, "sex", "--json", "--about", about]) == 0
        (found[about],) = json.loads(capsys.readouterr().out)
        assert found[about]["about"] == about
    assert np.all(np.array(found["population"]["margin"]) > found["table"]["margin"])
