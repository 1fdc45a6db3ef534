"""Replicate weights: closed forms, and coverage of a known population."""

import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pgmest.errors import ArgumentError, ControlError, DataError, ShapeError
from pgmest.surveys import ReplicateWeights, bootstrap, jackknife


def mean_of(values):
    return lambda weights: np.average(values, weights=weights)


def test_jackknife_of_a_mean_and_a_total_are_the_textbooks():
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])
    found = jackknife(np.full(6, 10.0)).estimate(mean_of(values))
    assert found.stderr == pytest.approx(values.std(ddof=1) / np.sqrt(6))
    found = jackknife(np.full(6, 10.0), sampled=0.1).estimate(lambda w: w @ values)
    assert found.stderr == pytest.approx(60 * values.std(ddof=1) / np.sqrt(6) * np.sqrt(0.9))
    low, high = found.interval(0.9)
    assert (high - low) / 2 == pytest.approx(2.0150484 * found.stderr)  # Student's t with 5 degrees of freedom


def test_strata_and_clusters():
    frame = pd.DataFrame({"h": [0, 0, 0, 1, 1, 1, 1], "c": [1, 1, 2, 1, 2, 2, 3], "y": [1.0, 2, 5, 7, 3, 4, 2]})
    weights = np.array([2.0, 2, 3, 5, 5, 1, 1])
    for replicates in (
        jackknife(weights, clusters=frame["c"], strata=frame["h"], sampled={0: 0.5, 1: 0.0}),
        bootstrap(weights, clusters=frame["c"], strata=frame["h"], replicates=20_000),
    ):
        found = replicates.estimate(lambda w: w @ frame["y"].to_numpy())
        variance = 0.0
        for stratum, part in frame.assign(z=weights * frame["y"]).groupby("h"):
            totals: Any = part.groupby("c")["z"].sum()
            sums = totals.to_numpy()
            factor = 0.5 if stratum == 0 and len(replicates.scales) < 100 else 1.0
            variance += factor * len(sums) * sums.var(ddof=1)
        assert found.stderr == pytest.approx(np.sqrt(variance), rel=1e-9 if len(replicates.scales) < 100 else 0.03)


def test_given_replicates_and_arrays_of_statistics():
    generator = np.random.default_rng(0)
    full, several = np.ones(5), generator.uniform(0.5, 1.5, (5, 80))
    values = generator.normal(size=(2, 5))
    found = ReplicateWeights(full, several, 4 / 80).estimate(lambda w: values @ w)
    expected = np.sqrt(4 / 80 * ((values @ several - (values @ full)[:, None]) ** 2).sum(axis=1))
    assert np.allclose(found.stderr, expected)


def test_degrees_of_freedom_are_sampled_units_less_strata():
    """Six clusters in two strata have four, however the replicates are made; fewer replicates have one less of them."""
    clusters, strata = np.repeat(np.arange(6), 4), np.repeat([0, 0, 0, 1, 1, 1], 4)
    weights = np.random.default_rng(0).uniform(1, 9, 24)
    made = jackknife(weights, clusters=clusters, strata=strata)
    given = ReplicateWeights(made.full, made.replicates, made.scales)
    drawn = bootstrap(weights, clusters=clusters, strata=strata)
    assert (made.degrees, given.degrees, drawn.degrees) == (4, 4, 4)
    assert ReplicateWeights(drawn.full, drawn.replicates, 1 / 200).degrees == 4
    assert bootstrap(weights, clusters=clusters, strata=strata, replicates=3).degrees == 2
    assert ReplicateWeights(made.full, made.replicates, made.scales, degrees=3).estimate(np.sum).degrees == 3
    frame = pd.DataFrame({"sex": np.tile(["f", "m"], 12)})
    assert made.raked(frame, {"sex": {"f": 50, "m": 60}}).degrees == 4
    whole = jackknife(weights, clusters=clusters, strata=strata, sampled={0: 1.0, 1: 0.0})  # all of a stratum: no error
    assert whole.degrees == ReplicateWeights(whole.full, whole.replicates, whole.scales).degrees == 2


