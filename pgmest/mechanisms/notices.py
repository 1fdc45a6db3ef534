"""Warnings before a run: budgets that promise little, and workloads that a mechanism does not use.

They depend on the arguments alone, never on a record.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmest.workloads import Workload

LOOSE_DELTA = 1e-4
"""The least delta that causes a warning if the number of records is not given."""

WEAK_EPSILON = 50.0
"""The largest epsilon without a warning: beyond, one record changes the odds of a result by more than 10^21."""

USES = ("items", "queries", "marginals", "pairs", "nothing")
"""The parts of a workload that a mechanism can use: its queries and weights; its queries; its sets of attributes; the
pairs within these sets; or nothing."""


class WeakPromiseWarning(UserWarning):
    """A budget whose promise of privacy means little."""


class UnusedWorkloadWarning(UserWarning):
    """A workload, or a part of it, that the mechanism does not use."""


class EndedRunWarning(UserWarning):
    """A checkpoint whose run has ended, so that its result is made again, and nothing is asked of the records."""


def warn_of_ended_run(checkpoint: object, ended: str | None) -> None:
    """Warn if the run of a checkpoint has ended, with the time at which it did."""
    if ended is not None:
        text = (
            f"{checkpoint}: this run ended on {ended}. Its result is made again of the answers in the file: nothing is "
            "asked of the records or paid. Name another file for a new run."
        )
        warnings.warn(text, EndedRunWarning, stacklevel=3)


def warn_of_budget(epsilon: float | None, delta: float | None) -> None:
    """Warn if a budget promises little, judged by public numbers."""
    for text in (*delta_warnings(delta), *epsilon_warnings(epsilon)):
        warnings.warn(text, WeakPromiseWarning, stacklevel=4)


def warn_of_workload(name: str, uses: str, workload: Workload) -> None:
    """Warn if a mechanism does not use all of a workload.

    Args:
        name: the name of the mechanism.
        uses: what the mechanism uses, one of `USES`.
        workload: the items of positive weight.
    """
    ignored = None
    if uses == "nothing":
        ignored = f"{name} chooses its tables by itself: the workload has no effect. LAMP, AIM and MWEM use one."
    elif uses == "queries":
        if any(item.matters for item in workload) or len({item.weight for item in workload}) > 1:
            ignored = (
                f"{name} uses the queries of a workload only: its weights and marks of what matters have no effect. "
                "LAMP uses all of them, MWEM and HDMM weights, AIM weights and marks."
            )
    elif uses != "items" and (
        any(item.query is not None or item.matters for item in workload) or len({item.weight for item in workload}) > 1
    ):
        ignored = (
            f"{name} uses the attributes of a workload only: its weights, query matrices and marks of what matters "
            "have no effect. LAMP uses all of them, MWEM and HDMM weights and matrices, AIM weights and marks."
        )
    elif uses == "pairs" and any(len(clique) > 2 for clique in workload.cliques):
        ignored = (
            f"{name} measures pairs at most: of the workload's larger marginals it uses the pairs within them. "
            "LAMP, AIM and MWEM measure larger ones."
        )
    if ignored:
        warnings.warn(ignored, UnusedWorkloadWarning, stacklevel=4)


def delta_warnings(delta: float | None, records: int | None = None) -> tuple[str, ...]:
    """Return a warning if a delta is too large for a public guess of the number of records, or in general."""
    bound = LOOSE_DELTA if records is None else min(LOOSE_DELTA, 1 / records)
    if delta is None or delta < bound:
        return ()
    against = f"1 / {records:,} records" if records is not None and bound < LOOSE_DELTA else f"{LOOSE_DELTA:g}"
    return (
        f"delta {delta:g} is not well below {against}: a mechanism that publishes whole records of one person in "
        f"{1 / delta:,.3g} keeps such a promise. Take 1e-9, or less than a tenth of 1 / records.",
    )


def epsilon_warnings(epsilon: float | None) -> tuple[str, ...]:
    """Return a warning if an epsilon promises next to nothing."""
    if epsilon is None or epsilon <= WEAK_EPSILON:
        return ()
    return (
        f"epsilon {epsilon:g} promises next to nothing: one record may change the odds of a result by a factor of "
        f"10^{epsilon / 2.302585:,.0f}. An epsilon of 1 is common, and one above 10 is weak.",
    )
