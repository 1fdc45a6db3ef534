"""The compiled dual of local least squares against a plain one, with whatever cliques and noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest._base.threads import set_threads
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.losses import make_loss
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers import local_dual
from pgmest.solvers.local_dual import LocalDual
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain

CLIQUES = [("b", "a"), ("b", "c", "d"), ("c", "a"), ("c",), (), ("e", "d", "a")]


def problem(cliques, sizes, seed, varied):
    """A dual function, and the loss it is of."""
    rng = np.random.default_rng(seed)
    domain = Domain(sizes)
    measurements = []
    for clique in cliques:
        shape = domain.project(clique).shape
        stddev = rng.uniform(1.0, 4.0, int(np.prod(shape))) if varied else rng.uniform(1.0, 4.0)
        measurements.append(pg.LinearMeasurement(rng.normal(5.0, 9.0, shape), clique, stddev))
    loss = make_loss("l2", measurements, domain).of_fractions(40.0)
    oracle = RegionOracle(Layout.of(domain, loss.cliques))
    assert isinstance(loss, WeightedSquares)
    return LocalDual(oracle.tables, loss), loss, oracle.tables


sizes = st.fixed_dictionaries({name: st.integers(1, 4) for name in "abcde"})


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from(CLIQUES), min_size=1, max_size=6, unique=True), sizes, st.integers(0, 50), st.booleans()
)
def test_slope_loss_and_disagreement(cliques, found, seed, varied):
    dual, loss, tables = problem(cliques, found, seed, varied)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=dual.size)
    point, flat = dual.at(x), np.empty(loss.layout.cells)
    tables.write(flat, *dual.tables(x), 1.0)
    assert point.loss == pytest.approx(loss.flat_value_and_gradient(flat)[0], rel=1e-10)
    assert np.all(flat >= 0)
    assert point.inconsistency == pytest.approx(tables.disagreement(*dual.tables(x)), abs=1e-10)
    direction, h = rng.normal(size=dual.size), 1e-6
    ahead, behind = dual.at(x + h * direction).value, dual.at(x - h * direction).value
    assert (ahead - behind) / (2 * h) == pytest.approx(point.slope @ direction, rel=1e-4, abs=1e-4)


@settings(deadline=None, max_examples=40)
@given(sizes, st.integers(0, 50), st.booleans())
def test_it_is_concave_and_below_the_loss_of_tables_that_agree(found, seed, varied):
    dual, loss, _ = problem(CLIQUES, found, seed, varied)
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(int(np.prod(list(found.values()))), 0.5)).reshape(list(found.values()))
    domain = Domain(found)
    marginals = np.concatenate(
        [pg.Factor(domain, joint).project(clique).values.reshape(-1) for clique in loss.layout.cliques]
    )
    of_joint, _ = loss.flat_value_and_gradient(marginals)
    x, y = rng.normal(size=(2, dual.size)) * 3
    assert -dual.at(x).value <= of_joint * (1 + 1e-9)
    between = dual.at((x + y) / 2).value
    assert between <= (dual.at(x).value + dual.at(y).value) / 2 + 1e-9 * (1 + abs(between))


def test_threads_give_the_same(monkeypatch):
    monkeypatch.setattr(local_dual, "THREAD_CELLS", 1)
    dual, _, _ = problem(CLIQUES, dict.fromkeys("abcde", 5), 0, True)
    x = np.random.default_rng(0).normal(size=dual.size)
    found = []
    for threads in (1, 2, 5):
        set_threads(threads)
        try:
            found.append(dual.at(x))
        finally:
            set_threads(None)
    assert found[0].value == found[1].value == found[2].value
    np.testing.assert_array_equal(found[0].slope, found[2].slope)
