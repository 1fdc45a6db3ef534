"""Run the Python of a library's section in an environment that has the library, and keep with which versions.

    PYTHONPATH=. path/to/python -m experiments.compat.guides SmartNoise

The argument is the heading of a section of docs/guides/coming_from_other_libraries.md.

Libraries that pin what they need have environments of their own, so the suite skips their blocks. What ran is kept in
experiments/results/compat_guides.json, from which the page "Compatibility" is made.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "coming_from_other_libraries.md"
RESULTS = ROOT / "experiments" / "results" / "compat_guides.json"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOTED = (
    *("dpsynth", "mbi", "smartnoise-sql", "smartnoise-synth", "synthcity", "tmlt.analytics"),
    *("pyspark", "opendp", "numpy", "pandas", "numba", "networkx"),
)


def run(section: str) -> int:
    """Run the blocks of the introduction and of a section; return their number."""
    opening, *sections = re.split(r"^## ", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = opening + next(part for part in sections if part.startswith(f"{section}\n"))
    blocks, names = BLOCK.findall(text), {"__name__": GUIDE.stem}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    return len(blocks)


def versions() -> dict[str, str]:
    """Return the versions of the relevant installed packages, and of Python."""
    found = {"Python": platform.python_version()}
    for package in NOTED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Run the sections that are named."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for section in sys.argv[1:]:
            ran = run(section)
            kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
            kept[section] = {"blocks": ran, "versions": versions()}
            RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            print(f"{section}: {ran} blocks ran")


if __name__ == "__main__":
    main()
