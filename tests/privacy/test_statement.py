"""A statement about a release says what was promised, in words and in numbers."""

import json
import math
from typing import Any, ClassVar

import pandas as pd
import pytest

import pgmest as pg
from pgmest import transforms
from pgmest.errors import ArgumentError
from pgmest.mechanisms import AIM, MST, Independent, Transformed
from pgmest.privacy import GDP, AddRemove, ApproxDP, Budget, Epsilon, Ledger, Replace, Rho, Statement
from pgmest.privacy.budgets import at_most_text
from pgmest.privacy.ledger import Entry
from pgmest.privacy.statement import PrivacyStatement
from tests.mechanisms.every import EVERY, made


def ledger(budget, insecure=False):
    made = Ledger(budget)
    made.charge(Entry("ages", "measure", budget, {}, insecure))
    return made


def test_epsilon_and_delta_come_first_with_what_they_mean():
    mechanism = MST(epsilon=1.0, delta=1e-9)
    found = PrivacyStatement.of(mechanism, ledger(mechanism.budget()), schema="people.yaml")
    budget = mechanism.budget()
    assert isinstance(budget, Rho)
    rho = budget.rho
    assert found.promise == f"(1, 1e-09)-differential privacy, spent as {at_most_text(rho, 4)}-zCDP"
    assert found.rows()[0] == ("promise", found.promise)
    assert found.rows()[1] == ("all runs so far", "not known: this run charged no ledger of the dataset")
    assert found.rows()[3:5] == [("mechanism", "MST"), ("schema", "people.yaml")]
    assert "by a factor of at most 2.72, except with probability 1e-09." in found.meaning
    assert "one person with at most 1 record, in the table or not" in found.unit
    assert found.private
    assert found.caveats == ()


def test_pure_epsilon():
    mechanism = Independent(epsilon=0.5, delta=0)
    found = PrivacyStatement.of(mechanism, ledger(Epsilon(0.5)))
    assert (found.promise, found.delta) == ("0.5-differential privacy", 0.0)
    assert "1.65." in found.meaning
    assert "except" not in found.meaning


def test_a_unit_says_that_further_rows_are_left_out():
    found = PrivacyStatement.of(MST(rho=0.1, neighbors=AddRemove(4)), ledger(Rho(0.1)), person="pid")
    assert found.unit.startswith("one person with at most 4 records (all rows with one value of 'pid'; rows beyond")
    assert found.to_json()["person"] == "pid"
    assert "left out" not in PrivacyStatement.of(MST(rho=0.1), ledger(Rho(0.1))).unit


def test_rho_alone():
    found = PrivacyStatement.of(AIM(rho=0.5), ledger(Rho(0.5)))
    assert found.promise == "0.5-zero-concentrated differential privacy (zCDP)"
    assert "at most 1 standard deviations" in found.meaning
    assert found.to_json()["epsilon"] is None


@pytest.mark.parametrize(
    ("neighbors", "text"),
    [
        (
            AddRemove(8),
            "one person with at most 8 records, in the table or not; the number of records is protected",
        ),
        (Replace(), "one person with at most 1 record, replaced by another; the number of records is public"),
    ],
)
def test_who_is_protected(neighbors, text):
    mechanism = MST(rho=0.1, neighbors=neighbors)
    assert PrivacyStatement.of(mechanism, ledger(Rho(0.1))).unit == text


@pytest.mark.parametrize(("insecure", "drafted"), [(True, False), (False, True), (True, True)])
def test_nothing_is_promised_where_nothing_holds(insecure, drafted):
    mechanism = MST(epsilon=1.0, delta=1e-9)
    found = PrivacyStatement.of(mechanism, ledger(mechanism.budget(), insecure), schema="s.yaml", drafted=drafted)
    assert found.rows()[0] == ("promise", f"none: NOT PRIVATE ({found.promise} was asked for)")
    assert len(found.caveats) == insecure + drafted
    assert "NOT private" in str(found)
    assert "factor of at most" not in str(found)
    assert found.to_json()["private"] is False


def test_a_weak_promise_is_called_one_and_a_huge_one_does_not_overflow():
    for epsilon in (11.0, 2000.0):
        mechanism = Independent(epsilon=epsilon, delta=0)
        found = PrivacyStatement.of(mechanism, ledger(Epsilon(epsilon)))
        assert found.meaning.endswith("That is a weak promise.")
    assert "inf" in found.meaning
    assert math.isfinite(json.loads(json.dumps(found.to_json()))["epsilon"])


# -- every mechanism states what its ledger says ----------------------------------------------------------------------

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})
BUDGETS = [
    {"rho": 0.3},
    {"epsilon": 2.0, "delta": 0.0},
    *({"epsilon": e, "delta": d} for e in (0.1, 20.0) for d in (1e-9, 1e-4)),
]


