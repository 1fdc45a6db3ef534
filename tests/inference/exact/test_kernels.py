"""The exact oracle against the reference in plain NumPy, and where machine code is kept."""

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
from tests.inference.problems import problems

pytestmark = pytest.mark.filterwarnings("error")
quick = settings(max_examples=150, deadline=None)


# -- the oracle against the reference ---------------------------------------------------------------------------------


@quick
@given(problems(), st.integers(1, 3))
def test_the_oracle_agrees_with_the_reference(problem, threads):
    exact, theta = problem.exact(threads), problem.vector
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


# -- where the machine code is kept -----------------------------------------------------------------------------------

RUN_ONE_KERNEL = """
import numpy as np
from pgmest.losses.squares_kernels import square
print(square(np.array([1.0, 2.0]), np.ones(2)), square.stats.cache_path)
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
    (copy / "losses" / "__pycache__").write_text("in the way")
    return copy.parent


def test_kernels_run_where_no_folder_is_writable(installation):
    nowhere = "/dev/null/nowhere"
    found = run_one_kernel(installation, NUMBA_CACHE_DIR=nowhere, HOME=nowhere, XDG_CACHE_HOME=nowhere)
    assert found == "5.0 None"


def test_machine_code_goes_to_the_folder_that_is_writable(installation, tmp_path):
    found = run_one_kernel(installation, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert found.startswith(f"5.0 {tmp_path}/cache")
    assert list((tmp_path / "cache").rglob("squares_kernels.square*.nbc"))
