"""Ways to an estimate: paths of solvers, penalties of relative entropy, thresholded answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pgmest.clique_vector import CliqueVector
from pgmest.domain import Domain
from pgmest.estimation.accelerated import (
    MOST_DOUBLINGS,
    SMALLEST_DIVERGENCE,
    AcceleratedMirrorDescent,
    AcceleratedState,
)
from pgmest.estimation.problem import Problem
from pgmest.estimation.solver import Solver, State, divergence
from pgmest.measurement import LinearMeasurement

SMALLEST_SHARE = 0.1
"""A one-way count is taken to be at least this many of its standard deviations, so that no value is ruled out."""

STRENGTHS = (4.0, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.12, 0.06)
"""Penalties, in units of total / stddev, where they act alike at every scale: with x = count / stddev a cell costs
1/2 (x - y)^2 + strength * x log(x / x_prior)."""

TIMES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0)
"""Of the mirror flow, in units of stddev / total: the inverse of a strength."""

TOLERANCE = 2e-3
CHECK_EVERY = 10
MOST_STEPS = 3000


@dataclass(frozen=True)
class Watched(Solver[State]):
    """A solver whose every state is shown to `visit`."""

    solver: Solver
    visit: Callable[[State], None]
    name: str = "watched"

    def start(self, problem: Problem, theta: np.ndarray) -> State:
        state = self.solver.start(problem, theta)
        self.visit(state)
        return state

    def step(self, problem: Problem, state: State) -> State:
        state = self.solver.step(problem, state)
        self.visit(state)
        return state

    def lower_bound(self, problem: Problem, state: State, enough: float) -> float:
        return self.solver.lower_bound(problem, state, enough)


@dataclass(frozen=True)
class PenalisedMirrorDescent(AcceleratedMirrorDescent):
    r"""Accelerated mirror descent for f(p) + strength * KL(p || q), with q given by potentials `prior`.

    The penalty stays inside the proximal step, which keeps its closed form: with step constant a L,
    theta' = (a L theta + strength * prior - g) / (a L + strength).
    """

    prior: np.ndarray | float = 0.0
    strength: float = 0.0

    def _mirror_step(self, problem: Problem, state: AcceleratedState, at_y: float) -> bool:
        theta, z = state.spare
        for _ in range(MOST_DOUBLINGS):
            stiffness = state.momentum * state.smoothness
            np.subtract(self.prior, state.theta, out=state.move)
            state.move *= self.strength
            state.move -= state.gradient
            state.move /= stiffness + self.strength
            np.add(state.theta, state.move, out=theta)
            _, log_partition = problem.marginals(theta, out=z)
            np.subtract(z, state.p, out=state.change)
            distance = divergence(state.move, state.change, z, state.log_partition, log_partition)
            if distance <= SMALLEST_DIVERGENCE or self.curving(problem, state, at_y) <= state.smoothness * distance:
                state.smoothness *= self.shrink
                state.spare = (state.theta, state.p)
                state.theta, state.p, state.log_partition = theta, z, log_partition
                return True
            state.smoothness *= 2.0
        return False


@dataclass(frozen=True)
class Estimate:
    """A point of a path of regularised estimates.

    Attributes:
        parameter: the strength of the penalty, or the time of the flow.
        theta, p: potentials, and marginals as fractions.
        calls: of the oracle, since the path began.
    """

    parameter: float
    theta: np.ndarray
    p: np.ndarray
    calls: int


def penalised(problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Potentials and marginals that minimise f(p) + strength * KL(p || q) to a certified gap of TOLERANCE noise floors.

    The certificate is exact: linearising f at p and minimising the rest gives w = p(prior - gradient / strength), and
    the objective at p exceeds that lower bound by strength * KL(p || w). It costs one oracle call.
    """
    solver = PenalisedMirrorDescent(prior=prior, strength=strength)
    state = solver.start(problem, start.copy())
    for step in range(MOST_STEPS):
        state = solver.step(problem, state)
        if state.finished:
            break
        if step % CHECK_EVERY == CHECK_EVERY - 1:
            _, gradient = problem.loss_and_gradient(state.p)
            lowest = prior - gradient / strength
            w, log_partition = problem.marginals(lowest)
            gap = strength * divergence(state.theta - lowest, state.p - w, state.p, log_partition, state.log_partition)
            if gap <= TOLERANCE * problem.loss.noise_floor:
                break
    return state.theta, state.p


