"""What is said of a release is what was promised, in words and in numbers."""

import json
import math

import pytest

from pgmest.mechanisms import AIM, MST, Independent
from pgmest.privacy import AddRemove, Epsilon, Ledger, Replace, Rho
from pgmest.privacy.ledger import Entry
from pgmest.privacy.statement import PrivacyStatement


def ledger(budget, insecure=False):
    made = Ledger(budget)
    made.charge(Entry("ages", "measure", budget, {}, insecure))
    return made


def test_epsilon_and_delta_come_first_with_what_they_mean():
    mechanism = MST(epsilon=1.0, delta=1e-9)
    found = PrivacyStatement.of(mechanism, ledger(mechanism.budget()), schema="people.yaml")
    rho = mechanism.budget().rho
    assert found.promise == f"(1, 1e-09)-differential privacy, spent as {rho:.4g}-zCDP"
    assert found.rows()[0] == ("promise", found.promise)
    assert found.rows()[2:4] == [("mechanism", "MST"), ("schema", "people.yaml")]
    assert "by a factor of at most 2.72, except with probability 1e-09." in found.meaning
    assert "one person with at most 1 record, in the table or not" in found.unit
    assert found.private
    assert found.caveats == ()


def test_pure_epsilon():
    mechanism = Independent(epsilon=0.5)
    found = PrivacyStatement.of(mechanism, ledger(Epsilon(0.5)))
    assert found.promise == "0.5-differential privacy"
    assert "1.65." in found.meaning
    assert "except" not in found.meaning


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
        mechanism = Independent(epsilon=epsilon)
        found = PrivacyStatement.of(mechanism, ledger(Epsilon(epsilon)))
        assert found.meaning.endswith("That is a weak promise.")
    assert "inf" in found.meaning
    assert math.isfinite(json.loads(json.dumps(found.to_json()))["epsilon"])
