"""Operations of all sweeps on one row of a node, and on slot nodes, which have no residual.

The nodes, rows and arena of a plan are described in kernels.py.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import inlined
from pgmest._base.elementary_kernels import exp_of, largest_of, sum_of
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
    PEAK,
    REPEATED,
    RESIDUAL,
    ROW,
    SEPARATOR,
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
def set_all(row, value):
    return {"row": value}


@on_rows
def set_sum(row, values, constant):
    return {"row": values + constant}


@on_rows
def add(row, values):
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
        set_sum(cells, cells, values[e])


@inlined
def _sum_repeated(values, row, block):
    for e in range(row.size // block):
        values[e] += sum_of(row[e * block : (e + 1) * block])


@inlined
def _add_tiled(row, values, block):
    for e in range(row.size // block):
        add(row[e * block : (e + 1) * block], values)


@inlined
def _sum_tiled(values, row, block):
    for e in range(row.size // block):
        add(values[:block], row[e * block : (e + 1) * block])


@on_rows
def raise_to(largest, row):
    return {"largest": row.larger(largest)}


@on_rows
def _exponentiate(row, peak):
    return {"row": exp_of(row - peak)}


@on_rows
def exponentiate_and_sum(row, peaks, sums):
    weight = exp_of(row - peaks)
    return {"row": weight, "sums": sums + weight}


@on_rows
def multiply(row, values, weights):
    return {"row": values * weights}


@inlined
def _add_entries(row, values, kind, block, inner):
    """Add to each cell of a row its separator entry."""
    if kind == CONTIGUOUS:
        add(row, values)
    elif kind == REPEATED:
        _add_repeated(row, values, block)
    elif kind == TILED:
        _add_tiled(row, values, block)
    else:
        _gather(row, values, inner)


@inlined
def _set_entries(row, base, constant, values, kind, block, inner):
    """Set a row to base + constant + the separator entry of each cell, so the first message needs no extra pass."""
    if kind == CONTIGUOUS:
        _set_sum_of_three(row, base, values, constant)
    elif kind == REPEATED:
        for e in range(row.size // block):
            set_sum(row[e * block : (e + 1) * block], base[e * block : (e + 1) * block], values[e] + constant)
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
    """Add each cell of a row to its separator entry."""
    if kind == CONTIGUOUS:
        add(values[: row.size], row)
    elif kind == REPEATED:
        _sum_repeated(values, row, block)
    elif kind == TILED:
        _sum_tiled(values, row, block)
    else:
        _scatter(values, inner, row)


# -- one row of a node ----------------------------------------------------------------------------------------------


@inlined
def _run_end(nodes, children, k, end):
    """Return the end of the run of children from `k` on whose entries have the same blocks along the row."""
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
    """Return the number of entries of child `c` in a row: one for each block (REPEATED) or cell of a block (TILED)."""
    block = nodes[c, UP_BLOCK]
    return nodes[i, N_IN] // block if nodes[c, UP_KIND] == REPEATED else block


@inlined
def fill_row(nodes, children, maps, i, o, theta, arena, shift, row, buffer):
    """Set a row to the log potential of row `o` of node `i` plus the messages of its children.

    Children whose entries have the same blocks are summed entry by entry first, and added to the cells once.
    """
    n_in, end = nodes[i, N_IN], nodes[i, CHILDREN_END]
    shared = buffer + 2 * nodes[i, ROW]
    constant = 0.0
    for k in range(nodes[i, CHILDREN], end):
        c = children[k]
        if nodes[c, UP_KIND] == CONSTANT:
            entry = nodes[c, MESSAGE] + maps[nodes[c, UP_OUTER] + o]
            constant += theta[entry] if nodes[c, MESSAGE_IN_THETA] else arena[entry + shift]
    waiting = nodes[i, BASE] >= 0  # the potential is read together with the first message, which saves a pass
    base = theta[nodes[i, BASE] + o * n_in :] if waiting else theta
    if not waiting:
        set_all(row, constant)
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
            set_sum(entries, values, 0.0)
            for other in range(k + 1, last):
                d = children[other]
                start = nodes[d, MESSAGE] + maps[nodes[d, UP_OUTER] + o]
                add(entries, theta[start:] if nodes[d, MESSAGE_IN_THETA] else arena[start + shift :])
            values = entries
        if waiting:
            _set_entries(row, base, constant, values, kind, block, inner)
            waiting = False
        else:
            _add_entries(row, values, kind, block, inner)
        k = last
    if waiting:
        set_sum(row, base, constant)


@inlined
def spread_row(nodes, children, maps, i, o, row, arena, shift, buffer):
    """Add row `o` of the marginal of node `i` to the marginals of its children, with one sum per kind of block."""
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
            set_all(entries, 0.0)
            _sum_entries(entries, row, kind, block, maps)
            for other in range(k, last):
                d = children[other]
                target = nodes[d, MARGINAL] + maps[nodes[d, UP_OUTER] + o] + shift
                add(arena[target : target + entries.size], entries)
        k = last


@inlined
def separator_entry(nodes, i, o):
    """Return the separator entry of row `o`: its only entry (FIRST), or the entry of its first cell (LAST)."""
    if nodes[i, FIRST]:
        return (o * nodes[i, N_IN]) // nodes[i, RESIDUAL]
    return (o * nodes[i, N_IN]) % nodes[i, SEPARATOR]


@inlined
def exponentiate_row(nodes, i, o, arena, row):
    """Set a row to exp(row - m), where m is the peak of each cell's separator entry."""
    peak = nodes[i, PEAK] + separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        _exponentiate(row, arena[peak])
    else:
        _exponentiate(row, arena[peak : peak + row.size])


