"""The compiled kernels of the dual of local least squares: the best tables, and how far they disagree.

One pass over the measured cells makes the best table of each region and its sums onto the regions inside it, row by
row, and keeps no table. The largest attribute of a region lies along its rows, so an inner region has one multiplier
for a whole row, or one for each of its cells, in order.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined, reduction
from pgmest.solvers.local_plan import ALONG, CELLS_START, COLUMNS, EDGES, EDGES_END, ENTRIES, PART, ROWS, VARIANCE


@inlined
def _copy(row, values):
    for j in range(row.size):
        row[j] = values[j]


@inlined
def _add(row, values):
    for j in range(row.size):
        row[j] += values[j]


@reduction
def _best_row(row, y, variance):
    """From shifts to tau, in place; the sum of tau, and of (tau - y)^2."""
    total, squares = 0.0, 0.0
    for j in range(row.size):
        tau = y[j] - variance * row[j]
        tau = tau if tau > 0.0 else 0.0
        total += tau
        squares += (tau - y[j]) * (tau - y[j])
        row[j] = tau
    return total, squares


@reduction
def _best_varied_row(row, y, variances):
    """The same with a variance for each cell, by which the squares are divided."""
    total, squares = 0.0, 0.0
    for j in range(row.size):
        tau = y[j] - variances[j] * row[j]
        tau = tau if tau > 0.0 else 0.0
        total += tau
        squares += (tau - y[j]) * (tau - y[j]) / variances[j]
        row[j] = tau
    return total, squares


@compiled
def best_tables(
    begin: int,
    end: int,
    nodes: np.ndarray,
    edges: np.ndarray,
    entries: np.ndarray,
    target: np.ndarray,
    variance: np.ndarray,
    uniform: np.ndarray,
    multipliers: np.ndarray,
    levels: np.ndarray,
    buffer: np.ndarray,
    sums: np.ndarray,
    masses: np.ndarray,
    losses: np.ndarray,
    tables: np.ndarray,
) -> None:
    """For the regions from `begin` to `end`, tau = max(0, y - variance * shift): its sums, mass and loss.

    Args:
        nodes, edges, entries: the plan, by the columns of local_plan.py.
        target, variance: y and the variance, by cell.
        uniform: by region, the variance of all its cells.
        multipliers, levels: by cell of an edge, and by region; their sum in a cell is its shift.
        buffer: a row.
        sums: of tau, by cell of an edge; added to.
        masses, losses: by region, the sum of tau, and 1/2 sum (tau - y)^2 / variance.
        tables: tau by cell, where it is not empty.
    """
    for node in range(begin, end):
        columns, start = nodes[node, COLUMNS], nodes[node, CELLS_START]
        first, last = nodes[node, EDGES], nodes[node, EDGES_END]
        mass, loss = 0.0, 0.0
        row = buffer[:columns]
        for r in range(nodes[node, ROWS]):
            shift = levels[node]
            for e in range(first, last):
                if edges[e, ALONG] == 0:
                    shift += multipliers[edges[e, PART] + entries[edges[e, ENTRIES] + r]]
            row[:] = shift
            for e in range(first, last):
                if edges[e, ALONG] == 1:
                    at = edges[e, PART] + entries[edges[e, ENTRIES] + r]
                    _add(row, multipliers[at : at + columns])
            cells = start + r * columns
            y = target[cells : cells + columns]
            if nodes[node, VARIANCE] < 0:
                total, squares = _best_row(row, y, uniform[node])
                squares /= uniform[node]
            else:
                at = nodes[node, VARIANCE] + r * columns
                total, squares = _best_varied_row(row, y, variance[at : at + columns])
            mass += total
            loss += 0.5 * squares
            for e in range(first, last):
                at = edges[e, PART] + entries[edges[e, ENTRIES] + r]
                if edges[e, ALONG] == 0:
                    sums[at] += total
                else:
                    _add(sums[at : at + columns], row)
            if tables.size:
                _copy(tables[cells : cells + columns], row)
        masses[node] = mass
        losses[node] = loss


@compiled
def centered(spaces: np.ndarray, scales: np.ndarray, parts: np.ndarray, out: np.ndarray) -> None:
    """Divide the parts of each overlap by their scales, and take away their mean.

    Args:
        spaces: by overlap, where its parts start, how many there are, the cells of each, and where its scales start.
        scales: by part.
        parts, out: by cell of a part.
    """
    for space in range(len(spaces)):
        start, count, cells, first = spaces[space]
        for c in range(cells):
            mean = 0.0
            for k in range(count):
                at = start + k * cells + c
                out[at] = parts[at] / scales[first + k]
                mean += out[at]
            mean /= count
            for k in range(count):
                out[start + k * cells + c] -= mean


@compiled
def disagreement(
    spaces: np.ndarray, scales: np.ndarray, owned: np.ndarray, sums: np.ndarray, slopes: np.ndarray, means: np.ndarray
) -> float:
    """The largest L1 distance of a part from the table that its overlap agrees on.

    Args:
        spaces, scales: as for `centered`.
        owned: by overlap, whether its last part is a measured table of its own, which the others are compared with;
            else with their mean.
        sums: by cell of a part.
        slopes: written: sums less their mean, over the scales.
        means: written: the mean, by cell of an overlap, one after the other.
    """
    worst, place = 0.0, 0
    for space in range(len(spaces)):
        start, count, cells, first = spaces[space]
        agreed = means[place : place + cells]
        agreed[:] = 0.0
        for k in range(count):
            for c in range(cells):
                agreed[c] += sums[start + k * cells + c]
        for c in range(cells):
            agreed[c] /= count
        for k in range(count):
            at = start + k * cells
            for c in range(cells):
                slopes[at + c] = (sums[at + c] - agreed[c]) / scales[first + k]
        if owned[space]:
            _copy(agreed, sums[start + (count - 1) * cells : start + count * cells])
        for k in range(count):
            distance = 0.0
            for c in range(cells):
                distance += abs(sums[start + k * cells + c] - agreed[c])
            worst = max(worst, distance)
        place += cells
    return worst
