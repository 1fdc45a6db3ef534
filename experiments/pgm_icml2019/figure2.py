"""Figure 2: (a) HDMM's estimators against epsilon, and what happens at 10; (b) seconds an iteration takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from experiments.figure_style import COLORS, legend, lines, panels, reference, save, titles
from experiments.papers.paper import Run, Runs
from experiments.papers.prose import paragraph
from experiments.pgm_icml2019.cells import Cell, Effort
from experiments.pgm_icml2019.paths import Path
from experiments.pgm_icml2019.problem import problem
from experiments.pgm_icml2019.published.hdmm import Split
from experiments.problems import NamedProblem, chain
from experiments.stored_rows import table_of
from pgmest.estimation.estimate import estimate
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SEEDS = 5
OURS, PAPERS = "Algorithm 2, our K", "Algorithm 2, the paper's K"
ON_THE_WAY: dict[tuple[str, Split], int] = {(OURS, "best"): 10_000, (PAPERS, "best"): 1500, (OURS, "equal"): 10_000}
"""Iterations; the paper has 10,000."""

TEXT_A = """# Figure 2a: HDMM on Adult against epsilon

`python -m experiments.papers pgm --step figure2a`. The paper's problem on Adult (62,876 queries), one record replaced;
the measurements do not depend on epsilon. Medians of {seeds} seeds, the range in brackets. The error of the uniform
table is {uniform:.3f}.

| epsilon | local least squares | global least squares | PGM | local / PGM | on the measured queries: local / PGM |
|---|---|---|---|---|---|
{rows}

![errors against epsilon](pgm_figure2a.png)

## At epsilon 10

{ten}
"""

TEXT_B = """# Figure 2b: seconds an iteration against the number of attributes

`python -m experiments.papers pgm --step figure2b`. A chain of attributes of 10 values, all adjacent triples measured,
as in the paper; the least of {rounds} rounds, taken in turns, which other work on the machine disturbs least. Full
vectors are materialized up to {largest:,} cells.

| attributes | PGM | multiplicative weights | LSMR |
|---|---|---|---|
{rows}

![seconds an iteration](pgm_figure2b.png)

{spike}
"""


def runs(run: Run) -> dict[str, Runs]:
    """HDMM at each epsilon with the best split and, at 10, with the equal one; and Algorithm 2's way at 10."""
    effort, seeds = Effort(1e-2, 50) if run.quick else Effort(), range(run.few(SEEDS, 1))
    best = [Cell("adult", "HDMM", seed, epsilon, effort) for epsilon in EPSILONS for seed in seeds]
    equal = [Cell("adult", "HDMM", seed, 10.0, effort, split="equal") for seed in seeds]
    paths = [
        Path(method, 0, run.few(iterations, 60), epsilon=10.0, split=split)
        for (method, split), iterations in ON_THE_WAY.items()
    ]
    tables = ("pgm_figure2a", "pgm_figure1")
    return {
        "best": Runs("pgm_figure1", best, tables),
        "equal": Runs("pgm_figure1", equal, tables),
        "paths": Runs("pgm_paths", paths, ("pgm_figure2a_path",), ("iteration", "error")),
    }


NOTED = ("run", "method", "split", "seed", "epsilon", "local", "iteration", "error")
"""Columns of the table of paths."""


def epsilons(run: Run) -> None:
    """Figure 2a."""
    of = runs(run)
    table, equal = run.table(of["best"]), run.table(of["equal"])
    noted = table_of({name: row[name] for name in NOTED} for row in run.rows(of["paths"]))
    columns = ["run", "dataset", "mechanism", "split", "epsilon", "seed", *SERIES, "measured_original", "measured_pgm"]
    run.write_table("pgm_figure2a", pd.concat([table, equal])[columns])
    run.write_table("pgm_figure2a_path", noted)
    run.write_report("pgm_figure2a", _text_a(table, equal, noted))
    _draw_a(table, noted, run)


def _text_a(table: pd.DataFrame, equal: pd.DataFrame, noted: pd.DataFrame) -> str:
    def spread(values: pd.Series) -> str:
        return f"{values.median():.4f} ({values.min():.4f} to {values.max():.4f})"

    rows = []
    for epsilon, group in table.groupby("epsilon"):
        gain = group.error_original.median() / group.error_pgm.median()
        measured = group.measured_original.median() / group.measured_pgm.median()
        errors = " | ".join(spread(group[column]) for column in SERIES)
        rows.append(f"| {epsilon:g} | {errors} | {gain:.2f}x | {measured:.2f}x |")
    return TEXT_A.format(
        seeds=table.seed.nunique(), uniform=problem("adult").uniform_error, rows="\n".join(rows),
        ten="\n\n".join(map(paragraph, _ten(table, equal, noted))),
    )  # fmt: skip


