"""A table of counts as the prior, the seed of iterative proportional fitting; records as the prior of exact tables."""

import warnings

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, InconsistentMeasurementsError
from pgmest.priors import Support, public_model

DOMAIN = pg.Domain({"r": 4, "c": 3, "s": 2})


def fitted(seed: np.ndarray, margins: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """Fit a table by iterative proportional fitting; margins are by the axes that they keep."""
    table = seed.copy()
    for _ in range(3000):
        for axes, margin in margins.items():
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            now = table.sum(axis=others, keepdims=True)
            wanted = np.expand_dims(margin, others)
            table *= np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)
    return table


@pytest.mark.parametrize("zeros", [0, 1, 5])
@pytest.mark.parametrize("wanted", [[("r",), ("c",)], [("r", "c"), ("c", "s"), ("r", "s")], [("r", "c"), ("s",)]])
def test_a_seed_is_fitted_as_by_ipf(zeros, wanted):
    generator = np.random.default_rng(zeros)
    seed = generator.integers(1, 50, DOMAIN.shape).astype(float)
    seed.reshape(-1)[generator.choice(seed.size, zeros, replace=False)] = 0.0
    truth = pg.Factor(DOMAIN, np.where(seed > 0, generator.integers(1, 90, DOMAIN.shape), 0))
    margins = [pg.LinearMeasurement.exact(truth.project(clique), clique) for clique in wanted]
    given = pg.Factor(DOMAIN, seed).transpose(("s", "r", "c"))  # axes are matched by name
    model = pg.estimate(margins, DOMAIN, prior=given, tolerance=1e-9, max_iterations=50_000)
    by_axes = {DOMAIN.axes(clique): truth.project(clique).values for clique in wanted}
    found = model.project(DOMAIN.attributes).values
    assert np.abs(found - fitted(seed, by_axes)).max() <= 1e-3
    assert max(np.abs(model.project(clique).values - truth.project(clique).values).max() for clique in wanted) <= 1e-6
    assert np.array_equal(found == 0, seed == 0)


def test_a_seed_of_some_attributes():
    seed = pg.Factor({"c": 3, "s": 2}, [[1.0, 3.0], [2.0, 0.0], [1.0, 1.0]])
    model = pg.estimate([pg.LinearMeasurement.exact([10, 20, 30, 40], "r")], DOMAIN, prior=seed)
    assert np.allclose(model.project(("c", "s")).values, seed.values * 100 / 8)
    assert np.allclose(model.project("r").values, [10, 20, 30, 40], atol=1e-3)


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (pg.Factor({"x": 2}, [1, 2]), "a table over 'x', which the domain lacks"),
        (pg.Factor({"s": 3}, [1, 2, 3]), "another number of values"),
        (pg.Factor({"s": 2}, [1, -2]), "a seed has finite counts"),
        (pg.Factor({"s": 2}, [1, np.nan]), "a seed has finite counts"),
        (pg.Factor({"s": 2}, [0, 0]), "a seed has finite counts"),
        (np.ones((40, 30, 20)), "a Factor of counts"),
    ],
)
def test_seeds_that_are_refused(seed, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        pg.estimate([pg.LinearMeasurement.exact([5, 5], "s")], DOMAIN, prior=seed)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_records_as_the_prior_of_exact_tables_give_a_warning():
    data = pg.Dataset.from_codes(np.array([[0, 0, 1], [1, 1, 0], [2, 2, 1], [3, 0, 0]]), DOMAIN)
    exact, noisy = pg.LinearMeasurement.exact([5, 5], "s"), pg.LinearMeasurement([5.0, 5.0], "s", 1.0)
    with pytest.warns(UserWarning, match="pg.rake"):
        pg.estimate([exact], DOMAIN, prior=data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pg.estimate([exact, noisy], DOMAIN, prior=data)
        pg.estimate([exact], DOMAIN, prior=Support(data))
        pg.estimate([exact], DOMAIN, prior=public_model(data, [("s",)]))


def test_zeros_of_a_seed_that_contradict_the_margins_are_named():
    margins = [pg.LinearMeasurement.exact([50, 50], "a"), pg.LinearMeasurement.exact([60, 40], "b")]
    domain = {"a": 2, "b": 2}
    with pytest.raises(InconsistentMeasurementsError) as caught:
        pg.estimate(margins, domain, prior=pg.Factor(domain, [[1, 1], [0, 1]]))
    assert "zero" in str(caught.value)
    with pytest.raises(InconsistentMeasurementsError):
        pg.estimate(margins, domain, prior=pg.Factor(domain, [[1, 1], [1, 1]]), structural_zeros={("a", "b"): [(1, 0)]})
    at_the_limit = pg.Factor(domain, [[1, 1], [0, 1]])  # the table that fits is a limit of positive ones
    model = pg.estimate([margins[0], pg.LinearMeasurement.exact([50, 50], "b")], domain, prior=at_the_limit)
    assert np.allclose(model.project(("a", "b")).values, [[50, 0], [0, 50]], atol=1e-6)
