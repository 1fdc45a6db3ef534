"""The MARGINAL-ORACLE against mbi's: time of a new set of cliques, of each later call, and memory.

Each problem is measured in a process of its own. In it pgmest, mbi and `np.exp` over the same potentials take turns,
and the marginals of both sides are compared. Memory is measured in further processes, one per side.
"""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks import memory
from experiments.benchmarks.timing import Timings, alternate, load_all_kernels, timed
from experiments.benchmarks.worker import WorkerFailed, apart
from experiments.problems import NamedProblem
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.kept_oracles import marginals
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain

MBI_SCHEDULES = ("implicit", "hugin", "shafer_shenoy", "fast")
LOOP_MOST_SECONDS = 0.002
"""mbi is timed in a compiled loop as well where a call is at most this long, as dispatching it then matters."""

FRONT_DOOR = "pg.marginals"
"""The public call: it finds the plan, checks the potentials, and returns new arrays, on the default threads."""

WIDE = 1000.0
"""Both sides are compared on potentials this many times larger as well: thousands, where probabilities underflow."""

MBI_BYTES_A_CELL = 110
"""The assumed memory of mbi's schedules for a cell of the junction tree, used to skip problems that cannot fit."""


@dataclass(frozen=True)
class Case:
    """A problem of this benchmark.

    Attributes:
        name: that of the problem.
        make: builds the problem.
        mbi: whether mbi runs too: "always", "slow" (only if slow work is asked for) or "never".
        slow: leave it out unless slow work is asked for.
        memory: measure peak memory as well.
    """

    name: str
    make: Callable[[], NamedProblem]
    mbi: str = "always"
    slow: bool = False
    memory: bool = False


CASES = {
    case.name: case
    for case in (
        *(Case(f"chain-{d}", functools.partial(problems.chain, d)) for d in (10, 30, 100, 300)),
        Case("chain-1000", functools.partial(problems.chain, 1000), mbi="slow"),
        Case("chain-3000", functools.partial(problems.chain, 3000), mbi="never"),
        Case("adult14-pairs", problems.adult14_pairs),
        Case("adult14-fifteen", problems.adult14_fifteen, memory=True),
        *(Case(f"census-1e{e}", functools.partial(problems.census, 10**e), memory=True) for e in (5, 6, 7)),
        Case("census-1e8", functools.partial(problems.census, 10**8), slow=True, memory=True),
    )
}


def run_case(case: Case, quick: bool, slow: bool) -> dict[str, Any]:
    """Everything about one problem; what cannot be measured is named in `errors`."""
    with_mbi = case.mbi == "always" or (case.mbi == "slow" and slow)
    result = apart(measure, case.name, 0.5 if quick else 8.0, with_mbi)
    if case.memory and not quick:
        result["memory"] = {"pgmest": apart(own_memory, case.name)}
        for schedule in MBI_SCHEDULES if with_mbi else ():
            label = f"mbi {schedule}"
            if label not in result["errors"]:
                try:
                    result["memory"][label] = apart(mbi_memory, case.name, schedule)
                except WorkerFailed as error:
                    result["errors"][label] = f"memory: {error}"
    return result


# -- in a process of its own: time -------------------------------------------------------------------------------------


