"""python -m experiments.flagship.rivals [--workers N] [--report]: LAMP against newer ideas.

They are put together from pgmest's parts, not the authors' code, and all pairs are the workload. Seconds are of a
processor.

**AIM, residuals.** Fuentes, Mullins, Xiao, Kifer, Musco and Sheldon (2026, arXiv 2602.05674) replace AIM's graphical
model by least squares on residuals with local non-negativity (GReM-LNN), which no junction tree limits.

1. AIM's loop: one-way marginals first, then in each round the pair, or attribute, that is most wrong beyond its noise
   is selected and measured, and the budget of a round is quadrupled where it changed less than its noise.
2. Of a pair only its residual is measured, as its one-way marginals are known: for the budget of the pair's counts its
   noise has (1 - 1/n)(1 - 1/m) of the variance. All pairs are candidates in every round.
3. Between rounds tables are those of least squares; at the end also non-negative (`synthesis.locally_nonnegative`).
   Where nothing was measured of a pair, attributes are taken as independent. (Least squares alone adds up the one-way
   marginals in place of multiplying them, which is further off.)

It answers marginals, and has no model that records could be drawn from.

**SWIFT** (google/dpsynth) selects once. A tenth of the budget buys one-way marginals; of the rest a tenth buys the
distances of all pairs from independence, with noise. Pairs are joined, the most distant first, less a penalty for each
cell, while the junction tree stays within its limit (of several penalties the one whose tree holds the most distance).
Of the pairs inside the tree those are measured, at once, for which sum e_i - (sum y_i)^1.5 / sqrt(B) is largest, with
the distance e, y = (cells sqrt(2 / pi))^(2/3) and the budget B, shared in proportion to y. The estimate is pgmest's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from experiments.compare.cells import DELTA, EPSILONS, TABLES
from experiments.compare.store import start_worker
from experiments.compare.workloads import error
from experiments.data import load
from experiments.flagship.report import EARLIER
from experiments.kept_runs import KeptRuns, run_and_report
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.adaptive import Adaptive, Annealing, Round, planned_rounds
from pgmest.mechanisms.aim import relevant_cliques
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.exponential_selection import Candidate
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import MEASURING_SHARE
from pgmest.mechanisms.result import Outcome
from pgmest.mechanisms.tree_limit import TreeLimit
from pgmest.privacy import Curator
from pgmest.privacy.noise import noise_for
from pgmest.privacy.scores import Distance, Distances, noisy_scores
from pgmest.queries import Kron
from pgmest.synthesis import locally_nonnegative
from pgmest.synthesis.local_nonnegativity import Residuals
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.workloads import Item, Workload

RESULTS = Path(__file__).resolve().parents[1] / "results"
SEEDS = (0, 1)
SWIFT_MEGABYTES = 8.0
"""The size limit of SWIFT's junction tree; the limit of its authors, 10^7 cells a clique, takes minutes."""
PENALTIES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
INITIAL, SELECTING = 0.1, 0.1
"""SWIFT's share of the budget for one-way marginals, and its share of the remaining budget for distances."""


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
        return f"{self.rival}-{self.table.replace('/', '_')}-{self.epsilon:g}-{self.seed}"


KEPT = KeptRuns("flagship_rivals", Run)


@dataclass(frozen=True, eq=False, kw_only=True)
class OfResidual(Candidate):
    """A pair of which only the residual is measured."""

    residual: Kron

    @property
    def measured(self) -> Kron:
        """The query that is measured."""
        return self.residual


@dataclass(frozen=True, eq=False)
class Tables:
    """Marginals of one attribute or two, which AIM's loop uses as its model.

    Attributes:
        domain: The attributes.
        residuals: The least-squares estimates from the measurements.
        found: The tables computed so far.
    """

    domain: Domain
    residuals: Residuals
    found: dict[Clique, Factor] = field(default_factory=dict)

    def project(self, clique: Iterable[str]) -> Factor:
        """Return the table of an attribute or a pair."""
        asked = self.domain.ordered(clique)
        if asked not in self.found:
            self.found[asked] = self._table(asked)
        return self.found[asked]

    def project_many(self, cliques: Iterable[Iterable[str]]) -> list[Factor]:
        """Return the tables of several cliques."""
        return [self.project(clique) for clique in cliques]

    def _table(self, clique: Clique) -> Factor:
        domain, total = self.domain.project(clique), max(1.0, float(self.residuals.tables[()]))
        if len(clique) < 2:
            return Factor(domain, self.residuals.tables[clique] + total / domain.size())
        rows, columns = (self.project((name,)).values for name in clique)
        if clique not in self.residuals.tables:
            return Factor(domain, np.outer(rows, columns) / max(1.0, float(rows.sum())))
        added = rows[:, None] / len(columns) + columns / len(rows) - total / domain.size()
        return Factor(domain, added + self.residuals.tables[clique])


