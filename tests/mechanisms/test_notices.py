"""Runs warn of budgets that promise little, and of workloads that a mechanism does not use."""

import warnings

import numpy as np
import pytest

import pgmest as pg
from pgmest.mechanisms.notices import UnusedWorkloadWarning, WeakPromiseWarning
from pgmest.workloads import Item, Workload

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})
DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, 2, (300, 3)), DOMAIN)
SCHEMA = {"columns": {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in DOMAIN.items()}}


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(one.category, str(one.message)) for one in caught if one.category.__module__.startswith("pgmest.")]


def fitted(mechanism, workload=None, **options):
    budget = {"epsilon": 1.0, "backend": "simulation"} | options
    return lambda: getattr(pg.mechanisms, mechanism)(**budget).fit(DATA, workload, seed=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delta": 0.5}, "delta 0.5"),
        ({"epsilon": 1000.0}, "epsilon 1000"),
        ({}, None),
        ({"epsilon": None, "rho": 0.1}, None),
    ],
)
def test_a_budget_that_promises_little_is_said(options, said):
    found = warned(fitted("Independent", **options))
    assert [category for category, _ in found] == ([WeakPromiseWarning] if said else [])
    assert said is None or said in found[0][1]
    frame = DATA.to_frame()
    budget = {"epsilon": 1.0} | options
    again = warned(lambda: pg.Synthesizer("independent", backend="simulation", **budget).fit(frame, SCHEMA, seed=0))
    assert again == found


TRIPLE = [("a", "b", "c")]
WEIGHTED = Workload((Item(("a", "b"), None, 1.0), Item(("b", "c"), None, 3.0)))
MATTERS = Workload((Item(("a", "b"), matters=True),))
PREFIX = Workload((Item(("b",), pg.queries.prefix(3)),))


@pytest.mark.parametrize(
    ("mechanism", "workload", "said"),
    [
        ("PrivBayes", [("a", "b")], "no effect"),
        ("MST", TRIPLE, "pairs at most"),
        ("MST", [("a", "b")], None),
        ("PrivSyn", TRIPLE, "pairs at most"),
        ("MST", WEIGHTED, "weights, query matrices and marks"),
        ("Independent", PREFIX, "weights, query matrices and marks"),
        ("Independent", MATTERS, "weights, query matrices and marks"),
        ("Independent", TRIPLE, None),
        ("MWEM", WEIGHTED, None),
        ("AIM", TRIPLE, None),
        ("LAMP", TRIPLE, None),
        ("PrivBayes", None, None),
    ],
)
def test_a_workload_that_is_not_used_is_said(mechanism, workload, said):
    found = warned(fitted(mechanism, workload))
    assert [category for category, _ in found] == ([UnusedWorkloadWarning] if said else [])
    assert said is None or (said in found[0][1] and mechanism in found[0][1])
