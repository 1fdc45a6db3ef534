"""python -m experiments.accuracy_on_truth [--only PATTERN] [--report]: the mirror flow beside the exact optimum.

Both are fitted to the same noisy marginals of six tables, and compared with the true counts: on the measured marginals,
the unmeasured pairs, and some unmeasured triples. Earlier runs are reused (`experiments.kept_runs`); about 5 minutes
on one core for all of them. Results go to experiments/results/accuracy_on_truth.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.data import load
from experiments.kept_runs import KeptRuns, run_and_report
from experiments.problems import adult14_nine, adult14_pairs
from pgmest.losses.l2 import L2Loss
from pgmest.simulation import simulate_measurements
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.held_out import HeldOut, split_noise
from pgmest.solvers.mirror_flow import flow_start, mirror_flow
from pgmest.solvers.problem import Problem
from pgmest.solvers.run import Minimization, Stopping
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique
from pgmest.tables.information import mutual_information

MOST_CELLS, TRIPLES, TREE_CELLS = 10_000, 20, 30_000
"""Unmeasured marginals of more cells are not scored; the triples that are; the cells of a junction tree."""
SEEDS, FIRST_SEED = 3, {"adult14 pairs": 42}
EXACT, TWO, DEFAULT, BEST = "exact optimum", "flow, time 2", "flow, held-out answers", "flow, best time on the truth"
SCORES = ("measured", "pairs", "triples")
LOANS = (
    *("grade", "term", "home_ownership", "verification_status", "loan_status", "purpose", "emp_length", "addr_state"),
    *("inq_last_6mths", "sub_grade", "pub_rec", "delinq_2yrs"),
)
USUAL = (1.0, 10.0, 50.0, 200.0)
STDDEVS = {
    "adult14 pairs": USUAL,
    "adult14 nine triples": USUAL,
    "fire": (10.0, 50.0, 200.0, 1000.0),
    "titanic": (0.3, 1.0, 5.0, 20.0),
    "BR2000": USUAL,
    "acs-ipums23": USUAL,
    "loans, 12 attributes": USUAL,
}
"""The noise on each cell, in counts; it follows the number of records where that is far from Adult's."""
PAIRS = {"fire": 25, "titanic": 15, "BR2000": 25, "acs-ipums23": 40, "loans, 12 attributes": 20}
"""How many of the most dependent pairs are measured beside the one-way marginals."""


@dataclass(frozen=True)
class Case:
    """One draw of the noise on the marginals of one table."""

    case: str
    stddev: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.case.replace(' ', '_')}-{self.stddev:g}-{self.seed}"


KEPT = KeptRuns("accuracy_on_truth", Case)
RUNS = [
    Case(case, stddev, FIRST_SEED.get(case, 0) + number)
    for number in range(SEEDS)
    for case, stddevs in STDDEVS.items()
    for stddev in stddevs
]


@cache
def measured(case: str) -> tuple[pg.Dataset, tuple[Clique, ...]]:
    """Return the records of a case and the marginals that are measured."""
    if case.startswith("adult14"):
        return load("adult14"), (adult14_pairs if case == "adult14 pairs" else adult14_nine)().cliques
    data = load("loans").select(LOANS) if case.startswith("loans") else load(case)
    candidates = [pair for pair in itertools.combinations(data.domain, 2) if data.domain.size(pair) <= MOST_CELLS]
    tables = data.project_many(candidates)
    information = [mutual_information(table, (a,), (b,)) for table, (a, b) in zip(tables, candidates, strict=True)]
    chosen: list[Clique] = [(attribute,) for attribute in data.domain]
    for place in np.argsort(information)[::-1]:
        if pg.JunctionTree.from_cliques(data.domain, [*chosen, candidates[place]]).total_cells <= TREE_CELLS:
            chosen.append(candidates[place])
        if len(chosen) == len(data.domain) + PAIRS[case]:
            break
    return data, tuple(chosen)


@cache
def questions(case: str) -> dict[str, list[pg.Factor]]:
    """Return the true marginals of each kind."""
    data, cliques = measured(case)
    kinds: dict[str, list[Clique]] = {"measured": list(cliques)}
    for kind, size in (("pairs", 2), ("triples", 3)):
        kinds[kind] = [
            clique
            for clique in itertools.combinations(data.domain, size)
            if data.domain.size(clique) <= MOST_CELLS and not any(set(clique) <= set(other) for other in cliques)
        ]
    places = np.random.default_rng(0).choice(len(kinds["triples"]), min(TRIPLES, len(kinds["triples"])), replace=False)
    kinds["triples"] = [kinds["triples"][place] for place in sorted(places)]
    return {kind: data.project_many(asked) for kind, asked in kinds.items()}


