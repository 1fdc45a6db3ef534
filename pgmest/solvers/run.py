"""The run of a solver: steps, certificates, the stopping rule, progress and the report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.kernel_cache import compiling
from pgmest._base.stages import out_of_time
from pgmest.errors import ArgumentError
from pgmest.solvers.certificate import NEGLIGIBLE_GAP
from pgmest.solvers.facts_oracle import HELD
from pgmest.solvers.problem import Problem
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

FIRST_CHECK = 100
CHECK_GROWTH = 1.1
"""The first certificate is computed after FIRST_CHECK oracle calls. The next one follows when the number of calls has
grown by the factor CHECK_GROWTH and by at least the calls of the last certificate, or, if the solver has settled, by
the factor CHECK_GROWTH alone."""

HOPELESS = 1e-4
"""A run ends at its start if a fact is violated by more than this share of the total: no step would meet it."""

CHEAP = 5
CONVERGENCE = 4.0
LONGEST_GROWTH = 1.5
"""After a certificate of more than CHEAP oracle calls, the growth factor is the one that is predicted to reach the
tolerance if gaps fall like calls to the power of -CONVERGENCE, but at most LONGEST_GROWTH."""


@dataclass(frozen=True)
class Progress:
    """The argument of a callback, which is called after each iteration.

    Attributes:
        iteration: the number of steps so far.
        oracle_calls: the number of calls of the marginal oracle so far, without those for certificates.
        seconds: the time since the start.
        gap: the smallest certified gap so far, in the units of the loss; inf before the first certificate.
        tolerance: the gap at which the solver stops, in the units of the loss.
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
class Stopping:
    """The stopping rule of a run.

    Attributes:
        tolerance: the duality gap at which to stop, as a share of the problem's scale (`Minimization`).
        max_iterations: the largest number of steps.
        callback: a function that is called after each step; the run stops when it returns True.
    """

    tolerance: float = NEGLIGIBLE_GAP
    max_iterations: int = 5000
    callback: Callback | None = None


@dataclass(frozen=True)
class Effort:
    """The cost so far.

    Attributes:
        iterations: the number of steps.
        solving_calls: the number of calls of the marginal oracle by the solver.
        certificate_calls: the number of calls of the marginal oracle for certificates.
        seconds: the wall-clock time, without that of compiling kernels.
    """

    iterations: int = 0
    solving_calls: int = 0
    certificate_calls: int = 0
    seconds: float = 0.0

    @property
    def oracle_calls(self) -> int:
        """The number of all calls of the marginal oracle."""
        return self.solving_calls + self.certificate_calls


def _solving_clock() -> float:
    """Return the time in seconds, without the time that compiling kernels has taken."""
    return time.perf_counter() - compiling.seconds


