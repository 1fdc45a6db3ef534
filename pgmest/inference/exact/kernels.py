"""The compiled kernels that run an inference plan.

A plan (plan.py) describes one problem by numbers alone: a row of `nodes` per node of its tree, index maps, and one
float64 arena for all intermediate tables. These kernels are compiled once per installation and run every plan.

Each node holds a table over its attributes. A *clique* node sums its residual attributes R out onto its separator S;
a *slot* node has no residual: it is a measured clique inside a larger one, and its message is its table. A table is
walked in rows: `N_OUT` rows of `N_IN` consecutive cells. For a node over (x, y, s) with separator (s):

    table  (LAST: separator axes last)     message to the parent, and marginal from it
    row 0: x0 y0 | s0 s1 s2 s3             s0 s1 s2 s3      one entry per column
    row 1: x0 y1 | s0 s1 s2 s3
    row 2: x1 y0 | s0 s1 s2 s3             FIRST is the other way round: separator axes first,
    row 3: x1 y1 | s0 s1 s2 s3             a whole row belongs to one separator entry

and the arena of that node and its neighbors:

    | messages of all nodes (x 3) | marginals of all separators (x 2) | weight | table | ... | row buffers |

A child's message is added to a row in one of a few ways (fields.py): the entry is the same for the whole row, or the
entries are consecutive, or in the worst case they are looked up: entry `outer[row] + inner[column]`. Both maps are
short, because they hold one entry per row and one per column rather than one per cell.

Upward, children first: T = potential + sum of messages; m(s) = max_r T; table = exp(T - m) in [0, 1];
Z(s) = sum_r table >= 1; log message = m + log Z. Downward, parents first: weight(s) = marginal(s) / Z(s) and the
marginal of the clique is table * weight: conditional times marginal, no division and no second exponential. Every
shift is per separator entry, so no potentials, however large, make it underflow where it matters, and -inf stays
an exact zero. A table lies in one of three places. Where the clique is itself measured it lies in `mu`, the output,
which first holds exp(T - m) and then, multiplied in place, the marginal. Otherwise it lies in the arena; or nowhere:
the rows of a node that is streamed (TABLE and BASE are -1) are computed again whenever they are needed.

All but elementary functions and loops over rows is in this one file because numba's cache on disk notices changes only
in the file a kernel is written in.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined
from pgmest._base.elementary_kernels import exp, largest_of, log, sum_of
from pgmest._base.row_kernels import on_rows
from pgmest.inference.exact.plan_columns import (
    BASE,
    CELLS,
    CHILDREN,
    CHILDREN_END,
    CONSTANT,
    CONTIGUOUS,
    FIRST,
    MARGINAL,
    MESSAGE,
    MESSAGE_IN_THETA,
    N_IN,
    N_OUT,
    PARENT,
    PEAK,
    REPEATED,
    RESIDUAL,
    ROW,
    SEPARATOR,
    SLOT,
    SPREAD,
    SPREAD_SIZE,
    TABLE,
    TILED,
    UP_BLOCK,
    UP_INNER,
    UP_KIND,
    UP_OUTER,
    WEIGHT,
)

# -- rows: one short vector operation each, on views whose indices start at 0 (so that they vectorize) ---------------


@on_rows
def _set(row, value):
    return {"row": value}


@on_rows
def _set_sum(row, values, constant):
    return {"row": values + constant}


@on_rows
def _add(row, values):
    return {"row": row + values}


@on_rows
def _set_sum_of_three(row, base, values, constant):
    return {"row": base + (values + constant)}


@inlined
def _gather(row, values, inner):
    for j in range(row.size):
        row[j] += values[np.uint64(inner[j])]


@inlined
def _scatter(values, inner, row):
    for j in range(row.size):
        values[np.uint64(inner[j])] += row[j]


@inlined
def _add_repeated(row, values, block):
    for e in range(row.size // block):
        cells = row[e * block : (e + 1) * block]
        _set_sum(cells, cells, values[e])


@inlined
def _sum_repeated(values, row, block):
    for e in range(row.size // block):
        values[e] += sum_of(row[e * block : (e + 1) * block])


@inlined
def _add_tiled(row, values, block):
    for e in range(row.size // block):
        _add(row[e * block : (e + 1) * block], values)


@inlined
def _sum_tiled(values, row, block):
    for e in range(row.size // block):
        _add(values[:block], row[e * block : (e + 1) * block])


@on_rows
def _raise_to(largest, row):
    return {"largest": row.larger(largest)}


@inlined
def _exponentiate_by_one(row, peak):
    for j in range(row.size):
        row[j] = exp(row[j] - peak)


@inlined
def _exponentiate(row, peaks):
    for j in range(row.size):
        row[j] = exp(row[j] - peaks[j])


@inlined
def _exponentiate_and_sum(row, peaks, sums):
    for j in range(row.size):
        row[j] = exp(row[j] - peaks[j])
        sums[j] += row[j]


@on_rows
def _multiply(row, values, weights):
    return {"row": values * weights}


@inlined
def _add_entries(row, values, kind, block, inner):
    """Add to each cell of a row the separator entry it belongs to."""
    if kind == CONTIGUOUS:
        _add(row, values)
    elif kind == REPEATED:
        _add_repeated(row, values, block)
    elif kind == TILED:
        _add_tiled(row, values, block)
    else:
        _gather(row, values, inner)


@inlined
def _set_entries(row, base, constant, values, kind, block, inner):
    """row = base + constant + the separator entry of each cell: the first message of a row costs no pass of its own."""
    if kind == CONTIGUOUS:
        _set_sum_of_three(row, base, values, constant)
    elif kind == REPEATED:
        for e in range(row.size // block):
            _set_sum(row[e * block : (e + 1) * block], base[e * block : (e + 1) * block], values[e] + constant)
    elif kind == TILED:
        for e in range(row.size // block):
            some = slice(e * block, (e + 1) * block)
            _set_sum_of_three(row[some], base[some], values, constant)
    else:
        constant = row.dtype.type(constant)
        for j in range(row.size):
            row[j] = base[j] + (values[np.uint64(inner[j])] + constant)


@inlined
def _sum_entries(values, row, kind, block, inner):
    """Add each cell of a row onto the separator entry it belongs to."""
    if kind == CONTIGUOUS:
        _add(values[: row.size], row)
    elif kind == REPEATED:
        _sum_repeated(values, row, block)
    elif kind == TILED:
        _sum_tiled(values, row, block)
    else:
        _scatter(values, inner, row)


# -- one row of a node ----------------------------------------------------------------------------------------------


@inlined
def _run_end(nodes, children, k, end):
    """The end of the run of children from `k` on whose entries lie along the row in the same blocks."""
    c = children[k]
    last = k + 1
    if nodes[c, UP_KIND] == REPEATED or nodes[c, UP_KIND] == TILED:
        while (
            last < end
            and nodes[children[last], UP_KIND] == nodes[c, UP_KIND]
            and nodes[children[last], UP_BLOCK] == nodes[c, UP_BLOCK]
        ):
            last += 1
    return last


@inlined
def _entries_of_row(nodes, i, c):
    """How many entries of child `c` a row meets: one for each block (REPEATED) or cell of a block (TILED)."""
    block = nodes[c, UP_BLOCK]
    return nodes[i, N_IN] // block if nodes[c, UP_KIND] == REPEATED else block


@inlined
def _fill_row(nodes, children, maps, i, o, theta, arena, shift, row, buffer):
    """row = the log potential of row `o` of node `i`, its children's messages included.

    Children whose entries lie in the same blocks are summed entry by entry first, and added to the cells once.
    """
    n_in, end = nodes[i, N_IN], nodes[i, CHILDREN_END]
    shared = buffer + 2 * nodes[i, ROW]
    constant = 0.0
    for k in range(nodes[i, CHILDREN], end):
        c = children[k]
        if nodes[c, UP_KIND] == CONSTANT:
            entry = nodes[c, MESSAGE] + maps[nodes[c, UP_OUTER] + o]
            constant += theta[entry] if nodes[c, MESSAGE_IN_THETA] else arena[entry + shift]
    waiting = nodes[i, BASE] >= 0  # the base is read together with the first message
    base = theta[nodes[i, BASE] + o * n_in :] if waiting else theta
    if not waiting:
        _set(row, constant)
    k = nodes[i, CHILDREN]
    while k < end:
        c = children[k]
        kind, block, inner = nodes[c, UP_KIND], nodes[c, UP_BLOCK], maps[nodes[c, UP_INNER] :]
        if kind == CONSTANT:
            k += 1
            continue
        last = _run_end(nodes, children, k, end)
        start = nodes[c, MESSAGE] + maps[nodes[c, UP_OUTER] + o]
        values = theta[start:] if nodes[c, MESSAGE_IN_THETA] else arena[start + shift :]
        if last > k + 1:
            entries = arena[shared : shared + _entries_of_row(nodes, i, c)]
            _set_sum(entries, values, 0.0)
            for other in range(k + 1, last):
                d = children[other]
                start = nodes[d, MESSAGE] + maps[nodes[d, UP_OUTER] + o]
                _add(entries, theta[start:] if nodes[d, MESSAGE_IN_THETA] else arena[start + shift :])
            values = entries
        if waiting:
            _set_entries(row, base, constant, values, kind, block, inner)
            waiting = False
        else:
            _add_entries(row, values, kind, block, inner)
        k = last
    if waiting:
        _set_sum(row, base, constant)


@inlined
def _spread_row(nodes, children, maps, i, o, row, arena, shift, buffer):
    """Add row `o` of the marginal of node `i` onto the marginals of its children, summing once per kind of block."""
    total, end, shared = np.nan, nodes[i, CHILDREN_END], buffer + 2 * nodes[i, ROW]
    k = nodes[i, CHILDREN]
    while k < end:
        c = children[k]
        kind, block = nodes[c, UP_KIND], nodes[c, UP_BLOCK]
        target = nodes[c, MARGINAL] + maps[nodes[c, UP_OUTER] + o] + shift
        last = _run_end(nodes, children, k, end)
        if kind == CONSTANT:
            if np.isnan(total):
                total = sum_of(row)
            arena[target] += total
        elif last == k + 1:
            _sum_entries(arena[target:], row, kind, block, maps[nodes[c, UP_INNER] :])
        else:
            entries = arena[shared : shared + _entries_of_row(nodes, i, c)]
            _set(entries, 0.0)
            _sum_entries(entries, row, kind, block, maps)
            for other in range(k, last):
                d = children[other]
                target = nodes[d, MARGINAL] + maps[nodes[d, UP_OUTER] + o] + shift
                _add(arena[target : target + entries.size], entries)
        k = last


@inlined
def _separator_entry(nodes, i, o):
    """Where row `o` meets the separator: its one entry (FIRST), or the entry of its first cell (LAST)."""
    if nodes[i, FIRST]:
        return (o * nodes[i, N_IN]) // nodes[i, RESIDUAL]
    return (o * nodes[i, N_IN]) % nodes[i, SEPARATOR]


@inlined
def _exponentiate_row(nodes, i, o, arena, row):
    """row = exp(row - m), with m the peak of each cell's separator entry."""
    peak = nodes[i, PEAK] + _separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        _exponentiate_by_one(row, arena[peak])
    else:
        _exponentiate(row, arena[peak : peak + row.size])