class Reconstruction:
    """Least squares on residuals, repeated after each measurement; the final tables have no negative counts."""

    def __init__(self, curator: Curator):
        self.model = Tables(curator.domain, self._residuals(curator))

    def _residuals(self, curator: Curator) -> Residuals:
        return Residuals.of(curator.measurements, curator.domain, curator.public_total)

    def learn(self, curator: Curator, last: bool) -> None:
        """Update the model with the last measurement, which changes one pair, or all pairs of one attribute."""
        changed = set(curator.measurements[-1].clique)
        stale = changed.intersection if len(changed) == 1 else changed.__eq__
        kept = {clique: table for clique, table in self.model.found.items() if not stale(set(clique))}
        self.model = Tables(curator.domain, self._residuals(curator), self._nonnegative(curator) if last else kept)

    def _nonnegative(self, curator: Curator) -> dict[Clique, Factor]:
        """Return all measured tables without negative counts."""
        tables = locally_nonnegative(curator.measurements, curator.domain, total=curator.public_total).tables
        found = {curator.domain.ordered(table.domain.attributes): table for table in tables}
        return found | {(name,): table.project((name,)) for clique, table in found.items() for name in clique}


class ResidualAnnealing(Annealing):
    """Annealing that compares the change of a pair's cells with the noise of its residual."""

    def observe(self, measurement: LinearMeasurement, before: Any, after: Any) -> None:
        """Compare the change by a measurement with its noise."""
        if measurement.query is None:
            super().observe(measurement, before, after)
            return
        table, pair = after.project(measurement.clique).values, measurement.clique
        moved = float(np.abs(table - before.project(pair).values).sum())
        free = math.prod(1 - 1 / size for size in table.shape)
        noise = MEAN_ABSOLUTE * float(np.mean(measurement.stddev)) / table.size * math.sqrt(free)
        if moved <= noise * table.size:
            self._budget = self._budget * 4


def residual_of(domain: Domain, pair: Clique) -> Kron:
    """Return the integer query for the residual of a pair (`pgmest.strategies.ResidualStrategy`)."""
    return Kron({name: domain[name] * np.eye(domain[name]) - 1.0 for name in pair})


@dataclass(frozen=True, kw_only=True)
class ResidualAIM(Mechanism):
    """AIM with residuals, for all pairs."""

    definition: ClassVar[str] = "zcdp"
    gaussian_curve: ClassVar[bool] = True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        relevance = {c: w for c, w in relevant_cliques(curator.domain, workload, math.inf).items() if 1 <= len(c) <= 2}
        ones = [clique for clique in relevance if len(clique) == 1]
        first = curator.budget / max(planned_rounds(None, curator.domain), len(ones) + 1)
        curator.measure_all(ones, first * MEASURING_SHARE * len(ones))
        queries = {pair: residual_of(curator.domain, pair) for pair in combinations(curator.domain.attributes, 2)}
        estimator = Reconstruction(curator)
        proposed = partial(candidates, curator, relevance, queries)
        Adaptive(proposed, ResidualAnnealing(first), estimator, MEASURING_SHARE).run(curator)
        return Outcome(estimator.model, {})  # type: ignore[arg-type]  # marginals alone


def candidates(
    curator: Curator, relevance: dict[Clique, float], queries: dict[Clique, Kron], turn: Round, model: Any
) -> Sequence[Candidate]:
    """Return all attributes and pairs with their expected error if they are measured in this round."""
    noise = MEAN_ABSOLUTE * noise_for(turn.budget * MEASURING_SHARE, curator.neighbors).stddev
    found: list[Candidate] = []
    for clique, weight in relevance.items():
        shape = curator.domain.project(clique).shape
        common = {"item": Item(clique), "weight": weight, "sensitivity": weight * curator.neighbors.l1_sensitivity()}
        if len(clique) < 2:
            found.append(Candidate(expected_error=noise * math.prod(shape), **common))
        else:
            free = math.prod(1 - 1 / size for size in shape)
            expected = noise * free * math.prod(shape)
            found.append(OfResidual(expected_error=expected, residual=queries[clique], **common))
    return found