def configured(name, budget):
    """The mechanism with this budget alone and inside of two transformations; nothing where it cannot have it."""
    try:
        plain = made(name, **{"rho": None, "backend": "opendp", **budget})
    except ArgumentError:
        return []
    once = Transformed(mechanism=plain, steps=[transforms.compress_rare])
    return [plain, once, Transformed(mechanism=once)]


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"Transformed"}))
def test_every_mechanism_states_what_its_ledger_says(name):
    for budget in BUDGETS:
        for mechanism in configured(name, budget):
            spent = mechanism.budget()
            found = PrivacyStatement.of(mechanism, Statement(spent))
            assert json.loads(json.dumps(found.to_json()))["promise"] == found.promise
            assert name in found.mechanism
            if "rho" in budget:
                assert (found.epsilon, found.rho) == (None, 0.3)
                assert f"at most {at_most_text(math.sqrt(0.6), 3)} standard" in found.meaning
            else:
                assert found.epsilon == budget["epsilon"]
                assert "standard deviations" not in found.meaning
                if not isinstance(spent, Epsilon):
                    assert found.epsilon is not None
                    assert found.delta is not None
                    assert spent.to_approx(found.delta).epsilon <= found.epsilon * (1 + 1e-6)


class Composed(Independent):
    """A mechanism of a caller whose budget is not the one that its parameters state."""

    own_budget: ClassVar[Budget] = Rho(1.0)

    def budget(self):
        return self.own_budget


@pytest.mark.parametrize("own", [Epsilon(3.0), Rho(2.0), GDP(4.0), ApproxDP(2.5, 1e-3)])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_smaller_epsilon_than_the_ledger_s_is_never_stated(own, wrapped):
    mechanism = Composed(epsilon=1.0, delta=1e-9)
    object.__setattr__(mechanism, "own_budget", own)
    if wrapped:
        mechanism = Transformed(mechanism=mechanism)
        object.__setattr__(mechanism.inside, "own_budget", own)
    for delta in (0.0, 1e-5):
        found = PrivacyStatement.of(mechanism, Statement(own, delta=delta))
        if isinstance(own, Epsilon | ApproxDP):
            assert found.epsilon == own.epsilon
            assert (found.delta or 0) >= getattr(own, "delta", 0.0) + delta * (1 - 1e-12)
        else:
            assert found.epsilon is None
            shift = math.sqrt(2 * own.rho) if isinstance(own, Rho) else own.mu
            assert f"shifted by at most {at_most_text(shift, 3)} standard" in found.meaning


def test_a_threshold_is_part_of_a_promise_without_epsilon():
    statement = Statement(Rho(0.5), [Entry("labels", "measure", Rho(0.1), delta=1e-8)], delta=1e-7)
    found = PrivacyStatement.of(Independent(rho=0.5), statement)
    assert found.promise.endswith("(zCDP), except with probability 1e-08")
    assert found.meaning.endswith("This fails with probability 1e-08.")


@pytest.mark.parametrize("values", [["F", "M"], "bought"])
def test_a_transformed_mechanism_fits_a_schema_and_says_what_it_promises(values):
    budget: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-6}
    table = pd.DataFrame({"a": [0, 1, 2, 2] * 100, "s": ["F", "M"] * 200})
    texts = {"type": "categorical", "values": values, "other": "else"}
    columns = {"a": {"type": "integer", "min": 0, "max": 2}, "s": texts}
    for inside in (Independent(**budget), MST(**budget), AIM(**budget)):
        mechanism = Transformed(mechanism=inside, steps=[transforms.compress_rare], backend="simulation")
        fitted = pg.Synthesizer(mechanism).fit(table, {"columns": columns}, seed=0, progress=False)
        assert fitted.privacy_["epsilon"] == 20.0
        assert fitted.privacy_["delta"] == 1e-6
        assert fitted.privacy_["mechanism"] == f"Transformed({type(inside).__name__})"
        assert len(fitted.sample(10, seed=0)) == 10


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 1.2, 2.0000004, 3.3333333, 12.0])
def test_words_never_promise_more_than_the_numbers(epsilon):
    meaning = PrivacyStatement.of(Independent(epsilon=epsilon, delta=0), ledger(Epsilon(epsilon))).meaning
    odds = float(meaning.partition("a factor of at most ")[2].split(". ")[0].rstrip("."))
    assert math.exp(epsilon) * (1 - 1e-9) <= odds <= math.exp(epsilon) * 1.02
    found = PrivacyStatement.of(AIM(rho=epsilon), ledger(Rho(epsilon)))
    assert float(found.promise.partition("-zero")[0]) >= epsilon
    shift = float(found.meaning.partition("shifted by at most ")[2].partition(" standard")[0])
    assert shift >= math.sqrt(2 * epsilon) * (1 - 1e-9)