@inlined
def _is_streamed(nodes, i):
    return nodes[i, TABLE] < 0 and nodes[i, BASE] < 0


@inlined
def _arena_start(nodes, i, o, buffer):
    """Where row `o` of a table in the arena starts; the row buffer where the table is not stored."""
    return nodes[i, TABLE] + o * nodes[i, N_IN] if nodes[i, TABLE] >= 0 else buffer


@inlined
def _weigh_row(nodes, i, o, arena, source, start, row):
    """row = source times the entries at `start` of each cell's separator entry."""
    entry = start + _separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        _multiply(row, source, arena[entry])
    else:
        _multiply(row, source, arena[entry : entry + row.size])


@inlined
def _raise_separator(nodes, i, o, row, arena, start):
    """Raise the separator entries at `start` to the row's largest cells."""
    entry = start + _separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        arena[entry] = max(arena[entry], largest_of(row))
    else:
        _raise_to(arena[entry : entry + row.size], row)


@inlined
def _sum_row(nodes, i, o, row, arena, start):
    """Add the row onto the separator entries at `start`."""
    entry = start + _separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        arena[entry] += sum_of(row)
    else:
        _add(arena[entry : entry + row.size], row)


@inlined
def _add_separator(nodes, i, o, row, arena, start):
    """Add the separator entries at `start` to the cells of the row."""
    entry = start + _separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        _set_sum(row, row, arena[entry])
    else:
        _add(row, arena[entry : entry + row.size])


