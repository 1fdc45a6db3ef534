"""The columns of a schedule's tables, and the values of its flags (schedule.py explains them)."""

(
    KIND,  # the operation on the cells (below)
    KEPT,  # entries of the result
    KEPT_LOW,  # entries of the kept axes that the low maps number
    REDUCED,  # cells that are reduced to one entry
    REDUCED_LOW,  # cells of the reduced axes that the low maps number
    LOOKUP,  # 1: some operand needs the maps of the kept axes
    LANES_LOG,  # log2 of how many threads share an entry
    ACROSS_LOG,  # log2 of how many entries a block of threads takes at once
    STRIDED,  # 1: neighboring threads take neighboring entries; 0: neighboring cells of an entry
    PARTS,  # how many blocks share an entry
    CHUNK,  # cells of an entry that one block takes
    PARTIAL,  # start of the results of the parts, in the workspace
    FIRST,  # the first operand of the sum
    LAST,  # past the last one
    OUT,  # the operand that receives the entries, -1 for none
    FACTOR,  # distance in the workspace from an entry to the factor that it is multiplied by; 0 for no factor
    WRITE,  # the operand that receives each cell's marginal, -1 for none
    OWN,  # the operand that maps a cell to its entry of the node's separator, -1 for none
    PEAK,  # start of the largest potential of each separator entry
    INVERSE,  # start of 1 / Z of each separator entry
    WEIGHT,  # start of marginal / Z of each separator entry, -1 at a root
    ROOT,  # number of the root whose message is part of the log-partition function, -1 for none
    N_PASS_FIELDS,
) = range(23)

(
    LOG_SUM,  # message = log of the sum of exp, keeping the peak and 1 / Z
    MERGE,  # the same from the results of parts; the kinds below are not logarithmic
    TABLE,  # the sum of the operands, cell by cell
    SPREAD,  # marginal of each cell = exp(T - peak) * weight, summed onto entries
    SUM,  # the cells of one operand, summed onto entries
) = range(5)

(
    START,  # where the operand's table starts in its space
    SPACE,  # the array that holds it (below)
    KEPT_STRIDE,  # distance between entries, -1: by the maps
    KEPT_HIGH,  # start of the map of the high part of an entry's number
    KEPT_LOW_MAP,  # start of the map of its low part
    REDUCED_STRIDE,  # distance between the cells of an entry, -1: by the maps
    REDUCED_HIGH,
    REDUCED_LOW_MAP,
    N_OPERAND_FIELDS,
) = range(9)

WORK, THETA, MU = range(3)

N_BLOCK_FIELDS = 3  # pass, tile of its entries, part