def penalty_path(problem: Problem, prior: np.ndarray, unit: float) -> Iterator[Estimate]:
    """f + strength * unit * KL(. || q) for every one of STRENGTHS, the strongest first."""
    theta, first = prior, problem.oracle.calls
    for strength in STRENGTHS:
        theta, p = penalised(problem, prior, strength * unit, theta)
        yield Estimate(strength, theta, p, problem.oracle.calls - first)


def mirror_flow(problem: Problem, start: np.ndarray, unit: float) -> Iterator[Estimate]:
    r"""d theta / dt = - gradient f(p_theta) / unit from `start`, at each of TIMES, by implicit steps.

    A step of length h is the penalty towards the estimate before it, f + (unit / h) KL(. || p); so this is Bregman
    iteration, or the entropic proximal point method. At time t it shrinks as the penalty of strength 1 / t does, but
    what the answers have settled is soon free of bias.
    """
    theta, first, before = start, problem.oracle.calls, 0.0
    for time in TIMES:
        theta, p = penalised(problem, theta, unit / (time - before), theta)
        before = time
        yield Estimate(time, theta, p, problem.oracle.calls - first)


def halves(measurements: list[LinearMeasurement], seed: int) -> tuple[list[LinearMeasurement], list[LinearMeasurement]]:
    """The answers plus and minus fresh noise of the same scale: independent of each other, of twice the variance."""
    generator = np.random.default_rng(1_000 + seed)
    noises = [generator.normal(0.0, measurement.stddev, measurement.values.shape) for measurement in measurements]

    def moved(sign: float) -> list[LinearMeasurement]:
        return [
            LinearMeasurement(each.values + sign * noise, each.clique, np.sqrt(2.0) * each.stddev)
            for each, noise in zip(measurements, noises, strict=True)
        ]

    return moved(1.0), moved(-1.0)


def one_way_shares(measurements: list[LinearMeasurement], domain: Domain, total: float) -> dict[str, np.ndarray]:
    """For each attribute the shares of its values: all answers about it averaged by precision, made a distribution."""
    shares = {}
    for name in domain:
        weighted, precision = np.zeros(domain[name]), 0.0
        for measurement in measurements:
            if name in measurement.clique:
                table = measurement.values.reshape(domain.project(measurement.clique).shape)
                axes = tuple(axis for axis, other in enumerate(measurement.clique) if other != name)
                weight = domain[name] / (table.size * float(np.mean(np.square(measurement.stddev))))
                weighted += weight * table.sum(axis=axes)
                precision += weight
        counts = np.maximum(_onto_simplex(weighted / precision, total), SMALLEST_SHARE / np.sqrt(precision))
        shares[name] = counts / counts.sum()
    return shares


def independent_potentials(problem: Problem, shares: dict[str, np.ndarray]) -> np.ndarray:
    """Potentials on the problem's cliques of the model in which attributes are independent with these shares."""
    logs = {(name,): np.log(values) for name, values in shares.items()}
    return CliqueVector(problem.layout.domain, logs).expand(problem.layout.cliques).flat.copy()


def thresholded(
    measurements: list[LinearMeasurement], shares: dict[str, np.ndarray], total: float, level: float, both: bool
) -> list[LinearMeasurement]:
    """Answers below `level` standard deviations replaced by what independent attributes would give.

    With `both`, only where that is below the threshold as well.
    """
    found = []
    for measurement in measurements:
        if len(measurement.clique) == 1:
            found.append(measurement)
            continue
        expected = np.full(1, total)
        for name in measurement.clique:
            expected = np.multiply.outer(expected, shares[name]).reshape(-1)
        values = np.asarray(measurement.values).reshape(-1)
        small = values < level * np.asarray(measurement.stddev)
        if both:
            small &= expected < level * np.asarray(measurement.stddev)
        found.append(LinearMeasurement(np.where(small, expected, values), measurement.clique, measurement.stddev))
    return found


def _onto_simplex(values: np.ndarray, total: float) -> np.ndarray:
    """The nearest non-negative vector that sums to `total`."""
    ordered = np.sort(values)[::-1]
    shifts = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered > shifts)[-1]
    return np.maximum(values - shifts[last], 0.0)
