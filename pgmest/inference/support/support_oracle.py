"""The MARGINAL-ORACLE of a distribution over given records, computed by sweeps over the records."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from pgmest._base.threads import get_threads, run_together
from pgmest.errors import ImpossibleModelError, ShapeError
from pgmest.inference.exact.kernel_loading import compile_notice
from pgmest.inference.outputs import checked_output
from pgmest.inference.support.record_tables import RecordTables
from pgmest.inference.support.support import Support
from pgmest.tables.clique_vector import Layout

SMALLEST_SHARE = 1 << 15
"""The fewest records per thread: a sweep over fewer records takes less time than waking a thread."""


class SupportOracle:
    r"""Marginals of $p(i) \propto w_i \exp(\sum_C \theta_C(x_{i,C}))$ over the records $x_i$ of a support.

    A sweep reads the codes once. Only one thread may call an oracle at a time; the oracle uses up to `get_threads()`
    threads itself.

    Attributes:
        support: the records, with their prior weights w.
        layout: the cliques.
        calls: the number of sweeps so far.
    """

    def __init__(self, support: Support, layout: Layout):
        self.support = support
        self.layout = layout
        self.calls: int = 0
        self.tables: RecordTables = RecordTables.of(layout, len(support))
        self._kernels = load_kernels(support.codes.dtype.str)
        joint = self.tables.joint
        self._theta = np.empty(joint.cells)
        self._zeros = np.zeros(joint.cells)
        self._last = np.zeros(layout.cells)
        axes = [support.domain.axes(host) for host in self.tables.hosts]
        first = np.cumsum([0, *map(len, axes)]).astype(np.int32)
        axis = np.array([a for each in axes for a in each], dtype=np.int32)
        size = np.array([support.domain.shape[a] for a in axis], dtype=np.int32)
        self._inputs = (support.codes, first, axis, size, joint.offsets[:-1].astype(np.int32))
        threads = max(1, min(get_threads(), len(support) // SMALLEST_SHARE))
        cuts = np.linspace(0, len(support), threads + 1).astype(int).tolist()
        self._shares = list(pairwise(cuts))
        block = self._kernels.RECORDS_AT_ONCE
        self._cells = [np.empty((max(len(axes), 1), block), dtype=np.int32) for _ in self._shares]
        self._scores = [np.empty(block) for _ in self._shares]
        self._masses = [np.empty(joint.cells) for _ in self._shares]

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        r"""Return the marginals scaled to `total`, and $A = \log \sum_i w_i \exp(\ldots)$, which is 0 at theta = 0.

        Raises:
            ImpossibleModelError: every record of the support has some potential of -inf.
        """
        self._last = theta.copy()
        peaks = [np.empty(2) for _ in self._shares]
        self._sweep(
            self._kernels.accumulate, theta, self.support.log_weights, list(zip(self._masses, peaks, strict=True))
        )
        shift = max(peak[0] for peak in peaks)
        _check_possible(shift)
        factors = [np.exp(peak[0] - shift) for peak in peaks]
        mass_sum = float(sum(factor * peak[1] for factor, peak in zip(factors, peaks, strict=True)))
        mass = self._masses[0]
        mass *= factors[0] * total / mass_sum
        for other, factor in zip(self._masses[1:], factors[1:], strict=True):
            other *= factor * total / mass_sum
            mass += other
        mu = checked_output(out, self.layout.cells)
        return self.tables.split(mass, np.add, mu), float(shift + np.log(mass_sum))

    def maximum(self, theta: np.ndarray) -> float:
        """Return the largest total potential of a record of the support, exactly, by a sweep over all of them."""
        peaks = [np.empty(1) for _ in self._shares]
        self._sweep(self._kernels.largest, theta, self.support.zero_logs, [(peak,) for peak in peaks])
        return float(max(peak[0] for peak in peaks))

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the largest total potential of a record in each measured cell, -inf for a cell without records."""
        self._sweep(self._kernels.largest_by_cell, theta, self.support.zero_logs, [(m,) for m in self._masses])
        for other in self._masses[1:]:
            np.maximum(self._masses[0], other, out=self._masses[0])
        best = checked_output(out, self.layout.cells)
        return self.tables.split(self._masses[0], np.maximum, best)

    def probabilities(self, theta: np.ndarray) -> np.ndarray:
        """Return p, shape (records,), which sums to one."""
        logs = self.scores(theta, self.support.log_weights)
        shift = float(logs.max())
        _check_possible(shift)
        logs -= shift
        np.exp(logs, out=logs)
        logs /= logs.sum()
        return logs

    def scores(self, theta: np.ndarray, logs: np.ndarray) -> np.ndarray:
        """Return logs[i] + sum_C theta_C(x_i) for each record i."""
        scores = np.empty(len(self.support))
        self._sweep(self._kernels.score, theta, logs, [(scores,)] * len(self._shares))
        return scores

    def covariance(self, direction: np.ndarray) -> np.ndarray:
        """Return the derivative of the marginals along `direction` at the potentials of the last `run`."""
        slopes = self.scores(direction, self.support.zero_logs)
        weights = self.probabilities(self._last)
        weights *= slopes - np.dot(weights, slopes)
        kernel = partial(self._kernels.scatter, *self._inputs, self._zeros, self.support.zero_logs, weights)
        self._share(kernel, [(mass,) for mass in self._masses])
        for other in self._masses[1:]:
            self._masses[0] += other
        return self.tables.split(self._masses[0], np.add, np.empty(self.layout.cells))

    def _sweep(self, kernel: Callable[..., None], theta: np.ndarray, logs: np.ndarray, outputs: list[Any]) -> None:
        if theta.shape != (self.layout.cells,):
            raise ShapeError.of("theta", (self.layout.cells,), theta.shape, "Potentials lie flat, clique after clique.")
        self._share(partial(kernel, *self._inputs, self.tables.join(theta, self._theta), logs), outputs)
        self.calls += 1

    def _share(self, kernel: Callable[..., None], outputs: list[Any]) -> None:
        """Run a kernel over the records in parallel; each thread has a range of records and separate buffers."""
        run_together(
            partial(kernel, *share, cells, scores, *output)
            for share, cells, scores, output in zip(self._shares, self._cells, self._scores, outputs, strict=True)
        )


