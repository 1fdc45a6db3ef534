"""The records of a model: drawn from a junction tree, reweighted (raking), and changed code by code (refinement).

Raking and refinement fit the tables that the junction tree cannot hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

import numpy as np

from pgmest._base.stages import out_of_time
from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule, zero_potentials
from pgmest.mechanisms.known_zeros import possible_records
from pgmest.mechanisms.lamp.grouped_model import GroupedModel
from pgmest.sampling.reweighting import damped, rake
from pgmest.sampling.systematic import systematic
from pgmest.synthesis.local_search import STOPPING_SHARE, Descent, ForbiddenCells, TargetTable
from pgmest.synthesis.pair_descent import PairDescent, padded
from pgmest.tables.domain import Clique, Domain

RAKING_SWEEPS = 8
"""The number of sweeps over all tables."""
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
RAKING_STEPS, LEAST_SWEEPS = 4e9, 3
"""The largest number of tables times records times sweeps, about 10 s of work, and the smallest number of sweeps."""
NOISY_CELLS, RAKED_CELLS = 1e-3, 1_000_000
"""A pair that was not measured is raked to the model's table if it has more cells per record than the first number and
at most as many cells as the second: its sampling error would be large. If all sweeps over these pairs take more than
`RAKING_STEPS`, only `refined_records` moves the records towards them."""
LEAST_TARGET = 1e-9
"""The smallest target of a cell, in counts, so that no weight becomes zero for good."""

_Target = tuple[tuple[np.ndarray, np.ndarray], np.ndarray]
"""The row and the column of each record in a table, and the target table."""


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
    evidence = model.evidence
    weights = np.full(records.records, evidence.total / max(1, records.records))
    one_way, tables = _targets(records, model)
    targets = [*one_way, *tables]
    for sweep in range(_sweeps(targets, records, RAKING_SWEEPS)):
        for place in generator.permutation(len(targets)):
            if sweep and out_of_time():
                break
            cells, table = targets[place]
            rake(weights, cells, table, damped(sweep))
    before = np.inf
    for _ in range(_sweeps(one_way, records, ONE_WAY_SWEEPS)):
        distance = sum(rake(weights, *target) for target in one_way)
        close = out_of_time() or distance <= ONE_WAY_TOLERANCE * len(one_way) * evidence.total
        if close or abs(before - distance) <= STALLED * distance:
            break
        before = distance
    return weights * (evidence.total / weights.sum())


def _sweeps(targets: Sequence[_Target], records: Dataset, most: int) -> int:
    return int(np.clip(RAKING_STEPS / max(1, len(targets) * records.records), LEAST_SWEEPS, most))


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
        one_way.append(((nothing, codes), _scaled(counts, evidence.total)))
    for answer, table in zip(evidence.answers, evidence.tables, strict=True):
        *rows, columns = (grouped(*side) for side in zip(answer.clique, answer.groups, strict=True))
        target = _scaled(table, evidence.total).reshape(-1, table.shape[-1])
        tables.append(((_joined(rows, table.shape), columns), target))
    measured = {answer.clique for answer in evidence.answers}
    domain = evidence.domain
    noisy = [
        pair
        for pair in combinations(evidence.noisy, 2)
        if pair not in measured and NOISY_CELLS * records.records <= domain.size(pair) <= RAKED_CELLS
    ]
    noisy = noisy if len(noisy) * records.records * RAKING_SWEEPS <= RAKING_STEPS else []
    for pair, table in zip(noisy, model.tables(noisy), strict=True):
        rows, columns = (grouped(name, np.arange(evidence.domain[name])) for name in pair)
        tables.append(((rows, columns), _scaled(table, evidence.total)))
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


MANY_ATTRIBUTES = 32
"""Tables with more attributes are refined attribute by attribute: the tables of all pairs do not fit in a cache."""
SWEEPS = 4
"""The largest number of sweeps over all records; further ones change less than 1 % of the codes."""
MOST_STEPS = 1.5e10
"""The largest number of steps of all sweeps, about 10 s; in larger problems only some of the records are refined."""
MOST_PAIR_STEPS, MOST_SWEPT = 1.5e11, 2e10
"""The largest number of steps of a sweep if there are many attributes, about 60 s of a processor, and of several sweeps
together. If a sweep would take more, pairs that were not measured are left out, those with the most cells first. The
first sweep makes nine tenths of the difference."""
STEPS_AT_ONCE = 3e8
"""The number of steps, about 0.2 s, after which a sweep looks at the limit of time."""
MOST_CELLS, MOST_PROJECTED = 5e7, 1e10
"""The largest number of cells of all tables, counted twice, and the largest number of unmeasured pairs times records
for which these pairs are targets."""
LEAST_RECORDS = 1000
"""The smallest number of records; each record of smaller data is represented by several."""


def refined_records(
    weighted: Dataset, model: GroupedModel, rules: Sequence[Rule], generator: np.random.Generator
) -> Dataset:
    """Return records, as many as the data has, that fit all measured tables as closely as possible.

    They start as a systematic sample of the weighted records. These are sorted by their impossible codes first, since
    a change of one code can seldom undo an error there; a single attribute is sorted by its codes, so that the sample
    has each as often as it should within one record. Then each code of each record is replaced by the one that
    minimizes the distance to all target tables (coordinate descent on integer counts). The targets of unmeasured pairs
    are the tables of the weighted records. No change makes a record impossible.

    Args:
        weighted: Records whose weights fit the tables.
        model: The junction-tree model.
        rules: The structural zeros.
        generator: The random generator.
    """
    total = max(1, round(model.evidence.total))
    count = total * -(-LEAST_RECORDS // total)
    assert weighted.weights is not None
    shares, possible = weighted.weights / weighted.weights.sum(), model.evidence.possible
    order = np.arange(weighted.records) if possible is None else possible.sorted(weighted)
    if len(weighted.domain) == 1:
        order = np.argsort(weighted.columns[0], kind="stable")
    chosen = np.empty(weighted.records, dtype=np.int64)
    chosen[order] = systematic(shares[order], count, generator)
    drawn = weighted.take(generator.permutation(np.repeat(np.arange(len(chosen)), chosen)))
    columns = [np.asarray(column) for column in drawn.columns]
    rows = np.stack(columns, axis=1).astype(np.uint16 if max(weighted.domain.shape) <= 1 << 16 else np.int64)
    targets, domain = target_tables(weighted, model), weighted.domain
    forbidden = [ForbiddenCells(clique, f.values < 0) for clique, f in zero_potentials(rules, domain).items()]
    measured = {answer.clique for answer in model.evidence.answers}
    refine_rows(rows, domain, [*targets, *forbidden], count / model.evidence.total, generator, measured)
    columns = [np.ascontiguousarray(rows[:, axis]) for axis in range(rows.shape[1])]
    return Dataset.from_codes(columns, weighted.domain, trusted=True)


def target_tables(weighted: Dataset, model: GroupedModel) -> list[TargetTable]:
    """Return the target tables: the measured ones, and the weighted records' or the model's tables of the other pairs.

    The tables of the weighted records have a sampling error besides the noise of what they were fitted to. Where there
    are many attributes, few pairs are measured, the junction tree has most of them, and this error would be the largest
    one; then the other pairs have the tables of the tree. The errors of all n other tables of an attribute are
    dependent, so the variance of each is multiplied by n.
    """
    evidence = model.evidence
    noise = {answer.clique: answer.noise() ** 2 for answer in evidence.answers}
    measured = _within(list(noise), evidence.domain, MOST_CELLS / 2)
    targets = [
        TargetTable(clique, table, noise[clique])
        for clique, table in zip(measured, model.tables(measured), strict=True)
    ]
    others = [pair for pair in combinations(evidence.noisy, 2) if pair not in noise]
    others = _within(others, evidence.domain, MOST_CELLS / 2 - sum(target.table.size for target in targets))
    if len(evidence.domain) > MANY_ATTRIBUTES:
        others = _cheapest(others, evidence.domain, MOST_PAIR_STEPS / max(1.0, evidence.total))
        found = model.tables(others)
    else:
        others = others if len(others) * weighted.records <= MOST_PROJECTED else []
        found = [factor.values for factor in weighted.project_many(others)] if others else []
    usual = float(np.median([noise[clique] for clique in measured])) if measured else 0.0
    drawn = evidence.total / _effective_size(weighted)
    together = Counter(name for pair in others for name in pair)
    return targets + [
        TargetTable((a, b), table, (usual + drawn * float(table.mean())) * (together[a] + together[b]) / 2)
        for (a, b), table in zip(others, found, strict=True)
    ]


def _effective_size(weighted: Dataset) -> float:
    """Return the effective sample size of weighted records (Kish 1965)."""
    assert weighted.weights is not None
    return float(weighted.weights.sum() ** 2 / np.square(weighted.weights).sum())


def _within(pairs: list[Clique], domain: Domain, cells: float) -> list[Clique]:
    """Return the pairs with the fewest cells, up to a total number of cells."""
    pairs = sorted(pairs, key=domain.size)
    sizes = np.cumsum([domain.size(pair) for pair in pairs])
    return pairs[: int(np.searchsorted(sizes, cells, side="right"))]


def _cheapest(pairs: list[Clique], domain: Domain, steps: float) -> list[Clique]:
    """Return the first pairs whose tables a sweep visits in at most this number of steps for each record."""
    spent = np.cumsum([sum(map(padded, domain.project(pair).shape)) for pair in pairs])
    return pairs[: int(np.searchsorted(spent, steps, side="right"))]


def refine_rows(
    rows: np.ndarray,
    domain: Domain,
    targets: Sequence[TargetTable | ForbiddenCells],
    scale: float,
    generator: np.random.Generator,
    measured: Collection[Clique] = (),
) -> None:
    """Refine records in place, sweep by sweep, until few codes change.

    If there are many attributes, and all targets are tables of pairs, a sweep visits one attribute after the other, or
    two at once on two threads.

    Args:
        rows: The codes of the records, shape (records, attributes).
        domain: The domain of the records.
        targets: The target tables, and cells that no record may enter.
        scale: The number of records per record of the data.
        generator: The random generator for the order of records or attributes.
        measured: The pairs whose attributes do not change at once, as then their own table does not count.
    """
    if not targets or len(domain) < 2:
        return
    pairs = [target for target in targets if isinstance(target, TargetTable) and len(target.clique) == 2]
    if len(domain) > MANY_ATTRIBUTES and len(pairs) == len(targets):
        apart = {frozenset(domain.axes(pair)) for pair in measured}
        return _refine_attributes(rows, domain, pairs, scale, generator, apart)
    descent = Descent.of(rows, domain, targets, scale)
    left, together = (max(1, int(steps / max(1.0, descent.steps))) for steps in (MOST_STEPS, STEPS_AT_ONCE))
    for _ in range(SWEEPS):
        order, changed = generator.permutation(len(rows))[:left], 0
        for start in range(0, len(order), together):
            if out_of_time():
                return
            changed += descent.sweep(rows, order[start : start + together])
        left -= len(order)
        if left <= 0 or changed <= STOPPING_SHARE * len(order) * len(domain):
            break


def _refine_attributes(
    rows: np.ndarray,
    domain: Domain,
    targets: Sequence[TargetTable],
    scale: float,
    generator: np.random.Generator,
    apart: Collection[frozenset[int]],
) -> None:
    """Refine records in place toward tables of pairs, attribute by attribute; see `refine_rows`."""
    wanted = [np.maximum(target.table, 0.0) * scale for target in targets]
    cliques, variances = [target.clique for target in targets], [target.variance * scale**2 for target in targets]
    descent = PairDescent.of(cliques, domain, wanted, variances)
    for _ in range(int(np.clip(MOST_SWEPT / max(1.0, descent.steps * len(rows)), 1, SWEEPS))):
        changed = 0
        for together in two_at_once(generator.permutation(len(domain)).tolist(), apart):
            if out_of_time():
                return
            changed += descent.change_together(rows, together)
        if changed <= STOPPING_SHARE * rows.size:
            break


def two_at_once(order: Iterable[int], apart: Collection[frozenset[int]]) -> list[list[int]]:
    """Return the attributes in groups of two that are not in `apart`; those without such a partner are alone.

    >>> two_at_once([3, 0, 1, 2], {frozenset((0, 3))})
    [[3, 1], [0, 2]]
    """
    left, found = list(order), []
    while left:
        one = left.pop(0)
        other = next((partner for partner in left if frozenset((one, partner)) not in apart), None)
        if other is not None:
            left.remove(other)
        found.append([one] if other is None else [one, other])
    return found
