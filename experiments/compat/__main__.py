"""Run mbi's own tests on pgmest, and where a checkout is named its own mechanisms.

    make compat                        the tests out of mbi's source distribution, of the release that is installed
    make compat MBI=path/to/checkout   those of a checkout, and its mechanisms/*.py

mbi's tests are not ours to copy: they are downloaded into build/, or read where they are.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def downloaded_tests(folder: Path) -> Path:
    """The tests of mbi's source distribution, unpacked into `folder`."""
    release = version("mbi")
    target = folder / f"mbi-{release}"
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mbi"]
        subprocess.run([*pip, "--dest", str(folder), f"mbi=={release}"], check=True)
        (archive,) = folder.glob(f"mbi-{release}.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
    return target / "test"


def main() -> int:
    """Run the tests; the exit status is pytest's."""
    parser = argparse.ArgumentParser(prog="python -m experiments.compat", description=__doc__)
    parser.add_argument("--mbi", type=Path, help="a checkout of mbi: its tests, and its mechanisms")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest, such as -- -n 2")
    arguments = parser.parse_args()
    tests = arguments.mbi / "test" if arguments.mbi else downloaded_tests(ROOT / "build" / "compat")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "pytest", "-p", "experiments.compat.on_pgmest", "-q", "--no-header"]
    command += ["-c", os.devnull, "--rootdir", str(tests), str(tests), *arguments.pytest]
    status = subprocess.run(command, env=environment, check=False).returncode
    if arguments.mbi and status == 0:
        environment["PGMEST_MBI_CHECKOUT"] = str(arguments.mbi.resolve())
        mechanisms = [sys.executable, "-m", "pytest", "-q", "tests/adapters/test_mbi_mechanisms.py"]
        status = subprocess.run(mechanisms, env=environment, cwd=ROOT, check=False).returncode
    return status


if __name__ == "__main__":
    raise SystemExit(main())
