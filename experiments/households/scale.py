"""python -m experiments.households.scale [--only PATTERN] [--fresh] [--report]: time and memory of LinkedLAMP by size.

Households of eusilc, drawn with replacement until there are as many as asked for; one run at epsilon 1 each. Earlier
runs are reused (`experiments.kept_runs`). The tables go to experiments/results/households_scale.{csv,md}. Set
OPENBLAS_NUM_THREADS=1, and make one run a call (`--only 1000000`), since the largest memory is that of the process.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.households.designs import DELTA
from experiments.households.tables import CLASSES, as_linked, errors, load
from experiments.kept_runs import KeptRuns, run_and_report
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.trees import family_table

SIZES = 10_000, 100_000, 1_000_000
HEAD = """# Linked tables: time and memory

`python -m experiments.households.scale` makes this table: households of eusilc with 2.5 persons on average, seven
attributes of a household and eight of a person, drawn with replacement; `LinkedLAMP` at epsilon 1, noise is simulated.
Seconds are those of one processor for `fit`, without compiling; memory is the largest of the
process, the private tables included. Errors as in [Linked tables](households.md), in thousandths.

"""


@dataclass(frozen=True)
class ScaleRun:
    """One run on this many households."""

    households: int

    @property
    def name(self) -> str:
        """The name of the file of the row."""
        return str(self.households)


KEPT = KeptRuns("households_scale", ScaleRun)
RUNS = [ScaleRun(size) for size in SIZES]


def measure(run: ScaleRun) -> dict[str, Any]:
    """Fit tables of this many households; return seconds, megabytes and errors."""
    true = drawn(run.households)
    linked = as_linked(true)
    mechanism = LinkedLAMP(epsilon=1.0, delta=DELTA, backend="simulation")
    mechanism.fit(as_linked(drawn(100)), seed=0, progress=False)  # compiles, or loads what was compiled
    start = time.process_time()
    result = mechanism.fit(linked, seed=0, progress=False)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    found = errors(true, family_table(result.sample(seed=0), "persons"))
    return {"persons": len(true.children), "seconds": seconds, "megabytes": peak, **found}


def drawn(count: int) -> Families:
    """Return households of eusilc, drawn with replacement."""
    table = load("eusilc")
    rows = np.random.default_rng(0).integers(len(table.sizes), size=count)
    sizes = table.sizes[rows]
    starts = np.repeat(table.first[rows] - (np.cumsum(sizes) - sizes), sizes)
    return Families(table.layout, table.parents[rows], table.children[starts + np.arange(int(sizes.sum()))])


def report(rows: pd.DataFrame) -> str:
    """Return the report of the rows."""
    titles = ["households", "persons", "seconds", "megabytes", *(name.replace("_", " ") for name in CLASSES)]
    lines = [HEAD + "| " + " | ".join(titles) + " |", "|" + "---:|" * len(titles)]
    for row in rows.to_dict("records"):
        cells = [f"{row['households']:,}", f"{row['persons']:,}", f"{row['seconds']:.0f}", f"{row['megabytes']:,}"]
        cells += [f"{1000 * row[name]:.0f}" for name in CLASSES]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_and_report(KEPT, RUNS, measure, report, __doc__, "100000", "households.scale")
