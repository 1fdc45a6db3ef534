"""Running a solver: progress, certificates, when to stop, and what to say about it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.solvers.problem import Problem
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

FIRST_CHECK = 100
CHECK_GROWTH = 1.1
"""The certificate is computed after FIRST_CHECK oracle calls, then each time their number has grown by this and by as
many as the last certificate took, or by this alone where the solver says that it has settled."""

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
class Stopping:
    """When a run ends.

    Attributes:
        tolerance: at a duality gap of at most this share of the problem's scale (`Minimization`).
        max_iterations: after this many steps.
        callback: called after each step; when it returns True.
    """

    tolerance: float = 1e-3
    max_iterations: int = 5000
    callback: Callback | None = None


@dataclass(frozen=True)
class Effort:
    """What has been spent: steps, calls of the marginal oracle (those for certificates apart), and seconds."""

    iterations: int = 0
    solving_calls: int = 0
    certificate_calls: int = 0
    seconds: float = 0.0

    @property
    def oracle_calls(self) -> int:
        """All of them."""
        return self.solving_calls + self.certificate_calls


@dataclass
class Minimization:
    """One run of a solver on a problem.

    The run stops when the duality gap is at most `tolerance` times the scale of the problem: the larger of the optimum
    (a proven lower bound on its absolute value) and the loss's noise floor. The noise floor is what the loss would be
    on average at the true marginals; for L2 it is 1/2 per answer. As the loss curves by 1 in standardized answers, a
    gap of tolerance * floor keeps the mean squared distance of the answers from those of the exact optimum below
    tolerance, in units of the noise variance: at 1e-3, 3 % of a standard deviation. Closer is not worth paying for, and
    for measurements that fit perfectly (optimum 0) a tolerance relative to the loss alone could never be met.

    Attributes:
        problem: what is minimized.
        solver: by which algorithm.
        stopping: when to end.
        before: what earlier runs of the same estimate spent; limits, progress and report count it, too.
    """

    problem: Problem
    solver: Solver[Any]
    stopping: Stopping = Stopping()
    before: Effort = Effort()

    def run(self, theta: np.ndarray) -> tuple[State, EstimationReport]:
        """Minimize from potentials `theta`: the best state at any certificate, and the report.

        Ctrl-C (KeyboardInterrupt) ends the run early and returns what has been found so far, with a report that
        says so.

        Raises:
            ArgumentError: the loss or its gradient is not finite where it starts.
        """
        self._started, self._first_calls = time.perf_counter(), self.problem.oracle.calls
        self._iterations = self._certificate_calls = 0
        self._bound, self._gap, self._best_loss = -np.inf, np.inf, np.inf
        self._best: State | None = None
        self._certified = False
        self._state = self.solver.start(self.problem, theta)
        self._start_loss = self._checked_start()
        self._start = self._state.kept()
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
        """What `tolerance` is relative to, in the units of the loss."""
        return max(self._bound, -self._best_loss, self.problem.loss.noise_floor, np.finfo(float).tiny)

    @property
    def effort(self) -> Effort:
        """What this estimate has spent so far."""
        return Effort(
            self.before.iterations + self._iterations,
            self.before.solving_calls + self._calls,
            self.before.certificate_calls + self._certificate_calls,
            self.before.seconds + time.perf_counter() - self._started,
        )

    @property
    def _calls(self) -> int:
        """Calls of the marginal oracle in this run, certificates not counted."""
        return self.problem.oracle.calls - self._first_calls - self._certificate_calls

    @property
    def _early(self) -> bool:
        return self._state.status is Status.EARLY

    def _checked_start(self) -> float:
        loss, gradient = self.problem.loss_and_gradient(self._state.p)
        if not math.isfinite(loss) or not np.isfinite(gradient).all():
            said = f"the loss is {loss}" if not math.isfinite(loss) else "the gradient of the loss is not finite"
            raise ArgumentError(
                f"{said} where {self.solver.name!r} starts, so no step can be found. If the loss has no value at "
                "marginals of zero, no cell that it reads may be zero there: see prior, init and structural_zeros."
            )
        return loss

    def _iterate(self) -> Status:
        """Step, certify and tell until there is a reason to end."""
        soonest = due = FIRST_CHECK
        most = self.stopping.max_iterations - self.before.iterations
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
            if stepping and self._tell() and ended is None:
                ended = Status.CALLBACK
            if ended is not None:
                return ended

    def _certify(self) -> bool:
        """Update the lower bound and the gap; whether the tolerance is met."""
        state, before = self._state, self.problem.oracle.calls
        loss = self.solver.objective(self.problem, state)
        bound = self.solver.lower_bound(self.problem, state, self.stopping.tolerance * self.scale)
        self._bound = max(self._bound, bound)
        if not math.isfinite(loss):  # stopped where the loss has no value: the start is better
            loss, state = self._start_loss, self._start
        if self._best is None or loss < self._best_loss:  # not every solver's loss falls at every step
            self._best, self._best_loss = state.kept(), loss
        self._gap = max((loss if self._early else self._best_loss) - self._bound, 0.0)
        self._certificate_calls += self.problem.oracle.calls - before
        self._certified = True
        return self._proven

    @property
    def _relative_gap(self) -> float:
        with np.errstate(over="ignore"):  # a loss that is zero, of no noise, has no scale
            return float(np.float64(self._gap) / self.scale)

    @property
    def _proven(self) -> bool:
        return self._gap <= self.stopping.tolerance * self.scale

    def _next_check(self, calls: int, cost: int) -> int:
        """After how many oracle calls to certify again, the last certificate having taken `cost` at `calls`."""
        growth = CHECK_GROWTH
        if cost > CHEAP:
            enough, longest = self.stopping.tolerance * self.scale, LONGEST_GROWTH**CONVERGENCE
            ratio = self._gap / enough if self._gap < longest * enough else longest
            growth = max(growth, ratio ** (1.0 / CONVERGENCE))
        return calls + max(1, int(calls * (growth - 1.0)), cost)

    def _tell(self) -> bool:
        """Whether the callback, if there is one, asks to stop."""
        if self.stopping.callback is None:
            return False
        effort, tolerance = self.effort, self.stopping.tolerance * self.scale
        progress = Progress(
            effort.iterations, effort.solving_calls, effort.seconds, self._gap, tolerance, self.problem, self._state
        )
        return bool(self.stopping.callback(progress))

    def _report(self, ended: Status) -> EstimationReport:
        status = Status.EARLY if self._early else Status.CONVERGED if self._proven else ended
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
        said = status.sentence.format(max_iterations=self.stopping.max_iterations, detail=self._state.detail)
        if status is Status.EARLY:
            return (
                f"{said}; the loss is at most {self._gap:.4g} above its optimum, which this method does not look for."
            )
        return (
            f"{said} at a relative gap of {self._relative_gap:.3g}, above tolerance={self.stopping.tolerance:g}; "
            f"the loss is at most {self._gap:.4g} above the optimum. {status.remedy}"
        )
