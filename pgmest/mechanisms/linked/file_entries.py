"""The entries of tables and runs in the header of a file of linked tables, checked before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedTable
from pgmest.measurements.checks import LARGEST_ANSWER, SMALLEST_STDDEV
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.linked.families import MEMBER, OTHER, Families, Layout
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.lengths import MeasuredLengths
from pgmest.mechanisms.linked.numbers import MeasuredNumbers
from pgmest.mechanisms.linked.pairing import MOST_COUNTED
from pgmest.models.archive import Unreadable, number
from pgmest.models.measurement_entries import read_measurements
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.hierarchy import Hierarchy

Take = Callable[[int], np.ndarray]
"""A function that returns the next numbers of a member, this many."""

LARGEST_ENTRY = 1e6
"""The largest entry of a query on parents, and the largest length to which families are cut: queries that are measured
have contrasts and sums, whose entries are at most 1, and lengths are at most those of the largest family."""


@dataclass(frozen=True)
class TableEntry:
    """The description of a table in a header: its entries, its attributes and its number of rows."""

    fields: Mapping[str, Any]
    domain: Domain
    rows: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> TableEntry:
        if not isinstance(fields["name"], str) or not isinstance(fields["ordered"], bool):
            raise Unreadable("the name or the order of a table is wrong")
        return cls(fields, _domain(fields), _count(fields, "rows"))

    @property
    def at_most(self) -> int:
        """The most rows of one parent row; 0 for the root."""
        return 0 if self.fields["parent"] is None else _count(self.fields, "at_most")

    @property
    def codes(self) -> int:
        """The number of its codes."""
        return self.rows * len(self.domain)

    def table(self, members: Mapping[str, Take]) -> LinkedTable:
        """Return the table."""
        data = _dataset(members["codes"], self.rows, self.domain)
        if self.fields["parent"] is None:
            return LinkedTable(data)
        order = {"ordered": self.fields["ordered"], "order_by": self.fields["order_by"]}
        return LinkedTable(data, self.fields["parent"], members["rows"](self.rows), self.at_most, **order)


@dataclass(frozen=True)
class RunEntry:
    """The description of a run in a header: its entries, its layout, and its numbers of families and children."""

    fields: Mapping[str, Any]
    layout: Layout
    families: int
    children: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> RunEntry:
        return cls(fields, _layout(fields["layout"]), _count(fields, "families"), _count(fields, "children"))

    @property
    def domain(self) -> Domain:
        """Its attributes."""
        return self.layout.domain

    @property
    def codes(self) -> int:
        """The number of its codes."""
        return self.families * len(self.layout.parents) + self.children * len(self.layout.members)

    @property
    def answers(self) -> int:
        """The number of its noisy answers, and of the standard deviations of those above."""
        above = sum(2 * _count(one, "rows") for one in self.fields["above"])
        lengths = sum(math.prod(_shape(self._groups(one))) for one in self.fields["lengths"])
        return above + lengths + sum(math.prod(self._numbers(one)) for one in self.fields["numbers"])

    def run(self, members: Mapping[str, Take]) -> FamilyModel:
        """Return the run."""
        layout, read = self.layout, members["answers"]
        parents, children = (
            self._rows(members["codes"], rows, names, absent)
            for rows, names, absent in ((self.families, layout.parents, 0), (self.children, layout.members, 1))
        )
        if int(parents[:, -1].sum()) != len(children):
            raise Unreadable("its families have other numbers of children than there are")
        families = Families(layout, parents, children)
        for one in self.fields["above"]:
            _check_entries(one["query"])
        above = tuple(map(_with_one_stddev, read_measurements(layout.domain, self.fields["above"], read)))
        lengths = tuple(self._lengths(one, read) for one in self.fields["lengths"])
        numbers = tuple(
            MeasuredNumbers(one["name"], _values(read, self._numbers(one)), _positive(one, "stddev"), _cut(one))
            for one in self.fields["numbers"]
        )
        total, stddev = (number(self.fields, name) for name in ("total", "total_stddev"))
        if not (0 <= total <= LARGEST_ANSWER and 0 <= stddev <= LARGEST_ANSWER):
            raise Unreadable("its number of families is no count")
        return FamilyModel(families, lengths, above, total, stddev, numbers, scored=self._scored())

    def _scored(self) -> dict[Clique, float]:
        """Return the largest likely distances of scored tables from the model."""
        found = {tuple(clique): float(most) for clique, most in self.fields.get("scored", ())}
        for clique, most in found.items():
            if clique != self.domain.ordered(clique) or not 0 <= most <= LARGEST_ANSWER:
                raise Unreadable(f"the distance of {clique} from the model is {most!r}, no count")
        return found

    def _rows(self, take: Take, rows: int, names: Clique, absent: int) -> np.ndarray:
        """Return the codes of parents or children, which are never those of absent ones."""
        domain = Domain({name: self.domain[name] - absent for name in names})
        columns = _dataset(take, rows, domain).columns
        found = [np.asarray(column, dtype=np.int64) for column in columns]
        return np.stack(found, axis=1) if found else np.zeros((rows, 0), dtype=np.int64)

    def _lengths(self, fields: Mapping[str, Any], read: Take) -> MeasuredLengths:
        groups, averaged = self._groups(fields), fields["averaged"]
        if not isinstance(averaged, bool):
            raise Unreadable("a length does not say what was measured")
        values = _values(read, _shape(groups))
        return MeasuredLengths(
            tuple(fields["clique"]), groups, values, _positive(fields, "stddev"), averaged, _cut(fields)
        )

    def _groups(self, fields: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
        """Return the groups of a length's codes."""
        clique, groups = fields["clique"], tuple(np.array(labels) for labels in fields["groups"])
        if not 1 <= len(clique) <= 2 or len(groups) != len(clique) or self.layout.is_above(tuple(clique)):
            raise Unreadable("a length has other attributes than groups")
        for name, labels in zip(clique, groups, strict=True):
            if labels.shape != (self.domain[name],) or labels.dtype.kind != "i":
                raise Unreadable(f"a length has no group for each code of {name}")
            present = labels[: len(labels) - (self.layout.kind(name) in (MEMBER, OTHER))]
            every = range(min(labels[-1] + 1, len(labels)))
            if set(labels.tolist()) != set(every) or present.max() > present[-1]:
                raise Unreadable(f"a length has wrong groups of {name}")
        return groups

    def _numbers(self, fields: Mapping[str, Any]) -> tuple[int, int]:
        """Return the shape of the numbers of an attribute."""
        if fields["name"] not in self.layout.members:
            raise Unreadable("it has numbers of what is no attribute of a child")
        return self.domain[fields["name"]] - 1, MOST_COUNTED


