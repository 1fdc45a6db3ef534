"""The columns of a contraction's steps and of their operands, and the kinds of steps (see contraction_kernels.py)."""

(
    KIND,  # one of the kinds below
    FIRST,  # row of its first table in the array of sides
    KEPT,  # SMALL, MATRICES: cells of the axes that both factors and the result have
    ROWS,  # cells of the axes that the first factor and the result have
    SUMMED,  # cells of the axes that only the factors have
    COLUMNS,  # cells of the axes that the second factor and the result have
    INNER,  # WEIGHT, TIMES: the class of the last axes of the table, one of those below
    N_OUT,  # WEIGHT, TIMES, PACK: rows of the table
    N_IN,  # WEIGHT, TIMES, PACK: cells of a row
    OUTER,  # WEIGHT, TIMES: start, in the maps, of the offset of each row in the result; PACK: in the table
    OTHER,  # WEIGHT, TIMES: start, in the maps, of the offset of each row in the second factor; PACK: of summed cells
    OTHERS,  # PACK: number of summed cells, each of which begins a run
    COLUMN,  # PACK: start, in the maps, of the offset of each cell of a row, -1 if these are consecutive
    RUN,  # PACK: number of consecutive cells that are summed
    SCALE,  # SCALE: number of its scale; WEIGHT: number of the result's scale, or -1
    ROOT,  # SCALE: 1 if the table is the single sum of a root
    N_STEP,
) = range(17)

(
    AT,  # start of the table's values
    MEASURED,  # 1: in the output, 0: in the workspace
    CELLS,  # number of cells
    GRADIENT,  # start of its gradient in the workspace, -1 without a gradient
    STARTS,  # start, in the maps, of the offsets of MATRICES: each matrix; SMALL: each of the cells that are not kept
    N_STARTS,  # number of these offsets
    STRIDE,  # MATRICES: distance from one row (or column, if transposed) to the next
    TRANSPOSED,  # MATRICES: 1 if the cells of a column of the matrix are consecutive, 0 if those of a row are
    KEPT_OUTER,  # SMALL: start, in the maps, of the offsets of the outer axes of the kept cells
    N_KEPT_OUTER,
    KEPT_INNER,  # SMALL: start, in the maps, of the offsets of the inner axes, -1 if these cells are consecutive
    N_KEPT_INNER,
    PIECES,  # SMALL: start of the space for one block of kept cells of all groups, and for their gradients
    N_SIDE,
) = range(14)

(
    POTENTIAL,  # the exponential of a measured clique's potential; in the downward sweep its marginal
    WEIGHT,  # the exponential of a measured clique's potential times a table of some of its axes (or 1), summed
    MATRICES,  # matrix products, by BLAS
    SMALL,  # products that sum over few cells
    TIMES,  # a table times a table of some of its axes, summed
    PACK,  # axes are summed out and the others transposed
    SCALE_BY_MAXIMUM,  # a message is divided by its maximum, if that is far from 1
) = range(7)

(
    ALONE,  # axes of the table only, which are summed out; not in TIMES
    OWN,  # axes of the table and the result
    SHARED,  # axes of the table and the second factor, which are summed out
    COMMON,  # axes of all three
) = range(4)
