"""What ends a mechanism's run early: Ctrl-C, or a limit of time; what was paid for is kept in both cases."""

from __future__ import annotations

import _thread
import contextlib
import math
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pgmest._base.errors import ArgumentError, percent_text, plural
from pgmest.privacy.curator import Curator


@dataclass
class Stop:
    """How a run ends early.

    Attributes:
        limit: the seconds that it may take, or None.
        timed_out: whether they are over.
        finished: whether the run ended by itself before that.
    """

    limit: float | None
    timed_out: bool = False
    finished: bool = False


def check_time_limit(limit: Any) -> None:
    """See that it is a number of seconds.

    Raises:
        ArgumentError: it is not.
    """
    number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit is not None and not (number and 0 < limit < math.inf):
        raise ArgumentError.of("time_limit", limit, "a positive number of seconds, or None")


@contextlib.contextmanager
def stopped_early(curator: Curator, limit: float | None, silent: bool) -> Iterator[Stop]:
    """Let Ctrl-C and the limit of time stop the curator: no request after them is answered, or paid for.

    `estimate` answers Ctrl-C by returning early, and the next round must not begin. In other threads than the main
    one, which alone can be interrupted, the limit takes effect at the next request.

    Args:
        curator: of the run.
        limit: seconds, or None.
        silent: whether nothing is said on standard error.
    """
    stop, before = Stop(limit), signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread() and callable(before)

    def answer(number: int, frame: Any) -> None:
        if stop.finished:  # the time was over just after the run was
            return
        curator.stopped = True
        if not silent:
            _say(curator, stop)
        signal.default_int_handler(number, frame) if stop.timed_out else before(number, frame)  # type: ignore[operator]

    def over() -> None:
        if not stop.finished:
            stop.timed_out = curator.stopped = True
            if main:
                _thread.interrupt_main()

    timer = None if limit is None else threading.Timer(limit, over)
    if main:
        signal.signal(signal.SIGINT, answer)
    try:
        if timer:
            timer.daemon = True
            timer.start()
        yield stop
        stop.finished = True
    finally:
        if timer:
            timer.cancel()
        if main:
            signal.signal(signal.SIGINT, before)


def _say(curator: Curator, stop: Stop) -> None:
    """What happens next, at once: what follows may take a while."""
    count, why = len(curator.measurements), f"the {stop.limit:g} s are over" if stop.timed_out else "interrupted"
    if not count:
        text = f"{why}: nothing was measured yet, so there is nothing to make a model of."
        print(f"\npgmest: {text}", file=sys.stderr, flush=True)
        return
    spent = 1 - curator.remaining / curator.budget
    text = (
        f"{why}: nothing more is asked of the data or paid for. A model is now made of the "
        f"{plural(count, 'answer')} so far ({percent_text(spent, 1)} of the budget); Ctrl-C (again) aborts without it."
    )
    print(f"\npgmest: {text}", file=sys.stderr, flush=True)
