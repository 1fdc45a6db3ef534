"""Figure 1: the workload error of four mechanisms on four tables, each with its own estimator and with PGM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from experiments.figure_style import COLORS, MUTED, dots, legend, offset, panels, paper_marks, save, titles
from experiments.papers.paper import Run, Runs
from experiments.papers.prose import bullets
from experiments.pgm_icml2019 import paths
from experiments.pgm_icml2019.cells import MECHANISMS, QUICK, Cell, Effort, Way
from experiments.pgm_icml2019.problem import (
    DATASETS,
    PAPER_ATTRIBUTES,
    PAPER_DOMAIN,
    PAPER_QUERIES,
    problem,
)
from experiments.pgm_icml2019.published import mwem

SEEDS = 5
PAPER: dict[str, dict[str, float]] = {
    "PrivBayes": {"adult": 1.3, "loans": 6.0, "stroke": 7.0},
    "DualQuery": {"titanic": 1.2, "adult": 1.8, "loans": 3.5, "stroke": 4.4},
    "MWEM": {},
    "HDMM": {"titanic": 6.6, "adult": 3.2, "loans": 27.0, "stroke": 6.3},
}
"""By what factor PGM lowered the workload error, where the text of the paper has a number; its four for HDMM and for
DualQuery are read in the order titanic, adult, loans, stroke, which the paper does not say."""
WAYS: dict[str, tuple[Way, ...]] = {
    "PrivBayes": ("published", "script", "ours"),
    "DualQuery": ("published", "script", "ours"),
    "MWEM": ("published", "ours"),
    "HDMM": ("published", "ours"),
}
"""How PGM estimates, the paper's first."""
LABELS = {
    "original": "without PGM",
    "published": "PGM, the paper's algorithm",
    "script": "PGM, the authors' script",
    "ours": "PGM, our solver",
    "global": "global least squares",
    "uniform": "uniform table",
}
SHOWN = {
    "original": COLORS[1],
    "published": COLORS[0],
    "script": COLORS[4],
    "ours": COLORS[3],
    "global": COLORS[2],
    "uniform": MUTED,
}
MARKS = {"original": "s", "published": "o", "script": "v", "ours": "D", "global": "^", "uniform": "_"}

HEAD = """# Figure 1: workload error with and without PGM

`python -m experiments.papers pgm --step figure1`. Epsilon 1 (DualQuery: and delta 0.001), one record replaced, as in
the paper; its error, the mean over 15 triples of ||W (x - x')||_1 / (2 ||W x||_1). Medians of the seeds, the range in
brackets. The triples are the authors' (`experiments/pgm_icml2019/problem.py` has their rule), and the budget is split
equally over them, as in their script.

| table | records | attributes, paper | here | domain, paper | here | queries, paper | here | cells of the tree |
|---|---|---|---|---|---|---|---|---|
{problems}

*Without PGM*: PrivBayes: records drawn from the network; DualQuery: its synthetic records; MWEM: multiplicative weights
in the paper's {memory:.0f} GB; HDMM: local least squares. *The paper's algorithm*: Algorithm 2 with the paper's
constant, {iterations:,} iterations and the average as the result (MWEM: {round:,} in each round, the default of the
authors' script); DualQuery: Algorithm 1 with line search, {iterations:,} iterations. *Our solver*: pgmest's accelerated
one, to a proven gap of {tolerance:g} of the noise floor or {ours} iterations (DualQuery: {likelihood}). *The authors'
script*: see below. *Uniform*: a table in which all records are equally likely. The mechanisms are in
`experiments/pgm_icml2019/published/`, one screen each.

| mechanism | table | how PGM estimates | seeds | without PGM | with PGM | factor, by seed | paper's factor | uniform |
|---|---|---|---|---|---|---|---|---|
{main}

![errors of four mechanisms](pgm_figure1.png)

## Plain MWEM and the memory

A round needs a table over all attributes that the queries measured so far connect. The run goes on past any memory,
because a graphical model computes the same updates without the table; it counts as ended where the table would take
more than {memory:.0f} GB in double precision.

| table | seeds | rounds that fit, of | next, GB | largest, GB | error where it ends | with all rounds | with PGM |
|---|---|---|---|---|---|---|---|
{plain}

## What we see

{findings}
"""


