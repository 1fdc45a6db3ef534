"""The time that long work takes, said before it starts, and a progress bar while it lasts.

Both are shown on a terminal and in notebooks only, not if standard error is a pipe or a file.
"""

from __future__ import annotations

import sys
from typing import Any

LONG = 2.0
"""Work of at least this many seconds is announced."""


def announce(what: str, seconds: float) -> bool:
    """Say about how long some work takes, if it is long; return whether it was said."""
    if not seconds >= LONG or not interactive():
        return False
    print(f"pgmest: {what} takes about {duration(seconds)}", file=sys.stderr, flush=True)
    return True


def interactive() -> bool:
    """Return whether somebody looks: standard error is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def bar(what: str, total: int) -> Any:
    """Return a progress bar, which appears once the work has taken a second."""
    from tqdm import tqdm

    return tqdm(desc=what, total=total, disable=not interactive(), leave=False, delay=1.0)


def duration(seconds: float) -> str:
    """Return a time in a readable form.

    >>> duration(3.2), duration(75), duration(4000)
    ('3 s', '75 s', '67 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
