"""Answers between two ends: the loss, the likelihood, and estimates from published tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import pgmest as pg
from pgmest.errors import MeasurementError
from pgmest.losses import IntervalLoss, NegativeLogLikelihood, make_loss
from pgmest.losses.likelihood import _triangular
from pgmest.models.uncertainty import redraw

M = pg.LinearMeasurement
DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 2})
TABLE = pg.Factor(DOMAIN, np.random.default_rng(0).integers(0, 60, DOMAIN.shape).astype(float))
PUBLISHED = [
    M.rounded(5 * np.round(TABLE.project(("a", "b")).values / 5), ("a", "b"), 5),
    M.exact(TABLE.project("c").values, "c"),
    M.between([[0, 0], [0, 0]], [[300, 300], [300, np.inf]], ("b", "c")),
]
NOISY = M(TABLE.project(("b", "c")).values + np.array([[3.0, -8.0], [5.0, 1.0]]), ("b", "c"), 6.0)


class TestLoss:
    @pytest.mark.parametrize("name", ["l2", "huber", "likelihood"])
    def test_gradients_are_those_of_finite_differences(self, name) -> None:
        loss = make_loss(name, [*PUBLISHED, NOISY], DOMAIN)
        generator = np.random.default_rng(1)
        flat, step = generator.uniform(0, 60, loss.layout.cells), 1e-5 * generator.normal(size=loss.layout.cells)
        _, gradient = loss.flat_value_and_gradient(flat)
        ahead, behind = (loss.flat_value_and_gradient(flat + sign * step)[0] for sign in (1, -1))
        assert 0.5 * (ahead - behind) == pytest.approx(float(gradient @ step), rel=1e-5)

    def test_is_zero_exactly_on_compatible_tables(self) -> None:
        loss = IntervalLoss(PUBLISHED, DOMAIN)
        exact = pg.CliqueVector(DOMAIN, {clique: TABLE.project(clique) for clique in loss.cliques})
        assert loss.value(exact) == 0.0
        one = IntervalLoss(PUBLISHED[1:2], DOMAIN)
        off = pg.CliqueVector(DOMAIN, {("c",): TABLE.project("c")}) + 0.25
        assert one.value(off) == pytest.approx(0.5 * 2 * 0.5**2)  # two exact answers, each off by half a unit

    def test_the_likelihood_is_that_of_a_softened_interval(self) -> None:
        loss = NegativeLogLikelihood([M.between([3], [7], ())], DOMAIN)
        for count in (2.0, 2.9, 5.0, 7.4):
            mass = norm.cdf((7.25 - count) / 0.25) - norm.cdf((2.75 - count) / 0.25)
            assert loss.flat_value_and_gradient(np.array([count]))[0] == pytest.approx(-np.log(mass), rel=1e-6)
        far, near = (loss.flat_value_and_gradient(np.array([count]))[0] for count in (-400.0, 410.0))
        assert far == pytest.approx(near, rel=1e-6)  # as far outside on either side

    def test_noise_is_refused(self) -> None:
        with pytest.raises(MeasurementError, match="L2Loss"):
            IntervalLoss([NOISY], DOMAIN)


class TestEstimates:
    def test_are_compatible_and_certified(self) -> None:
        model = pg.estimate(PUBLISHED, DOMAIN)
        assert model.report.converged
        for measurement in PUBLISHED:
            answers = model.answer(measurement).datavector()
            assert np.all(answers >= measurement.low - 0.1)
            assert np.all(answers <= measurement.high + 0.1)

    def test_of_exact_tables_are_those_of_maximum_entropy(self) -> None:
        exact = [M.exact(TABLE.project(clique).values, clique) for clique in (("a", "b"), ("b", "c"))]
        model = pg.estimate(exact, DOMAIN, tolerance=1e-6)
        ab, bc = (TABLE.project(clique).values for clique in (("a", "b"), ("b", "c")))
        expected = ab[:, :, None] * bc[None] / bc.sum(1)[None, :, None]
        np.testing.assert_allclose(model.project(("a", "b", "c")).values, expected, atol=0.1)

    def test_mixed_with_noise_and_every_loss(self) -> None:
        for loss in ("l2", "l1", "huber", "likelihood"):
            model = pg.estimate([*PUBLISHED, NOISY], DOMAIN, loss=loss)
            np.testing.assert_allclose(model.project("c").values, TABLE.project("c").values, atol=1.0)
            assert np.abs(model.project(("b", "c")).values - NOISY.values.reshape(2, 2)).max() < 20

    def test_error_bars_are_as_wide_as_the_rounding(self) -> None:
        found = pg.estimate([M.rounded([500, 700], "b", 100)], DOMAIN).uncertainty("b", replicates=60)
        assert np.all((found.stddev.values > 20) & (found.stddev.values < 70))


class TestMeasurements:
    def test_ends(self) -> None:
        assert M.rounded([5, 0], "b", 5).low.tolist() == [3, 0]
        assert M.rounded([5, 0], "b", 5).high.tolist() == [7, 2]
        assert M.rounded([6, 0], "b", 3, random=True).high.tolist() == [8, 2]
        assert M.rounded([10], "b", 10, query=[[1, -1]]).low.tolist() == [5]
        hidden = M.suppressed([np.nan, np.inf], "b", 10, least=1)
        assert (hidden.low.tolist(), hidden.high.tolist()) == ([1, 0], [9, np.inf])
        assert not hidden.noisy
        assert NOISY.noisy
        assert NOISY.low is None

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: M.between([3], [2], "b"), "low is above high"),
            (lambda: M.between([-np.inf], [2], "b"), "finite"),
            (lambda: M.between([np.nan], [2], "b"), "finite"),
            (lambda: M.between([1], [np.nan], "b"), "numbers"),
            (lambda: M.rounded([1], "b", 0), "base"),
            (lambda: M.rounded([1], "b", True), "base"),
            (lambda: M.suppressed([5], "b", 10), "below the threshold"),
        ],
    )
    def test_refusals(self, make, message) -> None:
        with pytest.raises(MeasurementError, match=message):
            make()


class TestRandomRounding:
    """The law of unbiased random rounding, as the likelihood has it."""

    @pytest.mark.parametrize("base", [3, 5, 10])
    def test_the_likelihood_is_that_of_a_simulation(self, base) -> None:
        """P(published | count), from a million roundings, against the smoothed law: within what smoothing moves."""
        generator = np.random.default_rng(0)
        for count in (0, 1, 7, 23):
            below = base * (count // base)
            up = generator.random(1_000_000) < (count - below) / base
            shares = {below: 1 - up.mean(), below + base: up.mean()}
            for published, share in shares.items():
                made = pg.LinearMeasurement.rounded([published], "x", base, random=True)
                likelihood = NegativeLogLikelihood([made], {"x": 1})
                value, _ = likelihood.flat_value_and_gradient(np.array([float(count)]))
                assert np.exp(-value) == pytest.approx(share, abs=0.25 / base)

    def test_its_slope_is_that_of_differences(self) -> None:
        z = np.concatenate([np.linspace(-40, 40, 321) + 1e-3, [200.0, -300.0]])
        for base in (4.0, 12.0, 20.0, 400.0):
            width, step = np.full(len(z), base), 1e-4
            value, slope = _triangular(z, width)
            after, before = (_triangular(z + sign * step, width)[0] for sign in (1, -1))
            assert np.isfinite(value).all()
            np.testing.assert_allclose((after - before) / (2 * step), slope, atol=2e-3, rtol=2e-3)
            assert np.all(np.diff(slope[:-2]) >= -1e-9)  # log-concave

    def test_a_likelier_count_is_nearer_to_what_was_published(self) -> None:
        made = pg.LinearMeasurement.rounded([10.0], "x", 5, random=True)
        likelihood = NegativeLogLikelihood([made], {"x": 1})
        values = [likelihood.flat_value_and_gradient(np.array([x]))[0] for x in (10.0, 11.0, 13.0, 14.0, 16.0)]
        assert values == sorted(values)
        plain = NegativeLogLikelihood([pg.LinearMeasurement.between([6], [14], "x")], {"x": 1})
        assert plain.flat_value_and_gradient(np.array([10.0]))[0] == pytest.approx(
            plain.flat_value_and_gradient(np.array([12.0]))[0]
        )

    def test_redrawn_answers_have_the_law(self) -> None:
        made = pg.LinearMeasurement.rounded(np.zeros(200_000), "x", 5, random=True)
        again = redraw(made, np.full(200_000, 7.0), np.random.default_rng(0))
        assert again.base == 5
        assert set(np.asarray(again.published).tolist()) == {5.0, 10.0}
        assert again.published.mean() == pytest.approx(7.0, abs=0.03)
