"""The compiled kernels of the derivative of the marginals, on the plans that kernels.py describes.

mu is the gradient of the log-partition function, so its derivative along a direction v is Cov @ v. Upward, the tangent
of a message is the conditional mean of v below: sum_r mu(r, s) dT(r, s) / mu(s). Downward, the log marginal of each
cell changes by delta = dT - d(message) + d(log marginal of the separator). Entries without mass have tangent 0.
"""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined
from pgmest.inference.exact.node_row_kernels import (
    add_separator,
    fill_row,
    marginal_row,
    multiply,
    set_all,
    set_sum,
    slot_message,
    slot_spread,
    spread_row,
    sum_row,
)
from pgmest.inference.exact.plan_columns import (
    BASE,
    MARGINAL,
    MESSAGE,
    N_IN,
    N_OUT,
    PARENT,
    SEPARATOR,
    SLOT,
    SPREAD,
    SPREAD_SIZE,
)


@inlined
def _weights_row(nodes, children, maps, i, o, theta, mu, arena, buffer):
    """Write row `o` of the marginal to the row buffer."""
    n_in, base = nodes[i, N_IN], nodes[i, BASE]
    row = arena[buffer : buffer + n_in]
    if base >= 0:
        set_sum(row, mu[base + o * n_in : base + o * n_in + n_in], 0.0)
    else:
        marginal_row(nodes, children, maps, i, o, theta, arena, row, buffer)


@compiled
def covariance_upward(nodes, children, maps, low, high, theta, mu, direction, arena, shift, buffer, buffer2):
    """Compute the tangents of the log messages along `direction`, in the copy of the messages at `shift`."""
    for i in range(high - 1, low - 1, -1):
        if nodes[i, SLOT]:
            slot_message(nodes, children, maps, i, direction, arena, shift, buffer)
            continue
        n, n_in = nodes[i, SEPARATOR], nodes[i, N_IN]
        tangent, marginal = nodes[i, MESSAGE] + shift, nodes[i, MARGINAL]
        set_all(arena[tangent : tangent + n], 0.0)
        weights, row = arena[buffer : buffer + n_in], arena[buffer2 : buffer2 + n_in]
        for o in range(nodes[i, N_OUT]):
            _weights_row(nodes, children, maps, i, o, theta, mu, arena, buffer)
            fill_row(nodes, children, maps, i, o, direction, arena, shift, row, buffer)
            multiply(row, row, weights)
            sum_row(nodes, i, o, row, arena, tangent)
        for s in range(n):
            mass = arena[marginal + s]
            arena[tangent + s] = arena[tangent + s] / mass if mass > 0.0 else 0.0


@inlined
def _separator_change(nodes, i, arena, shift, marginal_shift):
    """Compute, per separator entry, the change of its log marginal less that of the message, which dT contains."""
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
    """Compute Cov @ direction on the measured cliques; tangents of separators go to the copy at `marginal_shift`."""
    for i in range(low, high):
        spread = nodes[i, SPREAD] + marginal_shift
        set_all(arena[spread : spread + nodes[i, SPREAD_SIZE]], 0.0)
        if nodes[i, SLOT]:
            slot_spread(nodes, children, maps, i, tangent, arena, marginal_shift, buffer)
            continue
        n_in, base = nodes[i, N_IN], nodes[i, BASE]
        _separator_change(nodes, i, arena, shift, marginal_shift)
        weights, row = arena[buffer : buffer + n_in], arena[buffer2 : buffer2 + n_in]
        for o in range(nodes[i, N_OUT]):
            _weights_row(nodes, children, maps, i, o, theta, mu, arena, buffer)
            fill_row(nodes, children, maps, i, o, direction, arena, shift, row, buffer)
            add_separator(nodes, i, o, row, arena, nodes[i, MESSAGE] + shift)
            multiply(row, row, weights)
            if base >= 0:
                set_sum(tangent[base + o * n_in : base + o * n_in + n_in], row, 0.0)
            spread_row(nodes, children, maps, i, o, row, arena, marginal_shift, buffer)
