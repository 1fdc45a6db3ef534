"""The compiled kernels against the reference in plain NumPy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest
from pgmest import CliqueVector
from pgmest.errors import ImpossibleModelError
from pgmest.inference import reference
from pgmest.inference.exact import plan_columns as f
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from tests.inference.problems import EVERYTHING_SMALL, Problem, limited, limits, problems

pytestmark = pytest.mark.filterwarnings("error")
quick = settings(max_examples=150, deadline=None)


# -- kernels against the reference ------------------------------------------------------------------------------------


def check_against_reference(problem: Problem, plan: PropagationPlan, threads: int = 1) -> None:
    exact, theta = ExactOracle(plan, threads), problem.vector
    expected_best, top = reference.max_marginals(theta)
    assert np.isclose(exact.maximum(problem.theta), top, rtol=1e-13, atol=1e-10)
    assert np.allclose(exact.max_marginals(problem.theta), expected_best.flat, rtol=1e-13, atol=1e-10)
    if not problem.possible:
        with pytest.raises(ImpossibleModelError):
            exact.run(problem.theta)
        return
    for record in (exact.map_record(problem.theta), reference.map_record(theta)):
        best = sum(factor.values[tuple(record[name] for name in clique)] for clique, factor in theta.items())
        assert np.isclose(best, top, rtol=1e-13, atol=1e-10)
    mu, log_partition = exact.run(problem.theta, 2.0)
    expected, expected_log = reference.marginal_oracle(theta, 2.0)
    assert np.allclose(mu, expected.flat, rtol=1e-9, atol=1e-12)
    assert np.isclose(log_partition, expected_log, rtol=1e-13, atol=1e-12)
    v = CliqueVector.of(problem.layout, problem.direction())
    assert np.allclose(exact.covariance(v.flat), reference.covariance(theta, v, 2.0).flat, rtol=0, atol=1e-9)


@quick
@given(problems(), limits(), st.integers(1, 3))
def test_kernels_agree_with_the_reference(problem, thresholds, threads):
    with limited(thresholds):
        check_against_reference(problem, problem.plan(), threads)


CUBE = dict.fromkeys("abcd", 3)
EVERY_PATH = [
    (Problem(CUBE, (("a", "b", "c"), ("a", "b"), ("b", "c"), ("a", "c"), ("c", "a"), ("a",), ("b",), ("c",))), {}),
    (Problem(CUBE, (("a", "b", "c"), ("a", "b"), ("b", "c"), ("a",))), {"ROW_CELLS": 1}),
    (Problem(CUBE, (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))), {}),
    (Problem(CUBE, (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))), {"STREAM_CELLS": 1, "STREAM_RATIO": 0}),
    (Problem(CUBE, (("a", "b", "c"), ("b", "c", "d"), ("d",))), {"VECTOR_CELLS": 1}),
    (Problem(CUBE, (("b", "c", "a"), ("d", "b", "c"), ("c",))), {"VECTOR_CELLS": 1}),
    (Problem(CUBE, (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "a"))), EVERYTHING_SMALL),
    (Problem({"a": 2, "b": 40, "c": 2}, (("a", "b"), ("c", "b"))), {"ROW_CELLS": 1}),
]


@pytest.mark.parametrize(("problem", "thresholds"), EVERY_PATH)
@pytest.mark.parametrize("threads", [1, 2])
def test_examples_of_every_path(problem, thresholds, threads):
    with limited(thresholds | {"THREADED_CELLS": 1}):
        check_against_reference(problem, problem.plan(), threads)


def test_the_examples_do_take_every_path():
    links, tables = set(), set()
    for problem, thresholds in EVERY_PATH:
        with limited(thresholds):
            nodes = problem.plan().nodes
        linked = nodes[nodes[:, f.PARENT] >= 0]
        links |= set(zip(linked[:, f.UP_KIND].tolist(), linked[:, f.MESSAGE_IN_THETA].tolist(), strict=True))
        cliques = nodes[nodes[:, f.SLOT] == 0]
        tables |= {
            ("first" if first else "last", "measured" if base >= 0 else "streamed" if table < 0 else "stored")
            for first, table, base in cliques[:, [f.FIRST, f.TABLE, f.BASE]].tolist()
        }
    kinds = (f.CONSTANT, f.CONTIGUOUS, f.REPEATED, f.TILED, f.GENERAL)
    assert {kind for kind, _ in links} == set(kinds)
    assert {(f.CONSTANT, 0), (f.CONTIGUOUS, 0), (f.REPEATED, 1), (f.TILED, 1), (f.GENERAL, 1)} <= links
    assert tables >= {(side, how) for side in ("first", "last") for how in ("streamed", "measured", "stored")}


# -- where the machine code is kept -----------------------------------------------------------------------------------

RUN_ONE_KERNEL = """
import numpy as np
from pgmest.inference.exact import plan_columns as fields
from pgmest.inference.exact import kernels
nodes = np.zeros((1, fields.N_FIELDS), dtype=np.int64)
nodes[0, fields.SEPARATOR] = 2
arena = np.array([-np.inf, 3.0])
kernels.settle_peaks(nodes, 0, arena)
print(arena.tolist(), kernels.settle_peaks.stats.cache_path)
"""


def run_one_kernel(package: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "PYTHON", "XDG"))}
    variables = clean | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", RUN_ONE_KERNEL], env=variables, cwd=package, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def installation(tmp_path):
    """A copy of the package whose folders for machine code cannot be made, because files have their names."""
    source = Path(pgmest.__file__).parent
    copy = tmp_path / "site" / "pgmest"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "inference" / "exact" / "__pycache__").write_text("in the way")
    return copy.parent


def test_kernels_run_where_no_folder_is_writable(installation):
    nowhere = "/dev/null/nowhere"
    found = run_one_kernel(installation, NUMBA_CACHE_DIR=nowhere, HOME=nowhere, XDG_CACHE_HOME=nowhere)
    assert found == "[0.0, 3.0] None"


def test_machine_code_goes_to_the_folder_that_is_writable(installation, tmp_path):
    found = run_one_kernel(installation, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert found.startswith(f"[0.0, 3.0] {tmp_path}/cache")
    assert list((tmp_path / "cache").rglob("kernels.settle_peaks*.nbc"))
