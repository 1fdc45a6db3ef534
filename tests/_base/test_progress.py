"""Long work says about how long it takes before it starts, and shows its progress."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import pgmest as pg
from pgmest._base import progress

MEASURED = [pg.LinearMeasurement(np.array([[30.0, 9.0], [2.0, 41.0]]), ("a", "b"), 3.0)]


@pytest.fixture
def model():
    return pg.estimate(MEASURED, {"a": 2, "b": 2})


def test_short_work_is_silent(capsys):
    progress.announce("it", 1.9)
    progress.announce("it", float("nan"))
    with progress.progress("it", 3) as more:
        more(3)
    assert capsys.readouterr().err == ""
    progress.announce("it", 90.0)
    assert capsys.readouterr().err == "pgmest: it takes about 2 minutes\n"


def test_error_bars_say_how_long_they_take(model, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LONG", 0.0)
    model.interval("a", kind="noise")
    assert capsys.readouterr().err.startswith("pgmest: estimating replicates takes about ")


def test_long_work_shows_its_progress_without_a_terminal(monkeypatch, capsys):
    from pgmest._base import stages

    monkeypatch.setattr(stages, "TICK", 0.02)
    monkeypatch.setattr(stages, "EVERY", 0.05)
    with progress.progress("drawing", 100) as more:
        for _ in range(10):
            more(10)
            time.sleep(0.03)
    assert re.search(r"pgmest: drawing: 0 s, [1-9]0 of 100", capsys.readouterr().err)
