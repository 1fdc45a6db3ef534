import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.known_errors import KnownErrors
from pgmest.models.errors.error_model import ErrorModel
from pgmest.models.errors.measured_tables import USUAL_WEIGHTS, largest
from pgmest.models.errors.mixture import PRIOR_DISTANCES

DOMAIN = pg.Domain({"a": 8, "b": 9, "c": 5})


def strong_table(seed: int, spread: float = 1.2, records: int = 4000) -> pg.Dataset:
    """Return records of three attributes whose cells vary at random, however many attributes a table has."""
    generator = np.random.default_rng(seed)
    weights = np.exp(spread * generator.standard_normal(DOMAIN.size()))
    cells = generator.choice(DOMAIN.size(), records, p=weights / weights.sum())
    return pg.Dataset.from_codes(np.stack(np.unravel_index(cells, DOMAIN.shape), axis=1), DOMAIN)


def answered(data: pg.Dataset, pairs, stddev: float, seed: int) -> list[pg.LinearMeasurement]:
    generator = np.random.default_rng(seed)
    return [
        pg.LinearMeasurement(table + generator.normal(0, stddev, table.shape), pair, stddev)
        for pair in pairs
        for table in [data.project(pair).values]
    ]


def held(model, data: pg.Dataset, clique) -> float:
    low, high = pg.interval(model, clique)
    truth = data.project(clique).values
    return float(np.mean((truth >= low.values - 1e-6) & (truth <= high.values + 1e-6)))


@pytest.mark.parametrize("stddev", [5.0, 60.0, 400.0])
def test_strong_dependence_that_noise_hides_is_covered(stddev):
    shares = []
    for seed in range(6):
        data = strong_table(seed)
        model = pg.estimate(answered(data, [("a", "b"), ("b", "c")], stddev, seed), DOMAIN)
        shares.append([held(model, data, clique) for clique in (("a", "b"), ("b", "c"))])
    assert 0.88 <= np.mean(shares) <= 0.995


STRONG_TABLES = [
    (np.full((3, 3), 30.0) + np.diag([450.0, 530.0, 600.0]), 240.0),
    (np.array([[500.0, 100.0], [150.0, 450.0]]), 120.0),
    (np.full((4, 4), 100.0) + np.diag([200.0] * 4), 150.0),
]


@pytest.mark.parametrize(("table", "stddev"), STRONG_TABLES)
def test_a_model_without_the_dependence_of_a_strong_table_covers_it(table, stddev):
    """The noise of the answers is so large that the model keeps nothing of them."""
    domain, held, widths = pg.Domain({"a": len(table), "b": len(table)}), [], []
    for seed in range(25):
        values = table + np.random.default_rng(seed).normal(0, stddev, table.shape)
        margins = [pg.LinearMeasurement(table.sum(1), "a", 1.0), pg.LinearMeasurement(table.sum(0), "b", 1.0)]
        answers = (*margins, pg.LinearMeasurement(values, ("a", "b"), stddev))
        for strong in ((), (("a", "b"),)):
            model = pg.estimate(margins, domain, total=table.sum()).knows(KnownErrors(answers, 1.0, strong=strong))
            low, high = pg.interval(model, ("a", "b"), kind="errors")
            held.append(np.mean((low.values <= table) & (table <= high.values)))
            widths.append(np.mean(high.values - low.values))
    assert np.mean(held[1::2]) >= 0.93
    assert np.mean(held[::2]) < 0.93
    assert np.mean(widths[1::2]) < 1.5 * np.mean(widths[::2])


def test_triples_are_covered_where_dependence_grows_with_the_number_of_attributes():
    shares = []
    for seed in range(6):
        data = strong_table(seed, 2.0)
        model = pg.estimate(answered(data, [("a", "b"), ("b", "c"), ("a", "c")], 4.0, seed), DOMAIN)
        shares.append(held(model, data, ("a", "b", "c")))
    assert np.mean(shares) >= 0.88


def test_a_model_that_does_not_shrink_keeps_all_noise():
    data = strong_table(0)
    answers = answered(data, [("a", "b")], 3.0, 0)
    model = pg.estimate(answers, DOMAIN)
    table = ErrorModel.of(model, KnownErrors(tuple(answers))).measured(("a", "b"))
    assert table is not None
    assert table.kept.min() > 0.9
    assert table.size == pytest.approx(np.abs(table.deviations).sum(), rel=0.05)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_share_of_the_weight_is_that_of_the_largest_distances(seed, share):
    weights = USUAL_WEIGHTS * np.random.default_rng(seed).gamma(0.3, size=USUAL_WEIGHTS.shape)
    part = share * largest(weights / weights.sum(), share)
    left = weights / weights.sum() - part
    assert part.sum() == pytest.approx(share)
    assert min(part.min(), left.min()) >= -1e-12
    assert PRIOR_DISTANCES[part > 1e-12].min() >= PRIOR_DISTANCES[left > 1e-12].max()


def test_sums_over_many_rare_codes_whose_noise_is_clipped_at_zero_are_covered():
    shares, domain = [], pg.Domain({"a": 300})
    for seed in range(8):
        generator = np.random.default_rng(seed)
        codes = np.minimum(generator.zipf(1.4, 6000) - 1, 299)
        data = pg.Dataset.from_codes(codes[:, None], domain)
        exact = data.project(("a",)).values
        answers = [pg.LinearMeasurement(exact + generator.normal(0, 60, 300), ("a",), 60.0)]
        model = pg.estimate(answers, domain, total=6000.0)
        low, high = pg.interval(model, pg.Kron({"a": pg.queries.prefix(300)}))
        truth = np.cumsum(exact)
        shares.append(np.mean((truth >= low.values - 1e-6) & (truth <= high.values + 1e-6)))
    assert np.mean(shares) >= 0.85


def test_sums_of_neighboring_codes_that_are_alike_are_covered_where_noise_is_above_the_counts():
    """Counts fall evenly to zero, so that shrinkage takes the same from many codes in a row."""
    true, shares = 1000 * np.maximum(0.0, 20 - np.arange(40)) / 210, []
    for seed in range(15):
        noisy = true + np.random.default_rng(seed).normal(0, 120, 40)
        model = pg.estimate([pg.LinearMeasurement(noisy, ("x",), stddev=120.0)], {"x": 40}, total=1000.0)
        low, high = pg.interval(model, pg.Kron({"x": pg.queries.prefix(40)}))
        shares.append(np.mean((low.values <= true.cumsum() + 1e-6) & (true.cumsum() <= high.values + 1e-6)))
    assert np.mean(shares) >= 0.85


def test_errors_do_not_depend_on_the_scale_of_dependence_even_where_its_squares_underflow():
    data = strong_table(0)
    answers = answered(data, [("a", "b")], 60.0, 0)
    table = ErrorModel.of(pg.estimate(answers, DOMAIN), KnownErrors(tuple(answers))).measured(("a", "b"))
    assert table is not None
    field = np.random.default_rng(0).normal(size=(60, 8, 9))
    tiny = field * np.r_[1.0, 1e-180, np.ones(6)][:, None]
    wanted, found = (table.draws(one, np.random.default_rng(1)) for one in (field, tiny))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
