"""Measure the cost of small tolerances, with and without max-sum diffusion of potentials.

`python -m experiments.far_potentials` estimates three problems on Adult to ever smaller tolerances, as `estimate` does
and with max-sum diffusion switched off (`pgmest.inference.exact.agreeing_potentials`), in turn in one process, and
writes experiments/results/far_potentials.md. It takes about a minute.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pgmest as pg
from experiments.benchmarks.machine import describe, in_words
from experiments.benchmarks.report import markdown, number
from experiments.problems import NamedProblem, adult14_fifteen, adult14_nine, adult14_pairs
from pgmest._base.files import write_atomically
from pgmest.inference.exact.agreeing_potentials import AgreeingPotentials

TOLERANCES = (1e-3, 1e-4)
REPEATS = 3
NOTES = f"""\
Estimates certified to a tolerance, the medians of {REPEATS} runs, in turn; "without": the oracle goes on by logarithms
where potentials of cliques that share attributes have drifted too far apart for linear numbers."""
OUT = Path(__file__).parent / "results" / "far_potentials.md"


@contextmanager
def switched_off() -> Iterator[None]:
    """Within it refused potentials are never replaced, so that the oracle goes on by logarithms."""
    renew = AgreeingPotentials.renew
    AgreeingPotentials.renew = lambda self, theta: False  # type: ignore[method-assign]
    try:
        yield
    finally:
        AgreeingPotentials.renew = renew  # type: ignore[method-assign]


def seconds(problem: NamedProblem, tolerance: float) -> tuple[float, int]:
    """Seconds and oracle calls of one estimate that is certified to the tolerance."""
    report = pg.estimate(
        problem.measurements(),
        problem.domain,
        total=problem.data().records,
        tolerance=tolerance,
        max_iterations=20_000,
    ).report
    if report is None or not report.converged:
        raise RuntimeError(f"{problem.name} was not certified to {tolerance:g}.")
    return report.seconds, report.oracle_calls


def row(problem: NamedProblem, tolerance: float) -> list[str]:
    """Medians of some runs, both ways in turn."""
    seconds(problem, tolerance)  # kernels are loaded
    with switched_off():
        seconds(problem, tolerance)
    ours, without = [], []
    for _ in range(REPEATS):
        ours.append(seconds(problem, tolerance))
        with switched_off():
            without.append(seconds(problem, tolerance))
    times = [statistics.median(run[0] for run in runs) for runs in (ours, without)]
    calls = [statistics.median(run[1] for run in runs) for runs in (ours, without)]
    ratio = number(times[1] / times[0], 2)
    return [problem.title, f"{tolerance:g}", *map(number, times), *(f"{count:,.0f}" for count in calls), ratio]


def main() -> None:
    """Run all problems and write the table."""
    rows = [row(make(), t) for make in (adult14_pairs, adult14_nine, adult14_fifteen) for t in TOLERANCES]
    columns = ["problem", "tolerance", "seconds", "without, seconds", "oracle calls", "without, calls", "times"]
    text = "\n\n".join(
        [
            "# Small tolerances, with and without max-sum diffusion",
            f"Made by `python -m experiments.far_potentials` on {in_words(describe())}; not edited.",
            NOTES,
            markdown(columns, rows),
        ]
    )
    OUT.parent.mkdir(exist_ok=True)
    write_atomically(OUT, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
