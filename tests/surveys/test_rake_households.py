"""Weights of whole households: conditions of the optimum, linear programs, SLSQP, and what users get wrong."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

import pgmest as pg
from pgmest.errors import ArgumentError, ControlError, DataError, ShapeError
from tests.surveys.household_tables import AGES, TENURES, amounts, check_closest, feasible, frames

HOMES = pd.DataFrame({"home": [7, 3, 5, 4], "tenure": ["own", "rent", "rent", "own"], "design": [2.0, 1.0, 1.0, 3.0]})
PEOPLE = pd.DataFrame(
    {
        "home": [3, 7, 7, 5, 5, 5, 4],
        "age": ["old", "old", "old", "old", "child", "child", "old"],
        "sex": list("fmfmfmm"),
    }
)
MARGINS = {"households": {"tenure": {"own": 40, "rent": 60}}, "persons": {"age": {"old": 130, "child": 50}}}


def household(draw):
    return draw(st.sampled_from(TENURES)), [draw(st.integers(0, 2)) for _ in AGES]


@st.composite
def seeds(draw, most=6):
    made = [household(draw) for _ in range(draw(st.integers(1, most)))]
    design = draw(st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=len(made), max_size=len(made)))
    return [tenure for tenure, _ in made], [own for _, own in made], np.array(design)


def totals_of(tenures, persons, weights):
    sums = amounts(tenures, persons).T @ weights
    return dict(zip(TENURES, sums[:2], strict=True)), dict(zip(AGES, sums[2:], strict=True))


@settings(max_examples=40)
@given(seeds(), st.data())
def test_weights_are_the_closest_that_meet_totals(seed, data):
    tenures, persons, design = seed
    true = np.array(data.draw(st.lists(st.sampled_from([0, 0, 1, 5, 30]), min_size=len(design), max_size=len(design))))
    tenure, age = totals_of(tenures, persons, true.astype(float))
    homes, people = frames(tenures, persons)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = pg.rake_households(
            homes, people, {"households": {"tenure": tenure}, "persons": {"age": age}}, key="home", weights=design
        )
    matrix, scale = amounts(tenures, persons), max(1.0, float(true.sum()))
    check_closest(matrix, matrix.T @ true, design, found.row_weights, max(scale, float((matrix.T @ true).max())))


@settings(max_examples=40)
@given(seeds(), st.lists(st.sampled_from([0.0, 3.0, 10.0, 12.5]), min_size=5, max_size=5))
def test_totals_are_refused_if_and_only_if_no_weights_meet_them(seed, totals):
    tenures, persons, design = seed
    homes, people = frames(tenures, persons)
    margins = {
        "households": {"tenure": dict(zip(TENURES, totals[:2], strict=True))},
        "persons": {"age": dict(zip(AGES, totals[2:], strict=True))},
    }
    possible = feasible(amounts(tenures, persons), np.array(totals))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            found = pg.rake_households(homes, people, margins, key="home", weights=design)
        except ControlError:
            assert not possible
        else:
            assert possible
            assert np.abs(found.differences).max() <= 1e-7


@settings(max_examples=60)
@given(seeds(), st.lists(st.sampled_from([0.0, 0.0, 1.0, 3.0, 10.0]), min_size=5, max_size=5))
def test_changes_that_an_error_names_are_the_smallest_and_enough(seed, totals):
    """All totals may change, those of 0 too; the least sum of changes is that of a linear program."""
    tenures, persons, _ = seed
    matrix, totals = amounts(tenures, persons), np.array(totals)
    assume(not feasible(matrix, totals) and not np.any((matrix.sum(axis=0) == 0) & (totals > 0)))
    homes, people = frames(tenures, persons)
    margins = {
        "households": {"tenure": dict(zip(TENURES, totals[:2], strict=True))},
        "persons": {"age": dict(zip(AGES, totals[2:], strict=True))},
    }
    with pytest.raises(ControlError, match="The smallest changes after which some do") as error:
        pg.rake_households(homes, people, margins, key="home")
    text = str(error.value).split("smallest changes")[1]
    named = re.findall(r"=('?\w+'?): ([\d.e-]+) -> ([\d.e-]+)\)", text)
    changed = dict(zip([*TENURES, *AGES], totals, strict=True))
    for label, old, new in named:
        assert changed[label.strip("'")] == float(old)
        changed[label.strip("'")] = float(new)
    unit = np.eye(5)
    program = linprog(
        np.r_[np.zeros(len(matrix)), np.ones(10)],
        A_eq=np.hstack([matrix.T, unit, -unit]),
        b_eq=totals,
        bounds=(0, None),
    )
    assert np.abs(np.array([*changed.values()]) - totals).sum() == pytest.approx(program.fun, abs=1e-5)
    assert float(re.findall(r"do, ([\d.e-]+) in all", text)[0]) == pytest.approx(program.fun, abs=1e-5)
    nearest = linprog(
        np.r_[np.zeros(len(matrix)), np.ones(10)],
        A_eq=np.hstack([matrix.T, unit, -unit]),
        b_eq=[*changed.values()],
        bounds=(0, None),
    )
    assert nearest.fun == pytest.approx(0.0, abs=1e-5)


def test_weights_are_those_of_a_convex_solver():
    matrix = np.array([[1, 0, 2, 0], [0, 1, 1, 0], [0, 1, 1, 2], [1, 0, 1, 0]], dtype=float)
    start, totals = HOMES["design"].to_numpy(), np.array([40.0, 60.0, 130.0, 50.0])
    start = start * 100 / start.sum()
    found = pg.rake_households(HOMES, PEOPLE, MARGINS, key="home", weights="design")
    solved = minimize(
        lambda w: np.sum(w * np.log(w / start) - w + start),
        start,
        jac=lambda w: np.log(w / start),
        method="SLSQP",
        bounds=[(1e-9, None)] * 4,
        constraints={"type": "eq", "fun": lambda w: matrix.T @ w - totals, "jac": lambda w: matrix.T},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.allclose(found.row_weights, solved.x, atol=1e-4)
    assert found.weights["weight"].tolist() == found.row_weights.tolist()
    assert found.weights["home"].tolist() == [7, 3, 5, 4]


@settings(max_examples=40)
@given(st.data())
def test_zones_within_zones(data):
    """Tracts have totals of tenures, counties of ages; households of a county serve its tracts."""
    zones = pd.DataFrame({"tract": ["a", "b", "c"], "county": ["x", "x", "y"]})
    own = data.draw(st.booleans())
    tenures = ["own", "rent", "own", "rent", "own", "rent"]
    persons = [data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3)) for _ in tenures]
    counties = ["x", "x", "x", "x", "y", "y"]
    homes, people = frames(tenures, persons, counties if own else None)
    pairs = [(h, z) for h in range(6) for z in range(3) if not own or counties[h] == zones["county"][z]]
    true = np.array(data.draw(st.lists(st.sampled_from([0, 1, 5, 30]), min_size=len(pairs), max_size=len(pairs))))
    matrix = np.zeros((len(pairs), 12))
    for row, (h, z) in enumerate(pairs):
        matrix[row, 2 * z + TENURES.index(tenures[h])] = 1
        matrix[row, 6 + 3 * (zones["county"][z] == "y") : 9 + 3 * (zones["county"][z] == "y")] = persons[h]
    totals = matrix.T @ true
    tracts = {(z, t): totals[2 * i + j] for i, z in enumerate("abc") for j, t in enumerate(TENURES)}
    ages = {(c, a): totals[6 + 3 * i + j] for i, c in enumerate("xy") for j, a in enumerate(AGES)}
    margins = {"households": {("tract", "tenure"): tracts}, "persons": {("county", "age"): ages}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = pg.rake_households(homes, people, margins, key="home", zones=zones)
    table = found.weights
    assert list(table.columns) == ["home", "tract", "weight"]
    place = {pair: row for row, pair in enumerate(pairs)}
    weights = np.zeros(len(pairs))
    for home, tract, weight in table.itertuples(index=False):
        weights[place[home - 100, "abc".index(tract)]] = weight
    scale = max(1.0, float(totals.max()), float(true.sum()))
    start = np.array([max(totals[2 * z : 2 * z + 2].sum(), 1e-9) for _, z in pairs])
    check_closest(matrix, totals, start, weights, scale)
    whole = found.whole(seed=1)
    assert np.all(np.abs(whole.totals["difference"]) <= 1 + 1e-6)


@settings(max_examples=40)
@given(seeds(), st.lists(st.sampled_from([0.0, 3.0, 10.0, 12.5]), min_size=5, max_size=5))
def test_a_penalty_makes_all_totals_possible(seed, totals):
    """Weights change by a factor of at most exp(1.3 x penalty) for each total that a household adds to."""
    tenures, persons, design = seed
    assume(sum(totals[:2]) > 0)
    homes, people = frames(tenures, persons)
    margins = {
        "households": {"tenure": dict(zip(TENURES, totals[:2], strict=True))},
        "persons": {"age": dict(zip(AGES, totals[2:], strict=True))},
    }
    found = pg.rake_households(homes, people, margins, key="home", weights=design, penalty=2.0)
    matrix = amounts(tenures, persons)
    assert np.allclose(matrix.T @ found.row_weights - np.array(totals), found.differences)
    ratios = np.log(found.row_weights / (found.fit.start[found.problem.kind_of] * found.fit.shares))
    assert np.all(np.abs(ratios) <= 2.0 * 1.3 * matrix.sum(axis=1) + 1e-6)


def test_a_penalty_keeps_totals_that_agree_and_misses_the_others():
    margins = {"households": {"tenure": {"own": 40, "rent": 60}}, "persons": {"age": {"old": 130, "child": 500}}}
    with pytest.raises(ControlError):
        pg.rake_households(HOMES, PEOPLE, margins, key="home")
    found = pg.rake_households(HOMES, PEOPLE, margins, key="home", penalty={"age": 4})
    assert np.abs(found.differences[:2]).max() < 1e-6
    missed = found.totals.set_index("category")["difference"]
    assert missed["age='child'"] < -300
    assert "1 of 4 totals missed" in repr(found) or "2 of 4 totals missed" in repr(found)


def test_bounds_hold():
    found = pg.rake_households(HOMES, PEOPLE, MARGINS, key="home", weights="design", bounds=(0.2, 3.0))
    start = HOMES["design"].to_numpy() * 100 / HOMES["design"].sum()
    assert np.all(found.row_weights >= 0.2 * start - 1e-9)
    assert np.all(found.row_weights <= 3.0 * start + 1e-9)
    with pytest.raises(ControlError, match=r"with weights times 0\.9 to 1\.1 the initial ones"):
        pg.rake_households(HOMES, PEOPLE, MARGINS, key="home", weights="design", bounds=(0.9, 1.1))


def test_contradictions_are_named_with_amounts():
    margins = {"households": {"tenure": {"own": 40, "rent": 60}}, "persons": {"age": {"old": 90, "child": 50}}}
    with pytest.raises(ControlError) as error:
        pg.rake_households(HOMES, PEOPLE, margins, key="home")
    text = str(error.value)
    assert "contradict each other: " in text
    assert "(persons: age='old': 90 -> 100)" in text or "tenure=" in text
    assert "penalty=" in text


def test_two_margins_with_different_sums_contradict_each_other():
    margins = {"persons": {"age": {"old": 130, "child": 50}, "sex": {"f": 90, "m": 91}}}
    with pytest.raises(ControlError, match=r"(180|181|91|90|130|50) -> "):
        pg.rake_households(HOMES, PEOPLE, margins, key="home")


def test_all_libraries_give_the_same():
    expected = pg.rake_households(HOMES, PEOPLE, MARGINS, key="home", weights="design")
    for convert in (pl.from_pandas, lambda frame: pl.from_pandas(frame).to_arrow()):
        found = pg.rake_households(convert(HOMES), convert(PEOPLE), MARGINS, key="home", weights="design")
        assert np.allclose(found.row_weights, expected.row_weights)
        assert type(found.weights) is type(convert(HOMES))
        made = found.whole(seed=0).tables()
        assert type(made["persons"]) is type(convert(HOMES))
        assert len(made["persons"]) == 180


def test_missing_labels_and_unknown_totals():
    people = PEOPLE.assign(job=["a", None, "a", None, None, None, "b"])
    margins = {
        "households": {"tenure": {"own": 40, "rent": 60}},
        "persons": {"job": {"a": 50, None: float("nan"), "b": float("nan")}},
    }
    found = pg.rake_households(HOMES, people, margins, key="home")
    assert len(found.totals) == 3
    assert np.abs(found.differences).max() < 1e-6
    margins["persons"]["job"] = {"a": 50, None: 120, "b": float("nan")}
    found = pg.rake_households(HOMES, people, margins, key="home")
    assert found.totals["category"].tolist()[-1] == "job=None"


def test_persons_by_columns_of_their_household():
    margins = {"persons": {("tenure", "age"): {("own", "old"): 50, ("rent", "old"): 40, ("rent", "child"): 30}}}
    found = pg.rake_households(HOMES, PEOPLE, margins, key="home")
    assert np.abs(found.differences).max() < 1e-6


def test_households_without_weight_or_persons():
    homes = pd.concat([HOMES, pd.DataFrame({"home": [8, 9], "tenure": ["boat", "rent"], "design": [0.0, 1.0]})])
    found = pg.rake_households(homes, PEOPLE, MARGINS, key="home", weights="design")
    assert found.row_weights[4] == 0.0
    assert found.row_weights[5] > 0.0
    assert len(found.weights) == 5


def test_a_total_of_zero_excludes_households():
    margins = {"households": {"tenure": {"own": 40, "rent": 60}}, "persons": {"sex": {"f": 60, "m": 0}}}
    with pytest.raises(ControlError, match="tenure='own': 40 -> 0"):
        pg.rake_households(HOMES, PEOPLE, margins, key="home")
    margins["households"]["tenure"] = {"own": 0, "rent": 60}
    found = pg.rake_households(HOMES, PEOPLE, margins, key="home")
    assert np.allclose(found.row_weights, [0.0, 60.0, 0.0, 0.0])


def test_households_that_must_vanish_are_warned_of():
    margins = {"households": {"tenure": {"own": 40, "rent": 60}}, "persons": {"age": {"old": 100, "child": 120}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = pg.rake_households(HOMES, PEOPLE, margins, key="home")
    assert np.allclose(found.row_weights, [0.0, 0.0, 60.0, 40.0], atol=1e-6)


def test_one_household_and_zones_named_by_a_column():
    homes, people = HOMES[:1], PEOPLE[PEOPLE["home"] == 7]
    margins = {
        "households": {"tract": {"a": 3, "b": 0}},
        "persons": {("tract", "age"): {("a", "old"): 6, ("b", "old"): 0}},
    }
    found = pg.rake_households(homes, people, margins, key="home", zones="tract")
    assert found.weights.to_numpy().tolist() == [[7, "a", pytest.approx(3.0)]]
    whole = found.whole()
    assert whole.tables()["households"]["tract"].tolist() == ["a", "a", "a"]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"key": "hid"}, DataError, "has no column 'hid'"),
        ({"key": 3}, ArgumentError, "key"),
        ({"weights": "wt"}, DataError, "table of households has no column 'wt'"),
        ({"weights": [1, 2]}, ShapeError, "weights"),
        ({"weights": [1, -2, 1, 1]}, DataError, "weight in row 1"),
        ({"weights": [0, 0, 0, 0]}, DataError, "positive weight"),
        ({"households": pd.concat([HOMES, HOMES[:1]])}, DataError, "as that of another row"),
        ({"households": HOMES.assign(home=[7, None, 5, 4])}, DataError, "missing"),
        ({"persons": PEOPLE.assign(home=PEOPLE["home"].astype(str))}, DataError, "belong to no household"),
        ({"margins": {"tenure": {"own": 1}}}, ArgumentError, "margins"),
        ({"margins": {"households": {}}}, ArgumentError, "margins"),
        ({"margins": {"households": {"region": {"x": 1}}}}, DataError, "table of households has no column 'region'"),
        ({"margins": {"households": {"age": {"old": 1}}}}, DataError, "table of households has no column 'age'"),
        ({"margins": {"households": {"tenure": {"own": 1}}}}, ControlError, "tenure='rent'"),
        ({"margins": {"households": {"tenure": {"own": 1, "rent": -1}}}}, ArgumentError, "at least 0"),
        ({"margins": {"households": {"tenure": {"own": 1, "rent": float("inf")}}}}, ArgumentError, "finite"),
        ({"margins": {"households": {"tenure": {"own": 1, "rent": 1, "boat": 2}}}}, ControlError, "tenure='boat': 2"),
        ({"zones": "tract"}, ArgumentError, "zones"),
        ({"zones": pd.DataFrame({"tract": ["a", "a"]})}, DataError, "tells its 2 rows apart"),
        ({"zones": pd.DataFrame({"tract": []})}, DataError, "no rows"),
        ({"zones": pd.DataFrame({"tenure": ["own", "ship"]})}, ControlError, "tenure='ship'"),
        (
            {"households": HOMES.assign(county="x"), "zones": pd.DataFrame({"tract": ["a"], "county": ["y"]})},
            ControlError,
            "no households for 1 area by county: 'y'",
        ),
        ({"bounds": (2, 1)}, ArgumentError, "bounds"),
        ({"bounds": 3}, ArgumentError, "bounds"),
        ({"penalty": 0}, ArgumentError, "penalty"),
        ({"penalty": {"ages": 3}}, ArgumentError, "ages"),
        ({"persons": 3}, ArgumentError, "dataframe"),
    ],
)
def test_mistakes_are_named(change, error, text):
    arguments = {"households": HOMES, "persons": PEOPLE, "margins": MARGINS, "key": "home"} | change
    with pytest.raises(error, match=text):
        pg.rake_households(**arguments)


def test_areas_without_totals_and_totals_without_areas():
    zones = pd.DataFrame({"tract": ["a", "b"]})
    tenures = {("a", "own"): 3, ("a", "rent"): 4, ("c", "own"): 2}
    with pytest.raises(ControlError, match="tract='b'"):
        pg.rake_households(HOMES, PEOPLE, {"households": {("tract", "tenure"): tenures}}, key="home", zones=zones)
    tenures["b", "own"] = 1
    with pytest.raises(ControlError, match="tract='c'"):
        pg.rake_households(HOMES, PEOPLE, {"households": {("tract", "tenure"): tenures}}, key="home", zones=zones)
    del tenures["c", "own"]
    found = pg.rake_households(HOMES, PEOPLE, {"households": {("tract", "tenure"): tenures}}, key="home", zones=zones)
    assert found.weights.groupby("tract")["weight"].sum().round(9).to_dict() == {"a": 7.0, "b": 1.0}


@settings(max_examples=30)
@given(seeds(), st.data())
def test_numeric_totals_are_met_and_are_those_of_rake(seed, data):
    """Households alone have the weights of `rake`; an income of persons counts as its sum in the household."""
    tenures, persons, design = seed
    size = len(design)
    true = np.array(data.draw(st.lists(st.sampled_from([1.0, 5.0, 30.0]), min_size=size, max_size=size)))
    homes, people = frames(tenures, persons)
    homes = homes.assign(cars=data.draw(st.lists(st.integers(-1, 3), min_size=size, max_size=size)))
    people = people.assign(income=np.arange(len(people)) * 100.5)
    tenure = {label: true[homes["tenure"] == label].sum() for label in set(tenures)}
    totals = {"tenure": tenure, "cars": float(true @ homes["cars"])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = pg.rake_households(homes, people, {"households": totals}, key="home", weights=design)
        assert np.allclose(found.row_weights, pg.rake(homes, totals, design), rtol=1e-9, atol=1e-9)
    sums = np.bincount(people["home"] - 100, people["income"], minlength=size)
    margins = {"households": totals, "persons": {"income": float(true @ sums)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = pg.rake_households(homes, people, margins, key="home", weights=design)
    assert found.row_weights @ homes["cars"] == pytest.approx(totals["cars"], abs=1e-6)
    assert found.row_weights @ sums == pytest.approx(true @ sums, rel=1e-7, abs=1e-6)
    assert found.totals["category"].tolist()[-2:] == ["total of cars", "total of income"]


def test_numeric_totals_in_zones_by_penalty_and_in_whole_numbers():
    homes = pd.DataFrame({"home": range(6), "tenure": ["own", "rent"] * 3, "cars": [0, 1, 2, 1, 2, 3]})
    people = pd.DataFrame({"home": [0, 1, 1, 2, 3, 4, 5]})
    tenures = {(zone, label): 20 for zone in "ab" for label in TENURES}
    margins = {"households": {("tract", "tenure"): tenures, "cars": 130}}
    found = pg.rake_households(homes, people, margins, key="home", zones=pd.DataFrame({"tract": ["a", "b"]}))
    assert np.abs(found.differences).max() < 1e-7
    made = found.whole(seed=1).tables()["households"]
    assert made["cars"].sum() == 130
    assert made.groupby("tract").size().to_dict() == {"a": 40, "b": 40}
    margins["households"]["cars"] = 900
    with pytest.raises(ControlError, match=r"\(households: total of cars: 900"):
        pg.rake_households(homes, people, margins, key="home", zones="tract")
    near = pg.rake_households(homes, people, margins, key="home", zones="tract", penalty={"cars": 3})
    assert near.totals["difference"].abs()[:4].max() < 1e-7
    assert 130 < near.row_weights @ homes["cars"] < 200
    for wrong in (float("nan"), True):
        with pytest.raises(ArgumentError, match="a finite total of one numeric column"):
            pg.rake_households(homes, people, {"households": {"cars": wrong}}, key="home")
    with pytest.raises(DataError, match="column 'tenure' of the households has a total, but not a finite number"):
        pg.rake_households(homes, people, {"households": {"tenure": 40}}, key="home")


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_units_without_weight_need_no_number(missing):
    """As they need no known category. One of a unit with weight is refused, by the name of the column."""
    homes = pd.DataFrame({"home": range(4), "tenure": ["own", "rent"] * 2, "cars": [missing, 1.0, 2.0, 3.0]})
    people = pd.DataFrame({"home": [0, 1, 2, 3], "income": [missing, 5.0, 2.0, 9.0]})
    tenure, design = {"own": 10, "rent": 20}, [0, 1, 2, 1]
    weights = pg.rake(homes, {"tenure": tenure, "cars": 50}, design)
    assert np.allclose(weights, [0, 15, 10, 5])
    margins = {"households": {"tenure": tenure, "cars": 50}, "persons": {"income": 140}}
    found = pg.rake_households(homes, people, margins, key="home", weights=design)
    assert np.allclose(found.row_weights, weights)
    replicates = np.array([design, [0, 1, 1, 1]]).T
    assert np.allclose(pg.rake(homes, {"tenure": tenure, "cars": 50}, replicates)[:, 0], weights)
    with pytest.raises(DataError, match="column 'cars' of the respondents has a total, but not a finite number"):
        pg.rake(homes, {"tenure": tenure, "cars": 50}, np.add(replicates, [0, 1]))


def test_dates_and_durations_have_no_total():
    days = pd.date_range("2024-01-01", periods=2)
    for items in (days, days - days[0]):
        for frame in (pd.DataFrame({"born": items}), pl.DataFrame({"born": items})):
            with pytest.raises(DataError, match="column 'born' of the respondents has a total, but not a finite"):
                pg.rake(frame, {"born": 5})


def test_weights_of_households_have_one_column():
    homes = pd.DataFrame({"home": [1, 2], "tenure": TENURES[:2]})
    with pytest.raises(ShapeError, match=r"weights: expected shape \(2,\), got \(2, 3\)"):
        pg.rake_households(
            homes, homes, {"households": {"tenure": dict.fromkeys(TENURES, 1)}}, key="home", weights=np.ones((2, 3))
        )
