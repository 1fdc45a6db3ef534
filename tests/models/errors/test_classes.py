"""Errors of tables over classes of codes, against those over codes, dense least squares, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.models.errors import classes, drawn_intervals, error_model
from pgmest.models.errors.classes import by_classes, classes_of
from pgmest.models.errors.drawn_intervals import drawn_answers
from pgmest.models.errors.table_answers import Side, TableAnswer
from tests.models.errors.test_drawn_intervals import table_of

SIZES = {"a": 6, "b": 4, "c": 8, "d": 2}
DOMAIN = pg.Domain(SIZES)
PAIRS = [("a", "b"), ("b", "c"), ("c", "d")]
QUERIES = {
    "ranges": pg.Kron({"a": [[1, 1, 1, 0, 0, 0]], "c": np.repeat(np.eye(2), 4, axis=1)}),
    "scattered": pg.Kron({"c": [[1, 0, 1, 0, 1, 0, 1, 0]], "a": [[2, -1, 2, -1, 2, -1]], "b": np.eye(4)[:1]}),
    "part": pg.Kron({"a": [[0, 0, 1, 1, 1, 1]], "d": np.eye(2)}),
}


def estimated(data: pg.Dataset, seed: int) -> pg.Model:
    generator = np.random.default_rng(seed)
    noisy = [data.project(pair).values + generator.normal(0, 8.0, data.project(pair).values.shape) for pair in PAIRS]
    return pg.estimate([pg.LinearMeasurement(t, p, 8.0) for t, p in zip(noisy, PAIRS, strict=True)], DOMAIN)


def test_codes_with_equal_columns_are_a_class():
    matrix = pg.Kron({"a": [[1, 0, 1, 2], [0, 1, 0, 0]]}).factors["a"]
    assert classes_of(matrix, 4).tolist() == [0, 1, 0, 2]
    assert classes_of(pg.queries.identity(3), 3).tolist() == [0, 1, 2]
    assert classes_of(pg.queries.prefix(3), 3).tolist() == [0, 1, 2]


@st.composite
def sides(draw):
    """Draw a side over groups, and the class of each code."""
    size = draw(st.integers(1, 6))
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    labels = classes._by_first(generator.integers(0, draw(st.integers(1, size)), size))
    groups = int(labels.max()) + 1
    rows = draw(st.integers(0, groups + 2))
    matrix = None if rows == 0 else generator.integers(-1, 3, (rows, groups)).astype(float)
    return Side(labels, matrix), classes._by_first(generator.integers(0, draw(st.integers(1, size)), size))


@given(sides())
@example((Side(np.array([0, 1]), np.array([[2.0, 2.0]])), np.array([0, 0])))
def test_answers_over_classes_tell_all_that_they_told(case):
    """Of each sum over classes, the variance is that of least squares over codes, or both leave it open."""
    side, labels = case
    groups, classes = side.groups, int(labels.max()) + 1
    dense = (np.eye(groups) if side.matrix is None else side.matrix)[:, side.labels]
    member = np.zeros((classes, len(labels)))
    member[labels, np.arange(len(labels))] = 1.0
    counts = np.random.default_rng(0).uniform(1, 9, len(labels))
    found = by_classes(TableAnswer(("a",), (side,), dense @ counts, 2.0), {"a": labels})
    if found is None:
        shown, values = np.zeros((1, classes)), np.zeros(1)
    else:
        (own,) = found.sides
        matrix = np.eye(own.groups) if own.matrix is None else own.matrix
        shown, values = matrix[:, own.labels], found.values
    np.testing.assert_allclose(values, shown @ member @ counts, atol=1e-8)
    for weights in [*np.eye(classes), np.ones(classes), *np.random.default_rng(1).integers(-2, 3, (5, classes))]:
        variances = []
        for rows, wanted in ((dense, weights @ member), (shown, weights)):
            used = np.linalg.pinv(rows.T, rcond=1e-9) @ wanted
            known = np.abs(used @ rows - wanted).max() < 1e-7
            variances.append(float(used @ used) if known else np.inf)
        assert variances[0] == pytest.approx(variances[1], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("evidence", [None, {"d": 1}, {"b": 3}], ids=["all", "d", "b"])
def test_errors_over_classes_are_those_over_codes(name, evidence, monkeypatch):
    """Tables that are drawn over codes give the same errors; those drawn over classes are at least as uncertain."""
    query, model = QUERIES[name], estimated(table_of(0, 3000, DOMAIN), 0)
    if evidence and evidence.keys() & set(query.attributes):
        evidence = None
    over_codes = drawn_answers(model, query, given=evidence)
    monkeypatch.setattr(drawn_intervals, "MOST_CELLS", 16)
    over_classes = drawn_answers(model, query, given=evidence)
    monkeypatch.setattr(error_model, "MOST_DRAWN", 0)
    coarse = drawn_answers(model, query, given=evidence)
    for found in (over_classes, coarse):
        assert found.answer.domain == over_codes.answer.domain
        np.testing.assert_allclose(found.answer.values, model.answer(query, given=evidence).values, atol=1e-6)
    codes, classes, alone = (found.stddev().values for found in (over_codes, over_classes, coarse))
    np.testing.assert_allclose(classes, codes, rtol=0.25)
    assert np.all((alone > 0.8 * codes) & (alone < 6 * codes))


def test_intervals_over_classes_hold(monkeypatch):
    monkeypatch.setattr(drawn_intervals, "MOST_CELLS", 16)
    held: dict[int, list[np.ndarray]] = {0: [], error_model.MOST_DRAWN: []}
    for seed in range(3):
        data = table_of(seed, 3000, DOMAIN)
        model = estimated(data, seed)
        for most, found in held.items():
            monkeypatch.setattr(error_model, "MOST_DRAWN", most)
            for query in QUERIES.values():
                ends = model.interval(query, kind="errors")
                exact = query.apply(data.project(query.attributes))
                found.append((ends.low.values.ravel() <= exact.ravel()) & (exact.ravel() <= ends.high.values.ravel()))
    assert min(np.mean(np.concatenate(found)) for found in held.values()) >= 0.9


def test_sums_over_many_cells_have_intervals():
    """A large table is answered if the query tells few classes apart; otherwise the error says what to do."""
    generator = np.random.default_rng(0)
    domain = pg.Domain({"a": 800, "b": 700, "c": 2, **{f"x{i}": 13 for i in range(5)}})
    columns = [np.minimum(generator.geometric(min(0.6, 8 / size), 4000) - 1, size - 1) for size in domain.shape]
    data = pg.Dataset.from_codes(np.stack(columns, axis=1), domain)
    noisy = [pg.LinearMeasurement(data.project(n).values + generator.normal(0, 3, domain[n]), n, 3.0) for n in domain]
    model = pg.estimate(noisy, domain)
    halves = {name: np.repeat(np.eye(2), [size // 2, size - size // 2], axis=1) for name, size in domain.items()}
    several = pg.Kron({name: halves[name][:1] for name in ("x0", "x1", "x2", "x3", "x4", "c")})
    for query in (pg.Kron({"a": halves["a"], "b": halves["b"][:1]}), several):
        low, high = model.interval(query)
        exact, answer = query.apply(data.project(query.attributes)), model.answer(query).values
        assert np.all((low.values <= answer) & (answer <= high.values))
        assert np.all((low.values <= exact) & (exact <= high.values))
    low, high = model.interval(pg.Kron({"a": halves["a"]}), given={"b": 3})
    assert np.all(low.values <= high.values)
    with pytest.raises(ArgumentError, match="few different columns"):
        model.interval(("a", "b"))
    with pytest.raises(ArgumentError, match="few different columns"):
        model.interval(pg.Kron({"a": pg.queries.prefix(800), "b": pg.queries.prefix(700)}))


@pytest.mark.parametrize("most", [0, 6_000_000], ids=["over classes", "over codes"])
def test_exact_answers_have_no_errors_over_classes(most, monkeypatch):
    """Sums over classes that exact answers determine have no error, also in tables of too many cells."""
    data = table_of(0, 3000, DOMAIN)
    exact = [pg.LinearMeasurement.exact(data.project(names).values, names) for names in ("c", ("a", "d"))]
    model = pg.estimate([*estimated(data, 0).measurements[:2], *exact], DOMAIN)
    monkeypatch.setattr(drawn_intervals, "MOST_CELLS", 16)
    monkeypatch.setattr(error_model, "MOST_DRAWN", most)
    halves = {name: np.repeat(np.eye(2), SIZES[name] // 2, axis=1) for name in ("a", "b", "c")}
    low, high = model.interval(pg.Kron({"a": halves["a"], "c": halves["c"]}), kind="errors")
    assert np.all(high.values - low.values > 1)
    pair = pg.Kron({"a": halves["a"], "d": np.eye(2), "c": np.ones((1, 8))})
    for sums in (pg.Kron({"a": np.ones((1, 6)), "c": halves["c"]}), pair):
        low, high = model.interval(sums, kind="errors")
        answer = sums.apply(data.project(sums.attributes))
        np.testing.assert_allclose([low.values, high.values], [answer, answer], atol=0.5)
