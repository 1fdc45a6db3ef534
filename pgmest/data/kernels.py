"""The compiled kernels that count many marginals at once."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined


@compiled
def count_tables(codes, members, widths, sizes, starts, begin, end, cells, counts):
    """Add some records to the tables of the cliques [begin, end), of at least two attributes each.

    codes: shape (attributes, records); members: the rows of a clique's attributes, of which it has as many as widths
    says; sizes: of each attribute; starts: where its table starts in counts; cells: room for a number a record. Numbers
    are unsigned, so that no index is checked for being negative.
    """
    records = codes.shape[1]
    for clique in range(begin, end):
        start, last = starts[clique], widths[clique] - 1
        rows, columns = codes[members[clique, 0]], codes[members[clique, last]]
        size = sizes[members[clique, last]]
        if last == 1:
            for i in range(records):
                counts[start + np.uint64(rows[i]) * size + np.uint64(columns[i])] += 1
            continue
        for i in range(records):
            cells[i] = rows[i]
        for j in range(1, last):
            middle, factor = codes[members[clique, j]], np.uint32(sizes[members[clique, j]])
            for i in range(records):
                cells[i] = cells[i] * factor + middle[i]
        for i in range(records):
            counts[start + np.uint64(cells[i]) * size + np.uint64(columns[i])] += 1


@inlined
def _sum_rows(table, cells, other, row_of, sides, rows):
    """rows[r, :] = the sum of the rows of a joint table in which an attribute of the first group has the code r."""
    rows[: sides * other] = 0
    for c in range(cells):
        begin, end = np.uint64(row_of[c]) * np.uint64(other), np.uint64(c) * np.uint64(other)
        into, held = rows[begin : begin + np.uint64(other)], table[end : end + np.uint64(other)]
        for d in range(other):
            into[d] += held[d]


@compiled
def count_groups(codes, tasks, sizes, pairs, widths, digits, table, rows, counts):
    """Add some records to the tables of pairs across groups of attributes, by the joint table of each two groups.

    codes: shape (groups, records), a byte each; tasks, each two groups, and its first pair and the one after its last;
    sizes: the joint codes of each group; pairs: an attribute of the first group, one of the second, where the table
    starts in counts, and how far apart the codes of each lie in it; widths: the codes of each attribute; digits: the
    code of an attribute in each joint code of its group; table, rows: space for joint tables.
    """
    for task in range(len(tasks)):
        one, two, begin, end = tasks[task]
        cells, other = sizes[one], sizes[two]
        left, right, step = codes[one], codes[two], np.uint64(other)
        if one == two:  # the joint table of a group with itself is diagonal
            table[:cells] = 0
            for i in range(len(left)):
                table[np.uint64(left[i])] += np.uint32(1)
            for p in range(begin, end):
                a, b, start, by_a, by_b = pairs[p]
                for c in range(cells):
                    counts[start + np.int64(digits[a, c]) * by_a + np.int64(digits[b, c]) * by_b] += table[c]
            continue
        table[: cells * other] = 0
        for i in range(len(left)):
            table[np.uint64(left[i]) * step + np.uint64(right[i])] += np.uint32(1)
        summed = -1
        for p in range(begin, end):
            a, b, start, by_a, by_b = pairs[p]
            if a != summed:
                _sum_rows(table, cells, other, digits[a], widths[a], rows)
                summed = a
            for r in range(widths[a]):
                at, row = start + r * by_a, rows[r * other : (r + 1) * other]
                for d in range(other):
                    counts[at + np.int64(digits[b, d]) * by_b] += row[d]
