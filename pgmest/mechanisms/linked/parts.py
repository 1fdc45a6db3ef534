"""The part of the budget for tables of parents: as accurate as if half of the budget were spent on them alone.

Parents can be made without their children, by half of a budget, as `LAMP` makes a table. Families are to be no worse
than that at either level. So the tables of parents get the least share with which their expected error is that of half
of the budget; tables with attributes of children get all others. Both errors are forecast from earlier answers, as are
all shares of `LAMP`: where more budget would not help the tables of parents, they get less.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgmest.mechanisms.lamp.allocation import ItemErrors, select_candidates
from pgmest.mechanisms.lamp.candidates import CandidateMarginal
from pgmest.tables.domain import Clique

ALONE = 0.5
"""The share of the budget that would make parents alone, one of two levels."""
CLOSE = 1.02
"""The expected error of tables of parents, relative to that with the share `ALONE`."""
STEPS = 7
"""The number of halvings in the search for a share."""

Plan = dict[Clique, tuple[CandidateMarginal, float]]
"""Candidates to measure, each with its share of the budget."""


def share_of_parents(
    candidates: Sequence[CandidateMarginal], item_errors: ItemErrors, alone: float, least: float
) -> float:
    """Return the least share for tables of parents that makes them nearly as accurate as another share.

    Args:
        candidates: the tables of parents.
        item_errors: the items of the workload about parents only.
        alone: the share that they would get alone, without what they have had.
        least: as for `select_candidates`.
    """

    def error(share: float) -> float:
        plan = select_candidates(candidates, item_errors, share, least) if share > 0 else {}
        return item_errors.expected(candidates, [plan[c.clique][1] if c.clique in plan else 0.0 for c in candidates])

    if not candidates or alone <= 0:
        return 0.0
    wanted, low, high = CLOSE * error(alone), 0.0, alone
    if error(low) <= wanted:
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if error(middle) <= wanted else (middle, high)
    return high
