"""The notebooks: each runs from top to bottom, in a kernel that was emptied, and shows pictures."""

from __future__ import annotations

import base64
import json
import os
import re
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
OPENDP = ROOT / "experiments" / "compat" / "opendp.ipynb"
"""Runs in an environment of its own (`make opendp`)."""

LARGEST = 600_000  # bytes: outputs are kept, so that pages show them, but small


EMPTY = "%cd -q {folder}\nimport matplotlib\nmatplotlib.rcdefaults()\n%reset -f"
"""The cell before the first: no notebook sees the names, files and settings of another."""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client with one kernel for all notebooks, because starting a kernel takes longer than most of them."""
    nbformat = pytest.importorskip("nbformat", reason="running notebooks needs nbformat, nbclient and ipykernel")
    nbclient = pytest.importorskip("nbclient", reason="running notebooks needs nbformat, nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="running notebooks needs nbformat, nbclient and ipykernel")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        client = nbclient.NotebookClient(nbformat.v4.new_notebook(), timeout=1800)
        with client.setup_kernel():
            yield client


@pytest.mark.runs_a_notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, client, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    client.nb = nbformat.read(path, as_version=4)
    kept = pictures(client.nb)
    client.nb.cells.insert(0, nbformat.v4.new_code_cell(EMPTY.format(folder=tmp_path)))
    client.execute(cleanup_kc=False)
    _, *shown = pictures(client.nb)
    if version("matplotlib").startswith("3.8."):  # under IPython 9 its first picture comes a cell late, or with another
        shown, kept = [any(shown)], [any(kept)]
    assert shown == kept
    assert any(kept)


def pictures(notebook) -> list[int]:
    """Return the number of pictures of each cell."""
    shown = [[output.get("data", {}) for output in cell.get("outputs", [])] for cell in notebook.cells]
    return [sum("image/png" in data for data in cell) for cell in shown]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_outputs_are_kept_and_small(path):
    assert path.stat().st_size <= LARGEST
    assert '"image/png"' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [*NOTEBOOKS, OPENDP], ids=lambda path: path.stem)
def test_it_asks_for_pictures_that_are_sharp_enough_to_read(path):
    asked = [int(found) for found in re.findall(r"figure\.dpi\D+(\d+)", path.read_text(encoding="utf-8"))]
    assert asked
    assert min(asked) >= 100


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_pictures_that_are_kept_are(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                assert dots_per_inch(base64.b64decode("".join(output["data"]["image/png"]))) >= 100


def dots_per_inch(png: bytes) -> float:
    """Read the resolution from the chunk pHYs of a PNG, dots per meter (PNG specification, 11.3.5.3)."""
    place = png.index(b"pHYs") + 4
    return int.from_bytes(png[place : place + 4], "big") * 0.0254
