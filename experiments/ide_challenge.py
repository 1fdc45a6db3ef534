"""IDE's Algorithm 2 to the letter on a table of the challenge's size (IDE Figure 1): does 0.2 to 0.4 come out?

The challenge's public table had about a million records; what is at hand is an excerpt of 170,254 of them. A table of a
million is drawn from it by a bootstrap: 300 PUMAs, each a copy of one of the excerpt's 181 in the same state, and 7
years; the numbers of records of the groups are multinomial, in proportion to the excerpt's; each record is drawn with
replacement from the excerpt's records of that PUMA, either of all years ("pooled years") or of its own year alone
("own year"), which repeats the excerpt's 134 records to a group three or four times.

Algorithm 2 to the letter, with the floor of the noisy count and independent draws: epsilon 10, four equal parts (count
and workload of each state, count and workload of each PUMA and year), individuals of up to 7 records, the prior the
private table itself, T twice the number of marginals, one drawn at random for each update, emptied cells coming back.
The paper does not publish its workloads: here cliques of dependent attributes for the states and one-way marginals of
six nearly independent attributes for the groups, chosen from the public table. One thing is ours: a group's
distribution is spread over 20,000 of its state's records.

`python -m experiments.papers ide --step challenge` writes experiments/results/ide_challenge.csv.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import pgmest as pg
from experiments.data import load
from experiments.nist2020 import k_marginal_score
from experiments.papers.paper import Run, Runs
from pgmest.priors.ide.hierarchy import Level, measure_hierarchy, synthesize_hierarchy
from pgmest.priors.ide.workload import dependent_cliques, independent_attributes
from pgmest.privacy.budgets import Epsilon
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove
from pgmest.tables.domain import Domain

EPSILON, RECORDS_OF_ONE, PUMAS, YEARS = 10.0, 7, 300, 7
PAPER = (0.2, 0.4)
SUPPORT = 20_000
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
POOLED, OWN = "pooled years", "own year"
ILLINOIS = 88
"""PUMA codes below are taken for Illinois, the other 93 for Ohio; the table itself does not say."""


def bootstrap(excerpt: pg.Dataset, records: int, pumas: int, draw: str, seed: int) -> pg.Dataset:
    """A table of `records` with STATE in front and `pumas` PUMAs; see the top."""
    rng = np.random.default_rng(seed)
    source = _sources(pumas)
    puma, year = excerpt.column("PUMA").astype(int), excerpt.column("YEAR").astype(int)
    by_group = _rows_by(puma * YEARS + year, 181 * YEARS)
    by_puma = _rows_by(puma, 181)
    expected = np.array([[len(by_group[s * YEARS + y]) for y in range(YEARS)] for s in source], dtype=float)
    sizes = rng.multinomial(records, (expected / expected.sum()).ravel()).reshape(expected.shape)
    rows, new_puma, new_year = [], [], []
    for place, copied in enumerate(source):
        for y in range(YEARS):
            pool = by_puma[copied] if draw == POOLED else by_group[copied * YEARS + y]
            rows.append(rng.choice(pool, sizes[place, y]) if len(pool) else np.zeros(0, dtype=int))
            new_puma.append(np.full(len(rows[-1]), place))
            new_year.append(np.full(len(rows[-1]), y))
    taken = np.concatenate(rows)
    changed = {"PUMA": np.concatenate(new_puma), "YEAR": np.concatenate(new_year)}
    changed["STATE"] = (np.asarray(source)[changed["PUMA"]] >= ILLINOIS).astype(np.uint8)
    domain = Domain({"STATE": 2, **dict(excerpt.domain), "PUMA": pumas})
    columns = [changed[name] if name in changed else excerpt.column(name)[taken] for name in domain]
    return pg.Dataset.from_codes(columns, domain)


def _sources(pumas: int) -> list[int]:
    """The excerpt's PUMA that each new one copies: all of them in turn, so that both states keep their shares."""
    return [int(place) for place in np.linspace(0, 180, pumas).round()]


