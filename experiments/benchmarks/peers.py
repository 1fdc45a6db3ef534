"""The other side of the benchmarks: mbi 2.0.0 on JAX. All code that touches either is here.

mbi runs as its documentation advises: compiled, in float64, on the processor, with JAX's own threads. Only where the
environment names JAX_PLATFORMS or JAX_ENABLE_X64 it runs elsewhere, or as these say. Importing this module starts JAX.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax

jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS", "cpu"))
jax.config.update("jax_enable_x64", os.environ.get("JAX_ENABLE_X64", "1") != "0")
jax.config.update("jax_enable_compilation_cache", False)

import jax.numpy as jnp  # noqa: E402
import mbi  # noqa: E402
import numpy as np  # noqa: E402
from mbi import approximate_oracles, marginal_oracles  # noqa: E402

from experiments.problems import NamedProblem  # noqa: E402
from pgmest.measurements.measurement import LinearMeasurement  # noqa: E402
from pgmest.models.exact import Model  # noqa: E402
from pgmest.tables.clique_vector import CliqueVector  # noqa: E402
from pgmest.tables.domain import Clique, Domain  # noqa: E402
from pgmest.tables.factor import Factor  # noqa: E402

SCHEDULES = {
    "implicit": marginal_oracles.message_passing_implicit,
    "hugin": marginal_oracles.message_passing_hugin,
    "shafer_shenoy": marginal_oracles.message_passing_shafer_shenoy,
    "fast": marginal_oracles.message_passing_fast,
}
"""mbi's three schedules of message passing, and `message_passing_fast`, an alias kept for older code: the implicit
schedule with another contraction."""

ESTIMATORS: dict[str, mbi.Estimator] = {
    "mirror_descent": mbi.estimation.MirrorDescent(),
    "dual_averaging": mbi.estimation.DualAveraging(),
    "interior_gradient": mbi.estimation.InteriorGradient(),
    "universal_accelerated": mbi.estimation.UniversalAcceleratedMethod(),
    "universal_accelerated_linesearch": mbi.estimation.UniversalAcceleratedMethod(linesearch=True),
    "lbfgs": mbi.estimation.LBFGS(),
}
WITH_POTENTIALS = ("mirror_descent", "lbfgs")
"""The estimators whose state is a model. The others end by fitting potentials to their marginals."""

FIT_ITERATIONS, FIT_MOST_SECONDS = 1000, 60.0
"""The iterations that mbi's estimators spend on that fit, and the limit after which the fit is stopped here."""

LOOP = 50
"""The number of iterations that mbi's estimators compile into one program."""


def as_mbi_domain(domain: Domain) -> mbi.Domain:
    return mbi.Domain(domain.attributes, domain.shape)


def as_mbi(vector: CliqueVector) -> mbi.CliqueVector:
    """The same tables, as mbi holds them."""
    domain = as_mbi_domain(vector.domain)
    tables = {
        clique: mbi.Factor(domain.project(clique), jnp.asarray(vector.table(position)))
        for position, clique in enumerate(vector.cliques)
    }
    return mbi.CliqueVector(domain, vector.cliques, tables)


# -- the MARGINAL-ORACLE -----------------------------------------------------------------------------------------------


class PeerOracle:
    """One of mbi's oracles at given potentials. The first `run` compiles; each waits until the marginals are there."""

    def __init__(self, potentials: CliqueVector, schedule: str):
        self.potentials = as_mbi(potentials)
        self.oracle = SCHEDULES[schedule]

    def run(self) -> mbi.CliqueVector:
        return jax.block_until_ready(self.oracle(self.potentials))

    def difference(self, marginals: CliqueVector, potentials: CliqueVector) -> float | None:
        """The largest absolute difference of any probability from those given; None if it finds some to be NaN."""
        own = self.oracle(as_mbi(potentials))
        tables = ((own[clique].values, marginals.table(i)) for i, clique in enumerate(marginals.cliques))
        largest = float(np.max([np.abs(np.asarray(left) - right).max() for left, right in tables]))
        return None if np.isnan(largest) else largest

    def compiled_loop(self) -> Callable[[], Any]:
        """LOOP calls in one compiled program, each followed by an update of the potentials, as in mbi's estimators."""

        def step(theta: mbi.CliqueVector, _: None) -> tuple[mbi.CliqueVector, None]:
            return theta + 1e-9 * self.oracle(theta), None

        loop = jax.jit(lambda theta: jax.lax.scan(step, theta, None, length=LOOP)[0])
        return lambda: jax.block_until_ready(loop(self.potentials))


# -- estimation --------------------------------------------------------------------------------------------------------


class _Stop(Exception):
    """Raised in a callback: the only way to stop one of mbi's estimators early."""


