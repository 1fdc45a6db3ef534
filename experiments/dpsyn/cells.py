"""The runs of DPSyn's experiments: a table, a budget, a way to make records, a seed; and PrivBasis."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.data import load
from experiments.dpsyn.design import DESIGNS
from experiments.dpsyn.nist2018 import density_score, pay_gap_deviation, range_score
from experiments.dpsyn.pipeline import Measured, measure
from pgmest.mechanisms.privbasis import frequent_itemsets
from pgmest.mechanisms.privbasis.itemsets import supports_of
from pgmest.privacy import Curator, Rho
from pgmest.synthesis import GradualUpdate, MinCostFlow

EPSILONS = (0.3, 1.0, 8.0)
DELTAS = {"fire": 1e-11, "fire30": 1e-11, "acs/IL_OH": 3e-11}
"""At most 1 / records^2, as the contest wanted it."""

GUM_ITERATIONS, FLOW_ITERATIONS = 20, 3
PUBLISHED, OURS, FLOWS = "GUM as published", "GUM, ours", "flows (MCF)"
"""As published: alpha 0.2, always below 1, step decay."""
RAISED = "GUM, alpha 1"
"""The published step and copies with an alpha that begins at 1, which is not the paper's."""
RATES = {
    "step": (0.84, 0.5, 0.95),
    "exponential": (0.04, 0.02, 0.1),
    "linear": (0.04, 0.02, 0.2),
    "square_root": (0.1, 0.02, 0.5),
}
"""k of each schedule of alpha, first the one that is drawn; that of "step" is for 5 iterations. The papers do not say
theirs."""
SCHEDULES = {schedule: rates[0] for schedule, rates in RATES.items()}
BEST_SCHEDULE = "square_root"
"""The schedule with which the raised alpha is scored."""
SMALL_RATES = {"step": 0.95, "exponential": 0.02, "linear": 0.02, "square_root": 0.02}
"""k of each schedule with the published alpha, slower than those above; a slow decay is what a small alpha needs."""
SCORED = f"{RAISED}, {BEST_SCHEDULE}"
HALF_COPIES, FLOWS_LONG = f"{SCORED}, half copies", f"{FLOWS}, {2 * GUM_ITERATIONS} iterations"


def _raised(schedule: str, decay: float, **parameters: float) -> GradualUpdate:
    return GradualUpdate.as_published(
        iterations=2 * GUM_ITERATIONS, schedule=schedule, decay=decay, alpha=1.0, **parameters
    )


METHODS: dict[str, GradualUpdate | MinCostFlow] = {
    PUBLISHED: GradualUpdate.as_published(iterations=2 * GUM_ITERATIONS),
    **{
        f"{PUBLISHED}, {schedule} {decay:g}": GradualUpdate.as_published(
            iterations=2 * GUM_ITERATIONS, schedule=schedule, decay=decay
        )
        for schedule, decay in SMALL_RATES.items()
    },
    f"{PUBLISHED}, replace only": GradualUpdate.as_published(iterations=2 * GUM_ITERATIONS, last_duplicate=0.0),
    **{f"{RAISED}, {schedule}": _raised(schedule, decay) for schedule, decay in SCHEDULES.items()},
    **{
        f"{RAISED}, {schedule} {decay:g}": _raised(schedule, decay)
        for schedule, rates in RATES.items()
        for decay in rates[1:]
    },
    HALF_COPIES: _raised(BEST_SCHEDULE, SCHEDULES[BEST_SCHEDULE], last_duplicate=0.5),
    OURS: GradualUpdate(iterations=GUM_ITERATIONS),
    FLOWS: MinCostFlow(iterations=FLOW_ITERATIONS),
    f"{OURS}, long": GradualUpdate(iterations=2 * GUM_ITERATIONS),
    FLOWS_LONG: MinCostFlow(iterations=2 * GUM_ITERATIONS),
}
FOR_SCORES = (PUBLISHED, SCORED, HALF_COPIES, OURS, FLOWS)
SCORES_ONLY = (HALF_COPIES, OURS, FLOWS)
QUICK_CONVERGENCE = (PUBLISHED, f"{OURS}, long")


@functools.lru_cache(maxsize=1)
def measured(table: str, epsilon: float, seed: int) -> Measured:
    """Return the tables from which all ways to make records start."""
    return measure(load(table), DESIGNS[table], epsilon, DELTAS[table], seed)


