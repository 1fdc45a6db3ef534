"""The exact oracle in float32: half the memory and 1.2 to 1.8 times as fast (benchmarks/results/precision.md).

Noise of a percent of a count is far below what any measurement adds; what float32 rounds off is less. Proofs are
another matter: maxima, and with them certificates, are those of the oracle in float64.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.kernel_loading import load_single_kernels
from pgmest.inference.exact.plan import Plan
from pgmest.inference.outputs import checked_output
from pgmest.tables.factor import Factor


class SinglePrecisionOracle(ExactOracle):
    r"""Belief propagation whose tables and messages are float32.

    A message is the logarithm of a sum over everything below it, kept to 24 bits. So with M the largest absolute
    value that a potential or message takes, each marginal is within about

    .. math:: 2^{-24} (100 + 2 M \cdot \text{depth of the tree})

    of itself, relatively: below 1e-5 for potentials of order one, 1e-3 for potentials of 1e4. Marginals below 1e-37 of
    the total are 0. The log-partition function is within the same share of M.

    >>> import pgmest as pg
    >>> theta = pg.CliqueVector.random({"a": 3, "b": 2}, [("a", "b")], seed=0)
    >>> mu, _ = SinglePrecisionOracle(Plan.of(theta.layout)).run(theta.flat)
    >>> mu.dtype, bool(np.abs(mu - pg.marginals(theta).flat).max() < 1e-6)
    (dtype('float32'), True)

    Args:
        plan: what is run.
        threads: as for `ExactOracle`.
    """

    dtype = np.float32
    calls: int

    def __init__(self, plan: Plan, threads: int | None = None):
        super().__init__(plan, threads)
        load_single_kernels()

    @cached_property
    def double(self) -> ExactOracle:
        """The same in float64."""
        return ExactOracle(self.plan, self.threads)

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """As `ExactOracle.run`, with potentials and marginals of float32; of float64 they are converted.

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
        """In float64: batches of small models are not bound by memory."""
        self.calls += len(thetas)
        return self.double.run_many(thetas, total, out)

    def maximum(self, theta: np.ndarray) -> float:
        """In float64, as certificates need it."""
        self.calls += 1
        return self.double.maximum(np.asarray(theta, dtype=np.float64))

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """In float64."""
        self.calls += 2
        return self.double.max_marginals(np.asarray(theta, dtype=np.float64), out)

    def map_record(self, theta: np.ndarray) -> dict[str, int]:
        """In float64."""
        return self.double.map_record(np.asarray(theta, dtype=np.float64))

    def covariance(self, direction: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """At the potentials of the last run, in float64, with a run of its own."""
        self._check_has_run("covariance")
        self.double.run(self._theta.astype(np.float64), float(self._total))
        return self.double.covariance(np.asarray(direction, dtype=np.float64), out)

    def clique_table(self, index: int) -> Factor:
        """After a run; computed in float64.

        Raises:
            ArgumentError: nothing has run yet.
        """
        if self._theta.shape != (self.layout.cells,):
            raise ArgumentError("clique_table needs the marginals of a run: call run(theta) first.")
        self.double.run(self._theta.astype(np.float64), float(self._total))
        return self.double.clique_table(index)
