"""Small budgets: the rules of LAMP where the scores of all pairs would be too noisy.

Nearly the whole budget would be spent on one-way marginals, and errors in these and the noise of the scores would hide
the dependence of pairs. So the one-way marginals are measured again before pairs are scored, some pairs are selected
and only these are scored (`screening`), and dependent pairs weigh more. The rules depend on the domain, the budget and
the number of records. Their constants were fixed once, on samples of public tables (`experiments.flagship.strongest`).
"""

from __future__ import annotations

SMALL_BUDGET = 0.05
"""The budget is small for a table if the scores of all pairs have a larger standard deviation (total variation)."""

AGAIN = 1 / 3
"""The part of a small budget, of what the first one-way marginals and scores leave, that measures one-way marginals
again before errors in them hide the dependence of pairs."""

DEPENDENCE_WEIGHT = 0.25
"""The importance that a small budget gives to items in proportion to their dependence, relative to that of all items.
Otherwise nearly everything would be spent on one-way marginals, which are a part of every item."""

LEAST_RATIO = 4
"""Pairs are selected before they are scored only if there are more than this many times as many pairs as selections."""


def is_small(stddev: float, records: float) -> bool:
    """Return whether a budget is small.

    Args:
        stddev: The standard deviation of the noise in the scores of all pairs, in counts.
        records: The number of records.
    """
    return stddev > SMALL_BUDGET * 2 * records


def selections(pairs: int, attributes: int) -> int | None:
    """Return how many of the pairs are selected before they are scored, or None if all are scored."""
    return attributes - 1 if pairs > LEAST_RATIO * (attributes - 1) else None