# -- one clique, rows [begin, end): the work that is shared between threads -----------------------------------------


@compiled
def clique_max(nodes, children, maps, i, begin, end, theta, mu, arena, largest, buffer):
    """T into the table; arena[largest + s] = its maximum over the residual."""
    n_in, base = nodes[i, N_IN], nodes[i, BASE]
    _set(arena[largest : largest + nodes[i, SEPARATOR]], -np.inf)
    for o in range(begin, end):
        start = base + o * n_in if base >= 0 else _arena_start(nodes, i, o, buffer)
        row = mu[start : start + n_in] if base >= 0 else arena[start : start + n_in]
        _fill_row(nodes, children, maps, i, o, theta, arena, 0, row, buffer)
        _raise_separator(nodes, i, o, row, arena, largest)


@compiled
def clique_sum(nodes, children, maps, i, begin, end, theta, mu, arena, sums, buffer):
    """table = exp(T - m); arena[sums + s] = its sum over the residual."""
    n_in, base, streamed = nodes[i, N_IN], nodes[i, BASE], _is_streamed(nodes, i)
    _set(arena[sums : sums + nodes[i, SEPARATOR]], 0.0)
    for o in range(begin, end):
        start = base + o * n_in if base >= 0 else _arena_start(nodes, i, o, buffer)
        row = mu[start : start + n_in] if base >= 0 else arena[start : start + n_in]
        if streamed:
            _fill_row(nodes, children, maps, i, o, theta, arena, 0, row, buffer)
        if nodes[i, FIRST]:
            _exponentiate_row(nodes, i, o, arena, row)
            _sum_row(nodes, i, o, row, arena, sums)
        else:
            entry = _separator_entry(nodes, i, o)
            peaks, z = nodes[i, PEAK] + entry, sums + entry
            _exponentiate_and_sum(row, arena[peaks : peaks + n_in], arena[z : z + n_in])