def measure(name: str, seconds: float, with_mbi: bool) -> dict[str, Any]:
    """All times of one problem, and how far the marginals of both sides are apart."""
    problem = CASES[name].make()
    kernels_seconds, _ = timed(load_all_kernels)
    potentials = problem.potentials()
    theta, mu, buffer = (np.array(potentials.flat) for _ in range(3))
    builds = [_build(problem, theta) for _ in range(5)]
    tree = JunctionTree.from_cliques(problem.domain, problem.cliques)
    plan = PropagationPlan.of(potentials.layout, tree)
    result: dict[str, Any] = {
        "problem": name,
        "title": problem.title,
        "attributes": len(problem.domain),
        "cliques": len(problem.cliques),
        "measured_cells": potentials.layout.cells,
        "tree_cells": tree.total_cells,
        "largest_clique": max(tree.sizes),
        "kernels_seconds": kernels_seconds,
        "new": {key: statistics.median(build[key] for build in builds) for key in builds[0]},
        "new_cold_seconds": sum(builds[0].values()),
        "dispatch_seconds": _dispatch_seconds(),
        "first_seconds": {},
        "differences": {},
        "wide_differences": {},
        "errors": {},
    }
    subjects = _own_subjects(plan, theta, mu, buffer)
    if with_mbi:
        subjects = _interleaved(_mbi_subjects(potentials, plan, result), subjects)
    timings = alternate(subjects, seconds)
    result["calls"] = {label: _summary(label, timing) for label, timing in timings.items()}
    result["ratios"] = _ratios(timings)
    return result


def _build(problem: NamedProblem, theta: np.ndarray) -> dict[str, float]:
    """Seconds from a new set of cliques to the first marginals, part by part."""
    tree_seconds, tree = timed(lambda: JunctionTree.from_cliques(problem.domain, problem.cliques))
    plan_seconds, plan = timed(lambda: PropagationPlan.of(Layout.of(problem.domain, problem.cliques), tree))
    call_seconds, _ = timed(lambda: ExactOracle(plan, threads=1).run(theta))
    return {"tree_seconds": tree_seconds, "plan_seconds": plan_seconds, "first_call_seconds": call_seconds}


def _dispatch_seconds() -> float:
    """A call on a model of one attribute of two values: nearly all of it is Python and the dispatch of the kernels."""
    oracle = ExactOracle(PropagationPlan.of(Layout.of(Domain({"x": 2}), [("x",)])), threads=1)
    theta, mu = np.zeros(2), np.zeros(2)
    return alternate({"dispatch": lambda: oracle.run(theta, out=mu)}, 0.1)["dispatch"].median


def _own_subjects(
    plan: PropagationPlan, theta: np.ndarray, mu: np.ndarray, buffer: np.ndarray
) -> dict[str, Callable[[], Any]]:
    subjects: dict[str, Callable[[], Any]] = {}
    for threads in thread_counts():
        oracle = ExactOracle(plan, threads)
        subjects[own_label(threads)] = functools.partial(oracle.run, theta, 1.0, mu)
    oracle = ExactOracle(plan, threads=1)
    potentials = CliqueVector.of(plan.layout, theta)
    subjects[FRONT_DOOR] = functools.partial(marginals, potentials)
    subjects["pgmest max-product"] = functools.partial(oracle.maximum, theta)
    subjects["np.exp"] = functools.partial(np.exp, theta, buffer)
    return subjects


def thread_counts() -> list[int]:
    """1, 2, 4, ... up to the number of processors."""
    return [2**i for i in range((os.cpu_count() or 1).bit_length()) if 2**i <= (os.cpu_count() or 1)]


def own_label(threads: int) -> str:
    return f"pgmest, {threads} thread{'s' * (threads > 1)}"


def _mbi_subjects(
    potentials: CliqueVector, plan: PropagationPlan, result: dict[str, Any]
) -> dict[str, Callable[[], Any]]:
    """mbi's schedules, compiled and checked; those that fail or cannot fit are noted in the result."""
    from experiments.benchmarks import peers

    wide = WIDE * potentials
    ours, wide_ours = (_own_marginals(plan, theta) for theta in (potentials, wide))
    subjects: dict[str, Callable[[], Any]] = {}
    for schedule in MBI_SCHEDULES:
        label = f"mbi {schedule}"
        try:
            _refuse_what_cannot_fit(plan.tree.total_cells)
            oracle = peers.PeerOracle(potentials, schedule)
            result["first_seconds"][label], _ = timed(oracle.run)
            result["differences"][label] = oracle.difference(ours, potentials)
            result["wide_differences"][label] = oracle.difference(wide_ours, wide)
        except (MemoryError, RuntimeError, ValueError) as error:
            result["errors"][label] = str(error).splitlines()[0]
            continue
        subjects[label] = oracle.run
        if timed(oracle.run)[0] <= LOOP_MOST_SECONDS:
            subjects[f"{label}, compiled loop"] = oracle.compiled_loop()
    return subjects


