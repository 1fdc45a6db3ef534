"""One default of delta for every mechanism, command and the Synthesizer; delta=0 asks for pure differential privacy."""

import argparse
import inspect

import pytest

import pgmest as pg
from pgmest.cli.command import Add
from pgmest.cli.commands import COMMANDS
from pgmest.errors import ArgumentError
from pgmest.mechanisms import Transformed
from pgmest.privacy import ApproxDP, Epsilon, Ledger, Rho
from pgmest.privacy.budgets import DEFAULT_DELTA
from pgmest.privacy.statement import PrivacyStatement
from tests.mechanisms.auditing import DATA
from tests.mechanisms.every import EVERY, made

ALL = sorted({*EVERY} - {"Transformed"})
EPSILON = {"epsilon": 2.0, "rho": None}


def test_every_signature_has_the_same_default():
    kinds = [pg.Synthesizer, *(getattr(pg.mechanisms, name) for name in EVERY)]
    assert {inspect.signature(kind).parameters["delta"].default for kind in kinds} == {DEFAULT_DELTA} == {1e-9}


def test_every_command_with_a_delta_has_the_same_default():
    found = {}
    for command in COMMANDS.values():
        parser = argparse.ArgumentParser()
        command.options(Add(parser, everything=True))
        if "--delta" in parser._option_string_actions:
            found[command.name] = parser.get_default("delta")
    assert found == dict.fromkeys(["synthesize", "plan", "audit", "ledger"], DEFAULT_DELTA)


@pytest.mark.parametrize("name", EVERY)
def test_repr_promise_and_ledger_show_the_delta_that_was_taken(name):
    if name == "Transformed":
        mechanism = Transformed(mechanism=made("Independent", **EPSILON))
    else:
        mechanism = made(name, **EPSILON)
    assert mechanism.promise == ApproxDP(2.0, DEFAULT_DELTA)
    assert "epsilon=2.0, delta=1e-09, rho=None" in repr(mechanism)
    result = mechanism.fit(DATA, seed=0, progress=False)
    assert result.ledger.promise == ApproxDP(2.0, 1e-9)
    assert str(result.ledger).splitlines()[1] == "for (2, 1e-09)-differential privacy"
    assert result.ledger.to_json()["promise"] == {"type": "ApproxDP", "epsilon": 2.0, "delta": 1e-9}
    assert PrivacyStatement.of(result.mechanism, result.ledger).promise.startswith("(2, 1e-09)-differential privacy")


@pytest.mark.parametrize("name", ALL)
def test_delta_zero_is_a_pure_promise_or_refused(name):
    if getattr(pg.mechanisms, name).definition == "zcdp":
        with pytest.raises(ArgumentError, match="got delta=0, but spends its budget under zCDP"):
            made(name, delta=0, **EPSILON)
        return
    mechanism = made(name, delta=0, **EPSILON)
    assert (mechanism.budget(), mechanism.promise) == (Epsilon(2.0), ApproxDP(2.0, 0.0))
    result = mechanism.fit(DATA, seed=0, progress=False)
    assert str(result.ledger).splitlines()[1] == "for (2, 0)-differential privacy"
    statement = PrivacyStatement.of(mechanism, result.ledger)
    assert (statement.promise, statement.delta) == ("2-differential privacy", 0.0)


@pytest.mark.parametrize("name", ALL)
def test_a_budget_in_rho_has_no_delta(name):
    mechanism = made(name)
    assert (mechanism.delta, mechanism.promise) == (None, None)
    assert mechanism.fit(DATA, seed=0, progress=False).ledger.promise is None


def test_a_ledger_shows_no_promise_that_it_does_not_imply():
    assert Ledger(Rho(2.0), promise=ApproxDP(1.0, 1e-9)).promise is None
    assert Ledger(Rho.of(1.0, 1e-9), promise=ApproxDP(1.0, 1e-9)).promise == ApproxDP(1.0, 1e-9)
    assert Ledger(Rho.of(1.0, 1e-9), 1e-10, ApproxDP(1.0, 1e-9)).promise is None
