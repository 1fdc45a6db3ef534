"""The ledger: exact sums, refusals that change nothing, and how it prints."""

import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.errors import ArgumentError, BudgetExceeded, BudgetTypeError
from pgmest.privacy import GDP, ApproxDP, Entry, Epsilon, Ledger, Rho
from tests.privacy.amounts import rho


@given(st.floats(1e-6, 1e3), st.integers(1, 200))
def test_equal_parts_always_fit_and_never_exceed(amount, k):
    ledger = Ledger(Rho(amount))
    for _ in range(k):
        ledger.charge(Entry("part", "charge", ledger.affordable(Rho(amount / k), "part")))
    assert sum(Fraction(rho(entry.cost)) for entry in ledger) <= Fraction(amount)
    assert ledger.total <= ledger.budget
    assert rho(ledger.remaining) <= 1e-9 * amount


def test_shares_in_decimals_fit():
    ledger = Ledger(Rho(0.7))
    for share in (0.1, 0.2, 0.3, 0.4):
        ledger.charge(Entry("part", "charge", ledger.affordable(Rho(0.7 * share), "part")))
    assert rho(ledger.remaining) < 1e-15


def test_a_refusal_changes_nothing_and_says_what_is_left():
    ledger = Ledger(ApproxDP(1.0, 1e-6))
    ledger.charge(Entry("first", "charge", ApproxDP(0.5, 1e-6)))
    for cost in (ApproxDP(0.25, 1e-9), ApproxDP(0.6, 0.0)):
        with pytest.raises(BudgetExceeded, match=r"second would cost .* only ApproxDP\(0.5, 0\) of ApproxDP\(1, "):
            ledger.affordable(cost, "second")
        with pytest.raises(BudgetExceeded):
            ledger.charge(Entry("second", "charge", cost))
    assert len(ledger) == 1
    assert ledger.remaining == ApproxDP(0.5, 0.0)


@pytest.mark.parametrize("delta", [2e-6, -1e-9])
def test_a_delta_that_is_not_left_is_refused_like_a_cost(delta):
    ledger = Ledger(Rho(1.0), 1e-6)
    with pytest.raises(BudgetExceeded, match="first would cost a delta of"):
        ledger.charge(Entry("first", "measure", Rho(0.5), delta=delta))
    assert (len(ledger), ledger.remaining, ledger.threshold_delta) == (0, Rho(1.0), 0.0)
    ledger.charge(Entry("first", "measure", Rho(0.5), delta=1e-6))
    with pytest.raises(BudgetExceeded):
        ledger.charge(Entry("second", "measure", Rho(0.25), delta=1e-12))
    assert (len(ledger), ledger.remaining, ledger.threshold_delta) == (1, Rho(0.5), 1e-6)


def test_costs_that_cannot_be():
    ledger = Ledger(Rho(1.0))
    with pytest.raises(BudgetTypeError, match="the cost of x is Epsilon"):
        ledger.affordable(Epsilon(0.1), "x")
    with pytest.raises(BudgetTypeError, match="the cost of x is Epsilon"):
        ledger.charge(Entry("x", "charge", Epsilon(0.1)))
    with pytest.raises(ArgumentError, match="more than nothing"):
        ledger.affordable(Rho(0.0), "x")
    for budget in (Rho(0.0), 1.0, None):
        with pytest.raises(ArgumentError, match="budget="):
            Ledger(budget)  # pyright: ignore[reportArgumentType]


def test_it_prints_as_a_table_and_converts_to_json():
    ledger = Ledger(Epsilon(2.0))
    ledger.charge(
        Entry("ages", "measure", Epsilon(0.5), {"clique": ["age"], "noise": "discrete_laplace", "stddev": 2.8})
    )
    ledger.charge(Entry("a pair", "select", Epsilon(1.0), {"candidates": 6}, insecure=True))
    assert str(ledger).splitlines() == [
        "Ledger: Epsilon(1.5) of Epsilon(2) spent on 2 requests",
        "INSECURE: simulated noise, which protects nobody; for experiments only",
        "  #  what for  kind     cost   share  details",
        "  1  ages      measure   0.5  25.0 %  discrete_laplace, stddev 2.8",
        "  2  a pair    select      1  50.0 %  candidates 6, INSECURE",
    ]
    values = ledger.to_json()
    assert values["spent"] == {"type": "Epsilon", "epsilon": 1.5}
    assert values["insecure"] is True
    assert values["entries"][0]["parameters"]["clique"] == ["age"]
    kept = pickle.loads(pickle.dumps(ledger.statement()))
    assert (str(kept), kept.total, kept.remaining) == (str(ledger), ledger.total, ledger.remaining)
    ledger.charge(Entry("more", "charge", Epsilon(0.5)))
    assert len(kept) == 2
    assert str(Ledger(Rho(1.0))) == "Ledger: Rho(0) of Rho(1) spent on 0 requests"
    assert str(Ledger(GDP(1.0))) == "Ledger: mu 0 of mu 1 spent on 0 requests; costs are squares of mu, which add up"


