"""Whole records, as many as the table has, changed code by code until they have all tables as far as these agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.mechanisms.pgm.grouped_model import GroupedModel
from pgmest.mechanisms.pgm.shrinkage import ratios
from pgmest.mechanisms.pgm.weighting import broken
from pgmest.sampling.systematic import systematic
from pgmest.synthesis.local_search import ENOUGH, Descent, Goal
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import is_identity, summed

SWEEPS = 4
"""Over all records; further ones change less than a hundredth of the codes."""
MOST_STEPS = 1.5e10
"""In all sweeps, about 10 s; of very large problems only some of the records are looked at."""
MOST_CELLS, MOST_PROJECTED = 5e7, 1e10
"""Of all tables together, each twice. Pairs that were not measured are left out where they times records are more."""
LEAST_RECORDS = 1000
LEAST_GUESS = 1e-3
"""So much of independence within a group is mixed into what weighted records have there."""


def refined_records(
    weighted: Dataset, model: GroupedModel, rules: Sequence[Rule], generator: np.random.Generator
) -> Dataset:
    """Whole records, as many as the table has, as close as they come to all measured tables.

    They start as a systematic sample of weighted records. Then each code of each record in turn becomes the one with
    which the distance to all tables together is least (coordinate descent on integer counts). Pairs that were not
    measured keep the tables of the weighted records. A record that would become impossible stays as it was.

    Args:
        weighted: records that have the tables as far as weights alone can.
        model: of the evidence.
        rules: what cannot occur.
        generator: to draw with.
    """
    total = max(1, round(model.evidence.total))
    count = total * -(-LEAST_RECORDS // total)
    assert weighted.weights is not None
    chosen = systematic(weighted.weights / weighted.weights.sum(), count, generator)
    drawn = weighted.take(generator.permutation(np.repeat(np.arange(len(chosen)), chosen)))
    columns = [np.asarray(column) for column in drawn.columns]
    rows = np.stack(columns, axis=1).astype(np.uint16 if max(weighted.domain.shape) <= 1 << 16 else np.int64)
    start = rows.copy() if rules else rows
    refine_rows(rows, weighted.domain, goals_of(weighted, model), count / model.evidence.total, generator)
    if rules:
        impossible = broken(list(rows.T), weighted.domain, rules)
        rows[impossible] = start[impossible]
    columns = [np.ascontiguousarray(rows[:, axis]) for axis in range(rows.shape[1])]
    return Dataset.from_codes(columns, weighted.domain, trusted=True)


def goals_of(weighted: Dataset, model: GroupedModel) -> list[Goal]:
    """All pairs: measured ones with their tables, others with those of the weighted records; and measured triples.

    What those others say is a sample's: besides the noise in what it was fitted to, its counts vary as drawn ones do,
    and all n tables about an attribute are wrong together, so that n times the variance of one stands for each.
    """
    evidence = model.evidence
    noise = {answer.clique: answer.noise() ** 2 for answer in evidence.answers}
    measured = {clique: noise[clique] for clique in _within(list(noise), evidence.domain, MOST_CELLS / 2)}
    goals = [Goal(clique, table, measured[clique]) for clique, table in _over_codes(weighted, model, measured).items()]
    others = [pair for pair in combinations(evidence.noisy, 2) if pair not in noise]
    others = others if len(others) * weighted.records <= MOST_PROJECTED else []
    others = _within(others, evidence.domain, MOST_CELLS / 2 - sum(goal.table.size for goal in goals))
    usual = float(np.median(list(measured.values()))) if measured else 0.0
    found = [factor.values for factor in weighted.project_many(others)] if others else []
    drawn = evidence.total / _effective(weighted)
    together = Counter(name for pair in others for name in pair)
    return goals + [
        Goal((a, b), table, (usual + drawn * float(table.mean())) * (together[a] + together[b]) / 2)
        for (a, b), table in zip(others, found, strict=True)
    ]


def _effective(weighted: Dataset) -> float:
    """How many records of equal weight say as much (Kish 1965)."""
    assert weighted.weights is not None
    return float(weighted.weights.sum() ** 2 / np.square(weighted.weights).sum())


def _over_codes(weighted: Dataset, model: GroupedModel, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
    """Measured tables over all codes: within the groups they were measured over, as in the weighted records.

    What other tables say of the codes in a group is in these records; independence there would contradict it.
    """
    evidence, found = model.evidence, {}
    place = {answer.clique: number for number, answer in enumerate(evidence.answers)}
    whole = [
        clique for clique in cliques if len(clique) > 2 or all(map(is_identity, evidence.answers[place[clique]].groups))
    ]
    found.update(zip(whole, model.tables(whole), strict=True))
    grouped = [clique for clique in cliques if clique not in found]
    for clique, drawn in zip(grouped, weighted.project_many(grouped) if grouped else (), strict=True):
        answer, target = evidence.answers[place[clique]], evidence.tables[place[clique]]
        least = LEAST_GUESS * evidence.table(place[clique], tuple(map(np.arange, drawn.values.shape)))
        inside = drawn.values + least
        sums = summed(inside, answer.groups)
        ratio = ratios(target, sums)
        found[clique] = inside * ratio[np.ix_(*answer.groups)]
    return found


def _within(pairs: list[Clique], domain: Domain, room: float) -> list[Clique]:
    """The pairs of fewest cells, as many as there is room for."""
    pairs = sorted(pairs, key=domain.size)
    sizes = np.cumsum([domain.size(pair) for pair in pairs])
    return pairs[: int(np.searchsorted(sizes, room, side="right"))]


def refine_rows(
    rows: np.ndarray, domain: Domain, goals: Sequence[Goal], scale: float, generator: np.random.Generator
) -> None:
    """Change records in place, a sweep at a time, while enough codes change.

    Args:
        rows: shape (records, attributes).
        domain: of the records.
        goals: the tables.
        scale: records for each record of the table.
        generator: for the order.
    """
    if not goals or len(domain) < 2:
        return
    descent = Descent.of(rows, domain, goals, scale)
    left = int(MOST_STEPS / max(1.0, descent.steps))
    for _ in range(SWEEPS):
        order = generator.permutation(len(rows))[:left]
        changed = descent.sweep(rows, order)
        left -= len(order)
        if left <= 0 or changed <= ENOUGH * len(order) * len(domain):
            break
