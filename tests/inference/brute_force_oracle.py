"""The marginals by the full joint table: the truth that every other way is compared with on small domains."""

from __future__ import annotations

import numpy as np

from pgmest.errors import ImpossibleModelError, ModelTooLarge
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.factor import Factor


class BruteForceOracle:
    """The full joint table: the truth on small domains, and nothing else.

    Raises:
        ModelTooLarge: the joint table has more than ten million cells.
    """

    def __init__(self, layout: Layout):
        if layout.domain.size() > 10_000_000:
            raise ModelTooLarge(
                f"the joint table over {len(layout.domain)} attributes is too large for brute force; use ExactOracle."
            )
        self.layout = layout
        self.calls: int = 0

    def log_joint(self, theta: np.ndarray) -> Factor:
        """The total potential of every record."""
        total = Factor.zeros(self.layout.domain)
        for factor in CliqueVector.of(self.layout, theta).values():
            total = total + factor.expand(self.layout.domain)
        return total

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """The marginals scaled to `total`, and the log-partition function."""
        log_joint = self.log_joint(theta)
        log_partition = float(log_joint.logsumexp())
        if not np.isfinite(log_partition):
            raise ImpossibleModelError("every record has some potential of -inf; check the structural zeros.")
        joint = (log_joint - log_partition).exp() * total
        mu = np.empty(self.layout.cells) if out is None else out
        for clique, start, end in zip(
            self.layout.cliques, self.layout.offsets[:-1], self.layout.offsets[1:], strict=True
        ):
            mu[start:end] = joint.project(clique).datavector()
        self.calls += 1
        return mu, log_partition

    def maximum(self, theta: np.ndarray) -> float:
        """The largest total potential of any record."""
        self.calls += 1
        return float(self.log_joint(theta).max())
