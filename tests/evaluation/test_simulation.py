"""Simulated measurements: the marginals, plus noise of the standard deviation asked for."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, UnknownAttributeError
from pgmest.simulation import simulate_measurements


@pytest.fixture
def data() -> pg.Dataset:
    return pg.Dataset.from_codes(np.array([[0, 1], [2, 1], [2, 0]]), {"age": 3, "sex": 2})


def test_values_are_the_marginal_when_noise_is_tiny(data):
    one, two = simulate_measurements(data, ["sex", ("sex", "age")], stddev=1e-9, seed=0)
    np.testing.assert_allclose(one.values, [1, 2], atol=1e-7)
    np.testing.assert_allclose(two.values, [0, 0, 1, 1, 0, 1], atol=1e-7)
    assert (one.clique, two.clique) == (("sex",), ("sex", "age"))


def test_noise_has_the_standard_deviation_asked_for():
    data = pg.Dataset.from_codes(np.zeros((1, 1), dtype=int), {"x": 100_000})
    (measurement,) = simulate_measurements(data, [("x",)], stddev=7.0, seed=0)
    noise = measurement.values - data.project(("x",)).values
    assert measurement.stddev == 7.0
    assert noise.std() == pytest.approx(7.0, rel=0.02)
    assert abs(noise.mean()) < 0.1


def test_noise_is_drawn_clique_after_clique_from_one_generator(data):
    generator = np.random.default_rng(42)
    expected = [generator.normal(0, 2.0, size) for size in (3, 2)]
    measurements = simulate_measurements(data, ["age", "sex"], stddev=2.0, seed=42)
    for measurement, noise in zip(measurements, expected, strict=True):
        np.testing.assert_array_equal(measurement.values, data.project(measurement.clique).values + noise)


@pytest.mark.parametrize("stddev", [0.0, -1.0, np.nan, np.inf])
def test_noise_must_be_positive(data, stddev):
    with pytest.raises(ArgumentError, match=f"stddev={stddev} is not valid: it must be a positive number"):
        simulate_measurements(data, [("age",)], stddev)


def test_unknown_attribute_is_named(data):
    with pytest.raises(UnknownAttributeError, match=r"'sx' is not an attribute .* Did you mean 'sex'"):
        simulate_measurements(data, [("sx",)], 1.0)
