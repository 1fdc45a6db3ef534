"""Tracebacks without the variables of the code that looked at private records."""

from __future__ import annotations

from types import TracebackType


class without_frames:
    """A context manager that drops the frames of an exception that leaves it, and of those that it was raised from.

    Tools that record the variables of a traceback (rich, Sentry, IPython, cgitb) would write down exact counts that
    private code had at hand. The exception itself, its message and its notes stay.

    >>> from traceback import walk_tb
    >>> def private(exact):
    ...     1 / (exact - exact)
    >>> try:
    ...     with without_frames():
    ...         private(37)
    ... except ZeroDivisionError as error:
    ...     print(error, private.__code__ in {frame.f_code for frame, _ in walk_tb(error.__traceback__)})
    division by zero False
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            drop_frames(error)


def drop_frames(error: BaseException) -> None:
    """Remove the traceback of an exception, and what it was raised from, in place."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [other for other in (one.__context__, one.__cause__) if other is not None]
        waiting += getattr(one, "exceptions", ())
        one.__traceback__ = None
        one.__context__ = one.__cause__ = None