def _own_marginals(plan: PropagationPlan, theta: CliqueVector) -> CliqueVector:
    return CliqueVector.of(theta.layout, ExactOracle(plan, threads=1).run(theta.flat)[0])


def _refuse_what_cannot_fit(cells: int) -> None:
    needed, available = MBI_BYTES_A_CELL * cells / 1e6, memory.available_megabytes()
    if needed > available:
        raise MemoryError(f"not run: needs about {needed:,.0f} MB, {available:,.0f} MB are free")


def _interleaved(
    left: dict[str, Callable[[], Any]], right: dict[str, Callable[[], Any]]
) -> dict[str, Callable[[], Any]]:
    """One of the left, one of the right, and so on, so that neither side has the better time."""
    order: list[tuple[str, Callable[[], Any]]] = []
    queues = [list(left.items()), list(right.items())]
    while any(queues):
        order += [queue.pop(0) for queue in queues if queue]
    return dict(order)


def _summary(label: str, timing: Timings) -> dict[str, float]:
    calls = _calls_in_one(label)
    return {"median": timing.median / calls, "least": timing.least / calls, "calls": timing.calls * calls}


def _calls_in_one(label: str) -> int:
    """Return the number of oracle calls in one timed call of a subject."""
    if not label.endswith("compiled loop"):
        return 1
    from experiments.benchmarks.peers import LOOP

    return LOOP


def _ratios(timings: dict[str, Timings]) -> dict[str, dict[str, float]]:
    """For each of pgmest's subjects, how many times longer every other subject takes a call."""
    return {
        own: {other: timings[other].ratio(timings[own]) / _calls_in_one(other) for other in timings if other != own}
        for own in timings
        if own.startswith("pgmest, ")
    }


# -- in a process of its own: memory -----------------------------------------------------------------------------------


def own_memory(name: str) -> dict[str, float]:
    """Peak memory of pgmest, above what the process held before the tree was built."""
    load_all_kernels()
    problem = CASES[name].make()
    theta = problem.potentials().flat
    oracles: list[ExactOracle] = []

    def first() -> None:
        oracles.append(ExactOracle(PropagationPlan.of(Layout.of(problem.domain, problem.cliques))))
        oracles[0].run(theta)

    return _peaks(first, lambda: oracles[0].run(theta))


def mbi_memory(name: str, schedule: str) -> dict[str, float]:
    """Peak memory of one of mbi's schedules, above what the process held before its first call."""
    from experiments.benchmarks import peers

    potentials = CASES[name].make().potentials()
    _refuse_what_cannot_fit(JunctionTree.from_cliques(potentials.domain, potentials.cliques).total_cells)
    oracle = peers.PeerOracle(potentials, schedule)
    return _peaks(oracle.run, oracle.run)


def _peaks(first: Callable[[], Any], later: Callable[[], Any]) -> dict[str, float]:
    memory.forget_peak()
    before = memory.resident_megabytes()
    first()
    first_peak = memory.peak_megabytes() - before
    memory.forget_peak()
    for _ in range(3):
        later()
    return {"first_megabytes": first_peak, "later_megabytes": memory.peak_megabytes() - before}


def best_mbi(result: dict[str, Any], labels: Iterable[str] | None = None) -> str | None:
    """mbi's fastest schedule a call, the alias included; None if mbi did not run."""
    calls = result["calls"]
    labels = [f"mbi {schedule}" for schedule in MBI_SCHEDULES] if labels is None else labels
    return min((label for label in labels if label in calls), key=lambda label: calls[label]["median"], default=None)
