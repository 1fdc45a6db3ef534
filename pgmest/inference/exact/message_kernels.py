"""The compiled kernels of belief propagation in logarithms (tree_messages.py), clique by clique.

A node of the tree has a table T: its potential, plus the log messages of the nodes below it. For each cell s of the
separator above, the message is log sum exp(T) over the other attributes. The sum is divided by exp(max T), so that it
is at least 1, whatever the size of the potentials; -inf stays an exact zero. Then, from the roots:

    low(s) = -max T      Z(s) = sum of exp(T + low)      message(s) = log Z - low
    weight(s) = marginal(s) / Z(s)                       marginal table = exp(T + low) weight

The arrays of separators are the rows of `state`. A table is processed in rows of cells. The separator's entry of each
row and of each cell of a row is found by two index maps; along a row it may be constant, or the entries consecutive.
All tables lie one after the other in `tables`: first T, then exp(T + low), then the marginals.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.compiled import compiled, inlined
from pgmest._base.elementary_kernels import exp_of, largest_of, sum_of
from pgmest._base.row_kernels import on_rows, sum_on_rows

POTENTIAL, TABLE, N_OUT, N_IN, CHILD, SIBLING, AT, CELLS, OUTER, INNER, UP_OUTER, UP_INNER, N_NODE = range(13)
"""The columns of nodes: the start of the node's potential, or -1, and of its table; its rows, and the cells of each;
its first child, and the next child of its parent, or -1; the start of its separator's entries, and their number; the
index maps from its rows and cells to these entries, and those of its parent."""

MESSAGE, LOW, WEIGHT, MARGINAL, SLOPE, RATE, N_STATE = range(7)
"""The rows of `state`; the last two are the derivatives of the message and of the marginal along a direction."""

CONSTANT, CONSECUTIVE = -2, -1
"""The values of an inner map if all cells of a row have one entry, or if the entries are consecutive."""


@on_rows
def _set(row, value):
    return {"row": value}


@on_rows
def _add(row, other):
    return {"row": row + other}


@on_rows
def _multiply(row, other):
    return {"row": row * other}


@on_rows
def _raise(row, other):
    return {"row": row.larger(other)}


@on_rows
def _exponentiate(row, low, sums):
    cells = exp_of(row + low)
    return {"row": cells, "sums": sums + cells}


@sum_on_rows
def _sum_of_exponentials(row, low):
    cells = exp_of(row + low)
    return {"row": cells}, cells


# -- a row and the entries of a separator -----------------------------------------------------------------------------


@inlined
def _add_entries(row, entries, start, maps, inner):
    if inner == CONSECUTIVE:
        _add(row, entries[start : start + row.size])
    elif inner == CONSTANT:
        _add(row, entries[start])
    else:
        places = maps[inner : inner + row.size]
        for j in range(row.size):
            row[j] += entries[start + places[j]]


@inlined
def _multiply_by_entries(row, entries, start, maps, inner):
    if inner == CONSECUTIVE:
        _multiply(row, entries[start : start + row.size])
    elif inner == CONSTANT:
        _multiply(row, entries[start])
    else:
        places = maps[inner : inner + row.size]
        for j in range(row.size):
            row[j] *= entries[start + places[j]]


@inlined
def _raise_entries(row, entries, start, maps, inner):
    if inner == CONSECUTIVE:
        _raise(entries[start : start + row.size], row)
    elif inner == CONSTANT:
        entries[start] = max(entries[start], largest_of(row))
    else:
        places = maps[inner : inner + row.size]
        for j in range(row.size):
            entries[start + places[j]] = max(entries[start + places[j]], row[j])


@inlined
def _add_to_entries(row, entries, start, maps, inner):
    if inner == CONSECUTIVE:
        _add(entries[start : start + row.size], row)
    elif inner == CONSTANT:
        entries[start] += sum_of(row)
    else:
        places = maps[inner : inner + row.size]
        for j in range(row.size):
            entries[start + places[j]] += row[j]


# -- rows of the table of a node --------------------------------------------------------------------------------------


@inlined
def _fill(nodes, maps, i, o, potentials, entries, row):
    """Set a row of node i to its potential plus the entries (messages, or slopes) of the nodes below."""
    if nodes[i, POTENTIAL] >= 0:
        start = nodes[i, POTENTIAL] + o * row.size
        _set(row, potentials[start : start + row.size])
    else:
        _set(row, 0.0)
    c = nodes[i, CHILD]
    while c >= 0:
        _add_entries(row, entries, nodes[c, AT] + maps[nodes[c, UP_OUTER] + o], maps, nodes[c, UP_INNER])
        c = nodes[c, SIBLING]


@inlined
def _hand_down(nodes, maps, i, o, row, entries):
    """Add a row of the marginal of node i, or of its derivative, to the entries of the nodes below."""
    c = nodes[i, CHILD]
    while c >= 0:
        _add_to_entries(row, entries, nodes[c, AT] + maps[nodes[c, UP_OUTER] + o], maps, nodes[c, UP_INNER])
        c = nodes[c, SIBLING]


# -- sweeps -----------------------------------------------------------------------------------------------------------


@compiled
def upward(nodes, maps, theta, tables, state):
    """Compute the messages, children first; return the log-partition function.

    Each message is shifted to a maximum of 0, which keeps the logarithms small.
    """
    total = 0.0
    low, sums, messages = state[LOW], state[WEIGHT], state[MESSAGE]
    for i in range(len(nodes) - 1, -1, -1):
        table, n, inner = nodes[i, TABLE], nodes[i, N_IN], nodes[i, INNER]
        at, end = nodes[i, AT], nodes[i, AT] + nodes[i, CELLS]
        _set(low[at:end], -np.inf)
        _set(sums[at:end], 0.0)
        for o in range(nodes[i, N_OUT]):
            row = tables[table + o * n : table + o * n + n]
            _fill(nodes, maps, i, o, theta, messages, row)
            _raise_entries(row, low, at + maps[nodes[i, OUTER] + o], maps, inner)
        for s in range(at, end):
            low[s] = 0.0 if low[s] == -np.inf else -low[s]
        for o in range(nodes[i, N_OUT]):
            row, start = tables[table + o * n : table + o * n + n], at + maps[nodes[i, OUTER] + o]
            if inner == CONSECUTIVE:
                _exponentiate(row, low[start : start + n], sums[start : start + n])
            elif inner == CONSTANT:
                sums[start] += _sum_of_exponentials(row, low[start])
            else:
                _add_entries(row, low, start, maps, inner)
                _sum_of_exponentials(row, 0.0)
                _add_to_entries(row, sums, start, maps, inner)
        for s in range(at, end):
            possible = sums[s] > 0.0  # then the sum is at least 1, because the maximum counts as exp(0)
            messages[s] = math.log(sums[s]) - low[s] if possible else -np.inf
            sums[s] = 1.0 / sums[s] if possible else 0.0
        top = largest_of(messages[at:end])
        if not math.isfinite(top):
            return top
        _add(messages[at:end], -top)
        total += top
    return total


@compiled
def downward(nodes, maps, tables, state):
    """Compute the marginals, parents first; those of the roots' empty separators are given, and all others 0."""
    marginals = state[MARGINAL]
    for i in range(len(nodes)):
        table, n, at, end = nodes[i, TABLE], nodes[i, N_IN], nodes[i, AT], nodes[i, AT] + nodes[i, CELLS]
        _multiply(state[WEIGHT, at:end], marginals[at:end])
        for o in range(nodes[i, N_OUT]):
            row = tables[table + o * n : table + o * n + n]
            _multiply_by_entries(row, state[WEIGHT], at + maps[nodes[i, OUTER] + o], maps, nodes[i, INNER])
            _hand_down(nodes, maps, i, o, row, marginals)


