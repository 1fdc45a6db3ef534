"""python -m experiments.ide_convergence: does IDE's Algorithm 1 converge, and to what? (open in the paper)

Random small problems, three two-way marginals of 100 records over 18 possible ones, with noise and without. Algorithm 1
as published (random single updates, emptied cells come back), in sweeps, and in its penalized form are compared with
the two-stage reference (linear program, then least relative entropy).

Writes experiments/results/ide_convergence.{csv,md}, in about a minute.
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
  two-stage reference in either form: a sequence of KL projections onto sets that meet (Csiszar 1975). It gets there
  slowly where the solution gives some record no mass although no single answer says so. Random single updates need
  about as many passes as sweeps; the contest's T, two passes, is {early:.3f} away.
- Where they contradict one another, it converges in few cases ({converged}). Each update
  makes its own answer exact and undoes part of the others, so it goes round, at a distance beyond the least that more
  passes hardly lower.
- Emptied cells come back in the published form, but seldom have to: a cell must first lose all its records to other
  answers, and then be wanted. With the same random updates that changes the end of {changed} of the problems with
  noise and of {changed_exact} of those without.
- Bounding the potentials (`prior_weight` above 0) makes it converge, to the unique minimum of KL plus a penalty on the
  distance. With a light prior that minimum is at the least distance, and of all nearest distributions it is the one of
  least KL.
- The two-stage reference takes whatever nearest answers the linear program returns. They are not unique, and others
  have a lower KL: read its KL column.
"""


def findings(frame: pd.DataFrame) -> dict[str, object]:
    """The numbers of the text."""

    def at(way: str, noise: float, sweeps: str) -> pd.DataFrame:
        return frame[frame.way.str.startswith(way) & frame.way.str.endswith(sweeps) & (frame.noise == noise)]

    def changed(noise: float) -> str:
        ends = [at(way, noise, "1,000 sweeps")[["distance", "divergence"]].to_numpy() for way in (PUBLISHED, RANDOM)]
        return f"{int(np.sum(np.abs(ends[0] - ends[1]).max(axis=1) > 1e-4))} of {len(ends[0])}"

    forms = {"as published": PUBLISHED, "in sweeps": SWEPT}
    ends = {name: at(way, 5.0, "1,000 sweeps") for name, way in forms.items()}
    return {
        "early": at(PUBLISHED, 0.0, " 2 sweeps").distance.mean(),
        "converged": ", ".join(f"{name} {int(end.converged.sum())} of {len(end)}" for name, end in ends.items()),
        "changed": changed(5.0),
        "changed_exact": changed(0.0),
    }


def table(frame: pd.DataFrame) -> str:
    """A line for each way."""
    lines = ["| | distance beyond the least | KL beyond the least | stopped | sweeps |", "|---|---|---|---|---|"]
    for way, group in frame.groupby("way", sort=False):
        iterative = group.converged.notna().all()
        stopped = f"{int(group.converged.sum())} of {len(group)} | {group.sweeps.mean():,.0f}" if iterative else "|"
        lines.append(
            f"| {way} | {group.distance.mean():.4f} ({group.distance.max():.4f}) "
            f"| {group.divergence.mean():+.4f} ({group.divergence.max():+.4f}) | {stopped} |"
        )
    return "\n".join(lines)


def make(run: Run) -> None:
    """Run all, and write table and report; a try has five problems."""
    exact, noisy = (
        [row for seed in range(run.few(PROBLEMS, 5)) for row in solved(seed, noise)] for noise in (0.0, 5.0)
    )
    frame = pd.concat([pd.DataFrame(exact).assign(noise=0.0), pd.DataFrame(noisy).assign(noise=5.0)])
    run.write_table("ide_convergence", frame)
    run.write_report("ide_convergence", report(frame))


def report(frame: pd.DataFrame) -> str:
    """The text."""
    exact, noisy = (table(frame[frame.noise == noise]) for noise in (0.0, 5.0))
    count = int(frame.groupby(["noise", "way"]).size().max())
    return TEXT.format(problems=count, records=RECORDS, exact=exact, noisy=noisy, **findings(frame))


if __name__ == "__main__":
    make(Run())