@dataclass(frozen=True, kw_only=True)
class SWIFT(Mechanism):
    """SWIFT, for all pairs."""

    definition: ClassVar[str] = "zcdp"
    gaussian_curve: ClassVar[bool] = True

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        domain = curator.domain
        ones, pairs = [(name,) for name in domain], list(combinations(domain.attributes, 2))
        curator.measure_all(ones, curator.budget * INITIAL)
        model = estimate_measured(curator)
        expected = zip(pairs, model.project_many(pairs), strict=True)
        distances = Distances({pair: Distance(Item(pair), table.datavector()) for pair, table in expected})
        moved, spend = curator.neighbors.l1_sensitivity(), curator.remaining * SELECTING
        noisy = noisy_scores(curator, pairs, distances, moved, spend, label="distances from independence")
        found = dict(zip(pairs, map(float, noisy), strict=True))
        held = max((self._held(domain, found, penalty) for penalty in PENALTIES), key=lambda t: sum(map(found.get, t)))
        weights = self._selected(domain, {pair: found[pair] for pair in held}, curator)
        if weights:
            curator.measure_all(list(weights), curator.remaining, weights=list(weights.values()))
        else:
            curator.measure_all(ones, curator.remaining)
        return Outcome(estimate_measured(curator, model, method="mirror_flow"), {})

    def _held(self, domain: Domain, distances: dict[Clique, float], penalty: float) -> list[Clique]:
        """Return the pairs that the greedy junction tree holds."""
        limit = TreeLimit(domain, [(name,) for name in domain], SWIFT_MEGABYTES)
        ordered = sorted(distances, key=lambda pair: penalty * domain.size(pair) - distances[pair])
        for pair in ordered:
            if limit.fitting([pair]):
                limit.add(pair)
        cliques = [set(clique) for clique in limit.tree.cliques]
        return [pair for pair in distances if any(clique.issuperset(pair) for clique in cliques)]

    def _selected(self, domain: Domain, distances: dict[Clique, float], curator: Curator) -> dict[Clique, float]:
        """Return the selected pairs and the y of each."""
        precision = 1 / noise_for(curator.remaining, curator.neighbors).stddev ** 2
        costs = {pair: (domain.size(pair) * MEAN_ABSOLUTE) ** (2 / 3) for pair in distances}
        ordered = sorted(distances, key=lambda pair: -distances[pair] / costs[pair])
        gains, spent = (np.cumsum([of[pair] for pair in ordered]) for of in (distances, costs))
        worth = gains - spent**1.5 / math.sqrt(precision)
        best = int(np.argmax(worth)) + 1 if len(worth) and worth.max() > 0 else 0
        return {pair: costs[pair] for pair in ordered[:best]}


RIVALS: dict[str, type[Mechanism]] = {"AIM, residuals": ResidualAIM, "SWIFT": SWIFT}
LEFT_OUT = {("AIM, residuals", "stroke")}
"""110 attributes: up to 1,760 rounds, each with 5,995 candidates."""


def measure(run: Run) -> dict[str, Any]:
    """Run a rival; return its error on all pairs and processor seconds."""
    data, start = load(run.table), time.process_time()
    mechanism = RIVALS[run.rival](epsilon=run.epsilon, delta=DELTA, backend="simulation")
    result = mechanism.fit(data, seed=run.seed, progress=False)
    seconds = time.process_time() - start
    return {"error": error(data, result.model), "seconds": seconds}


def report(rows: pd.DataFrame) -> str:
    """Return tables of the rows next to the errors of LAMP and AIM."""
    keys = ["table", "epsilon"]
    lamp = pd.read_csv(RESULTS / "flagship.csv").query("workload == 'pairs'").groupby(keys)["error"].mean()
    aim = pd.read_csv(RESULTS / "compare.csv").query("mechanism == 'AIM' and workload == 'pairs'")
    means = rows.groupby(["rival", *keys])[["error", "seconds"]].mean()
    lines = [
        "# LAMP against newer ideas",
        "",
        "`python -m experiments.flagship.rivals`, whose docstring describes them: put together from pgmest's parts,",
        "not the authors' code, for all pairs. Errors as in [flagship.md](flagship.md), means over "
        f"{rows['seed'].nunique()} seeds. Seconds are of a processor.",
        "",
        EARLIER,
    ]
    for rival in means.index.unique("rival"):
        own = means.loc[rival]
        own = own.assign(LAMP=lamp, AIM=aim.groupby(keys)["error"].mean()).sort_index(level=["epsilon", "table"])
        logs = np.log(own["LAMP"] / own["error"])
        by = logs.groupby("epsilon").mean()
        lines += [
            f"## {rival}",
            "",
            f"LAMP has {np.exp(logs.mean()):.2f} times its error (geometric mean; "
            + ", ".join(f"{np.exp(value):.2f} at {epsilon:g}" for epsilon, value in by.items())
            + f"), at most {np.exp(logs.max()):.2f} times on one table and budget. "
            + f"AIM, whose junction trees have 1 MB, has {np.exp(np.log(own['AIM'] / own['error']).mean()):.2f} times.",
            "",
            f"| table | epsilon | {rival} | AIM | LAMP | LAMP / {rival} | seconds |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for (table, epsilon), row in own.iterrows():
            errors = " | ".join(f"{row[name]:.4f}" for name in ("error", "AIM", "LAMP"))
            ratio = f"{row['LAMP'] / row['error']:.2f}"
            lines.append(f"| {table} | {epsilon:g} | {errors} | {ratio} | {row['seconds']:.0f} |")
        lines.append("")
    return "\n".join(lines)


RUNS = [
    Run(rival, table, epsilon, seed)
    for seed in SEEDS
    for rival in RIVALS
    for epsilon in EPSILONS
    for table in TABLES
    if (rival, table) not in LEFT_OUT
]

if __name__ == "__main__":
    run_and_report(KEPT, RUNS, measure, report, __doc__, "SWIFT-adult-1-*", "flagship.rivals", start_worker)
