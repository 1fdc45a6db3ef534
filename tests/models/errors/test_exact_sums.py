"""Intervals of tables of which sums are known exactly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import null_space

import pgmest as pg
from pgmest.models.errors.exact_sums import known_sums, without_errors_of
from pgmest.queries.levels import level_kron
from pgmest.sampling.facts import Facts

DOMAIN = pg.Domain({"area": 6, "age": 3, "sex": 2}).with_hierarchies(
    pg.Hierarchy("area", {"state": [0, 0, 1, 1, 1, 2]})
)
INVARIANTS = ["area@state", ("area@state", "sex")]


def exact(names):
    query = level_kron(DOMAIN, names)
    values = np.zeros(query.rows)
    found = Facts.of(pg.LinearMeasurement.exact(values, query.attributes, query))
    assert found is not None
    return found


@given(st.sets(st.sampled_from([(), ("area@state",), ("area@state", "sex"), ("sex",), ("age", "sex")]), max_size=3))
def test_the_known_sums_of_a_table_are_those_that_the_facts_determine(tables):
    clique = ("area", "sex")
    found = known_sums([exact(names) for names in sorted(tables)], DOMAIN, clique)
    shape = DOMAIN.project(clique).shape
    whole = np.vstack([np.zeros((1, 36)), *map(on_all, sorted(tables))])
    onto = np.kron(np.eye(6), np.kron(np.ones(3), np.eye(2)))  # all cells to those of (area, sex)
    free = onto @ null_space(whole)  # how the table may change while the facts hold
    rows = np.vstack([np.zeros((1, 12)), *(one.toarray() for one in found)])
    assert np.allclose(rows @ free, 0.0)
    assert np.linalg.matrix_rank(rows) == 12 - np.linalg.matrix_rank(free, tol=1e-9)
    errors = np.random.default_rng(0).normal(size=(5, *shape))
    left = without_errors_of(found, errors).reshape(5, -1)
    assert np.allclose(left @ rows.T, 0.0, atol=1e-3)


@pytest.mark.parametrize(
    ("clique", "query", "table", "known"),
    [
        ("age", np.tril(np.ones((3, 3))), ("age", "sex"), np.kron(np.eye(3), np.ones(2))),
        ("age", [[0.0, 1, 2]], ("age", "sex"), [[0, 0, 1, 1, 2, 2]]),
        (("age", "sex"), [[1.0, -1, 1, -1, 1, -1], [1, 1, 0, 0, 0, 0]], ("age",), [[1, 0, 0]]),
        (("age", "sex"), [[1.0, -1, 1, -1, 1, -1], [1, 1, 0, 0, 0, 0]], ("sex",), [[1, -1]]),
        (("age", "sex"), [[1.0, 2, 3, 4, 5, 6]], ("sex",), np.zeros((0, 2))),
        (("age", "sex"), [[1.0, 2, 1, 2, 1, 2], [1, 1, 1, 1, 1, 1]], (), [[1]]),
    ],
)
def test_sums_follow_from_facts_with_weights(clique, query, table, known):
    query = np.asarray(query, dtype=float)
    fact = Facts.of(pg.LinearMeasurement.exact(np.zeros(len(query)), clique, query))
    assert fact is not None
    found = known_sums([fact], DOMAIN, table)
    rows = np.vstack([np.zeros((0, np.shape(known)[1])), *(one.toarray() for one in found)])
    both = np.vstack([rows, known])
    ranks = {int(np.linalg.matrix_rank(one)) if len(one) else 0 for one in (rows, known, both)}
    assert len(ranks) == 1
    errors = np.random.default_rng(0).normal(size=(5, *DOMAIN.project(table).shape))
    left = without_errors_of(found, errors).reshape(5, -1)
    assert np.allclose(left @ rows.T, 0.0, atol=1e-9)


def on_all(names):
    """Return the matrix of a fact over the cells of the domain."""
    fact = exact(names)
    cells = np.indices(DOMAIN.shape).reshape(3, -1)
    own = np.zeros(cells.shape[1], dtype=int)
    for name in fact.clique:
        own = own * DOMAIN[name] + cells[list(DOMAIN).index(name)]
    return fact.matrix.toarray()[:, own]


@pytest.mark.parametrize("mechanism", ["TopDown", "LAMP"])
def test_intervals_of_invariants_have_no_width_also_in_files(mechanism, tmp_path):
    codes = np.random.default_rng(0).integers(0, DOMAIN.shape, (2000, 3))
    data = pg.Dataset.from_codes(codes, DOMAIN)
    made = getattr(pg.mechanisms, mechanism)(epsilon=0.5, backend="simulation", invariants=INVARIANTS)
    result = made.fit(data, seed=0)
    result.model.save(tmp_path / "model.npz")
    for model in (result, pg.load(tmp_path / "model.npz")):
        for names in [*INVARIANTS, "sex", ()]:
            found = model.interval(names, kind="errors")
            assert np.allclose(found.low.values, found.high.values)
            assert np.allclose(found.low.values, data.project(names).values)
        districts = model.interval("area", kind="errors")
        assert (districts.high.values - districts.low.values)[:5].min() > 1.0  # the last is a state


def test_invariants_that_a_model_misses_have_errors():
    data = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, DOMAIN.shape, (500, 3)), DOMAIN)
    result = pg.mechanisms.LAMP(epsilon=0.5, backend="simulation", invariants=["sex"]).fit(data, seed=0)
    off = tuple(replace(one, values=one.values + 5) for one in result.model.held_facts())
    model = replace(result.model, facts=off).knows(result.model.known_errors)
    found = model.interval("sex", kind="errors")
    assert (found.high.values > found.low.values).all()
