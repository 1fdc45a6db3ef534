"""python -m experiments.accuracy_on_truth [--quick]: run the trials, write table, plot and report.

Results go to experiments/results/accuracy_on_truth.{csv,png,md}. About 7 minutes on one idle core; --quick about one.
Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from experiments.accuracy_on_truth.cases import Case, all_cases
from experiments.accuracy_on_truth.figures import draw
from experiments.accuracy_on_truth.report import write
from experiments.accuracy_on_truth.scoring import BINS
from experiments.accuracy_on_truth.trial import Trial
from pgmest._base.threads import set_threads

RESULTS = Path(__file__).resolve().parents[1] / "results"
FIRST_SEED = {"adult14 pairs": 42}
SEEDS = 3
BIN_COLUMNS = [f"measured_{name}" for name in BINS]


def trial_rows(case: Case, stddev: float, number: int) -> Iterator[dict]:
    """One line of the table for each estimate; points that no rule chose only for the first seed."""
    seed = FIRST_SEED.get(case.name, 0) + number
    for row in Trial(case, stddev, seed, thorough=number == 0).rows():
        if row.rule == "path" and number > 0:
            continue
        yield {
            "case": case.name,
            "stddev": stddev,
            "seed": seed,
            "family": row.family,
            "rule": row.rule,
            "parameter": row.parameter,
            "loss_over_floor": row.loss,
            "oracle_calls": row.calls,
            "measured": row.scores.measured,
            "pairs": row.scores.pairs,
            "triples": row.scores.triples,
            **({} if row.rule == "path" else dict(zip(BIN_COLUMNS, row.scores.by_bin, strict=True))),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two noise levels, one seed, four cases")
    parser.add_argument("--report", action="store_true", help="only write plot and report from the table")
    options = parser.parse_args()
    name = "accuracy_on_truth_quick" if options.quick else "accuracy_on_truth"
    path = RESULTS / f"{name}.csv"
    RESULTS.mkdir(exist_ok=True)
    if not options.report:
        set_threads(1)
        rows: list[dict] = []
        cases = [case for i, case in enumerate(all_cases()) if not options.quick or i in (0, 1, 3, 5)]
        for number in range(1 if options.quick else SEEDS):
            for case in cases:
                started = time.perf_counter()
                for stddev in case.stddevs[1:3] if options.quick else case.stddevs:
                    rows += trial_rows(case, stddev, number)
                print(f"{case.name}, seed {number}: {time.perf_counter() - started:.0f} s", flush=True)
                pd.DataFrame(rows).to_csv(path, index=False, float_format="%.4g")
    table = pd.read_csv(path)
    draw(table, path.with_suffix(".png"))
    write(table, path.with_suffix(".md"))


if __name__ == "__main__":
    main()
