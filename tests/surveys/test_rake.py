"""Raking: weights of respondents that meet control totals, against plain fitting and against linear programs."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import pgmest as pg
from pgmest.errors import ArgumentError, ControlError, DataError, ShapeError

SURVEY = pd.DataFrame(
    {
        "sex": ["f", "f", "m", "m", "m", "f", "m", "f"],
        "age": ["young", "old", "old", "old", "young", "middle", "middle", "old"],
        "region": [3, 1, 1, 2, 3, 2, 1, 3],
        "design": [1.0, 2.5, 0.5, 1.0, 3.0, 1.0, 2.0, 0.7],
    }
)
SEX, AGE = {"f": 55.0, "m": 45.0}, {"young": 20.0, "middle": 30.0, "old": 50.0}
REGION = {1: 50, 2: 20, 3: 30}


def plain(frame, margins, start, rounds=5000):
    """Rake by the textbook loop over the controls."""
    weights = start.astype(float).copy()
    for _ in range(rounds):
        for names, totals in margins.items():
            keys = list(zip(*(frame[name] for name in np.atleast_1d(names)), strict=True))
            sums: dict = {}
            for key, weight in zip(keys, weights, strict=True):
                sums[key] = sums.get(key, 0.0) + weight
            for row, key in enumerate(keys):
                wanted = totals[key[0] if len(key) == 1 else key]
                weights[row] *= wanted / sums[key] if sums[key] else 0.0
    return weights


@pytest.mark.parametrize("weights", [None, "design", SURVEY["design"].to_numpy(), [1, 2, 2, 0, 1, 1, 1, 1]])
def test_weights_are_those_of_the_textbook(weights):
    margins = {"sex": SEX, "age": AGE, "region": REGION}
    start = np.ones(8) if weights is None else SURVEY["design"] if isinstance(weights, str) else np.asarray(weights)
    found = pg.rake(SURVEY, margins, weights)
    assert isinstance(found, np.ndarray)
    assert np.allclose(found, plain(SURVEY, margins, np.asarray(start)), rtol=1e-6, atol=1e-9)
    for name, totals in margins.items():
        sums: Any = pd.Series(found).groupby(SURVEY[name]).sum()
        assert all(abs(sums[label] - total) <= 1e-7 for label, total in totals.items())


def test_two_way_controls():
    pairs = [(s, a) for s in SEX for a in AGE]
    margins: dict[Any, dict[Any, float]] = {("sex", "age"): {pair: 5.0 + 2 * i for i, pair in enumerate(pairs)}}
    total = sum(margins["sex", "age"].values())
    margins["region"] = {label: share * total / 100 for label, share in REGION.items()}
    found = pg.rake(SURVEY, margins, "design")
    assert np.allclose(found, plain(SURVEY, margins, SURVEY["design"].to_numpy()), rtol=1e-6)


def test_all_forms_of_controls_and_frames_give_the_same_weights():
    table = pd.crosstab(SURVEY["sex"], SURVEY["age"], values=SURVEY["design"] + 1, aggfunc="sum")
    pairs = {(s, a): table.loc[s, a] for s in table.index for a in table.columns}
    long = pd.Series(table.stack(), name="n").reset_index()
    forms = [
        {("sex", "age"): pairs},
        {("sex", "age"): table},
        {("sex", "age"): table.T},  # the names of the axes decide
        {("age", "sex"): table},
        {("sex", "age"): table.stack()},
        {("age", "sex"): table.stack()},
        {("sex", "age"): {s: {a: pairs[s, a] for a in table.columns} for s in table.index}},
        {("sex", "age"): long},
        {("age", "sex"): pl.from_pandas(long)},
        {("sex", "age"): table.rename_axis(index=None, columns=None)},
    ]
    expected = pg.rake(SURVEY, forms[0])
    for margins in forms:
        for frame in (SURVEY, pl.from_pandas(SURVEY), SURVEY.astype({"sex": "category", "age": "category"})):
            assert np.allclose(pg.rake(frame, margins), expected, rtol=1e-9)
    codes = SURVEY.assign(sex=(SURVEY["sex"] == "m").astype(int))
    by_code = pg.rake(codes, {"sex": pg.Factor({"sex": 2}, [55, 45])})
    assert np.allclose(by_code, pg.rake(SURVEY, {"sex": pd.Series(SEX)}))


@pytest.mark.parametrize("mark", [None, np.nan, pd.NA, pd.NaT])
def test_missing_values_are_a_category_in_every_library(mark):
    frame = pd.DataFrame({"sex": ["f", None, "m", None], "age": [1.0, np.nan, 2.0, 1.0]})
    margins = {"sex": {"f": 20, "m": 30, mark: 50}, "age": {1: 45, 2: 30, mark: 25}}
    for table in (frame, pl.from_pandas(frame), frame.convert_dtypes(), frame.astype(object)):
        assert np.allclose(pg.rake(table, margins), [20, 25, 30, 25])
    with pytest.raises(ControlError, match=r"2 respondents with \(sex=None\)"):
        pg.rake(frame, {"sex": {"f": 20, "m": 30}})
    with pytest.raises(ArgumentError, match="is there twice"):
        pg.rake(frame, {"sex": {"f": 20, "m": 30, None: 50, float("nan"): 50}})


def test_a_table_of_one_column_is_a_series():
    counts = SURVEY["sex"].value_counts()
    assert np.allclose(pg.rake(SURVEY, {"sex": counts.rename_axis(None).to_frame("n")}), 1)
    pairs = SURVEY.groupby(["age", "sex"]).size().to_frame()
    assert np.allclose(pg.rake(SURVEY, {("sex", "age"): pairs}), 1)


def test_zeros_in_controls_are_weights_of_zero():
    assert np.array_equal(pg.rake(SURVEY, {"sex": {"f": 0, "m": 7}}) > 0, SURVEY["sex"] == "m")
    assert np.array_equal(pg.rake(SURVEY, {"sex": {"f": 0, "m": 0}}), np.zeros(8))
    found = pg.rake(SURVEY, {("sex", "age"): {("f", "young"): 5, ("f", "old"): 5, ("m", "old"): 1, ("m", "young"): 0,
                                              ("f", "middle"): 0, ("m", "middle"): 0}})  # fmt: skip
    assert found.sum() == pytest.approx(11)


def test_respondents_that_cannot_have_weight_are_counted():
    """The limit of fitting has zeros, which it approaches only like 1 / rounds; a linear program finds them."""
    frame = pd.DataFrame({"a": [0, 1, 0, 0], "b": [0, 1, 1, 0]})
    with pytest.warns(UserWarning, match="weight 0 for 1 respondent"):
        found = pg.rake(frame, {"a": {0: 50, 1: 50}, "b": {0: 50, 1: 50}})
    assert np.allclose(found, [25, 50, 0, 25], atol=1e-7)


@pytest.mark.parametrize(
    ("margins", "message"),
    [
        ({"sex": SEX, "age": {**AGE, "old": 51}}, "different totals: sex 100, age 101"),
        ({"sex": {**SEX, "x": 1}}, r"no respondents with weight for 1 total: \(sex='x': 1\)"),
        ({"sex": {"f": 55}}, r"4 respondents with \(sex='m'\), for which sex has no total; it has sex='f'"),
        ({"region": {"1": 1, "2": 1, "3": 1}}, "of the same type"),
        (
            {"sex": SEX, ("sex", "age"): {("f", "young"): 55, ("m", "old"): 45, ("f", "middle"): 0}},
            r"\(sex='m', age='middle'\), for which sex x age has no total",
        ),
        (
            {"sex": SEX, ("sex", "region"): {(s, r): 100 / 6 for s in SEX for r in REGION}},
            "contradict each other: for sex='f' they add up to 55 and 50",
        ),
        (
            {"age": {"young": 90, "middle": 5, "old": 5}, "region": {1: 80, 2: 15, 3: 5}},
            r"\(age='young': 90\), \(region=3: 5\)\. Any weights miss one of them by 42\.5 or more\. The smallest",
        ),
    ],
)
def test_contradictions_are_named(margins, message):
    with pytest.raises(ControlError, match=message) as caught:
        pg.rake(SURVEY, margins)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("margins", "error", "message"),
    [
        ({}, ArgumentError, "a mapping of columns"),
        ([("sex", SEX)], ArgumentError, "a mapping of columns"),
        ({"sex": [55, 45]}, ArgumentError, "a mapping of labels"),
        ({"sex": {"f": -1, "m": 2}}, ArgumentError, "at least 0"),
        ({"sex": {"f": np.nan, "m": 2}}, ArgumentError, "at least 0"),
        ({"sex": {"f": np.inf, "m": 2}}, ArgumentError, "at least 0"),
        ({"sex": {"f": "many", "m": 2}}, ArgumentError, "at least 0"),
        ({"sex": {"f": True, "m": 2}}, ArgumentError, "at least 0"),
        ({"sex": {}}, ArgumentError, "no categories"),
        ({"sex": pd.Series([1, 2, 3], index=["f", "m", "f"])}, ArgumentError, "is there twice"),
        ({"sex": pd.Series(SEX).rename_axis("gender")}, ArgumentError, "name them 'sex'"),
        ({("sex", "age"): SEX}, ArgumentError, "1 labels for 2 columns"),
        ({("sex", "sex"): SEX}, ArgumentError, "different names"),
        ({3: SEX}, ArgumentError, "keyed by names"),
        ({"nothing": SEX}, DataError, "no column 'nothing'"),
        (
            {"sx": SEX},
            DataError,
            "table of respondents has no column 'sx' .did you mean 'sex'.*keyed by columns of the table",
        ),
        ({"ages": 100}, DataError, "table of respondents has no column 'ages' .did you mean 'age'"),
    ],
)
def test_other_mistakes(margins, error, message):
    with pytest.raises(error, match=message):
        pg.rake(SURVEY, margins)


def test_mistakes_of_weights_and_rows():
    for weights in ([1.0] * 7, np.ones((7, 2)), np.ones((8, 0)), np.ones((8, 1, 1))):
        with pytest.raises(ShapeError):
            pg.rake(SURVEY, {"sex": SEX}, weights)
    with pytest.raises(DataError):
        pg.rake(SURVEY, {"sex": SEX}, [-1.0] * 8)
    with pytest.raises(ControlError, match="no respondents"):
        pg.rake(SURVEY, {"sex": SEX}, np.zeros(8))
    with pytest.raises(ControlError, match="no respondents"):
        pg.rake(SURVEY.iloc[:0], {"sex": SEX})
    with pytest.raises(ArgumentError, match="another index"):
        pg.rake(SURVEY, {"sex": SEX}, pd.Series(SURVEY["design"]).sort_values())
    gaps = SURVEY.assign(sex=[None, *SURVEY["sex"][1:]])
    with pytest.raises(ControlError, match=r"1 respondent with \(sex=None\)"):
        pg.rake(gaps, {"sex": SEX})
    assert pg.rake(gaps, {"sex": SEX}, [0, 1, 1, 1, 1, 1, 1, 1])[0] == 0.0


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_small_surveys_against_linear_programs(seed):
    """Weights are found if and only if a program finds some; a contradiction is irreducible."""
    generator = np.random.default_rng(seed)
    rows, sizes = int(generator.integers(1, 9)), generator.integers(1, 4, 3)
    frame = pd.DataFrame({name: generator.integers(0, size, rows) for name, size in zip("abc", sizes, strict=True)})
    keys = [("a",), ("b",), ("c",), ("a", "b"), ("b", "c")]
    keys = [keys[place] for place in generator.choice(5, generator.integers(1, 4), replace=False)]
    truth = generator.integers(0, 5, rows) if generator.random() < 0.7 else generator.integers(1, 9, rows)
    margins = {}
    for key in keys:
        cells = pd.Series(frame.assign(n=truth).groupby(list(key))["n"].sum())
        noise = generator.permutation(len(cells)) if generator.random() < 0.3 else np.arange(len(cells))
        margins[key] = dict(
            zip((i if isinstance(i, tuple) else (i,) for i in cells.index), cells.to_numpy()[noise], strict=True)
        )
    equations = [
        ([float(tuple(row) == cell) for row in frame[list(key)].to_numpy()], total)
        for key, totals in margins.items()
        for cell, total in totals.items()
    ]
    matrix, right = np.array([row for row, _ in equations]), np.array([total for _, total in equations], dtype=float)
    possible = linprog(np.zeros(rows), A_eq=matrix, b_eq=right, bounds=(0, None)).status == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = pg.rake(frame, margins)
        except ControlError:
            assert not possible
            return
    assert possible
    assert np.abs(matrix @ found - right).max() <= 1e-8 * max(1.0, truth.sum())
    assert found.min() >= 0.0
    for _ in range(5):  # no feasible direction lowers the divergence from equal weights
        other = linprog(generator.standard_normal(rows), A_eq=matrix, b_eq=right, bounds=(0, None))
        if other.status == 0 and truth.sum():
            mixed = 0.99 * found + 0.01 * other.x
            entropy = [float(np.sum(w[w > 0] * np.log(w[w > 0]))) for w in (found, mixed)]
            assert entropy[0] <= entropy[1] + 1e-6 * truth.sum()


def test_a_contradiction_is_irreducible():
    frame = pd.DataFrame({"a": [0, 0, 1, 1, 2], "b": [0, 0, 1, 1, 2], "c": [0, 1, 0, 1, 0]})
    margins = {"a": {0: 60, 1: 20, 2: 20}, "b": {0: 50, 1: 30, 2: 20}, "c": {0: 50, 1: 50}}
    with pytest.raises(ControlError) as caught:
        pg.rake(frame, margins)
    text = str(caught.value).split("Any weights miss")[0]
    assert "c=" not in text
    assert "=2" not in text
    assert ("(a=0: 60), (b=0: 50)" in text) != ("(a=1: 20), (b=1: 30)" in text)


def test_respondents_keep_the_ratio_of_their_weights():
    data = pg.Dataset.from_codes(
        np.array([[1, 0], [0, 1], [1, 0], [0, 0], [1, 1]]), {"a": 2, "b": 2}, weights=[1.0, 2.0, 3.0, 0.0, 1.0]
    )
    support = pg.priors.Support(data)
    assert support.rows.tolist()[:3] == [support.rows[2], 0, support.rows[0]]
    model = pg.SupportModel(support, pg.CliqueVector.zeros(data.domain, []), 70.0)
    assert model.row_weights.tolist() == pytest.approx([10.0, 20.0, 30.0, 0.0, 10.0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["raking", "linear"])
def test_totals_outside_the_bounds_are_refused_without_warnings(method):
    for least, most in ((0.9, 1.1), (0.99, 1.01), (0.5, 1.2)):
        with pytest.raises(ControlError, match="Any weights miss"):
            pg.rake(SURVEY, {"sex": {"f": 90, "m": 10}}, method=method, bounds=(least, most))
        with pytest.raises(ControlError, match="Any weights miss"):
            pg.rake(SURVEY, {"sex": SEX, "region": 900}, method=method, bounds=(least, most))
