"""Long work says about how long it takes where somebody looks, and is silent in a pipe."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest._base import progress

MEASURED = [pg.LinearMeasurement(np.array([[30.0, 9.0], [2.0, 41.0]]), ("a", "b"), 3.0)]


@pytest.fixture
def model():
    return pg.estimate(MEASURED, {"a": 2, "b": 2})


def test_short_work_and_pipes_are_silent(monkeypatch, capsys):
    assert not progress.announce("it", 100.0)  # standard error is captured, so nobody looks
    monkeypatch.setattr(progress, "interactive", lambda: True)
    assert not progress.announce("it", 1.9)
    assert not progress.announce("it", float("nan"))
    assert capsys.readouterr().err == ""
    assert progress.announce("it", 90.0)
    assert capsys.readouterr().err == "pgmest: it takes about 90 s\n"


@pytest.mark.parametrize("method", ["hmc", "laplace"])
def test_a_posterior_says_how_long_it_takes_before_it_starts(model, monkeypatch, capsys, method):
    model.posterior(draws=40, warm_up=10, seed=0, method=method)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "interactive", lambda: True)
    monkeypatch.setattr(progress, "LONG", 0.0)
    model.posterior(draws=40, warm_up=10, seed=0, method=method)
    assert capsys.readouterr().err.startswith("pgmest: drawing from the posterior takes about ")


def test_error_bars_say_how_long_they_take(model, monkeypatch, capsys):
    monkeypatch.setattr(progress, "interactive", lambda: True)
    monkeypatch.setattr(progress, "LONG", 0.0)
    model.interval("a", kind="noise")
    assert capsys.readouterr().err.startswith("pgmest: estimating replicates takes about ")
