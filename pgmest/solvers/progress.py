"""How far an estimate is, on a terminal; silent where standard error is a pipe or a file."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmest.solvers.run import Progress


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
