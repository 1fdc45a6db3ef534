"""Algorithm 2 of PGM to the letter (experiments), against its pseudocode on the joint table."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from experiments.pgm_icml2019.published import algorithm2
from pgmest.graph.junction_tree import JunctionTree

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2, "d": 2, "e": 3})
CLIQUES = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))
"""A cycle, so that the tree has a clique that no measurement is about; nothing is known of e."""
RECORDS = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1)


def matrix_of(clique: tuple[str, ...]) -> np.ndarray:
    """The marginal's matrix over the joint table."""
    axes = DOMAIN.axes(clique)
    rows = np.ravel_multi_index([RECORDS[axis] for axis in axes], [DOMAIN.shape[axis] for axis in axes])
    return (rows == np.arange(DOMAIN.size(clique))[:, None]).astype(float)


def measured(seed: int) -> list[pg.LinearMeasurement]:
    """Two noisy prefix sums or tables of 50 records, of different noise."""
    generator, found = np.random.default_rng(seed), []
    for place, clique in enumerate(CLIQUES):
        size = DOMAIN.size(clique)
        query = np.tril(np.ones((size, size))) if place % 2 else None
        exact = (np.eye(size) if query is None else query) @ np.full(size, 50 / size)
        found.append(pg.LinearMeasurement(exact + generator.normal(0, 6, size), clique, 2.0 + place, query=query))
    return found


def stacked(measurements: list[pg.LinearMeasurement]) -> tuple[np.ndarray, np.ndarray]:
    """Q and y, each divided by the noise, over the joint table."""
    blocks, values = [], []
    for one in measurements:
        query = np.eye(DOMAIN.size(one.clique)) if one.query is None else one.query.matrix()
        blocks.append(query @ matrix_of(one.clique) / one.stddev)
        values.append(one.values.reshape(-1) / one.stddev)
    return np.concatenate(blocks), np.concatenate(values)


@pytest.mark.parametrize("iterations", [1, 2, 40])
def test_it_returns_the_average_of_the_published_pseudocode(iterations):
    measurements = measured(0)
    matrix, y = stacked(measurements)
    constant = 3e3

    def oracle(theta: np.ndarray) -> np.ndarray:
        weights = np.exp(theta)
        return weights / weights.sum()

    mean, nu = np.zeros(RECORDS.shape[1]), oracle(np.zeros(RECORDS.shape[1]))
    mu = nu
    for t in range(1, iterations + 1):
        c = 2.0 / (t + 1)
        omega = (1 - c) * mu + c * nu
        mean = (1 - c) * mean + c * 50 * matrix.T @ (50 * matrix @ omega - y)
        nu = oracle(-t * (t + 1) / (4 * constant) * mean)
        mu = (1 - c) * mu + c * nu
    tables = algorithm2.algorithm_2(measurements, DOMAIN, 50.0, iterations, constant)
    for clique in (*CLIQUES, ("c",), ("d", "a")):
        assert tables.project(clique).datavector() == pytest.approx(50 * matrix_of(clique) @ mu, abs=1e-9)
    with pytest.raises(KeyError):
        tables.project(("a", "c"))


def test_its_model_has_the_average_as_marginals():
    measurements = measured(1)
    k = algorithm2.largest_eigenvalue(measurements, DOMAIN, 50.0)
    tables = algorithm2.algorithm_2(measurements, DOMAIN, 50.0, 30, k)
    model = algorithm2.graphical_model(measurements, DOMAIN, 50.0, 30)
    assert model.total == 50
    for clique in CLIQUES:
        assert model.project(clique).datavector() == pytest.approx(tables.project(clique).datavector(), abs=1e-8)
    assert model.project(("e",)).datavector() == pytest.approx(50 / 3)


def test_a_model_with_marginals_of_zero_cells_is_the_product_of_its_tables():
    """Of maximum entropy: p(a, b, c) = p(a, b) p(b, c) / p(b), where b has a value that nobody has."""
    joint = np.array([[0.3, 0.0, 0.2], [0.1, 0.0, 0.4]])
    chain = pg.Domain({"a": 2, "b": 3, "c": 2})
    other = np.array([[0.25, 0.15], [0.0, 0.0], [0.1, 0.5]])
    tree = JunctionTree.from_cliques(chain, [("a", "b"), ("b", "c")])
    tables: dict[tuple[str, ...], np.ndarray] = {("a", "b"): joint, ("b", "c"): other}
    factors = {clique: pg.Factor(chain.project(clique), 10 * table) for clique, table in tables.items()}
    vector = pg.CliqueVector(chain, {clique: factors[clique] for clique in tree.cliques})
    model = algorithm2.with_marginals(vector, tree, 10.0)
    middle = joint.sum(axis=0)
    product = np.divide(joint[:, :, None] * other[None], middle[None, :, None], where=middle[None, :, None] > 0,
                        out=np.zeros((2, 3, 2)))  # fmt: skip
    assert model.project(("a", "b", "c")).values == pytest.approx(10 * product)


@pytest.mark.parametrize("seed", range(3))
def test_the_constant_is_the_largest_eigenvalue_over_the_trees_tables(seed):
    measurements = measured(seed)
    tree = JunctionTree.from_cliques(DOMAIN, CLIQUES)
    blocks: dict[tuple[str, ...], np.ndarray] = {}
    for one in measurements:
        place = tree.containing(one.clique)
        assert place is not None
        whole = tree.cliques[place]
        part = DOMAIN.project(whole)
        cells = np.indices(part.shape).reshape(len(part), -1)
        places = [part.attributes.index(name) for name in one.clique]
        rows = np.ravel_multi_index([cells[place] for place in places], [DOMAIN[name] for name in one.clique])
        marginal = (rows == np.arange(DOMAIN.size(one.clique))[:, None]).astype(float)
        query = np.eye(len(marginal)) if one.query is None else one.query.matrix()
        matrix = query @ marginal / one.stddev
        blocks[whole] = blocks.get(whole, 0.0) + matrix.T @ matrix
    largest = max(np.linalg.eigvalsh(block)[-1] for block in blocks.values())
    assert algorithm2.largest_eigenvalue(measurements, DOMAIN, 50.0) == pytest.approx(2500 * largest, rel=1e-6)
