"""The compiled kernel of Algorithm 4: where to cut a box of a marginal in two."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled


@compiled
def best_cut(cells):
    """Return the cut of the rows into two uniform parts with the least l1 error.

    Args:
        cells: the counts, shape (rows, others), with at least two rows.

    Returns:
        The first row of the second part, the error of the first part, and the error of the second part.
    """
    rows, width = cells.shape
    whole = 0.0
    for r in range(rows):
        for c in range(width):
            whole += cells[r, c]
    cut, lower_error, upper_error, lower_sum = 0, np.inf, np.inf, 0.0
    for j in range(1, rows):
        for c in range(width):
            lower_sum += cells[j - 1, c]
        lower, upper = lower_sum / (j * width), (whole - lower_sum) / ((rows - j) * width)
        below, above = 0.0, 0.0
        for r in range(j):
            for c in range(width):
                below += abs(cells[r, c] - lower)
        for r in range(j, rows):
            for c in range(width):
                above += abs(cells[r, c] - upper)
        if below + above < lower_error + upper_error:
            cut, lower_error, upper_error = j, below, above
    return cut, lower_error, upper_error
