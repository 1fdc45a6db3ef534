"""Exact answers to questions that invariants about levels determine, against all tables with the same invariant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.privacy.unprotected import Invariants
from pgmest.queries import Kron, compress, identity

DOMAIN = pg.Domain({"a": 4, "b": 3})


def _labels(size: int):
    return st.lists(st.integers(0, size - 1), min_size=size, max_size=size).map(
        lambda found: np.unique(found, return_inverse=True)[1]
    )


@given(_labels(4), _labels(3), _labels(4), _labels(3), st.integers(0, 10**6), st.sampled_from(["ab", "a", "b"]))
def test_answers_are_exact_where_the_invariant_determines_them_and_none_elsewhere(a, b, other_a, other_b, seed, about):
    rng = np.random.default_rng(seed)
    records = pg.Dataset.from_codes([rng.integers(4, size=30), rng.integers(3, size=30)], DOMAIN)
    held = Kron({"a": compress(4, a.tolist()), "b": compress(3, b.tolist())})
    cells = records.project(("a", "b")).values.ravel()
    exact = pg.LinearMeasurement.exact(held.apply(cells).ravel(), ("a", "b"), held)
    clique = tuple(about)
    groups = {"a": compress(4, other_a.tolist()), "b": compress(3, other_b.tolist())}
    query = Kron({name: groups[name] for name in clique})
    asked = pg.LinearMeasurement(np.zeros(query.rows), clique, 1.0, query)
    found = Invariants([exact], records).answers(asked, DOMAIN)
    whole = Kron(
        {name: groups[name] if name in clique else compress(DOMAIN[name], [0] * DOMAIN[name]) for name in "ab"}
    )
    rows = whole.matrix()
    inside = np.linalg.lstsq(held.matrix().T, rows.T, rcond=None)[0]
    determined = np.allclose(held.matrix().T @ inside, rows.T)
    assert (found is not None) == determined
    if found is not None:
        assert found.tolist() == asked.answer_cells(records.project(clique).datavector()).tolist()


def test_contrasts_of_branches_are_determined_and_bounds_determine_nothing():
    records = pg.Dataset.from_codes([np.arange(30) % 4, np.arange(30) % 3], DOMAIN)
    pairs = compress(4, [0, 0, 1, 1])
    values = pairs.apply(records.project(("a",)).values)
    contrast = Kron({"a": np.array([[1.0, 1.0, -1.0, -1.0]])})
    asked = pg.LinearMeasurement(np.zeros(1), ("a",), 1.0, contrast)
    exact = Invariants([pg.LinearMeasurement.exact(values, ("a",), Kron({"a": pairs}))], records)
    assert exact.answers(asked, DOMAIN) == pytest.approx([values[0] - values[1]])
    bound = Invariants([pg.LinearMeasurement.at_least(values, ("a",), Kron({"a": pairs}))], records)
    assert bound.answers(asked, DOMAIN) is None
    codes = pg.LinearMeasurement(np.zeros(4), ("a",), 1.0, identity(4))
    assert exact.answers(codes, DOMAIN) is None


def test_questions_that_levels_answer_cost_nothing():
    tree = pg.Hierarchy("a", {"half": [0, 0, 1, 1]})
    records = pg.Dataset.from_codes([np.arange(30) % 4, np.arange(30) % 3], DOMAIN.with_hierarchies(tree))
    invariant = pg.LinearMeasurement.exact(records.project("a@half").values, ("a@half",))
    curator = pg.privacy.Curator(records, pg.privacy.Rho(1.0), backend="simulation", invariants=[invariant])
    asked = compress(4, [0, 0, 1, 1])
    found = curator.measure_all([("a",), ("a",)], pg.privacy.Rho(0.5), queries=[asked, None], weights=[1.0, 1.0])
    assert [one.noisy for one in found] == [False, True]
    assert float(np.mean(found[1].stddev)) == pytest.approx(1.0)  # the whole spend is for the codes
    assert curator.spent == pg.privacy.Rho(0.5)


def test_a_table_without_records_is_refused_with_the_reason():
    empty = pg.Dataset.from_codes(np.zeros((0, 2), dtype=int), pg.Domain({"area": 3, "sex": 2}))
    run = pg.mechanisms.LAMP(rho=1.0, backend="simulation", invariants=[("area",)])
    with pytest.raises(ArgumentError, match=r"under Replace, which goes with invariants .*, the number of records is"):
        run.fit(empty, progress=False)
    with pytest.raises(ArgumentError, match="under Replace the number of records is public, and 0"):
        pg.privacy.Curator(empty, pg.privacy.Rho(1.0), neighbors=pg.privacy.Replace(), backend="simulation")
