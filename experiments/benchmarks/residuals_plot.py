"""Draw the growth of time and memory with the number of attributes, readable in gray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.benchmarks.residuals import FEWER_RECORDS, QUICK_RECORDS
from experiments.figure_style import legend, lines, panels, save, titles

FEWER = "; ".join(f"of {attributes:,}: {records:,}" for attributes, records in FEWER_RECORDS.items())
STEPS = {
    "counting_processor_seconds": "count all pairs",
    "original_processor_seconds": "mechanism, least squares",
    "local_processor_seconds": "mechanism, local non-negativity",
    "records_processor_seconds": f"{QUICK_RECORDS:,} records ({FEWER})",
}


def draw(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Seconds of each step on the left, peak memory above the records on the right."""
    figure, (left, right) = panels(2, width=4.4, height=3.3)
    attributes = [int(result["problem"].split()[0]) for result in results]
    seconds = [
        {"attributes": count, "seconds": result[key], "step": key}
        for count, result in zip(attributes, results, strict=True)
        for key in STEPS
        if result.get(key) is not None
    ]
    memory = [
        {"attributes": count, "megabytes": result["megabytes"], "step": "memory"}
        for count, result in zip(attributes, results, strict=True)
    ]
    lines(left, pd.DataFrame(seconds), "attributes", "seconds", "step", order=list(STEPS), labels=STEPS, log="xy")
    labels = {"memory": "peak above the records"}
    lines(right, pd.DataFrame(memory), "attributes", "megabytes", "step", labels=labels, log="xy")
    for axes in (left, right):
        axes.set_xticks(attributes, [f"{count:,}" for count in attributes])
    right.set_ylim(10, 10_000)
    titles(left, "Seconds of processors", x="attributes, all pairs of them")
    titles(right, "Megabytes above the records", x="attributes, all pairs of them")
    legend(figure, left)
    save(figure, path)
