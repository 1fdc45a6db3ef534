"""The answers of `pgmest query`: a table of counts with the ends of its intervals, as CSV or JSON."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from pgmest.models.intervals import Interval
from pgmest.schema import Schema
from pgmest.tables.factor import Factor

OF_STDDEV = ("errors", "noise")
"""The kinds of intervals that are made from a standard error."""


@dataclass(frozen=True)
class Answer:
    """A table of counts, or of sums of weights.

    Attributes:
        table: the table.
        ends: its intervals; None if they are not known.
        evidence: the evidence behind it (`MeasuredCliques.evidence`); None if that is not known.
    """

    table: Factor
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

    def to_json(self, schema: Schema | None) -> dict[str, Any]:
        """Return the answer as JSON values; tables are nested lists with an axis per attribute."""
        entry: dict[str, Any] = {"attributes": list(self.table.domain), "counts": self.table.values.tolist()}
        if self.ends is not None:
            if self.ends.kind in OF_STDDEV:
                entry["stddev"] = (self.margin / NormalDist().inv_cdf(0.5 + self.ends.level / 2)).tolist()
            entry |= {"margin": self.margin.tolist(), "low": self.ends.low.values.tolist()}
            entry |= {"high": self.ends.high.values.tolist(), "level": self.ends.level, "interval": self.ends.kind}
        if self.evidence is not None:
            entry["evidence"] = self.evidence
        if schema is not None:
            entry["labels"] = {name: schema.labels(name) for name in self.table.domain}
        return entry

    def rows(self, schema: Schema | None) -> Iterable[Sequence[Any]]:
        """Yield the heading, and a row for each cell."""
        domain, ends = self.table.domain, self.ends
        yield [*domain.attributes, "count", *(["+-", "low", "high"] if ends else [])]
        columns = [self.table.datavector()]
        if ends:
            columns += [self.margin.ravel(), ends.low.datavector(), ends.high.datavector()]
        shown = [range(size) if schema is None else schema.labels(name) for name, size in domain.items()]
        for cell, numbers in zip(itertools.product(*shown), zip(*columns, strict=True), strict=True):
            yield [*cell, f"{numbers[0]:.10g}", *(f"{number:.5g}" for number in numbers[1:])]


def as_csv(answers: Iterable[Answer], schema: Schema | None) -> str:
    """Return the answers with an empty line between them."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for position, answer in enumerate(answers):
        if position:
            stream.write("\n")
        writer.writerows(answer.rows(schema))
    return stream.getvalue()


def as_json(answers: Iterable[Answer], schema: Schema | None) -> str:
    """Return a JSON list of the answers."""
    return json.dumps([answer.to_json(schema) for answer in answers]) + "\n"
