"""Each experiment on DPSyn: run its cells, write their table, draw it, and write the report anew."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from experiments.dpsyn import baselines, cells, figures, noise, report
from experiments.papers.paper import Run, Runs
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
    how.write_table(f"{FOLDER}/figure2", pd.DataFrame(lines))
    figures.figure_2(how.results / FOLDER / "figure2.png")
    report.write(how)


def views(how: Run) -> None:
    """Covering designs: views of eight binary attributes that hold all pairs."""
    lines = []
    for attributes, published in PUBLISHED_VIEWS.items():
        domain = Domain({f"a{place}": 2 for place in range(attributes)})
        found = cover(domain, subsets_of([domain.attributes], domain, 2), 2**8)
        lines.append({"attributes": attributes, "paper": published, "views": len(found)})
    how.write_table(f"{FOLDER}/views", pd.DataFrame(lines))
    report.write(how)


def runs(how: Run) -> dict[str, Runs]:
    """The runs of each table."""
    found = {
        "scores": [*cells.scores(how.few(3, 1), how.quick), *cells.all_attributes(how.quick)],
        "convergence": list(cells.convergence(how.few(3, 1), how.quick)),
        "itemsets": list(cells.itemsets(how.few(3, 1), how.quick)),
        "priview": list(baselines.comparison(how.few(3, 1), how.quick)),
    }
    lists = {"convergence": ("error",)}
    return {name: Runs(FOLDER, of, (f"{FOLDER}/{name}",), lists.get(name, ())) for name, of in found.items()}


def scores(how: Run) -> None:
    """The three scores against epsilon."""
    _figure(how, "scores", _with_the_last_error)


def convergence(how: Run) -> None:
    """GUM against flows."""
    _figure(how, "convergence", _by_iteration)


def priview(how: Run) -> None:
    """PriView against Direct and Fourier."""
    rows = how.table(runs(how)["priview"])
    if not rows.empty:
        how.write_table(f"{FOLDER}/priview", rows)
        report.write(how)


def itemsets(how: Run) -> None:
    """PrivBasis."""
    _figure(how, "itemsets", lambda rows: rows)


def _figure(how: Run, name: str, shape: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Run the cells, write their table, draw it by the function of `figures` of that name, and write the report."""
    rows = how.table(runs(how)[name])
    if rows.empty:  # with --stored
        return
    table = shape(rows)
    how.write_table(f"{FOLDER}/{name}", table)
    getattr(figures, name)(table, how.results / FOLDER / f"{name}.png")
    report.write(how)


def _with_the_last_error(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each run, with the error of its tables in the last iteration where that was kept."""
    last = rows.dropna(subset="error").groupby("run")["error"].last() if "error" in rows else pd.Series(dtype=float)
    table = rows.drop(columns="error", errors="ignore").drop_duplicates()
    known = table["last_error"] if "last_error" in table else float("nan")
    return table.assign(last_error=table["run"].map(last).fillna(known))


def _by_iteration(rows: pd.DataFrame) -> pd.DataFrame:
    table = rows.assign(iteration=rows.groupby("run").cumcount() + 1)
    return table[["run", "method", "seed", "iteration", "error"]]
