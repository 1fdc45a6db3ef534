"""Each experiment on DPSyn: run its cells and write their table."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from experiments.dpsyn import baselines, cells, noise
from experiments.papers.paper import Run, Runs
from pgmest.mechanisms.priview.design import cover, subsets_of
from pgmest.tables.domain import Domain

FOLDER = "dpsyn"
PUBLISHED_VIEWS = {12: 3, 64: 72}
"""Attributes -> views of eight that cover all pairs (section 3.2)."""


def figure_2(how: Run) -> None:
    """Which noise for k marginals."""
    lines = [
        {"panel": p, "epsilon": epsilon, "delta": delta, "crossing": noise.crossing(epsilon, delta),
         "paper": noise.CROSSINGS[p]}
        for p, (epsilon, delta) in noise.PANELS.items()
    ]  # fmt: skip
    how.write_table(f"{FOLDER}/figure2", pd.DataFrame(lines))
    deviations = [
        {"panel": p, "k": k, **{name: of(k, *budget) for name, of in noise.APPROACHES.items()}}
        for p, budget in noise.PANELS.items()
        for k in noise.COUNTS
    ]
    how.write_table(f"{FOLDER}/noise", pd.DataFrame(deviations))


def views(how: Run) -> None:
    """Covering designs: views of eight binary attributes that hold all pairs."""
    lines = []
    for attributes, published in PUBLISHED_VIEWS.items():
        domain = Domain({f"a{place}": 2 for place in range(attributes)})
        found = cover(domain, subsets_of([domain.attributes], domain, 2), 2**8)
        lines.append({"attributes": attributes, "paper": published, "views": len(found)})
    how.write_table(f"{FOLDER}/views", pd.DataFrame(lines))


def runs() -> dict[str, Runs]:
    """The runs of each table."""
    found = {"scores": cells.scores(), "convergence": cells.convergence(), "priview": baselines.comparison()}
    return {name: Runs(FOLDER, of, (f"{FOLDER}/{name}",)) for name, of in found.items()}


def step(name: str) -> Callable[[Run], None]:
    """Return the step that runs the cells of a table and writes it."""
    return lambda how: how.write_table(f"{FOLDER}/{name}", how.table(runs()[name]))


STEPS = {"figure_2": figure_2, "views": views, **{name: step(name) for name in runs()}}
