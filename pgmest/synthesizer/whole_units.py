"""Counts, shares and means of whole units by attributes of units, such as households by their number of children."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from pgmest.data.linked import LinkedDataset, places_of
from pgmest.data.linked_names import number_of
from pgmest.errors import ArgumentError, DuplicateAttributeError, QueryError, UnknownAttributeError, listed
from pgmest.mechanisms.linked.linked_model import LinkedModel
from pgmest.mechanisms.linked.questions import full_name
from pgmest.models.intervals import check_level
from pgmest.queries.levels import named_levels
from pgmest.schema.given import read_given
from pgmest.schema.grid import Grid
from pgmest.schema.linked.schema import LinkedSchema
from pgmest.synthesizer.how_many import HowMany
from pgmest.synthesizer.unit_statistics import Statistic
from pgmest.synthesizer.unit_values import allowed, is_of_units, returned_by, unit_values

MEASURES = ("count", "share", "mean")
"""The answers about units: their number, their share of all, and the mean of an attribute."""
MOST_CELLS = 2_000
"""The largest number of cells of a table of units."""
MOST_NUMBERS = 10_000_000
"""The largest number of numbers of a table of units by cells."""
ENOUGH_ROWS = 50
"""The fewest values of a function that count as values of the rows of a table with that number of rows."""
CHECKED = 0.5
"""The share of the units on which a function is called again."""


@dataclass(frozen=True, eq=False)
class UnitAttribute:
    """An attribute of the synthetic units.

    Attributes:
        name: its name in results.
        codes: the code of each unit, shape (units,).
        labels: what each code means.
        numbers: the value of each unit if it is a number, NaN if it is missing; None if it is no number.
        ends: the least and the greatest number that a unit may have, as far as that is public.
        weights: returns the weight of each unit under a condition.
    """

    name: str
    codes: np.ndarray
    labels: Sequence[Any]
    numbers: np.ndarray | None
    weights: Callable[[Any], np.ndarray]
    ends: tuple[float, float] = (-np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class WholeUnits:
    """The synthetic units of a result, about which questions are asked.

    Attributes:
        result: the result.
        schema: the schema of the tables.
        named: returns what the model calls a column, its labels, and the weight of each code under a condition.
            It has the method `decoded`, too, which makes dataframes of linked codes.
    """

    result: LinkedModel
    schema: LinkedSchema
    named: Any

    @cached_property
    def linked(self) -> LinkedDataset:
        """The codes of the synthetic units."""
        return self.result.model.in_order()

    @property
    def key(self) -> str | None:
        """The column that tells the units apart; None if there are several such columns."""
        key = self.schema.parts[self.linked.root].key
        return key[0] if len(key) == 1 else None

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The synthetic units as dataframes."""
        return self.named.decoded(self.linked, np.random.default_rng(0))

    @cached_property
    def some(self) -> dict[str, Any]:
        """Some of the synthetic units, as dataframes with the same keys."""
        import narwhals as nw

        kept = np.random.default_rng(1).random(len(self.linked)) < CHECKED
        found = {}
        for name, table in self.tables.items():
            rows = np.flatnonzero(kept[self.linked.units(name)])
            found[name] = nw.maybe_reset_index(nw.from_native(table, eager_only=True)[rows]).to_native()
        return found

    def table(self, attributes: Sequence[Any], given: Mapping[Any, Any], measure: str, level: float) -> Any:
        """Return the answers about units in each cell of attributes; see `Synthesizer.interval`."""
        import narwhals as nw

        if measure not in MEASURES:
            raise ArgumentError.of("measure", measure, MEASURES)
        if len(attributes) == 1 and callable(attributes[0]) and measure == "count" and not given:
            name = _name_of(attributes[0])
            returned = returned_by(attributes[0], name, self.tables)
            if not is_of_units(returned, len(self.linked), self.key):
                self._check_not_of_rows(returned, name)
                return self._statistic(Statistic.of(attributes[0], name, returned), level)
        if measure == "mean" and not attributes:
            raise QueryError("a mean is of an attribute: put a HowMany, a function, or a number of rows first.")
        every = [self.attribute(one) for one in attributes]
        names = [one.name for one in every]
        if len(set(names)) < len(names):
            raise DuplicateAttributeError.of(names, "the question")
        weights = np.ones(len(self.linked))
        for one, value in given.items():
            weights = weights * self.attribute(one).weights(value)
        cells = every[1:] if measure == "mean" else every
        shape = [len(one.labels) for one in cells]
        if math.prod(shape) > MOST_CELLS:
            raise ArgumentError(
                f"{listed(names)} have {math.prod(shape):,} combinations of values, and at most "
                f"{MOST_CELLS:,} can be asked about: group values, set most= of HowMany, or ask for a mean "
                '(measure="mean").'
            )
        cell = np.zeros(len(weights), dtype=np.int64)
        for one, size in zip(cells, shape, strict=True):
            cell = cell * size + one.codes
        averaged = every[0] if measure == "mean" else None
        counted = not any(callable(one) for one in (*attributes, *given))
        found = self._answers(cell, math.prod(shape), weights, averaged, measure, level, counted)
        indices = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), dtype=np.int64)
        columns: dict[str, Any] = {
            one.name: [one.labels[code] for code in codes] for one, codes in zip(cells, indices, strict=True)
        }
        for name, values in found.items():
            while name in columns:
                name += "_"
            columns[name] = values
        return nw.from_dict(columns, backend=cast(Any, self.schema.library)).to_native()

    def _check_not_of_rows(self, returned: Any, name: str) -> None:
        """Raise QueryError if a function returns a value for each row of a table that hangs on the root."""
        for table in self.linked.order[1:]:
            rows = self.linked.tables[table].dataset.records
            if np.ndim(returned) and len(returned) == rows >= ENOUGH_ROWS:
                raise QueryError(
                    f"{name} returns a value for each of the {rows:,} rows of '{table}', and this question is about "
                    f"rows of '{self.linked.root}': return one for each of these, as by .groupby(key).max(), or count "
                    f"rows with pgmest.HowMany('{table}', ...)."
                )

    def _statistic(self, asked: Statistic, level: float) -> Any:
        """Return the values of a function that are no values of units, and their intervals."""
        import narwhals as nw

        check_level(level)
        errors = self.result.unit_errors
        frames = {name: nw.from_native(table, eager_only=True) for name, table in self.tables.items()}
        places = places_of(errors.pool, len(self.linked))
        units = {name: places[self.linked.units(name)] for name in frames}
        rows = {name: np.flatnonzero(own >= 0) for name, own in units.items()}
        frames = {name: frame[rows[name]] for name, frame in frames.items()}
        units = {name: units[name][rows[name]] for name in frames}

        def part(inside: np.ndarray) -> dict[str, Any]:
            return {name: frame[np.flatnonzero(inside[units[name]])].to_native() for name, frame in frames.items()}

        found = asked.answers(errors, part, level)
        columns: dict[str, Any] = {"value": list(asked.labels)} if asked.labels else {}
        columns |= {"estimate": found.values, "low": found.low, "high": found.high, "basis": found.basis.tolist()}
        return nw.from_dict(columns, backend=cast(Any, self.schema.library)).to_native()

    def _answers(
        self,
        cell: np.ndarray,
        cells: int,
        weights: np.ndarray,
        averaged: UnitAttribute | None,
        measure: str,
        level: float,
        counted: bool,
    ) -> dict[str, Any]:
        """Return the answers of each cell and their ends.

        Args:
            cell: the cell of each unit.
            cells: the number of cells.
            weights: the weight of each unit under the conditions.
            averaged: the attribute whose mean is asked for.
            measure, level: as for `Synthesizer.interval`.
            counted: as for `LinkedModel.unit_interval`; without it, the answers have their basis, too.
        """
        if measure != "count" and not weights.any():
            raise QueryError("no synthetic unit has the given values, so there is no share or mean: ask for a count.")
        least, most, numbers = 0.0, np.inf if measure == "count" else 1.0, np.ones(len(cell))
        center = 0.0
        if averaged is not None:
            if averaged.numbers is None:
                raise QueryError(
                    f"'{averaged.name}' has no numbers to take the mean of: put a HowMany first, a number of rows, or "
                    f"a function, such as lambda tables: tables['{self.linked.root}'][column]."
                )
            known = np.isfinite(averaged.numbers)
            weights, numbers = weights * known, np.where(known, averaged.numbers, 0.0)
            if weights.any():
                center = np.rint(np.average(numbers, weights=weights))  # so that years are as sure as ages
            numbers = numbers - center
            least, most = averaged.ends
        at_once, parts = max(1, MOST_NUMBERS // max(1, len(cell))), []
        for start in range(0, cells, at_once):
            inside = (cell[:, None] == np.arange(start, min(start + at_once, cells))) * weights[:, None]
            among = {"count": None, "share": weights, "mean": inside}[measure]
            found = self.result.unit_interval(inside * numbers[:, None], among, level=level, counted=counted)
            ends = (np.clip(end + center, least, most) for end in (found.low, found.high))
            parts.append((found.values + center, *ends, found.basis))
        *numeric, basis = map(np.concatenate, zip(*parts, strict=True))
        answers = dict(zip((measure, "low", "high"), numeric, strict=True))
        return answers if counted else {**answers, "basis": basis.tolist()}

    def attribute(self, asked: Any) -> UnitAttribute:
        """Return an attribute of units.

        Args:
            asked: the name of a column of the root or a level of it, a `HowMany`, or a function of the tables.

        Raises:
            ArgumentError, QueryError, UnknownAttributeError: there is no such attribute of units.
        """
        if isinstance(asked, HowMany):
            return self._how_many(asked)
        if callable(asked):
            return self._computed(asked)
        if isinstance(asked, str):
            return self._column(asked)
        raise ArgumentError.of(
            "attributes", asked, f"a column of '{self.linked.root}', a pgmest.HowMany, or a function of the tables"
        )

    def _how_many(self, asked: HowMany) -> UnitAttribute:
        tables = self.linked.order[1:]
        if asked.table not in tables:
            raise ArgumentError.of("table", asked.table, tables)
        data, generator = self.linked.tables[asked.table].dataset, np.random.default_rng(2)
        counted = np.ones(data.records, dtype=bool)
        for name, weights in read_given(self.schema.parts[asked.table].schema, asked.given).weights.items():
            counted &= generator.random(data.records) < weights[data.column(name)]  # parts of bins are drawn
        numbers = np.bincount(self.linked.units(asked.table), counted, len(self.linked)).astype(np.int64)
        most = max(int(numbers.max(initial=0)), 1) if asked.most is None else min(asked.most, MOST_CELLS)
        labels = [str(number) for number in range(most + 1)]
        if asked.most is not None:
            labels[-1] += "+"
        name, codes, ends = str(asked), np.minimum(numbers, most), (0.0, self._most_rows(asked.table))
        return UnitAttribute(name, codes, labels, numbers * 1.0, lambda value: allowed(numbers, value, name), ends)

    def _most_rows(self, table: str) -> float:
        """Return the largest number of rows of a table that hang on one unit."""
        part = self.schema.parts[table]
        return 1.0 if part.parent is None else self._most_rows(part.parent) * part.at_most

    def _computed(self, function: Callable[[Any], Any]) -> UnitAttribute:
        name = _name_of(function)
        values = unit_values(function, name, self.tables, self.some, self.linked.root, self.key)
        try:
            labels, codes = np.unique(values, return_inverse=True)
        except TypeError:
            raise QueryError(f"{name} returns values of kinds that cannot be compared: return one kind.") from None
        numbers = None if values.dtype.kind in "UO" else values.astype(np.float64)
        shown = getattr(function, "__name__", "value").replace("<lambda>", "value")
        weights = lambda value: allowed(values, value, name)  # noqa: E731
        ends = (0.0 if numbers is not None and numbers.min() >= 0 else -np.inf, 1.0 if values.dtype == bool else np.inf)
        return UnitAttribute(shown, codes.ravel(), labels.tolist(), numbers, weights, ends)

    def _column(self, asked: str) -> UnitAttribute:
        root, domain = self.linked.root, self.result.domain_of(self.linked.root)
        name = self.named.computed(asked)
        try:
            level = named_levels(domain, [full_name(name, domain)])[0]
        except UnknownAttributeError:
            owned = [
                (table, column)
                for table, part in self.schema.parts.items()
                for column in part.schema.domain
                if table != root and asked in (column, f"{table}.{column}")
            ]
            if not owned:
                raise
            table, column = owned[0]
            raise QueryError(
                f"'{asked}' is of rows of '{table}', and this question is about rows of '{root}': count rows with "
                f"pgmest.HowMany('{table}', {{'{column}': value}}), or give a function of the tables."
            ) from None
        size, own = domain[level.attribute], level.attribute.removeprefix(f"{root}.")
        if own in self.linked.tables[root].domain:
            base = np.asarray(self.linked.tables[root].dataset.column(own), dtype=np.int64)
            numbers, ends = self._numbers(own, base) if level.groups is None else (None, (-np.inf, np.inf))
        else:
            sizes = self.linked.sizes(next(child for child in self.linked.children(root) if own == number_of(child)))
            base, numbers, ends = np.minimum(sizes, size - 1), sizes * 1.0, (0.0, size - 1.0)
        codes = base if level.groups is None else level.groups[base]
        labels = self.named.labels(level.name, level.size or size)
        weights = lambda value: self.named.weights(level.name, value, size)[base]  # noqa: E731
        return UnitAttribute(asked, codes, labels, numbers, weights, ends)

    def _numbers(self, name: str, codes: np.ndarray) -> tuple[np.ndarray | None, tuple[float, float]]:
        """Return the number of each code of a column of the root, the middle of its bin, and the ends of all numbers.

        Missing values are NaN. Columns of other kinds have no numbers.
        """
        (column,) = (one for one in self.schema.parts[self.linked.root].schema.columns if one.name == name)
        if not isinstance(column, Grid) or not column.numeric:
            return None, (-np.inf, np.inf)
        first, last = (np.asarray(column.from_units(end), dtype=np.float64) for end in column.points)
        middles = np.append((first + last) / 2, np.nan)
        return middles[np.minimum(codes, len(first))], (float(first.min()), float(last.max()))


def _name_of(function: Callable[[Any], Any]) -> str:
    """Return what errors call a function."""
    name = getattr(function, "__name__", type(function).__name__)
    return "the function" if name == "<lambda>" else name
