"""Each experiment on DPSyn: run its cells, write their table, draw it, and write the report anew."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from experiments.dpsyn import cells, figures, noise, report
from experiments.papers.paper import Run
from experiments.stored_rows import Cell
from pgmest._base.files import write_atomically
from pgmest.mechanisms.priview.design import cover, subsets_of
from pgmest.tables.domain import Domain

FOLDER = "dpsyn"
PUBLISHED_VIEWS = {12: 3, 64: 72}
"""Attributes -> views of eight that cover all pairs (section 3.2)."""


def figure_2(how: Run) -> None:
    """Which noise for k marginals."""
    lines = [
        {
            "panel": panel,
            "epsilon": epsilon,
            "delta": delta,
            "crossing": noise.crossing(epsilon, delta),
            "paper": noise.CROSSINGS[panel],
        }
        for panel, (epsilon, delta) in noise.PANELS.items()
    ]
    _written(how, "figure2", pd.DataFrame(lines))
    figures.figure_2(how.results / FOLDER / "figure2.png")
    report.write(how.results)


def views(how: Run) -> None:
    """Covering designs: views of eight binary attributes that hold all pairs."""
    lines = []
    for attributes, published in PUBLISHED_VIEWS.items():
        domain = Domain({f"a{place}": 2 for place in range(attributes)})
        found = cover(domain, subsets_of([domain.attributes], domain, 2), 2**8)
        lines.append({"attributes": attributes, "paper": published, "views": len(found)})
    _written(how, "views", pd.DataFrame(lines))
    report.write(how.results)


def scores(how: Run) -> None:
    """The three scores against epsilon."""
    of = [*cells.scores(how.few(3, 1), how.quick), *cells.all_attributes(how.quick)]
    table = _table(how, of)
    if table.empty:  # with --stored
        return
    table = table.drop(columns="errors")
    _written(how, "scores", table)
    figures.scores(table, how.results / FOLDER / "scores.png")
    report.write(how.results)


def convergence(how: Run) -> None:
    """GUM against flows."""
    rows = _table(how, cells.convergence(how.few(2, 1), how.quick))
    if rows.empty:
        return
    table = rows.explode("errors").rename(columns={"errors": "error"})
    table["error"] = table["error"].astype(float)
    table["iteration"] = table.groupby(["method", "seed"]).cumcount() + 1
    _written(how, "convergence", table[["method", "seed", "iteration", "error"]])
    figures.convergence(table, how.results / FOLDER / "convergence.png")
    report.write(how.results)


def itemsets(how: Run) -> None:
    """PrivBasis."""
    table = _table(how, cells.itemsets(how.few(3, 1), how.quick))
    if table.empty:
        return
    _written(how, "itemsets", table)
    figures.itemsets(table, how.results / FOLDER / "itemsets.png")
    report.write(how.results)


def _table(how: Run, of: Iterable[Cell]) -> pd.DataFrame:
    return pd.DataFrame(how.rows(of, FOLDER))


def _written(how: Run, name: str, table: pd.DataFrame) -> None:
    path = how.results / FOLDER / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, table.to_csv(index=False, float_format="%.6g"))
