"""The compiled kernels of the max-product, on the plans that kernels.py describes."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined
from pgmest._base.elementary_kernels import largest_of
from pgmest.inference.exact.node_row_kernels import (
    add_separator,
    fill_row,
    raise_separator,
    raise_to,
    separator_entry,
    set_all,
    set_sum,
    slot_message,
)
from pgmest.inference.exact.plan_columns import (
    BASE,
    CHILDREN,
    CHILDREN_END,
    CONSTANT,
    CONTIGUOUS,
    FIRST,
    MARGINAL,
    MESSAGE,
    N_IN,
    N_OUT,
    PARENT,
    REPEATED,
    RESIDUAL,
    SEPARATOR,
    SLOT,
    SPREAD,
    SPREAD_SIZE,
    TILED,
    UP_BLOCK,
    UP_INNER,
    UP_KIND,
    UP_OUTER,
)


@compiled
def clique_max_message(nodes, children, maps, i, begin, end, theta, arena, shift, largest, buffer):
    """Set arena[largest + s] to the max of T over the residual, with the messages at `shift`, without storing T."""
    row = arena[buffer : buffer + nodes[i, N_IN]]
    set_all(arena[largest : largest + nodes[i, SEPARATOR]], -np.inf)
    for o in range(begin, end):
        fill_row(nodes, children, maps, i, o, theta, arena, shift, row, buffer)
        raise_separator(nodes, i, o, row, arena, largest)


@compiled
def upward_max(nodes, children, maps, low, high, theta, arena, shift, buffer):
    """Compute the messages of the max-product at `shift`, so that those of the sum-product stay valid."""
    for i in range(high - 1, low - 1, -1):
        if nodes[i, SLOT]:
            slot_message(nodes, children, maps, i, theta, arena, shift, buffer)
        else:
            largest = nodes[i, MESSAGE] + shift
            clique_max_message(nodes, children, maps, i, 0, nodes[i, N_OUT], theta, arena, shift, largest, buffer)


@inlined
def _raise_entries(values, row, kind, block, inner):
    """Raise each separator entry to the largest cell of the row that belongs to it."""
    if kind == CONTIGUOUS:
        raise_to(values[: row.size], row)
    elif kind == REPEATED:
        for e in range(row.size // block):
            values[e] = max(values[e], largest_of(row[e * block : (e + 1) * block]))
    elif kind == TILED:
        for e in range(row.size // block):
            raise_to(values[:block], row[e * block : (e + 1) * block])
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
    """Compute, per separator entry, the best potential outside the clique: its max-marginal less its max message."""
    message, marginal = nodes[i, MESSAGE] + shift, nodes[i, MARGINAL] + marginal_shift
    for s in range(nodes[i, SEPARATOR]):
        whole = top if nodes[i, PARENT] < 0 else arena[marginal + s]
        arena[message + s] = whole - arena[message + s] if arena[message + s] > -np.inf else -np.inf


@compiled
def downward_max(nodes, children, maps, low, high, theta, best, arena, shift, marginal_shift, buffer, top):
    """Compute the max-marginals, the largest total potential of a record in each measured cell, after `upward_max`.

    `top` is the largest total potential of all records. The max messages are overwritten.
    """
    for i in range(low, high):
        spread = nodes[i, SPREAD] + marginal_shift
        set_all(arena[spread : spread + nodes[i, SPREAD_SIZE]], -np.inf)
        n_in, base = nodes[i, N_IN], nodes[i, BASE]
        if not nodes[i, SLOT]:
            _outside_potential(nodes, i, arena, shift, marginal_shift, top)
        for o in range(nodes[i, N_OUT]):
            start = nodes[i, MARGINAL] + marginal_shift + o * n_in if nodes[i, SLOT] else buffer
            row = arena[start : start + n_in]
            if not nodes[i, SLOT]:
                fill_row(nodes, children, maps, i, o, theta, arena, shift, row, buffer)
                add_separator(nodes, i, o, row, arena, nodes[i, MESSAGE] + shift)
            if base >= 0:
                set_sum(best[base + o * n_in : base + o * n_in + n_in], row, 0.0)
            _raise_children(nodes, children, maps, i, o, row, arena, marginal_shift)


@inlined
def _entry_from_parent(nodes, maps, i, chosen):
    """Return the separator entry of node `i` that belongs to the chosen cell of its parent."""
    p = nodes[i, PARENT]
    if p < 0:
        return 0
    o, j = chosen[p] // nodes[p, N_IN], chosen[p] % nodes[p, N_IN]
    return maps[nodes[i, UP_OUTER] + o] + maps[nodes[i, UP_INNER] + j]


@compiled
def best_cells(nodes, children, maps, theta, arena, shift, buffer, chosen):
    """Set chosen[i] to the cell of node i in a record of largest potential, after `upward_max`.

    Parents choose first; each node then takes its best cell among those that agree with its parent.
    """
    for i in range(nodes.shape[0]):
        entry = _entry_from_parent(nodes, maps, i, chosen)
        chosen[i] = entry
        if nodes[i, SLOT]:
            continue
        n_in, first = nodes[i, N_IN], nodes[i, FIRST]
        best = -np.inf
        chosen[i] = entry * nodes[i, RESIDUAL] if first else entry
        for o in range(nodes[i, N_OUT]):
            start = separator_entry(nodes, i, o)
            low, high = (0, n_in) if first else (entry - start, entry - start + 1)
            if (first and start != entry) or low < 0 or high > n_in:
                continue
            fill_row(nodes, children, maps, i, o, theta, arena, shift, arena[buffer : buffer + n_in], buffer)
            for j in range(low, high):
                if arena[buffer + j] > best:
                    best = arena[buffer + j]
                    chosen[i] = o * n_in + j
