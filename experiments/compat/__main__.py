"""Run mbi's own tests on pgmest, and where a checkout is named its own mechanisms.

    make compat                        the tests out of mbi's source distribution, of the release that is installed
    make compat MBI=path/to/checkout   those of a checkout, and its mechanisms/*.py; how long these take, too

mbi's tests are not ours to copy: they are downloaded into build/, or read where they are. Each of its test files runs
in a process of its own, since JAX keeps what it compiled. How many passed, which failed, and what is left out and why,
is kept in experiments/results/compat_mbi.json, from which the page "Compatibility" is made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results" / "compat_mbi.json"
NOTED = ("mbi", "jax", "numpy", "pandas", "scipy", "numba")


def downloaded_tests(folder: Path) -> Path:
    """The tests of mbi's source distribution, unpacked into `folder`.

    Raises:
        SystemExit: the release has none.
    """
    release = version("mbi")
    target = folder / f"mbi-{release}"
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mbi"]
        done = subprocess.run([*pip, "--dest", str(folder), f"mbi=={release}"], check=False)
        archives = list(folder.glob(f"mbi-{release}.tar.gz"))
        if done.returncode or not archives:
            raise SystemExit(f"mbi {release} has no source distribution with tests; name a checkout of it: --mbi PATH")
        with tarfile.open(archives[0]) as files:
            files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
            files.extractall(folder)
    return target / "test"


def run_file(file: Path, more: list[str]) -> dict[str, Any]:
    """Run the tests of one file and return their outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "PGMEST_COMPAT_OUT": str(out)}
        command = [sys.executable, "-m", "pytest", "-p", "experiments.compat.on_pgmest", "-q", "--no-header"]
        command += ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(file.parent), str(file), *more]
        subprocess.run(command, env=environment, check=False)
        if not out.exists():  # it did not even start
            return {"passed": 0, "failed": [file.name], "by_chance": {}, "left_out": {}}
        return json.loads(out.read_text(encoding="utf-8"))


def keep(file: Path, found: dict[str, Any], seconds: float) -> None:
    """What one file did into the results, beside the other files and releases; a change of versions starts anew."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    versions = {name: version(name) for name in NOTED}
    release = kept.get(versions["mbi"], {})
    if release.get("versions") != versions:
        release = {"versions": versions, "files": {}}
    release["of"] = len(list(file.parent.glob("test_*.py")))
    release["files"][file.name] = {**found, "seconds": round(seconds)}
    kept[versions["mbi"]] = release
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> int:
    """Run the tests; the exit status is 1 where some failed that do not fail by chance with mbi itself, too."""
    parser = argparse.ArgumentParser(prog="python -m experiments.compat", description=__doc__)
    parser.add_argument("--mbi", type=Path, help="a checkout of mbi: its tests, and its mechanisms")
    parser.add_argument("--only", help="only the test files whose name has this in it")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest, such as -- -n 2")
    arguments = parser.parse_args()
    tests = arguments.mbi / "test" if arguments.mbi else downloaded_tests(ROOT / "build" / "compat")
    found = []
    for file in sorted(tests.glob("test_*.py")):
        if not arguments.only or arguments.only in file.name:
            started = time.monotonic()
            found.append(run_file(file, arguments.pytest))
            keep(file, found[-1], time.monotonic() - started)
    passed, failed = sum(one["passed"] for one in found), [name for one in found for name in one["failed"]]
    print(f"mbi {version('mbi')}'s tests on pgmest: {passed:,} of {passed + len(failed):,} in scope pass", *failed)
    status = int(any(name not in one["by_chance"] for one in found for name in one["failed"]))
    if arguments.mbi and not arguments.only and status == 0:
        environment = {**os.environ, "PGMEST_MBI_CHECKOUT": str(arguments.mbi.resolve())}
        mechanisms = [sys.executable, "-m", "pytest", "-q", "tests/adapters/test_mbi_mechanisms.py"]
        status = subprocess.run(mechanisms, env=environment, cwd=ROOT, check=False).returncode
        timed = [sys.executable, "-m", "experiments.compat.mechanisms", "--mbi", str(arguments.mbi)]
        subprocess.run(timed, env={**environment, "PYTHONPATH": str(ROOT)}, check=False)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
