"""The density estimator, checked by scikit-learn itself and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pgmest.errors import ArgumentError

pytest.importorskip("sklearn")

from sklearn import base
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from pgmest.adapters.sklearn import DensityEstimator

clone: Any = base.clone  # of which its annotations say that it may return a collection

EXPERIMENT = {"backend": "simulation", "random_state": 0, "bounds": (-10, 10)}


def test_scikit_learns_own_checks():
    estimator = DensityEstimator(**EXPERIMENT, bins=3, epsilon=1.0, mechanism="independent")
    reason = "an error that a value causes tells of the value, and one about no rows of the first row"
    names = ("check_estimators_empty_data_messages", "check_dtype_object")
    found = check_estimator(estimator, on_skip=None, on_fail=None, expected_failed_checks=dict.fromkeys(names, reason))
    assert {check["status"] for check in found} <= {"passed", "skipped", "xfail"}
    assert {check["check_name"] for check in found if check["status"] == "xfail"} <= set(names)
    assert sum(check["status"] == "passed" for check in found) > 30


def correlated(rows: int = 2000) -> np.ndarray:
    x = np.random.default_rng(1).normal(0, 3, rows)
    return np.stack([x, x + np.random.default_rng(2).normal(0, 1, rows)], axis=1)


def test_density_integrates_to_one():
    estimator = DensityEstimator(**EXPERIMENT, bins=[4, 5], rho=0.5, mechanism="mst").fit(correlated())
    step = 0.5
    grid = np.arange(-10 + step / 2, 10, step)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    assert np.exp(estimator.score_samples(points)).sum() * step**2 == pytest.approx(1)
    assert estimator.score_samples([[11, 0], [0, -10.5]]).tolist() == [-np.inf, -np.inf]


def test_dependence_is_learned_and_sampled():
    estimator = DensityEstimator(**EXPERIMENT, bins=10, rho=0.5, mechanism="mst").fit(correlated())
    rows = estimator.sample(2000, random_state=0)
    assert rows.shape == (2000, 2)
    assert np.corrcoef(rows.T)[0, 1] > 0.8
    assert np.array_equal(rows, estimator.sample(2000, random_state=0))
    assert estimator.score_samples([[3, 3]])[0] > estimator.score_samples([[3, -3]])[0] + 2


def test_selects_among_models():
    rows = np.clip(correlated(), -10, 10)
    scores = [
        cross_val_score(clone(DensityEstimator(**EXPERIMENT, bins=8, rho=1.0, mechanism=name)), rows, cv=2)
        for name in ("independent", "mst")
    ]
    assert scores[1].mean() > scores[0].mean()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bounds": None}, "bounds=None is not valid: it must be a public range"),
        ({"bounds": (1, 1)}, "bounds=(1, 1) is not valid"),
        ({"bounds": [(0, 1)] * 3}, "or one for each column (2)"),
        ({"bins": 0}, "bins=0 is not valid: it must be a positive integer"),
        ({"rho": None}, "needs a privacy budget"),
        ({"mechanism": "magic"}, "mechanism='magic' is not valid"),
    ],
)
def test_wrong_parameters(changed, message):
    parameters = {**EXPERIMENT, "rho": 0.5, "mechanism": "mst", **changed}
    with pytest.raises(ArgumentError) as raised:
        DensityEstimator(**parameters).fit(correlated(50))
    assert message in str(raised.value)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, "text", None, b"bytes", 10**400])
def test_no_value_is_an_error_and_none_moves_another_row(odd):
    estimator = DensityEstimator(bounds=(0, 10), bins=5, rho=1e6, mechanism="independent", backend="simulation")
    rows = [[1.0], [9.0], [9.5]]
    before = clone(estimator).fit(np.array(rows)).result_.project("x0").values
    after = clone(estimator).fit(np.array([*rows, [odd]], dtype=object)).result_.project("x0").values
    assert np.abs(after - before).sum() == pytest.approx(1, abs=0.1)
    where = 4 if odd in (np.inf, 10**400) else 0
    assert np.argmax(after - before) == where


def test_missing_values_are_a_value_of_their_own_or_a_warning():
    rng = np.random.default_rng(0)
    rows = rng.normal(50, 10, (500, 2)).clip(25, 75)
    rows[rng.random(rows.shape) < 0.5] = np.nan
    options: dict[str, Any] = {"bounds": (0, 100), "bins": 5, "mechanism": "mst", "rho": 1e4, "backend": "simulation"}
    with pytest.warns(UserWarning, match="count as the lowest bound: say missing=True"):
        DensityEstimator(**options).fit(rows)
    estimator = DensityEstimator(**options, missing=True).fit(rows)
    drawn = estimator.sample(2000, random_state=0)
    assert np.isnan(drawn).mean() == pytest.approx(np.isnan(rows).mean(), abs=0.05)
    assert np.nanmin(drawn) >= 20
    assert np.isfinite(estimator.score_samples([[np.nan, 50.0], [50.0, 50.0]])).all()
    cells = np.array([[x, y] for x in (10, 30, 50, 70, 90, np.nan) for y in (10, 30, 50, 70, 90, np.nan)])
    sizes = np.where(np.isnan(cells), 1, 20).prod(axis=1)
    assert (np.exp(estimator.score_samples(cells)) * sizes).sum() == pytest.approx(1)
    assert estimator.fit(np.array([["a", "b"]] * 50, dtype=object)).result_.project("x0").values.argmax() == 5


def test_a_table_without_rows_is_no_error():
    estimator = DensityEstimator(bounds=(0, 10), bins=5, rho=1.0, mechanism="independent", backend="simulation")
    assert estimator.fit(np.empty((0, 2))).sample(3, random_state=0).shape == (3, 2)
    assert estimator.score_samples([[np.nan, 1.0]]).tolist() == [-np.inf]
