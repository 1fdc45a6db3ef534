"""Draws from a posterior density, by Laplace's approximation if it holds, else by Hamiltonian Monte Carlo."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.progress import announce, progress
from pgmest.errors import ArgumentError, at_least
from pgmest.losses.base import dot
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.diagnostics import FEWEST_DRAWS
from pgmest.models.posterior.hmc import WARM_UP_LENGTH, Chain
from pgmest.models.posterior.metric import Metric
from pgmest.models.posterior.mode import find_mode, refined_mode
from pgmest.models.posterior.report import PosteriorReport
from pgmest.models.posterior.unidentified import Unidentified

FIRST_TRIALS, TRIALS = 2, 16
"""The numbers of draws by which Laplace's approximation is tested: a first look, and the whole test."""
HOLDS = 0.5
"""Laplace's approximation holds if the log of the density ratio varies by at most this many nats (standard deviation)
over draws from it: a difference of 1 nat is then two standard deviations."""

HOPELESS = 50 * HOLDS
"""If the first draws vary by more nats than this, the test stops and the mode is not refined."""

SOLVED = 1e-3
"""The relative residual to which conjugate gradients solve for a Laplace draw."""
FAR = 1.0
"""Laplace's approximation is not around a mode if a Newton step would lower the energy by more than this, in nats: the
search for the mode may stop early where some answers are thousands of times as precise as others."""
GRADIENTS, TIMED = 5, 3
"""The time of a transition in gradients of the first, short ones, and the number of these that are timed. The factor is
right within about two on chains of 5 pairs with 8 values each; the time is only announced."""
THREADED_CELLS = 4096
"""With fewer cells a gradient takes so little time that threads would wait for each other."""

REPORTED = 2000
"""The largest number of cells, chosen at random, whose counts the diagnostics use."""


METHODS = ("auto", "laplace", "hmc")
"""The methods of `posterior_of`."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Points of a posterior, shape (chains, draws, size), and the report on them."""

    points: np.ndarray
    report: PosteriorReport


def check_settings(draws: Any, chains: Any, warm_up: Any, method: Any) -> None:
    """Check the numbers of draws, chains and transitions, and the method.

    Raises:
        ArgumentError: a number is not a positive integer, there are fewer than four draws a chain, or the method is
            unknown.
    """
    at_least("chains", chains, 1)
    at_least("draws", draws, FEWEST_DRAWS * chains)
    at_least("warm_up", warm_up, 1)
    if method not in METHODS:
        raise ArgumentError.of("method", method, METHODS)


