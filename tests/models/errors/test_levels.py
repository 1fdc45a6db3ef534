"""Intervals by level of a tree are those of the answers about its groups, not of all codes together."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.errors.code_errors import _summed
from pgmest.models.errors.table_answers import Side, TableAnswer
from pgmest.queries.levels import level_kron, weighted_kron

CODES, RECORDS = 60, 3000
TREE = pg.Hierarchy("code", {"chapter": np.arange(CODES) // 20})
DOMAIN = pg.Domain({"code": CODES, "sex": 2}).with_hierarchies(TREE)


def records() -> pg.Dataset:
    """Records whose codes have a long tail."""
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, CODES + 1) ** 1.1
    codes = rng.permutation(CODES)[rng.choice(CODES, RECORDS, p=chances / chances.sum())]
    return pg.Dataset.from_codes([codes, rng.integers(0, 2, RECORDS)], DOMAIN)


DATA = records()
NOISE = {("code",): 10.0, ("code@chapter",): 5.0, ("code@chapter", "sex"): 8.0}


def model_of(seed: int) -> pg.Model:
    """Estimate from noisy counts of codes and of chapters, and of chapters by sex."""
    rng, found = np.random.default_rng(seed), []
    for names, stddev in NOISE.items():
        query = level_kron(DOMAIN, names)
        true = query.apply(DATA.project(query.attributes)).reshape(-1)
        found.append(pg.LinearMeasurement(true + rng.normal(0, stddev, len(true)), query.attributes, stddev, query))
    return pg.estimate(found, DOMAIN)


@pytest.mark.parametrize("names", [("code@chapter",), ("code@chapter", "sex")], ids=" x ".join)
def test_the_interval_of_a_group_is_as_wide_as_the_noise_of_its_count(names):
    """Sums over 20 codes would be five times as wide. At least seven of ten hold the truth, of 12 or 24."""
    true = level_kron(DOMAIN, names).apply(DATA.project(("code", "sex")))
    held, widths = [], []
    for seed in range(4):
        low, high = model_of(seed).interval(names)
        held.append((low.values <= true) & (true <= high.values))
        widths.append(high.values - low.values)
    assert 0.6 < np.mean(widths) / (2 * 1.96 * NOISE[names]) < 1.2
    assert np.mean(held) > 0.7


def test_codes_and_sums_that_are_held_exactly_keep_their_intervals():
    """An exact count of chapters has no width, though its codes have noise."""
    query = level_kron(DOMAIN, ("code@chapter",))
    true = query.apply(DATA.project("code"))
    rng = np.random.default_rng(0)
    noisy = pg.LinearMeasurement(DATA.project("code").values + rng.normal(0, 10, CODES), "code", 10.0)
    model = pg.estimate([noisy, pg.LinearMeasurement.exact(true, "code", query)], DOMAIN)
    assert np.allclose(model.interval("code@chapter").width.values, 0.0, atol=1e-3)
    assert (model.interval("code").width.values > 1.0).any()


def test_dependence_that_was_not_measured_is_not_all_taken_to_be_between_groups():
    """Chapters within a state of independent areas: the codes may depend on areas, which cancels in sums over both."""
    areas = pg.Hierarchy("area", {"state": np.arange(40) // 5})
    domain, rng = pg.Domain({"code": CODES, "area": 40}).with_hierarchies(TREE, areas), np.random.default_rng(0)
    data = pg.Dataset.from_codes([rng.integers(0, CODES, RECORDS), rng.integers(0, 40, RECORDS)], domain)
    noisy = [
        pg.LinearMeasurement(data.project(name).values + rng.normal(0, 5, size), name, 5.0)
        for name, size in domain.items()
    ]
    model = pg.estimate(noisy, domain)
    one_state = {"area": (areas.groups("state") == 3).astype(float)}
    query = weighted_kron(domain, ("code@chapter",), one_state)
    counts, width = np.asarray(model.answer(query).values), model.interval(query).width.values
    assert (width < 0.7 * counts).all()
    assert (width > 2 * np.sqrt(counts)).all()


def answered(counts: np.ndarray, generator: np.random.Generator) -> list[TableAnswer]:
    """Noisy counts of codes and of chapters."""
    groups = TREE.groups("chapter")
    found = []
    for labels, stddev in ((np.arange(CODES), 20.0), (groups, 60.0)):
        true = np.bincount(labels, counts)
        found.append(TableAnswer(("code",), (Side(labels),), true + generator.normal(0, stddev, len(true)), stddev))
    return found


@pytest.mark.parametrize("uneven", [1.0, 30.0], ids=["chapters alike", "one chapter of frequent codes"])
def test_counts_of_rare_codes_tell_more_about_their_chapter_than_the_sum_of_noisy_counts(uneven):
    """Errors are as large as they are said to be, and smaller than those of least squares if most codes are rare."""
    groups, rng = TREE.groups("chapter"), np.random.default_rng(0)
    means = np.where(groups == 1, uneven, 1.0) * np.where(np.arange(CODES) % 10 == 0, 100.0, 1.0)
    squares, variances = [], []
    for _ in range(60):
        counts = rng.poisson(means).astype(np.float64)
        found = _summed(answered(counts, rng), groups, counts.sum(), 100.0)
        assert found is not None
        squares.append(np.square(found[0] - np.bincount(groups, counts)))
        variances.append(np.square(found[1]).sum(axis=1))
    least_squares = 1 / (1 / (20 * 20.0**2) + 1 / 60.0**2)
    assert 0.6 < np.mean(squares) / np.mean(variances) < 1.2
    assert np.mean(squares) < (0.75 if uneven == 1 else 1.05) * least_squares


def test_classes_of_codes_without_answers_of_their_own_have_errors_as_before():
    """Counts of chapters alone, one value, and answers about nothing are no counts of codes."""
    rng = np.random.default_rng(0)
    assert _summed(answered(np.ones(CODES), rng)[1:], TREE.groups("chapter"), 60.0, 1.0) is None
    found = _summed(answered(np.zeros(CODES), rng), np.zeros(CODES, dtype=np.int64), 0.0, 0.0)
    assert found is not None
    assert all(np.isfinite(part).all() for part in found)


def test_dependence_that_groups_hide_is_as_large_as_a_mechanism_says():
    """Half of the codes are of one kind and half of the other, in random order, so that groups of codes hide it."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, CODES, RECORDS)
    kinds = rng.permutation(CODES) % 2
    sexes = (rng.random(RECORDS) < np.where(kinds[codes] == 1, 0.8, 0.2)).astype(int)
    data = pg.Dataset.from_codes([codes, sexes], DOMAIN)
    query, true = level_kron(DOMAIN, ("code@chapter", "sex")), data.project(("code", "sex"))
    noisy = [
        pg.LinearMeasurement(data.project(name).values + rng.normal(0, 2, size), name, 2.0)
        for name, size in DOMAIN.items()
    ]
    values = (query.apply(true) + rng.normal(0, 2, query.answer_shape)).reshape(-1)
    answers = (*noisy, pg.LinearMeasurement(values, ("code", "sex"), 2.0, query))
    model = pg.estimate(answers, DOMAIN)
    hidden = float(np.abs(true.values - model.project(("code", "sex")).values).sum())
    held = []
    for dependence in ({}, {("code", "sex"): hidden}):
        low, high = model.knows(pg.KnownErrors(answers, dependence=dependence)).interval(("code", "sex"))
        held.append(np.mean((low.values <= true.values) & (true.values <= high.values)))
    assert held[0] < 0.6
    assert held[1] > 0.9


