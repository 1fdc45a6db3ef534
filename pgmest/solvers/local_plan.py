"""The columns of the plan that the kernels of local least squares run (local_kernels.py)."""

(
    CELLS_START,  # where the region's cells start
    ROWS,
    COLUMNS,  # cells of a row
    EDGES,  # the first of its inner regions
    EDGES_END,  # past the last
    VARIANCE,  # where its variances start, -1 where all are the same
    N_NODE,
) = range(7)

(
    PART,  # where the multipliers of this edge start, and its sums
    ALONG,  # 1 where they lie along the row, 0 where one holds for all of it
    ENTRIES,  # where the entries of its rows start in the map
    N_EDGE,
) = range(4)
