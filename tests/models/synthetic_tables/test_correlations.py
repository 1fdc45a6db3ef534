"""Correlations that are drawn apart, and are to hold together."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.errors.drawn_intervals import error_model_of
from pgmest.models.errors.plausible_tables import without_negative_counts
from pgmest.models.synthetic_tables.coefficients import SCALES, kinds_of
from pgmest.models.synthetic_tables.correlations import feasible_correlations
from pgmest.models.synthetic_tables.plausible import PlausibleTables, correlations_of
from pgmest.simulation import simulate_measurements


def drawn(size: int, scale: float, seed: int) -> np.ndarray:
    found = np.clip(scale * np.random.default_rng(seed).standard_normal((size, size)), -0.9, 0.9)
    found = np.triu(found, 1)
    return found + found.T + np.eye(size)


class TestFeasibleCorrelations:
    def test_those_of_records_stay_as_they_are(self) -> None:
        matrix = drawn(5, 0.1, 0)
        np.testing.assert_array_equal(feasible_correlations(matrix, np.zeros((5, 5), dtype=bool)), matrix)

    @pytest.mark.parametrize("seed", range(5))
    def test_contradictory_ones_become_possible_and_stay_as_large(self, seed) -> None:
        matrix, apart = drawn(6, 0.5, seed), ~np.eye(6, dtype=bool)
        assert np.linalg.eigvalsh(matrix)[0] < 0
        found = feasible_correlations(matrix, np.zeros((6, 6), dtype=bool))
        np.testing.assert_allclose(found, found.T)
        np.testing.assert_allclose(np.diag(found), 1)
        assert np.linalg.eigvalsh(found)[0] > 0
        assert np.square(found[apart]).mean() == pytest.approx(np.square(matrix[apart]).mean(), rel=0.02)
        assert np.corrcoef(found[apart], matrix[apart])[0, 1] > 0.7

    def test_those_of_copies_stay_near_one(self) -> None:
        matrix = np.full((3, 3), 0.995) + 0.005 * np.eye(3)
        np.testing.assert_array_equal(feasible_correlations(matrix, np.zeros((3, 3), dtype=bool)), matrix)

    def test_held_ones_stay_as_they_are(self) -> None:
        matrix, held = drawn(6, 0.6, 1), np.zeros((6, 6), dtype=bool)
        held[0, 1:3] = held[1:3, 0] = True
        assert np.linalg.eigvalsh(matrix)[0] < 0
        found = feasible_correlations(matrix, held)
        np.testing.assert_allclose(found[held], matrix[held], atol=0.02)


@pytest.fixture(scope="module")
def plausible() -> PlausibleTables:
    """Return the plausible tables of attributes of many codes: one pair is noisy, the others were not measured."""
    domain = pg.Domain({"a": 15, "b": 15, "c": 3})
    data = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, [15, 15, 3], (2000, 3)), domain)
    model = pg.estimate(simulate_measurements(data, [("a", "b"), ("c",)], stddev=100.0, seed=0), domain)
    return PlausibleTables(error_model_of(model), ("a", "b", "c"))


class TestPlausibleTables:
    def test_many_codes_do_not_make_tables_depend_more(self, plausible) -> None:
        squares = plausible._scales @ np.square(SCALES)
        for size in (1, 2, 6, 14, 20):
            spread = np.square(plausible._lowered((size, size), (1.0, 1.0, 1.0))) * squares[kinds_of((size, size))]
            assert spread[0, 0] == squares[0]
            share = plausible.errors.unseen.spectrum[0, 0]
            assert spread.sum() <= squares[0] / share * (1 + 1e-9)

    def test_correlations_vary_as_much_as_errors_say(self, plausible) -> None:
        found = plausible.draw(200, np.random.default_rng(0)).correlations["a", "c"]
        first, second = plausible._of("a")[:, 0], plausible._of("c")[:, 0]
        tables = plausible.errors.tables.table(("a", "c")) + plausible.errors.draws(("a", "c"), 200, 1)
        wanted = correlations_of(without_negative_counts(tables), first, second)
        assert 0.6 * wanted.std() < found.std() < 1.3 * wanted.std()


def test_correlations_of_tables() -> None:
    tables = np.array(
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [2.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]]
    )
    values = np.array([-1.0, 1.0])
    np.testing.assert_allclose(correlations_of(tables, values, values), [1.0, -1.0, 0.0, 0.0])
