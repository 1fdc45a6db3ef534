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
def refine(rows, order, sizes, first, links, costs, weights, gain):
    """Give each code of these records the value that lowers the weighted squared distance to all tables most.

    Each table lies once for each of its attributes a, the codes of a that go with codes b, c of the others next to each
    other: a link. The distance is the sum of w (count - target)^2. `costs` has what one more record in a cell would add
    to it, w (2 (count - target) + 1), `weights` has w. Returns the number of changes.

    rows: the records, shape (records, attributes), changed in place; order: the places of those to be looked at;
    first: the links of a are first[a] to first[a + 1]; links: rows of start, b, c (-1 for none), the number of codes of
    c, and the links of b and of c to the same table;
    gain: space for as many numbers as an attribute has values.
    """
    moved = 0
    for place in order:
        record = rows[place]
        for a in range(len(sizes)):
            n, old, own = sizes[a], np.int64(record[a]), np.float32(0.0)
            gain[:n] = 0.0
            for k in range(first[a], first[a + 1]):
                other = np.int64(record[links[k, 1]])
                if links[k, 2] >= 0:
                    other = other * links[k, 3] + np.int64(record[links[k, 2]])
                cell = links[k, 0] + other * n
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
            for k in range(first[a], first[a + 1]):
                other = np.int64(record[links[k, 1]])
                if links[k, 2] >= 0:
                    other = other * links[k, 3] + np.int64(record[links[k, 2]])
                there = links[k, 0] + other * n
                for v, sign in ((old, np.float32(-2.0)), (new, np.float32(2.0))):
                    step = sign * weights[there + v]
                    costs[there + v] += step
                    for peer in range(4, 6):
                        p = links[k, peer]
                        if p >= 0:
                            b = links[k, peer - 3]
                            with_a = np.int64(v)
                            if links[p, 2] >= 0:
                                third = links[p, 2] if links[p, 1] == a else links[p, 1]
                                code = np.int64(record[third])
                                with_a = v * links[p, 3] + code if links[p, 1] == a else code * links[p, 3] + v
                            costs[links[p, 0] + with_a * sizes[b] + np.int64(record[b])] += step
    return moved
