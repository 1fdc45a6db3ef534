"""Work that threads share inside kernels: one leads, the others take parts of what it offers.

Waking a thread takes as long as many a product of matrices. So helpers stay awake during a run and for a moment after
it, and find in one array of integers what there is to do. The leader never waits for a helper that has not come: it
offers a work in parts, takes parts itself until none is left, and waits only for those that others have begun. Who does
a part makes no difference to what comes out.

One number, the ticket, holds the work that is offered and which of its parts nobody has taken. Whoever takes a part
replaces it in one atomic operation, which fails if anything has changed in between; a counter of all offers in its
upper bits tells each from those before. The leader takes parts from the end, helpers from the start: so what follows
finds more of its tables in the cache of its own core.

As elementary_kernels.py, a file that kernels of others may call.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pgmest._base.compiled import inlined

TICKET, FINISHED, MOST_PARTS, LEAST, PARTS, TABLE, PHASE = 0, 8, 16, 17, 18, 19, 24
"""Where in a team's array the ticket is, how many parts are finished, in how many parts work may be offered, how much
work a part is at least, in how many parts the present one is, at which address a table is that it is about, and what
helpers are to do where none is offered. What changes while others look at it is a line of the cache apart."""

LEAVE, LINGER, STAY = range(3)
"""Phases: helpers leave at once, or when nothing has been offered for a while, or not."""

LENGTH = 32

_FIRST, _WORK, _OFFER = 8, 16, 40
_PARTS, _WORKS = (1 << _FIRST) - 1, (1 << (_OFFER - _WORK)) - 1
"""The lowest 8 bits of a ticket are the end of the parts left, the next 8 the first of them, then 24 for the work; the
others are the number of the offer."""

PATIENCE = 1 << 14
"""How often a lingering helper looks for work before it leaves: for some tenths of a millisecond."""


def alone() -> np.ndarray:
    """The array of a team of one: nothing is offered."""
    return team_of(1, 0)


def team_of(parts: int, least: int) -> np.ndarray:
    """The array of a team whose work is offered in up to so many parts, of at least so much each."""
    team = np.zeros(LENGTH, dtype=np.int64)
    team[MOST_PARTS], team[LEAST] = min(parts, _PARTS), max(least, 1)
    return team


def _instructions(write: Any) -> Any:
    """What kernels call, by the function that writes its instructions."""
    return intrinsic(write)


def _pointer(context: Any, builder: Any, team: Any, array: Any, place: Any) -> Any:
    return builder.gep(context.make_array(team)(context, builder, array).data, [place])


@_instructions
def _load(typing_context, team, place):
    def generate(context, builder, signature, values):
        return builder.load_atomic(_pointer(context, builder, team, *values), "seq_cst", 8)

    return types.int64(team, types.int64), generate


@_instructions
def _store(typing_context, team, place, value):
    def generate(context, builder, signature, values):
        builder.store_atomic(values[2], _pointer(context, builder, team, *values[:2]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(team, types.int64, types.int64), generate


@_instructions
def _add_one(typing_context, team, place):
    def generate(context, builder, signature, values):
        builder.atomic_rmw("add", _pointer(context, builder, team, *values), ir.IntType(64)(1), "seq_cst")
        return context.get_dummy_value()

    return types.void(team, types.int64), generate


@_instructions
def _replace(typing_context, team, place, old, new):
    """Whether the number was `old`, and is now `new`."""

    def generate(context, builder, signature, values):
        place = _pointer(context, builder, team, *values[:2])
        return builder.extract_value(builder.cmpxchg(place, *values[2:], "seq_cst", "seq_cst"), 1)

    return types.boolean(team, types.int64, types.int64, types.int64), generate


@_instructions
def _pause(typing_context):
    """Leave the core to its other thread for a moment."""

    def generate(context, builder, signature, values):
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate


@_instructions
def address_of(typing_context, table):
    """Where the cells of an array are, as a number."""

    def generate(context, builder, signature, values):
        return builder.ptrtoint(context.make_array(table)(context, builder, values[0]).data, ir.IntType(64))

    return types.int64(table), generate


@_instructions
def table_at(typing_context, address, like):
    """Cells at an address as an array of the type of another one, whose length it is given, too."""

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
    """In how many parts so much work is to be offered."""
    return min(team[MOST_PARTS], amount // team[LEAST])


@inlined
def offer(team, work, parts, table):
    """The leader: all parts of a new work."""
    team[PARTS], team[TABLE] = parts, table
    _store(team, FINISHED, 0)
    number = (_load(team, TICKET) >> _OFFER) + 1
    _store(team, TICKET, (number << _OFFER) + (work << _WORK) + parts)


@inlined
def take(team):
    """The leader: the last part left of what it has offered; -1 where there is none."""
    while True:
        ticket = _load(team, TICKET)
        end = ticket & _PARTS
        if end == (ticket >> _FIRST) & _PARTS:
            return -1
        if _replace(team, TICKET, ticket, ticket - 1):
            return end - 1


@inlined
def wait_for_work(team):
    """A helper: (work, first part left) as soon as there is some; (-1, -1) when it is to leave."""
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
    """One part has been done."""
    _add_one(team, FINISHED)


@inlined
def wait_for_all(team):
    """The leader, when no part is left to take."""
    while _load(team, FINISHED) < team[PARTS]:
        _pause()
