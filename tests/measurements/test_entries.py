"""Model files keep answers of every kind: noisy, exact, between two ends, and rounded at random."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest._base.npz import Unreadable
from pgmest.measurements.files.read import decode_measurements
from pgmest.measurements.files.write import encode_measurement

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 2})
GROUPS = [[1, 1, 0], [0, 0, 1]]


@st.composite
def measurements(draw) -> pg.LinearMeasurement:
    """Draw a measurement of any kind of answers, to the identity or another query."""
    clique = draw(st.sampled_from([("a",), ("b", "a"), ("a", "b", "c")]))
    query = draw(st.sampled_from([None, "groups"])) if clique == ("a",) else None
    cells = 2 if query else DOMAIN.size(clique)
    values = np.array(draw(st.lists(st.integers(0, 40), min_size=cells, max_size=cells)), dtype=float)
    matrix = GROUPS if query else None
    kind = draw(st.sampled_from(["noisy", "exact", "between", "at least", "rounded", "at random", "suppressed"]))
    if kind == "noisy":
        return pg.LinearMeasurement(values, clique, values + 0.5, matrix, noise="laplace")
    if kind == "exact":
        return pg.LinearMeasurement.exact(values, clique, matrix)
    if kind == "between":
        return pg.LinearMeasurement.between(values, 2 * values + 1, clique, matrix, total=100)
    if kind == "at least":
        return pg.LinearMeasurement.at_least(values, clique, matrix)
    if kind == "suppressed":
        return pg.LinearMeasurement.suppressed(np.where(values < 5, np.nan, values), clique, 5, matrix)
    return pg.LinearMeasurement.rounded(3 * values, clique, 3, matrix, random=kind == "at random")


@given(st.lists(measurements(), min_size=1, max_size=4))
def test_measurements_come_back_as_they_were(written):
    read = decode_measurements([encode_measurement(one) for one in written], DOMAIN)
    for one, other in zip(written, read, strict=True):
        assert (one.clique, one.noise, one.base, one.stated_total) == (
            other.clique,
            other.noise,
            other.base,
            other.stated_total,
        )
        for name in ("values", "stddev", "low", "high"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        assert (one.query is None) == (other.query is None)


@pytest.mark.parametrize(
    "wrong",
    [{"noise": "between"}, {"noise": "none"}, {"rounded": 0.5}, {"rounded": "3"}, {"low": [5, 1], "high": [2, 2]}]
    + [{"low": [1, 1], "high": [2, 2], "total": total} for total in (-1, "many", True)]
    + [{"clique": ["b"], "values": values, "stddev": 1.0} for values in (None, "x", np.array(["x", "y"]), np.ones(3))]
    + [{"clique": ["b"], "values": np.ones(2), "stddev": spread} for spread in (0, np.nan, -1, "x", np.ones(3))],
)
def test_entries_that_make_no_sense_are_refused(wrong):
    with pytest.raises(Unreadable, match=r"measurements\[0\]"):
        decode_measurements([encode_measurement(pg.LinearMeasurement([5.0, 1.0], "b", [2.0, 2.0])) | wrong], DOMAIN)


def test_answers_between_ends_are_refused_beside_noise():
    entry = {"clique": ["b"], "low": np.array([5.0, 1.0]), "high": np.array([2.0, 2.0])}
    with pytest.raises(Unreadable, match="low is above high"):
        decode_measurements([entry], DOMAIN)


@pytest.mark.parametrize("name", ["MST", "AIM", "HDMM", "PrivBayes", "PPSyn"])
def test_loaded_models_have_intervals_beside_invariants(name, tmp_path):
    codes = np.random.default_rng(0).integers([3, 2, 2], size=(300, 3))
    data = pg.Dataset.from_codes(codes, DOMAIN)
    mechanism = getattr(pg.mechanisms, name)(epsilon=1.0, delta=1e-9, invariants=["a"], backend="simulation")
    pairs = list(itertools.combinations(DOMAIN, 2))
    model = mechanism.fit(data, pg.workloads.marginals(pairs), seed=0, progress=False).model
    model.save(tmp_path / "model.npz")
    loaded = pg.load(tmp_path / "model.npz")
    assert loaded.interval("a").width.values.max() == 0
    np.testing.assert_allclose(loaded.interval("a").low.values, data.project("a").values, rtol=1e-9)
    measured = next(clique for clique in model.cliques if set(clique) != {"a"})
    found, again = model.interval(measured), loaded.interval(measured)
    assert found.kind == again.kind
    np.testing.assert_allclose(again.low.values, found.low.values, atol=1e-6)
    np.testing.assert_allclose(again.high.values, found.high.values, atol=1e-6)
