"""No solver diverges or returns a number that is not finite, whatever the noise, the total and the answers."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg

DOMAIN = pg.Domain({"a": 6, "b": 5, "c": 4, "d": 3})
CLIQUES = [("a", "b"), ("b", "c"), ("c", "d"), ("a",)]
SOLVERS = [
    ("accelerated", "l2"), ("mirror_descent", "l2"), ("dual_averaging", "l2"), ("universal", "l2"), ("lbfgs", "l2"),
    ("smoothing", "l1"),
]  # fmt: skip


def tables(kind: str, total: float) -> list[np.ndarray]:
    """The marginals of skewed records, those of other tables, or zeros."""
    generator = np.random.default_rng(0)
    joint = generator.dirichlet(np.full(DOMAIN.size(), 0.1)).reshape(DOMAIN.shape)
    marginals = [total * pg.Factor(DOMAIN, joint).project(clique).values for clique in CLIQUES]
    if kind == "contradictory":
        return [generator.permuted(marginal) for marginal in marginals]
    return [0.0 * marginal for marginal in marginals] if kind == "zero" else marginals


@pytest.mark.parametrize("total", [1e2, 1e8])
@pytest.mark.parametrize("kind", ["consistent", "contradictory", "zero"])
@pytest.mark.parametrize(("method", "loss"), SOLVERS)
def test_difficult_answers_leave_every_solver_finite_and_honest(method, loss, kind, total):
    """Noise of 0.1 to 1000 in one problem, cut short or not: the loss is no larger than that of the uniform table."""
    generator = np.random.default_rng(1)
    answers = []
    for clique, values in zip(CLIQUES, tables(kind, total), strict=True):
        stddev = 10.0 ** generator.uniform(-1, 3, values.shape) if len(clique) == 2 else 1.0
        answers.append(pg.LinearMeasurement(values + generator.normal(0, stddev, values.shape), clique, stddev))
    options = {"total": total, "loss": loss, "method": method}
    model = pg.estimate(answers, DOMAIN, **options, max_iterations=60)
    uniform = pg.estimate(answers, DOMAIN, **options, max_iterations=0).report
    report = model.report
    assert np.isfinite(model.marginals.flat).all()
    assert np.isfinite(report.loss)
    assert report.loss <= uniform.loss * (1 + 1e-9)
    assert report.converged == (not report.message)
