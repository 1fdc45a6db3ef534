"""The cells of the experiment: which mechanism is run on which table with which parameters."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from pgmest import mechanisms
from pgmest.mechanisms.mechanism import Mechanism

TABLES = ("adult", "BR2000", "loans")
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
ETAS = (0.3, 0.4, 0.5, 0.7, 0.85, 1.0)
DIMENSIONS = (2, 3, 4, 5)
DELTA = 1e-9

LIMITED: dict[str, Any] = {"max_megabytes": 1.0}
MECHANISMS: dict[str, dict[str, Any]] = {
    "Independent": {},
    "MST": {},
    "AIM": LIMITED,
    "PrivMRF": LIMITED,
    "PPSyn": LIMITED,
    "PPSynAsPublishedNotPrivate": LIMITED,
}
"""The mechanisms compared, and their parameters; those that this installation does not have are left out."""

PARTITIONED = ("PPSyn", "PPSynAsPublishedNotPrivate")


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        table: the data.
        mechanism: the mechanism's name.
        epsilon: the budget, with `DELTA`.
        k: the workload is made of marginals of so many attributes.
        parameters: of the mechanism, beside those in `MECHANISMS`.
        seed: of the run.
    """

    table: str
    mechanism: str
    epsilon: float
    k: int = 2
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)
    seed: int = 0

    @property
    def name(self) -> str:
        """What the result is kept under."""
        extra = "".join(f"-{name}{value:g}" for name, value in sorted(self.parameters.items()))
        return f"{self.table}-{self.mechanism}-{self.epsilon:g}-k{self.k}{extra}-{self.seed}"

    def make(self) -> Mechanism:
        """The mechanism, on simulated noise."""
        made = getattr(mechanisms, self.mechanism)
        given = {**MECHANISMS[self.mechanism], **self.parameters}
        return made(epsilon=self.epsilon, delta=DELTA, backend="simulation", **given)

    def as_row(self) -> dict[str, Any]:
        """The cell as columns of a table."""
        row = asdict(self)
        return {**{name: value for name, value in row.items() if name != "parameters"}, **self.parameters}


def available() -> list[str]:
    """The mechanisms of `MECHANISMS` that this installation has."""
    found = []
    for name in MECHANISMS:
        try:
            importlib.import_module(mechanisms.MECHANISMS[name])
        except (KeyError, ImportError):
            continue
        found.append(name)
    return found


def all_cells(quick: bool) -> Iterator[Cell]:
    """Every cell, in the order of the figures; `quick`: two tables, few values of each parameter."""
    tables = TABLES[:2] if quick else TABLES
    names = available()
    for table in tables:
        for epsilon in (0.1, 1.0) if quick else EPSILONS:
            for name in names:
                yield Cell(table, name, epsilon)
    for table in tables[-1:] if quick else tables:
        for name in [name for name in PARTITIONED if name in names]:
            for eta in (0.3, 1.0) if quick else ETAS:
                yield Cell(table, name, 0.5, parameters={"eta": eta})
            for d in (2, 3) if quick else DIMENSIONS:
                yield Cell(table, name, 0.5, k=3, parameters={"dimensions": d})
