"""Writes the tables of the papers' results as Markdown: medians over the seeds, and how many seeds each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from experiments.papers.reading import RESULTS, rows
from pgmest._base.files import write_atomically


@dataclass(frozen=True)
class Part:
    """A table of a report.

    Attributes:
        heading: above it.
        table: the file of results, without its ending.
        by: the columns that name a row.
        values: the columns whose medians are shown.
        across: a column whose values are columns of the report, for a single value.
    """

    heading: str
    table: str
    by: Sequence[str]
    values: Sequence[str]
    across: str = ""

    def text(self) -> str:
        """The heading and the table."""
        found = rows(self.table)
        folds = [name for name in found if name.startswith("fold_")]
        found = found.assign(rate=found[folds].mean(axis=1)) if folds else found
        keys = [*self.by, *([self.across] if self.across else [])]
        groups = found.groupby(keys, sort=False, dropna=False)
        medians = groups[list(self.values)].median()
        if "seed" in found:
            medians = medians.assign(seeds=groups["seed"].nunique())
        if self.across:
            medians = medians[self.values[0]].unstack(self.across)
            medians.columns = [f"{self.across} {value:g}" for value in medians.columns]
        shown = medians.reset_index()
        return f"## {self.heading}\n\n{_markdown(shown)}\n"


ERRORS = ("error_original", "error_pgm")
SETTING = ("table", "mechanism")
SCORES = ("table", "method", "epsilon", "density", "ranges", "pay_gap", "last_error")
REPORTS: dict[str, tuple[str, Sequence[Part]]] = {
    "pgm_figure1": (
        "PGM, Figure 1 and Table 1: workload error with and without PGM",
        (
            Part("The problems", "pgm_problems", ("dataset",), ("records", "attributes", "queries", "error_uniform")),
            Part("Errors, epsilon 1", "pgm_figure1", ("mechanism", "dataset", "way"), ERRORS),
            Part(
                "Plain MWEM and its memory: rounds that fit in 16 GB, of those planned",
                "pgm_figure1",
                ("mechanism", "dataset", "way"),
                ("rounds", "planned", "largest_gigabytes", "error_unlimited"),
            ),
        ),
    ),
    "pgm_figure2a": (
        "PGM, Figure 2a: HDMM on Adult against epsilon",
        (
            Part(
                "Errors on the workload and on the measured queries",
                "pgm_figure2a",
                ("epsilon", "way"),
                (*ERRORS, "error_global", "measured_original", "measured_pgm"),
            ),
        ),
    ),
    "pgm_figure2b": (
        "PGM, Figure 2b: seconds an iteration on a chain of triples of attributes with 10 values",
        (Part("Seconds", "pgm_figure2b", ("method",), ("seconds",), "attributes"),),
    ),
    "pgm_figure3": (
        "PGM, Figure 3: L1 against L2 loss on HDMM's measurements of Adult, epsilon 1",
        (
            Part(
                "Ends of the paths: losses per answer, and the paper's error",
                "pgm_figure3",
                ("loss", "method", "repeats", "iterations"),
                ("constant", "l1", "l2", "end", "least", "least_at"),
            ),
        ),
    ),
    "pgm_direct": (
        "PGM, A.3: squared loss after the same seconds, one seed",
        (
            Part(
                "Losses",
                "pgm_direct",
                ("dataset", "seconds"),
                ("L-BFGS on potentials", "Algorithm 1, line search", "Algorithm 2, the paper's K", "least"),
            ),
        ),
    ),
    "ide_convergence": (
        "Does IDE's Algorithm 1 converge? 30 random problems with noise (5) and without (0)",
        (
            Part(
                "Distance and KL divergence beyond the least, medians",
                "ide_convergence",
                ("noise", "way"),
                ("distance", "divergence", "sweeps"),
            ),
        ),
    ),
    "ide_challenge": (
        "IDE's Algorithm 2 to the letter on a bootstrap of a million records, one run each",
        (
            Part(
                "Distances of the groups, and the share of them from 0.2 to 0.4",
                "ide_challenge",
                ("draw", "records", "support"),
                ("mean", "q05", "q50", "q95", "within", "penalized", "seconds"),
            ),
        ),
    ),
    "ppsyn": (
        "PPSyn: Figures 2 to 9, and what the leak is worth",
        (
            Part("Theorem 4", "ppsyn/theorem4", ("contribution", "draws"), ("mean", "exceeded", "sum_exceeded")),
            Part("To the letter, workload error", "ppsyn/letter", SETTING, ("workload_error",), "epsilon"),
            Part("To the letter, 3-attribute ranges", "ppsyn/letter", SETTING, ("ranges_3",), "epsilon"),
            Part("To the letter, 5-attribute ranges", "ppsyn/letter", SETTING, ("ranges_5",), "epsilon"),
            Part("With both changes, workload error", "ppsyn/sweep", SETTING, ("workload_error",), "epsilon"),
            Part("The same, 3-attribute ranges", "ppsyn/sweep", SETTING, ("ranges_3",), "epsilon"),
            Part("The same, 5-attribute ranges", "ppsyn/sweep", SETTING, ("ranges_5",), "epsilon"),
            Part("Ranges with fewer than 10 records", "ppsyn/ranges", ("table",), ("below",)),
            Part("Misclassification", "ppsyn/svm", SETTING, ("rate",), "epsilon"),
            Part("Workload error against eta, epsilon 0.5", "ppsyn/eta", SETTING, ("workload_error",), "eta"),
            Part("3-attribute ranges against eta", "ppsyn/eta", SETTING, ("ranges_3",), "eta"),
            Part("Loans, to the letter", "ppsyn/loans_eta", ("table", "eta"), ("workload_error", "ranges_3")),
            Part("Workload error against d, epsilon 0.1", "ppsyn/dimensions", SETTING, ("workload_error",), "d"),
            Part("With the leaks closed, workload error", "ppsyn/leak", SETTING, ("workload_error",), "epsilon"),
            Part(
                "With one thing changed",
                "ppsyn/causes",
                (*SETTING, "epsilon", "d", "max_cells"),
                ("workload_error", "model_error", "ranges_3"),
            ),
        ),
    ),
    "dpsyn": (
        "DPSyn: noise, views, scores, GUM and flows",
        (
            Part("Figure 2, a fit", "dpsyn/figure2", ("panel", "epsilon", "delta"), ("crossing", "paper")),
            Part(
                "Standard deviation of the noise for k marginals, the same epsilon and delta",
                "dpsyn/noise",
                ("panel", "k"),
                ("lap basic", "lap adv", "lap zcdp", "gauss adv", "gauss zcdp"),
            ),
            Part("Views of eight that cover all pairs", "dpsyn/views", ("attributes",), ("paper", "views")),
            Part(
                "PriView, Direct and Fourier: total variation of 4-way marginals",
                "dpsyn/priview",
                ("epsilon", "method"),
                ("error", "covered", "error_covered"),
            ),
            Part("Scores", "dpsyn/scores", SCORES[:3], SCORES[3:]),
            Part("Distance from the tables at the last iteration", "dpsyn/convergence", ("method",), ("last_error",)),
        ),
    ),
}  # fmt: skip
"""Each report's title and tables."""


def write() -> None:
    """Write all of them."""
    for name, (title, parts) in REPORTS.items():
        said = "Made by `python -m experiments.papers`; not edited. Medians over the seeds; noise is simulated."
        text = "\n".join([f"# {title}\n\n{said}\n", *(part.text() for part in parts)])
        write_atomically(RESULTS / f"{name}.md", text)


def _markdown(table: pd.DataFrame) -> str:
    lines = ["| " + " | ".join(map(str, table.columns)) + " |", "|---" * len(table.columns) + "|"]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join("" if pd.isna(cell) else _text(cell) for cell in row) + " |")
    return "\n".join(lines)


def _text(cell: object) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
