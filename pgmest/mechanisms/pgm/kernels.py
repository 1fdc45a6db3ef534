"""The compiled kernels that fit records to tables: weights moved, or codes changed, to match them."""

from __future__ import annotations

import numpy as np

from pgmest.inference.exact.kernels import _cached


@_cached
def rake(rows, columns, width, weights, target, counts, power, most):
    """Multiply each record's weight by (target / counts)^power of its cell; the l1 distance before.

    rows, columns: the row and the column of each record's cell, in a table with `width` columns.
    target: of each cell; counts: space for as many numbers. Ratios are at most `most`, and at least its inverse.
    """
    counts[:] = 0.0
    for i in range(len(weights)):
        counts[np.int64(rows[i]) * width + columns[i]] += weights[i]
    distance = 0.0
    for c in range(len(counts)):
        distance += abs(target[c] - counts[c])
        if counts[c] > 0:
            counts[c] = min(most, max(1.0 / most, target[c] / counts[c])) ** power
    for i in range(len(weights)):
        weights[i] *= counts[np.int64(rows[i]) * width + columns[i]]
    return distance


@_cached
def refine(rows, order, sizes, starts, costs, weights, gain):
    """Give each code of these records the value that lowers the weighted squared distance to all tables most.

    Table (a, b) lies at starts[a, b], the codes of a that go with a code of b next to each other; -1 where there is no
    table. The distance is the sum of w (count - target)^2. `costs` has what one more record in a cell would add to it,
    w (2 (count - target) + 1), `weights` has w; both lie twice, as (a, b) and as (b, a). Returns the number of changes.

    rows: the records, shape (records, attributes), changed in place; order: the places of those to be looked at;
    gain: space for as many numbers as an attribute has values.
    """
    moved = 0
    for place in order:
        record = rows[place]
        for a in range(len(sizes)):
            n, old, own = sizes[a], np.int64(record[a]), np.float32(0.0)
            gain[:n] = 0.0
            for b in range(len(sizes)):
                if starts[a, b] >= 0:
                    cell = starts[a, b] + np.int64(record[b]) * n
                    for v in range(n):
                        gain[v] += costs[cell + v]
                    own += weights[cell + old]
            new, least = old, gain[old] - np.float32(2.0001) * own  # where it is costs less once it has left
            for v in range(n):
                if v != old and gain[v] < least:
                    new, least = v, gain[v]
            if new == old:
                continue
            moved += 1
            record[a] = new
            for b in range(len(sizes)):
                if starts[a, b] >= 0:
                    code = np.int64(record[b])
                    there, back = starts[a, b] + code * n, starts[b, a] + code
                    for v, sign in ((old, np.float32(-2.0)), (new, np.float32(2.0))):
                        step = sign * weights[there + v]
                        costs[there + v] += step
                        costs[back + v * sizes[b]] += step
    return moved
