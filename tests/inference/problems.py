"""Small random models on which every marginal can be checked against the full joint table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from pgmest import CliqueVector, Domain
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import Layout
from tests.inference.brute_force_oracle import BruteForceOracle


@dataclass(frozen=True)
class Problem:
    """A domain, cliques (permuted, nested, empty, disconnected, ...) and potentials on them."""

    sizes: dict[str, int]
    cliques: tuple[tuple[str, ...], ...]
    magnitude: float = 1.0
    zeros: float = 0.0  # the share of potentials that are -inf
    seed: int = 0

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(Domain(self.sizes), self.cliques)

    @cached_property
    def theta(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        values = rng.uniform(-self.magnitude, self.magnitude, self.layout.cells)
        values[rng.random(self.layout.cells) < self.zeros] = -np.inf
        return values

    @cached_property
    def vector(self) -> CliqueVector:
        return CliqueVector.of(self.layout, self.theta)

    @cached_property
    def truth(self) -> BruteForceOracle:
        return BruteForceOracle(self.layout)

    @cached_property
    def joint(self) -> np.ndarray:
        """The probability of every record, or zeros where no record is possible."""
        log_joint = self.truth.log_joint(self.theta).values
        largest = log_joint.max()
        weights = np.exp(log_joint - (largest if np.isfinite(largest) else 0.0))
        return weights / (weights.sum() or 1.0)

    @property
    def possible(self) -> bool:
        return bool(self.joint.any())

    def plan(self) -> PropagationPlan:
        """On a tree found without a long search."""
        tree = JunctionTree.from_cliques(self.layout.domain, self.layout.cliques, effort="low")
        return PropagationPlan.of(self.layout, tree)

    def exact(self, threads: int = 1) -> ExactOracle:
        return ExactOracle(self.plan(), threads)

    def direction(self, seed: int = 1) -> np.ndarray:
        return np.random.default_rng([self.seed, seed]).standard_normal(self.layout.cells)


@st.composite
def problems(
    draw: st.DrawFn,
    magnitudes: tuple[float, ...] = (1.0, 1e2, 1e4),
    zeros: tuple[float, ...] = (0.0, 0.1, 0.5),
    max_attributes: int = 6,
) -> Problem:
    """A random problem whose joint table has at most a few thousand cells."""
    names = "abcdef"[: draw(st.integers(0, max_attributes))]
    sizes = {name: draw(st.integers(1, 4)) for name in draw(st.permutations(names))}
    clique = st.permutations(names).flatmap(
        lambda order: st.integers(0, len(order)).map(lambda length: tuple(order[:length]))
    )
    cliques = draw(st.lists(clique, max_size=6))
    magnitude, share = draw(st.sampled_from(magnitudes)), draw(st.sampled_from(zeros))
    return Problem(sizes, tuple(cliques), magnitude, share, draw(st.integers(0, 1000)))
