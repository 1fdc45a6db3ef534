"""OpenDP's contingency tables with our estimator, end to end, in an environment of its own that `make opendp` makes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MADE = sorted((ROOT / "build" / "compat").glob("opendp-*/bin/python"), reverse=True)
PYTHON = Path(os.environ.get("PGMEST_OPENDP_PYTHON", MADE[0] if MADE else "no environment"))


@pytest.mark.skipif(not PYTHON.exists(), reason="no environment with opendp[mbi]: `make opendp` makes one")
@pytest.mark.parametrize("algorithm", ["MST", "Fixed"])
def test_tables_are_as_accurate_as_with_their_own_estimator(algorithm, tmp_path):
    command = [
        str(PYTHON),
        "-W",
        "ignore",
        "-m",
        "experiments.compat.opendp_tables",
        "--only",
        algorithm,
        "--runs",
        "1",
    ]
    subprocess.run([*command, "--runs", "1", "--out", str(tmp_path / "rows.json")], cwd=ROOT, check=True)
    (release,) = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8")).values()
    rows = release["rows"]
    errors = {row["estimator"]: row["error of pairs"] for row in rows}
    assert errors.keys() == {"pgmest", "OpenDP"}
    assert errors["pgmest"] < max(1.5 * errors["OpenDP"], 0.02)
