"""python -m experiments.ide_convergence: does IDE's Algorithm 1 converge, and to what? (open in the paper)

Random small problems, three two-way marginals of 100 records over 18 possible ones, with noise and without. Algorithm 1
and its penalized form are compared with the two-stage reference (linear program, then least relative entropy).

Writes experiments/results/ide_convergence.md, in about half a minute.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import pgmest as pg
from pgmest._base.files import write_atomically
from pgmest.priors.ide.answers import partial_answers
from pgmest.priors.ide.reference import nearest_answers, nearest_of_least_divergence, stacked, two_stage
from pgmest.priors.ide.update import prior_fractions, update_prior

RESULT = Path(__file__).resolve().parent / "results" / "ide_convergence.md"
DOMAIN = pg.Domain({"a": 3, "b": 3, "c": 2})
PAIRS = (("a", "b"), ("b", "c"), ("a", "c"))
RECORDS, PROBLEMS = 100, 30
RUNS = [(0.0, 10), (0.0, 100), (0.0, 1000), (1.0, 1000), (0.3, 1000), (0.1, 1000), (0.1, 10000)]
"""prior_weight (0 for Algorithm 1) and sweeps."""


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
    for prior_weight, sweeps in RUNS:
        report = update_prior(
            prior, measurements, total=RECORDS, prior_weight=prior_weight, max_sweeps=sweeps, tolerance=1e-9, seed=seed
        ).report
        name = f"penalized, prior_weight={prior_weight:g}" if prior_weight else "Algorithm 1"
        rows.append(
            {
                "way": f"{name}, at most {sweeps:,} sweeps",
                "distance": report.distance,
                "divergence": report.divergence,
                "converged": report.converged,
                "sweeps": report.sweeps,
            }
        )
    return [
        row | {"distance": row["distance"] - least, "divergence": row["divergence"] - best.divergence} for row in rows
    ]


TEXT = """# Does IDE's Algorithm 1 converge?

`python -m experiments.ide_convergence`. {problems} random problems of each kind: three two-way marginals of {records}
records over 18 possible ones, a random prior, Laplace noise of scale 5 on each cell or none. *distance*: the L1
distance from the noisy answers, in fractions, beyond the least that a linear program finds. *KL*: from the prior, in
nats, beyond the least among all nearest distributions. Means over the problems, the largest in brackets; *stopped*: how
many problems ended with no answer moving by more than 1e-9.

## Answers that some distribution gives (no noise)

{exact}

## Answers that contradict one another (noise)

{noisy}

## What we see

- Where the answers are consistent, Algorithm 1 is iterative proportional fitting in random order, and gets to the
  two-stage reference: a sequence of KL projections onto sets that meet (Csiszar 1975). It gets there slowly where the
  solution gives some record no mass although no single answer says so.
- Where they contradict one another, it converges in few cases. Each update makes its own answer exact and undoes part
  of the others, so it goes round, at a distance beyond the least that more sweeps hardly lower; and a record that one
  answer sends to zero stays there.
- Bounding the potentials (`prior_weight` above 0) makes it converge, to the unique minimum of KL plus a penalty on the
  distance. With a light prior that minimum is at the least distance, and of all nearest distributions it is the one of
  least KL.
- The two-stage reference takes whatever nearest answers the linear program returns. They are not unique, and others
  have a lower KL: read its KL column.
"""


def table(rows: list[dict]) -> str:
    frame = pd.DataFrame(rows)
    lines = ["| | distance beyond the least | KL beyond the least | stopped | sweeps |", "|---|---|---|---|---|"]
    for way, group in frame.groupby("way", sort=False):
        iterative = group.converged.notna().all()
        stopped = f"{int(group.converged.sum())} of {len(group)} | {group.sweeps.mean():,.0f}" if iterative else "|"
        lines.append(
            f"| {way} | {group.distance.mean():.4f} ({group.distance.max():.4f}) "
            f"| {group.divergence.mean():+.4f} ({group.divergence.max():+.4f}) | {stopped} |"
        )
    return "\n".join(lines)


def main() -> None:
    exact, noisy = ([row for seed in range(PROBLEMS) for row in solved(seed, noise)] for noise in (0.0, 5.0))
    text = TEXT.format(problems=PROBLEMS, records=RECORDS, exact=table(exact), noisy=table(noisy))
    write_atomically(RESULT, text)
    print(text)


if __name__ == "__main__":
    main()
