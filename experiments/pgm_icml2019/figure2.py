"""Figure 2: (a) HDMM with local least squares and with PGM against epsilon; (b) seconds an iteration takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from experiments.pgm_icml2019.cases import ESTIMATORS, Cell
from experiments.pgm_icml2019.store import RESULTS, rows_of
from experiments.problems import NamedProblem, chain
from pgmest._base.files import atomic_path, write_atomically
from pgmest.estimation.estimate import estimate
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
TRIALS = 3
ATTRIBUTES = (3, 4, 5, 6, 7, 10, 30, 100, 300, 1000)
LARGEST_VECTOR = 10**7
ITERATIONS = 20


def epsilons(fresh: bool) -> None:
    """Figure 2a: the error of HDMM on Adult."""
    cells = [
        Cell("adult", "HDMM", which, trial, eps) for eps in EPSILONS for trial in range(TRIALS) for which in ESTIMATORS
    ]
    table = pd.DataFrame(list(rows_of(cells, fresh)))
    if table.empty:
        return
    medians = table.pivot_table(index="epsilon", columns="estimator", values="error", aggfunc="median")
    lines = ["# HDMM on Adult: local least squares and PGM", "", f"The median of {TRIALS} trials.", ""]
    lines += ["| epsilon | LLS | PGM | improvement |", "|---|---|---|---|"]
    for epsilon, row in medians.iterrows():
        lines.append(
            f"| {epsilon:g} | {row['original']:.4f} | {row['pgm']:.4f} | {row['original'] / row['pgm']:.1f}x |"
        )
    write_atomically(RESULTS / "pgm_figure2a.md", "\n".join(lines) + "\n")
    _plot(medians.rename(columns={"original": "HDMM+LLS", "pgm": "HDMM+PGM"}), "epsilon", "workload error", "2a")


def seconds() -> None:
    """Figure 2b: one iteration of each estimator on a chain of attributes of 10 values, adjacent triples measured."""
    methods: dict[str, Callable[[NamedProblem], float]] = {
        "PGM": _graphical_model,
        "multiplicative weights": _multiplicative_weights,
        "LSMR": _lsmr,
    }
    rows: dict[int, dict[str, float]] = {}
    for attributes in ATTRIBUTES:
        problem = chain(attributes)
        full = problem.domain.size() <= LARGEST_VECTOR
        rows[attributes] = {name: method(problem) for name, method in methods.items() if full or name == "PGM"}
        print(attributes, {name: f"{value:.2g} s" for name, value in rows[attributes].items()}, flush=True)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(methods)).rename_axis("attributes")
    lines = ["# Seconds per iteration against the number of attributes", ""]
    lines += [f"A chain of attributes of 10 values; full vectors up to {LARGEST_VECTOR:,} cells.", ""]
    lines += [f"| attributes | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for attributes, row in table.iterrows():
        lines.append(f"| {attributes} | {' | '.join('-' if np.isnan(cell) else f'{cell:.2g}' for cell in row)} |")
    write_atomically(RESULTS / "pgm_figure2b.md", "\n".join(lines) + "\n")
    _plot(table, "attributes", "seconds per iteration", "2b")


def _graphical_model(problem: NamedProblem) -> float:
    report = estimate(
        problem.measurements(), problem.domain, method="mirror_descent", tolerance=0.0, max_iterations=ITERATIONS
    ).report
    assert report is not None
    return report.seconds / report.iterations


def _multiplicative_weights(problem: NamedProblem) -> float:
    weights = MultiplicativeWeights(problem.domain, [problem.domain.attributes], 10_000.0)
    measurements = problem.measurements()
    start = time.perf_counter()
    for measurement in measurements:
        weights.update(measurement)
    return time.perf_counter() - start


def _lsmr(problem: NamedProblem) -> float:
    """Least squares over all vectors, none of them a distribution, as `scipy.sparse.linalg.lsmr` iterates."""
    from scipy.sparse.linalg import LinearOperator, lsmr

    domain, measurements = problem.domain, problem.measurements()
    shape, axes = domain.shape, [domain.axes(clique) for clique in problem.cliques]
    others = [tuple(axis for axis in range(len(shape)) if axis not in kept) for kept in axes]
    sizes = np.cumsum([0, *(domain.size(clique) for clique in problem.cliques)])

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


def _plot(table: pd.DataFrame, across: str, up: str, name: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    axes = table.plot(marker="o", logx=True, logy=True, figsize=(5, 3.5))
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.figure.tight_layout()
    with atomic_path(RESULTS / f"pgm_figure{name}.png") as path:
        axes.figure.savefig(path, dpi=150, format="png")
    plt.close(axes.figure)
