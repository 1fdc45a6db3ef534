"""Figure 2: (a) HDMM's estimators against epsilon, and what happens at 10; (b) seconds an iteration takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from experiments.papers.paper import Run, Runs
from experiments.pgm_icml2019.cells import Cell, Effort
from experiments.pgm_icml2019.figure1 import of_paths
from experiments.pgm_icml2019.paths import LISTS, PAPERS, Path
from experiments.problems import NamedProblem, chain
from experiments.stored_rows import table_of
from pgmest.estimation.estimate import estimate
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SEEDS = 5


def runs() -> dict[str, Runs]:
    """HDMM at each epsilon, by our solver and by the paper's algorithm."""
    seeds = range(SEEDS)
    ours = [Cell("adult", "HDMM", seed, "ours", epsilon) for epsilon in EPSILONS for seed in seeds]
    published = [Path(PAPERS, seed, Effort().published, epsilon) for epsilon in reversed(EPSILONS) for seed in seeds]
    return {
        "ours": Runs("pgm_figure1", ours, ("pgm_figure2a", "pgm_figure1")),
        "published": Runs("pgm_paths", published, ("pgm_figure3_path", "pgm_figure2a_path"), LISTS),
    }


def epsilons(run: Run) -> None:
    """Figure 2a."""
    of = runs()
    rows = run.rows(of["published"])
    table = pd.concat([run.table(of["ours"]), of_paths(rows)], ignore_index=True)
    columns = ["run", "dataset", "mechanism", "way", "epsilon", "seed", "error_original", "error_global",
               "error_pgm", "measured_original", "measured_pgm"]  # fmt: skip
    run.write_table("pgm_figure2a", table[columns])
    run.write_table("pgm_figure2a_path", table_of(row for row in rows if row["epsilon"] == max(EPSILONS)))


# -- 2b ----------------------------------------------------------------------------------------------------------------

ATTRIBUTES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 30, 100, 300, 1000)
ARRAYS = {"multiplicative weights": 2, "LSMR": 8}
"""Vectors of double precision that a method has at once: the table and a product; the five of LSMR and what they are
made from."""
MEMORY, PAPERS_MEMORY = 6e9, 16e9
"""Bytes: of ours to be used, and of the paper's computer."""
ITERATIONS, ROUNDS, ONCE = 30, 3, 10**7
"""Vectors of at least so many cells are timed once."""


def seconds(run: Run) -> None:
    """Figure 2b."""
    methods: dict[str, Callable[[NamedProblem], float]] = {
        "PGM": _graphical_model,
        "multiplicative weights": _multiplicative_weights,
        "LSMR": _lsmr,
    }
    _graphical_model(chain(3))  # compiled before anything is timed
    found: list[dict[str, Any]] = []
    for again in range(ROUNDS):
        for attributes in ATTRIBUTES:
            known = chain(attributes)
            cells = known.domain.size()
            for name, method in methods.items():
                fits = name == "PGM" or (8 * cells * ARRAYS[name] <= MEMORY and (cells < ONCE or not again))
                if fits:
                    found.append({"attributes": attributes, "method": name, "round": again, "seconds": method(known)})
    run.write_table("pgm_figure2b", pd.DataFrame(found))


def last_that_fits(method: str, memory: float = PAPERS_MEMORY) -> int:
    """The most attributes of ten values whose vectors fit in so many bytes."""
    return int(math.log10(memory / (8 * ARRAYS[method])))


def _graphical_model(known: NamedProblem) -> float:
    report = estimate(
        known.measurements(), known.domain, method="mirror_descent", tolerance=0.0, max_iterations=ITERATIONS
    ).report
    assert report is not None
    assert report.seconds is not None
    assert report.oracle_calls
    return report.seconds / report.oracle_calls


def _multiplicative_weights(known: NamedProblem) -> float:
    weights = MultiplicativeWeights(known.domain, [known.domain.attributes], 10_000.0)
    measurements = known.measurements()
    start = time.perf_counter()
    for measurement in measurements:
        weights.update(measurement)
    return time.perf_counter() - start


def _lsmr(known: NamedProblem) -> float:
    """Least squares over all vectors, none of them a distribution, as `scipy.sparse.linalg.lsmr` iterates."""
    from scipy.sparse.linalg import LinearOperator, lsmr

    domain, measurements = known.domain, known.measurements()
    shape, axes = domain.shape, [domain.axes(clique) for clique in known.cliques]
    others = [tuple(axis for axis in range(len(shape)) if axis not in kept) for kept in axes]
    sizes = np.cumsum([0, *(domain.size(clique) for clique in known.cliques)])

    def marginals(vector: np.ndarray) -> np.ndarray:
        return np.concatenate([vector.reshape(shape).sum(axis=rest).reshape(-1) for rest in others])

    def spread(answers: np.ndarray) -> np.ndarray:
        total = np.zeros(shape)
        for start, stop, rest, kept in zip(sizes, sizes[1:], others, axes, strict=False):
            cells = answers[start:stop].reshape([shape[axis] for axis in kept])
            total += np.expand_dims(cells, rest)
        return total.reshape(-1)

    operator = LinearOperator((int(sizes[-1]), domain.size()), matvec=marginals, rmatvec=spread, dtype=np.float64)  # type: ignore[call-arg]
    values = np.concatenate([measurement.values.reshape(-1) for measurement in measurements])
    start = time.perf_counter()
    iterations = lsmr(operator, values, atol=0, btol=0, conlim=0, maxiter=5)[2]
    return (time.perf_counter() - start) / iterations
