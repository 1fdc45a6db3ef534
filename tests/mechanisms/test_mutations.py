"""Every mechanism, witnessed: no answer costs more than was charged; and each way to get that wrong is caught.

One run of a witness computes what each answer cost between two neighbors made to be a bad case, so these are no
experiments: a mutation is caught in the first run, or not at all.
"""

import dataclasses
import math

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ChargeError
from pgmest.mechanisms import PMWPub, Transformed
from pgmest.mechanisms.registry import mechanism_names, named_mechanism
from pgmest.privacy import AddRemove, Curator, Replace, Rho, requests
from pgmest.privacy.account import Account
from pgmest.privacy.transcript import Witness

DOMAIN = pg.Domain({"a": 2, "b": 2, "c": 2})
ALIKE = np.array([[0, 0, 0]] * 30 + [[1, 1, 1]] * 30)
DATA = pg.Dataset.from_codes(ALIKE, DOMAIN)
ADDED = pg.Dataset.from_codes(np.vstack([ALIKE, (1, 1, 0)]), DOMAIN)
REPLACED = pg.Dataset.from_codes(np.vstack([ALIKE[1:], (1, 1, 0)]), DOMAIN)
QUICK = {
    "mst": {"threshold": -math.inf, "method": "auto"},
    "aim": {"rounds": 4, "max_iterations": 20, "method": "auto"},
    "privmrf": {"method": "auto"},
    "dualquery": {"estimator": "original", "samples": 20},
    "topdown": {"spine": "a"},
}
NAMES = [*mechanism_names(), "pmwpub", "transformed"]
MORE = pg.Dataset.from_codes(np.vstack([ALIKE, ALIKE[:20]]), DOMAIN)
CHOOSE = [name for name in NAMES if name not in ("independent", "hdmm", "priview", "lamp", "topdown")]
"""Those that choose what to measure by the records of this table. LAMP measures all pairs of so small a one, and has a
test on a larger one (lamp/test_scores.py)."""


def made(name, **options):
    if name == "transformed":
        steps = [lambda curator, spend: pg.transforms.merge(curator.domain, ("a", "b"), "ab")]
        return Transformed(mechanism=made("mst", **options), steps=steps)
    if name == "pmwpub":
        return PMWPub(public=DATA, rho=0.5, backend="simulation", **options)
    budget = {"epsilon": 1.0, "delta": 0} if name in ("mwem", "privbayes") else {"rho": 0.5}
    return named_mechanism(name, **budget, backend="simulation", **QUICK.get(name, {}), **options)


def witnessed(name, data=DATA, neighbor=ADDED, **options):
    mechanism = made(name, **options)
    witness = Witness(data, neighbor, mechanism.budget(), neighbors=mechanism.neighbors, backend="simulation", seed=0)
    mechanism.run(witness, None, np.random.default_rng(0))
    return witness


def caught(name, **changes):
    """Return whether the guard before a charge, or the witness after it, objects."""
    try:
        return bool(witnessed(name, **changes).excessive)
    except ChargeError:
        return True


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("neighbors", "other"), [(AddRemove(), ADDED), (Replace(), REPLACED)], ids=["add", "replace"])
def test_no_answer_costs_more_than_was_charged(name, neighbors, other):
    witness = witnessed(name, neighbor=other, neighbors=neighbors)
    assert witness.answers
    assert not witness.excessive
    assert witness.loss <= float(witness.ledger.total.exact[0]) * (1 + 1e-9)
    assert len(witness.answers) == len(witness.ledger)
    if isinstance(neighbors, AddRemove):
        assert witness.loss >= 0.45 * float(witness.ledger.budget.exact[0])  # so that a wrong factor shows


@pytest.mark.parametrize("name", NAMES)
def test_sensitivities_halved_are_caught(name, monkeypatch):
    exact = AddRemove.exact_l1, AddRemove.exact_l2_squared
    monkeypatch.setattr(AddRemove, "exact_l1", lambda self, query=None: exact[0](self, query) / 2)
    monkeypatch.setattr(AddRemove, "exact_l2_squared", lambda self, query=None: exact[1](self, query) / 4)
    assert caught(name)


@pytest.mark.parametrize("name", CHOOSE)
def test_a_choice_that_is_not_charged_is_caught(name, monkeypatch):
    charge = Account.charge

    def forgetful(self, entry, charged, fresh=True):
        if entry.kind != "select" and "dependen" not in entry.label:
            charge(self, entry, charged, fresh)

    monkeypatch.setattr(Account, "charge", forgetful)
    assert caught(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("guarded", [True, False])
def test_noise_halved_is_caught(name, guarded, monkeypatch):
    for maker in ("noise_for", "values_noise"):
        original = getattr(requests, maker)

        def halved(*given, original=original):
            made = original(*given)
            noise = made[0] if isinstance(made, tuple) else made
            smaller = dataclasses.replace(noise, scale=noise.scale / 2)
            return (smaller, made[1]) if isinstance(made, tuple) else smaller

        monkeypatch.setattr(requests, maker, halved)
    if not guarded:
        monkeypatch.setattr(requests, "_check_price", lambda *given: None)
    assert caught(name)


@pytest.mark.parametrize("name", NAMES)
def test_an_unstable_encoding_is_caught(name):
    """As if categories were numbered in the order in which they appear, and one record more changed it."""
    flipped = pg.Dataset.from_codes(1 - np.vstack([MORE.codes, (1, 1, 0)]), DOMAIN)
    assert caught(name, data=MORE, neighbor=flipped)


def test_an_unstable_transform_is_caught(monkeypatch):
    encode = pg.transforms.Transform.encode

    def by_frequency(self, data):
        coded = encode(self, data)
        odd = data.records % 2  # what one record changes
        swapped = np.array(coded.domain.shape) - 1 - coded.codes
        return pg.Dataset.from_codes(swapped if odd else coded.codes, coded.domain)

    merged = pg.transforms.merge(DOMAIN, ("a", "b"), "ab")
    more = pg.Dataset.from_codes(np.vstack([MORE.codes, (1, 1, 0)]), DOMAIN)
    witness = Witness(MORE, more, Rho(0.5), backend="simulation", seed=0)
    monkeypatch.setattr(type(merged), "encode", by_frequency)
    witness.through(merged).measure("ab", Rho(0.5))
    assert witness.excessive


@pytest.mark.parametrize("name", ["mst", "mwem", "dualquery"])
def test_scores_of_half_the_sensitivity_are_caught(name, monkeypatch):
    """Return the mechanisms whose scores the extra record moves by their full sensitivity."""
    select, draw = Curator.select, Curator.draw

    def halved(self, candidates, scores, sensitivity, spend, **options):
        return select(self, candidates, scores, sensitivity / 2, spend, **options)

    def doubled(self, exponents, *rest, **options):
        return draw(self, lambda data: 2 * exponents(data), *rest, **options)

    monkeypatch.setattr(Curator, "select", halved)
    monkeypatch.setattr(Curator, "draw", doubled)
    monkeypatch.setattr(requests, "_check_price", lambda *given: None)
    assert caught(name)
