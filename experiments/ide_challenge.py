"""IDE's Algorithm 2 to the letter on a table of the challenge's size (IDE Figure 1): does 0.2 to 0.4 come out?

The challenge's public table had about a million records; what is at hand is an excerpt of 170,254 of them. A table of a
million is drawn from it by a bootstrap: 300 PUMAs, each a copy of one of the excerpt's 181 in the same state, and 7
years; the numbers of records of the groups are multinomial, in proportion to the excerpt's; each record is drawn with
replacement from the excerpt's records of that PUMA, either of all years ("pooled years") or of its own year alone
("own year"), which repeats the excerpt's 134 records to a group three or four times.

Algorithm 2 to the letter, with the floor of the noisy count and independent draws, beside the same with the default's
totals (an inverse-variance mean) and stratified draws: epsilon 10, four equal parts (count and workload of each state,
count and workload of each PUMA and year), individuals of up to 7 records, the prior the private table itself, T twice
the number of marginals, one drawn at random for each update, emptied cells coming back. The paper does not publish its
workloads: here cliques of dependent attributes for the states and one-way marginals of six nearly independent
attributes for the groups, chosen from the public table. One thing is ours in both forms: a group's distribution is
spread over 20,000 of its state's records.

`python -m experiments.papers ide --step challenge` writes experiments/results/ide_challenge.{csv,md,png}.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.data import load
from experiments.figure_style import COLORS, MUTED, legend, panels, save, titles
from experiments.ide_acs import ILLINOIS
from experiments.nist2020 import k_marginal_score
from experiments.papers.paper import Run, Runs
from experiments.papers.prose import bullets
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
LETTER, OURS = "to the letter", "mean totals, stratified"


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
    letter: bool = False

    @property
    def name(self) -> str:
        """Names the file of the result."""
        letter = "-letter" if self.letter else ""
        return f"{self.records}-{self.draw.replace(' ', '_')}-{self.pumas}-{self.seed}-{self.support}{letter}"

    def row(self) -> dict[str, Any]:
        """Run it, and score it as the challenge did, beside each group's own records drawn anew."""
        private = bootstrap(load("acs/IL_OH"), self.records, self.pumas, self.draw, self.seed)
        start = time.perf_counter()
        synthetic, marginals = algorithm_2(private, self.pumas, self.seed, self.support, self.letter)
        seconds = time.perf_counter() - start
        distances, penalized = scored(private, synthetic)
        floor, _ = scored(private, redrawn(private, self.pumas))
        prior, _ = scored(private, from_states(private, self.seed))
        return {
            "records": self.records,
            "draw": self.draw,
            "pumas": self.pumas,
            "seed": self.seed,
            "support": self.support,
            "form": LETTER if self.letter else OURS,
            "per_group": private.records / (self.pumas * YEARS),
            "state_marginals": marginals[0],
            "group_marginals": marginals[1],
            "seconds": seconds,
            "penalized": penalized,
            "mean": float(distances.mean()),
            **{f"q{100 * at:02.0f}": float(np.quantile(distances, at)) for at in QUANTILES},
            "within": float(np.mean((distances >= PAPER[0]) & (distances <= PAPER[1]))),
            "redrawn": float(floor.mean()),
            "state": float(prior.mean()),
        }


def algorithm_2(
    private: pg.Dataset, pumas: int, seed: int, support: int = SUPPORT, letter: bool = True
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
        refill=True, totals_from="counts" if letter else "all", sampling="independent" if letter else "stratified",
        seed=seed,
    )  # fmt: skip
    return made.data, (len(coarse), len(fine))


def scored(private: pg.Dataset, synthetic: pg.Dataset) -> tuple[np.ndarray, int]:
    """Each group's distance, and how many pay the penalty for their count."""
    names = private.domain.without(("STATE", "PUMA", "YEAR"))
    score = k_marginal_score(private, synthetic, attributes=names, seed=0)
    distances = score.distances.values.ravel()
    return distances[np.isfinite(distances)], score.penalized