def _rows_by(group: np.ndarray, groups: int) -> list[np.ndarray]:
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, groups)))


@dataclass(frozen=True)
class Trial:
    """One table and one run of Algorithm 2; `row` has the distances of its groups."""

    records: int
    draw: str
    pumas: int = PUMAS
    seed: int = 0
    support: int = SUPPORT

    @property
    def name(self) -> str:
        """Names the file of the result."""
        return f"{self.records}-{self.draw.replace(' ', '_')}-{self.pumas}-{self.seed}-{self.support}-letter"

    def row(self) -> dict[str, Any]:
        """Run it, and score it as the challenge did."""
        private = bootstrap(load("acs/IL_OH"), self.records, self.pumas, self.draw, self.seed)
        start = time.perf_counter()
        synthetic, marginals = algorithm_2(private, self.pumas, self.seed, self.support)
        seconds = time.perf_counter() - start
        distances, penalized = scored(private, synthetic)
        return {
            "records": self.records,
            "draw": self.draw,
            "pumas": self.pumas,
            "seed": self.seed,
            "support": self.support,
            "per_group": private.records / (self.pumas * YEARS),
            "state_marginals": marginals[0],
            "group_marginals": marginals[1],
            "seconds": seconds,
            "penalized": penalized,
            "mean": float(distances.mean()),
            **{f"q{100 * at:02.0f}": float(np.quantile(distances, at)) for at in QUANTILES},
            "within": float(np.mean((distances >= PAPER[0]) & (distances <= PAPER[1]))),
        }


def algorithm_2(
    private: pg.Dataset, pumas: int, seed: int, support: int = SUPPORT
) -> tuple[pg.Dataset, tuple[int, int]]:
    """Run Algorithm 2, with simulated noise; also return the numbers of measured marginals."""
    names = [name for name in private.domain if name not in ("STATE", "PUMA", "YEAR")]
    sample = private.take(np.random.default_rng(0).choice(private.records, min(private.records, 170_000), False))
    coarse = tuple(dependent_cliques(sample, names, threshold=0.1, max_cells=3000))
    fine = tuple((name,) for name in independent_attributes(sample, ("PUMA",), names, count=6, threshold=0.3))
    state = np.repeat([int(source >= ILLINOIS) for source in _sources(pumas)], YEARS)
    levels = (
        Level(("STATE",), coarse, share=0.5, count_share=0.5),
        Level(("PUMA", "YEAR"), fine, share=0.5, count_share=0.5, parents=state),
    )
    curator = Curator(private, Epsilon(EPSILON), neighbors=AddRemove(RECORDS_OF_ONE), backend="simulation", seed=seed)
    measured = measure_hierarchy(curator, levels)
    made = synthesize_hierarchy(
        private, measured, prior_weight=0.0, max_support=support, max_sweeps=2, tolerance=0.0, order="random",
        refill=True, totals_from="counts", sampling="independent", seed=seed,
    )  # fmt: skip
    return made.data, (len(coarse), len(fine))


def scored(private: pg.Dataset, synthetic: pg.Dataset) -> tuple[np.ndarray, int]:
    """Each group's distance, and how many pay the penalty for their count."""
    names = private.domain.without(("STATE", "PUMA", "YEAR"))
    score = k_marginal_score(private, synthetic, attributes=names, seed=0)
    distances = score.distances.values.ravel()
    return distances[np.isfinite(distances)], score.penalized


def trials() -> list[Trial]:
    """The table of the challenge's size by both bootstraps."""
    return [Trial(1_000_000, draw) for draw in (POOLED, OWN)]


def runs() -> Runs:
    """The same, with where their rows are."""
    return Runs("ide_challenge", trials(), ("ide_challenge",))


def make(run: Run) -> None:
    """Run what is missing, and write the table."""
    run.write_table("ide_challenge", run.table(runs()))
