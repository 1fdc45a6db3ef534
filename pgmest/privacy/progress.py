"""A progress bar of a spent budget, shown on a terminal only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmest.privacy.curator import Curator


@contextlib.contextmanager
def budget_bar(title: str) -> Iterator[Callable[[Curator], None]]:
    """Yield a callback for a curator that shows the spent share of its budget and its last request.

    A terminal that was closed during the run raises no error, since the answers so far are paid for.
    """
    from tqdm import tqdm

    bar = tqdm(desc=title, total=100, unit="%", disable=None, bar_format="{l_bar}{bar}| {elapsed}{postfix}")

    def show(curator: Curator) -> None:
        if bar.disable:
            return
        with contextlib.suppress(OSError, ValueError):
            bar.set_postfix_str(curator.ledger[-1].label, refresh=False)
            bar.update(round(100 * (curator.spent / curator.budget), 3) - bar.n)

    try:
        yield show
    finally:
        with contextlib.suppress(OSError, ValueError):
            bar.close()
