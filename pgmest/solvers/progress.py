"""The progress bar of an estimate. It is shown on a terminal only, not if standard error is a pipe or a file."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmest.solvers.run import Progress


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """Return a context manager whose value is a callback for `pgmest.estimate` that shows iterations, speed and gap.

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
