"""mbi's own mechanisms on pgmest, with one import changed: those of a checkout that PGMEST_MBI_CHECKOUT names."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

mbi = pytest.importorskip("mbi")

from experiments.compat.mechanisms import source_of  # noqa: E402
from pgmest.adapters import mbi as adapter  # noqa: E402

CHECKOUT = os.environ.get("PGMEST_MBI_CHECKOUT")
pytestmark = pytest.mark.skipif(not CHECKOUT, reason="PGMEST_MBI_CHECKOUT names no checkout of mbi")


def mechanism(name: str) -> types.ModuleType:
    """A script of mbi's whose imports of mbi are of the adapter."""
    script = Path(CHECKOUT or "") / "mechanisms" / f"{name}.py"
    module = types.ModuleType(name)
    module.__file__ = str(script)
    sys.path.insert(0, str(script.parent))
    try:
        exec(compile(source_of(script), str(script), "exec"), module.__dict__)
    finally:
        sys.path.remove(str(script.parent))
    return module


@pytest.fixture
def table():
    """1,000 records in which b follows a, and c follows b."""
    rng = np.random.default_rng(0)
    np.random.seed(0)  # noqa: NPY002  mbi's mechanisms draw from it
    a = rng.integers(0, 4, 1000)
    b = np.where(rng.random(1000) < 0.8, a, rng.integers(0, 4, 1000))
    c = np.where(rng.random(1000) < 0.8, b % 2, rng.integers(0, 2, 1000))
    return mbi.Dataset({"a": a, "b": b, "c": c, "d": rng.integers(0, 3, 1000)}, mbi.Domain(list("abcd"), [4, 4, 2, 3]))


def error(data, synthetic) -> float:
    """The mean L1 distance of the pairs' marginals, as a share of the records."""
    pairs = [("a", "b"), ("b", "c"), ("a", "d")]
    tables = [[np.asarray(one.project(pair).values, dtype=float) for one in (data, synthetic)] for pair in pairs]
    return float(np.mean([np.abs(x / x.sum() - y / y.sum()).sum() for x, y in tables]))


def test_mst(table):
    assert error(table, mechanism("mst").MST(table, 10.0, 1e-6)) < 0.15


def test_aim(table):
    model, synthetic = (
        mechanism("aim").AIM(10.0, 1e-6, max_model_size=1).run(table, [(("a", "b"), 1.0), (("b", "c"), 1.0)])
    )
    assert isinstance(model, adapter.MarkovRandomField)
    assert error(table, synthetic) < 0.2


def test_mwem(table):
    synthetic = mechanism("mwem+pgm").mwem_pgm(table, 10.0, delta=1e-6, workload=[("a", "b"), ("b", "c")], rounds=2)
    assert error(table, synthetic) < 0.3


def test_adaptive_grid(table):
    assert error(table, mechanism("adaptive_grid").adagrid(table, 10.0, 1e-6, threshold=5)) < 0.3


def test_jam(table):
    public = mbi.Dataset({name: column[::2] for name, column in table.to_dict().items()}, table.domain)
    model, synthetic = mechanism("jam").JAM(10.0, 1e-6).run(table, public, [("a", "b"), ("b", "c"), ("a", "d")])
    assert isinstance(model, adapter.MarkovRandomField)
    assert error(table, synthetic) < 0.3
