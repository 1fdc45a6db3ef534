"""Run a guide's Python blocks in an environment that has the library it is about, and keep with which versions.

    PYTHONPATH=. path/to/python -m experiments.compat.guides docs/guides/coming_from_synthcity.md ...

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

RESULTS = Path(__file__).resolve().parents[1] / "results" / "compat_guides.json"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOTED = (
    *("dpsynth", "mbi", "smartnoise-sql", "smartnoise-synth", "synthcity", "tmlt.analytics"),
    *("pyspark", "opendp", "numpy", "pandas", "numba", "networkx"),
)


def run(guide: Path) -> int:
    """Run the blocks one after the other and return their number; raise what a block raises."""
    text, names = guide.read_text(encoding="utf-8"), {"__name__": guide.stem}
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        lines_before = text.count("\n", 0, block.start(1))
        exec(compile("\n" * lines_before + block.group(1), str(guide), "exec"), names)
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
    """Run the guides that are named."""
    guides = [Path(argument).resolve() for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for guide in guides:
            ran = run(guide)
            kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
            kept[guide.stem] = {"blocks": ran, "versions": versions()}
            RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            print(f"{guide.stem}: {ran} blocks ran")


if __name__ == "__main__":
    main()
