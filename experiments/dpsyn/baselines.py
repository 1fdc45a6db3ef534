"""PriView against its two baselines, Direct and Fourier, on the marginals of binary attributes (DPSyn section 3.2).

Both baselines add Laplace noise for all k-way marginals at once, under pure epsilon-DP (one record added or removed):
Direct to every cell of each of them, Fourier (Barak et al. 2007) to every coefficient that they need, those of at most
k attributes. Noise is simulated. Errors are of some marginals only, since those of the others are alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from experiments.data import load
from pgmest.data.dataset import Dataset
from pgmest.mechanisms import PriView
from pgmest.tables.domain import Clique

TABLE, WAYS, MARGINALS = "acs-ipums23", 4, 100
EPSILONS = (0.1, 1.0)
DIRECT, FOURIER, ENTROPY, RANDOM = "Direct", "Fourier", "PriView, maximum entropy", "PriView, random views"
NORM, PROGRAM = "PriView, least norm", "PriView, linear program"
VIEWS: dict[str, dict[str, Any]] = {
    ENTROPY: {},
    NORM: {"reconstruction": "least_norm"},
    PROGRAM: {"reconstruction": "lp"},
    RANDOM: {"design": "random"},
}
"""Forms of PriView, on views of eight binary attributes."""
METHODS = (*VIEWS, DIRECT, FOURIER)


@dataclass(frozen=True)
class ViewsCell:
    """One method at one budget."""

    method: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """Return the name under which the result is kept."""
        return f"priview-{self.method.replace(', ', '-').replace(' ', '-')}-{self.epsilon:g}-{self.seed}"

    def row(self) -> dict[str, Any]:
        """The mean total-variation error of the marginals, whose negative cells were set to 0.

        For views also that of the marginals of which each pair is in a view, and the share of these.
        """
        data, rng = load(TABLE), np.random.default_rng(self.seed)
        views: list[set[str]] = []
        if self.method in VIEWS:
            mechanism = PriView(
                epsilon=self.epsilon, delta=0, max_cells=2**8, backend="simulation", **VIEWS[self.method]
            )
            made = mechanism.fit(data, seed=self.seed, progress=False)
            found = [made.project(clique).values for clique in marginals()]
            views = [set(view) for view in made.model.cliques]
        else:
            answer = direct if self.method == DIRECT else Fourier()
            found = [answer(data, clique, self.epsilon, rng) for clique in marginals()]
        errors = [error(one, data.project(clique).values) for one, clique in zip(found, marginals(), strict=True)]
        row = {"method": self.method, "epsilon": self.epsilon, "seed": self.seed, "error": float(np.mean(errors))}
        if not views:
            return row
        covered = np.array([all_pairs_in(clique, views) for clique in marginals()])
        return row | {"covered": float(covered.mean()), "error_covered": float(np.mean(np.array(errors)[covered]))}


@functools.cache
def marginals() -> tuple[Clique, ...]:
    """Return the marginals that are judged, the same for all methods."""
    rng, names = np.random.default_rng(0), load(TABLE).domain.attributes
    return tuple(
        tuple(names[place] for place in np.sort(rng.choice(len(names), WAYS, replace=False))) for _ in range(MARGINALS)
    )


def all_pairs_in(clique: Clique, views: Sequence[set[str]]) -> bool:
    """Return whether each pair of the attributes is in some view."""
    return all(any(view.issuperset(pair) for view in views) for pair in combinations(clique, 2))


def error(found: np.ndarray, truth: np.ndarray) -> float:
    """Return the total-variation distance of two tables as fractions; negative cells of the first count as 0."""
    positive = np.maximum(found, 0.0)
    share = positive / positive.sum() if positive.sum() > 0 else np.full(truth.shape, 1 / truth.size)
    return float(np.abs(share - truth / truth.sum()).sum() / 2)


def direct(data: Dataset, clique: Clique, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Return the marginal with the noise of the Direct method: one of C(d, k) equal shares of epsilon."""
    scale = math.comb(len(data.domain), len(clique)) / epsilon
    truth = data.project(clique).values
    return truth + rng.laplace(0.0, scale, truth.shape)


def coefficients(attributes: int, ways: int) -> int:
    """Return the number of Fourier coefficients of at most `ways` of these binary attributes."""
    return sum(math.comb(attributes, size) for size in range(ways + 1))


class Fourier:
    """The Fourier method: a noisy coefficient for each set of at most k attributes, drawn when it is needed.

    The coefficient of a set is the number of records with an even sum of its attributes, minus that with an odd one. A
    record changes each coefficient by 1, so all of them together by their number.
    """

    def __init__(self) -> None:
        self._noisy: dict[Clique, float] = {}

    def __call__(self, data: Dataset, clique: Clique, epsilon: float, rng: np.random.Generator) -> np.ndarray:
        """Return a marginal, computed from its noisy coefficients."""
        scale = coefficients(len(data.domain), len(clique)) / epsilon
        found = np.zeros((2,) * len(clique))
        for size in range(len(clique) + 1):
            for part in combinations(clique, size):
                if part not in self._noisy:
                    table = data.project(part).values
                    self._noisy[part] = float((parity(size) * table).sum() + rng.laplace(0.0, scale))
                signs = parity(size).reshape([2 if name in part else 1 for name in clique])
                found += self._noisy[part] * signs
        return found / found.size


def parity(size: int) -> np.ndarray:
    """Return 1 where the sum of the codes is even and -1 where it is odd, shape (2, ..., 2)."""
    signs = np.ones(())
    for _ in range(size):
        signs = np.multiply.outer(signs, np.array([1.0, -1.0]))
    return signs


def comparison(seeds: int = 3) -> list[ViewsCell]:
    """All methods at both budgets."""
    return [ViewsCell(method, e, seed) for e in EPSILONS for method in METHODS for seed in range(seeds)]