@inlined
def _marginal_row(nodes, children, maps, i, o, theta, arena, row, buffer):
    """row = the marginal of row `o` of a node whose table is not in `mu`."""
    source = row
    if _is_streamed(nodes, i):
        _fill_row(nodes, children, maps, i, o, theta, arena, 0, row, buffer)
        _exponentiate_row(nodes, i, o, arena, row)
    else:
        start = nodes[i, TABLE] + o * nodes[i, N_IN]
        source = arena[start : start + nodes[i, N_IN]]
    _weigh_row(nodes, i, o, arena, source, nodes[i, WEIGHT], row)


@compiled
def clique_spread(nodes, children, maps, i, begin, end, theta, mu, arena, shift, buffer):
    """The clique's marginal, row by row, onto its children; in `mu` the table becomes the marginal in place."""
    n_in, base = nodes[i, N_IN], nodes[i, BASE]
    for o in range(begin, end):
        if base >= 0:
            row = mu[base + o * n_in : base + o * n_in + n_in]
            _weigh_row(nodes, i, o, arena, row, nodes[i, WEIGHT], row)
        else:
            row = arena[buffer : buffer + n_in]
            _marginal_row(nodes, children, maps, i, o, theta, arena, row, buffer)
        _spread_row(nodes, children, maps, i, o, row, arena, shift, buffer)


