"""The compiled kernel of `scores.Distances`: the l1 distances of very many marginals in one pass."""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined


@inlined
def _add(total, lost, value):
    """A sum and what rounding took from it so far, with one more value (compensated summation, Kahan 1965)."""
    more = value - lost
    larger = total + more
    return larger, (larger - total) - more


@compiled
def l1_distances(exact, expected, ends, groups, grouped, sums, found):
    """The l1 distance of each marginal's cells, or of their sums within groups.

    Sums are exact but for a few roundings, however many cells there are: what noise is made for allows no more.

    Args:
        exact, expected: the cells of one marginal after the other.
        ends: where each marginal ends.
        groups: the group of each cell of those marginals that have groups, one after the other.
        grouped: which marginals these are.
        sums: at least as many as there are groups; overwritten.
        found: the distances.
    """
    start, at = 0, 0
    for m in range(len(ends)):
        total, lost, most = 0.0, 0.0, 0
        if grouped[m]:
            for c in range(ends[m] - start):
                most = max(most, groups[at + c] + 1)
            for g in range(most):
                sums[g] = 0.0
            for c in range(start, ends[m]):
                sums[groups[at]] += exact[c] - expected[c]
                at += 1
            for g in range(most):
                total, lost = _add(total, lost, abs(sums[g]))
        else:
            for c in range(start, ends[m]):
                total, lost = _add(total, lost, abs(exact[c] - expected[c]))
        found[m] = total
        start = ends[m]
