"""The columns of a contraction's steps and of their tables, and the kinds of steps (see contraction_kernels.py)."""

(
    KIND,  # which of the kinds below
    FIRST,  # where the first of its tables is described, in the sides
    KEPT,  # SMALL, MATRICES: cells of the axes that both factors and the result have
    ROWS,  # cells of the axes that the first factor and the result have
    SUMMED,  # cells of the axes that only the factors have
    COLUMNS,  # cells of the axes that the second factor and the result have
    INNER,  # WEIGHT, TIMES: what the last axes of the table are, one of the classes below
    N_OUT,  # WEIGHT, TIMES, PACK: rows of the table
    N_IN,  # WEIGHT, TIMES, PACK: cells of a row
    OUTER,  # WEIGHT, TIMES: start of the place of each row in the result, in the maps; PACK: in the table
    OTHER,  # WEIGHT, TIMES: start of the place of each row in the second factor; PACK: of each summed cell
    OTHERS,  # PACK: how many summed cells there are, without those of a run
    COLUMN,  # PACK: start of the place of each cell of a row, in the maps, -1 where these are consecutive
    RUN,  # PACK: how many consecutive cells are summed
    SCALE,  # SCALE: number of its scale; WEIGHT: number of the result's scale, or -1
    ROOT,  # SCALE: 1 where the table is the one sum of a root
    N_STEP,
) = range(17)

(
    AT,  # start of the table's values
    MEASURED,  # 1: in the output, 0: in the workspace
    CELLS,  # how many cells
    GRADIENT,  # start of its gradient in the workspace, -1 if there is none
    STARTS,  # MATRICES: where each kept cell's matrix begins; SMALL: each group of rows, columns and summed cells
    N_STARTS,  # how many these are
    STRIDE,  # MATRICES: from one row (or column, if transposed) to the next
    TRANSPOSED,  # MATRICES: 1 if the rows of the matrix are consecutive rather than its columns
    KEPT_OUTER,  # SMALL: start of the places of the kept cells' outer axes, in the maps
    N_KEPT_OUTER,
    KEPT_INNER,  # SMALL: start of those of the inner axes, -1 where these cells are consecutive
    N_KEPT_INNER,
    PIECES,  # SMALL: room for the cells of all groups at some kept cells, and for their gradients
    N_SIDE,
) = range(14)

(
    POTENTIAL,  # the exponential of a measured clique's potential; on the way down its marginal
    WEIGHT,  # the same, times a table of some of its axes (or nothing), summed
    MATRICES,  # products of matrices, by BLAS
    SMALL,  # products that sum over few cells
    TIMES,  # a table times a table of some of its axes, summed
    PACK,  # axes summed out and brought into another order
    SCALE_BY_MAXIMUM,  # a message is divided by its maximum, where it is far from 1
) = range(7)

(
    ALONE,  # only the table has these axes, and they are summed out; not in TIMES
    OWN,  # the table and the result
    SHARED,  # the table and the second factor; they are summed out
    COMMON,  # all three
) = range(4)
