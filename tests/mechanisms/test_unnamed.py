"""Attributes that no item of a workload names: every mechanism measures them, and other workloads run as before."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.mechanisms.unnamed import measure_unnamed, unnamed, unnamed_share, with_unnamed
from pgmest.privacy import AddRemove, Curator, Rho
from pgmest.workloads import Item, Workload
from tests.mechanisms.every import EVERY, made

DOMAIN = pg.Domain({name: 3 for name in "abcdef"})


def skewed(count=4000):
    """Nine of ten records have code 2 in each attribute; the first pair is dependent."""
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((count, 6)) < 0.9, 2, rng.integers(0, 3, (count, 6)))
    codes[:, 1] = np.where(rng.random(count) < 0.5, codes[:, 0], codes[:, 1])
    return pg.Dataset.from_codes(codes, DOMAIN)


DATA = skewed()
SMALL: list[Any] = [("a", "b")]
LARGE: list[Any] = [clique for size in (2, 3) for clique in itertools.combinations("abcde", size)]
WORKLOADS: dict[str, Any] = {
    "one pair": SMALL,
    "all pairs and triples but of one attribute": LARGE,
    "prefixes": Workload((Item(("a", "b"), pg.Kron({"a": pg.queries.prefix(3), "b": np.eye(3)})),)),
    "weights": Workload((Item(("a", "b"), weight=1e6), Item(("c",), weight=0.0))),
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "DualQuery": {"rho": 0.05, "samples": 50, "steps": 30},
    "LAMP": {"records": 500},
    "PMWPub": {"public": DATA.take(slice(0, 400)), "rounds": 2},
}


def fitted(name, workload, **changes):
    mechanism = made(name, **{"rho": 0.5, **PARAMETERS.get(name, {}), **changes} if name != "Transformed" else {})
    return mechanism.fit(DATA, workload, seed=0, progress=False)


@pytest.mark.filterwarnings("ignore::pgmest.mechanisms.notices.UnusedWorkloadWarning")
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", EVERY)
def test_no_attribute_is_left_uniform(name, workload):
    """A uniform marginal would be 0.6 away from the true one in total variation."""
    result = fitted(name, WORKLOADS[workload])
    for attribute in DOMAIN:
        found, truth = (one.project((attribute,)).values for one in (result, DATA))
        distance = 0.5 * np.abs(found / found.sum() - truth / truth.sum()).sum()
        assert distance < 0.15, (attribute, distance)


@pytest.mark.parametrize(("weights", "added"), [((1e6, 3.0), 3.0), ((6.0, 3.0), 0.3), ((5e-324, 1.0), 5e-324)])
def test_items_that_are_added_have_the_least_weight_and_a_tenth_of_the_whole_at_most(weights, added):
    workload = Workload((Item(("a", "b"), weight=weights[0]), Item("c", weight=weights[1])))
    found = with_unnamed(DOMAIN, workload)[2:]
    assert [(item.clique, item.query, item.matters) for item in found] == [((name,), None, False) for name in "def"]
    assert [item.weight for item in found] == pytest.approx([added] * 3)


@pytest.mark.parametrize("cliques", [[tuple("abcdef")], ["ab", "cd", "ef"], list("abcdef")], ids=len)
def test_a_workload_that_names_all_attributes_stays_as_it_is(cliques):
    workload = pg.workloads.marginals(map(tuple, cliques))
    assert with_unnamed(DOMAIN, workload) is workload
    assert unnamed(DOMAIN, workload) == [] == unnamed(DOMAIN, None)
    assert unnamed_share(DOMAIN, workload) == unnamed_share(DOMAIN, None) == 0
    curator = Curator(DATA, Rho(1.0), neighbors=AddRemove(), backend="simulation", seed=0)
    measure_unnamed(curator, workload)
    measure_unnamed(curator, None)
    assert curator.remaining == Rho(1.0)


@pytest.mark.parametrize("name", ["MWEM", "PrivMRF"])
def test_unnamed_attributes_are_measured_once_and_first(name):
    asked = [measurement.clique for measurement in fitted(name, SMALL).measurements if measurement.clique]
    assert [clique for clique in asked if set(clique) & set("cdef")] == [("c",), ("d",), ("e",), ("f",)]
    assert set(asked[:4]) >= {("c",), ("d",)}


@pytest.mark.parametrize("workload", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("estimator", ["pgm", "original"])
def test_mwem_spends_its_whole_budget(workload, estimator):
    mechanism = pg.mechanisms.MWEM(epsilon=1.0, delta=1e-9, rounds=2, backend="simulation", estimator=estimator)
    result = mechanism.fit(DATA, workload, seed=0, progress=False)
    assert result.ledger.total <= result.ledger.budget
    assert result.ledger.remaining / result.ledger.budget < 1e-6


def test_plans_are_those_of_a_run():
    hdmm = pg.mechanisms.HDMM(rho=0.5, backend="simulation")
    plan = hdmm.plan(DOMAIN, SMALL)
    measured = [measurement.clique for measurement in hdmm.fit(DATA, SMALL, seed=0, progress=False).measurements]
    assert sorted(plan.strategy.cliques) == sorted(measured)
    lamp = pg.mechanisms.LAMP(rho=0.5, backend="simulation").plan(DOMAIN, 4000, SMALL, quick=True)
    assert {(name,) for name in DOMAIN} == {table.clique for table in lamp.columns}
    assert {(name,) for name in DOMAIN} <= {table.clique for table in lamp.tables}
