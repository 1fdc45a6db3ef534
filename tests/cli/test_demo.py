"""The demo runs from end to end and writes what it says."""

import re
import sys

import pytest

from pgmest import datasets
from pgmest.cli import demo
from pgmest.data.dataset import Dataset


def test_demo_shows_the_way_and_writes_records_and_a_picture(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    assert demo.main() == 0
    text = capsys.readouterr().out
    for part in ("38 marginals measured", "JunctionTree: ", "\nconverged", "never measured:", "Done in "):
        assert part in text
    errors = {line[:44].strip(): line[44:].split() for line in text.splitlines() if re.search(r" 0\.\d{4}$", line)}
    assert set(map(", ".join, [*demo.MEASURED_PAIRS, *demo.UNMEASURED])) <= set(errors)
    assert len(errors) == 38 + len(demo.UNMEASURED)
    _, noisy, estimated, _ = errors["fnlwgt, native-country"]
    assert float(estimated) < 0.5 * float(noisy)

    census = datasets.load("census")
    synthetic = Dataset.load(tmp_path / "demo-output" / "synthetic.csv", census.domain)
    assert abs(synthetic.records - census.records) < 100
    assert (tmp_path / "demo-output" / "marginals.png").read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert demo.main() == 1
    assert "pip install matplotlib" in capsys.readouterr().err
