"""Iterative proportional fitting where the marginals leave nothing to fit."""

import numpy as np

import pgmest as pg


def test_marginals_that_leave_no_possible_record_end_the_run_and_say_so():
    domain = pg.Domain({"a": 2, "b": 3})
    zero = [pg.LinearMeasurement(np.zeros(size), name, 1.0) for name, size in (("a", 2), ("b", 3))]
    report = pg.estimate(zero, domain, total=6.0, method="ipf").report
    assert np.isfinite(report.loss)
    assert report.converged or "leave no possible record" in report.message


def test_zeros_that_contradict_each_other_keep_the_last_possible_model():
    domain = pg.Domain({"a": 2, "b": 2})
    diagonal = pg.LinearMeasurement([[3.0, 0.0], [0.0, 3.0]], ("a", "b"), 1.0)
    off = pg.LinearMeasurement([6.0, 0.0], "a", 1.0)
    other = pg.LinearMeasurement([0.0, 6.0], "b", 1.0)
    model = pg.estimate([diagonal, off, other], domain, total=6.0, method="ipf", max_iterations=20)
    assert not model.report.converged
    assert "the zeros of the marginals, taken together, leave no possible record" in model.report.message
    assert np.isfinite(model.marginals.flat).all()
