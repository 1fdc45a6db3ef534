"""The progress of a run that spends a budget: a bar on a terminal, and a line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pgmest._base.stages import begun

if TYPE_CHECKING:
    from pgmest.privacy.curator import Curator


@contextlib.contextmanager
def budget_bar(title: str) -> Iterator[Callable[[Curator], None]]:
    """Yield a callback for a curator that shows the spent share of its budget, and what the run is doing.

    A terminal that was closed during the run raises no error, since the answers so far are paid for.
    """
    from tqdm import tqdm

    bar = tqdm(desc=title, total=100, unit="%", disable=None, bar_format="{l_bar}{bar}| {elapsed}{postfix}")
    with begun(title) as run:

        def show(curator: Curator) -> None:
            run.share, run.stage = curator.spent / curator.budget, curator.ledger[-1].label
            if not bar.disable:
                draw()

        def draw() -> None:
            with contextlib.suppress(OSError, ValueError):
                bar.set_postfix_str(run.stage, refresh=False)
                bar.n = round(100 * (run.share or 0.0), 3)
                bar.refresh()

        run.redraw = None if bar.disable else draw
        try:
            yield show
        finally:
            run.share, run.stage, run.redraw = None, "", None
            with contextlib.suppress(OSError, ValueError):
                bar.close()
