"""How much of a budget is spent, on a terminal; silent where standard error is a pipe or a file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmest.privacy.curator import Curator


@contextlib.contextmanager
def budget_bar(title: str) -> Iterator[Callable[[Curator], None]]:
    """A callback for a curator that shows how much of its budget is spent, and on what last."""
    from tqdm import tqdm

    with tqdm(desc=title, total=100, unit="%", disable=None, bar_format="{l_bar}{bar}| {elapsed}{postfix}") as bar:

        def show(curator: Curator) -> None:
            if bar.disable:
                return
            bar.set_postfix_str(curator.ledger[-1].label, refresh=False)
            bar.update(round(100 * (curator.spent / curator.budget), 3) - bar.n)

        yield show
