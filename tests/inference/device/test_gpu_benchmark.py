"""`python -m experiments.benchmarks gpu`, on problems small enough for the simulator."""

from __future__ import annotations

from argparse import Namespace

import pytest

from experiments.benchmarks import gpu, gpu_command
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain

pytest.importorskip("numba.cuda")


@pytest.fixture
def small(monkeypatch):
    layout = Layout.of(Domain({"a": 2, "b": 3, "c": 2}), [("a", "b"), ("b", "c")])
    cases = {"one": (lambda: layout, 1), "many": (lambda: layout, 3)}
    for module in (gpu, gpu_command):
        monkeypatch.setattr(module, "CASES", cases)


@pytest.mark.parametrize("name", ["one", "many"])
def test_both_precisions_agree_with_the_processor(small, name):
    for precision, most in (("float64", 1e-12), ("float32", 1e-5)):
        found = gpu.measure_gpu(name, precision, 0.0)
        assert {"compiling", "first", "later", "later, NumPy", "device"} < found.keys()
        assert found["difference"] < most
    assert gpu.measure_processor(name, 0.0)["later"] > 0


def test_the_table_compares_with_the_fastest_of_mbi(small):
    times = {
        "GPU, float64": {"compiling": 1.0, "first": 0.5, "later": 0.002, "later, NumPy": 0.01, "difference": 1e-15},
        "mbi implicit, float64": {"first": 30.0, "later": 0.008},
        "mbi fast, float64": {"first": 40.0, "later": 0.006},
    }
    result = {"problem": "one", "vectors": 1, "tree_cells": 12, "times": times, "errors": {}}
    double, single = gpu_command.table([result]).splitlines()[2:]
    assert [cell.strip() for cell in double.split("|")[9:14]] == ["30,000", "6.00", "60.0", "3.00", "-"]
    assert single.count(" - ") >= 8


def test_without_a_device_it_says_so(monkeypatch, capsys):
    def none() -> None:
        raise gpu_command.DeviceError("there is no device")

    monkeypatch.setattr(gpu_command, "load_device", none)
    gpu_command.run(Namespace(quick=True, only=[], fresh=False))
    assert capsys.readouterr().out == "gpu: not measured. there is no device\n"
