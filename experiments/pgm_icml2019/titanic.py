"""python -m experiments.pgm_icml2019.titanic CLONE: make PGM's table of the Titanic, with Fare in 100 bins.

CLONE is a clone of github.com/ryan112358/hd-datasets, which had the table so from November 2018 until October 2021; the
Titanic of newer papers has 32 bins, from which these cannot be had. The table goes to `build/data/titanic100`.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
from pathlib import Path

import pandas as pd

from experiments.data import MADE, load

COMMIT = "678dd87"
FARE, NAME = 100, "titanic100"


def make(clone: Path) -> Path:
    """Write the table and its domain; return their folder.

    Raises:
        ValueError: the table differs from the one with 32 bins in another column than Fare, or that one's bins are not
            unions of its own up to the one that a boundary cuts.
    """
    shown = subprocess.run(["git", "-C", clone, "show", f"{COMMIT}:clean/titanic.csv"], check=True, capture_output=True)
    table, known = pd.read_csv(io.BytesIO(shown.stdout)), load("titanic")
    coarse = table["Fare"] * known.domain["Fare"] // FARE
    for name in known.domain:
        column = coarse if name == "Fare" else table[name]
        far = (column - known.column(name)).abs().max()
        if far > (name == "Fare"):
            raise ValueError(f"column {name} of {clone} is not that of the table 'titanic'.")
    sizes = {name: FARE if name == "Fare" else known.domain[name] for name in known.domain}
    folder = MADE / NAME
    folder.mkdir(parents=True, exist_ok=True)
    table[list(sizes)].to_csv(folder / "data.csv.gz", index=False)
    (folder / "domain.json").write_text(json.dumps(sizes, indent=1), encoding="utf-8")
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m experiments.pgm_icml2019.titanic", description=__doc__)
    parser.add_argument("clone", type=Path, help="a clone of hd-datasets")
    print(make(parser.parse_args().clone))
