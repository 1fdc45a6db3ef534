"""The section of a report on whole households: sizes, and those with at least one person of a kind, with ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.linked import LinkedDataset
from pgmest.errors import plural
from pgmest.evaluation.reports.page import paragraph, section, table
from pgmest.mechanisms.linked.linked_model import LinkedModel
from pgmest.schema.categorical import Categorical

if TYPE_CHECKING:
    from pgmest.schema import LinkedSchema

MOST_SIZES, MOST_VALUES, MOST_ATTRIBUTES = 6, 8, 12
"""The most numbers of rows that have a line each, the most values of an attribute that is listed, and the most such
attributes of a table."""
WIDE = 0.5
"""A range of shares of at least this width says hardly anything."""

MEASURED, PERSONS, NOTHING = "measured", "NOT measured: only rows of {} were", "NOT measured: rests on the model"
"""The texts of what an answer is based on."""


@dataclass(frozen=True)
class Line:
    """The share of the units that a text describes, the ends of its range, and what it is based on."""

    text: str
    share: float
    low: float
    high: float
    basis: str

    @property
    def between(self) -> str:
        """The range as a text."""
        return f"{_percent(self.low)} and {_percent(self.high)}"

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The cells of its row."""
        wide = " (too wide to use)" if self.high - self.low >= WIDE else ""
        return self.text, _percent(self.share), self.between, self.basis + wide


def whole_units(model: LinkedModel, made: LinkedDataset, schema: LinkedSchema) -> str:
    """Return the section on shares of whole rows of the root, such as households, with ranges; "" without any rows.

    Args:
        model: the synthetic tables with the noisy answers behind them.
        made: the same tables as they are released, with rows that are possible.
        schema: the schema of the tables.
    """
    root = made.root
    if not len(made):
        return ""
    parts, left, first = list[str](), 0, None
    for name in made.order[1:]:
        lines = [*_sizes(model, made, name)]
        columns = [column for column in schema.parts[name].schema.domain if _is_listed(schema, name, column)]
        first = first or max(lines, key=lambda line: line.share)
        for column in columns[:MOST_ATTRIBUTES]:
            lines += _someone(model, made, schema, name, column)
        left += len(schema.parts[name].schema.domain) - len(columns[:MOST_ATTRIBUTES])
        parts.append(
            table(
                (f"{root} with", "share", "likely between", "based on"), [line.cells for line in lines], ("based on",)
            )
        )
    assert first is not None
    texts = [
        f"These lines are about whole {root}: which share of them has so many rows of another table, and which has at "
        f"least one row of a kind. Read them like this: of the released {root}, {_percent(first.share)} have "
        f"{first.text}, and the true share is likely between {first.between}. Of 100 such ranges, about 95 hold the "
        "truth. Where the ranges of two lines overlap, the difference between the lines may be chance.",
        "Lines that are NOT measured rest on how the synthetic tables were put together from other answers. Their "
        f"ranges assume that they are as far off as on tables where this was tried: a habit of whole {root} that no "
        "answer shows may lie outside.",
    ]
    if left:
        texts.append(f"Not listed: {plural(left, 'attribute')} of many values, or of numbers and dates.")
    return section(f"How sure shares of whole {root} are", *map(paragraph, texts), *parts)


def _is_listed(schema: LinkedSchema, name: str, column: str) -> bool:
    """Return whether a column is categorical and has few values."""
    described = schema.parts[name].schema
    return isinstance(described.column(column), Categorical) and described.domain[column] <= MOST_VALUES


def _sizes(model: LinkedModel, made: LinkedDataset, name: str) -> Iterator[Line]:
    """Yield the share of units with each number of rows of a table."""
    numbers = np.bincount(made.units(name), minlength=len(made))
    most = min(int(numbers.max(initial=0)), MOST_SIZES)
    values = np.minimum(numbers, most)[:, None] == np.arange(most + 1)
    run = model.runs[name]
    known = made.tables[name].parent == made.root and any(run.layout.number in one.clique for one in run.above)
    more = int(numbers.max(initial=0)) > most
    texts = [f"{name}: {number:,}{' or more' if more and number == most else ''}" for number in range(most + 1)]
    yield from _shares(model, values, texts, MEASURED if known else NOTHING)


def _someone(model: LinkedModel, made: LinkedDataset, schema: LinkedSchema, name: str, column: str) -> Iterator[Line]:
    """Yield the share of units with at least one row of each value of a column."""
    labels, data, full = schema.parts[name].schema.labels(column), made.tables[name].dataset, f"{name}.{column}"
    values = np.zeros((len(made), len(labels)), dtype=bool)
    values[made.units(name), np.asarray(data.column(column), dtype=np.int64)] = True
    run, child = model.runs[name], made.tables[name].parent == made.root
    of_rows = PERSONS.format(name) if any(full in one.clique for one in run.lengths) else NOTHING
    known = MEASURED if child and any(one.name == full for one in run.numbers) else of_rows
    yield from _shares(model, values, [f"{name} with {column} = {label}: at least 1" for label in labels], known)


def _shares(model: LinkedModel, values: np.ndarray, texts: Sequence[str], basis: str) -> Iterator[Line]:
    """Yield a line for each answer."""
    found = model.unit_interval(values, among=np.ones(len(values)), counted=True)
    for text, share, low, high in zip(texts, found.values, found.low, found.high, strict=True):
        yield Line(text, float(share), max(float(low), 0.0), min(float(high), 1.0), basis)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
