"""The other side of the benchmarks: mbi 2.0.0 on JAX. All code that touches either is here.

mbi runs as its documentation advises: compiled, in float64, on the processor, with JAX's own threads. Importing this
module starts JAX.
"""

from __future__ import annotations

import contextlib
import math
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
"""What mbi's estimators spend on that fit, and when it is stopped here."""

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
