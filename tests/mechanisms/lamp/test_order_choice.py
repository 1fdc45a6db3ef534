"""The choice between the order of a tree and that of the list, for the groups over which LAMP measures pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.mechanisms.lamp.collected_evidence import evidence_of
from pgmest.mechanisms.lamp.tree_order import TreeOrder
from pgmest.privacy.payment import Payment
from pgmest.privacy.transcript import Witness

CODES, RECORDS = 40, 4000
RANDOM = np.random.default_rng(1).permutation(CODES) // 8
"""Branches that say nothing about codes whose neighbors in the list are alike."""


def records(branches: np.ndarray = RANDOM, by: np.ndarray | None = None, count: int = RECORDS) -> pg.Dataset:
    """Return records whose other attributes depend on the fifth of the list in which a code lies, or on `by`."""
    rng = np.random.default_rng(0)
    code = rng.integers(CODES, size=count)
    part = (np.arange(CODES) // 8 if by is None else by)[code]
    columns = [code, *((part + rng.integers(2, size=count)) % 5 for _ in range(2)), rng.integers(3, size=count)]
    domain = pg.Domain({"code": CODES, "a": 5, "b": 5, "c": 3}).with_hierarchies(
        pg.Hierarchy("code", {"block": branches})
    )
    return pg.Dataset.from_codes(columns, domain)


def fitted(data: pg.Dataset) -> Any:
    run = pg.mechanisms.LAMP(epsilon=1.0, delta=1e-9, backend="simulation", records=RECORDS)
    return run.fit(data, seed=0, progress=False)


def measured_in(result: Any, data: pg.Dataset) -> bool:
    """Return whether pairs were measured in the order of the tree."""
    return "code" in TreeOrder.of(data.domain).measured(result.measurements).orders


def error(result: Any, data: pg.Dataset) -> float:
    pairs = [("code", "a"), ("code", "b")]
    return sum(float(np.abs(result.project(p).values - data.project(p).values).sum()) for p in pairs)


def test_pairs_are_measured_over_groups_of_the_list_if_the_tree_says_nothing():
    data = records()
    assert not measured_in(fitted(data), data)
    plain = pg.Dataset(pg.Domain(dict(data.domain)), data.columns, data.records)
    assert error(fitted(data), data) < 1.1 * error(fitted(plain), data)


def test_pairs_are_measured_over_branches_that_tell_the_other_attributes():
    data = records(by=RANDOM)
    assert measured_in(fitted(data), data)


def test_answers_over_groups_of_the_list_are_about_the_codes_of_the_domain():
    data = records()
    result = fitted(data)
    for one in result.measurements:
        off = one.values - one.answer(data.project(one.clique))
        assert np.abs(off).max() < 6 * float(np.max(one.stddev))
    low, high = result.interval("code@block").low.values, result.interval("code@block").high.values
    true = data.project("code@block").values
    assert (low <= true + 50).all()
    assert (true <= high + 50).all()
    assert set(result.details["not_distinguished"]) == {"code"}


def test_workloads_by_level_zeros_and_invariants_follow_the_order_of_the_list():
    data = records()
    possible = data.project(("code", "a")).values > 0
    blocks = pg.LinearMeasurement.exact(data.project("code@block").values, ("code@block",))
    options: dict[str, Any] = {"structural_zeros": [pg.zeros.only(("code", "a"), possible)], "invariants": [blocks]}
    run = pg.mechanisms.LAMP(epsilon=1.0, delta=1e-9, backend="simulation", records=RECORDS, **options)
    result = run.fit(data, [("code@block", "a"), ("code", "b"), ("a", "b")], seed=0, progress=False)
    assert np.allclose(result.project("code@block").values, blocks.values)
    assert (result.project(("code", "a")).values[~possible] <= 1e-6).all()


def test_runs_that_are_interrupted_after_the_choice_have_the_codes_of_the_domain():
    data, calls = records(), []

    def stop(curator: Any) -> None:
        calls.append(curator)
        if len(calls) == 12:
            raise KeyboardInterrupt

    run = pg.mechanisms.LAMP(epsilon=1.0, delta=1e-9, backend="simulation", records=RECORDS)
    result = run.fit(data, seed=0, progress=stop)
    assert result.interrupted
    assert any(len(one.clique) > 1 and "code" in one.clique for one in result.measurements)
    assert not measured_in(result, data)
    assert error(result, data) < 0.9 * data.records


@pytest.mark.parametrize("charged", [True, False])
def test_the_scores_of_both_orders_are_charged(charged: bool, monkeypatch: pytest.MonkeyPatch):
    data = records(count=400)
    neighbor = pg.Dataset.from_codes(np.vstack([data.codes, (0, 3, 1, 2)]), data.domain)
    charge = Payment.charge

    def forgetful(self: Any, entry: Any, done: Any, fresh: bool = True) -> None:
        if charged or "dependence" not in entry.label:
            charge(self, entry, done, fresh)

    monkeypatch.setattr(Payment, "charge", forgetful)
    mechanism = pg.mechanisms.LAMP(rho=0.5, backend="simulation", records=400)
    witness = Witness(data, neighbor, mechanism.budget(), neighbors=mechanism.neighbors, backend="simulation", seed=0)
    mechanism.run(witness, None, np.random.default_rng(0))
    both = "dependence of 12 tables"  # six pairs, three of them by code, too, and by groups of the list
    assert any(both in answer.label for answer in witness.answers) or not charged
    assert bool(witness.excessive) != charged


def test_orders_of_the_list_and_of_the_tree_are_inverse():
    data = records()
    tree = TreeOrder.of(data.domain)
    listed = tree.listed({"code"})
    assert listed.orders == {}
    assert listed.ordered.hierarchies["code"].levels["block"].tolist() == _by_first(RANDOM).tolist()
    assert (np.diff(tree.ordered.hierarchies["code"].levels["block"]) >= 0).all()
    values = np.arange(CODES)[tree.orders["code"]]
    assert values[tree.other_orders["code"]].tolist() == list(range(CODES))
    assert listed.other_orders["code"].tolist() == tree.orders["code"].tolist()


def _by_first(groups: np.ndarray) -> np.ndarray:
    seen: dict[int, int] = {}
    return np.array([seen.setdefault(group, len(seen)) for group in groups.tolist()])


@pytest.mark.parametrize("last", [0, CODES - 1])
def test_counts_asked_in_the_order_of_the_tree_are_read_in_that_of_the_list(last: int):
    """The last place of the tree is that of the last code of the list, or of another."""
    branches = np.where(np.arange(CODES) == last, 9, RANDOM)
    data = records(branches)
    order, curator = TreeOrder.of(data.domain), pg.privacy.Curator(data, pg.privacy.Rho(1e4), backend="simulation")
    assert order.orders["code"][-1] == last or last == 0
    order.curator(curator).measure_all([("code",)], curator.budget, weights=[1.0], queries=[None])
    for own in (order, order.listed({"code"})):
        found = evidence_of(own.curator(curator))
        assert np.allclose(found.counts("code"), data.project(("code",)).values[own.order("code")], atol=1)
        assert found.noisy.keys() == {"code"}
        assert found.ranges == {}
