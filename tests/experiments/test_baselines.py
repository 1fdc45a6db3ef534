"""Test that `experiments.baselines` measures every run once and tells a loss of accuracy, coverage or speed."""

import pandas as pd
import pytest

from experiments.baselines import compared, report, runs, summary
from experiments.data import data_folder


def rows(error=0.1, held=0.95, width=10.0, seconds=1.0):
    same = {"mechanism": "LAMP", "epsilon": 1.0, "seed": 0}
    return pd.DataFrame(
        [
            {"part": "pairs", "class": "pairs", "table": "adult", **same, "error": error, "seconds": seconds},
            {"part": "coverage", "class": "cells", "table": "adult", **same, "held": held, "width": width},
        ]
    )


@pytest.mark.skipif(not data_folder().exists(), reason="needs the tables that PGMEST_DATA names")
def test_each_run_has_a_file_of_its_own():
    names = [run.name for run in runs(seeds=2)]
    assert len(set(names)) == len(names)


def test_the_same_rows_are_within_the_limits():
    text, within = compared(rows(), rows())
    assert within
    assert "error 1.000" in text
    assert "held 95.0%" in text


@pytest.mark.parametrize("worse", [{"error": 0.103}, {"held": 0.92}, {"width": 12.0}, {"seconds": 1.2}])
def test_a_class_that_became_worse_is_told(worse):
    text, within = compared(rows(**worse), rows())
    assert not within
    assert " !" in text


def test_the_summary_has_geometric_means():
    both = pd.concat([rows(error=0.1), rows(error=0.4)])
    pairs = summary(both).set_index("part").loc["pairs"]
    assert pairs["error"] == pytest.approx(0.2)
    assert pairs["runs"] == 2


def test_the_report_has_a_line_for_each_class():
    text = report(rows(), "12345678")
    assert "| pairs | pairs | 1 | 0.1 |  |  | 1 | 1 |" in text
    assert "95.0%" in text
