"""python -m experiments.flagship.public [--only PATTERN] [--fresh] [--report] [--workers N]: public tables.

Three private tables with a public one of the same kind, and two public tables made worse on purpose. Beside LAMP with
`prior=` are LAMP without, PMWPub, and the public table as it is. A run that was made before is not made again
(`experiments.kept_runs`). The tables go to experiments/results/flagship_public.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.compare.cells import DELTA, EPSILONS
from experiments.compare.store import start_worker
from experiments.compare.workloads import error
from experiments.data import load
from experiments.flagship.report import EARLIER
from experiments.kept_runs import KeptRuns, run_and_report
from pgmest.data.dataset import Dataset
from pgmest.mechanisms import LAMP, PMWPub

WAYS = ("LAMP", "LAMP, prior", "PMWPub", "public table")
SEEDS, MORE_SEEDS, CLOSE = 3, 12, ("adult", "MA-reversed")
"""The seeds, and those of two cases at the largest budget, where two ways are nearly the same."""


@dataclass(frozen=True)
class Case:
    """A private table and a public one.

    Attributes:
        name: The name for files and the report.
        private, public: The name of a table and the part of it.
        bias: A function that biases the public records, or None.
    """

    name: str
    private: tuple[str, str]
    public: tuple[str, str]
    bias: Callable[[Dataset], Dataset] | None = None

    def load(self) -> tuple[Dataset, Dataset]:
        """Return the private and the public table."""
        private, public = load(*self.private), load(*self.public)
        return private, public if self.bias is None else self.bias(public)


def rich(public: Dataset) -> Dataset:
    """Return the records with an income above 50,000, about a quarter, which differ from the others."""
    return public.take(np.asarray(public.column("income>50K")) == 1)


def reversed_codes(public: Dataset) -> Dataset:
    """Reverse the codes of every second attribute, so that marginals and dependences are wrong."""
    columns = [
        np.asarray(column) if place % 2 else size - 1 - np.asarray(column)
        for place, (column, size) in enumerate(zip(public.columns, public.domain.shape, strict=True))
    ]
    return Dataset.from_codes(columns, public.domain)


ADULT = ("adult_pub025_01", "data"), ("adult_pub025_01", "public")
MASSACHUSETTS = ("acs/MA2019", "data"), ("acs/MA2018", "data")
CASES = (
    Case("adult", *ADULT),
    Case("MA", *MASSACHUSETTS),
    Case("NATIONAL", ("acs/NATIONAL2019", "data"), ("acs/NATIONAL2018", "data")),
    Case("adult-rich-only", *ADULT, rich),
    Case("MA-reversed", *MASSACHUSETTS, reversed_codes),
)

HEAD = f"""# LAMP with a public table

`python -m experiments.flagship.public`. The error is that of [compare.md](compare.md), average total variation of
pairs, of the model, at delta {DELTA:g}; means over the seeds. *Public table* is its own error, as it is. *Believed* is
the number of pairs whose public dependence was taken. *Ratio* is LAMP with the public table over LAMP without.

*adult*: a random split. *MA*, *NATIONAL*: 2018 for 2019. *adult-rich-only*: of the public split only who earns more
than 50,000. *MA-reversed*: every second attribute's codes of 2018 counted from the other end.

{EARLIER}"""


@dataclass(frozen=True)
class Run:
    """One run: the name of a case, the budget, and the method."""

    case: str
    epsilon: float
    way: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the file of the row."""
        return f"{self.case}-{self.epsilon:g}-{self.seed}-{self.way.replace(', ', '_').replace(' ', '_')}"


KEPT = KeptRuns("flagship_public", Run)
RUNS = [
    Run(case.name, epsilon, way, seed)
    for seed in range(MORE_SEEDS)
    for case in CASES
    for epsilon in EPSILONS
    for way in WAYS
    if seed < SEEDS or (epsilon == EPSILONS[-1] and case.name in CLOSE)
]


def measure(run: Run) -> dict[str, Any]:
    """Run one case; return the error, processor seconds, and the number of pairs with the public table's dependence."""
    private, public = next(case for case in CASES if case.name == run.case).load()
    start, believed = time.process_time(), None
    options: dict[str, Any] = {"epsilon": run.epsilon, "delta": DELTA, "backend": "simulation"}
    if run.way == "public table":
        weights = np.full(public.records, private.records / public.records)
        source: Any = Dataset(public.domain, public.columns, public.records, weights)
    elif run.way == "PMWPub":
        source = PMWPub(public=public, **options).fit(private, seed=run.seed, progress=False).model
    else:
        prior = public if run.way == "LAMP, prior" else None
        result = LAMP(prior=prior, **options).fit(private, seed=run.seed, progress=False)
        source, believed = result.model, len(result.details["public_pairs"])
    seconds = time.process_time() - start
    return {"error": error(private, source), "seconds": seconds, "believed": believed}


def report(runs: pd.DataFrame) -> str:
    """Return the report of the rows."""
    with_prior = runs[runs["way"].eq("LAMP, prior")][["case", "epsilon", "seed"]]
    runs = runs.merge(with_prior)  # the same seeds on both sides of a ratio
    means = runs.groupby(["case", "epsilon", "way"], sort=False)["error"].mean().unstack()
    believed = runs[runs["way"].eq("LAMP, prior")].groupby(["case", "epsilon"], sort=False)["believed"].mean()
    seeds = runs.groupby(["case", "epsilon"], sort=False)["seed"].nunique()
    lines = [HEAD, f"| | epsilon | {' | '.join(WAYS)} | ratio | believed | seeds |", "|---|---:|" + "---:|" * 7]
    for (case, epsilon), row in means.reindex(columns=list(WAYS)).iterrows():  # type: ignore[misc]
        errors = " | ".join(f"{row[way]:.4f}" for way in WAYS)
        ratio = row["LAMP, prior"] / row["LAMP"]
        entry = believed.get((case, epsilon), float("nan"))
        lines.append(f"| {case} | {epsilon:g} | {errors} | {ratio:.2f} | {entry:.0f} | {seeds[case, epsilon]} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_and_report(KEPT, RUNS, measure, report, __doc__, "MA-1-*", "flagship.public", start_worker)
