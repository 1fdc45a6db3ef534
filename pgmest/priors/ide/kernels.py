"""The compiled kernel of IDE's updates: one pass over the records for each partial workload."""

from __future__ import annotations

from pgmest._base.compiled import compiled


@compiled
def rescale_and_sum(p, cells, factors, next_cells, masses):
    """p[i] *= factors[cells[i]]; then masses[c] = the sum of p over the records with next_cells[i] = c."""
    for c in range(len(masses)):
        masses[c] = 0.0
    for i in range(len(p)):
        p[i] *= factors[cells[i]]
        masses[next_cells[i]] += p[i]
