"""The columns of the arrays of regions and edges that the kernels of local least squares read (local_kernels.py)."""

(
    CELLS_START,  # the start of the region's cells
    ROWS,  # the number of rows
    COLUMNS,  # the number of cells of a row
    EDGES,  # the first edge of the region
    EDGES_END,  # one past its last edge
    VARIANCE,  # the start of its variances; -1 if all its cells have the same variance
    N_NODE,
) = range(7)

(
    PART,  # the start of the multipliers of this edge, and of its sums
    ALONG,  # 1 if a row has one multiplier per cell, 0 if it has a single multiplier
    ENTRIES,  # the start of the entries of its rows in the map
    N_EDGE,
) = range(4)
