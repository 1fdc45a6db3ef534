"""python -m experiments.flagship.calibration: LAMP's expected errors against measured errors.

The constants describe how tables deviate from independence; none is tuned to a single table. For thirty pairs of each
table, the experiment reports:

1. `shrinkage.NoisyPair`: the l1 error of shrunk noisy tables over groups of codes, relative to that of independence.
2. `candidates.DEVIATION`: that error relative to the expected one, if cells deviate by a power of their expected count.

For up to thirty attributes of each table, it reports:

3. `one_way.OneWayEstimate`: the l1 error of estimated counts relative to that without neighbors, with codes in order
and shuffled.

Noise is relative to the mean count of a cell. The tables go to experiments/results/flagship_calibration.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.compare.cells import TABLES
from experiments.data import load
from pgmest._base.files import write_atomically
from pgmest.data.dataset import Dataset
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.lamp.candidates import expected_errors, interaction_fraction
from pgmest.mechanisms.lamp.dependence import sampling_spread
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.one_way import LEAST_CODES, OneWayEstimate, posterior_means
from pgmest.mechanisms.lamp.shrinkage import NoisyPair
from pgmest.synthesis.consistency import norm_sub
from pgmest.tables.groups import summed

RESULTS = Path(__file__).resolve().parents[1] / "results"
PAIRS, MOST_CELLS = 30, 100_000
LEVELS = (1, 2, 3, 4, 9)
NOISE = (10.0, 3.0, 1.0, 0.3, 0.1)
POWERS = (0.5, 0.75, 1.0)
LEAST_ERROR = 1e-4
"""This is added to relative errors, so that ratios of tiny errors do not count."""
FEW_CELLS = 64
LEAST = 0.04
"""Pairs with less dependence (l1 distance over the number of records) are left out; it is mostly sampling error."""


def pairs_of(data: Dataset, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the counts of some pairs."""
    pairs = [pair for pair in combinations(data.domain.attributes, 2) if data.domain.size(pair) <= MOST_CELLS]
    for place in rng.permutation(len(pairs))[:PAIRS]:
        yield data.project(pairs[place]).values.astype(float)


def shrinkage_rows(counts: np.ndarray, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    """Yield measured and expected errors of a noisy table over groups of some levels."""
    levels = [nested_groups(counts.sum(axis=axis) + 1e-3) for axis in (1, 0)]
    seen = set()
    for level in LEVELS:
        truth = summed(counts, tuple(own[min(level, len(own) - 1)] for own in levels))
        if min(truth.shape) < 2 or truth.shape in seen:
            continue
        seen.add(truth.shape)
        rows, columns = truth.sum(axis=1), truth.sum(axis=0)
        expected = np.outer(rows, columns) / truth.sum()
        dependence, means = np.abs(truth - expected).sum(), expected.ravel()
        chance = sampling_spread(means)
        systematic = np.sqrt(max(0.0, dependence**2 - np.square(MEAN_ABSOLUTE * chance.sum())))
        if systematic < LEAST * truth.sum():
            continue
        for noise in NOISE:
            stddev = noise * truth.mean()
            noisy, left = (
                truth + stddev * rng.standard_normal(truth.shape),
                stddev * interaction_fraction(truth.shape) ** 0.5,
            )
            error = np.abs(NoisyPair.of(lambda _, noisy=noisy: noisy, left, rows, columns).table() - truth).sum()
            row = {"cells": truth.size, "noise": noise, "to independence": error / dependence}
            for power in POWERS:
                spread = systematic / MEAN_ABSOLUTE * means**power / np.sum(means**power)
                whole = expected_errors(np.ones(means.size), np.hypot(spread, chance), np.array([left**-2.0]))
                row[f"power {power:g}"] = error / whole[0]
            yield row


def one_way_rows(data: Dataset, rng: np.random.Generator) -> Iterator[dict[str, float]]:
    """Yield relative errors of one-way estimates that use neighbors, with codes in order and shuffled."""
    names = [name for name, size in data.domain.items() if size >= LEAST_CODES]
    for name in rng.permutation(names)[:PAIRS]:
        truth = data.project((str(name),)).values.astype(float)
        for noise in NOISE:
            row: dict[str, float] = {"noise": noise}
            for label, counts in (("in order", truth), ("shuffled", rng.permutation(truth))):
                stddev, total = noise * float(counts.mean()), float(counts.sum())
                noisy = counts + stddev * rng.standard_normal(counts.shape)
                ours = np.abs(OneWayEstimate.of(noisy, stddev, total).counts - counts).sum()
                alone = np.abs(norm_sub(posterior_means(noisy, stddev), total) - counts).sum()
                row[label] = (ours + LEAST_ERROR * total) / (alone + LEAST_ERROR * total)
            yield row


def geometric(frame: pd.DataFrame, by: list[str]) -> str:
    """Return geometric means as a Markdown table."""
    means = np.exp(frame.groupby(by).agg(lambda column: np.log(column).mean()))
    lines = ["| " + " | ".join([*by, *means.columns]) + " |", "|" + "---:|" * (len(by) + len(means.columns))]
    for key, row in means.iterrows():
        keys = key if isinstance(key, tuple) else (key,)
        lines.append("| " + " | ".join([*map(str, keys), *(f"{value:.2f}" for value in row)]) + " |")
    return "\n".join(lines)


def main() -> None:
    rng, shrinkage, one_ways = np.random.default_rng(0), [], []
    for table in TABLES:
        one_ways += one_way_rows(load(table), np.random.default_rng(1))
        for counts in pairs_of(load(table), rng):
            shrinkage += shrinkage_rows(counts, rng)
        print(f"{table}: {len(shrinkage)} tables so far", flush=True)
    tables = pd.DataFrame(shrinkage)
    tables["size"] = np.where(tables.pop("cells") <= FEW_CELLS, f"up to {FEW_CELLS} cells", "more")
    text = [
        "# What LAMP expects of errors",
        "",
        "`python -m experiments.flagship.calibration`, whose docstring says what is compared: thirty pairs of each of",
        f"{len(TABLES)} tables, geometric means. Noise is in parts of the mean count of a cell.",
        "",
        "## Noisy tables, shrunk",
        "",
        "The error left, over that of independence, and over what is expected where cells deviate by a power of what",
        "is expected of them. LAMP takes 0.75.",
        "",
        geometric(tables, ["size", "noise"]),
        "",
        "## One-way marginals with neighbors",
        "",
        "The error of counts by neighbors and all codes, over that by all codes alone, of",
        f"{len(one_ways) // len(NOISE)} attributes of {LEAST_CODES} codes and more: as the codes are, and shuffled.",
        "",
        geometric(pd.DataFrame(one_ways), ["noise"]),
    ]
    write_atomically(RESULTS / "flagship_calibration.md", "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