def redrawn(private: pg.Dataset, pumas: int) -> pg.Dataset:
    """Draw as many records of each group from its own with replacement: the error of sampling alone."""
    group = private.column("PUMA").astype(int) * YEARS + private.column("YEAR")
    order, size = np.argsort(group, kind="stable"), np.bincount(group, minlength=pumas * YEARS)[group]
    first = np.searchsorted(group[order], group)
    return private.take(order[first + (np.random.default_rng(0).random(len(group)) * size).astype(int)])


def from_states(private: pg.Dataset, seed: int) -> pg.Dataset:
    """Draw as many records of each group from its state's private records: the prior without any measurement."""
    rng, state = np.random.default_rng(seed), private.column("STATE")
    rows = np.empty(private.records, dtype=int)
    for value in (0, 1):
        mine = np.flatnonzero(state == value)
        rows[mine] = rng.choice(mine, len(mine))
    kept = ("STATE", "PUMA", "YEAR")
    columns = [private.column(n) if n in kept else private.column(n)[rows] for n in private.domain]
    return pg.Dataset.from_codes(columns, private.domain)


# -- the report -----------------------------------------------------------------------------------------------------

TEXT = """# IDE's Algorithm 2, as published, on a table of the challenge's size

`python -m experiments.papers ide --step challenge`. {pumas} PUMAs, 7 years, 33 other attributes; tables drawn by a
bootstrap from an excerpt of the challenge's public table (`experiments/ide_challenge.py` says how). Epsilon 10, pure,
for individuals of up to 7 records; four equal parts of the budget, {state_marginals} marginals of each state and
{group_marginals} of each PUMA and year, T twice their numbers, the prior the private table itself. The distance of a
PUMA and year is the mean L1 distance over 50 random two-way marginals, 0 to 2, and 2 where its count is off by 250 or
more. One run each, as in the paper; the spread is over the groups. *to the letter* takes the floor of the noisy count
as a group's number of records and draws them independently; *mean totals, stratified* is the default of
`synthesize_hierarchy`: the inverse-variance mean of the noisy count and the sums of the group's tables, and a
stratified sample.

| records | form | bootstrap | records a group | mean | 10 % to 90 % of groups | groups in 0.2 to 0.4 | counts off \
| redrawn | state's records | seconds |
|---|---|---|---|---|---|---|---|---|---|---|
{rows}

*redrawn*: each group's own records drawn anew, which is what sampling alone costs. *state's records*: each group's
records drawn from its state's private records, without any measurement or noise: what the prior alone would give if it
were free.

![distance against records a group](ide_challenge.png)

The paper's Figure 1 has "around 0.2 to 0.4", and no count off by 250.

{findings}
"""


def trials(run: Run) -> list[Trial]:
    """The tables: three sizes, and the largest by both bootstraps; a try has a small one."""
    if run.quick:
        return [Trial(40_000, POOLED, 60, support=4000, letter=True)]
    sizes = [(1_000_000, POOLED), (1_000_000, OWN), (170_000, POOLED), (400_000, POOLED)]
    return [Trial(*size, letter=letter) for letter in (True, False) for size in (sizes[:2] if letter else sizes)]


def runs(run: Run) -> Runs:
    """The same, with where their rows are."""
    return Runs("ide_challenge", trials(run), ("ide_challenge",))


def make(run: Run) -> None:
    """Run what is missing, and write table, report and figure."""
    table = run.table(runs(run))
    table["form"] = table["form"].fillna(OURS)
    run.write_table("ide_challenge", table)
    run.write_report("ide_challenge", report(table))
    draw(table, run)


def report(table: pd.DataFrame) -> str:
    """The text."""
    rows = [
        f"| {row.records:,} | {row.form} | {row.draw} | {row.per_group:.0f} | {row['mean']:.3f} "
        f"| {row.q10:.3f} to {row.q90:.3f} | {row.within:.0%} "
        f"| {row.penalized} | {row.redrawn:.3f} | {row.state:.3f} | {row.seconds:.0f} |"
        for _, row in table.iterrows()
    ]
    first = table.iloc[0]
    return TEXT.format(
        pumas=first.pumas, state_marginals=first.state_marginals, group_marginals=first.group_marginals,
        rows="\n".join(rows), findings=findings(table),
    )  # fmt: skip


