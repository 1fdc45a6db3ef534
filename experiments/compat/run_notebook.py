"""Run a notebook from top to bottom and keep what it shows: `python -m experiments.compat.run_notebook PATH`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(path: Path) -> None:
    """Raises nbclient's CellExecutionError where a cell fails; the file is then as it was."""
    import nbclient
    import nbformat

    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:  # that kernels are compiled says nothing to a reader
            cell.outputs = [one for one in cell.outputs if not one.get("text", "").startswith("pgmest: compiling")]
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        run(Path(argument))
        print(f"ran {argument}")
