"""python -m experiments.l1_vs_l2 [--quick]: L1 against L2 loss on Adult (PGM Figure 3).

Two workloads of 15 three-way marginals of Adult (15 attributes, numeric ones in 32 bins) are measured with Laplace
noise, epsilon = 1 split evenly: scale 15 on each cell. Each loss is minimised by several methods, and along the way both
losses and the error on the truth are recorded. Writes experiments/results/l1_vs_l2.{csv,md,png}: 3 minutes on one core,
--quick (to build/) a quarter of one. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.data import load
from experiments.problems import adult14_fifteen
from pgmest.domain import Clique
from pgmest.estimation.minimise import Progress
from pgmest.inference.threads import set_threads
from pgmest.loss import L1Loss, L2Loss

ROOT = Path(__file__).resolve().parents[1]
EPSILON = 1.0
RANDOM_TRIPLES = 4
"""The first seed from 0 for which the junction tree of 15 random triples has less than two million cells."""

METHODS = [
    ("L2", "accelerated"),
    ("L2", "mirror_descent"),
    ("L1", "smoothing"),
    ("L1", "universal"),
    ("L1", "mirror_descent"),
]
COLOURS = {"accelerated": "-", "smoothing": "-", "universal": "--", "mirror_descent": ":"}
TITLES = {"l1": "L1 loss / answer", "l2": "L2 loss / answer", "workload_error": "workload error"}


def workloads() -> dict[str, tuple[Clique, ...]]:
    """The triples of PGM's experiments, and 15 others drawn at random."""
    names = load("adult").domain.attributes
    generator, drawn = np.random.default_rng(RANDOM_TRIPLES), set()
    while len(drawn) < 15:
        drawn.add(tuple(sorted(generator.choice(len(names), 3, replace=False).tolist())))
    chosen = tuple(tuple(names[position] for position in triple) for triple in sorted(drawn))
    return {"PGM's 15 triples": adult14_fifteen().cliques, "15 random triples": chosen}


@dataclass(frozen=True)
class Trial:
    """One workload measured once."""

    workload: str
    cliques: Sequence[Clique]
    seed: int

    def rows(self, iterations: int) -> Iterator[dict]:
        """A line of the table for each recorded iteration of each method."""
        data = load("adult")
        generator, scale = np.random.default_rng(self.seed), len(self.cliques) / EPSILON
        truth = data.project_many(self.cliques)
        measurements = [
            pg.LinearMeasurement(
                table.values + generator.laplace(0.0, scale, table.values.shape),
                clique,
                scale * np.sqrt(2.0),
                noise="laplace",
            )
            for clique, table in zip(self.cliques, truth, strict=True)
        ]
        for loss, method in METHODS:
            recorder = Recorder(L1Loss(measurements, data.domain), L2Loss(measurements, data.domain), truth)
            report = pg.estimate(
                measurements, data.domain, total=data.records, loss=loss.lower(), method=method, tolerance=1e-4,
                max_iterations=iterations, callback=recorder,
            ).report  # fmt: skip
            for row in recorder.rows:
                last = row["iteration"] == report.iterations
                yield {
                    "workload": self.workload,
                    "seed": self.seed,
                    "loss": loss,
                    "method": method,
                    "relative_gap": report.relative_gap if last else np.nan,
                    **row,
                }


class Recorder:
    """A callback that notes losses and errors at iterations that grow by 15 %, and at the last."""

    def __init__(self, l1: L1Loss, l2: L2Loss, truth: Sequence[pg.Factor]):
        self.l1, self.l2 = l1, l2
        self.truth = np.concatenate([table.datavector() for table in truth])
        self.noisy = np.concatenate([measurement.values for measurement in l1.measurements])
        self.scale = float(l1.measurements[0].stddev) / np.sqrt(2.0)
        self.kept: list[dict] = []
        self.next = 1.0

    def __call__(self, progress: Progress) -> None:
        self._latest = progress.iteration, progress.oracle_calls, progress.marginals
        if progress.iteration >= self.next:
            self.kept.append(self._row())
            self.next = max(progress.iteration + 1, progress.iteration * 1.15)

    @property
    def rows(self) -> list[dict]:
        last = self._row()
        return self.kept if self.kept[-1]["iteration"] == last["iteration"] else [*self.kept, last]

    def _row(self) -> dict:
        """Errors are shares of all records, averaged over the marginals: total-variation distances.

        `empty`: the part from cells without a record; `occupied`: the rest. `interpolated`: the share of noisy answers
        that the estimate repeats to within 1 % of the noise.
        """
        iteration, calls, counts = self._latest
        error, total = np.abs(counts - self.truth), 2.0 * load("adult").records * len(self.l1.cliques)
        return {
            "iteration": iteration,
            "oracle_calls": calls,
            "l1": self.l1.flat_value_and_gradient(counts)[0] / len(counts),
            "l2": self.l2.flat_value_and_gradient(counts)[0] / len(counts),
            "workload_error": error.sum() / total,
            "empty": error[self.truth == 0].sum() / total,
            "occupied": error[self.truth > 0].sum() / total,
            "interpolated": float(np.mean(np.abs(counts - self.noisy) < 0.01 * self.scale)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one workload, one seed, 300 iterations; to build/")
    options = parser.parse_args()
    set_threads(1)
    chosen = list(workloads().items())[: 1 if options.quick else 2]
    rows: list[dict] = []
    for workload, cliques in chosen:
        for seed in range(1 if options.quick else 3):
            rows += Trial(workload, cliques, seed).rows(300 if options.quick else 1000)
            print(f"{workload}, seed {seed}: done", flush=True)
    folder = ROOT / "build" if options.quick else ROOT / "experiments" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows)
    table.to_csv(folder / "l1_vs_l2.csv", index=False, float_format="%.5g")
    print(table.groupby(["workload","loss","method","seed"]).agg(it=("iteration","last"),gap=("relative_gap","last"),l1=("l1","last"),l2=("l2","last"),end=("workload_error","last"),least=("workload_error","min"),empty=("empty","last"),occ=("occupied","last"),interp=("interpolated","last")).to_string())

if __name__ == "__main__":
    main()