def cells(run: Run) -> list[Cell]:
    """All runs of the figure but HDMM's published way, which are paths; a try has one seed and no loans."""
    names = _names(run)
    ways = {**WAYS, "MWEM": ("plain", *WAYS["MWEM"])}
    return [
        Cell(name, mechanism, seed, way, effort=QUICK if run.quick else Effort())
        for seed in range(run.few(SEEDS, 1))
        for mechanism in MECHANISMS
        for name in names
        for way in ways[mechanism]
        if (mechanism, way) != ("HDMM", "published")
    ]


def _names(run: Run) -> list[str]:
    return [name for name in DATASETS if not run.quick or name != "loans"]


def published_paths(run: Run) -> list[paths.Path]:
    """HDMM's published way; those on Adult are Figure 3's, too."""
    iterations = run.few(Effort().published, QUICK.published)
    return [
        paths.Path(paths.PAPERS, seed, iterations, dataset=name)
        for seed in range(run.few(SEEDS, 1))
        for name in _names(run)
    ]


def runs(run: Run) -> dict[str, Runs]:
    """All of these."""
    return {
        "cells": Runs(FOLDER, cells(run), ("pgm_figure2a", "pgm_figure1")),
        "paths": Runs("pgm_paths", published_paths(run), ("pgm_figure3_path", "pgm_direct_path"), paths.LISTS),
    }


FOLDER = "pgm_figure1"


def make(run: Run) -> None:
    """Run what is missing, and write table, report and figure."""
    of = runs(run)
    table = pd.concat([run.table(of["cells"]), of_paths(run.rows(of["paths"]))], ignore_index=True)
    run.write_table("pgm_figure1", table)
    names = [name for name in DATASETS if name in set(table.dataset)]
    run.write_table("pgm_problems", problems(names))
    run.write_report("pgm_figure1", report(table, names))
    draw(table, names, run)