def _ten(table: pd.DataFrame, equal: pd.DataFrame, noted: pd.DataFrame) -> list[str]:
    """Return four paragraphs about the results at epsilon 10."""
    at_ten = table[table.epsilon == 10.0]
    ends = {key: rows.iloc[-1] for key, rows in noted.groupby(["method", "split"])}
    ours, papers, script = (ends[key] for key in ON_THE_WAY)
    ahead = noted[(noted.method == OURS) & (noted.error > noted.local)].groupby("split").iteration.max()
    return [
        "The paper finds local least squares slightly better on the workload there, and PGM better on the measurements "
        f"by more than three times. Here PGM is better on both at its optimum: {at_ten.error_pgm.median():.4f} against "
        f"{at_ten.error_original.median():.4f} on the workload.",
        "The gain is smaller with the equal split of the authors' published script, which gives both less error: "
        f"{equal.error_pgm.median():.4f} against {equal.error_original.median():.4f}, a factor of "
        f"{equal.error_original.median() / equal.error_pgm.median():.2f}. It is a gain all the same.",
        "What can turn this round is an estimate that has not arrived (right panel). The smaller the noise, the "
        "further the optimum is from the uniform distribution where it starts, and the more iterations it takes. "
        f"Algorithm 2 is at {ours.error:.4f} after {ours.iteration:,.0f} iterations, which is what the paper gives it "
        f"(local least squares: {ours.local:.4f}), and behind local least squares for the first {ahead['best']:,.0f}; "
        "with the step constant that the paper states, the largest eigenvalue of Q^T Q on the tables of the junction "
        f"tree, it is much slower, and at {papers.error:.3f} after {papers.iteration:,.0f}.",
        f"With the equal split Algorithm 2 is behind for the first {ahead['equal']:,.0f} iterations, and at "
        f"{script.error:.4f} after {script.iteration:,.0f} (local least squares: {script.local:.4f}). So what the "
        "paper saw is what a run would show that stops too early, or steps too short. That a constrained estimate must "
        "lose on prefixes at small noise, as the paper suspects, is not what we see.",
    ]


SERIES = {"error_original": "local least squares", "error_global": "global least squares", "error_pgm": "PGM"}
SHOWN = dict(zip(SERIES.values(), (COLORS[1], COLORS[2], COLORS[0]), strict=True))


def _draw_a(table: pd.DataFrame, noted: pd.DataFrame, run: Run) -> None:
    figure, (left, right) = panels(2, width=4.2, height=3.2)
    long = pd.concat([table.assign(estimator=name, error=table[column]) for column, name in SERIES.items()])
    under = {"local least squares": "local least squares (under global)"}
    lines(left, long, "epsilon", "error", "estimator", labels=under, colors=SHOWN, log="xy")
    reference(left, problem("adult").uniform_error, "uniform table")
    titles(left, "HDMM on Adult", "epsilon", "workload error")
    ways = noted.assign(way=noted.method + noted.split.map({"best": "", "equal": ", equal split"}))
    shown = dict(zip(dict.fromkeys(ways.way), (COLORS[3], COLORS[5], COLORS[4]), strict=True))
    lines(right, ways[ways.iteration >= 8], "iteration", "error", "way", order=list(shown), colors=shown, log="xy")
    optimum = table[table.epsilon == 10.0].error_pgm.median()
    for split, style in (("best", "--"), ("equal", ":")):
        local = float(noted.local[noted.split == split].iloc[0])
        label = "local, epsilon 10" + (", equal split" if split == "equal" else "")
        right.axhline(local, color=COLORS[1], linewidth=1.3, linestyle=style, label=label)
    right.axhline(optimum, color=COLORS[0], linewidth=1.3, linestyle="--", label="PGM's optimum, epsilon 10")
    titles(right, "On the way, epsilon 10", "iterations of Algorithm 2")
    legend(figure, [left, right])
    save(figure, run.results / "pgm_figure2a.png")


# -- 2b ----------------------------------------------------------------------------------------------------------------

ATTRIBUTES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 30, 100, 300, 1000)
LARGEST_VECTOR = 10**6
ITERATIONS, ROUNDS = 30, 5
METHODS_B = ("PGM", "multiplicative weights", "LSMR")


