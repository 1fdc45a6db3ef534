"""Records of a junction-tree model, weighted until they have the tables that no junction tree could hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.mechanisms.pgm.grouped_model import GroupedModel
from pgmest.tables.domain import Domain

SWEEPS = 8
DAMPING = 0.1
"""Sweep k moves weights by the ratio to the power 1 / (1 + DAMPING k), so that tables that disagree come to terms."""
LAST_SWEEPS, CLOSE = 50, 1e-3
"""In the end so many sweeps, at most, are over the one-way marginals alone, until these are on average within this
share of all records: where weights cannot give the records all tables, they have these."""
LEAST_WEIGHT = 1e-100
"""Records of less, in shares of the largest weight, are left out."""
MOST_STEPS, LEAST_SWEEPS = 4e9, 3
"""There are fewer sweeps where there are many tables and records."""
NOISY_CELLS, MOST_CELLS = 1e-3, 1_000_000
"""A pair that was not measured is held to the model where it has more cells than this for each record: there drawing
records alone would change it."""
MOST_RATIO = 1e3
LEAST_TARGET = 1e-9

_Goal = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Row and column of each record in a table, the table, and space for as many counts."""


def weighted_records(model: GroupedModel, count: int, rules: Sequence[Rule], generator: np.random.Generator) -> Dataset:
    """Records with weights that fit measured tables and one-way marginals, close to the model they come from.

    Records are drawn from a model that has the strongest dependences exactly. Iterative proportional fitting of their
    weights (raking; Deming and Stephan 1940) then finds the nearest weights, in relative entropy, that have all the
    tables: a sample of the distribution of maximum entropy given everything that was measured, at a cost that does not
    depend on a junction tree. Where there are no such weights, the one-way marginals come first: all tables share them,
    and what was not measured is taken from these records.

    Args:
        model: of what fits into a junction tree.
        count: how many records.
        rules: what cannot occur; such records are left out, unless nothing remains.
        generator: to draw with.
    """
    records = _possible(model.records(count, generator), rules)
    weights = raked(records, model, generator)
    weights[weights < LEAST_WEIGHT * weights.max()] = 0.0
    return Dataset(records.domain, records.columns, records.records, weights)


def raked(records: Dataset, model: GroupedModel, generator: np.random.Generator) -> np.ndarray:
    """Weights of records, summing to the total, that fit the evidence, and elsewhere the model."""
    from pgmest.mechanisms.pgm.kernels import rake

    evidence = model.evidence
    weights = np.full(records.records, evidence.total / max(1, records.records))
    one_way, tables = _goals(records, model)
    goals = [*one_way, *tables]

    def step(goal: _Goal, power: float) -> float:
        rows, columns, target, space = goal
        return rake(rows, columns, target.shape[-1], weights, target.ravel(), space, power, MOST_RATIO)

    for sweep in range(_sweeps(goals, records, SWEEPS)):
        for place in generator.permutation(len(goals)):
            step(goals[place], 1 / (1 + DAMPING * sweep))
    for _ in range(_sweeps(one_way, records, LAST_SWEEPS)):
        if sum(step(goal, 1.0) for goal in one_way) <= CLOSE * len(one_way) * evidence.total:
            break
    return weights * (evidence.total / weights.sum())


def _sweeps(goals: Sequence[_Goal], records: Dataset, most: int) -> int:
    return int(np.clip(MOST_STEPS / max(1, len(goals) * records.records), LEAST_SWEEPS, most))


def _goals(records: Dataset, model: GroupedModel) -> tuple[list[_Goal], list[_Goal]]:
    """The one-way marginals, and the larger tables."""
    evidence = model.evidence
    nothing = np.zeros(records.records, dtype=np.uint8)
    known: dict[tuple[str, int], np.ndarray] = {}

    def grouped(name: str, labels: np.ndarray) -> np.ndarray:
        """The group of each record; answers share them, since an attribute's groups are nested."""
        key = name, int(labels[-1])
        if key not in known:
            known[key] = labels.astype(np.uint16 if key[1] < 1 << 16 else np.uint32)[records.column(name)]
        return known[key]

    one_way, tables = [], []
    for name in evidence.noisy:
        counts = evidence.counts(name)[None, :]
        codes = grouped(name, np.arange(evidence.domain[name]))
        one_way.append((nothing, codes, _target(counts, evidence.total), np.empty(counts.size)))
    for answer, table in zip(evidence.answers, evidence.tables, strict=True):
        *rows, columns = (grouped(*side) for side in zip(answer.clique, answer.groups, strict=True))
        tables.append((_joined(rows, table.shape), columns, _target(table, evidence.total), np.empty(table.size)))
    measured = {answer.clique for answer in evidence.answers}
    domain = evidence.domain
    noisy = [
        pair
        for pair in combinations(evidence.noisy, 2)
        if pair not in measured and NOISY_CELLS * records.records <= domain.size(pair) <= MOST_CELLS
    ]
    for pair, table in zip(noisy, model.tables(noisy), strict=True):
        rows, columns = (grouped(name, np.arange(evidence.domain[name])) for name in pair)
        tables.append((rows, columns, _target(table, evidence.total), np.empty(table.size)))
    return one_way, tables


def _joined(columns: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """The row of each record in a table whose other axes but the last are put together."""
    rows = columns[0]
    for column, size in zip(columns[1:], shape[1:], strict=False):
        rows = rows.astype(np.uint32) * np.uint32(size) + column
    return rows


def _target(table: np.ndarray, total: float) -> np.ndarray:
    positive = np.ascontiguousarray(np.maximum(table, LEAST_TARGET))
    return positive * (total / positive.sum())


def _possible(records: Dataset, rules: Sequence[Rule]) -> Dataset:
    """The records that break no rule; all, if all do."""
    keep = ~broken([np.asarray(column) for column in records.columns], records.domain, rules)
    return records.take(keep) if keep.any() else records


def broken(columns: Sequence[np.ndarray], domain: Domain, rules: Sequence[Rule]) -> np.ndarray:
    """Which records break a rule."""
    found = np.zeros(len(columns[0]), dtype=bool)
    for rule in rules:
        names = domain.clique(rule.attributes)
        found |= np.asarray(rule.mask(domain))[tuple(columns[axis] for axis in domain.axes(names))]
    return found
