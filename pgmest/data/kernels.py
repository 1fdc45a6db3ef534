"""The compiled kernel that counts many marginals at once."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled


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