def seconds(run: Run) -> None:
    """Figure 2b."""
    methods: dict[str, Callable[[NamedProblem], float]] = {
        "PGM": _graphical_model,
        "multiplicative weights": _multiplicative_weights,
        "LSMR": _lsmr,
    }
    sizes = ATTRIBUTES[::3] if run.quick else ATTRIBUTES
    _graphical_model(chain(3))  # compiled before anything is timed
    found: list[dict[str, Any]] = []
    for again in range(run.few(ROUNDS, 2)):
        for attributes in sizes:
            known = chain(attributes)
            full = known.domain.size() <= LARGEST_VECTOR
            for name, method in methods.items():
                if full or name == "PGM":
                    found.append({"attributes": attributes, "method": name, "round": again, "seconds": method(known)})
    table = pd.DataFrame(found)
    run.write_table("pgm_figure2b", table)
    run.write_report("pgm_figure2b", _text_b(table))
    figure, axis = panels(1, width=5.4, height=3.4)
    least = table.groupby(["attributes", "method"], as_index=False).seconds.min()
    lines(axis[0], least, "attributes", "seconds", "method", order=METHODS_B, spread="none", log="xy")
    titles(axis[0], "A chain of triples", "attributes of 10 values", "seconds an iteration")
    legend(figure, axis)
    save(figure, run.results / "pgm_figure2b.png")


def _text_b(table: pd.DataFrame) -> str:
    least = table.pivot_table(index="attributes", columns="method", values="seconds", aggfunc="min")
    rows = [
        f"| {number} | " + " | ".join("-" if np.isnan(row[name]) else f"{row[name]:.2g}" for name in METHODS_B) + " |"
        for number, row in least.iterrows()
    ]
    return TEXT_B.format(
        rounds=table["round"].nunique(),
        largest=LARGEST_VECTOR,
        rows="\n".join(rows),
        spike=paragraph(_spike(table[table.method == "PGM"])),
    )


def _spike(pgm: pd.DataFrame) -> str:
    """What an earlier version of this table showed at 10 attributes, and whether it is there."""
    least, most = (getattr(pgm.groupby("attributes").seconds, name)() for name in ("min", "max"))
    if not {9, 10, 11} <= set(least.index):
        return ""
    verdict = "there is no spike" if least[10] < 1.3 * (least[9] + least[11]) / 2 else "the spike is still there"
    numbers = [", ".join(f"{1e3 * values[place]:.3f}" for place in (9, 10, 11)) for values in (least, most)]
    return (
        "The paper: MW and LSMR end at 10 attributes, PGM reaches 1,000. So here. "
        "A run that took each number once had a spike at 10 attributes, 0.27 ms against 0.14 ms at 30. Measured "
        f"{ROUNDS} times in turns, {verdict}: at 9, 10 and 11 the least are {numbers[0]} ms; but the most are "
        f"{numbers[1]} ms. {ITERATIONS} such iterations take a few milliseconds, less than a time slice that another "
        "process gets: any of the small numbers can have a spike, in a run that takes each once."
    )


def _graphical_model(known: NamedProblem) -> float:
    report = estimate(
        known.measurements(), known.domain, method="mirror_descent", tolerance=0.0, max_iterations=ITERATIONS
    ).report
    assert report is not None
    return report.seconds / report.oracle_calls


def _multiplicative_weights(known: NamedProblem) -> float:
    weights = MultiplicativeWeights(known.domain, [known.domain.attributes], 10_000.0)
    measurements = known.measurements()
    start = time.perf_counter()
    for measurement in measurements:
        weights.update(measurement)
    return time.perf_counter() - start


def _lsmr(known: NamedProblem) -> float:
    """Least squares over all vectors, none of them a distribution, as `scipy.sparse.linalg.lsmr` iterates."""
    from scipy.sparse.linalg import LinearOperator, lsmr

    domain, measurements = known.domain, known.measurements()
    shape, axes = domain.shape, [domain.axes(clique) for clique in known.cliques]
    others = [tuple(axis for axis in range(len(shape)) if axis not in kept) for kept in axes]
    sizes = np.cumsum([0, *(domain.size(clique) for clique in known.cliques)])

    def marginals(vector: np.ndarray) -> np.ndarray:
        return np.concatenate([vector.reshape(shape).sum(axis=rest).reshape(-1) for rest in others])

    def spread(answers: np.ndarray) -> np.ndarray:
        total = np.zeros(shape)
        for start, stop, rest, kept in zip(sizes, sizes[1:], others, axes, strict=False):
            cells = answers[start:stop].reshape([shape[axis] for axis in kept])
            total += np.expand_dims(cells, rest)
        return total.reshape(-1)

    operator = LinearOperator((int(sizes[-1]), domain.size()), matvec=marginals, rmatvec=spread, dtype=np.float64)  # type: ignore[call-arg]
    values = np.concatenate([measurement.values.reshape(-1) for measurement in measurements])
    start = time.perf_counter()
    iterations = lsmr(operator, values, atol=0, btol=0, conlim=0, maxiter=5)[2]
    return (time.perf_counter() - start) / iterations
