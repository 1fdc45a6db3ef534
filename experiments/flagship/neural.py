"""python -m experiments.flagship.neural --python INTERPRETER [--margnet CHECKOUT] [--tabpe CHECKOUT] [--report]

LAMP against two newer methods by their authors' own code, in the Python that is named, which has torch, pandas, SciPy,
networkx, scikit-learn, tomli, tqdm, omegaconf below 2.4, and requests. Each run is a process of its own, on one thread;
a rival whose checkout is not named is not run. Codes are handed over as they are, with declared sizes, to all alike,
and the error is that of all pairs, of shares times the table's number of records, which LAMP pays for.

**MargNet** (arXiv 2511.13893, repository KaiChen9909/margnet): a neural network whose batch of 512 products of
marginals is trained on noisy marginals; AIM's loop selects the pairs. Its settings are those of the authors for Adult:
two layers of 256, 200 steps a round, 100 at epsilon 10; at 0.1, for which they have none, those at 0.2. (For other
tables they have larger networks and more steps.) Its discretizing, which looks at the records for the values that occur
without paying for it, and merges rare ones for a tenth of the budget where there are a hundred or more, is left out, so
that all of the budget is the method's. (epsilon, delta) becomes the rho that AIM has in `experiments.compare`; LAMP,
which draws nothing but Gaussian noise, converts by the Gaussian's exact curve, for 4 to 7 % less noise.

**Tab-PE** (arXiv 2606.08259, repository microsoft/DPSDA, with its settings for Adult): 1,000 records evolve in 29
rounds; each record of the table votes for the one nearest to it, and the votes, with Gaussian noise by the exact curve,
say which are kept and varied. The tables do not say which attributes are numeric. Each is taken as a category, and in
other runs those of nine values or more as numbers (`experiments.compare.workloads.ordered`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.compare.cells import DELTA, EPSILONS
from experiments.compare.workloads import cliques, error, ordered
from experiments.data import load
from experiments.flagship.report import EARLIER
from experiments.kept_runs import KeptRuns, add_options, made_by, wanted
from experiments.peers.cells import ONE_THREAD
from pgmest._base.files import atomic_path, write_atomically
from pgmest._base.threads import set_threads
from pgmest.data.dataset import Dataset
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

RESULTS = Path(__file__).resolve().parents[1] / "results"
SEEDS = (0, 1)
QUICK = ("titanic", "BR2000", "acs-ipums23", "adult", "acs/MA2019", "fire", "adult_pub025_01", "adult14")
"""The tables that are run; the others would take hours of processor time each."""
BY_NUMBERS = "Tab-PE, numbers"
RIVALS = {"MargNet": QUICK, "Tab-PE": QUICK, BY_NUMBERS: tuple(table for table in QUICK if table != "acs-ipums23")}
"""The tables of each rival; a table of binary attributes has no numbers."""
SETTINGS = {0.1: ("adult", 0.2), 1.0: ("adult", 1.0), 10.0: ("adult", 10.0)}
"""The table and the epsilon whose settings MargNet uses at each epsilon."""


@dataclass(frozen=True)
class Run:
    """One run."""

    rival: str
    table: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """The name of the file of the row."""
        plain = f"{self.rival}-{self.table}-{self.epsilon:g}-{self.seed}"
        return plain.replace("/", "_").replace(", ", "-")


KEPT = KeptRuns("flagship_neural", Run)


def library(rival: str) -> str:
    """Return the name of the library that runs a rival."""
    return rival.partition(",")[0]


@dataclass(frozen=True)
class Given:
    """Precomputed marginals, scaled to the total of the table that they are compared with."""

    tables: Mapping[Clique, Factor]

    @classmethod
    def shares(cls, data: Dataset, tables: Mapping[Clique, np.ndarray]) -> Given:
        """Create marginals from distributions, flat or shaped, over cliques of a dataset."""
        domains = {clique: data.domain.project(clique) for clique in tables}
        shaped = {clique: np.reshape(values, domains[clique].shape) for clique, values in tables.items()}
        return cls({clique: Factor(domains[clique], data.total * values) for clique, values in shaped.items()})

    @classmethod
    def records(cls, data: Dataset, records: Dataset) -> Given:
        """Create marginals from other records, whose number may differ."""
        pairs = cliques(data.domain, 2)
        counted = zip(pairs, records.project_many(pairs), strict=True)
        return cls.shares(data, {pair: table.values / records.total for pair, table in counted})

    def project(self, clique: Iterable[str]) -> Factor:
        """Return the marginal of a clique."""
        return self.tables[tuple(clique)]


def measure(run: Run, python: str, checkouts: Mapping[str, str]) -> dict[str, Any]:
    """Run a rival; keep the errors of its model, its records and as many true records, and processor seconds."""
    data = load(run.table)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        np.save(here / "codes.npy", data.codes.astype(np.int64))
        task = {
            **vars(run),
            "rival": library(run.rival),
            "delta": DELTA,
            "folder": folder,
            "checkout": os.path.abspath(checkouts[library(run.rival)]),
            "sizes": dict(data.domain),
            "pairs": cliques(data.domain, 2),
            "numbers": ordered(data.domain) if run.rival == BY_NUMBERS else [],
            "settings": SETTINGS[run.epsilon],
        }
        (here / "task.json").write_text(json.dumps(task), encoding="utf-8")
        command = [python, str(Path(__file__).with_name("neural_worker.py")), str(here / "task.json")]
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            raise RuntimeError(f"{run.name}: {done.stderr.strip()[-2000:]}")
        said = json.loads((here / "said.json").read_text(encoding="utf-8"))
        made, answers = np.load(here / "made.npy"), np.load(here / "answers.npy")
    return KEPT.keep(run, {**found(data, made, answers), **said})


def found(data: Dataset, made: np.ndarray, answers: np.ndarray) -> dict[str, Any]:
    """Return the errors of synthetic records and of a model's concatenated answers to all pairs, if there are any.

    `error` is that of the model, as for LAMP, or that of the records without a model. If there are fewer records than
    in the table, `drawn` is the error of as many records drawn from the table without replacement.
    """
    pairs = cliques(data.domain, 2)
    records = error(data, Given.records(data, Dataset.from_codes(made, data.domain)))
    model, drawn = records, 0.0
    if len(answers):
        ends = np.cumsum([data.domain.size(pair) for pair in pairs])[:-1]
        model = error(data, Given.shares(data, dict(zip(pairs, np.split(answers, ends), strict=True))))
    if len(made) < len(data):
        some = np.random.default_rng(0).choice(len(data), len(made), replace=False)
        drawn = error(data, Given.records(data, data.take(some)))
    return {"error": model, "records": records, "number": len(made), "drawn": drawn}


def write(rows: pd.DataFrame) -> None:
    """Write the rows, and tables of them next to the errors of LAMP and AIM."""
    if rows.empty:
        return
    with atomic_path(RESULTS / "flagship_neural.csv") as path:
        rows.to_csv(path, index=False, float_format="%.7g")
    keys = ["table", "epsilon"]
    lamp = pd.read_csv(RESULTS / "flagship.csv").query("workload == 'pairs'").groupby(keys)["error"].mean()
    aim = pd.read_csv(RESULTS / "compare.csv").query("mechanism == 'AIM' and workload == 'pairs'")
    aim = aim.assign(error=aim["error"].astype(float)).groupby(keys)["error"].mean()
    lines = [
        "# LAMP against a neural network and against evolution, by their authors' code",
        "",
        "`python -m experiments.flagship.neural`, whose docstring says what is run and how. Errors as in",
        "[flagship.md](flagship.md), from which LAMP's and AIM's are taken: average total variation of all pairs,",
        "means over seeds. Seconds are of one thread of a processor. What is not here has not been run.",
        "",
        EARLIER,
    ]
    for rival in dict.fromkeys(rows["rival"]):
        mine = rows[rows["rival"].eq(rival)]
        own = mine.groupby(keys).mean(numeric_only=True).assign(seeds=mine.groupby(keys).size(), LAMP=lamp, AIM=aim)
        own = own.assign(ratio=own["LAMP"] / own["error"]).sort_index(level=["epsilon", "table"])
        lines += [f"## {rival}", "", *_summary(own), "", *TABLES_OF[library(rival)](rival, own), ""]
    write_atomically(RESULTS / "flagship_neural.md", "\n".join(lines))


def _summary(own: pd.DataFrame) -> list[str]:
    logs = np.log(own["ratio"])
    by_budget = ", ".join(f"{np.exp(part.mean()):.2f} at {epsilon:g}" for epsilon, part in logs.groupby("epsilon"))
    table, epsilon = own["ratio"].idxmax()
    lost = [f"{table} at {epsilon:g} ({ratio:.2f})" for (table, epsilon), ratio in own["ratio"].items() if ratio > 1]
    return [
        f"On {own.index.unique('table').size} tables, at {len(own)} budgets in all, LAMP has {np.exp(logs.mean()):.2f} "
        f"times its error (geometric mean; {by_budget}), at most {own['ratio'].max():.2f} times, on {table} at "
        f"{epsilon:g}. AIM, whose junction trees have 1 MB, has {np.exp(np.log(own['AIM'] / own['error']).mean()):.2f} "
        f"times. It is more accurate than LAMP on: {', '.join(lost) or 'none'}.",
    ]


def _margnet(rival: str, own: pd.DataFrame) -> list[str]:
    return [
        "*Records* is the error of as many records as the table has; *spent* the share of the budget that its loop has",
        "spent when it ends. The authors train on a GPU, and here answers of queries are evaluated in another way than",
        "theirs (`neural_worker.margnet`): the seconds say what this comparison takes, not how fast MargNet is.",
        "",
        f"| table | epsilon | {rival} | records | AIM | LAMP | LAMP / {rival} | spent | seconds | seeds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {table} | {epsilon:g} | {row['error']:.4f} | {row['records']:.4f} | {row['AIM']:.4f} | "
            f"{row['LAMP']:.4f} | {row['ratio']:.2f} | {row['spent']:.2f} | {row['seconds']:.0f} | {row['seeds']:.0f} |"
            for (table, epsilon), row in own.iterrows()
        ),
    ]


def _tabpe(rival: str, own: pd.DataFrame) -> list[str]:
    return [
        "It makes 1,000 records and has no model of them; *true records* is the error of as many drawn from the table",
        "itself.",
        "",
        f"| table | epsilon | {rival} | true records | AIM | LAMP | LAMP / {rival} | seconds | seeds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {table} | {epsilon:g} | {row['error']:.4f} | {row['drawn']:.4f} | {row['AIM']:.4f} | "
            f"{row['LAMP']:.4f} | {row['ratio']:.2f} | {row['seconds']:.0f} | {row['seeds']:.0f} |"
            for (table, epsilon), row in own.iterrows()
        ),
    ]


TABLES_OF = {"MargNet": _margnet, "Tab-PE": _tabpe}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.flagship.neural", description=__doc__)
    add_options(parser, "MargNet-adult-1-*")
    parser.add_argument("--python", metavar="INTERPRETER", help="the Python of the rivals")
    parser.add_argument("--margnet", metavar="CHECKOUT", help="MargNet's repository")
    parser.add_argument("--tabpe", metavar="CHECKOUT", help="Tab-PE's repository")
    options = parser.parse_args()
    checkouts = {"Tab-PE": options.tabpe, "MargNet": options.margnet}
    runs = [
        Run(rival, table, epsilon, seed)
        for seed in SEEDS
        for rival, tables in RIVALS.items()
        for table in tables
        for epsilon in EPSILONS
    ]
    possible = [run for run in runs if options.python and checkouts[library(run.rival)]]
    missing = wanted(possible, options, lambda run: KEPT.row(run) is not None)
    make = partial(measure, python=os.path.abspath(options.python or ""), checkouts=checkouts)
    for _, row in made_by(missing, make, options.workers, partial(set_threads, 1)):
        print(f"{row['error']:.4f}, records {row['records']:.4f}, {row['seconds']:.1f} s", flush=True)
    write(KEPT.table(runs))


if __name__ == "__main__":
    main()
