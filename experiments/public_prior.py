"""python -m experiments.public_prior [--only PATTERN] [--fresh] [--report]: what a public table is worth.

Three pairs of a private and a public table over one domain: a random split of Adult, and two years of ACS excerpts. The
one-way marginals and the pairs of a spanning tree, of most mutual information in the public table, are measured on the
private one with Gaussian noise of (epsilon, 1e-9)-DP, simulated. Each way to use the public table is then scored by
its total-variation error on the measured marginals, on all other pairs, and on triples.

Writes experiments/results/public_prior.{csv,md}. Each trial is kept as soon as it is done, so a run that was
stopped goes on where it was. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

import pgmest as pg
from experiments.data import load
from experiments.kept_runs import KeptRuns, run_and_report
from pgmest.priors import Support, public_model
from pgmest.simulation import simulate_measurements
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique
from pgmest.tables.information import mutual_information

EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-9
SEEDS = (0, 1, 2)
TRIPLES = 60
WEIGHTS = (0.01, 0.1, 1.0)
ACS = "PUMA AGEP SEX MSP HISP RAC1P HOUSING_TYPE OWN_RENT INDP_CAT EDU PINCP_DECILE DVET"


@dataclass(frozen=True)
class Case:
    """A private and a public table, restricted to some attributes (all by default).

    Attributes:
        name: for the tables of results.
        private, public: the name of a data set and the part of it.
        attributes: separated by spaces; empty for all.
    """

    name: str
    private: tuple[str, str]
    public: tuple[str, str]
    attributes: str = ""

    def load(self) -> tuple[pg.Dataset, pg.Dataset]:
        """The private and the public table."""
        tables = load(*self.private), load(*self.public)
        names = self.attributes.split() or tables[0].domain.attributes
        return tables[0].select(names), tables[1].select(names)


CASES = (
    Case("Adult, random split", ("adult_pub025_01", "data"), ("adult_pub025_01", "public")),
    Case("Massachusetts, 2018 for 2019", ("acs/MA2019", "data"), ("acs/MA2018", "data"), ACS),
    Case("National, 2018 for 2019", ("acs/NATIONAL2019", "data"), ("acs/NATIONAL2018", "data"), ACS),
)


@cache
def cliques(case: Case) -> tuple[Clique, ...]:
    """Return the marginals to measure: one-way, and the public table's tree of most mutual information."""
    _, public = case.load()
    graph = nx.Graph()
    for pair in itertools.combinations(public.domain.attributes, 2):
        graph.add_edge(*pair, weight=mutual_information(public.project(pair), pair[:1], pair[1:]))
    tree = nx.maximum_spanning_tree(graph)
    return (*((name,) for name in public.domain), *(public.domain.project(pair).attributes for pair in tree.edges))


@cache
def questions(case: Case) -> dict[str, list[pg.Factor]]:
    """The true marginals that the error is averaged over."""
    private, _ = case.load()
    measured = {frozenset(clique) for clique in cliques(case)}
    names, rng = private.domain.attributes, np.random.default_rng(0)
    pairs = [pair for pair in itertools.combinations(names, 2) if frozenset(pair) not in measured]
    triples = [tuple(names[i] for i in sorted(rng.choice(len(names), 3, replace=False))) for _ in range(TRIPLES)]
    asked = {"measured": list(cliques(case)), "unmeasured pairs": pairs, "triples": triples}
    return {kind: private.project_many(wanted) for kind, wanted in asked.items()}


def noise(epsilon: float, tables: int) -> float:
    """The standard deviation with which so many marginals together are (epsilon, DELTA)-DP, by zCDP."""
    log = np.log(1.0 / DELTA)
    rho = (np.sqrt(epsilon + log) - np.sqrt(log)) ** 2
    return float(np.sqrt(tables / (2.0 * rho)))


Estimator = Callable[[list[pg.LinearMeasurement], pg.Dataset], Any]


def with_prior(prior: Callable[[pg.Dataset, list[Clique]], Any], weight: float | None = None) -> Estimator:
    """An estimator with what `prior` makes of the public table and the measured cliques."""

    def estimator(measurements: list[pg.LinearMeasurement], public: pg.Dataset) -> Any:
        made = prior(public, [m.clique for m in measurements])
        return pg.estimate(measurements, public.domain, prior=made, prior_weight=weight, max_iterations=3000)

    return estimator


