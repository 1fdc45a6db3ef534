"""The least squares of TopDown against a solver of quadratic programs, on small random trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pgmest as pg
from pgmest.errors import QueryError
from pgmest.mechanisms.topdown.constraints import Limits
from pgmest.mechanisms.topdown.curvature import Curvature, check_questions
from pgmest.mechanisms.topdown.least_squares import Family, nonnegative
from pgmest.mechanisms.topdown.questions import Question, default_questions, workload_questions
from pgmest.workloads import Item, Workload

SIZES = st.lists(st.integers(1, 3), max_size=3)


def detail_of(sizes):
    return pg.Domain({f"x{place}": size for place, size in enumerate(sizes)})


def with_prefixes(detail):
    items = [Item(name, pg.queries.prefix(size)) for name, size in detail.items()]
    return [*default_questions(detail), *workload_questions(detail, Workload(tuple(items)), "area")]


def hessian_of(questions, weights, shape):
    unit = np.eye(int(np.prod(shape)))
    found = np.zeros(unit.shape)
    for question, weight in zip(questions, weights, strict=True):
        found += weight * question.transposed(question.answers(unit, shape), shape)
    return found


@given(sizes=SIZES, prefixes=st.booleans(), seed=st.integers(0, 100))
def test_the_curvature_is_the_hessian(sizes, prefixes, seed):
    detail = detail_of(sizes)
    questions = with_prefixes(detail) if prefixes else default_questions(detail)
    weights = np.random.default_rng(seed).uniform(0.1, 2.0, len(questions))
    made, unit = Curvature.of(detail.shape, questions, weights), np.eye(detail.size())
    found = made.cells(made.coordinates(unit) * made.values)
    np.testing.assert_allclose(found, hessian_of(questions, weights, detail.shape), atol=1e-9)
    np.testing.assert_allclose(made.cells(made.coordinates(unit)), unit, atol=1e-9)


def test_bases_of_several_axes_are_products():
    detail = pg.Domain({"x": 20, "y": 30, "z": 2})
    questions = default_questions(detail)
    made, row = Curvature.of(detail.shape, questions, [1.0] * len(questions)), np.arange(1200.0)[None] % 7
    assert len(made.bases) == 2
    applied = sum(question.transposed(question.answers(row, detail.shape), detail.shape) for question in questions)
    np.testing.assert_allclose(made.cells(made.coordinates(row) * made.values), applied)


@settings(max_examples=40)
@given(
    sizes=SIZES,
    children=st.integers(1, 4),
    kinds=st.sets(st.sampled_from(["totals", "lower", "zeros", "root", "prefixes"])),
    seed=st.integers(0, 10**6),
)
def test_the_solution_is_that_of_a_quadratic_program(sizes, children, kinds, seed):
    rng, detail = np.random.default_rng(seed), detail_of(sizes)
    cells, shape = detail.size(), detail.shape
    questions = with_prefixes(detail) if "prefixes" in kinds else default_questions(detail)
    weights = 10.0 ** rng.uniform(-2, 0, len(questions))
    children = 1 if "root" in kinds else children
    truth = rng.poisson(rng.gamma(0.5, 8.0, (children, cells))).astype(float)
    linear = np.zeros(truth.shape)
    for question, weight in zip(questions, weights, strict=True):
        answers = question.answers(truth, shape)
        linear += weight * question.transposed(answers + rng.standard_normal(answers.shape) / weight**0.5, shape)
    rows, low, high = np.zeros((0, cells)), np.zeros((children, 0)), np.zeros((children, 0))
    if "totals" in kinds:
        rows, low, high = np.ones((1, cells)), truth.sum(axis=1, keepdims=True), truth.sum(axis=1, keepdims=True)
    if "lower" in kinds:
        one = (rng.random((1, cells)) < 0.5).astype(float)
        one[0, 0] = 1.0
        rows, low = np.concatenate([rows, one]), np.concatenate([low, truth @ one.T], axis=1)
        high = np.concatenate([high, np.full((children, 1), np.inf)], axis=1)
    possible = (truth > 0) | (rng.random(truth.shape) < 0.5) if "zeros" in kinds else np.ones(truth.shape, dtype=bool)
    limits = Limits(rows, low, high, possible)
    family = Family(None if "root" in kinds else np.zeros(children, dtype=int), truth.sum(axis=0)[None])
    curvature, hessian = Curvature.of(shape, questions, weights), hessian_of(questions, weights, shape)
    found = nonnegative(curvature, linear, family, limits, np.ones(truth.shape), tolerance=1e-6)

    def loss(flat):
        table = flat.reshape(truth.shape)
        return 0.5 * np.sum((table @ hessian) * table) - np.sum(linear * table)

    known = (low == high).all(axis=0)
    free = children if "root" in kinds else children - 1  # the last child's answers follow from the others'
    constraints = [
        {"type": "ineq", "fun": lambda flat: (flat.reshape(truth.shape) @ rows[~known].T - low[:, ~known]).ravel()},
        {"type": "eq", "fun": lambda flat: (flat.reshape(truth.shape) @ rows[known].T - low[:, known])[:free].ravel()},
    ]
    if "root" not in kinds:
        constraints.append(
            {"type": "eq", "fun": lambda flat: flat.reshape(truth.shape).sum(axis=0) - truth.sum(axis=0)}
        )
    best = minimize(
        loss,
        truth.ravel(),
        jac=lambda flat: (flat.reshape(truth.shape) @ hessian - linear).ravel(),
        bounds=[(0.0, None if may else 0.0) for may in possible.ravel()],
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.min() >= 0.0
    assert not found[~possible].any()
    assert np.abs(limits.missed(found)).max(initial=0.0) <= 1e-4
    if "root" not in kinds:
        np.testing.assert_allclose(found.sum(axis=0), truth.sum(axis=0), atol=1e-4)
    for constraint in constraints:
        values = constraint["fun"](found.ravel())
        assert (values >= -1e-3).all()
        assert constraint["type"] == "ineq" or (values <= 1e-3).all()
    # It is possible, so it may only be better: the search of SciPy at times stops where it began.
    assert loss(found.ravel()) - best.fun <= 1e-3 * (1.0 + abs(best.fun))


def test_queries_of_many_cells_are_refused_before_a_run():
    detail = pg.Domain({"x": 60, "y": 60})
    check_questions(detail.shape, default_questions(detail))
    prefix = Question(("x",), (0,), (pg.queries.prefix(60),), 1.0)
    with pytest.raises(QueryError, match="at most 2,500 cells of detail, and there are 3,600"):
        check_questions(detail.shape, [prefix])
