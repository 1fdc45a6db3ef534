"""Raking: weights of records, drawn from a junction-tree model, that also fit the tables that it cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pgmest._base.stages import out_of_time
from pgmest.data.dataset import Dataset
from pgmest.mechanisms.known_zeros import possible_records
from pgmest.mechanisms.lamp.grouped_model import GroupedModel

SWEEPS = 8
"""The number of sweeps over all tables."""
DAMPING = 0.1
"""Sweep k applies ratios to the power 1 / (1 + DAMPING k), so that weights settle between inconsistent tables."""
ONE_WAY_SWEEPS = 1000
"""The last sweeps, at most this many, rake the one-way marginals only, so that these are met where the tables
contradict each other. Real tables need 1 to 81 sweeps; contradicting tables can need several hundred."""
ONE_WAY_TOLERANCE = 1e-3
"""The one-way sweeps end when the mean l1 distance to the one-way marginals is at most this fraction of the total."""
STALLED = 1e-4
"""The one-way sweeps also end when a sweep changes that distance by less than this fraction of itself: then the records
cannot meet the one-way marginals."""
LEAST_WEIGHT = 1e-100
"""Smaller weights, relative to the largest, are set to zero."""
MOST_STEPS, LEAST_SWEEPS = 4e9, 3
"""The largest number of tables times records times sweeps, about 10 s of work, and the smallest number of sweeps."""
NOISY_CELLS, MOST_CELLS = 1e-3, 1_000_000
"""A pair that was not measured is raked to the model's table if it has more cells per record than the first number and
at most as many cells as the second: its sampling error would be large. If all sweeps over these pairs take more than
`MOST_STEPS`, only `refinement` moves the records towards them."""
MOST_RATIO = 1e3
"""The largest factor of a weight in one step."""
LEAST_TARGET = 1e-9
"""The smallest target of a cell, in counts, so that no weight becomes zero for good."""

_Target = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The row and the column of each record in a table, the target table, and a work array of its size."""


def weighted_records(model: GroupedModel, count: int, generator: np.random.Generator) -> Dataset:
    """Return records with weights that fit the measured tables and one-way marginals.

    The records are drawn from a model that has the strongest dependences exactly. Iterative proportional fitting of
    their weights (raking; Deming and Stephan 1940) then finds the weights that fit all tables and are closest in
    relative entropy. The result approximates the distribution of maximum entropy given all measurements, at a cost that
    does not depend on a treewidth. If no weights fit all tables, the one-way marginals have priority, since all tables
    share them.

    Args:
        model: The junction-tree model.
        count: The number of records. Those that violate a rule that the model cannot hold are removed, unless all do.
        generator: The random generator.
    """
    records = model.records(count, generator)
    if model.evidence.possible is not None and model.evidence.possible.others:
        records = possible_records(records, model.evidence.possible.others)
    weights = raked(records, model, generator)
    weights[weights < LEAST_WEIGHT * weights.max()] = 0.0
    return Dataset(records.domain, records.columns, records.records, weights)


def raked(records: Dataset, model: GroupedModel, generator: np.random.Generator) -> np.ndarray:
    """Return weights, with the sum `total`, that fit the evidence, or the model for very large unmeasured pairs."""
    from pgmest.mechanisms.lamp.kernels import rake

    evidence = model.evidence
    weights = np.full(records.records, evidence.total / max(1, records.records))
    one_way, tables = _targets(records, model)
    targets = [*one_way, *tables]

    def step(target: _Target, power: float) -> float:
        rows, columns, table, counts = target
        return rake(rows, columns, table.shape[-1], weights, table.ravel(), counts, power, MOST_RATIO)

    for sweep in range(_sweeps(targets, records, SWEEPS)):
        for place in generator.permutation(len(targets)):
            if sweep and out_of_time():
                break
            step(targets[place], 1 / (1 + DAMPING * sweep))
    before = np.inf
    for _ in range(_sweeps(one_way, records, ONE_WAY_SWEEPS)):
        distance = sum(step(target, 1.0) for target in one_way)
        close = out_of_time() or distance <= ONE_WAY_TOLERANCE * len(one_way) * evidence.total
        if close or abs(before - distance) <= STALLED * distance:
            break
        before = distance
    return weights * (evidence.total / weights.sum())


def _sweeps(targets: Sequence[_Target], records: Dataset, most: int) -> int:
    return int(np.clip(MOST_STEPS / max(1, len(targets) * records.records), LEAST_SWEEPS, most))


def _targets(records: Dataset, model: GroupedModel) -> tuple[list[_Target], list[_Target]]:
    """Return the targets for the one-way marginals, and those for pairs and triples."""
    evidence = model.evidence
    nothing = np.zeros(records.records, dtype=np.uint8)
    known: dict[tuple[str, int], np.ndarray] = {}

    def grouped(name: str, labels: np.ndarray) -> np.ndarray:
        """Return the group of each record. Nested groups with the same last label are equal, so answers share them."""
        key = name, int(labels[-1])
        if key not in known:
            known[key] = labels.astype(np.uint16 if key[1] < 1 << 16 else np.uint32)[records.column(name)]
        return known[key]

    one_way, tables = [], []
    for name in evidence.noisy:
        counts = evidence.counts(name)[None, :]
        codes = grouped(name, np.arange(evidence.domain[name]))
        one_way.append((nothing, codes, _scaled(counts, evidence.total), np.empty(counts.size)))
    for answer, table in zip(evidence.answers, evidence.tables, strict=True):
        *rows, columns = (grouped(*side) for side in zip(answer.clique, answer.groups, strict=True))
        tables.append((_joined(rows, table.shape), columns, _scaled(table, evidence.total), np.empty(table.size)))
    measured = {answer.clique for answer in evidence.answers}
    domain = evidence.domain
    noisy = [
        pair
        for pair in combinations(evidence.noisy, 2)
        if pair not in measured and NOISY_CELLS * records.records <= domain.size(pair) <= MOST_CELLS
    ]
    noisy = noisy if len(noisy) * records.records * SWEEPS <= MOST_STEPS else []
    for pair, table in zip(noisy, model.tables(noisy), strict=True):
        rows, columns = (grouped(name, np.arange(evidence.domain[name])) for name in pair)
        tables.append((rows, columns, _scaled(table, evidence.total), np.empty(table.size)))
    return one_way, tables


def _joined(columns: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """The row of each record in a table whose other axes but the last are put together."""
    rows = columns[0]
    for column, size in zip(columns[1:], shape[1:], strict=False):
        rows = rows.astype(np.uint32) * np.uint32(size) + column
    return rows


def _scaled(table: np.ndarray, total: float) -> np.ndarray:
    positive = np.ascontiguousarray(np.maximum(table, LEAST_TARGET))
    return positive * (total / positive.sum())
