"""mbi's own mechanisms, its scripts as they are, on pgmest or on mbi itself: processor seconds, and errors.

    python -m experiments.compat.mechanisms --mbi path/to/checkout            on pgmest
    python -m experiments.compat.mechanisms --mbi path/to/checkout --on mbi   as mbi has them

Each script runs from its command line, with its own defaults and on the data of its repository, in a process of its
own; MST and AIM on Adult (15 attributes, 48,842 records), JAM on the public and the private part of Adult. All that is
changed is the import of mbi, and the two places where a script has fallen behind its libraries. Seconds are those of
the processor, for whatever else the machine does, of the whole process, imports and compilation included.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results" / "compat_mechanisms.json"
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "mst": (),
    "aim": (),
    "jam": ("--degree", "2", "--rounds", "15"),
    "adaptive_grid": ("--dataset", "../data/adult.csv", "--domain", "../data/adult-domain.json", "--save", os.devnull),
}
"""Script -> what it is given beside its defaults."""


def source_of(script: Path, adapter: str = "pgmest.adapters.mbi") -> str:
    """A script whose imports of mbi are of the adapter: the change that the guide asks for.

    mbi 2 has no `Domain.attrs` and reshapes no values, and scipy wants the elements of a DisjointSet first.
    """
    source = script.read_text(encoding="utf-8")
    source = re.sub(r"^from mbi import", f"from {adapter} import", source, flags=re.MULTILINE)
    source = re.sub(r"^import mbi$", f"import {adapter} as mbi", source, flags=re.MULTILINE)
    source = re.sub(r"\.attrs\b", ".attributes", source)
    source = source.replace("ds = DisjointSet()", "ds = DisjointSet(data.domain.attributes)")
    return source.replace("np.arange(n))", "np.arange(n).reshape(domain.project(cl1).shape))")


def run_here(script: Path, adapter: str) -> dict[str, Any]:
    """Run a script in this process, as from its command line, and say how long it took and what error it printed."""
    import numpy as np

    np.random.seed(0)  # noqa: NPY002  which they draw from
    os.chdir(script.parent)
    sys.path.insert(0, str(script.parent))
    sys.argv = [script.name, *ARGUMENTS[script.stem]]
    said = io.StringIO()
    code = compile(source_of(script, adapter), str(script), "exec")
    with contextlib.redirect_stdout(said):
        exec(code, {"__name__": "__main__", "__file__": str(script)})
    errors = re.findall(r"(?:Average Error: +|avg_error=)([\d.]+)", said.getvalue())
    return {"seconds": round(time.process_time(), 1), "error": round(float(errors[-1]), 4) if errors else None}


def run_apart(name: str, on: str, checkout: Path, most_seconds: float) -> dict[str, Any]:
    """A row: a script in a process of its own."""
    row: dict[str, Any] = {"mechanism": name, "on": on, "seconds": None, "error": None, "note": ""}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "said.json"
        command = [sys.executable, "-m", "experiments.compat.mechanisms", "--mbi", str(checkout), "--on", on]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "JAX_PLATFORMS": "cpu"}
        stop = partial(resource.setrlimit, resource.RLIMIT_CPU, (int(most_seconds), int(most_seconds) + 5))
        done = subprocess.run(
            [*command, "--inside", name, "--out", str(out)],
            env=environment, capture_output=True, text=True, check=False, cwd=ROOT, preexec_fn=stop,
        )  # fmt: skip
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return row | {"note": f"not done after {most_seconds:.0f} s"}
        if done.returncode:
            return row | {"note": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
        return row | json.loads(out.read_text(encoding="utf-8"))


def keep(row: dict[str, Any]) -> None:
    """A row into the results, in the place of an earlier one of the same release of mbi."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    versions = {name: importlib.metadata.version(name) for name in ("mbi", "jax", "numpy", "numba")}
    release = kept.setdefault(versions["mbi"], {"rows": []})
    release["versions"] = versions
    same = ("mechanism", "on")
    others = [one for one in release["rows"] if any(one[name] != row[name] for name in same)]
    release["rows"] = sorted([*others, row], key=lambda one: (one["mechanism"], one["on"]))
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Print the rows, and keep them in experiments/results/compat_mechanisms.json."""
    parser = argparse.ArgumentParser(prog="python -m experiments.compat.mechanisms", description=__doc__)
    parser.add_argument("--mbi", type=Path, required=True, metavar="CHECKOUT", help="a checkout of mbi")
    parser.add_argument("--on", choices=("pgmest", "mbi"), default="pgmest", help="whose estimators")
    parser.add_argument("--only", choices=tuple(ARGUMENTS), help="one mechanism")
    parser.add_argument("--most-seconds", type=float, default=450.0, help="of a processor (default 450)")
    parser.add_argument("--inside", choices=tuple(ARGUMENTS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        adapter = "pgmest.adapters.mbi" if options.on == "pgmest" else "mbi"
        found = run_here(options.mbi.resolve() / "mechanisms" / f"{options.inside}.py", adapter)
        options.out.write_text(json.dumps(found), encoding="utf-8")
        return
    for name in (options.only,) if options.only else ARGUMENTS:
        row = run_apart(name, options.on, options.mbi.resolve(), options.most_seconds)
        print("  ".join(str(value) for value in row.values()), flush=True)
        keep(row)


if __name__ == "__main__":
    main()
