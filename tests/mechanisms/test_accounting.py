"""The conversion of (epsilon, delta) to a budget: tighter accounts give less noise, only where they are proven."""

from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest import mechanisms
from pgmest.errors import ArgumentError
from pgmest.privacy import GDP, AddRemove, PlannedRho, Replace, Rho
from pgmest.privacy.transcript import Witness

DOMAIN = pg.Domain(dict.fromkeys("abcd", 3))
CODES = np.random.default_rng(0).integers(0, 3, (400, 4))
DATA = pg.Dataset.from_codes(CODES, DOMAIN)
MORE = pg.Dataset.from_codes(np.vstack([CODES, [[0, 1, 2, 0]]]), DOMAIN)
OTHER = pg.Dataset.from_codes(np.vstack([CODES[1:], [[0, 1, 2, 0]]]), DOMAIN)
PUBLIC = {"public": DATA}
FIXED = {"MST": {}, "MWEM": {}, "PMWPub": PUBLIC, "PrivBayes": {}}
ON_THE_WAY = {"AIM": {"rounds": 12}, "PPSyn": {}, "PrivMRF": {}}
GAUSSIAN = {"Independent": {}, "HDMM": {}, "PriView": {}}
RELATIONS = pytest.mark.parametrize("neighbors", [AddRemove(), Replace()], ids=["add", "replace"])


def made(name, accounting, neighbors=AddRemove(), **stated):  # noqa: B008
    options = {**FIXED, **ON_THE_WAY, **GAUSSIAN}.get(name, {})
    stated = stated or {"epsilon": 1.0, "delta": 1e-9}
    kind = getattr(mechanisms, name)
    return kind(**stated, accounting=accounting, neighbors=neighbors, backend="simulation", **options)


@RELATIONS
@pytest.mark.parametrize(
    ("name", "accounting"),
    [(name, way) for name in FIXED for way in ("gdp", "pld")] + [(name, "gdp") for name in ON_THE_WAY],
)
def test_less_noise_for_the_same_promise(name, accounting, neighbors):
    budget = {"gdp": GDP, "pld": PlannedRho}[accounting]
    before, after = (made(name, way, neighbors).fit(DATA, seed=0, progress=False) for way in ("zcdp", accounting))
    assert isinstance(after.ledger.budget, budget)
    assert after.ledger.remaining / after.ledger.budget < 1e-6
    assert (after.mechanism.epsilon, after.mechanism.delta) == (1.0, 1e-9)
    first = after.measurements[0].stddev / before.measurements[0].stddev
    assert 0.93 < first < 0.96


@RELATIONS
@pytest.mark.parametrize(
    ("name", "accounting"),
    [(name, way) for name in FIXED for way in ("gdp", "pld")] + [(name, "gdp") for name in ON_THE_WAY],
)
def test_no_answer_costs_more_than_was_charged(name, accounting, neighbors):
    mechanism = made(name, accounting, neighbors)
    budget, plan = mechanism.planned(DOMAIN)
    other = MORE if neighbors == AddRemove() else OTHER
    witness = Witness(DATA, other, budget, plan=plan, neighbors=neighbors, backend="simulation", seed=0)
    mechanism.run(witness, None, np.random.default_rng(0))
    assert witness.excessive == []
    assert {entry.kind for entry in witness.ledger} >= {"measure", "select"}


@pytest.mark.parametrize("name", GAUSSIAN)
def test_what_makes_no_choices_has_the_exact_curve_already(name):
    for way in ("auto", "gdp", "pld"):
        assert made(name, way).budget() == GDP.of(1.0, 1e-9)
    assert made(name, "zcdp").budget() == Rho.of(1.0, 1e-9)


@pytest.mark.parametrize("name", ON_THE_WAY)
def test_costs_that_are_decided_on_the_way_have_no_plan(name):
    with pytest.raises(ArgumentError, match='by earlier answers.*take accounting="gdp"'):  # noqa: RUF043
        made(name, "pld")


def test_an_account_is_of_epsilon_and_delta():
    budgets: list[dict[str, Any]] = [{"rho": 0.1}, {"epsilon": 1.0, "delta": 0}]
    for stated in budgets:
        with pytest.raises(ArgumentError, match="epsilon= with a positive delta="):
            made("MWEM", "gdp", **stated)
    with pytest.raises(ArgumentError, match="no tighter bound is known"):
        made("DualQuery", "gdp")
    with pytest.raises(ArgumentError, match="accounting"):
        made("MST", "renyi")
    with pytest.raises(ArgumentError, match="depends on the plan"):
        made("MST", "pld").budget()
    with pytest.raises(ArgumentError, match="Transformed has the accounting"):
        mechanisms.Transformed(mechanism=made("MST", "pld"))
    inside = mechanisms.Transformed(mechanism=made("MST", "gdp"), steps=[pg.transforms.compress_rare])
    assert isinstance(inside.fit(DATA, seed=0, progress=False).ledger.budget, GDP)


def test_a_plan_knows_the_workload_and_small_domains():
    workload = [("a", "b"), ("c", "d")]
    result = made("MST", "pld").fit(DATA, workload, seed=0, progress=False)
    assert sum(entry.kind == "select" for entry in result.ledger) == 2
    assert result.ledger.remaining / result.ledger.budget < 1e-6
    for name in FIXED:
        one = DATA.select(["a"])
        mechanism = made(name, "pld") if name != "PMWPub" else None
        if mechanism is not None:
            assert mechanism.fit(one, seed=0, progress=False).measurements


def test_a_planned_run_goes_on_from_its_journal(tmp_path):
    def fit():
        return made("MST", "pld").fit(DATA, seed=0, progress=False, checkpoint=tmp_path / "run").measurements

    assert [one.values.tolist() for one in fit()] == [one.values.tolist() for one in fit()]
