"""Reweighting: weights against proportional fitting of the whole table, and the records drawn by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.sampling.facts import Facts
from pgmest.sampling.reweighting import RELAXATION, Reweighting, moved

SHAPE = {"a": 3, "b": 2, "c": 2}


def cells(weights: np.ndarray | None = None) -> Dataset:
    """Return a record for each cell of the table."""
    codes = [axis.ravel() for axis in np.indices(tuple(SHAPE.values()))]
    return Dataset.from_codes(codes, SHAPE, np.ones(12) if weights is None else weights)


def table_of(records: Dataset, weights: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    return Dataset(records.domain, records.columns, records.records, weights).project(clique).values


@given(st.integers(0, 2**32 - 1))
def test_weights_have_the_tables_and_the_least_relative_entropy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    start = generator.lognormal(0.0, 1.0, 12)
    truth = cells(generator.lognormal(0.0, 1.0, 12))
    targets = {clique: truth.project(clique).values for clique in (("a", "b"), ("c",))}
    records = cells(start)
    tilt = generator.lognormal(0.0, 0.5, (2, 2))
    changed = Reweighting(records)
    found = changed.weights(targets, changed.tilted({("b", "c"): tilt})[0])
    for clique, wanted in targets.items():
        assert np.abs(table_of(records, found, clique) - wanted).sum() <= 0.05 * truth.total
    # the dual: potentials of the targets, found by an optimizer that knows nothing of raking
    prior = start * tilt[records.column("b"), records.column("c")]
    pair = records.column("a") * 2 + records.column("b")

    def dual(theta: np.ndarray) -> float:
        weights = prior * np.exp(np.clip(theta[pair] + theta[6:][records.column("c")], -50, 50))
        return float(weights.sum() - theta[:6] @ targets["a", "b"].ravel() - theta[6:] @ targets[("c",)])

    theta = minimize(dual, np.zeros(8), method="BFGS").x
    exact = prior * np.exp(theta[pair] + theta[6:][records.column("c")])
    np.testing.assert_allclose(found, exact, atol=0.05 * truth.total)


def test_the_last_of_contradicting_tables_is_met_and_empty_cells_stay_empty() -> None:
    records = cells().take(np.arange(10))  # a = 2, b = 1 has no records
    wanted = {("a", "b"): np.full((3, 2), 10.0), ("a",): np.array([10.0, 20.0, 30.0])}
    found = Reweighting(records).weights(wanted)
    np.testing.assert_allclose(table_of(records, found, ("a",)), [10.0, 20.0, 30.0], rtol=0.05)
    assert found.sum() == pytest.approx(60.0)


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {("a",): np.zeros(3)},
        {("a",): np.array([5.0, 0.0, 0.0])},
        {("a",): np.array([1e9, 1e-9, 0.0]), ("b",): np.array([1e9, 0.0])},
    ],
)
def test_degenerate_targets_leave_finite_weights(tables) -> None:
    with np.errstate(all="raise", under="ignore"):
        changed = Reweighting(cells())
        start, power = changed.tilted({("b",): np.array([1e-300, 1e300])} if len(tables) == 1 else {})
        found = changed.weights(tables, start)
    assert power == 1.0
    assert np.isfinite(found).all()
    assert (found >= 0).all()


def test_factors_of_many_tables_are_limited() -> None:
    changed, tilt = Reweighting(cells()), np.exp(np.array([-3.0, 0.0, 3.0]))
    start, power = changed.tilted({("a",): tilt, ("b",): np.ones(2)}, most=1.0)
    assert power == pytest.approx(1 / np.sqrt(6))
    assert np.log(start).std() == pytest.approx(1.0)
    whole, one = changed.tilted({("a",): tilt}, most=3.0)
    assert one == 1.0
    np.testing.assert_allclose(whole / whole.sum(), tilt[changed.records.column("a")] / tilt.sum() / 4)


def test_records_are_drawn_by_weights() -> None:
    weights = np.arange(12.0)
    found, generator = Reweighting(cells()), np.random.default_rng(0)
    even = found.sample(weights, 660, "round", generator)
    assert even.weights is None
    np.testing.assert_array_equal(even.project(tuple(SHAPE)).values.ravel(), 10 * weights)
    counts = np.stack(
        [found.sample(weights, 66, "multinomial", generator).project(tuple(SHAPE)).values.ravel() for _ in range(400)]
    )
    np.testing.assert_allclose(counts.mean(axis=0), weights, atol=0.6)
    np.testing.assert_allclose(counts.var(axis=0), weights * (1 - weights / 66), atol=3.0)
    fact = Facts.of(LinearMeasurement.exact([20, 30, 10], "a"))
    assert fact is not None
    assert found.sample(weights * 60 / 66, 60, "round", generator, [fact]).project("a").values.tolist() == [20, 30, 10]


class TestMoved:
    def test_small_changes_of_means_are_met_but_for_the_factor_of_the_step(self) -> None:
        generator = np.random.default_rng(0)
        weights, values = generator.exponential(1.0, 5000), generator.normal(0, 1, (5000, 2)) @ [[1.0, 0.5], [0.0, 0.8]]
        before = weights @ values / weights.sum()
        change = np.array([0.02, -0.01])
        found = moved(weights, values, before + change / RELAXATION)
        np.testing.assert_allclose(found @ values / found.sum() - before, change, rtol=0.15)

    def test_means_that_no_weights_have_do_not_break_it(self) -> None:
        values = np.column_stack([np.ones(4), np.arange(4.0), np.arange(4.0)])  # constant, and the same twice
        found = moved(np.ones(4), values, np.array([2.0, 100.0, -100.0]))
        assert np.all(np.isfinite(found) & (found > 0))
