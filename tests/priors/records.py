"""Small domains, public tables and noisy measurements, and optima found on the full joint table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import minimize

import pgmest as pg
from tests.estimation.full_table import marginal_matrix, stacked

ATTRIBUTES = ("a", "b", "c", "d")


@st.composite
def public_problems(draw, least_records: int = 1):
    """A domain of up to 36 cells, a weighted public table, and noisy measurements of another table."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4).filter(lambda s: np.prod(s) <= 36))
    domain = pg.Domain(dict(zip(ATTRIBUTES, sizes, strict=False)))
    clique = st.lists(st.sampled_from(domain.attributes), max_size=3, unique=True).map(tuple)
    cliques = draw(st.lists(clique, min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    records = draw(st.integers(least_records, 40))
    public = pg.Dataset.from_codes(
        [rng.integers(size, size=records) for size in sizes], domain, rng.choice([0.5, 1.0, 3.0], records)
    )
    return domain, public, noisy(domain, cliques, rng, draw(st.sampled_from([0.5, 5.0, 50.0])))


def noisy(domain: pg.Domain, cliques: Sequence[Sequence[str]], rng, stddev: float, total: float = 100.0):
    """Noisy marginals of a random table."""
    table = rng.dirichlet(np.full(domain.size(), 0.5)) * total
    return [
        pg.LinearMeasurement(
            marginal_matrix(domain, clique) @ table + rng.normal(0, stddev, domain.size(clique)), clique, stddev
        )
        for clique in cliques
    ]


def joint(data) -> np.ndarray:
    """The full table of a dataset or model, flat."""
    return data.project(data.domain.attributes).datavector()


def penalized_optimum(domain, measurements, total, prior, strength, loss="l2") -> tuple[float, np.ndarray]:
    """min over tables p, summing to one, of L(total p) + strength KL(p || prior), and p: by the dual problem.

    With L = 1/2 |B p - t|^2 (or |B p - t|_1) the dual is max over u (in the unit box for L1) of
    -<u, t> - 1/2 |u|^2 - strength log sum prior exp(-B^T u / strength), and p is proportional to that summand.
    """
    matrix, values, stddev = stacked(domain, measurements)
    scale = stddev if loss == "l2" else stddev / np.sqrt(2.0)
    matrix, target = matrix[:, prior > 0] / scale[:, None] * total, values / scale
    prior = prior[prior > 0] / prior.sum()
    quadratic = 1.0 if loss == "l2" else 0.0

    def tilted(u):
        logs = np.log(prior) - matrix.T @ u / strength
        weights = np.exp(logs - logs.max())
        return weights / weights.sum(), logs.max() + np.log(weights.sum())

    def negative_dual(u):
        p, log_partition = tilted(u)
        value = u @ target + 0.5 * quadratic * (u @ u) + strength * log_partition
        return value, target + quadratic * u - matrix @ p

    bounds = None if loss == "l2" else [(-1.0, 1.0)] * len(target)
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50}
    found = minimize(negative_dual, np.zeros(len(target)), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return -float(found.fun), tilted(found.x)[0]