@compiled
def clique_table(nodes, children, maps, i, theta, mu, arena, buffer, out):
    """out = the whole marginal of clique node `i` after a run, in the node's own axis order."""
    n_in, base = nodes[i, N_IN], nodes[i, BASE]
    if base >= 0:
        _set_sum(out, mu[base : base + out.size], 0.0)
        return
    for o in range(nodes[i, N_OUT]):
        _marginal_row(nodes, children, maps, i, o, theta, arena, out[o * n_in : o * n_in + n_in], buffer)


@compiled
def clique_max_message(nodes, children, maps, i, begin, end, theta, arena, shift, largest, buffer):
    """arena[largest + s] = max of T over the residual, on the copy of the messages at `shift`; no table is kept."""
    row = arena[buffer : buffer + nodes[i, N_IN]]
    _set(arena[largest : largest + nodes[i, SEPARATOR]], -np.inf)
    for o in range(begin, end):
        _fill_row(nodes, children, maps, i, o, theta, arena, shift, row, buffer)
        _raise_separator(nodes, i, o, row, arena, largest)


# -- per separator entry ------------------------------------------------------------------------------------------


@compiled
def settle_peaks(nodes, i, arena):
    """An impossible separator entry has m = -inf; any finite shift leaves its cells at exp(-inf) = 0."""
    peaks = arena[nodes[i, PEAK] : nodes[i, PEAK] + nodes[i, SEPARATOR]]
    for s in range(peaks.size):
        peaks[s] = 0.0 if peaks[s] == -np.inf else peaks[s]


@compiled
def send_message(nodes, i, arena):
    """log message = m + log Z; Z becomes 1 / Z (0 where the entry is impossible)."""
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
    """weight = marginal / Z, ready to spread."""
    n = nodes[i, SEPARATOR]
    marginal = arena[nodes[i, MARGINAL] : nodes[i, MARGINAL] + n]
    if nodes[i, PARENT] < 0:
        _set(marginal, total)  # one entry, or one for each parameter vector of a batch
    weight = arena[nodes[i, WEIGHT] : nodes[i, WEIGHT] + n]
    _multiply(weight, weight, marginal)


# -- slots ----------------------------------------------------------------------------------------------------------


@inlined
def _slot_message(nodes, children, maps, i, theta, arena, shift, buffer):
    """A slot's message is its potential plus its children's messages; without children it stays where it is."""
    if nodes[i, MESSAGE_IN_THETA]:
        return
    n_in = nodes[i, N_IN]
    for o in range(nodes[i, N_OUT]):
        start = nodes[i, MESSAGE] + shift + o * n_in
        _fill_row(nodes, children, maps, i, o, theta, arena, shift, arena[start : start + n_in], buffer)


@inlined
def _slot_spread(nodes, children, maps, i, mu, arena, shift, buffer):
    """A slot hands the marginal it received to `mu` and on to its children."""
    n_in, start = nodes[i, N_IN], nodes[i, MARGINAL] + shift
    if nodes[i, BASE] >= 0:
        _set_sum(mu[nodes[i, BASE] : nodes[i, BASE] + nodes[i, CELLS]], arena[start:], 0.0)
    if nodes[i, CHILDREN] < nodes[i, CHILDREN_END]:
        for o in range(nodes[i, N_OUT]):
            row = arena[start + o * n_in : start + o * n_in + n_in]
            _spread_row(nodes, children, maps, i, o, row, arena, shift, buffer)


# -- sweeps over nodes [low, high) ------------------------------------------------------------------------------------


@compiled
def upward(nodes, children, maps, low, high, theta, mu, arena, buffer):
    """Messages of the sum-product, children before parents."""
    for i in range(high - 1, low - 1, -1):
        if nodes[i, SLOT]:
            _slot_message(nodes, children, maps, i, theta, arena, 0, buffer)
            continue
        n_out, sums = nodes[i, N_OUT], nodes[i, WEIGHT]
        clique_max(nodes, children, maps, i, 0, n_out, theta, mu, arena, nodes[i, PEAK], buffer)
        settle_peaks(nodes, i, arena)
        clique_sum(nodes, children, maps, i, 0, n_out, theta, mu, arena, sums, buffer)
        send_message(nodes, i, arena)


