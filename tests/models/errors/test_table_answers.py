"""Noisy tables that measurements imply, against dense linear algebra."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import pgmest as pg
from pgmest.models.errors.code_errors import CodeErrors, _combined
from pgmest.models.errors.counts_prior import count_moments
from pgmest.models.errors.table_answers import Side, TableAnswer, read_answers

SIZES = {"a": 3, "b": 4, "c": 2}
MATRICES = ("identity", "prefix", "groups", "shuffled groups", "contrasts", "total", "ranges")


def matrix(kind: str, size: int) -> np.ndarray:
    """Return a query matrix of a kind."""
    labels = {"groups": np.arange(size) // 2, "shuffled groups": np.arange(size)[::-1] % 2}
    if kind in labels:
        return (labels[kind] == np.arange(labels[kind].max() + 1)[:, None]).astype(float)
    if kind == "contrasts":
        return np.eye(size)[1:] - np.eye(size)[:-1]
    if kind == "ranges":
        return np.vstack([np.eye(size), np.ones((1, size))])
    return {"identity": np.eye(size), "prefix": np.tril(np.ones((size, size))), "total": np.ones((1, size))}[kind]


@given(st.tuples(*[st.sampled_from(MATRICES)] * 3), st.integers(0, 2**31))
def test_margins_are_least_squares_estimates(kinds, seed):
    """What answers say about a part of their attributes, and its noise, are those of the pseudo-inverse."""
    generator = np.random.default_rng(seed)
    factors = {name: matrix(kind, size) for (name, size), kind in zip(SIZES.items(), kinds, strict=True)}
    rows = int(np.prod([len(factor) for factor in factors.values()]))
    measurement = pg.LinearMeasurement(generator.normal(size=rows), tuple(SIZES), 2.0, pg.Kron(factors))
    whole = TableAnswer.of(measurement, pg.Domain(SIZES))
    assert whole is not None
    for count in (1, 2, 3):
        for part in itertools.combinations(SIZES, count):
            found = whole.onto(part)
            axes = [np.eye(SIZES[name]) if name in part else np.ones((1, SIZES[name])) for name in SIZES]
            summed, query = np.ones((1, 1)), np.ones((1, 1))
            for name, axis in zip(SIZES, axes, strict=True):
                if name not in part:
                    known = np.abs(axis - axis @ np.linalg.pinv(factors[name]) @ factors[name]).max() < 1e-9
                    if not known:
                        assert found is None
                        break
                summed, query = np.kron(summed, axis), np.kron(query, factors[name])
            else:
                assert found is not None
                inverse = summed @ np.linalg.pinv(query)
                table = np.zeros(found.shape)
                expected = found.expanded(found.beyond(table))
                sizes = [np.bincount(side.labels)[side.labels] for side in found.sides]
                wanted = (inverse @ measurement.values).reshape(expected.shape)
                spread = expected / np.multiply.outer(sizes[0], np.ones(())) if count == 1 else expected
                for axis, size in enumerate(sizes if count > 1 else ()):
                    spread = spread / size.reshape([-1 if place == axis else 1 for place in range(count)])
                np.testing.assert_allclose(spread, wanted, atol=1e-9)


def test_noise_has_the_covariance_of_the_pseudo_inverse():
    query = pg.Kron({"a": matrix("ranges", 3), "b": matrix("identity", 4)})
    (answer,) = read_answers([pg.LinearMeasurement(np.zeros(16), ("a", "b"), 3.0, query)], pg.Domain(SIZES))
    drawn = answer.noise(40_000, np.random.default_rng(0)).reshape(40_000, -1)
    inverse = np.linalg.pinv(np.kron(matrix("ranges", 3), np.eye(4)))
    np.testing.assert_allclose(np.cov(drawn.T), 9.0 * inverse @ inverse.T, atol=0.25)


def test_answers_that_cannot_be_read_are_left_out():
    domain = pg.Domain({"a": 3, "b": 4})
    few = pg.LinearMeasurement(np.zeros(2), ("a", "b"), 1.0, np.ones((2, 12)))  # a matrix that is no product
    assert read_answers([few, pg.LinearMeasurement([5.0], ())], domain) == ()
    all_cells = pg.LinearMeasurement(np.arange(12.0), ("a", "b"), 1.0, np.eye(12)[::-1].copy())
    (answer,) = read_answers([all_cells], domain)
    np.testing.assert_allclose(answer.values, np.arange(12.0)[::-1].reshape(3, 4))


def test_sides_number_groups_by_their_first_code():
    side = Side.of(pg.queries.compress(5, [1, 0, 1, 2, 0]), 5)
    assert side is not None
    assert side.matrix is None
    assert side.labels.tolist() == [1, 0, 1, 2, 0]  # the rows of the answers


@pytest.mark.parametrize("scale", [0.5, 30.0])
def test_moments_of_one_uniform_prior_are_those_of_a_truncated_normal(scale):
    """Many equal values leave one component of the prior, whose moments are known."""
    generator = np.random.default_rng(1)
    values = generator.uniform(0, 64 * scale, 4000) + generator.normal(0, scale, 4000)
    mean, variance = count_moments(values, np.full(4000, scale))
    near = np.abs(values) < 0.5 * scale

    def moment(power: int, value: float) -> float:
        return integrate.quad(lambda x: x**power * stats.norm.pdf(value, x, scale), 0, 64 * scale, points=[value])[0]

    exact = np.array([moment(1, value) / moment(0, value) for value in values[near]])
    np.testing.assert_allclose(mean[near], exact, rtol=0.35)
    middle = (values > 8 * scale) & (values < 50 * scale)
    np.testing.assert_allclose(np.sqrt(variance[middle]), scale, rtol=0.2)
    assert np.all(mean > 0)
    assert np.all(variance >= 0)


def test_errors_that_many_codes_share_are_found():
    """A model that moves records from the middle codes to the last ones is uncertain about sums of codes."""
    generator = np.random.default_rng(0)
    exact = np.round(2000 * 0.9 ** np.arange(60))
    answer = TableAnswer(("a",), (Side(np.arange(60)),), exact + generator.normal(0, 20, 60), 20.0)
    merged = exact.copy()
    merged[10:] = exact[10:].mean()
    spread = {}
    for name, counts in (("right", exact), ("merged", merged)):
        drawn = CodeErrors.of([answer], counts, float(counts.sum()), 0.0).draws(400, generator)
        spread[name] = np.sqrt(np.mean(np.square(drawn.cumsum(axis=1)), axis=0))
    shift = np.abs((merged - exact).cumsum())
    assert np.mean(shift[:-1] <= 2 * spread["merged"][:-1]) > 0.9
    assert spread["right"].max() < 0.5 * spread["merged"].max()


@pytest.mark.parametrize("seed", range(4))
def test_a_class_of_one_code_has_the_error_of_the_code(seed):
    generator = np.random.default_rng(seed)
    labels, exact = np.array([0, 1, 0, 2, 3, 3]), np.array([900.0, 300, 150, 60, 5, 0])
    codes = TableAnswer(("a",), (Side(np.arange(6)),), exact + generator.normal(0, 20, 6), 20.0)
    groups = TableAnswer(("a",), (Side(labels),), np.bincount(labels, exact) + generator.normal(0, 30, 4), 30.0)
    counts = np.maximum(exact + generator.normal(0, 15, 6), 0.0)
    known = float(counts.sum()), 10.0
    own = CodeErrors.of([codes, groups], counts, *known)
    found = CodeErrors.of_classes([codes, groups], labels, np.bincount(labels, counts), *known, own)
    assert found is not None
    for code, one in ((1, 1), (3, 2)):
        assert found.stddev[one] == own.stddev[code]
        assert found.kept[one] == own.kept[code]
        assert np.array_equal(found.shifts[:, one], own.shifts[:, code])
        assert np.linalg.norm(found.root[one]) == pytest.approx(own.stddev[code])
    everyone = CodeErrors.of_classes([codes], np.arange(6), counts, *known, CodeErrors.of([codes], counts, *known))
    assert np.array_equal(everyone.kept, CodeErrors.of([codes], counts, *known).kept)


def test_an_exact_total_beside_noisy_counts_leaves_their_errors_as_they_are():
    """A group of all codes, known without noise, has a precision that no sum with others can hold."""
    generator = np.random.default_rng(0)
    counts = generator.gamma(0.3, 100.0, 60)
    noisy = TableAnswer(("a",), (Side(np.arange(60)),), counts + generator.normal(0, 16, 60), 16.0)
    exact = TableAnswer(("a",), (Side(np.zeros(60, dtype=np.int64)),), counts.sum(keepdims=True), 1e-3)
    values, root = _combined([noisy, exact, exact, exact], counts, float(counts.sum()), 0.0)
    assert np.sqrt(np.square(root).sum(axis=1)).max() < 16.5
    assert np.abs(values - counts).max() < 5 * 16
    assert values.sum() == pytest.approx(counts.sum(), abs=0.1)


def test_counts_that_hardly_differ_have_errors_that_hardly_differ():
    """So a model has about the same intervals after it was saved, in which sums have other rounding errors."""
    counts = np.full(60, 30.0)
    noisy = TableAnswer(("a",), (Side(np.arange(60)),), counts, 16.0)
    one, other = (CodeErrors.of([noisy], own, 1800.0, 5.0) for own in (counts, counts * (1 + 1e-14)))
    drawn = [errors.draws(10, np.random.default_rng(0)) for errors in (one, other)]
    np.testing.assert_allclose(drawn[0], drawn[1], atol=1e-6)
