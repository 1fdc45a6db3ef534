"""python -m experiments.posterior_speed [--draws N ...]: what draws of a posterior cost, and what they are worth.

Adult's 14 one-way and 24 two-way marginals, noise with a standard deviation of 10: 12,392 cells, half of them nearly
empty, so that chains of Hamiltonian Monte Carlo are needed. Effective draws are of the cells' counts: at the median
cell, and at the 5 % of cells that mix worst.

Writes experiments/results/posterior_speed.md, in about four minutes on two cores. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import pgmest as pg
from experiments.problems import adult14_pairs
from pgmest._base.files import write_atomically

OUT = Path(__file__).resolve().parent / "results" / "posterior_speed.md"
DRAWS = (1000, 2500)


def line_of(model: pg.Model, draws: int) -> str:
    """One posterior, as a line of the table."""
    wall, processor = time.perf_counter(), time.process_time()
    report = model.posterior(draws=draws, seed=0).report
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    worth = f"{report.median_ess:,.0f} | {report.bulk_ess:,.0f} | {report.total_ess:,.0f} | {report.r_hat:.3f}"
    return f"| {draws:,} | {wall:.0f} | {processor:.0f} | {report.gradients:,} | {worth} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.posterior_speed", description=__doc__)
    parser.add_argument("--draws", type=int, nargs="+", default=DRAWS)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    problem = adult14_pairs()
    model = pg.estimate(problem.measurements(), problem.domain)
    model.posterior(draws=8, chains=2, warm_up=2, seed=0)  # compiles
    lines = [
        "# What draws of a posterior cost",
        "",
        "Made by `python -m experiments.posterior_speed`; not edited. Adult, 14 one-way and 24 two-way marginals,",
        "sigma 10, four chains. Seconds by the clock and of all processors, the warm-up included; effective draws of",
        "the counts at the median cell, at the 5 % of cells that mix worst, and of the total; R-hat of the worst 5 %.",
        f"{os.cpu_count()} processors, load average at the start {load:.1f}: with more work than processors all times",
        "are longer.",
        "",
        "| draws | seconds | processor | gradients | effective, median | worst 5 % | of the total | R-hat |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for draws in options.draws:
        lines.append(line_of(model, draws))
        print(lines[-1], flush=True)
    write_atomically(OUT, "\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