def draw(
    density: PosteriorDensity, draws: int, chains: int, warm_up: int, method: str, seed: int | np.random.Generator
) -> Draws:
    """Draw from the density; the arguments are those of `posterior_of`, checked."""
    started = time.perf_counter()
    generator = np.random.default_rng(seed)
    mode = find_mode(density)
    misfit, found = np.nan, None
    if method in ("auto", "laplace"):
        misfit = laplace_misfit(density, mode, generator)
        if method == "laplace" or misfit <= HOPELESS:
            exact = refined_mode(density, mode)
            misfit, mode = (misfit if exact is mode else laplace_misfit(density, exact, generator)), exact
            if _above_mode(density, mode) > FAR:
                misfit = np.inf
        if method == "laplace" or misfit <= HOLDS:
            found = _laplace(density, mode, chains, -(-draws // chains), generator)
    facts: dict[str, Any] = {"divergent": 0, "acceptance": 1.0, "gradients": density.evaluations}
    if found is None:
        found, facts = _chains(density, mode, chains, -(-draws // chains), warm_up, generator)
        name = "hmc"
    else:
        name = "laplace"
    moved, missed = density.given_facts(found.reshape(-1, density.size), mode)
    found = moved.reshape(found.shape)
    counts = _counts(density, found, generator)
    facts |= {"method": name, "misfit": float(misfit), "missed": missed}
    facts |= {"seconds": time.perf_counter() - started}
    return Draws(found, PosteriorReport.of(counts, np.exp(found[:, :, -1]), **facts))


def _above_mode(density: PosteriorDensity, point: np.ndarray) -> float:
    """Return by how much a Newton step would lower the energy, in nats; hardly any at a mode."""
    _, gradient = density.energy(point)
    gradient = np.where(_moves(density, scales=False), gradient, 0.0)
    return 0.5 * dot(gradient, density.curvature(point).solve(gradient, SOLVED))


def laplace_misfit(density: PosteriorDensity, mode: np.ndarray, generator: np.random.Generator) -> float:
    """Return the standard deviation of log(density / Laplace approximation), over draws from the latter, in nats.

    If the first draws already show a misfit above HOPELESS, only they are used.
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
    density: PosteriorDensity,
    mode: np.ndarray,
    count: int,
    generator: np.random.Generator,
    made: Callable[[int], Any] = lambda steps: None,
) -> list[tuple[np.ndarray, float]]:
    """Draw steps from N(0, H^-1) by solving H step = noise, and return them with their energies step^T H step / 2."""
    curvature, moves, found = density.curvature(mode), _moves(density, scales=False), []
    for _ in range(count):
        noise = np.where(moves, curvature.noise(generator), 0.0)
        step = np.where(moves, curvature.solve(noise, SOLVED), 0.0)
        found.append((step, 0.5 * dot(noise, step)))
        made(1)
    return found


def _laplace(
    density: PosteriorDensity, mode: np.ndarray, chains: int, each: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw from Laplace's approximation, shape (chains, each, size)."""
    started = time.perf_counter()
    steps = _laplace_steps(density, mode, FIRST_TRIALS, generator)
    rest = chains * each - FIRST_TRIALS
    announce("drawing from the posterior", rest * (time.perf_counter() - started) / FIRST_TRIALS)
    with progress("drawing from the posterior", rest) as more:
        steps += _laplace_steps(density, mode, rest, generator, more)
    return np.stack([mode + step for step, _ in steps]).reshape(chains, each, density.size)


def _moves(density: PosteriorDensity, scales: bool = True) -> np.ndarray:
    """Return which coordinates move; in Laplace's approximation the prior's scales stay at their likeliest values."""
    own = np.full(density.size - density.cells - 1, scales)
    return np.concatenate([density.open, own, [not density.total_known]])


def _chains(
    density: PosteriorDensity, mode: np.ndarray, chains: int, each: int, warm_up: int, generator: np.random.Generator
) -> tuple[np.ndarray, dict[str, Any]]:
    """Run chains in threads, each with its own oracle and stream of random numbers, from points around the mode."""
    metric, unidentified = Metric.of(density, mode, _moves(density), generator), Unidentified.of(density)
    points = np.empty((chains, each, density.size))
    stop = threading.Event()

    def run(index: int, stream: np.random.Generator) -> tuple[Chain, int]:
        own = density.twin()
        energy, gradient = _stoppable(own.energy, stop), _stoppable(own.gradient, stop)
        chain = Chain(energy, gradient, unidentified.draw, own.identified, metric, stream)
        start = mode + 0.5 * metric.velocity(metric.momentum(stream))
        row = iter(range(each))

        def keep(point: np.ndarray) -> None:
            points[index, next(row)] = point
            more(1)

        warm = chain.warm_up(start, warm_up)
        more(warm_up)
        chain.draw(warm, each, keep)
        return chain, own.evaluations

    pilot = Chain(
        density.energy, density.gradient, unidentified.draw, density.identified, metric, np.random.default_rng(0)
    )
    threads, transitions = _threads(density, chains), chains * (warm_up + each)
    announce("drawing from the posterior", transitions * _seconds(pilot, density, mode) / threads)
    with ThreadPoolExecutor(threads) as pool, progress("drawing from the posterior", transitions) as more:
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


def _seconds(chain: Chain, density: PosteriorDensity, point: np.ndarray) -> float:
    """Return about the time of a transition, by making a few short ones."""
    chain.lengths = [WARM_UP_LENGTH]
    started, before = time.perf_counter(), density.evaluations
    chain.draw(point, TIMED, lambda _: None)
    return GRADIENTS * (time.perf_counter() - started) / max(density.evaluations - before, 1)


def _threads(density: PosteriorDensity, chains: int) -> int:
    return 1 if density.cells < THREADED_CELLS else min(chains, os.cpu_count() or 1)


Energy = Callable[[np.ndarray], tuple[float, np.ndarray]]


def _stoppable(energy: Energy, stop: threading.Event) -> Energy:
    """Return the energy as a function that raises InterruptedError once the event is set."""

    def watched(point: np.ndarray) -> tuple[float, np.ndarray]:
        if stop.is_set():
            raise InterruptedError
        return energy(point)

    return watched


def _counts(density: PosteriorDensity, points: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the counts of some measured cells at each point, shape (chains, draws, cells)."""
    cells = np.flatnonzero(density.open)
    if len(cells) > REPORTED:
        cells = np.sort(generator.choice(cells, REPORTED, replace=False))
    flat = points.reshape(-1, points.shape[-1])
    return np.stack([density.marginals(point)[cells] for point in flat]).reshape(*points.shape[:2], len(cells))
