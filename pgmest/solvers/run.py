"""Running a solver: progress, certificates, when to stop, and what to say about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.solvers.problem import Problem
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.solver import Solver, State

FIRST_CHECK = 100
CHECK_GROWTH = 1.1
"""The certificate is computed after FIRST_CHECK oracle calls, then each time their number has grown by this and by as
many as the last certificate took, and whenever the solver says that it has settled."""

CHEAP = 5
CONVERGENCE = 4.0
LONGEST_GROWTH = 1.5
"""After a certificate that took more than CHEAP calls, their number first grows as it would have to, up to this factor,
to bring the gap down to the tolerance if gaps fall like calls to the power of -CONVERGENCE."""


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each iteration.

    Attributes:
        iteration: steps so far.
        oracle_calls: calls of the marginal oracle so far, certificates not counted.
        seconds: since the start.
        gap: the best certificate so far, inf before the first one; in the units of the loss.
        tolerance: the gap at which the solver stops.
    """

    iteration: int
    oracle_calls: int
    seconds: float
    gap: float
    tolerance: float
    _problem: Problem
    _state: State

    @property
    def loss(self) -> float:
        """The loss at the current marginals."""
        return self._problem.loss_and_gradient(self._state.p)[0]

    @property
    def marginals(self) -> np.ndarray:
        """The current marginals in counts, flat, in the order of the problem's layout."""
        return self._state.p * self._problem.total


Callback = Callable[[Progress], Any]


@dataclass(frozen=True)
class _Kept:
    """The best state at any certificate: not every solver's loss falls at every step."""

    loss: float
    theta: np.ndarray
    p: np.ndarray
    log_partition: float


@dataclass
class Minimization:
    """One run of a solver on a problem.

    The run stops when the duality gap is at most `tolerance` times the scale of the problem: the larger of the proven
    lower bound on the loss and the loss's noise floor. The noise floor is what the loss would be on average at the
    true marginals; for L2 it is 1/2 per answer. As the loss curves by 1 in standardized answers, a gap of
    tolerance * floor keeps the mean squared distance of the answers from those of the exact optimum below tolerance,
    in units of the noise variance: at 1e-3, 3 % of a standard deviation. Closer is not worth paying for, and for
    measurements that fit perfectly (optimum 0) a tolerance relative to the loss alone could never be met.
    """

    problem: Problem
    solver: Solver
    tolerance: float
    max_iterations: int
    callback: Callback | None = None

    def run(self, theta: np.ndarray) -> tuple[State, EstimationReport]:
        """Minimize from potentials `theta`.

        Ctrl-C (KeyboardInterrupt) ends the run early and returns what has been found so far, with a report that
        says so.
        """
        self._started = time.perf_counter()
        self._certificate_calls = 0
        self._bound = -np.inf
        self._gap = np.inf
        self._best: _Kept | None = None
        first_calls = self.problem.oracle.calls
        state = self.solver.start(self.problem, theta)
        iteration, next_check, stopped, certified = 0, FIRST_CHECK, "", False
        try:
            while not stopped:
                if state.finished:
                    stopped = state.finished
                elif iteration >= self.max_iterations:
                    stopped = f"max_iterations={self.max_iterations:,} reached"
                else:
                    state = self.solver.step(self.problem, state)
                    iteration += 1
                    certified = False
                calls = self.problem.oracle.calls - first_calls - self._certificate_calls
                if calls >= next_check or stopped or (state.settled and calls >= FIRST_CHECK):
                    certified, before = True, self._certificate_calls
                    if self._certify(state):
                        break
                    next_check = self._next_check(calls, self._certificate_calls - before)
                if self.callback is not None and self._tell(iteration, calls, state):
                    stopped = "stopped by the callback"
        except KeyboardInterrupt:
            stopped = "interrupted"
        if not certified:
            self._certify(state)
        if self._best is not None and not state.early:
            state.theta, state.p, state.log_partition = self._best.theta, self._best.p, self._best.log_partition
        calls = self.problem.oracle.calls - first_calls
        return state, self._report(state, iteration, calls, stopped)

    @property
    def scale(self) -> float:
        """What `tolerance` is relative to, in the units of the loss; a loss may be negative, as a log-likelihood is."""
        proven = abs(self._bound) if np.isfinite(self._bound) else 0.0
        return max(proven, self.problem.loss.noise_floor, np.finfo(float).tiny)

    def _certify(self, state: State) -> bool:
        """Update the lower bound and the gap; whether the tolerance is met."""
        before = self.problem.oracle.calls
        loss = self.solver.objective(self.problem, state)
        bound = self.solver.lower_bound(self.problem, state, self.tolerance * self.scale)
        self._bound = max(self._bound, bound)
        if self._best is None or loss < self._best.loss:
            self._best = _Kept(loss, state.theta.copy(), state.p.copy(), state.log_partition)
        self._gap = max((loss if state.early else self._best.loss) - self._bound, 0.0)
        self._certificate_calls += self.problem.oracle.calls - before
        return self._gap <= self.tolerance * self.scale

    def _next_check(self, calls: int, cost: int) -> int:
        """After how many oracle calls to certify again, the last certificate having taken `cost` at `calls`."""
        growth = CHECK_GROWTH
        if cost > CHEAP:
            enough, longest = self.tolerance * self.scale, LONGEST_GROWTH**CONVERGENCE
            ratio = self._gap / enough if self._gap < longest * enough else longest
            growth = max(growth, ratio ** (1.0 / CONVERGENCE))
        return calls + max(1, int(calls * (growth - 1.0)), cost)

    def _tell(self, iteration: int, calls: int, state: State) -> bool:
        assert self.callback is not None
        seconds = time.perf_counter() - self._started
        tolerance = self.tolerance * self.scale
        return bool(self.callback(Progress(iteration, calls, seconds, self._gap, tolerance, self.problem, state)))

    def _report(self, state: State, iteration: int, calls: int, stopped: str) -> EstimationReport:
        loss = self.solver.objective(self.problem, state)
        relative = float(self._gap) / float(self.scale)
        converged = relative <= self.tolerance or state.early
        message = ""
        if state.early:
            message = (
                f"{state.finished}; the loss is at most {self._gap:.4g} above its optimum, which this method does not "
                "look for."
            )
        elif not converged:
            message = (
                f"{stopped} at a relative gap of {relative:.3g}, above tolerance={self.tolerance:g}; "
                f"the loss is at most {self._gap:.4g} above the optimum. Raise max_iterations or the tolerance for a "
                "certified answer."
            )
        return EstimationReport(
            method=self.solver.name,
            loss=loss,
            gap=self._gap,
            relative_gap=relative,
            iterations=iteration,
            oracle_calls=calls,
            seconds=time.perf_counter() - self._started,
            converged=converged,
            message=message,
        )
