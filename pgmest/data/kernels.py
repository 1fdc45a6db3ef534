"""The compiled kernel that counts many pairs of columns at once."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled


@compiled
def count_pairs(codes, first, second, starts, sizes, begin, end, counts):
    """Add some records to the tables of the pairs [begin, end).

    codes: shape (attributes, records); first, second: the rows of a pair's attributes; starts: where its table starts
    in counts; sizes: the number of its columns. Numbers are unsigned, so that no index is checked for being negative.
    """
    for pair in range(begin, end):
        rows, columns = codes[first[pair]], codes[second[pair]]
        start, size = starts[pair], sizes[pair]
        for i in range(len(rows)):
            counts[start + np.uint64(rows[i]) * size + np.uint64(columns[i])] += 1
