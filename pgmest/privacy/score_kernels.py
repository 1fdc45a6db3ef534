"""The compiled kernel of `scores.Distances`: the l1 distances of very many marginals in one pass."""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined


@inlined
def _add(total, lost, value):
    """Add a value to a sum and to the error that rounding has made in it (compensated summation, Kahan 1965)."""
    more = value - lost
    larger = total + more
    return larger, (larger - total) - more


@compiled
def l1_distances(exact, expected, ends, groups, grouped, sums, found):
    """Compute the l1 distance of each marginal's cells, or of their sums within groups.

    Compensated summation keeps the error at a few roundings, whatever the number of cells: the noise on scores is
    calibrated for a sensitivity with a margin of one step for such errors (`pgmest.privacy.selection`).

    Args:
        exact, expected: the cells of all marginals, one marginal after the other, in counts.
        ends: the end of each marginal in these.
        groups: the group of each cell of the marginals that have groups, one marginal after the other.
        grouped: whether each marginal has groups.
        sums: a buffer with at least as many entries as there are groups.
        found: the distances, the output.
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
