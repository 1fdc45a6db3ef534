"""Calibrated models for the sampling tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from pgmest.data.dataset import Dataset
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.sampling.sampler import Sampler
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor
from tests.inference.brute_force_oracle import BruteForceOracle


@dataclass(frozen=True)
class CalibratedModel:
    """The attributes of a model that sampling needs, and the truth to compare with."""

    domain: Domain
    oracle: ExactOracle
    theta: np.ndarray
    total: float

    def sample_batches(self, n: int, batch: int, method: str, seed: int | None) -> Iterator[Dataset]:
        """Yield batches of records, as a `Model` does."""
        return Sampler(self.oracle).batches(n, batch, method, seed)

    @property
    def joint(self) -> Factor:
        """The probability of every record."""
        brute_force = BruteForceOracle(self.oracle.layout)
        log_joint = brute_force.log_joint(self.theta)
        return (log_joint - log_joint.logsumexp()).exp()


@pytest.fixture(scope="session")
def calibrated() -> Callable[..., CalibratedModel]:
    """`calibrated(sizes, cliques)`: a clique may be text, a letter an attribute; potentials are random if not given."""

    def make(
        sizes: dict[str, int],
        cliques: Iterable[Iterable[str]],
        theta: dict[tuple[str, ...], object] | None = None,
        seed: int = 0,
        spread: float = 1.0,
        total: float = 100.0,
    ) -> CalibratedModel:
        layout = Layout.of(Domain(sizes), map(tuple, cliques))
        if theta is None:
            values = np.random.default_rng(seed).normal(0.0, spread, layout.cells)
        else:
            values = CliqueVector(layout.domain, theta).flat
        oracle = ExactOracle(PropagationPlan.of(layout), threads=1)
        oracle.run(values, total)
        return CalibratedModel(layout.domain, oracle, values, total)

    return make
