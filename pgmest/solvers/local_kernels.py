"""The compiled kernels of the dual of local least squares: the best tables, and their disagreement.

One pass over the measured cells computes the best table of each region and its marginals on the inner regions, row by
row, without storing tables. The largest attribute of a region runs along its rows. Therefore an inner region has either
one multiplier for a whole row, or one for each cell of the row, in order.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined, reduction
from pgmest.solvers.local_columns import ALONG, CELLS_START, COLUMNS, EDGES, EDGES_END, ENTRIES, PART, ROWS, VARIANCE


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
    """Replace shifts by tau; return the sum of tau, and the sum of (tau - y)^2."""
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
    """Replace shifts by tau; return the sum of tau, and the sum of (tau - y)^2 / variance, by cell."""
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
    """Compute tau = max(0, y - variance * shift) for the regions from `begin` to `end`, with its marginals and loss.

    Args:
        begin, end: the first region, and one past the last.
        nodes, edges, entries: the regions and edges (columns: local_columns.py), and the map of rows to edge cells.
        target, variance: y and the variance, by cell.
        uniform: the variance of all cells of a region, by region.
        multipliers, levels: the multipliers by cell of an edge, and by region; the shift of a cell is their sum.
        buffer: room for one row.
        sums: output, the marginals of tau by cell of an edge; added to.
        masses, losses: output, by region: the sum of tau, and 1/2 sum (tau - y)^2 / variance.
        tables: output, tau by cell; not written if empty.
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
    """Divide the parts of each overlap by their scales, and subtract their mean.

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
    """Return the largest L1 distance of a part from the agreed table of its overlap.

    Args:
        spaces, scales: as for `centered`.
        owned: by overlap, whether its last part is a measured table of the overlap. Then that table is the agreed one;
            otherwise the mean of the parts is.
        sums: the marginals, by cell of a part.
        slopes: output, (sums - mean) / scale, by cell of a part.
        means: output, the agreed tables, by cell of an overlap, one overlap after the other.
    """
    worst, offset = 0.0, 0
    for space in range(len(spaces)):
        start, count, cells, first = spaces[space]
        agreed = means[offset : offset + cells]
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
        offset += cells
    return worst