@compiled
def covariance(nodes, maps, tables, direction, tangent, state, buffer):
    """Write the derivative of the marginals along a direction of the potentials, after both sweeps.

    The slope of a message is the conditional mean of the change of T below it. The log of a marginal table changes by
    the change of T, less the slope of the message, plus the change of the log marginal of the separator.
    """
    slopes, rates, marginals = state[SLOPE], state[RATE], state[MARGINAL]
    _set(slopes, 0.0)
    _set(rates, 0.0)
    for i in range(len(nodes) - 1, -1, -1):
        table, n = nodes[i, TABLE], nodes[i, N_IN]
        for o in range(nodes[i, N_OUT]):
            row = buffer[:n]
            _fill(nodes, maps, i, o, direction, slopes, row)
            _multiply(row, tables[table + o * n : table + o * n + n])
            _add_to_entries(row, slopes, nodes[i, AT] + maps[nodes[i, OUTER] + o], maps, nodes[i, INNER])
        for s in range(nodes[i, AT], nodes[i, AT] + nodes[i, CELLS]):
            slopes[s] = slopes[s] / marginals[s] if marginals[s] > 0.0 else 0.0
    for i in range(len(nodes)):
        table, n, potential = nodes[i, TABLE], nodes[i, N_IN], nodes[i, POTENTIAL]
        for s in range(nodes[i, AT], nodes[i, AT] + nodes[i, CELLS]):
            rates[s] = (rates[s] / marginals[s] if marginals[s] > 0.0 else 0.0) - slopes[s]
        for o in range(nodes[i, N_OUT]):
            row = tangent[potential + o * n : potential + o * n + n] if potential >= 0 else buffer[:n]
            _fill(nodes, maps, i, o, direction, slopes, row)
            _add_entries(row, rates, nodes[i, AT] + maps[nodes[i, OUTER] + o], maps, nodes[i, INNER])
            _multiply(row, tables[table + o * n : table + o * n + n])
            _hand_down(nodes, maps, i, o, row, rates)
