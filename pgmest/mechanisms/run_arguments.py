"""The arguments of a run (`Mechanism.fit`): their checks, and what the run makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, PgmestError
from pgmest.inference.exact.structural_zeros import Rule, zero_rules
from pgmest.mechanisms.stopping import check_time_limit
from pgmest.privacy.curator import Curator
from pgmest.privacy.progress import budget_bar


def check_run(data: Any, seed: Any, progress: Any, checkpoint: Any, time_limit: Any) -> None:
    """Raise ArgumentError if an argument of `fit` is not valid."""
    if checkpoint is not None and not isinstance(seed, int | np.integer):
        raise ArgumentError.of("seed", seed, "an integer, so that the run can be repeated from checkpoint=")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ArgumentError.of("progress", progress, "None, True, False, or a function of a curator")
    check_time_limit(time_limit)
    if not isinstance(data, Dataset):
        raise ArgumentError.of("data", type(data).__name__, "a pgmest.Dataset; see Dataset.from_frame and .load")


def rules_of(zeros: Any) -> tuple[Rule, ...]:
    """Return the structural zeros as rules; raise ArgumentError if a value is not a valid rule."""
    try:
        return tuple(zero_rules(zeros))
    except (TypeError, ValueError) as error:
        if isinstance(error, PgmestError):
            raise
        allowed = "rules from pgmest.zeros, a mapping of attributes to combinations, or None"
        raise ArgumentError.of("structural_zeros", zeros, allowed) from None


def generators(seed: Any) -> list[np.random.Generator]:
    """Return two independent generators: for simulated noise, and for the mechanism's own choices."""
    try:
        return np.random.default_rng(seed).spawn(2)
    except (TypeError, ValueError):
        raise ArgumentError.of("seed", seed, "an integer of at least 0, a NumPy generator, or None") from None


@contextlib.contextmanager
def shown(title: str, progress: bool | Callable[[Curator], object] | None) -> Iterator[Any]:
    """Yield the function of a curator that shows the progress of a run, or None."""
    if progress is None or progress is True:
        with budget_bar(title) as show:
            yield show
    else:
        yield progress or None
