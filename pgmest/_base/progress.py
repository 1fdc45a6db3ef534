"""The time that long work takes, said before it starts, and its progress: a bar on a terminal, else lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from pgmest._base.stages import begun
from pgmest.errors import plural

LONG = 2.0
"""Work of at least this many seconds is announced."""


def announce(what: str, seconds: float) -> None:
    """Say on standard error about how long some work takes, if it is long."""
    if seconds >= LONG:
        print(f"pgmest: {what} takes about {duration_text(seconds)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Return a context manager whose value is a function to call with the number of steps that were done since."""
    from tqdm import tqdm

    with begun(what) as run, tqdm(desc=what, total=total, disable=None, leave=False, delay=1.0) as bar:
        done = 0

        def more(steps: int) -> None:
            nonlocal done
            done += steps
            run.stage = f"{what}: {done:,} of {total:,}" if run.title != what else f"{done:,} of {total:,}"
            bar.update(steps)

        yield more


def duration_text(seconds: float) -> str:
    """Return a duration in words.

    >>> duration_text(14.2), duration_text(95), duration_text(4000), duration_text(9000)
    ('14 s', '2 minutes', '67 minutes', '2.5 hours')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    return plural(minutes, "minute") if seconds < 7200 else f"{seconds / 3600:.2g} hours"
