"""The ends of runs: a run for every status, its sentence, and its form in files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pgmest as pg
from pgmest.solvers import EstimationReport, Status
from pgmest.solvers.report import ApproximateReport
from tests.estimation.test_estimate import noisy

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})
MEASURED = noisy(DOMAIN, [("a", "b"), ("b", "c")], np.random.default_rng(0), 0.01)
NOISY = noisy(DOMAIN, [("a", "b"), ("b", "c"), ("a", "c")], np.random.default_rng(0), 20.0)
EMPTY = pg.LinearMeasurement([[0.0, 0.0, 100.0], [0.0, 0.0, 0.0]], ("a", "b"), 1.0)
OTHER = pg.LinearMeasurement([[50.0, 0.0], [50.0, 0.0], [0.0, 0.0]], ("b", "c"), 1.0)


def interrupt(progress):
    raise KeyboardInterrupt


class Linear:
    cliques = (("a",),)
    lipschitz = 0.0
    smooth = True

    def value_and_gradient(self, marginals):
        return float(marginals[("a",)].values[0]), {("a",): np.array([1.0, 0.0])}


RUNS = {
    Status.CONVERGED: lambda: pg.estimate(MEASURED, DOMAIN, total=100.0, tolerance=1.0),
    Status.EARLY: lambda: pg.estimate(NOISY, DOMAIN, total=100.0, method="mirror_flow", tolerance=0),
    Status.ITERATIONS: lambda: pg.estimate(MEASURED, DOMAIN, total=100.0, max_iterations=2),
    Status.CALLBACK: lambda: pg.estimate(MEASURED, DOMAIN, total=100.0, callback=lambda progress: True),
    Status.INTERRUPTED: lambda: pg.estimate(MEASURED, DOMAIN, total=100.0, callback=interrupt),
    Status.PRECISION: lambda: pg.estimate(NOISY, DOMAIN, total=100.0, method="mirror_descent", tolerance=0),
    Status.LINEAR: lambda: pg.estimate([], DOMAIN, total=100.0, loss=Linear(), method="dual_averaging"),
    Status.IMPOSSIBLE: lambda: pg.estimate([EMPTY, OTHER], DOMAIN, total=100.0, method="ipf"),
}


@pytest.mark.parametrize("status", RUNS)
def test_a_run_says_how_it_ended(status):
    report = RUNS[status]().report
    assert report.status is status
    assert report.converged == (status in (Status.CONVERGED, Status.EARLY))
    said = status.sentence.partition("{")[0]
    assert report.message == "" if status is Status.CONVERGED else report.message.startswith(said)
    assert report.message.endswith(status.remedy)


@pytest.mark.parametrize("status", RUNS)
def test_what_is_written_of_a_report_is_read_back(status):
    report = RUNS[status]().report
    written = json.loads(json.dumps(report.to_json()))
    assert EstimationReport.from_json(written) == report
    assert written["converged"] == report.converged


def test_a_report_without_a_status_is_refused():
    written = RUNS[Status.ITERATIONS]().report.to_json()
    del written["status"]
    with pytest.raises(ValueError, match="other fields"):
        EstimationReport.from_json(written)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "splendid"}, "status='splendid'"),
        ({"status": None}, "status=None"),
        ({"status": "max_iterations"}, "status='max_iterations' and converged=True"),
        ({"converged": "yes"}, "converged='yes'"),
        ({"iterations": 1.5}, "iterations=1.5"),
        ({"loss": True}, "loss=True"),
        ({"more": 1}, "other fields"),
    ],
)
def test_what_is_no_report_is_refused(change, said):
    written = EstimationReport("accelerated", 1.0, 0.1, 0.01, 3, 4, 0.5, Status.CONVERGED).to_json()
    with pytest.raises(ValueError, match=said):
        EstimationReport.from_json(written | change)


def test_an_approximate_report_has_what_the_solver_said():
    report = EstimationReport("local_least_squares", 1.0, 0.1, 0.01, 3, 4, 0.5, Status.ITERATIONS, "why")
    approximate = ApproximateReport.of(report, 0.25)
    assert (approximate.status, approximate.message, approximate.inconsistency) == (Status.ITERATIONS, "why", 0.25)
    assert "not converged" in str(approximate)
    assert "relaxed optimum" in str(approximate)


def test_statuses_are_told_apart_by_their_sentences():
    sentences = [status.sentence.partition("{")[0] for status in Status]
    assert not any(one != other and one.startswith(other) for one in sentences for other in sentences)
    assert all(status.remedy for status in Status if not status.converged)
