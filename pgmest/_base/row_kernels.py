"""Loops over rows of cells for kernels, in vectors of several widths down to a single cell.

The compiler would choose one width for long rows and compute the remaining cells one by one, so that a cell of a row of
ten costs five times as much as one of a row of a hundred. Here a row is cut into vectors of 32, 16, 8, 4, 2 and 1
cells, and the computation is written once for all widths. Kernels in other files call these functions; see `CALLED` in
compiled.py.

    @on_rows
    def add_multiple(target, row, weight):
        return {"target": target + row * weight}

A kernel calls `add_multiple` with two rows and a number; the call changes the first row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import signature
from numba.extending import intrinsic

WIDTHS = (32, 16, 8, 4, 2, 1)
"""The numbers of cells in a vector, each half of the one before; the compiler cuts vectors wider than a register."""

BLOCK = 8192
"""Long sums add the sums of blocks of this many cells, which bounds the rounding error."""


class Lanes:
    """A vector of cells of a row, or of copies of one number, in the code that is being generated."""

    def __init__(self, builder: Any, value: Any) -> None:
        self._builder = builder
        self.value: Any = value

    def __add__(self, other: Lanes) -> Lanes:
        return Lanes(self._builder, self._builder.fadd(self.value, other.value, flags=("contract",)))

    def __sub__(self, other: Lanes) -> Lanes:
        return Lanes(self._builder, self._builder.fsub(self.value, other.value, flags=("contract",)))

    def __mul__(self, other: Lanes) -> Lanes:
        return Lanes(self._builder, self._builder.fmul(self.value, other.value, flags=("contract",)))

    def larger(self, other: Lanes) -> Lanes:
        """Return the elementwise maximum; no cell may be NaN."""
        this = self._builder.fcmp_ordered(">", self.value, other.value)
        return Lanes(self._builder, self._builder.select(this, self.value, other.value))

    def filled(self, number: float) -> Lanes:
        """Return a vector of the same type and width with `number` in each cell."""
        return Lanes(self._builder, ir.Constant(self.value.type, [float(number)] * self.value.type.count))

    def where(self, other: Lanes, bound: Lanes) -> Lanes:
        """Return these cells where `other` exceeds the bound, and 0 elsewhere, including where `other` is NaN."""
        above = self._builder.fcmp_ordered(">", other.value, bound.value)
        return Lanes(self._builder, self._builder.select(above, self.value, self.filled(0.0).value))

    def times_power(self, exponent: Lanes) -> Lanes:
        """Multiply by 2^k, with k the lowest bits of the exponents; neither factor nor result may be subnormal."""
        builder, count = self._builder, self.value.type.count
        kind = ir.VectorType(ir.IntType(64), count)
        places = ir.Constant(kind, [52] * count)
        added = builder.shl(builder.bitcast(exponent.value, kind), places)
        return Lanes(builder, builder.bitcast(builder.add(builder.bitcast(self.value, kind), added), self.value.type))

    def halves(self) -> tuple[Lanes, Lanes]:
        """Return the first and the last half of the cells."""
        kind, count = ir.IntType(32), self.value.type.count // 2
        nothing = ir.Constant(self.value.type, ir.Undefined)
        masks = (ir.Constant(ir.VectorType(kind, count), list(range(low, low + count))) for low in (0, count))
        first, last = (Lanes(self._builder, self._builder.shuffle_vector(self.value, nothing, mask)) for mask in masks)
        return first, last


Written = dict[str, Lanes]
"""The new cells of each argument that is a row to write, by its name."""

Found = Lanes | tuple[Written, Lanes]
Cells = Callable[..., tuple[Written, Lanes | None]]
Combine = Callable[[Lanes, Lanes], Lanes]


def on_rows(cells: Callable[..., Written]) -> Any:
    """Return a function for kernels that computes new cells of rows, each from the cells at the same index in all rows.

    Args:
        cells: a function whose parameters are rows and numbers. A row is a contiguous array with at least as many cells
            as the first row. Two rows are the same memory, or do not overlap.
    """
    return _loop_of(cells, lambda *given: (cells(*given), None), None, 0.0)


def sum_on_rows(cells: Callable[..., Found]) -> Any:
    """Return a function as `on_rows` does, which also returns a sum over the row.

    Args:
        cells: a function that returns the terms of the sum, or a pair of the rows to write and the terms.
    """
    return _loop_of(cells, _after_written(cells), Lanes.__add__, 0.0)


def maximum_on_rows(cells: Callable[..., Found]) -> Any:
    """Return a function as `sum_on_rows` does, which returns the maximum instead of the sum; -inf for an empty row."""
    return _loop_of(cells, _after_written(cells), Lanes.larger, float("-inf"))


def _after_written(cells: Callable[..., Found]) -> Cells:
    def both(*given: Lanes) -> tuple[Written, Lanes]:
        found = cells(*given)
        return found if isinstance(found, tuple) else ({}, found)

    return both


def _loop_of(written: Callable[..., Any], cells: Cells, combine: Combine | None, neutral: float) -> Any:
    """Return the loop as an intrinsic of numba with the name and the parameters of `written`."""
    parameters = list(inspect.signature(written).parameters.values())

    def typed(typing_context: Any, *kinds: Any) -> Any:
        rows = [kind for kind in kinds if isinstance(kind, types.Array)]
        first = rows[0].dtype
        if any(row.layout != "C" or row.ndim != 1 or row.dtype != types.float64 or not row.aligned for row in rows):
            return None  # numba then raises its error for arguments of the wrong type
        taken = [kind if isinstance(kind, types.Array) else first for kind in kinds]

        def generate(context: Any, builder: Any, made: Any, values: Sequence[Any]) -> Any:
            arguments = {one.name: pair for one, pair in zip(parameters, zip(taken, values, strict=True), strict=True)}
            found = _Loop(context, builder, first, arguments).generate(cells, combine, neutral)
            return context.get_dummy_value() if found is None else found

        return signature(types.void if combine is None else first, *taken), generate

    context = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    typed.__name__, typed.__doc__, typed.__module__ = written.__name__, written.__doc__, written.__module__
    typed.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    return intrinsic(typed)


def _fetch(typing_context: Any, row: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, made: Any, values: Sequence[Any]) -> Any:
        array, place = values
        cell = builder.gep(context.make_array(row)(context, builder, array).data, [place])
        address, number = builder.bitcast(cell, ir.IntType(8).as_pointer()), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(prefetch, [address, number(0), number(3), number(1)])  # to read data, into the nearest cache
        return context.get_dummy_value()

    return signature(types.void, row, place), generate


fetch: Any = intrinsic(_fetch)
"""The prefetch instruction: fetch(row, place) loads the cache line of a cell that is needed soon, without waiting."""


class _Loop:
    """The code generator of one loop.

    Args:
        context, builder: those of numba and llvmlite.
        number: the type of cells and numbers.
        arguments: the type and the value of each argument, by name.
    """

    def __init__(self, context: Any, builder: Any, number: Any, arguments: dict[str, tuple[Any, Any]]) -> None:
        self._builder = builder
        self._element: ir.Type = context.get_value_type(number)
        self._bytes: int = number.bitwidth // 8
        self._arguments: dict[str, Any] = {
            name: context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for name, (kind, value) in arguments.items()
        }
        self._rows = {name: kind for name, (kind, _) in arguments.items() if isinstance(kind, types.Array)}

    def generate(self, cells: Cells, combine: Combine | None, neutral: float) -> Any:
        """Generate the loop; return the combination of its cells, None if `combine` is None."""
        builder, size = self._builder, self._arguments[next(iter(self._rows))].nitems
        index, widest = size.type, WIDTHS[0]
        place = None if combine is None else self._kept(self._same(ir.Constant(self._element, neutral), widest))
        start, end = index(0), builder.and_(size, index(-widest))
        with cgutils.for_range_slice(builder, start, end, index(widest), index) as (current, _):
            self._vector(cells, combine, current, widest, place)
        for width in WIDTHS[1:]:
            start = end
            if combine is not None and place is not None:
                place = self._kept(combine(*Lanes(builder, builder.load(place)).halves()))
            some = builder.and_(size, index(width))
            with builder.if_then(builder.icmp_unsigned("!=", some, index(0))):
                self._vector(cells, combine, start, width, place)
            end = builder.add(start, some)
        return None if place is None else builder.extract_element(builder.load(place), ir.IntType(32)(0))

    def _vector(self, cells: Cells, combine: Combine | None, start: Any, width: int, place: Any) -> None:
        """Generate the computation of `width` cells: write the rows, and combine the result with that at `place`."""
        builder = self._builder
        given = [
            Lanes(builder, builder.load(self._pointer(name, start, width), align=self._bytes))
            if name in self._rows
            else self._same(argument, width)
            for name, argument in self._arguments.items()
        ]
        written, found = cells(*given)
        for name, lanes in written.items():
            if not self._rows[name].mutable:
                raise TypingError(f"{name} is a read-only array, but the kernel writes to it: pass a writable array.")
            builder.store(lanes.value, self._pointer(name, start, width), align=self._bytes)
        if combine is not None and found is not None:
            builder.store(combine(Lanes(builder, builder.load(place)), found).value, place)

    def _pointer(self, name: str, start: Any, width: int) -> Any:
        cell = self._builder.gep(self._arguments[name].data, [start])
        return self._builder.bitcast(cell, ir.VectorType(self._element, width).as_pointer())

    def _kept(self, lanes: Lanes) -> Any:
        """Return a stack variable with this content; the compiler makes it a register."""
        return cgutils.alloca_once_value(self._builder, lanes.value)

    def _same(self, number: Any, width: int) -> Lanes:
        kind = ir.IntType(32)
        nothing = ir.Constant(ir.VectorType(self._element, width), ir.Undefined)
        one = self._builder.insert_element(nothing, number, kind(0))
        zeros = ir.Constant(ir.VectorType(kind, width), [0] * width)
        return Lanes(self._builder, self._builder.shuffle_vector(one, nothing, zeros))
