"""Sets of weights of synthetic units: their variance is that of totals over units, and none is negative."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.analyses.combine import combine
from pgmest.analyses.sampled_tables import SampledTables
from pgmest.mechanisms.linked.unit_errors import UnitErrors
from pgmest.mechanisms.linked.unit_weights import LEAST_WEIGHT, UnitWeights

UNITS, SETS = 60, 4000


@pytest.fixture(scope="module")
def errors() -> UnitErrors:
    """Errors as large as those of real tables: a part of the units has numbers that are known to a few percent only."""
    generator = np.random.default_rng(0)
    pool = np.sort(generator.permutation(UNITS)[:40])
    answers = generator.standard_normal((40, 8)) * 3
    factor = np.linalg.cholesky(answers @ answers.T + 0.02 * np.eye(40))
    moved, left = 0.3 * generator.standard_normal(40), 0.2 * generator.random(40)
    return UnitErrors(pool, UNITS, 1.2, factor, moved, left, 2.0, answers @ answers.T, 1.0)


def test_totals_vary_as_far_as_they_may_be_off(errors: UnitErrors) -> None:
    drawn = UnitWeights.drawn(errors, SETS, np.random.default_rng(1))
    assert drawn.weights.shape == (SETS, UNITS)
    assert drawn.weights.min() == pytest.approx(LEAST_WEIGHT * errors.scale)
    values = np.random.default_rng(2).standard_normal((UNITS, 12)) + 1
    totals = drawn.weights @ values
    farthest = np.sqrt(2 * np.log(UNITS) * np.square(values).mean(axis=0))
    found = errors.totals(values[errors.pool], farthest)
    assert np.allclose(drawn.spread * totals.std(axis=0), found.stddev, rtol=0.06)
    reach = 4 * found.stddev / drawn.spread / np.sqrt(SETS)
    assert (np.abs(totals.mean(axis=0) - errors.scale * values.sum(axis=0)) < reach).all()
    joined = combine([(row, np.zeros(12)) for row in totals], tables=SampledTables(totals, spread=drawn.spread))
    assert np.allclose(joined.stddev, found.stddev, rtol=0.06)


def test_a_unit_that_no_answer_is_about_varies_more(errors: UnitErrors) -> None:
    drawn = UnitWeights.drawn(errors, SETS, np.random.default_rng(1))
    outside = np.setdiff1d(np.arange(UNITS), errors.pool)
    assert np.allclose(
        drawn.spread * drawn.weights[:, outside].std(axis=0), 2.0 * np.sqrt(2 * np.log(UNITS) / UNITS), rtol=0.06
    )
    assert drawn.weights[:, errors.pool].std(axis=0).min() > drawn.weights[:, outside].std(axis=0).max()


def test_errors_that_move_no_weight_below_the_least_keep_their_size() -> None:
    small = UnitErrors(np.arange(5), 5, 1.0, 100 * np.eye(5), np.zeros(5), np.zeros(5), 0.0, np.zeros((5, 5)), 1.0)
    drawn = UnitWeights.drawn(small, 50, np.random.default_rng(0))
    assert drawn.spread == 1.0
    assert drawn.weights.std() == pytest.approx(0.01, rel=0.2)
    again = UnitWeights.drawn(small, 50, np.random.default_rng(0))
    assert np.array_equal(again.weights, drawn.weights)
