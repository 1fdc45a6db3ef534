"""Define the comparisons: the mechanism, table and budget of each run, and the error of its answer."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.compare.workloads import NAMES as WORKLOADS
from experiments.compare.workloads import asked, error, errors
from experiments.data import load
from pgmest import mechanisms
from pgmest.data.dataset import Dataset
from pgmest.errors import PgmestError, QueryError
from pgmest.measurements.measurement import LinearMeasurement

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
MORE_SEEDS = {**{("titanic", epsilon): 36 for epsilon in EPSILONS}, ("adult14", 0.1): 12, ("acs-ipums23", 10.0): 12}
"""How many seeds where the means of three of the best mechanisms differ by chance: by a tenth on so small a table as
titanic, and by some percent on the others."""

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
WORKLOAD_AWARE = ("AIM", "PPSyn", "MWEM", "HDMM")
"""The mechanisms that answer a workload of triples or of prefixes by other measurements than all pairs, and are run
again for each; of the others the runs for all pairs are judged by all workloads."""


@dataclass(frozen=True)
class Cell:
    """One run of one mechanism on one table."""

    table: str
    mechanism: str
    epsilon: float
    seed: int = 0
    workload: str = "pairs"

    @property
    def name(self) -> str:
        """Names the file of the result."""
        asked_for = "" if self.workload == "pairs" else f"-{self.workload}"
        plain = f"{self.table}-{self.mechanism}-{self.epsilon:g}-{self.seed}{asked_for}"
        return plain.replace("/", "_").replace(", ", "-").replace(" ", "-")


def problems() -> list[tuple[str, int, float]]:
    """Every table, seed and epsilon, all tables with the first seed first."""
    return [
        (table, seed, epsilon)
        for seed in range(max(len(SEEDS), *MORE_SEEDS.values()))
        for table in TABLES
        for epsilon in EPSILONS
        if seed < MORE_SEEDS.get((table, epsilon), len(SEEDS))
    ]


def all_cells() -> list[Cell]:
    """Every cell; of mechanisms that need a public table, only where there is one."""
    names = [name for name in MECHANISMS if name in mechanisms.MECHANISMS]
    cells = [
        Cell(table, name, epsilon, seed)
        for table, seed, epsilon in problems()
        for name in names
        if name != "PMWPub" or table in PUBLIC
    ]
    aware = [
        Cell(table, name, epsilon, seed, workload)
        for table, seed, epsilon in problems()
        for name in WORKLOAD_AWARE
        for workload in WORKLOADS[1:]
    ]
    by_mst, by_aim = BY_MBI
    estimated = [Cell(table, by_mst, 1.0) for table in TABLES] + [Cell(table, by_aim, 1.0) for table in MBI_ROUNDS]
    return cells + aware + estimated


def run(cell: Cell, most_seconds: float) -> dict[str, Any]:
    """Run a cell: processor seconds, and the average errors of the model on each workload, and of its records on pairs.

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
        raise TooSlow(f"more than {seconds:g} seconds of a processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _by_pgmest(cell: Cell, data: Dataset) -> dict[str, Any]:
    mechanism = _make(cell)
    started = time.process_time()
    result = mechanism.fit(data, asked(data.domain, cell.workload), seed=cell.seed, progress=False)
    seconds = time.process_time() - started
    found: dict[str, Any] = {"seconds": seconds, **errors(data, result.model), "records": None, "note": ""}
    with contextlib.suppress(QueryError):  # least squares has no records
        found["records"] = error(data, result.sample(seed=cell.seed))
    return found


def _make(cell: Cell) -> mechanisms.Mechanism:
    kind = getattr(mechanisms, cell.mechanism)
    options: dict[str, Any] = {"epsilon": cell.epsilon, "backend": "simulation", **MECHANISMS[cell.mechanism]}
    if kind.definition != "pure":
        options["delta"] = DELTA
    if cell.mechanism == "PMWPub":
        options["public"] = load(*PUBLIC[cell.table])
    return kind(**options)


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
        return {"seconds": seconds, **errors(data, model), "records": None, "note": ""}
    one_way = result.measurements[:attributes]
    transform = rare_values(data.domain, one_way)
    pairs = [LinearMeasurement(m.values, m.clique, m.stddev) for m in result.measurements[attributes:]]
    measurements = [*(transform.push(measurement) for measurement in one_way), *pairs]
    seconds, model = estimate_rounds(
        measurements, [len(measurements)], transform.after, result.model.total, iterations=MBI_ITERATIONS
    )
    return {"seconds": seconds, **errors(data, transform.lift(model)), "records": None, "note": ""}
