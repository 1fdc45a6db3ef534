"""One run: a table, a library's method and a seed, in a process of the library's own Python."""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.peers.tables import Table

ROOT = Path(__file__).resolve().parents[2]
EPSILON, DELTA, SEEDS = 1.0, 1e-9, (0, 1, 2)
METHODS = (
    ("pgmest", "MST"),
    ("pgmest", "AIM"),
    ("pgmest", "PrivBayes"),
    ("pgmest", "LAMP"),
    ("dpmm", "MST"),
    ("dpmm", "AIM"),
    ("dpmm", "PrivBayes"),
    ("smartnoise-synth", "MST"),
    ("smartnoise-synth", "AIM"),
    ("mbi", "MST"),
    ("mbi", "AIM"),
    ("mbi on pgmest", "MST"),
    ("mbi on pgmest", "AIM"),
)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Cell:
    """A run: the table's name, the library, its method, the seed."""

    table: str
    library: str
    method: str
    seed: int


def run(cell: Cell, table: Table, python: str, checkout: Path | None, limit: float) -> dict[str, Any]:
    """Seconds and errors of a run, or in `note` why there are none.

    The limit is of a processor, imports included, so that who else uses the machine does not decide what is stopped.
    """
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        task = _task(cell, table, here, checkout)
        (here / "task.json").write_text(json.dumps(task), encoding="utf-8")
        environment = {**os.environ, **ONE_THREAD, "PYTHONWARNINGS": "ignore", "JAX_PLATFORMS": "cpu"}
        environment["PYTHONPATH"] = str(ROOT) if "pgmest" in cell.library else ""
        command = [python, str(Path(__file__).with_name("worker.py")), str(here / "task.json")]
        stop = partial(resource.setrlimit, resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, cwd=folder, preexec_fn=stop
        )
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return _row(cell, note=f"not done after {limit:.0f} s")
        if done.returncode:
            return _row(cell, note=(done.stderr.strip().splitlines() or ["no message"])[-1][:200])
        said = json.loads((here / "said.json").read_text(encoding="utf-8"))
        made = np.load(here / "made.npy")
    versions = " ".join(f"{name}={version}" for name, version in said["versions"].items())
    return _row(cell, processor_seconds=round(said["seconds"], 2), versions=versions, **errors(table, made))


def _task(cell: Cell, table: Table, here: Path, checkout: Path | None) -> dict[str, Any]:
    np.save(here / "codes.npy", table.codes)
    return {
        "library": cell.library.removesuffix(" on pgmest"),
        "on_pgmest": cell.library.endswith(" on pgmest"),
        "method": cell.method,
        "seed": cell.seed,
        "epsilon": EPSILON,
        "delta": DELTA,
        "sizes": table.sizes,
        "numbers": list(table.per_bin),
        "checkout": None if checkout is None else str(checkout),
        **{name: str(here / file) for name, file in _FILES.items()},
    }


_FILES = {"codes": "codes.npy", "made": "made.npy", "said": "said.json"}


def _row(cell: Cell, **found: Any) -> dict[str, Any]:
    return {**vars(cell), "processor_seconds": "", "error_1": "", "error_2": "", "versions": "", "note": "", **found}


def errors(table: Table, made: np.ndarray) -> dict[str, float]:
    """The mean total variation distance of all one-way and of all two-way marginals, in the bins of the comparison."""
    (truth, sizes), (codes, _) = table.binned(table.codes), table.binned(made)
    codes, sizes = np.where(codes < 0, sizes, codes), [size + 1 for size in sizes]  # and a cell for what is no code
    found = {}
    for ways in (1, 2):
        distances = []
        for chosen in itertools.combinations(range(len(sizes)), ways):
            shape = [sizes[place] for place in chosen]
            shares = [
                np.bincount(np.ravel_multi_index(side[:, chosen].T, shape), minlength=int(np.prod(shape))) / len(side)
                for side in (truth, codes)
            ]
            distances.append(np.abs(shares[0] - shares[1]).sum() / 2)
        found[f"error_{ways}"] = round(float(np.mean(distances)), 4)
    return found
