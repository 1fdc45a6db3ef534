"""Stage 1: each mechanism on each table, once, saved in build/coverage/fits."""

from __future__ import annotations

import itertools
import pickle
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pgmest as pg
from experiments.coverage_of_mechanisms.tables import ALL, HOSTILE, PARTS, PERSONS, SMALL, data_of
from experiments.kept_runs import MechanismRun
from pgmest._base.files import write_atomically

FITS = Path(__file__).resolve().parents[2] / "build" / "coverage" / "fits"
DELTA = 1e-9
EPSILONS = (0.1, 1.0, 10.0)
MAIN = ("LAMP", "MST", "AIM", "fixed")
"""The mechanisms that are reported in full; "fixed" measures pairs of neighbors and of their next neighbors alike."""
OTHERS = ("PrivSyn", "PriView", "PrivBayes", "HDMM", "Independent")
"""Mechanisms whose models are of other kinds, reported in short."""
SEEDS_OF_SMALL = 2
"""The runs of each kind on tables of few records, whose noise varies much."""
ON_ALL = ("LAMP", "MST")
"""The mechanisms that are run on the tables with all attributes."""
OWN_ESTIMATORS = ("PriView", "PrivBayes", "PrivSyn", "HDMM")
"""The mechanisms that are run with the estimators of their papers, as their models are of kinds of their own."""


@dataclass(frozen=True)
class Run(MechanismRun):
    """A run whose files begin with the mechanism, and whose noise has a seed of its own."""

    @property
    def name(self) -> str:
        """The name of its files."""
        table = self.table.replace("/", "_").replace(" (all)", "_all").replace(", ", "_").replace(" ", "_")
        return f"{self.mechanism}-{table}-{self.epsilon:g}-{self.seed}"

    @property
    def noise_seed(self) -> int:
        """The seed of its noise, which differs from run to run, so that chance is not the same on all tables."""
        return zlib.crc32(self.name.encode())

    @property
    def saved(self) -> Path:
        """The file of its fit."""
        return FITS / f"{self.name}.pickle"


def runs(seeds: int) -> Iterator[Run]:
    """All runs, in the order of the rows: the small tables first, with one seed and then the next."""
    for seed in range(seeds):
        for mechanism, epsilon, table in itertools.product(MAIN, EPSILONS, PARTS):
            yield Run(table, mechanism, epsilon, seed)
    for mechanism, epsilon, table in itertools.product(ON_ALL, EPSILONS, ALL):
        yield Run(table, mechanism, epsilon, 0)
    for mechanism, epsilon, table in itertools.product(OTHERS, EPSILONS, PARTS):
        yield Run(table, mechanism, epsilon, 0)
    for mechanism, epsilon, table in itertools.product(MAIN, EPSILONS, HOSTILE):
        yield Run(table, mechanism, epsilon, 0)
    for seed, mechanism, epsilon, table in itertools.product(range(SEEDS_OF_SMALL), MAIN, EPSILONS[:2], SMALL):
        yield Run(table, mechanism, epsilon, seed)


def fit(run: Run) -> dict[str, Any]:
    """Run the mechanism, and save what it returned."""
    data, start = data_of(run.table), time.process_time()
    result = result_of(run, data)
    seconds = time.process_time() - start
    run.saved.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(run.saved, pickle.dumps(result))
    return {"seconds": seconds}


def result_of(run: Run, data: pg.Dataset) -> Any:
    """Return the result of a mechanism on a table: an object with a model and its measurements."""
    settings: dict[str, Any] = {"epsilon": run.epsilon, "delta": DELTA, "backend": "simulation"}
    if run.table in PERSONS:
        settings["neighbors"] = pg.privacy.AddRemove(records=PERSONS[run.table])
    if run.mechanism in OWN_ESTIMATORS:
        settings["estimator"] = "original"
    if run.mechanism != "fixed":
        return getattr(pg.mechanisms, run.mechanism)(**settings).fit(data, seed=run.noise_seed, progress=False)
    names = data.domain.attributes
    pairs = [*itertools.pairwise(names), *zip(names, names[2:], strict=False)][: len(names)]
    budget, neighbors = pg.privacy.Rho.of(run.epsilon, DELTA), pg.privacy.AddRemove(PERSONS.get(run.table, 1))
    curator = pg.privacy.Curator(data, budget, neighbors=neighbors, backend="simulation", seed=run.noise_seed)
    measured = tuple(curator.measure_all(pairs, curator.budget))
    return SimpleNamespace(model=pg.estimate(measured, data.domain), measurements=measured)


def saved(run: Run) -> Any:
    """Return what a mechanism returned: a result, or an object with a model and its measurements."""
    return pickle.loads(run.saved.read_bytes())
