"""Sweeps over partial workloads, the loop of both forms of IDE's updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from pgmest.priors.ide.answers import PartialAnswer

Target = Callable[[int, np.ndarray], np.ndarray]
"""A function from the position of a partial workload and the masses of its cells, shape (k + 1,), to the new masses.

The last mass is that of the records in no cell.
"""

Order = Literal["sweeps", "random"]
"""The order of updates: "sweeps" updates each partial workload once a sweep, in random order; "random" draws one at
random for each update, as published."""

ORDERS: tuple[Order, ...] = ("sweeps", "random")


def sweep_workloads(
    prior: np.ndarray,
    answers: Sequence[PartialAnswer],
    target: Target,
    max_sweeps: int,
    tolerance: float,
    generator: np.random.Generator,
    callback: Callable[[int, float], None] | None = None,
    order: Order = "sweeps",
) -> tuple[np.ndarray, list[float], bool]:
    """Update a distribution for one partial workload after the other (IDE Definition 3.1).

    The records of a cell keep their proportions. If a cell without mass gets some, its records share it equally.

    Args:
        prior: the fractions of the records, shape (records,); not changed.
        answers: the partial workloads; for an empty sequence the prior is returned.
        target: the function that gives the masses of a workload's cells after its update.
        max_sweeps: the largest number of sweeps; for order "random" a sweep is as many updates as there are workloads.
        tolerance: stop after a sweep in which no workload's masses change by more than this, in L1; order "random"
            always does `max_sweeps`.
        generator: the source of the random order.
        callback: called after each sweep with its number and distance.
        order: see `Order`.

    Returns:
        the distribution; for each sweep, the sum over the workloads of the L1 distance just before the update; and
        whether no change in the last sweep exceeded the tolerance.
    """
    from pgmest.priors.ide.kernels import rescale_and_sum

    p, path = prior.copy(), []
    if not answers:
        return p, path, True
    # The factors of an update are applied by the kernel's next pass, so that each update reads the records once.
    last, factors = np.zeros(len(p), dtype=np.int32), np.ones(1)
    converged = False
    while len(path) < max_sweeps and not (converged and order == "sweeps"):
        distance = moved = 0.0
        count = len(answers)
        for position in generator.permutation(count) if order == "sweeps" else generator.integers(count, size=count):
            answer = answers[position]
            masses = np.empty(len(answer.fractions) + 1)
            rescale_and_sum(p, last, factors, answer.cells, masses)
            distance += answer.distance(masses)
            wanted = target(int(position), masses)
            moved = max(moved, float(np.abs(wanted - masses).sum()))
            last, factors = answer.cells, np.divide(wanted, masses, out=np.zeros_like(masses), where=masses > 0)
            for cell in np.flatnonzero((masses <= 0) & (wanted > 0)):
                refilled = last == cell
                p[refilled], factors[cell] = wanted[cell] / np.count_nonzero(refilled), 1.0
        path.append(distance)
        converged = moved <= tolerance
        if callback is not None:
            callback(len(path), distance)
    return p * factors[last], path, converged