def test_distances_of_tables_from_a_model_are_without_the_sampling_error_of_their_records():
    """Independent attributes are as far from their expected table as chance says, which is no dependence."""
    rng = np.random.default_rng(0)
    data = pg.Dataset.from_codes([rng.integers(0, 200, RECORDS), rng.integers(0, 20, RECORDS)], {"a": 200, "b": 20})
    fitted = pg.mechanisms.LAMP(epsilon=20.0, backend="simulation").fit(data, seed=0)
    independent = np.outer(data.project("a").values, data.project("b").values) / RECORDS
    chance = np.abs(data.project(("a", "b")).values - independent).sum()
    assert fitted.model.known_errors.dependence["a", "b"] < 0.4 * chance


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mechanism", ["Independent", "LAMP"])
def test_a_level_of_one_group_and_an_attribute_of_one_value_have_the_interval_of_the_total(mechanism: str):
    tree, alone = (
        pg.Hierarchy("code", {"all": [0] * 12, "block": np.arange(12) // 3}),
        pg.Hierarchy("one", {"all": [0]}),
    )
    domain = pg.Domain({"code": 12, "sex": 2, "one": 1}).with_hierarchies(tree, alone)
    codes = np.arange(1000) % 12
    data = pg.Dataset.from_codes([codes, codes // 7, np.zeros(1000, dtype=int)], domain)
    run = getattr(pg.mechanisms, mechanism)(epsilon=3.0, delta=1e-9, backend="simulation")
    result = run.fit(data, seed=0, progress=False)
    low, high = (one.values.item() for one in result.interval("one"))
    for names in ("code@all", "one@all", ("code@all", "one@all")):
        found = [one.values.item() for one in result.interval(names)]
        assert np.allclose(found, [low, high], atol=0.3 * (high - low))
    assert result.interval(("code@all", "sex")).low.values.shape == (1, 2)