def of_paths(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The ends of paths as rows of this figure."""
    return pd.DataFrame(
        [
            {
                "run": row["run"],
                "dataset": row["dataset"],
                "mechanism": "HDMM",
                "way": "published",
                "seed": row["seed"],
                "epsilon": row["epsilon"],
                "split": row["split"],
                "error_original": row["local"],
                "error_pgm": row["end"],
                "measured_original": row["measured_local"],
                "measured_pgm": row["measured_end"],
            }
            for row in rows
        ]
    )


def problems(names: Sequence[str]) -> pd.DataFrame:
    """Our Table 1."""
    return pd.DataFrame(
        [
            {
                "dataset": one.name,
                "records": one.data.records,
                "attributes": len(one.domain),
                "domain": f"{one.domain.size():.0e}",
                "queries": one.queries,
                "tree_cells": one.tree_cells,
                "error_uniform": one.uniform_error,
            }
            for one in map(problem, names)
        ]
    )


def pairs(table: pd.DataFrame, mechanism: str, name: str, way: str) -> pd.DataFrame:
    """`original` and `pgm` by seed: the errors without and with PGM, estimated in that way.

    Raises:
        KeyError: there are no such runs.
    """
    rows = table[(table.mechanism == mechanism) & (table.dataset == name) & (table.epsilon == 1.0)].set_index("seed")
    own = rows[rows.way == "plain"] if mechanism == "MWEM" else rows[rows.way == way]
    found = pd.DataFrame({"original": own.error_original, "pgm": rows[rows.way == way].error_pgm}).dropna()
    if found.empty:
        raise KeyError(f"no runs of {mechanism} on {name}, {way}")
    return found


def factors(table: pd.DataFrame, mechanism: str, name: str, way: str) -> list[float]:
    """By what PGM lowers the error, by seed."""
    found = pairs(table, mechanism, name, way)
    return [float(factor) for factor in found.original / found.pgm]


def report(table: pd.DataFrame, names: Sequence[str]) -> str:
    """The text."""
    known, effort = problems(names), Effort()
    lines, described = [], []
    for row in known.itertuples():
        name = str(row.dataset)
        described.append(
            f"| {name} | {row.records:,} | {PAPER_ATTRIBUTES[name]} | {row.attributes} | {PAPER_DOMAIN[name]:.0e} "
            f"| {row.domain} | {PAPER_QUERIES[name]:,} | {row.queries:,} | {row.tree_cells:,} |"
        )
    uniform = known.set_index("dataset").error_uniform
    for mechanism in MECHANISMS:
        for name in names:
            for way in WAYS[mechanism]:
                lines += _line(table, mechanism, name, way, uniform[name])
    return HEAD.format(
        problems="\n".join(described), main="\n".join(lines), plain="\n".join(_plain(table, names)),
        findings=findings(table, names), memory=mwem.MEMORY / 1e9, iterations=effort.published, round=effort.round,
        tolerance=effort.tolerance, ours=effort.ours, likelihood=effort.likelihood,
    )  # fmt: skip


def spread(values: pd.Series | Sequence[float], digits: int = 3) -> str:
    """Median and range."""
    numbers = pd.Series(values)
    if len(numbers) == 1:
        return f"{numbers.iloc[0]:.{digits}f}"
    return f"{numbers.median():.{digits}f} ({numbers.min():.{digits}f} to {numbers.max():.{digits}f})"


def _line(table: pd.DataFrame, mechanism: str, name: str, way: str, uniform: float) -> list[str]:
    try:
        found = pairs(table, mechanism, name, way)
    except KeyError:
        return []
    paper = PAPER[mechanism].get(name)
    cells = [
        mechanism, name, LABELS[way].removeprefix("PGM, "), f"{len(found)}", spread(found.original), spread(found.pgm),
        spread(found.original / found.pgm, 2), f"{paper:g}" if paper else "-", f"{uniform:.3f}",
    ]  # fmt: skip
    return [f"| {' | '.join(cells)} |"]


def _plain(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    lines = []
    for name in names:
        rows = table[(table.mechanism == "MWEM") & (table.dataset == name)]
        plain, fitted = rows[rows.way == "plain"], rows[rows.way == "ours"]
        if len(plain) and len(fitted):
            fits = f"{plain.rounds.min():.0f} to {plain.rounds.max():.0f}, {plain.planned.iloc[0]:.0f}"
            lines.append(
                f"| {name} | {len(plain)} | {fits} | {plain.next_gigabytes.median():.3g} "
                f"| {plain.largest_gigabytes.median():.3g} | {spread(plain.error_original)} "
                f"| {spread(plain.error_unlimited)} | {spread(fitted.error_pgm)} |"
            )
    return lines


def findings(table: pd.DataFrame, names: Sequence[str]) -> str:
    """Return the findings, as a list."""
    scripts = [_script(table, names, mechanism) for mechanism in SCRIPT]
    found = [_global(table), *scripts, _worse(table, names), _likelihoods(table, names), _not_run(table, names)]
    return bullets([text for text in found if text])


def _global(table: pd.DataFrame) -> str:
    rows = table[(table.mechanism == "HDMM") & table.error_global.notna() & (table.way == "ours")]
    medians = rows.groupby("dataset")[["error_original", "error_global"]].median()
    gains = ", ".join(f"{name} {row.error_original / row.error_global:.2f}" for name, row in medians.iterrows())
    return (
        f"*HDMM*: global least squares, which the paper could not run, lowers the error of the local one by a factor "
        f"of {gains}. Consistency is the smaller part of what PGM gains: the rest is that no count is negative."
    )


SCRIPT = {
    "PrivBayes": "the authors' script estimates its graphical model from marginals that it measures anew with all of "
    "epsilon, where PrivBayes has half of it for its own: noise of half the scale, and one and a half times the budget "
    "in all. The factors of PGM with the mechanism's own measurements and with those",
    "DualQuery": "of the records that are equally good for the queries drawn the paper does not say which is made. "
    "Here it is one at random; in the authors' script the first, so that attributes that no query is about have their "
    "first value. The factors of PGM with either",
}


def _script(table: pd.DataFrame, names: Sequence[str], mechanism: str) -> str:
    """What the authors' script does that the paper does not say, and what it changes."""
    parts = []
    for name in names:
        try:
            same, script = (pd.Series(factors(table, mechanism, name, way)).median() for way in ("ours", "script"))
        except KeyError:
            continue
        paper = PAPER[mechanism].get(name)
        parts.append(f"{name} {same:.2f} and {script:.2f}" + (f" (paper: {paper:g})" if paper else ""))
    return f"*{mechanism}*: {SCRIPT[mechanism]}: {', '.join(parts)}." if parts else ""


def _worse(table: pd.DataFrame, names: Sequence[str]) -> str:
    """Where PGM's error is larger than plain MWEM's, and by how much."""
    parts = []
    for name in names:
        rows = table[(table.mechanism == "MWEM") & (table.dataset == name)].set_index("seed")
        plain, fitted = rows[rows.way == "plain"], rows[rows.way == "ours"]
        ends = (fitted.error_pgm / plain.error_original).dropna()
        every = (fitted.error_pgm / plain.error_unlimited).dropna()
        if ends.empty:
            continue
        parts.append(
            f"{name} {ends.median():.2f} times, larger in {int((ends > 1).sum())} of {len(ends)} seeds (if memory had "
            f"no end: {every.median():.2f}, larger in {int((every > 1).sum())})"
        )
    return f"*MWEM*: the error of PGM against that of plain MWEM where it ends: {'; '.join(parts)}."


def _likelihoods(table: pd.DataFrame, names: Sequence[str]) -> str:
    """Compare the likelihoods of DualQuery that Algorithm 1 and the accelerated solver reach."""
    parts = []
    for name in names if "nats" in table else ():
        rows = table[(table.mechanism == "DualQuery") & (table.dataset == name)].set_index("seed")
        one, other = rows[rows.way == "published"].nats, rows[rows.way == "ours"].nats
        both = pd.DataFrame({"one": one, "other": other}).dropna()
        if len(both):
            parts.append(f"{name} {both.one.median():,.1f} and {both.other.median():,.1f}")
    return (
        "*DualQuery*: the negative log-likelihoods in nats that Algorithm 1 reaches, and our solver in far fewer "
        f"iterations: {', '.join(parts)}." if parts else ""
    )  # fmt: skip


def _not_run(table: pd.DataFrame, names: Sequence[str]) -> str:
    """What the paper's algorithm was not run on, and for DualQuery what it would take."""
    parts = []
    for mechanism in MECHANISMS:
        rows = table[table.mechanism == mechanism]
        for name in names:
            mine = rows[rows.dataset == name]
            if mine.empty or (mine.way == "published").any():
                continue
            ours = mine[mine.way == "ours"]
            known = mechanism == "DualQuery" and len(ours)
            minutes = Effort().published * (ours.seconds / ours.iterations).median() / 60 if known else 0
            shown = f"{minutes:,.0f}" if minutes >= 10 else f"{minutes:.1f}"
            parts.append(f"{mechanism} on {name}" + (f" ({shown} minutes a seed)" if known else ""))
    return (
        "*The paper's algorithm* was not run, for want of time, for "
        + ", ".join(parts)
        + ". For DualQuery the minutes "
        f"are those of {Effort().published:,} iterations at the time that one takes our solver."
        if parts
        else ""
    )


def long_form(table: pd.DataFrame, mechanism: str) -> pd.DataFrame:
    """A row for each estimator."""
    rows = table[table.mechanism == mechanism]
    own = rows[rows.way == "plain"] if mechanism == "MWEM" else rows[rows.way == "ours"]
    parts = [("original", own, "error_original"), ("global", own, "error_global"), ("uniform", own, "error_uniform")]
    parts += [(way, rows[rows.way == way], "error_pgm") for way in WAYS[mechanism]]
    return pd.concat(
        [
            some.assign(estimator=name, error=some[column])[["dataset", "estimator", "error"]]
            for name, some, column in parts
            if column in some and some[column].notna().any()
        ]
    )


def draw(table: pd.DataFrame, names: Sequence[str], run: Run) -> None:
    """A panel for each mechanism; diamonds: where PGM would be by the paper's factor below our baseline.

    They are above the first way of PGM that was run.
    """
    figure, axes = panels(4, columns=2, width=4.3, height=2.9, share_y=True)
    uniform = problems(names).set_index("dataset").error_uniform
    table = table.assign(error_uniform=table.dataset.map(uniform))
    for number, (axis, mechanism) in enumerate(zip(axes, MECHANISMS, strict=True)):
        if mechanism not in set(table.mechanism):
            continue
        rows = long_form(table, mechanism)
        shown = [one for one in LABELS if one in set(rows.estimator)]
        dots(axis, rows, "dataset", "error", "estimator", order=shown, places=names, labels=LABELS, colors=SHOWN,
             markers=MARKS, log=True)  # fmt: skip
        middle = rows[rows.estimator == "original"].groupby("dataset").error.median()
        known = [name for name in PAPER[mechanism] if name in middle]
        marks: list[Any] = [(place, name) for place, name in enumerate(names) if name in known]
        first = next(way for way in (*WAYS[mechanism], "original") if way in shown)
        paper_marks(
            axis,
            [place + offset(shown.index(first), len(shown)) for place, _ in marks],
            [middle[name] / PAPER[mechanism][name] for _, name in marks],
            label="baseline / paper's factor",
        )
        titles(axis, mechanism, y="workload error" if number % 2 == 0 else "")
    legend(figure, list(reversed(axes)), title="estimator")
    save(figure, run.results / "pgm_figure1.png")
