"""A statistical audit of all that LinkedLAMP asks about families, by the likelihood ratio of its answers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from pgmest.mechanisms.lamp.candidates import NoiseModel
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.family_dataset import FamilyDataset
from pgmest.mechanisms.linked.numbers import MeasuredNumbers
from pgmest.mechanisms.linked.rounds import LinkedEvidence, LinkedRounds
from pgmest.mechanisms.linked.workload import family_workload
from pgmest.privacy import Curator, Rho, audit
from tests.mechanisms.linked.examples import random_families

CLAIMED, TRIALS = 1.5, 100
"""The mu of Gaussian differential privacy that the budget amounts to, and the runs on each of two neighbors."""


def neighbors() -> tuple[Families, Families]:
    """Return families, and the same with one large family more."""
    families = random_families(np.random.default_rng(0), 30, 4)
    parents = np.vstack([families.parents, [1, 2, 4]])
    children = np.vstack([families.children, [[0, 1], [2, 0], [2, 0], [1, 1]]])
    return families, Families(families.layout, parents, children)


FAMILIES, LARGER = neighbors()


def asked(data: FamilyDataset, seed: int, rho: float) -> list[tuple[Any, np.ndarray, float]]:
    """Ask for all one-way marginals and all pairs; return cliques, answers and the noise of each."""
    layout = data.layout
    curator = Curator(data, Rho(rho), backend="simulation", seed=seed)
    rounds = LinkedRounds.__new__(LinkedRounds)  # only what its accesses to the records read
    rounds.curator, rounds.linked = curator, LinkedEvidence(layout, curator)
    pairs = [clique for clique in family_workload(layout) if len(clique) == 2]
    for cliques, spend in (([(name,) for name in layout.domain], Rho(rho / 4)), (pairs, None)):
        groups = [[np.arange(layout.domain[name]) for name in clique] for clique in cliques]
        rest = curator.remaining if spend is None else spend
        rounds.measure(cliques, groups, [None] * len(cliques), [1.0] * len(cliques), rest)
        if spend is not None:
            rounds.linked.families, rounds.evidence = FAMILIES, Evidence.of(curator.measurements, layout.domain, 30.0)
            rounds.above = NoiseModel.of(curator.budget, curator.neighbors)
            rounds._measure_numbers()
    above = [(m.clique, m.values, float(np.mean(m.stddev))) for m in curator.measurements]
    children = [*rounds.linked.lengths, *rounds.linked.numbers]
    return [*above, *((answer, answer.values, answer.stddev) for answer in children)]


def log_ratio(answers: list[tuple[Any, np.ndarray, float]]) -> float:
    """Return the logarithm of the likelihood ratio of the neighbor and of the families."""
    total = 0.0
    for about, values, stddev in answers:
        if isinstance(about, tuple):
            means = [families.above(about).ravel() for families in (FAMILIES, LARGER)]
            found, counted = values.ravel(), slice(None)
        elif isinstance(about, MeasuredNumbers):
            means = [families.numbers(about.name, about.cut)[0].ravel() for families in (FAMILIES, LARGER)]
            found, counted = values.ravel(), slice(None)
        else:
            layout = FAMILIES.layout
            present = layout.present(about.clique, about.groups)
            counted = (np.triu(present) if layout.are_alike(about.clique, about.groups) else present).ravel()
            means = [f.tables(about.clique, about.groups, about.cut)[0].ravel() for f in (FAMILIES, LARGER)]
            found = values.ravel()
        first, second = (np.square(found - mean)[counted].sum() for mean in means)
        total += (first - second) / (2 * stddev**2)
    return float(total)


@pytest.mark.parametrize("too_little_noise", [False, True])
def test_families_are_told_apart_as_well_as_the_budget_allows_and_no_better(too_little_noise: bool) -> None:
    spent = CLAIMED**2 / 2 * (9 if too_little_noise else 1)

    def private(data: Any, seed: int) -> float:
        return log_ratio(asked(data, seed, spent))

    one, other = (FamilyDataset(families) for families in (FAMILIES, LARGER))
    report = audit(private, cast(Any, other), cast(Any, one), trials=TRIALS, confidence=0.99, threshold=0.0)
    assert report.contradicts(Rho(CLAIMED**2 / 2)) == too_little_noise
    assert report.mu > 0.4 * CLAIMED