@dataclass(frozen=True)
class FireCell:
    """A run of the pipeline and its scores, with the paper's constants and with those of NIST's report."""

    table: str
    epsilon: float
    method: str
    seed: int

    @property
    def name(self) -> str:
        """Return the name under which the result is kept."""
        method = self.method.replace(", ", "-").replace(" ", "-").replace("(", "").replace(")", "")
        return f"{self.table.replace('/', '-')}-{self.epsilon:g}-{method}-{self.seed}"

    def row(self) -> dict[str, Any]:
        """Scores up to 10^6, and the mean total-variation error of the tables in each iteration."""
        data, design = load(self.table), DESIGNS[self.table]
        found = measured(self.table, self.epsilon, self.seed)
        errors: list[float] = []
        records = found.records(METHODS[self.method], self.seed, lambda _, error: errors.append(error))
        numeric = list(design.numeric)
        row: dict[str, Any] = {
            "table": self.table,
            "epsilon": self.epsilon,
            "method": self.method,
            "seed": self.seed,
            "noise": found.noise,
            "marginals": len(found.tables),
            "density": density_score(data, records, count=300, seed=0),
            "ranges": range_score(
                data, records, numeric=numeric, probability=0.33, conditions="subset", count=300, seed=0
            ),
            "density_nist": density_score(data, records, numeric=numeric, count=100, seed=0),
            "ranges_nist": range_score(data, records, numeric=numeric, seed=0),
            "error": errors,
        }
        if self.table.startswith("acs"):
            gap = pay_gap_deviation(data, records, city="PUMA", sex="SEX", income="INCWAGE")
            row |= {"pay_gap": gap.score, "gini_deviation": gap.gini, "rank_deviation": gap.rank}
        return row


@dataclass(frozen=True)
class BasisCell:
    """A run of PrivBasis: which itemsets it finds, and how far off their supports are."""

    table: str
    theta: float
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """Return the name under which the result is kept."""
        return f"privbasis-{self.table}-{self.theta:g}-{self.epsilon:g}-{self.seed}"

    def row(self) -> dict[str, Any]:
        """Precision, recall, and the median relative error of the supports found."""
        data = load(self.table)
        truth = exact_itemsets(self.table, self.theta)
        budget = Rho.of(self.epsilon, 1e-9)
        curator = Curator(data, budget, backend="simulation", seed=self.seed)
        found = frequent_itemsets(curator, budget, self.theta)
        itemsets = [tuple(sorted(one)) for one in found.supports]
        exact = supports_of(data, itemsets) if itemsets else np.zeros(0)
        right = sum(one in truth for one in found.supports)
        return {
            "table": self.table,
            "theta": self.theta,
            "epsilon": self.epsilon,
            "seed": self.seed,
            "frequent": len(truth),
            "precision": right / max(1, len(itemsets)),
            "recall": right / len(truth),
            "relative_error": float(np.median(np.abs(np.array(list(found.supports.values())) - exact) / exact))
            if itemsets
            else float("nan"),
            "bases": len(found.bases),
        }


@functools.cache
def exact_itemsets(table: str, theta: float) -> dict[frozenset[str], int]:
    """The itemsets that at least the share theta of the records contain, level by level."""
    data = load(table)
    columns = {name: np.asarray(data.column(name)).astype(bool) for name in data.domain}
    level = {frozenset([name]): column for name, column in columns.items()}
    found: dict[frozenset[str], int] = {}
    while level:
        level = {one: inside for one, inside in level.items() if inside.sum() >= theta * data.records}
        found |= {one: int(inside.sum()) for one, inside in level.items()}
        following: dict[frozenset[str], np.ndarray] = {}
        for one, inside in level.items():
            for name in data.domain:
                joined = one | {name}
                if name not in one and joined not in following and all(joined - {x} in level for x in joined):
                    following[joined] = inside & columns[name]
        level = following
    return found


def scores(seeds: int, quick: bool) -> Iterator[FireCell]:
    """The three scores against epsilon."""
    for seed in range(seeds):
        for table in ("fire",) if quick else ("fire", "acs/IL_OH"):
            for epsilon in (1.0,) if quick else EPSILONS:
                ways = FOR_SCORES if table == "fire" and not quick else (PUBLISHED, SCORED, OURS)
                yield from (FireCell(table, epsilon, method, seed) for method in ways)


def all_attributes(quick: bool) -> Iterator[FireCell]:
    """The thirty attributes with times and places, once."""
    if not quick:
        for epsilon in EPSILONS:
            yield from (FireCell("fire30", epsilon, method, 0) for method in (PUBLISHED, SCORED, OURS))


def convergence(seeds: int, quick: bool) -> Iterator[FireCell]:
    """Error of the tables against iterations, at epsilon 1."""
    for method in QUICK_CONVERGENCE if quick else METHODS:
        if method not in SCORES_ONLY:
            yield from (FireCell("fire", 1.0, method, seed) for seed in range(seeds))


def itemsets(seeds: int, quick: bool) -> Iterator[BasisCell]:
    """PrivBasis on 23 binary attributes."""
    for epsilon in (1.0,) if quick else (0.03, 0.1, 0.3, 1.0):
        for theta in (0.6,) if quick else (0.5, 0.6):
            yield from (BasisCell("acs-ipums23", theta, epsilon, seed) for seed in range(seeds))
