"""The answers of `pgmest query`: a table of counts with the ends of its intervals, as CSV or JSON."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from pgmest.cli.command import say
from pgmest.cli.streams import write_text
from pgmest.models.intervals import Interval
from pgmest.tables.factor import Factor

OF_STDDEV = ("errors", "noise")
"""The kinds of intervals that are made from a standard error."""

MARGIN_DIGITS, MOST_DIGITS = 3, 10
"""The significant digits of a margin of error on the terminal, and the most digits of the number beside it: a margin is
itself an estimate, of which further digits say nothing."""


@dataclass(frozen=True)
class Answer:
    """A table of counts, or of sums of weights.

    Attributes:
        table: the table.
        labels: attribute or level -> the label of each code or group, for those whose labels are known.
        ends: its intervals; None if they are not known.
        evidence: the evidence behind it (`MeasuredCliques.evidence`); None if that is not known.
    """

    table: Factor
    labels: Mapping[str, Sequence[str]]
    ends: Interval | None = None
    evidence: str | None = None

    @property
    def margin(self) -> np.ndarray:
        """The margin of error of each count: half of the width of its interval, before its low end was moved to 0."""
        if self.ends is None:
            return np.zeros(self.table.values.shape)
        if self.ends.kind in OF_STDDEV:
            return self.ends.high.values - self.table.values
        return self.ends.width.values / 2

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values; tables are nested lists with an axis per attribute."""
        entry: dict[str, Any] = {"attributes": list(self.table.domain), "counts": self.table.values.tolist()}
        if self.ends is not None:
            if self.ends.kind in OF_STDDEV:
                entry["stddev"] = (self.margin / NormalDist().inv_cdf(0.5 + self.ends.level / 2)).tolist()
            entry |= {"margin": self.margin.tolist(), "low": self.ends.low.values.tolist()}
            entry |= {"high": self.ends.high.values.tolist(), "level": self.ends.level, "interval": self.ends.kind}
            entry["about"] = self.ends.about
        if self.evidence is not None:
            entry["evidence"] = self.evidence
        if self.labels:
            entry["labels"] = {name: list(texts) for name, texts in self.labels.items()}
        return entry

    def rows(self, rounded: bool = False) -> Iterable[Sequence[Any]]:
        """Yield the heading, and a row for each cell; numbers as for `number_texts`."""
        domain, ends = self.table.domain, self.ends
        yield [*domain.attributes, "count", *(["+-", "low", "high"] if ends else [])]
        columns = [self.table.datavector()]
        if ends:
            columns += [self.margin.ravel(), ends.low.datavector(), ends.high.datavector()]
        shown = [self.labels.get(name, range(size)) for name, size in domain.items()]
        for cell, numbers in zip(itertools.product(*shown), zip(*columns, strict=True), strict=True):
            yield [*cell, *number_texts(list(map(float, numbers)), rounded)]


def number_texts(numbers: Sequence[float], rounded: bool) -> list[str]:
    """Return a count as a text, followed by its margin of error and the ends of its interval, if these are known.

    Args:
        numbers: the count, alone or with the margin and the two ends. NaN is an empty text.
        rounded: whether the margin has three significant digits and the others end at the same decimal; otherwise the
            count has ten digits and the others have five.
    """
    margin = numbers[1] if rounded and len(numbers) > 1 else 0.0
    kinds = [f".{MOST_DIGITS}g", *[".5g"] * 3]
    if math.isfinite(margin) and margin > 0.0:
        decimals = MARGIN_DIGITS - 1 - int(f"{margin:e}".partition("e")[2])
        largest = max(abs(numbers[0]), margin)
        if 10.0 ** (MOST_DIGITS - decimals) > largest:
            numbers = [round(number, decimals) + 0.0 for number in numbers]
            kinds = [f".{max(decimals, 0)}f"] * 4
    return ["" if number != number else format(number, kind) for number, kind in zip(numbers, kinds, strict=False)]


class Shown(Protocol):
    """An answer that is shown as rows of CSV, or as JSON."""

    def rows(self, rounded: bool = False) -> Iterable[Sequence[Any]]:
        """Yield the heading, and a row for each cell; numbers as for `number_texts`."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        ...


def as_csv(answers: Iterable[Shown], rounded: bool = False) -> str:
    """Return the answers with an empty line between them; numbers as for `number_texts`."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for position, answer in enumerate(answers):
        if position:
            stream.write("\n")
        writer.writerows(answer.rows(rounded))
    return stream.getvalue()


def write_answers(answers: Iterable[Shown], in_json: bool, path: str | None, rows_counted: str) -> None:
    """Write answers as CSV or JSON to a file, with all digits; or to standard output, where CSV has rounded numbers.

    Args:
        answers: the answers.
        in_json: whether to write JSON.
        path: the file.
        rows_counted: the sentence on the rows that are counted: in each answer of JSON, else on standard error.
    """
    write_text(as_json(answers, rows_counted) if in_json else as_csv(answers, rounded=path in (None, "-")), path)
    if rows_counted and not in_json:
        say(rows_counted)


def as_json(answers: Iterable[Shown], rows_counted: str = "") -> str:
    """Return a JSON list of the answers, each with the sentence on the rows that are counted."""
    noted = {"rows_counted": rows_counted} if rows_counted else {}
    return json.dumps([answer.to_json() | noted for answer in answers]) + "\n"
