"""The compiled kernel of IDE's updates, which makes one pass over the records for each partial workload."""

from __future__ import annotations

from pgmest._base.compiled import compiled


@compiled
def rescale_and_sum(p, cells, factors, next_cells, masses):
    """Set p[i] *= factors[cells[i]], and masses[c] to the sum of the new p over the records with next_cells[i] = c.

    One pass applies the factors of one partial workload and sums the masses that the next one needs.
    """
    for c in range(len(masses)):
        masses[c] = 0.0
    for i in range(len(p)):
        p[i] *= factors[cells[i]]
        masses[next_cells[i]] += p[i]
