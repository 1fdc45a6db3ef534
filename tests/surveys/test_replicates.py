"""Replicate weights: closed forms, and coverage of a known population."""

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
    assert (high - low) / 2 == pytest.approx(1.6448536 * found.stderr)


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
    frame = pd.DataFrame({"sex": ["f", "m", "m"]})
    with pytest.raises(ControlError, match=r"replicate 0: .*combine categories until every replicate"):
        jackknife(np.ones(3)).raked(frame, {"sex": {"f": 1, "m": 2}})
