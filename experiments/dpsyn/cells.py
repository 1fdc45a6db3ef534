"""The runs of DPSyn's experiments: a table, a budget, a way to make records, a seed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from experiments.data import load
from experiments.dpsyn.design import DESIGNS
from experiments.dpsyn.nist2018 import density_score, pay_gap_deviation, range_score
from experiments.dpsyn.pipeline import Measured, measure
from pgmest.synthesis import GradualUpdate, MinCostFlow

EPSILONS = (0.3, 1.0, 8.0)
SEEDS = 3
DELTAS = {"fire": 1e-11, "acs/IL_OH": 3e-11}
"""At most 1 / records^2, as the contest wanted it."""

GUM_ITERATIONS = 20
PUBLISHED, OURS = "GUM as published", "GUM, ours"
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
SMALL_RATES = {"step": 0.95, "exponential": 0.02, "linear": 0.02, "square_root": 0.02}
"""k of each schedule with the published alpha, slower than those above; a slow decay is what a small alpha needs."""
FLOWS = f"flows (MCF), {2 * GUM_ITERATIONS} iterations"


def _raised(schedule: str, decay: float) -> GradualUpdate:
    return GradualUpdate.as_published(iterations=2 * GUM_ITERATIONS, schedule=schedule, decay=decay, alpha=1.0)


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
    OURS: GradualUpdate(iterations=GUM_ITERATIONS),
    f"{OURS}, long": GradualUpdate(iterations=2 * GUM_ITERATIONS),
    FLOWS: MinCostFlow(iterations=2 * GUM_ITERATIONS),
}


@functools.lru_cache(maxsize=1)
def measured(table: str, epsilon: float, seed: int) -> Measured:
    """Return the tables from which all ways to make records start."""
    return measure(load(table), DESIGNS[table], epsilon, DELTAS[table], seed)


@dataclass(frozen=True)
class FireCell:
    """A run of the pipeline and its scores, with the paper's constants."""

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
        """Scores up to 10^6, and the mean total-variation error of the tables before the last iteration's updates."""
        data, design = load(self.table), DESIGNS[self.table]
        found = measured(self.table, self.epsilon, self.seed)
        errors: list[float] = []
        records = found.records(METHODS[self.method], self.seed, lambda _, error: errors.append(error))
        row: dict[str, Any] = {
            "table": self.table,
            "epsilon": self.epsilon,
            "method": self.method,
            "seed": self.seed,
            "noise": found.noise,
            "marginals": len(found.tables),
            "density": density_score(data, records, count=300, seed=0),
            "ranges": range_score(data, records, numeric=design.numeric, count=300, seed=0),
            "last_error": errors[-1],
        }
        if self.table.startswith("acs"):
            gap = pay_gap_deviation(data, records, city="PUMA", sex="SEX", income="INCWAGE")
            row |= {"pay_gap": gap.score}
        return row


def scores() -> list[FireCell]:
    """The three scores against epsilon."""
    return [
        FireCell(table, epsilon, method, seed)
        for seed in range(SEEDS)
        for table in DELTAS
        for epsilon in EPSILONS
        for method in (PUBLISHED, OURS)
    ]


def convergence() -> list[FireCell]:
    """How near the records come to their tables, at epsilon 1."""
    return [FireCell("fire", 1.0, method, seed) for method in METHODS if method != OURS for seed in range(SEEDS)]