def measured_only(public: pg.Dataset, measured: list[Clique]) -> pg.CliqueVector:
    """The public model's log-potentials on the measured cliques and no others."""
    return public_model(public, measured, max_megabytes=1e-9).potentials


def ide(measurements: list[pg.LinearMeasurement], public: pg.Dataset) -> Any:
    """IDE Algorithm 1 on the public records."""
    from pgmest.priors.ide.update import update_prior

    return update_prior(public, measurements).data


def public_alone(measurements: list[pg.LinearMeasurement], public: pg.Dataset) -> Any:
    """The public table as it is, scaled to the estimated total; the measurements are not used otherwise."""
    total = pg.estimate(measurements, public.domain, max_iterations=0).total
    return pg.Dataset(public.domain, public.columns, public.records, np.full(public.records, total / public.records))


WAYS: dict[str, Estimator] = {
    "no prior": lambda measurements, public: pg.estimate(measurements, public.domain, max_iterations=3000),
    "public table alone": public_alone,
    "potentials, measured cliques": with_prior(measured_only),
    "richer cliques": with_prior(public_model),
    "support": with_prior(lambda public, _: Support(public)),
    "IDE Algorithm 1": ide,
    **{f"richer cliques, weight {w:g}": with_prior(public_model, w) for w in WEIGHTS},
    **{f"support, weight {w:g}": with_prior(lambda public, _: Support(public), w) for w in WEIGHTS},
}


@dataclass(frozen=True)
class Run:
    """One way at one budget."""

    data: str
    epsilon: float
    seed: int
    way: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.data}-{self.epsilon:g}-{self.seed}-{self.way}".replace(" ", "_").replace(",", "")


KEPT = KeptRuns("public_prior", Run)
RUNS = [Run(case.name, e, seed, way) for case in CASES for e in EPSILONS for seed in SEEDS for way in WAYS]


def trial(run: Run) -> dict[str, Any]:
    """Return the noise, the seconds and the errors of a run."""
    case = next(case for case in CASES if case.name == run.data)
    private, public = case.load()
    stddev = noise(run.epsilon, len(cliques(case)))
    measurements = simulate_measurements(private, cliques(case), stddev, seed=run.seed)
    started = time.perf_counter()
    model = WAYS[run.way](measurements, public)
    row: dict[str, Any] = {"stddev": stddev, "seconds": time.perf_counter() - started}
    for kind, truths in questions(case).items():
        tables = model.project_many([truth.domain.attributes for truth in truths])
        row[kind] = float(np.mean([total_variation(t, m) for t, m in zip(truths, tables, strict=True)]))
    return row


KINDS = ("measured", "unmeasured pairs", "triples")


def report(rows: pd.DataFrame) -> str:
    """The page of results."""
    lines = [
        "# What a public table is worth",
        "",
        "Made by `python -m experiments.public_prior`; not edited. Mean total-variation error on the truth, of",
        f"{len(SEEDS)} draws of the noise: of the measured marginals (each attribute and the pairs of a spanning",
        f"tree), of all other pairs, and of {TRIPLES} random triples. The best of a column is bold. The time is that",
        "of one estimate, the public model included, on a machine with other work. A weight is `prior_weight`;",
        "without one the answers come first.",
    ]
    for case in CASES:
        private, public = case.load()
        part = rows[rows["data"] == case.name]
        header = [f"epsilon {epsilon:g}: {kind}" for epsilon in EPSILONS for kind in KINDS]
        means = part.groupby(["way", "epsilon"])[[*KINDS, "seconds"]].mean()
        table = {way: [means.loc[(way, e), kind] for e in EPSILONS for kind in KINDS] for way in WAYS}
        best = np.min(list(table.values()), axis=0)
        lines += [
            "",
            f"## {case.name}",
            "",
            f"{private.records:,} private and {public.records:,} public records, {len(private.domain)} attributes. "
            "Noise: standard deviation "
            + ", ".join(f"{noise(e, len(cliques(case))):,.1f} at epsilon {e:g}" for e in EPSILONS)
            + ".",
            "",
            f"| way | {' | '.join(header)} | seconds |",
            "|---|" + "---:|" * (len(header) + 1),
        ]
        for way, values in table.items():
            cells = [f"**{v:.3f}**" if v <= b + 5e-4 else f"{v:.3f}" for v, b in zip(values, best, strict=True)]
            lines.append(f"| {way} | {' | '.join(cells)} | {means.loc[way, 'seconds'].mean():.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_and_report(KEPT, RUNS, trial, report, __doc__, "Adult*")