def estimation_trace(
    problem: NamedProblem, method: str, iterations: int, most_seconds: float, fit: bool
) -> dict[str, Any]:
    """Loss against iterations and seconds of one of mbi's estimators, and what it takes to end with a model.

    The losses are those of the marginals it has every LOOP iterations; evaluating them is not timed. All methods but
    mirror descent and L-BFGS then fit potentials to their marginals by maximum likelihood, with L-BFGS: `fit_seconds`
    until the model with `model_loss`, `fit_complete` if that was not stopped. Compilation is in `compile_seconds` only.

    Args:
        problem: what is measured; the total is given.
        method: a key of ESTIMATORS.
        iterations: how many.
        most_seconds: stop after these.
        fit: go on to the model, which takes much longer than the iterations.
    """
    total = float(problem.data().records)
    domain = as_mbi_domain(problem.domain)
    measured = [mbi.LinearMeasurement(m.values, m.clique, m.stddev) for m in problem.measurements()]
    loss = mbi.marginal_loss.from_linear_measurements(measured, domain)

    def run(estimator: mbi.Estimator, objective: mbi.MarginalLossFn, count: int, limit: float) -> _Observer:
        observer = _Observer(loss, math.ceil(count / LOOP), limit)
        with contextlib.suppress(_Stop):
            estimator.estimate(domain, objective, total, iters=count, callback_fn=observer)
        return observer

    estimator = ESTIMATORS[method]
    cold = run(estimator, loss, LOOP, np.inf)
    warm = run(estimator, loss, iterations, most_seconds)
    trace = {
        "method": method,
        "compile_seconds": cold.seconds[0] - warm.seconds[0],
        "iterations": [LOOP * (i + 1) for i in range(len(warm.seconds))],
        "seconds": warm.seconds,
        "losses": warm.losses,
        "fit_seconds": 0.0,
        "fit_complete": True,
        "model_loss": warm.losses[-1],
    }
    if method not in WITH_POTENTIALS:
        trace |= {"fit_seconds": None, "fit_complete": False, "model_loss": None}
        if fit:
            likelihood = mbi.marginal_loss.mle_loss_fn(warm.marginals)
            run(mbi.estimation.LBFGS(), likelihood, LOOP, np.inf)
            fitted = run(mbi.estimation.LBFGS(), likelihood, FIT_ITERATIONS, FIT_MOST_SECONDS)
            trace["fit_seconds"], trace["model_loss"] = fitted.seconds[-1], fitted.losses[-1]
            trace["fit_complete"] = len(fitted.seconds) == FIT_ITERATIONS // LOOP
    return trace


class _Observer:
    """A callback that notes the time and the loss, and keeps the time it takes itself out of the count."""

    def __init__(self, loss: mbi.MarginalLossFn, most_calls: int, most_seconds: float):
        self.loss, self.most_calls, self.most_seconds = loss, most_calls, most_seconds
        self.seconds: list[float] = []
        self.losses: list[float] = []
        self.marginals: mbi.CliqueVector | None = None
        self.elapsed = 0.0
        self.resumed = time.perf_counter()

    def __call__(self, marginals: mbi.CliqueVector) -> None:
        self.marginals = jax.block_until_ready(marginals)
        self.elapsed += time.perf_counter() - self.resumed
        self.seconds.append(self.elapsed)
        self.losses.append(float(self.loss(marginals)))
        if len(self.seconds) >= self.most_calls or self.elapsed > self.most_seconds:
            raise _Stop
        self.resumed = time.perf_counter()


# -- many marginals of one model ---------------------------------------------------------------------------------------


def many_marginals(potentials: CliqueVector, queries: Iterable[Clique], total: float) -> Callable[[], Any]:
    """mbi's `calculate_many_marginals`, to be called again and again."""
    theta, wanted = as_mbi(potentials), list(queries)
    return lambda: jax.block_until_ready(marginal_oracles.calculate_many_marginals(theta, wanted, total))


def bulk_elimination(potentials: CliqueVector, queries: Iterable[Clique], total: float) -> Callable[[], Any]:
    """mbi's `bulk_variable_elimination`, to be called again and again."""
    theta, wanted = as_mbi(potentials), list(queries)
    return lambda: jax.block_until_ready(marginal_oracles.bulk_variable_elimination(theta, wanted, total))


BULK = {"calculate_many_marginals": many_marginals, "bulk_variable_elimination": bulk_elimination}


# -- where the junction tree is too wide -------------------------------------------------------------------------------


