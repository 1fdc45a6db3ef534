"""The choice of noise: each entry against its formula, and DPSyn's finding about few and many marginals."""

import math

import pytest

from pgmest.errors import ArgumentError
from pgmest.privacy import ApproxDP, Curator, Epsilon, Rho, best_noise, noise_choices, noise_table
from pgmest.privacy.composition import advanced_composition


def test_one_marginal_by_hand():
    stddevs = {(choice.noise, choice.composition): choice.stddev for choice in noise_choices(1, 1.0, 1e-5)}
    assert stddevs["laplace", "basic"] == pytest.approx(math.sqrt(2))
    assert stddevs["gaussian", "basic"] == pytest.approx(3.7306, rel=1e-4)
    assert stddevs["gaussian", "zcdp"] == pytest.approx(math.sqrt(0.5 / Rho.of(1.0, 1e-5).rho))
    assert len(stddevs) == 6


@pytest.mark.parametrize("k", [1, 10, 1000])
def test_the_shares_compose_to_the_budget(k):
    epsilon, delta = 1.0, 1e-9
    by = {(choice.noise, choice.composition): choice for choice in noise_choices(k, epsilon, delta)}
    each = math.sqrt(2) / by["laplace", "advanced"].stddev
    assert advanced_composition(each, k, delta) == pytest.approx(epsilon)
    each = math.sqrt(2) / by["laplace", "zcdp"].stddev
    assert (k * Epsilon(each).to_rho().rho) == pytest.approx(Rho.of(epsilon, delta).rho)
    assert by["laplace", "basic"].stddev == pytest.approx(math.sqrt(2) * k / epsilon)


def test_laplace_for_few_marginals_gaussian_for_many():
    few, many = best_noise(3, 1.0, 1e-9), best_noise(100, 1.0, 1e-9)
    assert (few.noise, few.composition, few.budget) == ("laplace", "basic", Epsilon(1.0))
    assert (many.noise, many.composition, many.budget) == ("gaussian", "zcdp", Rho.of(1.0, 1e-9))
    assert best_noise(100, 1.0).composition == "basic"
    assert len(noise_choices(100, 1.0, 0.0)) == 1


@pytest.mark.parametrize("k", [1, 20])
def test_a_curator_with_that_budget_adds_that_noise(k):
    import numpy as np

    import pgmest as pg

    data = pg.Dataset.from_codes(np.zeros((5, 1), dtype=int), {"a": 2})
    kinds = set()
    for choice in noise_choices(k, 0.5, 1e-6):
        if choice.budget is not None:
            curator = Curator(data, choice.budget, backend="simulation", seed=0)
            measurements = curator.measure_all(["a"] * k, choice.budget)
            assert measurements[-1].stddev == pytest.approx(choice.stddev, rel=0.02)
            kinds.add(type(choice.budget))
    assert kinds == {Epsilon, Rho, ApproxDP}


def test_the_table():
    lines = noise_table([1, 50], 1.0, 1e-9).splitlines()
    assert lines[0].startswith("| k | laplace, basic | laplace, advanced | laplace, zcdp | gaussian, basic")
    assert lines[2].startswith("| 1 | **1.414** |")
    assert lines[3].endswith("**40.86** |")
    assert len(lines) == 4


def test_arguments_that_cannot_be():
    for arguments, name in (((0, 1.0, 0.1), "k="), ((1, 0.0, 0.1), "epsilon="), ((1, 1.0, 1.0), "delta=")):
        with pytest.raises(ArgumentError, match=name):
            noise_choices(*arguments)
    with pytest.raises(ArgumentError, match="ks="):
        noise_table([], 1.0, 0.1)