def _check_possible(largest: float) -> None:
    if not np.isfinite(largest):
        raise ImpossibleModelError(
            f"the largest score of a record is {largest}: every record of the support has some potential of -inf "
            "(or one is NaN or +inf). Check the structural zeros and the potentials."
        )


@cache
def load_kernels(code_type: str) -> ModuleType:
    """Return the kernels for one type of codes, compiled or read from the cache on disk."""
    from pgmest.inference.support import kernels

    one, none = np.zeros(1), np.zeros(0, dtype=np.int32)
    codes = np.zeros((1, 1), dtype=code_type)
    codes.flags.writeable = False
    logs = np.zeros(1)
    logs.flags.writeable = False
    inputs = (codes, np.zeros(2, dtype=np.int32), none, none, np.zeros(1, dtype=np.int32), one)
    buffers = (0, 1, np.empty((1, kernels.RECORDS_AT_ONCE), dtype=np.int32), np.empty(kernels.RECORDS_AT_ONCE))
    with compile_notice():
        kernels.accumulate(*inputs, logs, *buffers, np.zeros(1), np.zeros(2))
        kernels.largest(*inputs, logs, *buffers, np.zeros(1))
        kernels.largest_by_cell(*inputs, logs, *buffers, np.zeros(1))
        kernels.score(*inputs, logs, *buffers, np.zeros(1))
        kernels.scatter(*inputs, logs, np.zeros(1), *buffers, np.zeros(1))
    return kernels
