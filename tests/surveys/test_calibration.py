"""Raking, linear and logit calibration within bounds, against SciPy's optimizers and figures of R's survey package."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog, minimize

import pgmest as pg
from pgmest.errors import ArgumentError, ControlError, DataError
from pgmest.surveys.calibration import DISTANCES

SURVEY = pd.DataFrame({"a": [0, 0, 1, 1, 1, 0], "b": [0, 1, 0, 1, 1, 1], "d": [1.0, 2.0, 1.5, 1.0, 3.0, 1.5]})
MARGINS = {"a": {0: 60, 1: 40}, "b": {0: 45, 1: 55}}


def divergence(method, ratio, low, high):
    """Return G of Deville and Särndal (1992), as their Table 1 has it."""
    if method == "linear":
        return 0.5 * (ratio - 1) ** 2
    if method == "raking":
        return ratio * np.log(np.maximum(ratio, 1e-300)) - ratio + 1
    speed = (high - low) / ((1 - low) * (high - 1))
    left, right = np.maximum(ratio - low, 1e-300), np.maximum(high - ratio, 1e-300)
    return (left * np.log(left / (1 - low)) + right * np.log(right / (high - 1))) / speed


def random_survey(seed):
    """Return a small survey, margins that some weights within the bounds meet, and the bounds."""
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(2, 9))
    frame = pd.DataFrame({name: generator.integers(0, 3, rows) for name in "ab"})
    frame["x"] = generator.normal(size=rows).round(2)
    frame["d"] = generator.uniform(0.5, 2.0, rows) * (generator.random(rows) < 0.9)
    frame.loc[0, "d"] = 1.0
    method = ("raking", "linear", "logit")[generator.integers(3)]
    low, high = float(generator.uniform(0.0, 0.8)), float(generator.uniform(1.3, 3.0))
    start = frame["d"].to_numpy() / frame["d"].sum() * 100
    inside = generator.uniform(low + 0.05, high - 0.05, rows)
    truth = start * inside * 100 / (start @ inside)
    if ((truth < low * start - 1e-12) | (truth > high * start + 1e-12)).any():
        truth = start
    kept: Any = frame.assign(t=truth).query("d > 0")
    margins = {n: kept.groupby(n)["t"].sum().to_dict() for n in "ab"}
    if generator.random() < 0.5:
        margins["x"] = float(truth @ frame["x"])
    return frame, margins, method, (low, high), start


def equations(frame, margins):
    rows, right = [], []
    for name, totals in margins.items():
        if isinstance(totals, dict):
            rows += [(frame[name] == label).to_numpy(float) for label in totals]
            right += list(totals.values())
        else:
            rows.append(frame[name].to_numpy(float))
            right.append(totals)
    return np.array(rows), np.array(right)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_weights_are_closest_among_those_within_the_bounds(seed):
    frame, margins, method, bounds, start = random_survey(seed)
    found = pg.rake(frame, margins, "d", method=method, bounds=bounds)
    matrix, right = equations(frame, margins)
    assert np.abs(matrix @ found - right).max() <= 1e-6
    counted = start > 0
    assert not found[~counted].any()
    ratios = found[counted] / start[counted]
    assert ratios.min() >= bounds[0] - 1e-9
    assert ratios.max() <= bounds[1] + 1e-9

    def value(weights):
        return float(start[counted] @ divergence(method, weights / start[counted], *bounds))

    generator = np.random.default_rng(seed)
    for _ in range(4):  # no direction towards another vertex of the feasible weights lowers the distance
        ends = list(zip(bounds[0] * start[counted], bounds[1] * start[counted], strict=True))
        other = linprog(generator.normal(size=counted.sum()), A_eq=matrix[:, counted], b_eq=right, bounds=ends)
        if other.status == 0:
            assert value(0.999 * found[counted] + 0.001 * other.x) >= value(found[counted]) - 1e-7


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_no_general_optimizer_finds_closer_weights(seed):
    """SciPy's often stops too early, so only its distance is compared."""
    frame, margins, method, bounds, start = random_survey(seed)
    counted = start > 0
    matrix, right = equations(frame[counted], margins)

    def value(weights):
        return float(start[counted] @ divergence(method, weights / start[counted], *bounds))

    best = minimize(
        value,
        start[counted],
        bounds=list(zip(bounds[0] * start[counted], bounds[1] * start[counted], strict=True)),
        constraints=LinearConstraint(matrix, right, right),  # type: ignore[arg-type]
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    found = pg.rake(frame, margins, "d", method=method, bounds=bounds)[counted]
    if np.abs(matrix @ best.x - right).max() < 1e-7:
        assert value(found) <= best.fun + 1e-5


@pytest.mark.parametrize("method", list(DISTANCES))
def test_slopes_and_integrals_are_those_of_the_ratios(method):
    distance = DISTANCES[method](0.4, 2.5)
    u = np.linspace(-3, 3, 61)
    step = 1e-6
    numeric = (distance.integral(u + step) - distance.integral(u - step)) / (2 * step)
    assert np.allclose(distance.ratios(u), numeric, atol=1e-5)
    slope = (distance.ratios(u + step) - distance.ratios(u - step)) / (2 * step)
    smooth = np.abs(slope - distance.slopes(u)) < 1e-4
    assert smooth.sum() >= len(u) - 2  # but at the two corners
    assert distance.ratios(np.zeros(1)) == pytest.approx(1.0)
    assert distance.slopes(np.zeros(1)) == pytest.approx(1.0)


def test_linear_calibration_is_the_regression_estimator():
    start = SURVEY["d"].to_numpy() * 100 / SURVEY["d"].sum()
    matrix, right = equations(SURVEY, MARGINS)
    multipliers = np.linalg.lstsq((matrix * start) @ matrix.T, right - matrix @ start, rcond=None)[0]
    assert np.allclose(pg.rake(SURVEY, MARGINS, "d", method="linear"), start * (1 + matrix.T @ multipliers))


def test_linear_weights_may_be_negative_and_a_warning_says_so():
    margins = {"a": {0: 60, 1: 40}, "x": -50.0}
    survey = SURVEY.assign(x=[3.0, 1.0, 0.0, 0.5, 1.0, 0.2])
    with pytest.warns(UserWarning, match="with a negative weight: give bounds="):
        found = pg.rake(survey, margins, "d", method="linear")
    assert found.min() < 0
    assert found @ survey["x"] == pytest.approx(-50)
    with pytest.raises(ControlError, match=r"total of x: -50\). Any weights miss it by"):
        pg.rake(survey, margins, "d")


def test_trimming_keeps_controls_and_ends():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = pg.rake(SURVEY, MARGINS, "d")
        for method in ("raking", "linear"):
            low, high = 1.05 * plain.min(), 0.97 * plain.max()
            found = pg.rake(SURVEY, MARGINS, "d", method=method, trim=(low, high))
            assert low - 1e-7 <= found.min() < low + 1e-7
            assert found.max() <= high + 1e-7
            matrix, right = equations(SURVEY, MARGINS)
            assert np.allclose(matrix @ found, right)


def test_bounds_that_cannot_be_met_name_controls_amounts_and_the_least_bound():
    with pytest.raises(ControlError) as caught:
        pg.rake(SURVEY, MARGINS, "d", bounds=(0.9, 1.1))
    text = str(caught.value)
    assert "weights times 0.9 to 1.1 the initial ones" in text
    assert "(a=0: 60)" in text or "(b=0: 45)" in text
    with pytest.raises(ControlError, match="An upper bound of") as caught:
        pg.rake(SURVEY, MARGINS, "d", bounds=(0.3, 1.1))
    least = float(str(caught.value).split("An upper bound of ")[1].split()[0])
    pg.rake(SURVEY, MARGINS, "d", bounds=(0.3, least + 1e-3))
    with pytest.raises(ControlError):
        pg.rake(SURVEY, MARGINS, "d", bounds=(0.3, least - 2e-3))
    with pytest.raises(ControlError, match="exclude each other for 1 respondent: times 0"):
        pg.rake(SURVEY, MARGINS, "d", bounds=(0.5, 2), trim=(1, 14))


def test_numeric_totals_of_households():
    """Weights of households that meet totals of households and of persons."""
    households = pd.DataFrame({"size": [1, 2, 2, 4, 3], "dwelling": ["flat", "flat", "house", "house", "house"]})
    found = pg.rake(households, {"dwelling": {"flat": 50, "house": 50}, "size": 230})
    assert found @ households["size"] == pytest.approx(230)
    alone = pg.rake(households, {"size": 230}, [10.0] * 5)
    assert alone @ households["size"] == pytest.approx(230)
    multipliers = np.log(alone / 10) / households["size"]
    assert np.ptp(multipliers) < 1e-8
    with pytest.raises(ControlError, match=r"total of size: 460"):
        pg.rake(households, {"dwelling": {"flat": 50, "house": 50}, "size": 460})
    with pytest.raises(DataError, match="not a finite number"):
        pg.rake(households.assign(size=[1, None, 2, 3, 4]), {"size": 230})
    with pytest.raises(DataError, match="not a finite number"):
        pg.rake(households, {"dwelling": 230})
    assert pg.rake(households, {"size": 230}, whole=True) @ households["size"] == 230


def test_replicates_are_raked_one_after_the_other():
    several = np.stack([SURVEY["d"], np.ones(6), [1, 1, 1, 1, 0, 1]], axis=1)
    found = pg.rake(SURVEY, MARGINS, several, bounds=(0.2, 4))
    assert found.shape == (6, 3)
    for column, start in zip(found.T, several.T, strict=True):
        assert np.array_equal(column, pg.rake(SURVEY, MARGINS, start, bounds=(0.2, 4)))
    with pytest.raises(ControlError, match=r"replicate 1: .*no respondents"):
        pg.rake(SURVEY, MARGINS, np.stack([np.ones(6), [0, 0, 1, 1, 1, 0]], axis=1))


@pytest.mark.parametrize(
    "options",
    [
        {"method": "ipf"},
        {"method": "logit"},
        {"method": "logit", "bounds": (1.1, 2)},
        {"method": "logit", "bounds": (0.2, np.inf)},
        {"method": "logit", "bounds": (0.2, 2), "trim": (1, 5)},
        {"bounds": (2, 1)},
        {"bounds": (-1, 1)},
        {"bounds": (np.nan, 1)},
        {"bounds": 3},
        {"bounds": (1, 2, 3)},
        {"trim": "all"},
    ],
)
def test_mistakes_of_options(options):
    with pytest.raises(ArgumentError):
        pg.rake(SURVEY, MARGINS, "d", **options)


@pytest.mark.parametrize("total", [np.nan, np.inf, True])
def test_mistakes_of_totals(total):
    with pytest.raises(ArgumentError):
        pg.rake(SURVEY, {"a": {0: 60, 1: 40}, "d": total})


def test_huge_and_tiny_weights():
    for scale in (1e-12, 1e12):
        survey = SURVEY.assign(d=SURVEY["d"] * scale)
        assert np.allclose(pg.rake(survey, MARGINS, "d"), pg.rake(SURVEY, MARGINS, "d"))
    uneven = SURVEY.assign(d=[1e-9, 1.0, 1e9, 1.0, 1.0, 1.0])
    found = pg.rake(uneven, MARGINS, "d")
    assert found.min() >= 0
    matrix, right = equations(uneven, MARGINS)
    assert np.allclose(matrix @ found, right)


# -- whole numbers ----------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_whole_weights_meet_the_controls_where_whole_numbers_can(seed):
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(1, 12))
    frame = pd.DataFrame({name: generator.integers(0, 3, rows) for name in "abc"})
    truth = generator.integers(0, 6, rows)
    keys = [("a",), ("b",), ("a", "b"), ("b", "c"), ("a", "b", "c"), ("c",)]
    keys = [keys[place] for place in generator.choice(6, generator.integers(1, 4), replace=False)]
    margins = {key: _sums(frame.assign(t=truth), key) for key in keys}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pg.rake(frame, margins, whole=True, seed=seed % 1000)
        weights = pg.rake(frame, margins)
    assert np.array_equal(found, np.rint(found))
    assert found.min() >= 0
    for key, totals in margins.items():
        assert _sums(frame.assign(t=found), key) == pytest.approx(totals)
    if len(keys) == 1:  # then nothing has to be moved
        assert np.abs(found - weights).max() < 1


def _sums(frame, key):
    return {k if isinstance(k, tuple) else (k,): v for k, v in frame.groupby(list(key))["t"].sum().items()}


def test_whole_weights_are_unbiased_and_say_what_they_miss():
    frame = pd.DataFrame({"a": [0] * 10})
    found = np.mean([pg.rake(frame, {"a": {0: 3}}, whole=True, seed=seed) for seed in range(150)], axis=0)
    assert np.allclose(found, 0.3, atol=0.16)
    triangle = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "c": [0, 1, 1, 0]})
    halves = {name: {0: 1, 1: 1} for name in "abc"}
    with pytest.warns(UserWarning, match="whole weights miss"):
        pg.rake(triangle, {**halves, ("a", "b"): {(i, j): 0.5 for i in (0, 1) for j in (0, 1)}}, whole=True)
