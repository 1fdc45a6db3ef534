"""Sweeps over partial workloads: what the two forms of IDE's updates share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from pgmest.priors.ide.answers import PartialAnswer

Target = Callable[[int, np.ndarray], np.ndarray]
"""From the position of a partial workload and the masses in its cells (k + 1,), the last outside, to new masses."""

Order = Literal["sweeps", "random"]
"""Each partial workload once a sweep, in random order; or one drawn at random for each update, as published."""

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
    """Updates of a distribution, one partial workload at a time (IDE Definition 3.1).

    The records of a cell keep their proportions; those of a cell without mass that is to have some share it equally.

    Args:
        prior: fractions, shape (records,); not changed.
        answers: the partial workloads; without any the prior is returned.
        target: the masses that a workload's cells are to have after its update.
        max_sweeps: passes over all workloads, at most; at "random" each is as many updates as there are workloads.
        tolerance: stop when a pass moves no workload's masses by more than this, in L1; at "random" all are made.
        generator: of the order.
        callback: called after each sweep with its number and distance.
        order: see `Order`.

    Returns:
        the distribution; for each sweep the sum of the workloads' distances, each seen just before its update; and
        whether the last sweep moved no more than the tolerance.
    """
    from pgmest.priors.ide.kernels import rescale_and_sum

    p, path = prior.copy(), []
    if not answers:
        return p, path, True
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
                again = last == cell
                p[again], factors[cell] = wanted[cell] / np.count_nonzero(again), 1.0
        path.append(distance)
        converged = moved <= tolerance
        if callback is not None:
            callback(len(path), distance)
    return p * factors[last], path, converged
