"""What noisy answers show of the smooth part of dependence, and what groups of codes show of it."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.errors.smooth_functions import DEGREES, smooth_functions
from pgmest.models.errors.smooth_shares import PRIOR_SHARE, SmoothShares, mean_shares, shown_share
from pgmest.models.errors.table_answers import Side, TableAnswer, read_answers

CODES, RECORDS = 8, 8000.0
RANKS = (np.arange(CODES) - (CODES - 1) / 2) / np.arange(CODES).std()
EXPECTED = np.full((CODES, CODES), RECORDS / CODES**2)
SMOOTH = 0.5 * EXPECTED * np.outer(RANKS, RANKS)


def shares_of(true: np.ndarray, stddev: float, generator: np.random.Generator) -> SmoothShares:
    """Return the shares that noisy answers to a table with these deviations show."""
    values = EXPECTED + true + stddev * generator.standard_normal(true.shape)
    answer = TableAnswer(("a", "b"), (Side(np.arange(CODES)), Side(np.arange(CODES))), values, stddev)
    return SmoothShares.of(answer, EXPECTED, float(np.abs(true).sum()))


def test_answers_tell_smooth_dependence_from_rough() -> None:
    generator = np.random.default_rng(0)
    rough = EXPECTED * 0.5 * generator.standard_normal((CODES, CODES))
    assert shares_of(SMOOTH, 1.0, generator).shares[0, 0] == pytest.approx(1.0, abs=0.2)
    assert shares_of(rough, 1.0, generator).shares.sum() < 0.4
    assert (shares_of(SMOOTH, 1.0, generator).weights > 0.9).all()


def test_answers_that_are_noise_leave_what_is_known_before() -> None:
    """The noise is ten times the counts: shares of what is left after shrinkage would be those of noise."""
    generator = np.random.default_rng(1)
    found = [shares_of(SMOOTH, 10 * EXPECTED[0, 0], generator) for _ in range(20)]
    assert max(one.weights.max() for one in found) < 0.05
    assert mean_shares(found) == pytest.approx(mean_shares([]), abs=0.05)
    assert mean_shares([]).shape == (DEGREES, DEGREES)
    assert mean_shares([]).sum() == pytest.approx(PRIOR_SHARE)


@pytest.mark.parametrize(
    ("labels", "least", "most"), [((0,) * 8, 0, 0), (range(8), 1, 1), ((0,) * 4 + (1,) * 4, 0.5, 0.95)]
)
def test_groups_show_a_part_of_dependence(labels, least, most) -> None:
    """One group of all codes shows nothing, and two halves show most of what is smooth."""
    shares, basis = np.full(8, 1 / 8), smooth_functions(np.full(8, 1.0))
    both = [np.array(labels), np.arange(8)]
    found = shown_share([shares] * 2, [basis] * 2, both, mean_shares([]))
    assert least - 1e-9 <= found <= most + 1e-9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("records", [0.0, 1e-300, 1e-160, 1e-9, 1.0])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e3])
def test_tables_with_hardly_any_records_have_finite_shares(records, size):
    answer = pg.LinearMeasurement(np.full((2, 3), 4.0), ("a", "b"), 100.0)
    (read,) = read_answers([answer], pg.Domain({"a": 2, "b": 3}))
    found = SmoothShares.of(read, np.full((2, 3), records / 6), size)
    assert np.isfinite(found.shares).all()
    assert ((found.weights >= 0) & (found.weights <= 1)).all()
