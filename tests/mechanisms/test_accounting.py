"""The conversion of (epsilon, delta) to a budget: each mechanism has the one with the least noise."""

import math

import numpy as np
import pytest

import pgmest as pg
from pgmest import mechanisms
from pgmest.privacy import GDP, AddRemove, Replace, Rho
from pgmest.privacy.bounded_range import choice_mu
from pgmest.privacy.selection import selection_epsilon
from pgmest.privacy.transcript import Witness

DOMAIN = pg.Domain(dict.fromkeys("abcd", 3))
CODES = np.random.default_rng(0).integers(0, 3, (400, 4))
DATA = pg.Dataset.from_codes(CODES, DOMAIN)
MORE = pg.Dataset.from_codes(np.vstack([CODES, [[0, 1, 2, 0]]]), DOMAIN)
OTHER = pg.Dataset.from_codes(np.vstack([CODES[1:], [[0, 1, 2, 0]]]), DOMAIN)
IN_MU = {"AIM": {"rounds": 12}, "MWEM": {}, "PMWPub": {"public": DATA}, "PPSyn": {}, "PrivMRF": {}}
IN_RHO = {"MST": {}, "PrivBayes": {}}
CHOOSING = {**IN_MU, **IN_RHO}
WITHOUT_CHOICES = ["Independent", "HDMM", "LAMP", "PriView", "PrivSyn"]


def made(name, **stated):
    stated = {"epsilon": 1.0, "delta": 1e-9, **stated}
    return getattr(mechanisms, name)(**stated, backend="simulation", **CHOOSING.get(name, {}))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", CHOOSING)
def test_no_other_account_pays_for_the_same_choices_with_less_noise(name, epsilon):
    """The noise of all measurements together is 1 / mu, or 1 / sqrt(2 rho), of what the choices of a run leave."""
    for delta in (1e-9, 1e-6) if name in IN_MU else (1e-9,):
        ledger = made(name, epsilon=epsilon, delta=delta).fit(DATA, seed=0, progress=False).ledger
        assert isinstance(ledger.budget, GDP if name in IN_MU else Rho)
        ranges = [selection_epsilon(entry.cost) for entry in ledger if entry.kind == "select"]
        by_curve = GDP.of(epsilon, delta).mu_squared - math.fsum(choice_mu(each) ** 2 for each in ranges)
        by_rho = 2 * Rho.of(epsilon, delta).rho - math.fsum(each**2 / 4 for each in ranges)
        assert ranges
        assert (by_curve > 1.02 * by_rho) if name in IN_MU else (by_rho > 1.02 * by_curve)


@pytest.mark.parametrize(
    ("share", "delta", "percent"),
    [
        (0.035, 1e-9, (4.8, 4.2, 3.2)),
        (0.1, 1e-9, (3.3, 2.6, 1.5)),
        (0.1, 1e-6, (6.3, 4.8, 2.8)),
        (1 / 3, 1e-9, (-5.8, -7.0, -9.0)),
    ],
)
def test_the_table_of_the_page(share, delta, percent):
    choices = 14
    for epsilon, less in zip((0.1, 1.0, 10.0), percent, strict=True):
        rho, mu_squared = Rho.of(epsilon, delta).rho, GDP.of(epsilon, delta).mu_squared
        left = mu_squared - choices * choice_mu(math.sqrt(8 * share * rho / choices)) ** 2
        assert 100 * (1 - math.sqrt(2 * (1 - share) * rho / left)) == pytest.approx(less, abs=0.06)


@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()], ids=["add", "replace"])
@pytest.mark.parametrize("name", CHOOSING)
def test_no_answer_costs_more_than_was_charged(name, neighbors):
    mechanism = made(name, neighbors=neighbors)
    other = MORE if neighbors == AddRemove() else OTHER
    witness = Witness(DATA, other, mechanism.budget(), neighbors=neighbors, backend="simulation", seed=0)
    mechanism.run(witness, None, np.random.default_rng(0))
    assert witness.excessive == []
    assert {entry.kind for entry in witness.ledger} >= {"measure", "select"}


@pytest.mark.parametrize("name", [*IN_MU, *IN_RHO, *WITHOUT_CHOICES])
def test_a_budget_in_rho_stays_one(name):
    assert made(name).budget() == (Rho if name in IN_RHO else GDP).of(1.0, 1e-9)
    assert made(name, epsilon=None, delta=None, rho=0.1).budget() == Rho(0.1)


def test_transformed_has_the_account_of_its_mechanism():
    inside = mechanisms.Transformed(mechanism=made("AIM"), steps=[pg.transforms.compress_rare])
    assert isinstance(inside.fit(DATA, seed=0, progress=False).ledger.budget, GDP)