def measure(run: Case) -> dict[str, Any]:
    """Return the errors, oracle calls and times of each estimate, and the share of the error in cells below the noise.

    The flow is followed on one half of the answers and tested on the other, as `MirrorFlow` does.
    """
    started = time.perf_counter()
    data, cliques = measured(run.case)
    taken = simulate_measurements(data, cliques, run.stddev, np.random.default_rng(run.seed))
    problem = Problem.of(L2Loss(taken, data.domain), data.total)
    start = flow_start(problem)
    solver = Minimization(problem, AcceleratedMirrorDescent(), Stopping(1e-3, 6000))
    state, report = solver.run(start.copy())
    row = {f"{EXACT}, {name}": value for name, value in scores(run, problem, state.theta).items()}
    row |= {f"{EXACT}, calls": report.oracle_calls, "hidden": hidden_share(run, problem, state.theta)}
    first, points = problem.oracle.calls, []
    for moment, point in mirror_flow(problem, start):
        points.append({"time": moment, "calls": problem.oracle.calls - first, **scores(run, problem, point.theta)})
    fitted, held = split_noise(problem, np.random.default_rng(1_000 + run.seed))
    rule, last, calls = HeldOut(held), 0, fitted.oracle.calls
    for place, (_, point) in enumerate(mirror_flow(fitted, flow_start(fitted))):
        if not rule.accepts(point.p):
            break
        last = place
    chosen = points[last] | {"calls": points[last]["calls"] + fitted.oracle.calls - calls}
    two = next(point for point in points if point["time"] == 2.0)
    for estimate, point in ((TWO, two), (DEFAULT, chosen), (BEST, min(points, key=lambda point: point["measured"]))):
        row |= {f"{estimate}, {name}": value for name, value in point.items()}
    return row | {"seconds": time.perf_counter() - started}


def tables_of(problem: Problem, theta: np.ndarray, truths: list[pg.Factor]) -> list[pg.Factor]:
    """Return the marginals of a model, in counts."""
    model = pg.Model(CliqueVector.of(problem.layout, theta.copy()), problem.total)
    return model.project_many([truth.domain.attributes for truth in truths])


def scores(run: Case, problem: Problem, theta: np.ndarray) -> dict[str, float]:
    """Return the mean total variation distance of the marginals of each kind."""
    found = {}
    for kind, truths in questions(run.case).items():
        tables = tables_of(problem, theta, truths)
        off = [np.abs(t.values - o.values).sum() / (2 * problem.total) for t, o in zip(truths, tables, strict=True)]
        found[kind] = float(np.mean(off)) if off else np.nan
    return found


def hidden_share(run: Case, problem: Problem, theta: np.ndarray) -> float:
    """Return the share of the measured error in cells whose true count is at most one standard deviation."""
    truths = questions(run.case)["measured"]
    off = [np.abs(t.values - o.values) for t, o in zip(truths, tables_of(problem, theta, truths), strict=True)]
    least = max(run.stddev, 0.5)
    hidden = sum(float(one[truth.values <= least].sum()) for one, truth in zip(off, truths, strict=True))
    return hidden / sum(float(one.sum()) for one in off)


HEAD = f"""# Accuracy on the truth

Made by `python -m experiments.accuracy_on_truth`; not edited. Errors are mean total variation distances from the true
counts, divided by those of the exact optimum on the same answers: below 1 is better. *{DEFAULT}*: the
default of `method="mirror_flow"`, with the time that its held-out answers choose. *{BEST}*:
which nobody knows beforehand. Cells whose true count is zero or at most one standard deviation of the noise have
{{hidden:.0f}} % of the exact optimum's error, on average over settings (a case and a noise level).

## Over all settings

Geometric means over settings, and the worst setting.
"""


def report(rows: pd.DataFrame) -> str:
    """Return the report as Markdown."""
    settings = rows.drop(columns="seed").groupby(["case", "stddev"])
    lines = [HEAD.format(hidden=100 * settings["hidden"].mean().mean())]
    lines += ["| estimate | " + " | ".join(f"{s} | worst" for s in SCORES) + " | over 1 % worse | calls | worst |"]
    lines += ["|---|" + "---:|" * 9]
    for estimate in (TWO, DEFAULT, BEST):
        entries = []
        for name in (*SCORES, "calls"):
            ratios = relative(rows, estimate, name)
            entries += [f"{np.exp(np.log(ratios).mean()):.2f}", f"{ratios.max():.2f}"]
            if name == "measured":
                worse = f"{int((ratios > 1.01).sum())} of {len(ratios)}"
        lines.append(f"| {estimate} | {' | '.join([*entries[:6], worse, *entries[6:]])} |")
    for kind in SCORES:
        lines += [
            "",
            f"## By case and noise: {kind}",
            "",
            f"| case | noise | {EXACT}, error | {TWO} | {DEFAULT} | {BEST} |",
        ]
        lines += ["|---|---:|---:|---:|---:|---:|"]
        ratios = {estimate: relative(rows, estimate, kind) for estimate in (TWO, DEFAULT, BEST)}
        for (case, stddev), error in settings[f"{EXACT}, {kind}"].mean().items():
            entries = [f"{ratio[case, stddev]:.3f}" for ratio in ratios.values()]
            lines.append(f"| {case} | {stddev:g} | {error:.4g} | {' | '.join(entries)} |")
    return "\n".join(lines) + "\n"


def relative(rows: pd.DataFrame, estimate: str, name: str) -> pd.Series:
    """Return an estimate's numbers over those of the exact optimum, geometric means over the seeds of a setting."""
    ratios = np.log(rows[f"{estimate}, {name}"] / rows[f"{EXACT}, {name}"])
    return np.exp(ratios.groupby([rows["case"], rows["stddev"]]).mean())


if __name__ == "__main__":
    run_and_report(KEPT, RUNS, measure, report, __doc__, "titanic-*")
