"""Remedies: the tables that a budget cannot carry, what they take, and changes that may help a plan as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pgmest.errors import listed
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.emphasis import EMPHASIS_SHARE, STRONG
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.transformed import Transformed
from pgmest.privacy.noise import noise_for
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Workload, emphasized

MOST_BUDGET = 100.0
"""A larger epsilon or rho is no promise, so no plan asks for it."""
MANY_VALUES, COARSE_VALUES = 32, 16
"""Attributes with more values than the first are reduced to the second to show what coarser bins would gain."""
MEASURED_FIRST = ("LAMP", "AIM")
"""The mechanisms that measure tables that matter before all others."""
HALVINGS = 12
"""The number of bisections of a budget."""


@dataclass(frozen=True)
class TooWeak:
    """A table of which even a strong dependence drowns in the noise value by value, with a third of the budget.

    Attributes:
        clique: the attributes.
        cells: the number of cells.
        budget: the budget with which it would not, in words; None if no reasonable budget is enough.
        values: the largest number of values of each attribute with which it would not; None without one.
    """

    clique: Clique
    cells: int
    budget: str | None = None
    values: int | None = None


@dataclass(frozen=True, eq=False)
class Change:
    """A change that may help.

    Attributes:
        text: the change in words.
        mechanism, domain, workload: the arguments of the changed run.
        example: a table whose error shows the effect; without one, that of all tables does.
    """

    text: str
    mechanism: Mechanism
    domain: Domain
    workload: Workload | None
    example: Clique = ()


class Rehearsed(Protocol):
    """What `changes` reads of a table in a rehearsal (`rehearsal.ExpectedTable`)."""

    @property
    def clique(self) -> Clique: ...

    @property
    def error(self) -> float: ...

    @property
    def measured(self) -> bool: ...


def too_weak(mechanism: Mechanism, domain: Domain, cliques: Iterable[Clique], records: int) -> Iterator[TooWeak]:
    """Yield the tables of which noise would hide a strong dependence, even with a third of the budget.

    The expected l1 error of the noise of all cells then exceeds that dependence, as in `emphasis.measure_carried`.
    """
    stddev = _stddev(mechanism)
    for clique in sorted(cliques, key=lambda names: -domain.size(names)):
        cells, sizes = domain.size(clique), [domain[name] for name in clique]
        most = 2 * min(STRONG, 1 - 1 / min(sizes)) * records / MEAN_ABSOLUTE
        if cells * stddev > most:
            yield TooWeak(clique, cells, _budget_for(mechanism, most / cells), _values_for(sizes, most / stddev))


def _stddev(mechanism: Mechanism) -> float:
    return noise_for(mechanism.budget() * EMPHASIS_SHARE, mechanism.neighbors).stddev


def _budget_for(mechanism: Mechanism, stddev: float) -> str | None:
    """Return the least budget, in words, with which the noise is at most `stddev`."""
    name, value = _stated(mechanism)
    low, high = math.log(value), math.log(MOST_BUDGET)
    if low >= high or _stddev(_with_budget(mechanism, name, MOST_BUDGET)) > stddev:
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = _stddev(_with_budget(mechanism, name, math.exp(middle))) <= stddev
        low, high = (low, middle) if enough else (middle, high)
    return f"{name} {math.exp(high):.2g}"


def _stated(mechanism: Mechanism) -> tuple[str, float]:
    """Return the name of the parameter with the budget, "epsilon" or "rho", and its value."""
    if isinstance(mechanism, Transformed):
        return _stated(mechanism.inside)
    name = "rho" if mechanism.epsilon is None else "epsilon"
    return name, float(getattr(mechanism, name))


def _with_budget(mechanism: Mechanism, name: str, value: float) -> Mechanism:
    """Return the mechanism with another value of the parameter with the budget."""
    if isinstance(mechanism, Transformed):
        return replace(mechanism, mechanism=_with_budget(mechanism.inside, name, value))
    return replace(mechanism, **{name: value})


def _values_for(sizes: Sequence[int], most_cells: float) -> int | None:
    """Return the largest number of values to which all attributes are reduced so that a table has so few cells."""
    fitting = (v for v in range(max(sizes) - 1, 1, -1) if math.prod(min(size, v) for size in sizes) <= most_cells)
    return next(fitting, None)


def changes(
    mechanism: Mechanism, domain: Domain, workload: Workload | None, able: Sequence[Rehearsed]
) -> Iterator[Change]:
    """Yield changes of what is emphasized, of the budget, of the neighboring relation and of the domain.

    Args:
        mechanism, domain, workload: the arguments of the run.
        able: the rehearsed tables of several attributes that the budget can carry.
    """
    if type(mechanism).__name__ in MEASURED_FIRST and not any(item.matters for item in workload or ()):
        passed_over = sorted((table for table in able if not table.measured), key=lambda table: table.error)
        if passed_over:
            example = passed_over[len(passed_over) // 2].clique
            marked = emphasized(domain, workload, [example])
            yield Change(f"--matters {','.join(example)} (an example)", mechanism, domain, marked, example)
    name, value = _stated(mechanism)
    value *= 4 if name == "rho" else 2
    yield Change(f"{name} {value:g}", _with_budget(mechanism, name, value), domain, workload)
    count = mechanism.neighbors.records
    if count > 1:
        fewer: Any = replace(mechanism.neighbors, records=max(1, count // 2))
        text = f"at_most {fewer.records} instead of {count}, which drops the other records of a person"
        yield Change(text, replace(mechanism, neighbors=fewer), domain, workload)
    wide = [name for name, size in domain.items() if size > MANY_VALUES]
    if wide and workload is None and not mechanism.structural_zeros and not mechanism.invariants:
        coarse = Domain({name: COARSE_VALUES if name in wide else size for name, size in domain.items()})
        text = f"coarser bins or groups, {COARSE_VALUES} values each, of {listed(wide, 4)}"
        yield Change(text, mechanism, coarse, None)