def _with_one_stddev(measurement: LinearMeasurement) -> LinearMeasurement:
    """Return a measurement whose standard deviation is one number if all answers have the same, as it was written."""
    each = np.unique(measurement.stddev)
    return measurement if len(each) != 1 else replace(measurement, stddev=float(each[0]))


def _domain(fields: Mapping[str, Any]) -> Domain:
    domain = Domain((name, size) for name, size in fields["domain"])
    return (
        domain.with_hierarchies(*map(Hierarchy.from_json, fields["hierarchies"])) if "hierarchies" in fields else domain
    )


def _layout(fields: Mapping[str, Any]) -> Layout:
    at_most, ordered, rising = _count(fields, "at_most"), fields["ordered"], fields["rising"]
    parent, child, counted = _domain(fields["parent"]), _domain(fields["child"]), tuple(fields["counted"])
    one, other = fields["names"]
    if not (isinstance(one, str) and isinstance(other, str) and isinstance(ordered, bool) and at_most >= 1):
        raise Unreadable("the names, the order or the limit of a run are wrong")
    layout = Layout(parent, child, (one, other), at_most, ordered, rising, counted)
    if not set(counted) <= set(layout.domain) or not (rising is None or rising in child):
        raise Unreadable("a run counts or orders what is no attribute")
    return layout


def _dataset(take: Take, rows: int, domain: Domain) -> Dataset:
    if not len(domain):
        return Dataset.from_codes(np.empty((rows, 0), dtype=np.int64), domain)
    return Dataset.from_codes([take(rows) for _ in domain], domain)


def _shape(groups: tuple[np.ndarray, ...]) -> tuple[int, ...]:
    return tuple(int(labels[-1]) + 1 for labels in groups)


def _values(read: Take, shape: tuple[int, ...]) -> np.ndarray:
    values = read(math.prod(shape)).reshape(shape)
    if not (np.abs(values) <= LARGEST_ANSWER).all():
        raise Unreadable("it has noisy answers that are no counts")
    return values


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Unreadable(f"its {name} is {value!r}, not a whole number")
    return value


def _positive(fields: Mapping[str, Any], name: str) -> float:
    value = number(fields, name)
    if not SMALLEST_STDDEV <= value <= LARGEST_ANSWER:
        raise Unreadable(f"its {name} is {value!r}, not a positive number")
    return value


def _cut(fields: Mapping[str, Any]) -> float:
    value = number(fields, "cut")
    if not 0 <= value <= LARGEST_ENTRY:
        raise Unreadable(f"its cut is {value!r}, which is no length")
    return value


def _check_entries(query: Any) -> None:
    """Raise Unreadable if a number in the description of a query is larger than any that is measured."""
    waiting = [query]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int | float) and not abs(value) <= LARGEST_ENTRY:
            raise Unreadable(f"a measured query has the entry {value!r}")