@compiled
def downward(nodes, children, maps, low, high, theta, mu, arena, buffer, total):
    """Marginals, parents before children; those of the measured cliques are written into `mu`."""
    for i in range(low, high):
        _set(arena[nodes[i, SPREAD] : nodes[i, SPREAD] + nodes[i, SPREAD_SIZE]], 0.0)
        if nodes[i, SLOT]:
            _slot_spread(nodes, children, maps, i, mu, arena, 0, buffer)
        else:
            weigh(nodes, i, arena, total)
            clique_spread(nodes, children, maps, i, 0, nodes[i, N_OUT], theta, mu, arena, 0, buffer)


@compiled
def upward_max(nodes, children, maps, low, high, theta, arena, shift, buffer):
    """Messages of the max-product, in their own copy of the messages, so that the marginals' state survives."""
    for i in range(high - 1, low - 1, -1):
        if nodes[i, SLOT]:
            _slot_message(nodes, children, maps, i, theta, arena, shift, buffer)
        else:
            largest = nodes[i, MESSAGE] + shift
            clique_max_message(nodes, children, maps, i, 0, nodes[i, N_OUT], theta, arena, shift, largest, buffer)


@inlined
def _raise_entries(values, row, kind, block, inner):
    """Raise each separator entry to the largest cell of the row that belongs to it."""
    if kind == CONTIGUOUS:
        _raise_to(values[: row.size], row)
    elif kind == REPEATED:
        for e in range(row.size // block):
            values[e] = max(values[e], largest_of(row[e * block : (e + 1) * block]))
    elif kind == TILED:
        for e in range(row.size // block):
            _raise_to(values[:block], row[e * block : (e + 1) * block])
    else:
        for j in range(row.size):
            entry = np.uint64(inner[j])
            values[entry] = max(values[entry], row[j])


@inlined
def _raise_children(nodes, children, maps, i, o, row, arena, shift):
    """Raise the max-marginals of the children of node `i` to the cells of its row `o`."""
    for k in range(nodes[i, CHILDREN], nodes[i, CHILDREN_END]):
        c = children[k]
        target = nodes[c, MARGINAL] + maps[nodes[c, UP_OUTER] + o] + shift
        if nodes[c, UP_KIND] == CONSTANT:
            arena[target] = max(arena[target], largest_of(row))
        else:
            _raise_entries(arena[target:], row, nodes[c, UP_KIND], nodes[c, UP_BLOCK], maps[nodes[c, UP_INNER] :])


@inlined
def _outside_potential(nodes, i, arena, shift, marginal_shift, top):
    """Per separator entry: the best potential outside the clique, its max-marginal less its own max message."""
    message, marginal = nodes[i, MESSAGE] + shift, nodes[i, MARGINAL] + marginal_shift
    for s in range(nodes[i, SEPARATOR]):
        whole = top if nodes[i, PARENT] < 0 else arena[marginal + s]
        arena[message + s] = whole - arena[message + s] if arena[message + s] > -np.inf else -np.inf


@compiled
def downward_max(nodes, children, maps, low, high, theta, best, arena, shift, marginal_shift, buffer, top):
    """Max-marginals, after upward_max: the largest total potential of a record through each measured cell.

    `top` is the largest over all records. The max messages are used up.
    """
    for i in range(low, high):
        spread = nodes[i, SPREAD] + marginal_shift
        _set(arena[spread : spread + nodes[i, SPREAD_SIZE]], -np.inf)
        n_in, base = nodes[i, N_IN], nodes[i, BASE]
        if not nodes[i, SLOT]:
            _outside_potential(nodes, i, arena, shift, marginal_shift, top)
        for o in range(nodes[i, N_OUT]):
            start = nodes[i, MARGINAL] + marginal_shift + o * n_in if nodes[i, SLOT] else buffer
            row = arena[start : start + n_in]
            if not nodes[i, SLOT]:
                _fill_row(nodes, children, maps, i, o, theta, arena, shift, row, buffer)
                _add_separator(nodes, i, o, row, arena, nodes[i, MESSAGE] + shift)
            if base >= 0:
                _set_sum(best[base + o * n_in : base + o * n_in + n_in], row, 0.0)
            _raise_children(nodes, children, maps, i, o, row, arena, marginal_shift)


@inlined
def _entry_from_parent(nodes, maps, i, chosen):
    """The separator entry of node `i` that its parent's chosen cell belongs to."""
    p = nodes[i, PARENT]
    if p < 0:
        return 0
    o, j = chosen[p] // nodes[p, N_IN], chosen[p] % nodes[p, N_IN]
    return maps[nodes[i, UP_OUTER] + o] + maps[nodes[i, UP_INNER] + j]


@compiled
def best_cells(nodes, children, maps, theta, arena, shift, buffer, chosen):
    """chosen[i] = the cell of node i in a record of largest potential, once the max messages are there."""
    for i in range(nodes.shape[0]):
        entry = _entry_from_parent(nodes, maps, i, chosen)
        chosen[i] = entry
        if nodes[i, SLOT]:
            continue
        n_in, first = nodes[i, N_IN], nodes[i, FIRST]
        best = -np.inf
        chosen[i] = entry * nodes[i, RESIDUAL] if first else entry
        for o in range(nodes[i, N_OUT]):
            start = _separator_entry(nodes, i, o)
            low, high = (0, n_in) if first else (entry - start, entry - start + 1)
            if (first and start != entry) or low < 0 or high > n_in:
                continue
            _fill_row(nodes, children, maps, i, o, theta, arena, shift, arena[buffer : buffer + n_in], buffer)
            for j in range(low, high):
                if arena[buffer + j] > best:
                    best = arena[buffer + j]
                    chosen[i] = o * n_in + j


# -- the derivative of the marginals ----------------------------------------------------------------------------------
# mu is the gradient of the log-partition function, so its derivative along a direction v is Cov @ v. Upward, the
# message's tangent is the conditional mean of v below: sum_r mu(r, s) dT(r, s) / mu(s). Downward, each cell's log
# marginal changes by delta = dT - d(message) + d(log marginal of the separator). Entries without mass change nothing.


@inlined
def _weights_row(nodes, children, maps, i, o, theta, mu, arena, buffer):
    """Put row `o` of the marginal into the row buffer."""
    n_in, base = nodes[i, N_IN], nodes[i, BASE]
    row = arena[buffer : buffer + n_in]
    if base >= 0:
        _set_sum(row, mu[base + o * n_in : base + o * n_in + n_in], 0.0)
    else:
        _marginal_row(nodes, children, maps, i, o, theta, arena, row, buffer)


@compiled
def covariance_upward(nodes, children, maps, low, high, theta, mu, direction, arena, shift, buffer, buffer2):
    """Tangents of the log messages along `direction`, in the copy of the messages at `shift`."""
    for i in range(high - 1, low - 1, -1):
        if nodes[i, SLOT]:
            _slot_message(nodes, children, maps, i, direction, arena, shift, buffer)
            continue
        n, n_in = nodes[i, SEPARATOR], nodes[i, N_IN]
        tangent, marginal = nodes[i, MESSAGE] + shift, nodes[i, MARGINAL]
        _set(arena[tangent : tangent + n], 0.0)
        weights, row = arena[buffer : buffer + n_in], arena[buffer2 : buffer2 + n_in]
        for o in range(nodes[i, N_OUT]):
            _weights_row(nodes, children, maps, i, o, theta, mu, arena, buffer)
            _fill_row(nodes, children, maps, i, o, direction, arena, shift, row, buffer)
            _multiply(row, row, weights)
            _sum_row(nodes, i, o, row, arena, tangent)
        for s in range(n):
            mass = arena[marginal + s]
            arena[tangent + s] = arena[tangent + s] / mass if mass > 0.0 else 0.0


@inlined
def _separator_change(nodes, i, arena, shift, marginal_shift):
    """Per separator entry: the change of its log marginal, less that of the message already counted in dT."""
    message, marginal = nodes[i, MESSAGE] + shift, nodes[i, MARGINAL]
    for s in range(nodes[i, SEPARATOR]):
        mass = arena[marginal + s]
        change = 0.0
        if mass > 0.0 and nodes[i, PARENT] >= 0:
            change = arena[marginal + marginal_shift + s] / mass
        arena[message + s] = change - arena[message + s]


@compiled
def covariance_downward(
    nodes, children, maps, low, high, theta, mu, direction, tangent, arena, shift, marginal_shift, buffer, buffer2
):
    """tangent = Cov @ direction on the measured cliques; the separators' tangents go to their own copy."""
    for i in range(low, high):
        spread = nodes[i, SPREAD] + marginal_shift
        _set(arena[spread : spread + nodes[i, SPREAD_SIZE]], 0.0)
        if nodes[i, SLOT]:
            _slot_spread(nodes, children, maps, i, tangent, arena, marginal_shift, buffer)
            continue
        n_in, base = nodes[i, N_IN], nodes[i, BASE]
        _separator_change(nodes, i, arena, shift, marginal_shift)
        weights, row = arena[buffer : buffer + n_in], arena[buffer2 : buffer2 + n_in]
        for o in range(nodes[i, N_OUT]):
            _weights_row(nodes, children, maps, i, o, theta, mu, arena, buffer)
            _fill_row(nodes, children, maps, i, o, direction, arena, shift, row, buffer)
            _add_separator(nodes, i, o, row, arena, nodes[i, MESSAGE] + shift)
            _multiply(row, row, weights)
            if base >= 0:
                _set_sum(tangent[base + o * n_in : base + o * n_in + n_in], row, 0.0)
            _spread_row(nodes, children, maps, i, o, row, arena, marginal_shift, buffer)


# -- many parameter vectors -------------------------------------------------------------------------------------------


@compiled
def run_rows(nodes, children, maps, roots, begin, end, thetas, totals, mus, logs, arena, buffer):
    """Marginals and log-partition function of rows [begin, end) of `thetas`, one after the other."""
    for k in range(begin, end):
        upward(nodes, children, maps, 0, nodes.shape[0], thetas[k], mus[k], arena, buffer)
        logs[k] = 0.0
        for r in roots:
            logs[k] += arena[nodes[r, MESSAGE]]
        if np.isfinite(logs[k]):
            downward(nodes, children, maps, 0, nodes.shape[0], thetas[k], mus[k], arena, buffer, totals[k])


_TILE = 8  # cells of one cache line


@inlined
def _interleave(thetas, begin, end, columns):
    """columns[cell, k] = thetas[begin + k, cell]; the last row again where there are fewer rows than columns."""
    cells, count = columns.shape
    for start in range(0, cells, _TILE):
        for k in range(count):
            row = thetas[min(begin + k, end - 1)]
            for cell in range(start, min(start + _TILE, cells)):
                columns[cell, k] = row[cell]


@inlined
def _separate(columns, begin, end, totals, mus):
    """mus[begin + k, cell] = totals[begin + k] * columns[cell, k]."""
    cells = columns.shape[0]
    for start in range(0, cells, _TILE):
        for k in range(end - begin):
            row, total = mus[begin + k], totals[begin + k]
            for cell in range(start, min(start + _TILE, cells)):
                row[cell] = columns[cell, k] * total


@compiled
def run_batches(nodes, children, maps, roots, begin, end, thetas, totals, mus, logs, columns, marginals, arena, buffer):
    """The same on a plan of `columns.shape[1]` vectors at once (Plan.batched)."""
    count, n = columns.shape[1], nodes.shape[0]
    for low in range(begin, end, count):
        high = min(low + count, end)
        _interleave(thetas, low, high, columns)
        flat, mu = columns.reshape(columns.size), marginals.reshape(marginals.size)
        upward(nodes, children, maps, 0, n, flat, mu, arena, buffer)
        for k in range(low, high):
            logs[k] = 0.0
            for r in roots:
                logs[k] += arena[nodes[r, MESSAGE] + k - low]
        downward(nodes, children, maps, 0, n, flat, mu, arena, buffer, 1.0)
        _separate(marginals, low, high, totals, mus)
