"""Drawing from a posterior density: by Laplace's approximation where it holds, else by Hamiltonian Monte Carlo."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, at_least
from pgmest.losses.base import dot
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.hmc import Chain
from pgmest.models.posterior.metric import Metric
from pgmest.models.posterior.mode import find_mode, settled
from pgmest.models.posterior.report import PosteriorReport
from pgmest.models.posterior.unidentified import Unidentified

FIRST_TRIALS, TRIALS = 2, 16
HOLDS = 0.5
"""Laplace's approximation holds where the log of the true density over its own varies by at most so many nats (standard
deviation) over so many draws from it: then a difference of 1 in the density is two of these."""

HOPELESS = 50 * HOLDS
"""Where the first draws differ by more than this no further ones are made, nor is the mode made exact."""

SOLVED = 1e-3
THREADED_CELLS = 4096
"""With fewer cells a gradient takes so little time that threads would wait for each other."""

REPORTED = 2000
"""Diagnostics are of the counts of at most this number of cells, chosen at random."""


METHODS = ("auto", "laplace", "hmc")
FEWEST_EACH = 4
"""Diagnostics need so many draws of each chain."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Points of a posterior, shape (chains, draws, size), and how they were made."""

    points: np.ndarray
    report: PosteriorReport


def check_settings(draws: Any, chains: Any, warm_up: Any, method: Any) -> None:
    """See that a posterior can be drawn so.

    Raises:
        ArgumentError: numbers that are not positive integers, fewer than four draws a chain, or no such method.
    """
    at_least("chains", chains, 1)
    at_least("draws", draws, FEWEST_EACH * chains)
    at_least("warm_up", warm_up, 1)
    if method not in METHODS:
        raise ArgumentError.of("method", method, METHODS)


def draw(
    density: PosteriorDensity, draws: int, chains: int, warm_up: int, method: str, seed: int | np.random.Generator
) -> Draws:
    """Draw from the density; arguments as `Model.posterior` has checked them."""
    started = time.perf_counter()
    generator = np.random.default_rng(seed)
    mode = find_mode(density)
    misfit, found = np.nan, None
    if method in ("auto", "laplace"):
        misfit = laplace_misfit(density, mode, generator)
        if method == "laplace" or misfit <= HOPELESS:
            exact = settled(density, mode)
            misfit, mode = (misfit if exact is mode else laplace_misfit(density, exact, generator)), exact
        if method == "laplace" or misfit <= HOLDS:
            found = _laplace(density, mode, chains, -(-draws // chains), generator)
    facts: dict[str, Any] = {"divergent": 0, "acceptance": 1.0, "gradients": density.evaluations}
    if found is None:
        found, facts = _chains(density, mode, chains, -(-draws // chains), warm_up, generator)
        name = "hmc"
    else:
        name = "laplace"
    counts = _counts(density, found, generator)
    facts |= {"method": name, "misfit": float(misfit), "seconds": time.perf_counter() - started}
    return Draws(found, PosteriorReport.of(counts, np.exp(found[:, :, -1]), **facts))


def laplace_misfit(density: PosteriorDensity, mode: np.ndarray, generator: np.random.Generator) -> float:
    """The standard deviation of the log of the density over its Laplace approximation's, over draws from that.

    Of the first draws only where these say that it is nowhere near.
    """
    differences: list[float] = []
    for count in (FIRST_TRIALS, TRIALS - FIRST_TRIALS):
        for step, energy in _laplace_steps(density, mode, count, generator):
            actual, _ = density.energy(mode + step)
            differences.append(actual - energy)
        if not np.isfinite(differences).all():
            return np.inf
        if np.std(differences) > HOPELESS:
            break
    return float(np.std(differences))


def _laplace_steps(
    density: PosteriorDensity, mode: np.ndarray, count: int, generator: np.random.Generator
) -> list[tuple[np.ndarray, float]]:
    """Draws from N(0, H^-1) and their energies step^T H step / 2: H step = noise, by conjugate gradients."""
    curvature, moves, found = density.curvature(mode), _moves(density, scales=False), []
    for _ in range(count):
        noise = np.where(moves, curvature.noise(generator), 0.0)
        step = np.where(moves, curvature.solve(noise, SOLVED), 0.0)
        found.append((step, 0.5 * dot(noise, step)))
    return found


def _laplace(
    density: PosteriorDensity, mode: np.ndarray, chains: int, each: int, generator: np.random.Generator
) -> np.ndarray:
    steps = _laplace_steps(density, mode, chains * each, generator)
    return np.stack([mode + step for step, _ in steps]).reshape(chains, each, density.size)


def _moves(density: PosteriorDensity, scales: bool = True) -> np.ndarray:
    """Which coordinates move; for Laplace's approximation the prior's own parameters stay where they are likely."""
    own = np.full(density.size - density.cells - 1, scales)
    return np.concatenate([density.open, own, [not density.total_known]])


def _chains(
    density: PosteriorDensity, mode: np.ndarray, chains: int, each: int, warm_up: int, generator: np.random.Generator
) -> tuple[np.ndarray, dict[str, Any]]:
    """Chains in threads, each with its own oracle and stream of random numbers, from points around the mode."""
    metric, unidentified = Metric.of(density, mode, _moves(density), generator), Unidentified.of(density)
    points = np.empty((chains, each, density.size))
    stop = threading.Event()

    def run(index: int, stream: np.random.Generator) -> tuple[Chain, int]:
        own = density.twin()
        energy, gradient = _stoppable(own.energy, stop), _stoppable(own.gradient, stop)
        chain = Chain(energy, gradient, unidentified.draw, own.held, metric, stream)
        start = mode + 0.5 * metric.velocity(metric.momentum(stream))
        row = iter(range(each))

        def keep(point: np.ndarray) -> None:
            points[index, next(row)] = point

        chain.draw(chain.warm_up(start, warm_up), each, keep)
        return chain, own.evaluations

    threads = 1 if density.cells < THREADED_CELLS else min(chains, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        try:
            running = [pool.submit(run, index, stream) for index, stream in enumerate(generator.spawn(chains))]
            done = [one.result() for one in running]
        except BaseException:  # Ctrl-C comes to this thread only
            stop.set()
            raise
    return points, {
        "divergent": sum(chain.divergent for chain, _ in done),
        "acceptance": float(np.mean([chain.acceptance for chain, _ in done])),
        "gradients": density.evaluations + sum(gradients for _, gradients in done),
    }


Energy = Callable[[np.ndarray], tuple[float, np.ndarray]]


def _stoppable(energy: Energy, stop: threading.Event) -> Energy:
    def watched(point: np.ndarray) -> tuple[float, np.ndarray]:
        if stop.is_set():
            raise InterruptedError
        return energy(point)

    return watched


def _counts(density: PosteriorDensity, points: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The counts of some measured cells at each point, shape (chains, draws, cells)."""
    cells = np.flatnonzero(density.open)
    if len(cells) > REPORTED:
        cells = np.sort(generator.choice(cells, REPORTED, replace=False))
    flat = points.reshape(-1, points.shape[-1])
    return np.stack([density.marginals(point)[cells] for point in flat]).reshape(*points.shape[:2], len(cells))
