"""python -m experiments.ide_convergence: does IDE's Algorithm 1 converge, and to what? (open in the paper)

Random small problems, three two-way marginals of 100 records over 18 possible ones, with noise and without. Algorithm 1
as published (random single updates, emptied cells come back), in sweeps, and in its penalized form are compared with
the two-stage reference (linear program, then least relative entropy).

Writes experiments/results/ide_convergence.csv, in about a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.ide_two_stage import nearest_answers, nearest_of_least_divergence, stacked, two_stage
from experiments.papers.paper import Run
from pgmest.priors.ide.answers import partial_answers
from pgmest.priors.ide.sweeps import Order
from pgmest.priors.ide.update import prior_fractions, update_prior

DOMAIN = pg.Domain({"a": 3, "b": 3, "c": 2})
PAIRS = (("a", "b"), ("b", "c"), ("a", "c"))
RECORDS, PROBLEMS = 100, 30


@dataclass(frozen=True)
class Way:
    """One way to solve a problem."""

    name: str
    sweeps: int
    prior_weight: float = 0.0
    order: Order = "sweeps"
    refill: bool = False


PUBLISHED, SWEPT, RANDOM = "Algorithm 1 as published", "in sweeps, emptied cells stay", "random, emptied cells stay"
REFILLED = "in sweeps, emptied cells come back"
WAYS = (
    *(Way(PUBLISHED, sweeps, order="random", refill=True) for sweeps in (2, 10, 100, 1000)),
    Way(RANDOM, 1000, order="random"),
    Way(REFILLED, 1000, refill=True),
    *(Way(SWEPT, sweeps) for sweeps in (10, 100, 1000)),
    *(Way(f"penalized, prior_weight={weight:g}", 1000, weight) for weight in (1.0, 0.3, 0.1)),
    Way("penalized, prior_weight=0.1", 10_000, 0.1),
)


def problem(seed: int, noise: float) -> tuple[pg.Dataset, list[pg.LinearMeasurement]]:
    """A weighted public table, and answers about records drawn from another distribution over the same support."""
    generator = np.random.default_rng(seed)
    possible = np.indices(DOMAIN.shape).reshape(3, -1).T
    kept = possible[generator.random(len(possible)) < 0.8]
    prior = pg.Dataset.from_codes(kept, DOMAIN, weights=generator.uniform(0.1, 1.0, len(kept)))
    truth = pg.Dataset.from_codes(kept, DOMAIN, weights=RECORDS * generator.dirichlet(np.ones(len(kept))))
    tables = [truth.project(pair).values for pair in PAIRS]
    noisy = [table + noise * generator.laplace(size=table.shape) for table in tables]
    return prior, [pg.LinearMeasurement(table, pair, 2**0.5) for table, pair in zip(noisy, PAIRS, strict=True)]


def solved(seed: int, noise: float) -> list[dict]:
    """Each way's distance beyond the least, its KL beyond that of the best nearest distribution, and what it said."""
    prior, measurements = problem(seed, noise)
    answers, q = partial_answers(prior, measurements, RECORDS), prior_fractions(prior)
    least, best = nearest_answers(*stacked(answers)).distance, nearest_of_least_divergence(q, answers)
    staged = two_stage(q, answers)
    rows = [{"way": "two-stage reference", "distance": staged.distance, "divergence": staged.divergence}]
    for way in WAYS:
        report = update_prior(
            prior, measurements, total=RECORDS, prior_weight=way.prior_weight, max_sweeps=way.sweeps, tolerance=1e-9,
            order=way.order, refill=way.refill, seed=seed,
        ).report  # fmt: skip
        rows.append(
            {
                "way": f"{way.name}, {'' if way.order == 'random' else 'at most '}{way.sweeps:,} sweeps",
                "distance": report.distance,
                "divergence": report.divergence,
                "converged": report.converged,
                "sweeps": report.sweeps,
            }
        )
    return [
        row | {"distance": row["distance"] - least, "divergence": row["divergence"] - best.divergence} for row in rows
    ]


def make(run: Run) -> None:
    """Run all, and write the table."""
    frames = [
        pd.DataFrame([row for seed in range(PROBLEMS) for row in solved(seed, noise)]).assign(noise=noise)
        for noise in (0.0, 5.0)
    ]
    run.write_table("ide_convergence", pd.concat(frames))


if __name__ == "__main__":
    make(Run())