def approximate_marginals(
    measurements: Iterable[LinearMeasurement], domain: Domain, total: float, step: float, iterations: int
) -> tuple[float, dict[Clique, Factor]]:
    """Seconds and tables, in counts, of mbi's mirror descent with convex message passing; compilation is not timed.

    Args:
        measurements: whole marginals.
        domain: the attributes.
        total: the number of records.
        step: the fixed step size, in units of the variance of the noise divided by the total.
        iterations: each with one sweep of messages.
    """
    measured = [mbi.LinearMeasurement(m.values, m.clique, m.stddev) for m in measurements]
    size = step * float(np.mean(measured[0].stddev)) ** 2 / total
    estimator = approximate_oracles.ApproxMirrorDescent(stepsize=size)

    def run(count: int) -> mbi.CliqueVector:
        return jax.block_until_ready(
            estimator.estimate(as_mbi_domain(domain), measured, known_total=total, iters=count)
        )

    run(1)
    start = time.perf_counter()
    found = run(iterations)
    seconds = time.perf_counter() - start
    return seconds, {m.clique: Factor(domain.project(m.clique), np.asarray(found[m.clique].values)) for m in measured}


# -- queries of one model ----------------------------------------------------------------------------------------------


def eliminate_queries(potentials: CliqueVector, queries: list[Clique], total: float) -> Callable[[], list[np.ndarray]]:
    """mbi's `variable_elimination`, compiled, for one marginal after the other."""
    theta = as_mbi(potentials)
    compiled = jax.jit(marginal_oracles.variable_elimination, static_argnums=(1, 2))
    return lambda: [np.asarray(compiled(theta, clique, total).values) for clique in queries]


def bulk_queries(potentials: CliqueVector, queries: list[Clique], total: float) -> Callable[[], list[np.ndarray]]:
    """mbi's `bulk_variable_elimination`."""
    call = bulk_elimination(potentials, queries, total)

    def run() -> list[np.ndarray]:
        answers = call()
        return [np.asarray(answers[clique].values) for clique in queries]

    return run


def kron_queries(
    potentials: CliqueVector, queries: list[dict[str, np.ndarray]], total: float
) -> Callable[[], list[np.ndarray]]:
    """mbi's `variable_elimination` with the query's matrices as further tables, as `kron_query` is meant to do.

    `kron_query` itself leaves the model's own tables out in 2.0.0, and raises. Logs are taken of the query's entries,
    so that none may be negative. Answers come normalized; the last, which is to count every record, gives their scale.
    """
    theta = as_mbi(potentials)
    tables, names, sizes = dict(theta.tables), list(potentials.domain), list(potentials.domain.shape)
    (factors,) = queries
    for name, matrix in factors.items():
        domain = mbi.Domain((f"{name} answered", name), matrix.shape)
        tables[domain.attributes] = mbi.Factor(domain, jnp.log(jnp.asarray(matrix)))
        names, sizes = [*names, f"{name} answered"], [*sizes, len(matrix)]
    joined = mbi.CliqueVector(mbi.Domain(tuple(names), tuple(sizes)), tuple(tables), tables)
    asked = tuple(f"{name} answered" for name in factors)
    compiled = jax.jit(marginal_oracles.variable_elimination, static_argnums=(1, 2))

    def run() -> list[np.ndarray]:
        values = np.asarray(compiled(joined, asked, total).values)
        return [values * (total / values.flat[-1])]

    return run


QUERIES: dict[str, Callable[[CliqueVector, list[Any], float], Callable[[], list[np.ndarray]]]] = {
    "variable_elimination": eliminate_queries,
    "bulk_variable_elimination": bulk_queries,
    "variable_elimination of the query": kron_queries,
}


# -- a mechanism's measurements ----------------------------------------------------------------------------------------


def estimate_rounds(
    measurements: Iterable[LinearMeasurement], counts: Iterable[int], domain: Domain, total: float, iterations: int
) -> tuple[float, Model]:
    """Seconds, compilation included, and the last model of mbi's mirror descent, each started from the one before.

    Args:
        measurements: whole marginals, in the order in which a mechanism took them.
        counts: after how many of them the mechanism estimates.
        domain: the attributes.
        total: the number of records.
        iterations: of each estimate.
    """
    measured = [mbi.LinearMeasurement(m.values, m.clique, float(np.mean(m.stddev))) for m in measurements]
    estimator, names = mbi.estimation.MirrorDescent(), as_mbi_domain(domain)
    found, seconds = None, 0.0
    for count in counts:
        start = time.perf_counter()
        found = estimator.estimate(names, measured[:count], total, iters=iterations, warm_start=found)
        jax.block_until_ready(found.potentials)
        seconds += time.perf_counter() - start
    if found is None:
        raise ValueError("counts must not be empty.")
    tables = {clique: np.asarray(found.potentials[clique].values, dtype=np.float64) for clique in found.cliques}
    return seconds, Model(CliqueVector(domain, tables), total)
