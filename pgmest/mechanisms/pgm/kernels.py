"""The compiled kernels that fit records to tables: weights moved, or codes changed, to match them."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined


@compiled
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


START, FIRST, SECOND, FIRST_STEP, SECOND_STEP, PEERS, PEER = range(7)
"""The columns of a link; there are two of PEER."""


@compiled
def refine(rows, order, sizes, first, links, costs, weights, gain):
    """Give each code of these records the value that lowers the weighted squared distance to all tables most.

    Each table lies once for each of its attributes a, the codes of a that go with codes b, c of the others next to each
    other: a link. The distance is the sum of w (count - target)^2. `costs` has what one more record in a cell would add
    to it, w (2 (count - target) + 1), `weights` has w. Returns the number of changes.

    rows: the records, shape (records, attributes), changed in place; order: the places of those to be looked at;
    first: the links of a are first[a] to first[a + 1]; gain: space for as many numbers as an attribute has values;
    links: unsigned, for then no index is checked for being negative, which would be three times as slow. Rows of start,
    b, c (b again for a pair), the steps of their codes (of c 0 for a pair), and how many links of others there are to
    the same table, with their numbers, in the order of b, c.
    """
    moved = 0
    for place in order:
        record = rows[place]
        for a in range(len(sizes)):
            n, old, own = np.uint64(sizes[a]), np.uint64(record[a]), np.float32(0.0)
            begin, end = np.uint64(first[a]), np.uint64(first[a + 1])
            for v in range(n):
                gain[v] = 0.0
            for k in range(begin, end):
                cell = _cell(record, links, k, n)
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
            for k in range(begin, end):
                cell = _cell(record, links, k, n)
                left, entered = np.float32(-2.0) * weights[cell + old], np.float32(2.0) * weights[cell + new]
                costs[cell + old] += left
                costs[cell + new] += entered
                for peer in range(links[k, PEERS]):
                    b, link = links[k, FIRST + peer], links[k, PEER + peer]
                    code, size = np.uint64(record[b]), np.uint64(sizes[b])
                    record[a] = old
                    costs[_cell(record, links, link, size) + code] += left
                    record[a] = new
                    costs[_cell(record, links, link, size) + code] += entered
            record[a] = new
    return moved


@inlined
def _cell(record, links, k, size):
    """Where the codes begin that go with those of the record's other attributes."""
    others = np.uint64(record[links[k, FIRST]]) * links[k, FIRST_STEP]
    return links[k, START] + size * (others + np.uint64(record[links[k, SECOND]]) * links[k, SECOND_STEP])
