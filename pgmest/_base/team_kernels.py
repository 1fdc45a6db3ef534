"""Work that threads share inside kernels: the leader offers work in parts, and helpers take some of the parts.

Waking a thread takes as long as many matrix products. Helpers therefore stay awake during a run and for a moment after
it, and look for work in one array of integers. The leader never waits for a helper that has not begun: it offers work
in parts, takes parts itself until none is left, and waits only for the parts that helpers have begun. The result does
not depend on which thread computes a part.

One number, the ticket, holds the work that is offered and the range of the parts that nobody has taken. A thread takes
a part by replacing the ticket in one atomic operation, which fails if the ticket has changed in between; the upper bits
count all offers, so that two tickets are never equal. The leader takes parts from the end, helpers from the start, so
that the next steps of the leader find more of their tables in the cache of its core.

Kernels in other files call these functions; see `CALLED` in compiled.py.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types

from pgmest._base.compiled import inlined

intrinsic: Any = extending.intrinsic  # callers do not pass the typing context, which numba's annotation requires

TICKET, FINISHED, MOST_PARTS, LEAST, PARTS, TABLE, PHASE = 0, 8, 16, 17, 18, 19, 24
"""The places in a team's array: the ticket, the number of finished parts, the most parts of an offer, the least work in
a part, the number of parts of the present offer, the address of its table, and the phase of the helpers.

The numbers that change while other threads read them are a cache line apart.
"""

LEAVE, LINGER, STAY = range(3)
"""The phases of helpers without work: they leave at once, leave after a while (`PATIENCE`), or stay."""

LENGTH = 32
"""The length of a team's array."""

_FIRST, _WORK, _OFFER = 8, 16, 40
_PARTS, _WORKS = (1 << _FIRST) - 1, (1 << (_OFFER - _WORK)) - 1
"""The layout of a ticket: 8 bits for the end of the parts left, 8 for the first of them, 24 for the work, the rest for
the number of the offer."""

PATIENCE = 1 << 14
"""The number of times that a lingering helper looks for work before it leaves: some tenths of a millisecond."""


def alone() -> np.ndarray:
    """Return the array of a team without helpers, for which no work is offered."""
    return team_of(1, 0)


def team_of(parts: int, least: int) -> np.ndarray:
    """Return the array of a team whose work is offered in at most `parts` parts of at least `least` each."""
    team = np.zeros(LENGTH, dtype=np.int64)
    team[MOST_PARTS], team[LEAST] = min(parts, _PARTS), max(least, 1)
    return team


def _pointer(context: Any, builder: Any, team: Any, array: Any, place: Any) -> Any:
    return builder.gep(context.make_array(team)(context, builder, array).data, [place])


@intrinsic
def _load(typing_context, team, place):
    def generate(context, builder, signature, values):
        return builder.load_atomic(_pointer(context, builder, team, *values), "seq_cst", 8)

    return types.int64(team, types.int64), generate


@intrinsic
def _store(typing_context, team, place, value):
    def generate(context, builder, signature, values):
        builder.store_atomic(values[2], _pointer(context, builder, team, *values[:2]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(team, types.int64, types.int64), generate


@intrinsic
def _add_one(typing_context, team, place):
    def generate(context, builder, signature, values):
        builder.atomic_rmw("add", _pointer(context, builder, team, *values), ir.IntType(64)(1), "seq_cst")
        return context.get_dummy_value()

    return types.void(team, types.int64), generate


@intrinsic
def _replace(typing_context, team, place, old, new):
    """Replace the number by `new` if it is `old`; return whether it was."""

    def generate(context, builder, signature, values):
        place = _pointer(context, builder, team, *values[:2])
        return builder.extract_value(builder.cmpxchg(place, *values[2:], "seq_cst", "seq_cst"), 1)

    return types.boolean(team, types.int64, types.int64, types.int64), generate


@intrinsic
def _pause(typing_context):
    """Yield the core to its other hardware thread for a moment."""

    def generate(context, builder, signature, values):
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def address_of(typing_context, table):
    """Return the address of an array's cells."""

    def generate(context, builder, signature, values):
        return builder.ptrtoint(context.make_array(table)(context, builder, values[0]).data, ir.IntType(64))

    return types.int64(table), generate


@intrinsic
def table_at(typing_context, address, like):
    """Return the cells at an address as an array with the type and the length of another array."""

    def generate(context, builder, signature, values):
        array = context.make_array(like)(context, builder, values[1])
        found = context.make_array(like)(context, builder)
        for name in ("nitems", "itemsize", "shape", "strides", "parent"):
            setattr(found, name, getattr(array, name))
        found.meminfo = context.get_constant_null(types.voidptr)
        found.data = builder.inttoptr(values[0], array.data.type)
        return found._getvalue()

    return like(types.int64, like), generate


@inlined
def parts_of(team, amount):
    """Return the number of parts in which an amount of work is offered."""
    return min(team[MOST_PARTS], amount // team[LEAST])


@inlined
def offer(team, work, parts, table):
    """Offer all parts of a new work (called by the leader)."""
    team[PARTS], team[TABLE] = parts, table
    _store(team, FINISHED, 0)
    number = (_load(team, TICKET) >> _OFFER) + 1
    _store(team, TICKET, (number << _OFFER) + (work << _WORK) + parts)


@inlined
def take(team):
    """Take the last part left of the present offer, -1 if none is left (called by the leader)."""
    while True:
        ticket = _load(team, TICKET)
        end = ticket & _PARTS
        if end == (ticket >> _FIRST) & _PARTS:
            return -1
        if _replace(team, TICKET, ticket, ticket - 1):
            return end - 1


@inlined
def wait_for_work(team):
    """Wait for work and take its first part (called by helpers).

    Returns:
        the work and the part; (-1, -1) if the helper must leave.
    """
    patience = PATIENCE
    while patience > 0:
        ticket = _load(team, TICKET)
        first = (ticket >> _FIRST) & _PARTS
        if first < ticket & _PARTS and _replace(team, TICKET, ticket, ticket + (1 << _FIRST)):
            return (ticket >> _WORK) & _WORKS, first
        phase = _load(team, PHASE)
        if phase == LEAVE:
            break
        patience -= phase == LINGER
        _pause()
    return -1, -1


@inlined
def finish(team):
    """Count a part as finished."""
    _add_one(team, FINISHED)


@inlined
def wait_for_all(team):
    """Wait until all parts are finished (called by the leader when no part is left to take)."""
    while _load(team, FINISHED) < team[PARTS]:
        _pause()
