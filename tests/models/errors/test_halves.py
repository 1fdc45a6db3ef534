"""Tests of the errors of differences between the counts of two halves of ranges of codes."""

from dataclasses import replace

import numpy as np
import pytest

from pgmest.models.errors.code_errors import CodeErrors
from pgmest.models.errors.halves import HalvesErrors
from pgmest.models.errors.table_answers import Side, TableAnswer


def _answer(values: np.ndarray, stddev: float) -> TableAnswer:
    return TableAnswer(("a",), (Side(np.arange(len(values))),), values, stddev)


def _difference(errors: np.ndarray) -> np.ndarray:
    half = errors.shape[-1] // 2
    return errors[..., :half].sum(axis=-1) - errors[..., half:].sum(axis=-1)


def test_known_counts_have_the_errors_of_their_noise():
    counts, stddev = np.array([400.0, 100.0, 300.0, 200.0]), np.full(4, 2.0)
    halves, quarters = HalvesErrors.of(counts, counts, stddev, None, 1000.0)
    assert halves.squares == pytest.approx([16.0], rel=0.01)
    assert quarters.squares == pytest.approx([8.0, 8.0], rel=0.01)
    assert np.abs(halves.means).max() < 0.1


def test_a_model_that_ignores_known_answers_misses_what_they_say():
    values, even = np.array([400.0, 300.0, 200.0, 100.0]), np.full(4, 250.0)
    (halves, _) = HalvesErrors.of(values, even, np.full(4, 2.0), None, 1000.0)
    assert halves.means == pytest.approx([400.0], rel=0.01)
    assert halves.squares == pytest.approx([16.0], rel=0.01)


def test_independent_and_correlated_noise_agree():
    generator = np.random.default_rng(0)
    values, counts, stddev = generator.uniform(0, 50, 7), generator.uniform(0, 50, 7), generator.uniform(1, 9, 7)
    alone = HalvesErrors.of(values, counts, stddev, None, 200.0)
    with_root = HalvesErrors.of(values, counts, stddev, np.diag(stddev), 200.0)
    assert len(alone) == len(with_root) == 2
    for one, other in zip(alone, with_root, strict=True):
        assert np.allclose(one.squares, other.squares)
        assert np.allclose(one.means, other.means)


def test_equal_counts_of_codes_do_not_differ_between_uneven_halves():
    (halves,) = HalvesErrors.of(np.full(3, 90.0), np.full(3, 90.0), np.full(3, 1e-3), None, 270.0)
    assert np.abs(halves.means).max() < 1e-3


def test_one_code_has_no_halves():
    assert HalvesErrors.of(np.array([5.0]), np.array([5.0]), np.array([1.0]), None, 5.0) == ()


def test_hidden_attributes_may_have_most_records_in_either_half_and_no_more():
    """Noise as large as the number of records says nothing: errors are as large as halves may differ, not as noise."""
    records, codes, stddev = 1000.0, 20, 400.0
    counts = np.full(codes, records / codes)
    values = counts + stddev * np.random.default_rng(1).standard_normal(codes)
    drawn = CodeErrors.of([_answer(values, stddev)], counts, records, 0.0).draws(2000, np.random.default_rng(2))
    found = float(np.sqrt(np.mean(np.square(_difference(drawn)))))
    assert 0.4 * records < found < records


def test_errors_of_known_sign_add_up_over_attributes():
    records, stddev = 1000.0, 300.0
    counts = np.full(8, records / 8)
    errors = CodeErrors.of([_answer(counts, stddev)], counts, records, 0.0)
    signs = np.random.default_rng(3).standard_normal(4000)
    one, other = (_difference(errors.draws(4000, np.random.default_rng(seed), signs)) for seed in (4, 5))
    assert np.corrcoef(one, other)[0, 1] > 0.25
    own = _difference(errors.draws(4000, np.random.default_rng(6)))
    assert abs(np.corrcoef(one, own)[0, 1]) < 0.1


def test_corrected_draws_have_the_stated_means_and_squares():
    generator = np.random.default_rng(7)
    level = HalvesErrors(np.array([0, 2, 5]), np.array([6.0]), np.array([25.0]))
    for scale in (0.1, 10.0):
        drawn = level.corrected(scale * generator.standard_normal((20_000, 5)), np.ones(20_000), generator)
        # the difference is 0 for equal counts: sums of two and three codes have the weights 6 / 5 and 4 / 5
        found = 1.2 * drawn[:, :2].sum(axis=1) - 0.8 * drawn[:, 2:].sum(axis=1)
        assert found.mean() == pytest.approx(6.0, abs=0.2)
        assert found.var() == pytest.approx(25.0, rel=0.05)


@pytest.mark.parametrize("place", [0, 37])
def test_a_code_with_most_records_is_not_taken_for_noise(place: int):
    """Ranges around it differ by far more than those of other codes, of which noise hides all differences."""
    records, codes, stddev = 3000.0, 100, 100.0
    counts = np.full(codes, 200.0 / (codes - 1))
    counts[place] = 2800.0
    values = counts + stddev * np.random.default_rng(8).standard_normal(codes)
    whole = CodeErrors.of([_answer(values, stddev)], counts, records, 0.0)
    found, alone = (one.draws(2000, np.random.default_rng(9))[:, place] for one in (whole, replace(whole, halves=())))
    assert np.mean(np.square(found)) < 1.5**2 * np.mean(np.square(alone))


def test_few_differences_are_taken_for_unlike_all_others():
    """Answers as usual as the prior says are pulled towards each other as before."""
    records, codes, stddev = 1000.0, 64, 50.0
    values = np.full(codes, records / codes) + stddev * np.random.default_rng(10).standard_normal(codes)
    last = HalvesErrors.of(values, np.full(codes, records / codes), np.full(codes, stddev), None, records)[-1]
    noise = 2 * stddev**2
    assert np.mean(last.squares) < 0.9 * noise
