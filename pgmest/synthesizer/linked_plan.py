"""The error to expect on linked tables, from a rehearsal on made-up ones: no private record is read."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import ArgumentError, plural
from pgmest.evaluation.linked_errors import LinkedErrors, linked_errors
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.made_up import CLASSES, Laws
from pgmest.mechanisms.notices import WeakPromiseWarning, delta_warnings, epsilon_warnings
from pgmest.schema.linked.schema import LinkedSchema

MOST_UNITS = 50_000
"""The largest number of made-up units; more of them would change the time, and the errors less than proportionally."""
ALIKE = 0.7
"""The share of made-up rows with the class of their parent."""
MEAN_SIZE = 2.5
"""The average number of rows of a parent, where at least twice as many count."""


@dataclass(frozen=True)
class LinkedPlan:
    """The errors to expect of linked tables at a budget, from a rehearsal without private records.

    Attributes:
        mechanism: the mechanism with its budget.
        units: the assumed number of rows of the root.
        rehearsed: the number of made-up rows of the root.
        errors: the errors of the rehearsal.
        measured: the number of tables that the rehearsal measured.
        seconds: the time of the rehearsal on this machine.
        protection: what is protected, in words.
        warnings: reasons to reconsider the budget before paying, and what no budget keeps.
    """

    mechanism: LinkedLAMP
    units: int
    rehearsed: int
    errors: LinkedErrors
    measured: int
    seconds: float
    protection: str
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "mechanism": type(self.mechanism).__name__,
            "epsilon": self.mechanism.epsilon,
            "delta": self.mechanism.delta,
            "rho": self.mechanism.rho,
            "protected": self.protection,
            "units_expected": self.units,
            "units_rehearsed": self.rehearsed,
            "measurements": self.measured,
            "seconds": round(self.seconds, 3),
            "errors": self.errors.summary(),
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        few = "" if self.rehearsed == self.units else f" for {self.units:,}: real errors are smaller"
        lines = [
            f"LinkedLAMP, rehearsed on {plural(self.rehearsed, 'made-up unit')}{few}",
            f"protected: {self.protection}",
            f"{plural(self.measured, 'request')}, {self.seconds:.1f} s here",
            "",
            "errors (mean total variation distances, 0 to 1)",
            str(self.errors),
            "",
            "the largest:",
            *(f"  {error:.4f}  {table}  {kind}  {name}" for error, table, kind, name in self.errors.worst(8)),
            *(f"!  {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)

    __repr__ = __str__


def plan_linked(schema: LinkedSchema, mechanism: LinkedLAMP, units: int) -> LinkedPlan:
    """Run a mechanism on made-up linked tables with simulated noise, and return the errors to expect of a private run.

    The made-up tables have the attributes and limits of the schema, and dependence within rows, with parents and within
    parents, but not that of the private tables. They know no constraints and no rules.

    Args:
        schema: the schema of the tables.
        mechanism: the mechanism with its budget.
        units: a public guess of the number of rows of the root.

    Raises:
        ArgumentError: `units` is not an integer of at least 1; or as for `LinkedLAMP.fit`.
    """
    if isinstance(units, bool) or not isinstance(units, int | np.integer) or units < 1:
        raise ArgumentError.of("units", units, "an integer of at least 1")
    rehearsed = min(int(units), MOST_UNITS)
    linked = made_up_tables(schema, rehearsed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)  # the plan lists them
        result = replace(mechanism, backend="simulation").fit(linked, seed=0, progress=False)
    seconds = time.perf_counter() - start
    measured = sum(len(one.ledger) for one in result.results.values())
    limits = (f"not forecast: {limit}." for limit in schema.limits)
    reasons = (*delta_warnings(mechanism.delta, int(units)), *epsilon_warnings(mechanism.epsilon), *limits)
    errors = _forecast(schema, linked_errors(linked, result.sample(seed=0)))
    return LinkedPlan(mechanism, int(units), rehearsed, errors, measured, seconds, schema.protection, reasons)


def _forecast(schema: LinkedSchema, errors: LinkedErrors) -> LinkedErrors:
    """Return the errors without those of rows by rows above their parents: made-up tables bind them too little."""
    kept = {name: dict(kinds) for name, kinds in errors.errors.items()}
    for name, kinds in kept.items():
        if "between" in kinds:
            parent = f"{schema.parts[name].parent}."
            kinds["between"] = {pair: error for pair, error in kinds["between"].items() if pair.startswith(parent)}
    return replace(errors, errors=kept)


def made_up_tables(schema: LinkedSchema, units: int) -> LinkedDataset:
    """Return linked tables of skewed and dependent attributes, from a mixture whose classes parents hand down."""
    generator = np.random.default_rng(0)
    kinds: dict[str, np.ndarray] = {}
    tables: dict[str, LinkedTable] = {}
    for name, part in schema.parts.items():
        if part.parent is None:
            kinds[name] = generator.integers(CLASSES, size=units)
            tables[name] = LinkedTable(Laws.of(part.schema.domain, generator).records(kinds[name], generator))
            continue
        parent_rows = np.repeat(np.arange(len(kinds[part.parent])), _sizes(kinds[part.parent], part.at_most, generator))
        inherited = kinds[part.parent][parent_rows]
        alike = generator.random(len(parent_rows)) < ALIKE
        kinds[name] = np.where(alike, inherited, generator.integers(CLASSES, size=len(parent_rows)))
        data = Laws.of(part.schema.domain, generator).records(kinds[name], generator)
        if part.order_by is not None:
            places = np.lexsort((data.column(part.order_by), parent_rows))
            data, kinds[name] = data.take(places), kinds[name][places]
        ordered = {"ordered": part.order is not None, "order_by": part.order_by}
        tables[name] = LinkedTable(data, part.parent, parent_rows, part.at_most, **ordered)
    return LinkedDataset(tables, unit=schema.protected)


def _sizes(kinds: np.ndarray, at_most: int, generator: np.random.Generator) -> np.ndarray:
    """Return how many rows each parent has, from 0 to `at_most`, more in some classes than in others."""
    mean = min(MEAN_SIZE, at_most / 2)
    means = mean * (0.5 + np.arange(CLASSES) / (CLASSES - 1))
    return np.minimum(generator.poisson(means[kinds]), at_most)
