"""The contribution of each family to each noisy answer of a run, as a sparse matrix with a row for each family.

A noisy answer is the sum of these rows over all families, plus noise, so it is linear in how many families there are of
each kind. That holds for lengths as they were measured, and needs no ratio of counts to lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.linked.families import MEMBER, Families, shares
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.lengths import MeasuredLengths, asked_cells
from pgmest.mechanisms.linked.numbers import MeasuredNumbers
from pgmest.mechanisms.linked.pairing import MOST_ALL, MOST_COUNTED, NEAR


@dataclass(frozen=True, eq=False)
class NoisyAnswer:
    """A noisy answer, and what families add to it.

    Attributes:
        values: the noisy numbers, shape (numbers,).
        stddev: the standard deviation of their noise, one or one for each.
        rows: returns what each of some families adds, a sparse matrix of shape (families, numbers).
        total: returns what all of some families add, shape (numbers,), in less time.
    """

    values: np.ndarray
    stddev: Any
    rows: Callable[[Families], Any]
    total: Callable[[Families], np.ndarray]


def noisy_answers(model: FamilyModel) -> Iterator[NoisyAnswer]:
    """Yield all noisy answers of a run."""
    for measurement in model.above:
        rows, total = (partial(add, measurement=measurement) for add in (_rows_above, _total_above))
        yield NoisyAnswer(measurement.values, measurement.stddev, rows, total)
    for answer in model.lengths:
        cells = asked_cells(model.layout, answer.clique, answer.groups)
        rows, total = (partial(add, answer=answer, cells=cells) for add in (_rows_of_lengths, _total_of_lengths))
        yield NoisyAnswer(answer.values.ravel()[cells], answer.stddev, rows, total)
    for answer in model.numbers:
        rows, total = (partial(add, answer=answer) for add in (_rows_of_numbers, _total_of_numbers))
        yield NoisyAnswer(answer.values.ravel(), answer.stddev, rows, total)


def _rows_above(families: Families, measurement: LinearMeasurement) -> Any:
    from scipy import sparse

    layout, query = families.layout, measurement.query
    shape = [layout.domain[name] for name in measurement.clique]
    cells = _cells([families.parents[:, layout.place(name)] for name in measurement.clique], shape, len(families.sizes))
    if query is None:
        return _counted(np.arange(len(cells)), cells, len(cells), math.prod(shape))
    matrix = sparse.csc_matrix(np.asarray(query.in_order(measurement.clique).matrix(), dtype=np.float64))
    return matrix[:, cells].T.tocsr()


def _total_above(families: Families, measurement: LinearMeasurement) -> np.ndarray:
    table, query = families.above(measurement.clique), measurement.query
    return np.ravel(table if query is None else query.in_order(measurement.clique).apply(table))


def _rows_of_lengths(families: Families, answer: MeasuredLengths, cells: np.ndarray) -> Any:
    layout, clique, groups = families.layout, answer.clique, answer.groups
    shape = [int(labels[-1]) + 1 for labels in groups]
    across, two = layout.is_across(clique), len(clique) == 2
    alike = layout.are_alike(clique, groups)
    if across and two:
        one, other = _pairs(families)
        kept = other >= one if alike and not answer.averaged else np.ones(len(one), dtype=bool)
        items = one[kept], other[kept]
    else:
        kept = np.ones(len(families.children), dtype=bool)
        if across:  # of families with several children, of children in order all but the first
            kept &= families.sizes[families.owners] > 1
            kept[families.first[families.sizes > 0]] &= not layout.ordered
        items = (np.flatnonzero(kept),) * 2
    columns = []
    for place, (name, labels) in enumerate(zip(clique, groups, strict=True)):
        item = items[place if across and two else 0]
        codes, at = families.children, item
        if layout.kind(name) < MEMBER:
            codes, at = families.parents, families.owners[item]
        columns.append(labels[codes[at, layout.place(name)]])
    if alike:
        columns = [np.minimum(*columns), np.maximum(*columns)]
    owners = families.owners[items[0]]
    counts = _counted(owners, _cells(columns, shape, len(owners)), len(families.sizes), math.prod(shape))
    share = shares(layout.at_most, pairs=across and two and not layout.ordered)[families.sizes]
    if answer.averaged:
        rows = _times(counts, share)[:, cells]
        halves = (cells // shape[-1] != cells % shape[-1]) if alike else np.zeros(len(cells), dtype=bool)
        return _times(rows.T, np.where(halves, 0.5, 1.0)).T.tocsr()
    return _times(counts, _weights(counts, answer.cut, share if across else 1.0))[:, cells]


def _total_of_lengths(families: Families, answer: MeasuredLengths, cells: np.ndarray) -> np.ndarray:
    return families.tables(answer.clique, answer.groups, answer.cut)[int(answer.averaged)].ravel()[cells]


def _rows_of_numbers(families: Families, answer: MeasuredNumbers) -> Any:
    place, codes = families.layout.place(answer.name), families.layout.domain[answer.name] - 1
    counts = _counted(families.owners, families.children[:, place], len(families.sizes), codes)
    owners = np.repeat(np.arange(len(families.sizes)), np.diff(counts.indptr))
    cells = counts.indices * MOST_COUNTED + np.minimum(counts.data, MOST_COUNTED).astype(np.int64) - 1
    found = _counted(owners, cells, len(families.sizes), codes * MOST_COUNTED)
    return _times(found, _weights(found, answer.cut, 1.0))


def _total_of_numbers(families: Families, answer: MeasuredNumbers) -> np.ndarray:
    return families.numbers(answer.name, answer.cut)[0].ravel()


def _pairs(families: Families) -> tuple[np.ndarray, np.ndarray]:
    """Return the two children of each ordered pair that counts, as the kernels of `Families.tables` take them."""
    sizes, owners = families.sizes, families.owners
    if families.layout.ordered:
        one = np.flatnonzero(np.append(owners[1:] == owners[:-1], False)) if len(owners) else owners
        return one, one + 1
    size = sizes[owners]
    partners = np.where(size <= MOST_ALL, size - 1, 2 * NEAR)
    one = np.repeat(np.arange(len(owners)), partners)
    turn = np.arange(len(one)) - (np.cumsum(partners) - partners)[one]
    whole, first = size[one], families.first[owners[one]]
    step = np.where((whole <= MOST_ALL) | (turn < NEAR), 1 + turn, whole - 1 - (turn - NEAR))
    return one, first + (one - first + step) % np.maximum(whole, 1)


def _cells(columns: Sequence[np.ndarray], shape: Sequence[int], rows: int) -> np.ndarray:
    """Return the cell of each row, row-major."""
    found = np.zeros(rows, dtype=np.int64)
    for column, size in zip(columns, shape, strict=True):
        found = found * size + column
    return found


def _counted(owners: np.ndarray, cells: np.ndarray, families: int, numbers: int) -> Any:
    """Return how often each family has each cell, as a sparse matrix."""
    from scipy import sparse

    found = sparse.csr_matrix((np.ones(len(cells)), (owners, cells)), (families, numbers))
    found.sum_duplicates()
    return found


def _weights(counts: Any, cut: float, share: Any) -> np.ndarray:
    """Return the weight of each family's counts: 1 over their length, or less where this is longer than the cut."""
    lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    own = 1 / np.maximum(lengths, 1e-300)
    return np.minimum(share / cut, own) if cut else own


def _times(matrix: Any, weights: np.ndarray) -> Any:
    """Return the rows of a matrix times a weight each."""
    from scipy import sparse

    return (sparse.diags(weights) @ matrix).tocsr()