@dataclass
class Minimization:
    """One run of a solver on a problem.

    The run stops when the duality gap is at most `tolerance` times the scale of the problem, which is the larger of the
    optimum (a proven lower bound on its absolute value) and the noise floor. The noise floor is the expected loss at
    the true marginals; for L2 it is 1/2 per answer. The L2 loss has curvature 1 in standardized answers. Therefore a
    gap of tolerance * floor bounds the mean squared distance of the answers from those of the exact optimum by
    tolerance times the noise variance: 1e-3 means 3 % of a standard deviation. A smaller distance would be lost in the
    noise. A tolerance relative to the loss alone could not be reached if the measurements fit perfectly (optimum 0).

    Attributes:
        problem: the problem.
        solver: the solver.
        stopping: the stopping rule.
        before: the cost of earlier runs of the same estimate; limits, progress and report include it.
    """

    problem: Problem
    solver: Solver[Any]
    stopping: Stopping = Stopping()
    before: Effort = Effort()

    def run(self, theta: np.ndarray) -> tuple[State, EstimationReport]:
        """Minimize from potentials `theta`; return the state with the least loss at any certificate, and the report.

        Ctrl-C (KeyboardInterrupt) ends the run early. It then returns its best state, and the status of the report is
        INTERRUPTED.

        Raises:
            ArgumentError: the loss or its gradient is not finite at the start.
        """
        self._started, self._first_calls = _solving_clock(), self.problem.oracle.calls
        self._iterations = self._certificate_calls = 0
        self._bound, self._gap, self._best_loss = -np.inf, np.inf, np.inf
        self._best: State | None = None
        self._certified = False
        self._state = self.solver.start(self.problem, theta)
        self._start_loss = self._checked_start()
        self._start = self._state.snapshot()
        try:
            ended = self._iterate()
        except KeyboardInterrupt:
            ended = Status.INTERRUPTED
        if not self._certified:
            self._certify()
        kept = self._state if self._early or self._best is None else self._best
        return kept, self._report(ended)

    @property
    def scale(self) -> float:
        """The unit of `tolerance`, in the units of the loss."""
        return max(self._bound, -self._best_loss, self.problem.loss.noise_floor, np.finfo(float).tiny)

    @property
    def effort(self) -> Effort:
        """The cost of this estimate so far, including earlier runs."""
        return Effort(
            self.before.iterations + self._iterations,
            self.before.solving_calls + self._calls,
            self.before.certificate_calls + self._certificate_calls,
            self.before.seconds + _solving_clock() - self._started,
        )

    @property
    def _calls(self) -> int:
        """The number of calls of the marginal oracle in this run, without those for certificates."""
        return self.problem.oracle.calls - self._first_calls - self._certificate_calls

    @property
    def _early(self) -> bool:
        """True if the solver stopped on purpose; then its last state is the result, not the one of least loss."""
        return self._state.status is Status.EARLY

    def _checked_start(self) -> float:
        """Return the loss at the start; raise ArgumentError if it or its gradient is not finite."""
        loss, gradient = self.problem.loss_and_gradient(self._state.p)
        if not math.isfinite(loss) or not np.isfinite(gradient).all():
            reason = f"the loss is {loss}" if not math.isfinite(loss) else "the gradient of the loss is not finite"
            raise ArgumentError(
                f"{reason} where {self.solver.name!r} starts. If the loss is not finite at marginals of zero, no cell "
                "that it reads may be zero at the start: check prior, init and structural_zeros."
            )
        return loss

    def _iterate(self) -> Status:
        """Run steps, certificates and callbacks until the run ends; return the reason."""
        soonest = due = FIRST_CHECK if self.problem.facts is None else 0  # facts may leave nothing to minimize
        most = self.stopping.max_iterations - self.before.iterations
        if self.problem.violation > HOPELESS:
            return Status.FACTS
        while True:
            ended = self._state.status or (Status.ITERATIONS if self._iterations >= most else None)
            stepping = ended is None
            if stepping:
                self._state = self.solver.step(self.problem, self._state)
                self._iterations += 1
                self._certified = False
            calls = self._calls
            if ended or calls >= due or (self._state.settled and calls >= soonest):
                before = self._certificate_calls
                if self._certify():
                    ended = Status.CONVERGED
                soonest, due = int(CHECK_GROWTH * calls), self._next_check(calls, self._certificate_calls - before)
            if stepping and self._callback_stops() and ended is None:
                ended = Status.CALLBACK
            if ended is None and out_of_time():
                ended = Status.TIME
            if ended is not None:
                return ended

    def _certify(self) -> bool:
        """Update the lower bound, the best state and the gap; return whether the tolerance is reached."""
        state, before = self._state, self.problem.oracle.calls
        loss = self.solver.objective(self.problem, state)
        bound = self.solver.lower_bound(self.problem, state, self.stopping.tolerance * self.scale)
        self._bound = max(self._bound, bound)
        if not math.isfinite(loss):  # the start is better than a state where the loss is infinite
            loss, state = self._start_loss, self._start
        if self._best is None or loss < self._best_loss:  # not every solver's loss falls at every step
            self._best, self._best_loss = state.snapshot(), loss
        self._gap = max((loss if self._early else self._best_loss) - self._bound, 0.0)
        self._certificate_calls += self.problem.oracle.calls - before
        self._certified = True
        return self._proven

    @property
    def _relative_gap(self) -> float:
        with np.errstate(over="ignore"):  # without noise and with a loss of zero, the scale is the smallest float
            return float(np.float64(self._gap) / self.scale)

    @property
    def _proven(self) -> bool:
        return self._gap <= self.stopping.tolerance * self.scale

    def _next_check(self, calls: int, cost: int) -> int:
        """Return the number of oracle calls at which to certify again; the last certificate took `cost` at `calls`."""
        growth = CHECK_GROWTH
        if cost > CHEAP:
            target, longest = self.stopping.tolerance * self.scale, LONGEST_GROWTH**CONVERGENCE
            ratio = self._gap / target if self._gap < longest * target else longest
            growth = max(growth, ratio ** (1.0 / CONVERGENCE))
        return calls + max(1, int(calls * (growth - 1.0)), cost)

    def _callback_stops(self) -> bool:
        """Call the callback, if there is one; return whether it asks to stop."""
        if self.stopping.callback is None:
            return False
        effort, tolerance = self.effort, self.stopping.tolerance * self.scale
        progress = Progress(
            effort.iterations, effort.solving_calls, effort.seconds, self._gap, tolerance, self.problem, self._state
        )
        return bool(self.stopping.callback(progress))

    def _report(self, ended: Status) -> EstimationReport:
        status = Status.EARLY if self._early else Status.CONVERGED if self._proven else ended
        if self.problem.violation > HELD and not status.cut_short:
            status = Status.FACTS
        loss = self.solver.objective(self.problem, self._state) if self._early else self._best_loss
        effort = self.effort
        return EstimationReport(
            method=self.solver.name,
            loss=loss,
            gap=self._gap,
            relative_gap=self._relative_gap,
            iterations=effort.iterations,
            oracle_calls=effort.oracle_calls,
            seconds=effort.seconds,
            status=status,
            message=self._message(status),
        )

    def _message(self, status: Status) -> str:
        if status is Status.CONVERGED:
            return ""
        reason = status.sentence.format(max_iterations=self.stopping.max_iterations, detail=self._state.detail)
        if status is Status.EARLY:
            return (
                f"{reason}; the loss is at most {self._gap:.4g} above its optimum, which this method does not aim for."
            )
        return (
            f"{reason} at a relative gap of {self._relative_gap:.3g}, above tolerance={self.stopping.tolerance:g}; "
            f"the loss is at most {self._gap:.4g} above the optimum. {status.remedy}"
        )
