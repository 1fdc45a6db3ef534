"""How far an estimate is, on a terminal; silent where standard error is a pipe or a file."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmest.estimation.minimise import Progress
    from pgmest.privacy.curator import Curator


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A callback for `pgmest.estimate` that shows its iterations, their speed, and how good the answer is so far.

    with progress_bar() as callback:
        model = pgmest.estimate(measurements, domain, callback=callback)
    """
    from tqdm import tqdm

    with tqdm(desc="estimating", disable=None) as bar:

        def show(progress: Progress) -> None:
            if math.isfinite(progress.gap):
                bar.set_postfix_str(f"gap {progress.gap:.3g}, done at {progress.tolerance:.3g}", refresh=False)
            bar.update(progress.iteration - bar.n)

        yield show


@contextlib.contextmanager
def budget_bar(title: str) -> Iterator[Callable[[Curator], None]]:
    """A callback for a curator that shows how much of its budget is spent, and on what last."""
    from tqdm import tqdm

    with tqdm(desc=title, total=100, unit="%", disable=None, bar_format="{l_bar}{bar}| {elapsed}{postfix}") as bar:

        def show(curator: Curator) -> None:
            bar.set_postfix_str(curator.ledger[-1].label, refresh=False)
            bar.update(round(100 * (curator.spent / curator.budget), 3) - bar.n)

        yield show
