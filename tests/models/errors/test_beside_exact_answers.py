"""Intervals of every kind of model that holds exact answers beside noisy ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.priors import Support
from tests.mechanisms.test_invariants import DATA, DOMAIN, HOLDING, made

PAIRS = list(itertools.combinations(DOMAIN, 2))
TABLES = [(), ("region",), ("work",), ("region", "sex"), ("sex", "age"), ("age", "work"), ("region", "sex", "age")]
EXACT = {
    "cells": [("region", None), (("sex", "age"), None)],
    "groups": [((), None), ("region", [[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0]])],
    "weights": [("sex", [[1.0, -1.0]])],
}
"""Exact answers about cells, groups of cells, and differences."""
OTHERS: dict[str, dict[str, Any]] = {
    "graphical": {},
    "regions": {"oracle": "convex"},
    "support": {"prior": Support(DATA)},
}
"""The options of `estimate` that give each kind of model."""
KINDS = [*((name, parameters) for name, parameters in HOLDING if name != "DualQuery"), ("graphical", {})]
CASES = [
    *(("cells", *kind) for kind in KINDS),
    *(("groups", *kind) for kind in KINDS if kind[0] in ("LAMP", "MST", "graphical")),
    *(("weights", name, {}) for name in ("LAMP", *OTHERS)),
]


def exact(clique: Any, query: Any) -> pg.LinearMeasurement:
    """Return the exact answers of the records."""
    counts = DATA.project(clique).values
    return pg.LinearMeasurement.exact(counts if query is None else np.asarray(query) @ counts, clique, query)


def model_of(name: str, parameters: dict[str, Any], known: list[pg.LinearMeasurement]) -> Any:
    """Return a model of noisy answers that holds exact ones."""
    if name not in OTHERS:
        workload = pg.workloads.marginals(PAIRS) if name == "HDMM" else None
        return made(name, known, **parameters).fit(DATA, workload, seed=0, progress=False).model
    generator, noisy = np.random.default_rng(0), []
    for pair in (("region", "sex"), ("region", "age"), ("age", "work")):
        counts = DATA.project(pair).values
        noisy.append(pg.LinearMeasurement(counts + generator.normal(0, 8, counts.shape), pair, 8.0))
    return pg.estimate([*known, *noisy], DOMAIN, **OTHERS[name])


@pytest.mark.parametrize(("answers", "name", "parameters"), CASES, ids=str)
def test_intervals_beside_exact_answers(answers, name, parameters, tmp_path):
    """They contain the model's answer, are the same for each form of a question and in files, and hold the truth."""
    known = [exact(*one) for one in EXACT[answers]]
    model, held = model_of(name, parameters, known), []
    model.save(tmp_path / "model.npz")
    loaded = pg.load(tmp_path / "model.npz")
    for names in TABLES:
        found, answer, truth = model.interval(names), model.project(names).values, DATA.project(names).values
        low, high = (end.values for end in found)
        assert found.kind == "errors"
        assert np.all((low <= answer + 1e-9) & (answer <= high + 1e-9))
        held.append(((low <= truth + 1e-3) & (truth <= high + 1e-3)).ravel())
        kron = pg.Kron({one: pg.queries.identity(DOMAIN[one]) for one in names})
        for same in (model.interval(kron), model.interval(np.eye(low.size), names), loaded.interval(names)):
            assert same.kind == found.kind
            np.testing.assert_allclose(same.low.values.ravel(), low.ravel(), rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(same.high.values.ravel(), high.ravel(), rtol=1e-6, atol=1e-6)
    assert np.concatenate(held).mean() >= 0.85
    for one in known:
        found = model.interval(one.clique) if one.query is None else model.interval(one.query, one.clique)
        assert found.width.values.max() < 1e-6
        np.testing.assert_allclose(found.low.values.ravel(), one.values, atol=1e-3)


@pytest.mark.parametrize("name", ["MST", "LAMP"])
def test_least_answers_leave_intervals_as_they_are(name, tmp_path):
    """A bound that all tables keep says nothing of errors, and makes no table a measured one."""
    bounds = [pg.LinearMeasurement.at_least(np.zeros(DOMAIN.shape[:2]), ("region", "sex"))]
    parameters = dict(HOLDING)[name]
    without, with_it = (model_of(name, parameters, known) for known in ([], bounds))
    with_it.save(tmp_path / "model.npz")
    for model in (with_it, pg.load(tmp_path / "model.npz")):
        for names in TABLES:
            found, before = model.interval(names), without.interval(names)
            assert (found.kind, found.basis) == ("errors", before.basis)
            np.testing.assert_allclose(found.width.values.mean(), before.width.values.mean(), rtol=0.3)


@pytest.mark.parametrize("kind", ["between", "without noise"])
def test_answers_between_two_ends_or_without_any_noise_have_bounds_where_nothing_was_measured_together(kind):
    counts = DATA.project(("region", "sex")).values
    noisy = pg.LinearMeasurement(counts + 1.0, ("region", "sex"), 5.0)
    rounded = pg.LinearMeasurement.rounded(5 * np.rint(counts.sum(axis=1) / 5), "region", 5)
    answers = [noisy, rounded] if kind == "between" else [exact("region", None), exact("sex", None)]
    model = pg.estimate(answers, DOMAIN.project(("region", "sex", "work")))
    assert model.interval(("region", "work")).kind == "bounds"
    assert model.interval("region").kind == "errors"
    assert model.interval(("region", "sex")).kind == ("errors" if kind == "between" else "bounds")
    assert model.interval(("region", "sex"), about="population").kind == "errors"