def test_many_charges_print_as_a_summary_whose_sums_are_exact():
    ledger = Ledger(Rho(1.0))
    for number in range(500):
        pair = {"clique": ["a", f"b{number}"], "noise": "gaussian", "stddev": 10.0 + number}
        ledger.charge(Entry(f"a x b{number}", "measure", Rho(1 / 2048), pair))
    for number in range(60):
        ledger.charge(Entry(f"b{number}", "measure", Rho(1 / 1024), {"clique": [f"b{number}"], "stddev": 3.0}))
    ledger.charge(Entry("one of 12", "select", Rho(1 / 4), {"candidates": 12}))
    ledger.charge(Entry("records", "measure", Rho(0.001), {"clique": [], "stddev": 2.0}))
    ledger.charge(Entry("means", "measure", Rho(0.001), {"values": 3}))
    ledger.charge(Entry("names", "measure", Rho(0.001), {"stddev": 9.0, "threshold": 40.0}))
    text = str(ledger)
    assert text == repr(ledger)
    lines = text.splitlines()
    assert lines[0].endswith("spent on 564 requests")
    assert [line.split() for line in lines[1:]] == [
        ["kind", "of", "requests", "cost", "share", "noise", "(stddev)"],
        ["measure", "numbers", "computed", "from", "the", "records", "1", "0.001", "0.1", "%"],
        ["measure", "tables", "of", "1", "attribute", "60", "0.05859", "5.9", "%", "3"],
        ["measure", "tables", "of", "2", "attributes", "500", "0.2441", "24.4", "%", "10", "to", "509"],
        ["measure", "the", "number", "of", "records", "1", "0.001", "0.1", "%", "2"],
        ["measure", "values", "that", "nobody", "listed", "1", "0.001", "0.1", "%", "9"],
        ["select", "choices", "among", "candidates", "1", "0.25", "25.0", "%"],
        ["the", "ledger's", "details()", "list", "each", "of", "the", "564", "requests"],
    ]
    assert len(ledger.details().splitlines()) == 1 + 1 + 564
    assert len(ledger.to_json()["entries"]) == 564


def test_long_names_are_short_in_the_lines():
    names = [f"How satisfied are you with {'the very ' * 12}good {what}?" for what in ("food", "rooms")]
    ledger = Ledger(Rho(1.0))
    ledger.charge(Entry(" x ".join(names), "measure", Rho(0.1), {"clique": names}))
    ledger.charge(Entry(f"round 1: {' x '.join(names)}", "select", Rho(0.1), {"clique": names}))
    lines = str(ledger).splitlines()
    assert max(map(len, lines[:4])) < 130
    assert [line.split(" = ")[1] for line in lines[4:]] == names
    assert lines[2].count("food") == lines[2].count("rooms") == lines[3].count("rooms") == 1
    assert ledger.entries[0].label == " x ".join(names)


@pytest.mark.parametrize(
    ("budget", "delta"),
    [
        (ApproxDP(1.0, 1e-6), 1e-30),
        (Epsilon(1.0 + 1e-9), 0.0),
        (Epsilon(1.0), 2e-6),
        (Rho(1.0), 0.0),
        (Rho(0.01), 1e-6),
    ],
)
def test_a_promise_that_the_budget_does_not_imply_is_not_stated(budget, delta):
    promise = ApproxDP(1.0, 1e-6)
    assert Ledger(budget, delta, promise).promise is None
    assert "for (1, 1e-06)" not in str(Ledger(budget, delta, promise))


def test_a_promise_in_words_is_rounded_up():
    budget = ApproxDP(1.00000049, 1.00000049e-6)
    assert "for (1.00001, 1.00001e-06)-differential privacy" in str(Ledger(budget, promise=budget))
