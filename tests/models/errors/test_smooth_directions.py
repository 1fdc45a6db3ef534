"""What answers say about smooth sums of a table's errors: the errors of shrinkage are limited there, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.models.errors.measured_tables import SmoothDirections
from pgmest.models.errors.smooth_functions import DEGREES, smooth_functions


def drawn(scale: float, seed: int = 0) -> tuple[SmoothDirections, np.ndarray, np.ndarray, np.ndarray]:
    """Return directions of a table of 7 x 5 codes, errors that are smooth alone, and noise of a scale, half kept."""
    generator = np.random.default_rng(seed)
    rows, columns = generator.dirichlet(np.ones(7)), generator.dirichlet(np.ones(5))
    expected = 1000.0 * np.outer(rows, columns)
    directions = SmoothDirections.of(expected, generator.normal(0.0, scale, expected.shape))
    coefficients = 50.0 * generator.standard_normal((200, DEGREES, DEGREES))
    lost = directions.written[0] @ coefficients @ directions.written[1].T
    noise = generator.normal(0.0, scale, lost.shape)
    return directions, lost, 0.5 * noise, noise


def coefficients(directions: SmoothDirections, tables: np.ndarray) -> np.ndarray:
    return directions.read[0].T @ tables @ directions.read[1]


def test_smooth_errors_are_at_most_noise_and_distance_together() -> None:
    directions, lost, kept, noise = drawn(0.1)
    found = directions.limited(lost, kept, noise)
    squares, most, other = (np.square(coefficients(directions, t)).mean(axis=0) for t in (found, noise, kept))
    np.testing.assert_allclose(squares, most + directions.apart**2 - other)
    assert np.abs(found).mean() < 0.1 * np.abs(lost).mean()
    np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=2), 0.0, atol=1e-9)


def test_errors_below_the_noise_stay_as_they_are() -> None:
    directions, lost, kept, noise = drawn(1e4)
    np.testing.assert_allclose(directions.limited(lost, kept, noise), lost, atol=1e-9)


def test_rough_errors_stay_as_they_are() -> None:
    directions, lost, kept, noise = drawn(0.1)
    rough = np.random.default_rng(1).normal(size=lost.shape)
    rough -= directions.written[0] @ coefficients(directions, rough) @ directions.written[1].T
    found = directions.limited(lost + rough, kept, noise) - directions.limited(lost, kept, noise)
    np.testing.assert_allclose(found, rough, atol=1e-9)


@pytest.mark.parametrize("expected", [[[0.0, 0.0], [0.0, 0.0]], [[5.0, 0.0], [0.0, 0.0]], [[7.0]], [[3.0, 4.0, 0.0]]])
def test_tables_without_smooth_directions(expected: list) -> None:
    table = np.array(expected)
    directions = SmoothDirections.of(table, np.ones_like(table))
    lost = np.ones((4, *table.shape))
    np.testing.assert_array_equal(directions.limited(lost, lost, lost), lost)


@pytest.mark.parametrize("counts", [[1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 9.0, 0.0, 1.0], [1.0, 1.0]])
def test_smooth_functions_are_orthonormal_and_have_no_mean(counts: list[float]) -> None:
    found = smooth_functions(np.array(counts))
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-9)
    np.testing.assert_allclose(np.sqrt(counts) @ found, 0.0, atol=1e-9)
    assert found.shape[1] == min(DEGREES, np.count_nonzero(counts) - 1)
