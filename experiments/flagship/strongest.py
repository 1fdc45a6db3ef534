"""python -m experiments.flagship.strongest [--seeds N]: the error of LAMP and AIM on the strongest dependences.

The mean error of all pairs hardly shows whether the few strong dependences of a table survive a small budget. Here the
tables are small and every person has up to four records: samples of 8,000 records of public tables, and the visits of
`hospital`, with long-tailed codes. Two errors are reported, both mean total variation distances: of all pairs, and of
the ten pairs whose distance from independence exceeds that of independent records most. The table goes to
experiments/results/strongest.md.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.cells import DELTA
from experiments.data import load
from pgmest.data.dataset import Dataset
from pgmest.mechanisms import AIM, LAMP
from pgmest.privacy.neighbors import AddRemove
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique

OUT = Path(__file__).parents[1] / "results" / "strongest.md"
TABLES = ("hospital", "adult", "adult14", "BR2000", "fire", "acs/MA2019", "acs/IL_OH")
EPSILONS = (0.3, 1.0, 3.0)
RECORDS, RECORDS_PER_PERSON, STRONGEST = 8_000, 4, 10
MOST_CELLS = 100_000
"""Pairs with more cells are left out."""
HOSPITAL = {"age": 20, "sex": 2, "postal": 120, "diagnosis": 600, "ward": 8, "month": 48, "stay": 31, "cost": 50}
HOSPITAL |= {"readmitted": 2, "insurance": 4}


def hospital(patients: int = 4_000) -> Dataset:
    """Return one to four visits of each patient; postal codes and diagnoses have long tails.

    Wards follow from diagnoses, costs from stays, insurance and readmission from age. The other attributes are
    independent of each other, except through patients.
    """
    rng = np.random.default_rng(0)
    ages = np.clip(rng.normal(58, 20, patients), 0, 99.9)
    insured = np.where(
        rng.random(patients) < np.where(ages > 65, 0.8, 0.1), 1, rng.choice([0, 2, 3], patients, p=[0.6, 0.3, 0.1])
    )
    postal, sex = rng.choice(120, patients, p=_long_tail(120, 0.9)), rng.integers(0, 2, patients)
    who = np.repeat(np.arange(patients), rng.choice([1, 2, 3, 4], patients, p=[0.4, 0.3, 0.2, 0.1]))
    age, count = ages[who], len(who)
    diagnosis = rng.choice(600, count, p=_long_tail(600, 1.1))
    ward = np.where(rng.random(count) < 0.8, diagnosis * 7919 % 8, rng.integers(0, 8, count))
    stay = np.clip(rng.gamma(1.5, 2 + 0.05 * age), 0, 30.9).astype(np.int64)
    cost = np.clip((900 * stay + 1500 + rng.gamma(2, 1200, count)) / 700, 0, 49.9).astype(np.int64)
    readmitted = rng.random(count) < 0.05 + 0.31 * np.clip((age - 20) / 80, 0, 1)
    month = rng.integers(0, 48, count)
    columns = [age // 5, sex[who], postal[who], diagnosis, ward, month, stay, cost, readmitted, insured[who]]
    return Dataset.from_codes(np.column_stack([np.asarray(column, dtype=np.int64) for column in columns]), HOSPITAL)


def _long_tail(count: int, power: float) -> np.ndarray:
    weights = np.arange(1, count + 1) ** -power
    return weights / weights.sum()


def table(name: str) -> Dataset:
    """Return a table of the comparison."""
    if name == "hospital":
        return hospital()
    data = load(name)
    return data.take(np.random.default_rng(0).choice(len(data), min(RECORDS, len(data)), replace=False))


def strongest(data: Dataset, pairs: list[Clique]) -> list[Clique]:
    """Return the pairs whose distance from independence most exceeds that of as many independent records."""
    rng, beyond = np.random.default_rng(0), {}
    for pair, found in zip(pairs, data.project_many(pairs), strict=True):
        counts = np.asarray(found.values, dtype=np.float64)
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
        drawn = rng.multinomial(len(data), (expected / expected.sum()).ravel()).reshape(expected.shape)
        beyond[pair] = float(np.abs(counts - expected).sum() - np.abs(drawn - expected).sum())
    return sorted(pairs, key=lambda pair: -beyond[pair])[:STRONGEST]


def errors(data: Dataset, model: Any, pairs: list[Clique]) -> dict[Clique, float]:
    """Return the total variation distance of each pair."""
    return {
        pair: total_variation(true, own)
        for pair, true, own in zip(pairs, data.project_many(pairs), model.project_many(pairs), strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.flagship.strongest", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="the number of runs of each mechanism")
    seeds = parser.parse_args().seeds
    lines = [
        "# The strongest dependences",
        "",
        f"`python -m experiments.flagship.strongest --seeds {seeds}`: mean total variation distance of the ten",
        f"strongest pairs and of all pairs, {RECORDS_PER_PERSON} records a person, {seeds} seeds.",
        "",
        "| | epsilon | LAMP, ten | AIM, ten | ratio | LAMP, all | AIM, all |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for name in TABLES:
        data = table(name)
        pairs = [pair for pair in combinations(data.domain.attributes, 2) if data.domain.size(pair) <= MOST_CELLS]
        top = strongest(data, pairs)
        for epsilon in EPSILONS:
            found = {}
            for mechanism in (LAMP, AIM):
                asked = mechanism(
                    epsilon=epsilon, delta=DELTA, backend="simulation", neighbors=AddRemove(RECORDS_PER_PERSON)
                )
                models = [asked.fit(data, seed=seed, progress=False).model for seed in range(seeds)]
                each = [errors(data, model, pairs) for model in models]
                found[mechanism] = (
                    float(np.mean([[own[pair] for pair in top] for own in each])),
                    float(np.mean([list(own.values()) for own in each])),
                )
            (ours, ours_all), (theirs, theirs_all) = found[LAMP], found[AIM]
            ratios.append(ours / theirs)
            lines.append(
                f"| {name} | {epsilon:g} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} | {ours_all:.3f} "
                f"| {theirs_all:.3f} |"
            )
            print(lines[-1], flush=True)
    mean, worst = float(np.exp(np.mean(np.log(ratios)))), max(ratios)
    lines += ["", f"Geometric mean of the ratios: {mean:.2f}; the largest: {worst:.2f}."]
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(lines[-1])


if __name__ == "__main__":
    main()