def findings(table: pd.DataFrame) -> str:
    """Return the findings."""
    full, own = (run_of(table, LETTER, draw) for draw in (POOLED, OWN))
    found = []
    if full is not None:
        low, high = PAPER
        said = "in" if low <= full["mean"] <= high else "above"
        found.append(
            f"To the letter, with {full.records:,} records, the mean is {full['mean']:.3f} ({said} the paper's range "
            f"of {low:g} to {high:g}); 90 % of the groups lie between {full.q05:.2f} and {full.q95:.2f}, and "
            f"{full.within:.0%} of them in that range."
        )
        ours = run_of(table, OURS, POOLED)
        if ours is not None:
            found.append(
                f"Mean totals and a stratified sample, which are not the paper's, give {ours['mean']:.3f} on the same "
                "table."
            )
    if full is not None and own is not None:
        found.append(
            f"The bootstrap decides: where each group repeats its own year's few records the mean is "
            f"{own['mean']:.3f} instead of {full['mean']:.3f}, and {own.within:.0%} of the groups are in the range, "
            "for no distribution of a whole state is as spiky. The challenge's own table, which is not public, is "
            "neither: a group's records are of one year, and do not repeat."
        )
    sizes = table[(table.form == OURS) & (table.draw == POOLED)].sort_values("records")
    if len(sizes) > 1:
        means = ", ".join(f"{row.per_group:.0f}: {row['mean']:.3f}" for _, row in sizes.iterrows())
        found.append(
            f"By records a group (mean totals, stratified): {means}. Noise is in proportion to how many records a "
            "person may have, and weighs less the more a group has."
        )
    costs = sizes[sizes["mean"] > sizes.state]
    if len(costs):
        pairs = [
            f"{row.per_group:.0f} records {row['mean']:.3f} against {row.state:.3f}" for _, row in costs.iterrows()
        ]
        found.append(
            "Where groups are smaller, asking about them costs more than it tells: records drawn from the state's "
            f"private table, with nothing measured about the group, are nearer ({', '.join(pairs)})."
        )
    return bullets(found)


def run_of(table: pd.DataFrame, form: str, draw: str) -> pd.Series | None:
    """The run on the largest table of a form and a bootstrap; None if it was not made."""
    rows = table[(table.form == form) & (table.draw == draw)]
    rows = rows[rows.records == table.records.max()]
    return rows.iloc[0] if len(rows) else None


def draw(table: pd.DataFrame, run: Run) -> None:
    """The distance against the size of the groups, with the range that the paper reports."""
    figure, [axis] = panels(1, width=6.0, height=3.6)
    axis.axhspan(*PAPER, color="#DDDDDD", zorder=0, label="paper's Figure 1: 0.2 to 0.4")
    for draw_, color, marker in ((POOLED, COLORS[0], "o"), (OWN, COLORS[1], "s")):
        rows = table[(table.draw == draw_) & (table.form == OURS)].sort_values("per_group")
        if not len(rows):
            continue
        reach = [rows["mean"] - rows.q10, rows.q90 - rows["mean"]]
        beside = 1.0 if draw_ == POOLED else 1.03  # so that bars at the same size do not hide one another
        axis.errorbar(beside * rows.per_group, rows["mean"], yerr=reach, fmt=marker + "-", color=color, capsize=3,
                      markersize=6, label=f"Algorithm 2, {draw_}")  # fmt: skip
    letter = table[table.form == LETTER]
    axis.plot(letter.per_group, letter["mean"], "k*", markersize=9, label="to the letter", linewidth=0)
    rows = table[(table.draw == POOLED) & (table.form == OURS)].sort_values("per_group")
    axis.plot(rows.per_group, rows.state, "^--", color=COLORS[2], markersize=5, label="state's private records")
    axis.plot(rows.per_group, rows.redrawn, "v--", color=MUTED, markersize=5, label="group's own, redrawn")
    axis.set_ylim(0, None)
    titles(axis, "IDE's Algorithm 2, epsilon 10", "records of a PUMA and year", "mean L1 distance (bars: 10 to 90 %)")
    legend(figure, axis)
    save(figure, run.results / "ide_challenge.png")
