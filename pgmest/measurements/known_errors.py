"""KnownErrors: the public facts from which the errors of a model's tables are estimated."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.selection import PaidSelection
from pgmest.tables.domain import Clique


@dataclass(frozen=True, eq=False)
class TiedCounts:
    """The counts of rows that follow from counts of the rows on which they hang, such as households of persons.

    Attributes:
        above: the error model of the rows above; its attributes are attributes of the rows below, too.
        number: the attribute of the rows above that is their number of rows below.
        rows: how many rows below a row above with each of these numbers has.
        exactly: attributes of the rows below, each with some of its codes and the number of rows with one of these
            codes that every row above has.
    """

    above: Any
    number: str
    rows: np.ndarray
    exactly: tuple[tuple[str, tuple[int, ...], int], ...] = ()

    def counts(self, clique: Clique) -> bool:
        """Return whether a table of rows below is one of rows above, times their numbers."""
        return self.number in clique and set(clique) <= set(self.above.tables.domain)


@dataclass(frozen=True, eq=False)
class KnownErrors:
    """The noisy answers behind a model, and what its mechanism learned about tables that it did not measure.

    Attributes:
        measurements: the noisy answers.
        total_stddev: the standard error of the model's number of records; 0 if that is known.
        dependence: for some tables that were not measured, the expected l1 distance from the model's table, in counts,
            without sampling error.
        records: the number of records of which the model's tables are counts: tables that were not fitted to an answer
            have the sampling error of that many records; inf for a model without records.
        selections: the marginals that a mechanism paid to compare with its models and did not choose.
        bounds: for some marginals, a bound on the l1 distance from the model's, in counts, which selections gave before
            the model was written to a file, or scores.
        alike: whether pairs that were not measured depend as much as measured ones, within their bounds; else they
            depend less, as others were chosen for their dependence.
        relative: for tables of one attribute, and of several, the standard error of each count relative to the count
            that has other causes than noise and dependence that was not measured.
        strong: the pairs of attributes that may depend far more than others, such as those of a household and a person.
        impossible: for some sets of attributes, the cells that cannot have a record, because a structural zero excludes
            them: tables of true and false.
        tied: the counts that follow from those of another model, whose errors they have.
    """

    measurements: tuple[LinearMeasurement, ...]
    total_stddev: float = 0.0
    dependence: Mapping[Clique, float] = field(default_factory=dict)
    records: float = math.inf
    selections: tuple[PaidSelection, ...] = ()
    bounds: Mapping[Clique, float] = field(default_factory=dict)
    relative: tuple[float, float] = (0.0, 0.0)
    strong: Collection[Clique] = ()
    impossible: Mapping[Clique, np.ndarray] = field(default_factory=dict)
    tied: TiedCounts | None = None
    alike: bool = False
