"""The exact oracle in float32: half the memory and 1.2 to 1.8 times as fast (benchmarks/results/precision.md).

The rounding errors of float32 are far below the noise of any measurement. Certificates need more precision, so maxima
are computed by the oracle in float64.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.kernel_loading import load_single_kernels
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.outputs import checked_output
from pgmest.tables.factor import Factor


class SinglePrecisionOracle(ExactOracle):
    r"""Belief propagation whose tables and messages are float32.

    A message is the logarithm of a sum over all cliques below it, stored to 24 bits. Let M be the largest absolute
    value of a potential or message. Then the relative error of each marginal is about

    .. math:: 2^{-24} (100 + 2 M \cdot \text{depth of the tree}),

    which is below 1e-5 for potentials of order one, and 1e-3 for potentials of 1e4. Marginals below 1e-37 of the total
    become 0. The error of the log-partition function is at most the same share of M.

    >>> import pgmest as pg
    >>> theta = pg.CliqueVector.random({"a": 3, "b": 2}, [("a", "b")], seed=0)
    >>> mu, _ = SinglePrecisionOracle(PropagationPlan.of(theta.layout)).run(theta.flat)
    >>> mu.dtype, bool(np.abs(mu - pg.marginals(theta).flat).max() < 1e-6)
    (dtype('float32'), True)

    Args:
        plan: the propagation plan.
        threads: the number of threads, as for `ExactOracle`.
    """

    dtype = np.float32
    calls: int

    def __init__(self, plan: PropagationPlan, threads: int | None = None):
        super().__init__(plan, threads)
        load_single_kernels()

    @cached_property
    def double(self) -> ExactOracle:
        """The oracle of the same plan in float64."""
        return ExactOracle(self.plan, self.threads)

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return the marginals in float32, and the log-partition function; arrays in float64 are converted.

        Raises:
            ImpossibleModelError: no record has a finite total potential.
        """
        single = theta.astype(np.float32) if theta.dtype == np.float64 else theta
        if out is None or out.dtype == np.float32:
            return super().run(single, total, out)
        wide = checked_output(out, self.layout.cells)
        wide[:], log_partition = super().run(single, total)
        return wide, log_partition

    def run_many(
        self, thetas: np.ndarray, total: float | np.ndarray = 1.0, out: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run the vectors in float64, which is as fast: batches of small models are not limited by memory."""
        self.calls += len(thetas)
        return self.double.run_many(thetas, total, out)

    def maximum(self, theta: np.ndarray) -> float:
        """Return the largest total potential of any record, in float64 as certificates need it."""
        self.calls += 1
        return self.double.maximum(np.asarray(theta, dtype=np.float64))

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the max-marginals, computed in float64."""
        self.calls += 2
        return self.double.max_marginals(np.asarray(theta, dtype=np.float64), out)

    def map_record(self, theta: np.ndarray) -> dict[str, int]:
        """Return a record of largest total potential, computed in float64."""
        return self.double.map_record(np.asarray(theta, dtype=np.float64))

    def covariance(self, direction: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the derivative of the marginals at the potentials of the last run, by another run in float64."""
        self._check_has_run("covariance")
        self.double.run(self._theta.astype(np.float64), float(self._total))
        return self.double.covariance(np.asarray(direction, dtype=np.float64), out)

    def clique_table(self, index: int) -> Factor:
        """Return the marginal of clique `index` of the tree at the potentials of the last run, computed in float64.

        Raises:
            ArgumentError: there was no run yet.
        """
        self._check_has_run("clique_table")
        self.double.run(self._theta.astype(np.float64), float(self._total))
        return self.double.clique_table(index)
