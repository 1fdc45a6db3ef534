"""The columns of the node table of a propagation plan, and the values of its flags (explained in kernels.py)."""

(
    PARENT,  # the node that receives this node's message, -1 for a root
    SLOT,  # 1 for a slot node, 0 for a clique node
    N_OUT,  # rows of the table
    N_IN,  # cells of a row
    CELLS,  # N_OUT * N_IN
    SEPARATOR,  # entries of the message and of the marginal from the parent; CELLS for a slot
    RESIDUAL,  # CELLS / SEPARATOR
    FIRST,  # 1: separator axes first in the table, 0: last
    BASE,  # start of the potential that has exactly this table's axes in the flat potentials, -1 without one
    TABLE,  # start of exp(T - m) in the arena; -1 if it lies in the output (BASE >= 0), is streamed, or for a slot
    PEAK,  # start of m, the largest T per separator entry; equal to MARGINAL unless the node is streamed
    MESSAGE,  # start of the log message: in the arena, or in the flat potentials
    MESSAGE_IN_THETA,  # 1 if a slot's message is its unchanged potential
    WEIGHT,  # start of Z, then 1 / Z in the upward sweep, and marginal / Z in the downward sweep
    MARGINAL,  # start of the marginal received from the parent
    UP_KIND,  # arrangement of the separator entries along the parent's rows (see below)
    UP_BLOCK,  # length of a block: REPEATED and TILED only
    UP_OUTER,  # start of the entry of each of the parent's rows, in the maps
    UP_INNER,  # start of the entry of each of the parent's columns, in the maps
    CHILDREN,  # first child, in the list of children
    CHILDREN_END,  # past the last child
    SPREAD,  # start of the children's marginals, which are stored one after the other
    SPREAD_SIZE,  # cells of all the children's marginals
    ROW,  # length of one row buffer, the same for all nodes
    N_FIELDS,
) = range(25)

(
    CONSTANT,  # one entry for the whole row
    CONTIGUOUS,  # consecutive entries
    REPEATED,  # consecutive entries, each for a block of UP_BLOCK cells
    TILED,  # UP_BLOCK consecutive entries, repeated
    GENERAL,  # any entries, through a map
) = range(5)
