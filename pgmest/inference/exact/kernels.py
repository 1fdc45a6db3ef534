"""The compiled kernels that run a propagation plan.

A plan (propagation_plan.py) describes one problem by arrays: a row of `nodes` per node of its tree, index maps, and one
float64 arena for all intermediate tables. These kernels are compiled once per installation and run every plan.

Each node holds a table over its attributes. A *clique* node sums its residual attributes R out onto its separator S;
a *slot* node has no residual: it is a measured clique inside a larger one, and its message is its table. A table is
processed in rows: `N_OUT` rows of `N_IN` consecutive cells. For a node over (x, y, s) with separator (s):

    table  (LAST: separator axes last)     message to the parent, and marginal from it
    row 0: x0 y0 | s0 s1 s2 s3             s0 s1 s2 s3      one entry per column
    row 1: x0 y1 | s0 s1 s2 s3
    row 2: x1 y0 | s0 s1 s2 s3             FIRST: separator axes first; then a whole row
    row 3: x1 y1 | s0 s1 s2 s3             belongs to one separator entry

and the arena of that node and its neighbors:

    | messages of all nodes (x 2) | marginals of all separators (x 2) | weight | table | ... | row buffers |

A child's message is added to a row in one of a few ways (plan_columns.py): the whole row takes one entry, or the
entries are consecutive, or in the worst case they are looked up: entry `outer[row] + inner[column]`. Both maps are
short, because they hold one entry per row and one per column rather than one per cell.

Upward, children first: T = potential + sum of messages; m(s) = max_r T; table = exp(T - m) in [0, 1];
Z(s) = sum_r table >= 1; log message = m + log Z. Downward, parents first: weight(s) = marginal(s) / Z(s) and the
marginal of the clique is table * weight: conditional times marginal, without a division or a second exponential. The
shift m is per separator entry, so potentials of any size do not underflow where it matters, and -inf stays an exact
zero. A table is stored in one of three ways. The table of a measured clique lies in the output `mu`, which first holds
exp(T - m) and then, multiplied in place, the marginal. Other tables lie in the arena. The table of a streamed node
(TABLE and BASE are -1) is not stored: its rows are recomputed whenever they are needed.

The operations on one row of a node are in node_row_kernels.py, and the derivative of the marginals in
covariance_kernels.py.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled
from pgmest._base.elementary_kernels import log
from pgmest.inference.exact.node_row_kernels import (
    arena_start,
    exponentiate_and_sum,
    exponentiate_row,
    fill_row,
    is_streamed,
    marginal_row,
    multiply,
    raise_separator,
    separator_entry,
    set_all,
    set_sum,
    slot_message,
    slot_spread,
    spread_row,
    sum_row,
    weigh_row,
)
from pgmest.inference.exact.plan_columns import (
    BASE,
    FIRST,
    MARGINAL,
    MESSAGE,
    N_IN,
    N_OUT,
    PARENT,
    PEAK,
    SEPARATOR,
    SLOT,
    SPREAD,
    SPREAD_SIZE,
    WEIGHT,
)

# -- rows [begin, end) of one clique: the work that is divided between threads --------------------------------------


@compiled
def clique_max(nodes, children, maps, i, begin, end, theta, mu, arena, largest, buffer):
    """Write T to the table, and its maximum over the residual to arena[largest + s]."""
    n_in, base = nodes[i, N_IN], nodes[i, BASE]
    set_all(arena[largest : largest + nodes[i, SEPARATOR]], -np.inf)
    for o in range(begin, end):
        start = base + o * n_in if base >= 0 else arena_start(nodes, i, o, buffer)
        row = mu[start : start + n_in] if base >= 0 else arena[start : start + n_in]
        fill_row(nodes, children, maps, i, o, theta, arena, 0, row, buffer)
        raise_separator(nodes, i, o, row, arena, largest)


@compiled
def clique_sum(nodes, children, maps, i, begin, end, theta, mu, arena, sums, buffer):
    """Write exp(T - m) to the table, and its sum over the residual to arena[sums + s]."""
    n_in, base, streamed = nodes[i, N_IN], nodes[i, BASE], is_streamed(nodes, i)
    set_all(arena[sums : sums + nodes[i, SEPARATOR]], 0.0)
    for o in range(begin, end):
        start = base + o * n_in if base >= 0 else arena_start(nodes, i, o, buffer)
        row = mu[start : start + n_in] if base >= 0 else arena[start : start + n_in]
        if streamed:
            fill_row(nodes, children, maps, i, o, theta, arena, 0, row, buffer)
        if nodes[i, FIRST]:
            exponentiate_row(nodes, i, o, arena, row)
            sum_row(nodes, i, o, row, arena, sums)
        else:
            entry = separator_entry(nodes, i, o)
            peaks, z = nodes[i, PEAK] + entry, sums + entry
            exponentiate_and_sum(row, arena[peaks : peaks + n_in], arena[z : z + n_in])


@compiled
def clique_spread(nodes, children, maps, i, begin, end, theta, mu, arena, shift, buffer):
    """Sum the marginal of a clique onto its children, row by row; in `mu` the table becomes the marginal in place."""
    n_in, base = nodes[i, N_IN], nodes[i, BASE]
    for o in range(begin, end):
        if base >= 0:
            row = mu[base + o * n_in : base + o * n_in + n_in]
            weigh_row(nodes, i, o, arena, row, nodes[i, WEIGHT], row)
        else:
            row = arena[buffer : buffer + n_in]
            marginal_row(nodes, children, maps, i, o, theta, arena, row, buffer)
        spread_row(nodes, children, maps, i, o, row, arena, shift, buffer)


@compiled
def clique_table(nodes, children, maps, i, theta, mu, arena, buffer, out):
    """Write the marginal of clique node `i` after a run to `out`, in the axis order of the node."""
    n_in, base = nodes[i, N_IN], nodes[i, BASE]
    if base >= 0:
        set_sum(out, mu[base : base + out.size], 0.0)
        return
    for o in range(nodes[i, N_OUT]):
        marginal_row(nodes, children, maps, i, o, theta, arena, out[o * n_in : o * n_in + n_in], buffer)


# -- per separator entry ------------------------------------------------------------------------------------------


@compiled
def settle_peaks(nodes, i, arena):
    """Replace m = -inf of impossible separator entries by 0: their cells stay exp(-inf) = 0, but never become NaN."""
    peaks = arena[nodes[i, PEAK] : nodes[i, PEAK] + nodes[i, SEPARATOR]]
    for s in range(peaks.size):
        peaks[s] = 0.0 if peaks[s] == -np.inf else peaks[s]


@compiled
def send_message(nodes, i, arena):
    """Write the log message m + log Z, and replace Z by 1 / Z (0 for impossible entries)."""
    n = nodes[i, SEPARATOR]
    z = arena[nodes[i, WEIGHT] : nodes[i, WEIGHT] + n]
    peaks = arena[nodes[i, PEAK] : nodes[i, PEAK] + n]
    message = arena[nodes[i, MESSAGE] : nodes[i, MESSAGE] + n]
    for s in range(n):
        possible = z[s] > 0.0  # then z >= 1, because the peak itself counts as exp(0)
        bounded = z[s] if possible else 1.0
        message[s] = peaks[s] + log(bounded) if possible else -np.inf
        z[s] = 1.0 / bounded if possible else 0.0


@compiled
def weigh(nodes, i, arena, total):
    """Compute the weight marginal / Z of each separator entry."""
    n = nodes[i, SEPARATOR]
    marginal = arena[nodes[i, MARGINAL] : nodes[i, MARGINAL] + n]
    if nodes[i, PARENT] < 0:
        set_all(marginal, total)  # of a single entry
    weight = arena[nodes[i, WEIGHT] : nodes[i, WEIGHT] + n]
    multiply(weight, weight, marginal)


# -- sweeps over nodes [low, high) ------------------------------------------------------------------------------------


@compiled
def upward(nodes, children, maps, low, high, theta, mu, arena, buffer):
    """Compute the messages of the sum-product, children before parents."""
    for i in range(high - 1, low - 1, -1):
        if nodes[i, SLOT]:
            slot_message(nodes, children, maps, i, theta, arena, 0, buffer)
            continue
        n_out, sums = nodes[i, N_OUT], nodes[i, WEIGHT]
        clique_max(nodes, children, maps, i, 0, n_out, theta, mu, arena, nodes[i, PEAK], buffer)
        settle_peaks(nodes, i, arena)
        clique_sum(nodes, children, maps, i, 0, n_out, theta, mu, arena, sums, buffer)
        send_message(nodes, i, arena)


@compiled
def downward(nodes, children, maps, low, high, theta, mu, arena, buffer, total):
    """Compute the marginals, parents before children, and write those of the measured cliques to `mu`."""
    for i in range(low, high):
        set_all(arena[nodes[i, SPREAD] : nodes[i, SPREAD] + nodes[i, SPREAD_SIZE]], 0.0)
        if nodes[i, SLOT]:
            slot_spread(nodes, children, maps, i, mu, arena, 0, buffer)
        else:
            weigh(nodes, i, arena, total)
            clique_spread(nodes, children, maps, i, 0, nodes[i, N_OUT], theta, mu, arena, 0, buffer)
