"""The other side of the benchmarks: mbi 2.0.0 on JAX. All code that touches either is here.

mbi runs as its documentation advises: float64, on the processor, with JAX's own threads. Importing this module starts JAX.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)

import jax.numpy as jnp  # noqa: E402
import mbi  # noqa: E402
import numpy as np  # noqa: E402
from mbi import marginal_oracles  # noqa: E402

from experiments.problems import NamedProblem  # noqa: E402
from pgmest.clique_vector import CliqueVector  # noqa: E402
from pgmest.domain import Clique, Domain  # noqa: E402

SCHEDULES = {
    "implicit": marginal_oracles.message_passing_implicit,
    "hugin": marginal_oracles.message_passing_hugin,
    "shafer_shenoy": marginal_oracles.message_passing_shafer_shenoy,
    "fast": marginal_oracles.message_passing_fast,
}
"""mbi's three schedules of message passing, and `message_passing_fast`, an alias kept for older code: the implicit
schedule with another contraction."""

ESTIMATORS = {
    "mirror_descent": mbi.estimation.MirrorDescent,
    "dual_averaging": mbi.estimation.DualAveraging,
    "interior_gradient": mbi.estimation.InteriorGradient,
    "universal_accelerated": mbi.estimation.UniversalAcceleratedMethod,
    "lbfgs": mbi.estimation.LBFGS,
}
LOOP = 50
"""How many iterations mbi's estimators compile into one program."""


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


# -- the MARGINAL-ORACLE -------------------------------------------------------------------------------------------------


class PeerOracle:
    """One of mbi's oracles at given potentials. The first `run` compiles; each waits until the marginals are there."""

    def __init__(self, potentials: CliqueVector, schedule: str):
        self.potentials = as_mbi(potentials)
        self.oracle = SCHEDULES[schedule]

    def run(self) -> mbi.CliqueVector:
        return jax.block_until_ready(self.oracle(self.potentials))

    def difference(self, marginals: CliqueVector) -> float:
        """The largest absolute difference of any probability from those given."""
        own = self.run()
        tables = ((own[clique].values, marginals.table(i)) for i, clique in enumerate(marginals.cliques))
        return max(float(np.abs(np.asarray(left) - right).max()) for left, right in tables)

    def compiled_loop(self) -> Callable[[], Any]:
        """LOOP calls in one compiled program, each followed by an update of the potentials, as in mbi's estimators."""

        def step(theta: mbi.CliqueVector, _: None) -> tuple[mbi.CliqueVector, None]:
            return theta + 1e-9 * self.oracle(theta), None

        loop = jax.jit(lambda theta: jax.lax.scan(step, theta, None, length=LOOP)[0])
        return lambda: jax.block_until_ready(loop(self.potentials))


# -- estimation ----------------------------------------------------------------------------------------------------------


def estimation_trace(problem: NamedProblem, method: str, iterations: int, most_seconds: float) -> dict[str, Any]:
    """Loss against iterations and seconds of one of mbi's estimators, at the marginals it has at each point.

    The first LOOP iterations are run twice: the first time compiles. The total is given. Evaluating the loss costs
    nothing here. `finish_seconds` is what `estimate` takes after the last iteration: all methods but mirror descent
    and L-BFGS then fit potentials to their marginals. The loss of the model that comes out is `model_loss`.
    """
    records = problem.data().records
    run = functools.partial(_run_estimator, problem, method, records)
    cold = run(LOOP, np.inf)
    warm = run(iterations, most_seconds)
    return {
        "method": method,
        "compile_seconds": cold["seconds"][0] - warm["seconds"][0],
        "finish_compile_seconds": cold["finish_seconds"] - warm["finish_seconds"],
        **warm,
    }


class _OutOfTime(Exception):
    """Raised in a callback: the only way to stop one of mbi's estimators by the clock."""


def _run_estimator(
    problem: NamedProblem, method: str, total: float, iterations: int, most_seconds: float
) -> dict[str, Any]:
    domain = as_mbi_domain(problem.domain)
    measured = [mbi.LinearMeasurement(m.values, m.clique, m.stddev) for m in problem.measurements()]
    loss = mbi.marginal_loss.from_linear_measurements(measured, domain)
    seconds: list[float] = []
    losses: list[float] = []
    paused = 0.0
    start = time.perf_counter()

    def observe(marginals: mbi.CliqueVector) -> None:
        nonlocal paused
        jax.block_until_ready(marginals)
        now = time.perf_counter()
        seconds.append(now - start - paused)
        losses.append(float(loss(marginals)))
        paused += time.perf_counter() - now
        if seconds[-1] > most_seconds:
            raise _OutOfTime

    finish_seconds = model_loss = None
    try:
        model = ESTIMATORS[method]().estimate(domain, loss, total, iters=iterations, callback_fn=observe)
        jax.block_until_ready(model.potentials)
        finish_seconds = time.perf_counter() - start - paused - seconds[-1]
        model_loss = float(loss(model.marginals))
    except _OutOfTime:
        pass
    steps = [LOOP * (i + 1) for i in range(len(seconds))]
    return {
        "iterations": steps,
        "seconds": seconds,
        "losses": losses,
        "finish_seconds": finish_seconds,
        "model_loss": model_loss,
    }


# -- many marginals of one model -----------------------------------------------------------------------------------------


def many_marginals(potentials: CliqueVector, queries: Iterable[Clique], total: float) -> Callable[[], Any]:
    """mbi's `calculate_many_marginals`, to be called again and again."""
    theta, wanted = as_mbi(potentials), list(queries)
    return lambda: jax.block_until_ready(marginal_oracles.calculate_many_marginals(theta, wanted, total))


def bulk_elimination(potentials: CliqueVector, queries: Iterable[Clique], total: float) -> Callable[[], Any]:
    """mbi's `bulk_variable_elimination`, to be called again and again."""
    theta, wanted = as_mbi(potentials), list(queries)
    return lambda: jax.block_until_ready(marginal_oracles.bulk_variable_elimination(theta, wanted, total))