@inlined
def is_streamed(nodes, i):
    """Return whether the table of a node is not stored."""
    return nodes[i, TABLE] < 0 and nodes[i, BASE] < 0


@inlined
def arena_start(nodes, i, o, buffer):
    """Return the start of row `o` of a table in the arena, or the row buffer if the table is not stored."""
    return nodes[i, TABLE] + o * nodes[i, N_IN] if nodes[i, TABLE] >= 0 else buffer


@inlined
def weigh_row(nodes, i, o, arena, source, start, row):
    """Set a row to `source` times the value at `start` of each cell's separator entry."""
    entry = start + separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        multiply(row, source, arena[entry])
    else:
        multiply(row, source, arena[entry : entry + row.size])


@inlined
def raise_separator(nodes, i, o, row, arena, start):
    """Raise the separator entries at `start` to the largest cells of the row."""
    entry = start + separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        arena[entry] = max(arena[entry], largest_of(row))
    else:
        raise_to(arena[entry : entry + row.size], row)


@inlined
def sum_row(nodes, i, o, row, arena, start):
    """Add the cells of the row to the separator entries at `start`."""
    entry = start + separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        arena[entry] += sum_of(row)
    else:
        add(arena[entry : entry + row.size], row)


@inlined
def add_separator(nodes, i, o, row, arena, start):
    """Add the separator entries at `start` to the cells of the row."""
    entry = start + separator_entry(nodes, i, o)
    if nodes[i, FIRST]:
        set_sum(row, row, arena[entry])
    else:
        add(row, arena[entry : entry + row.size])


@inlined
def marginal_row(nodes, children, maps, i, o, theta, arena, row, buffer):
    """Set a row to the marginal of row `o` of a node whose table is not in `mu`."""
    source = row
    if is_streamed(nodes, i):
        fill_row(nodes, children, maps, i, o, theta, arena, 0, row, buffer)
        exponentiate_row(nodes, i, o, arena, row)
    else:
        start = nodes[i, TABLE] + o * nodes[i, N_IN]
        source = arena[start : start + nodes[i, N_IN]]
    weigh_row(nodes, i, o, arena, source, nodes[i, WEIGHT], row)


# -- slots ----------------------------------------------------------------------------------------------------------


@inlined
def slot_message(nodes, children, maps, i, theta, arena, shift, buffer):
    """Compute the message of a slot: its potential plus the messages of its children; without children, do nothing."""
    if nodes[i, MESSAGE_IN_THETA]:
        return
    n_in = nodes[i, N_IN]
    for o in range(nodes[i, N_OUT]):
        start = nodes[i, MESSAGE] + shift + o * n_in
        fill_row(nodes, children, maps, i, o, theta, arena, shift, arena[start : start + n_in], buffer)


@inlined
def slot_spread(nodes, children, maps, i, mu, arena, shift, buffer):
    """Write the marginal that a slot received to `mu`, and sum it onto its children."""
    n_in, start = nodes[i, N_IN], nodes[i, MARGINAL] + shift
    if nodes[i, BASE] >= 0:
        set_sum(mu[nodes[i, BASE] : nodes[i, BASE] + nodes[i, CELLS]], arena[start:], 0.0)
    if nodes[i, CHILDREN] < nodes[i, CHILDREN_END]:
        for o in range(nodes[i, N_OUT]):
            row = arena[start + o * n_in : start + o * n_in + n_in]
            spread_row(nodes, children, maps, i, o, row, arena, shift, buffer)