def test_degrees_of_freedom_of_half_samples_and_successive_differences():
    signs = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])  # Hadamard's matrix of order 4
    halves = np.repeat(np.stack([1 + signs[1:], 1 - signs[1:]], axis=1).reshape(6, 4), 5, axis=0)  # 3 strata, 6 units
    assert ReplicateWeights(np.ones(30), halves, 1 / 4).degrees == 3
    factors = np.random.default_rng(1).choice([0.3, 1.0, 1.7], (5_000, 80))
    assert ReplicateWeights(np.ones(5_000), factors, 4 / 80).degrees == 79


@pytest.mark.parametrize("make", [jackknife, functools.partial(bootstrap, replicates=60)])
@pytest.mark.parametrize(("units", "strata"), [(3, 1), (6, 1), (6, 3)])
def test_intervals_of_few_clusters_hold(make, units, strata):
    rng = np.random.default_rng(units)
    clusters = np.repeat(np.arange(units), 4)
    where = clusters % strata
    held = 0
    for _ in range(600):
        y = rng.normal(0, 1, units)[clusters] + rng.normal(0, 1, 4 * units)
        low, high = make(np.ones(4 * units), clusters=clusters, strata=where).estimate(mean_of(y)).interval()
        held += low < 0 < high
    assert held / 600 > 0.92


def test_raked_replicates_have_less_variance_and_intervals_hold():
    """A statistic that a control determines has no variance; one related to it has less; 95 % intervals hold."""
    generator = np.random.default_rng(1)
    sex = generator.random(20_000) < 0.4
    income = 10 + 20 * sex + generator.normal(0, 5, 20_000)
    control = {"sex": {True: int(sex.sum()), False: int((~sex).sum())}}
    held, plain, raked_widths = [], [], []
    for _ in range(20):
        rows = generator.choice(20_000, 200, replace=False)
        frame, y = pd.DataFrame({"sex": sex[rows]}), income[rows]
        replicates = bootstrap(np.full(200, 100.0), replicates=40, seed=generator)
        raked = replicates.raked(frame, control)
        assert raked.estimate(lambda w, s=sex[rows]: w @ s).stderr < 1e-6
        found = raked.estimate(mean_of(y))
        low, high = found.interval()
        held.append(low <= income.mean() <= high)
        plain.append(replicates.estimate(mean_of(y)).stderr)
        raked_widths.append(found.stderr)
    assert np.mean(held) >= 0.8
    assert np.mean(raked_widths) < 0.6 * np.mean(plain)


def test_mistakes():
    with pytest.raises(DataError, match="single unit, such as 'b'"):
        jackknife(np.ones(3), strata=["a", "a", "b"])
    with pytest.raises(DataError, match="single unit"):
        bootstrap(np.ones(3), clusters=[1, 1, 1])
    with pytest.raises(DataError, match="no rows"):
        jackknife([])
    with pytest.raises(DataError, match="no label"):
        jackknife(np.ones(2), clusters=[None, 1])
    with pytest.raises(DataError):
        jackknife([1.0, -1.0])
    with pytest.raises(ShapeError):
        jackknife(np.ones(3), clusters=[1, 2])
    shares: list[Any] = [1.5, -0.1, np.nan, {"x": 0.5}, "all"]
    for sampled in shares:
        with pytest.raises(ArgumentError):
            jackknife(np.ones(3), sampled=sampled)
    with pytest.raises(ShapeError):
        ReplicateWeights(np.ones(3), np.ones((2, 4)), 1.0)
    with pytest.raises(DataError):
        ReplicateWeights(np.ones(2), np.full((2, 2), np.nan), 1.0)
    for scales in (-1.0, [1.0, 2.0, 3.0], np.inf):
        with pytest.raises(ArgumentError):
            ReplicateWeights(np.ones(2), np.ones((2, 2)), scales)
    for degrees in (0, -1.0, "many", True, np.nan):
        with pytest.raises(ArgumentError, match="degrees"):
            ReplicateWeights(np.ones(2), np.ones((2, 2)), 1.0, degrees=degrees)
    frame = pd.DataFrame({"sex": ["f", "m", "m"]})
    with pytest.raises(ControlError, match=r"replicate 0: .*combine categories until every replicate"):
        jackknife(np.ones(3)).raked(frame, {"sex": {"f": 1, "m": 2}})
