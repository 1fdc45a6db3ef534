"""What is compared: which mechanism is run on which table with which budget, and how its answer is judged."""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.data import load
from pgmest import mechanisms
from pgmest._base.errors import PgmestError, QueryError
from pgmest.data.dataset import Dataset
from pgmest.evaluation.metrics import total_variation
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.factor import Factor

TABLES = (
    "titanic",
    "adult",
    "adult14",
    "adult_pub025_01",
    "BR2000",
    "loans",
    "stroke",
    "fire",
    "fire30",
    "acs-ipums23",
    "acs/IL_OH",
    "acs/MA2019",
    "acs/NATIONAL2019",
)
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-9
SEEDS = (0, 1, 2)
MOST_CELLS = 10_000
"""Pairs of attributes with more cells are not compared."""
MOST_PAIRS = 1_000
"""Where a table has more pairs, so many of them are drawn."""

LIMITED: dict[str, Any] = {"max_megabytes": 1.0}
MECHANISMS: dict[str, dict[str, Any]] = {
    "Independent": {},
    "MST": {},
    "AIM": LIMITED,
    "PrivMRF": LIMITED,
    "PPSyn": LIMITED,
    "PrivSyn": {},
    "PriView": {},
    "PMWPub": {},
    "MWEM": LIMITED,
    "PrivBayes": {},
    "HDMM": {"estimator": "original"},
    "DualQuery": {"estimator": "original", "time_limit": 1.0},
}
"""The mechanisms, with what differs from their defaults: junction trees are limited to 1 MB. No tree of that size holds
what HDMM and DualQuery measure, all pairs: HDMM answers by least squares, DualQuery with its records, each the best
that a search of one second finds."""
PUBLIC = {"adult_pub025_01": ("adult_pub025_01", "public"), "acs/MA2019": ("acs/MA2018", "data")}
PUBLIC["acs/NATIONAL2019"] = ("acs/NATIONAL2018", "data")
"""Where there is a public table beside the private one, for mechanisms that need it: its name and file."""
BY_MBI = {"MST, estimated by mbi": "MST", "AIM, estimated by mbi": "AIM"}
"""The rows where mbi estimates, and whose measurements it is given."""
MBI_ITERATIONS = 1000
MBI_ROUNDS = ("titanic", "adult", "adult14")
"""The tables on which mbi repeats the rounds of AIM, for which it compiles each time anew: minutes a run."""


@dataclass(frozen=True)
class Cell:
    """One run of one mechanism on one table."""

    table: str
    mechanism: str
    epsilon: float
    seed: int = 0

    @property
    def name(self) -> str:
        """Names the file of the result."""
        plain = f"{self.table}-{self.mechanism}-{self.epsilon:g}-{self.seed}"
        return plain.replace("/", "_").replace(", ", "-").replace(" ", "-")


def all_cells() -> list[Cell]:
    """Every cell; of mechanisms that need a public table, only where there is one."""
    names = [name for name in MECHANISMS if name in mechanisms.MECHANISMS]
    cells = [
        Cell(table, name, epsilon, seed)
        for seed in SEEDS
        for table in TABLES
        for epsilon in EPSILONS
        for name in names
        if name != "PMWPub" or table in PUBLIC
    ]
    by_mst, by_aim = BY_MBI
    return cells + [Cell(table, by_mst, 1.0) for table in TABLES] + [Cell(table, by_aim, 1.0) for table in MBI_ROUNDS]


def run(cell: Cell, most_seconds: float) -> dict[str, Any]:
    """Run a cell: the seconds, and the average total variation error over pairs, of the model and of its records.

    A run of a mechanism that takes longer than `most_seconds` is stopped and noted; one where mbi estimates is not.
    """
    data = load(cell.table)
    if cell.mechanism in BY_MBI:
        return _by_mbi(cell, data)
    try:
        with _at_most(most_seconds):
            return _by_pgmest(cell, data)
    except (PgmestError, MemoryError, TooSlow) as failure:
        return {"note": f"{type(failure).__name__}: {str(failure)[:150]}"}


class TooSlow(Exception):
    """The limit on a cell's time."""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def stop(signal_number: int, frame: Any) -> None:
        raise TooSlow(f"more than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _by_pgmest(cell: Cell, data: Dataset) -> dict[str, Any]:
    mechanism = _make(cell)
    started = time.perf_counter()
    result = mechanism.fit(data, seed=cell.seed, progress=False)
    seconds = time.perf_counter() - started
    found: dict[str, Any] = {"seconds": seconds, "error": _error(data, result.model), "records": None, "note": ""}
    with contextlib.suppress(QueryError):  # least squares has no records
        found["records"] = _error(data, result.sample(seed=cell.seed))
    return found


def _make(cell: Cell) -> mechanisms.Mechanism:
    kind = getattr(mechanisms, cell.mechanism)
    options: dict[str, Any] = {"epsilon": cell.epsilon, "backend": "simulation", **MECHANISMS[cell.mechanism]}
    if kind.definition != "pure":
        options["delta"] = DELTA
    if cell.mechanism == "PMWPub":
        options["public"] = load(*PUBLIC[cell.table])
    return kind(**options)


def _error(data: Dataset, source: Any) -> float:
    pairs = [pair for pair in itertools.combinations(data.domain, 2) if data.domain.size(pair) <= MOST_CELLS]
    if len(pairs) > MOST_PAIRS:
        chosen = np.random.default_rng(0).choice(len(pairs), MOST_PAIRS, replace=False)
        pairs = [pairs[place] for place in sorted(chosen)]
    truth = data.project_many(pairs)
    many = getattr(source, "project_many", None)
    mine = many(pairs) if many else [source.project(pair) for pair in pairs]
    return float(np.mean([total_variation(a, _clipped(b)) for a, b in zip(truth, mine, strict=True)]))


def _clipped(table: Factor) -> Factor:
    """Without the negative counts that least squares has, which are no part of a distribution: at 0, and the others
    scaled to the total that the table had. Without that the distance would not be one of total variation."""
    if not (table.values < 0).any():
        return table
    total, positive = float(table.values.sum()), np.maximum(table.values, 0.0)
    return Factor(table.domain, positive * (max(total, 0.0) / positive.sum() if positive.any() else 0.0))


def _by_mbi(cell: Cell, data: Dataset) -> dict[str, Any]:
    """A mechanism's own measurements, given to mbi: the seconds are of its estimates alone, compilation included."""
    from experiments.benchmarks.peers import estimate_rounds
    from pgmest.transforms import rare_values

    result = _make(Cell(cell.table, BY_MBI[cell.mechanism], cell.epsilon)).fit(data, seed=cell.seed, progress=False)
    attributes = len(data.domain)
    if BY_MBI[cell.mechanism] == "AIM":
        rounds = range(attributes, len(result.measurements) + 1)
        seconds, model = estimate_rounds(
            result.measurements, rounds, data.domain, result.model.total, iterations=MBI_ITERATIONS
        )
        return {"seconds": seconds, "error": _error(data, model), "records": None, "note": ""}
    one_way = result.measurements[:attributes]
    transform = rare_values(data.domain, one_way)
    pairs = [LinearMeasurement(m.values, m.clique, m.stddev) for m in result.measurements[attributes:]]
    measurements = [*(transform.push(measurement) for measurement in one_way), *pairs]
    seconds, model = estimate_rounds(
        measurements, [len(measurements)], transform.after, result.model.total, iterations=MBI_ITERATIONS
    )
    return {"seconds": seconds, "error": _error(data, transform.lift(model)), "records": None, "note": ""}
