"""Missing values beside constraints: groups of records that a constraint leaves with few values and many gaps.

A constraint of a schema rules out values. A missing value stays possible unless the constraint lists `null`, so that an
estimate of a group with few possible values may have many missing ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgmest._base.widths import joined, shortened
from pgmest.evaluation.reports.page import paragraph, section, table
from pgmest.tables.domain import Clique
from pgmest.workloads import Projectable
from pgmest.workloads.answers import marginals

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

LEAST_SHARE, LEAST_RATIO, LEAST_RECORDS = 0.05, 2.0, 20
"""A group is named if at least this share of its records lacks the column, if the share is at least this many times
that among all records, and if the group has at least this many records."""


@dataclass(frozen=True)
class GapsInGroup:
    """A group of records, to which a constraint applies, with more missing values than elsewhere.

    Attributes:
        column: the column whose values are missing.
        group: the values of the other columns of the constraint, as text.
        share: the share of the group's records without a value.
        overall: the share of all records without a value.
        original: the share of the group's original records without a value, if these are given.
    """

    column: str
    group: str
    share: float
    overall: float
    original: float | None = None

    def __str__(self) -> str:
        return (
            f"{self.share:.0%} of the rows with {self.group} have no '{shortened(self.column)}', of all rows "
            f"{self.overall:.1%}: if a missing value cannot occur there, list null in the constraint"
        )


def gaps_in_groups(source: Projectable, schema: Schema, real: Projectable | None = None) -> list[GapsInGroup]:
    """Return the groups with unusually many missing values where a constraint rules out others, largest shares first.

    Args:
        source: the release.
        schema: its schema with constraints.
        real: the original records, if the result is for their owner only.
    """
    known = [clique for clique in schema.structural_zeros if set(clique) <= set(schema.domain) and len(clique) > 1]
    found: list[GapsInGroup] = []
    tables = marginals(source, known)
    originals = [None] * len(known) if real is None else marginals(real, known)
    for clique, released, original in zip(known, tables, originals, strict=True):
        for axis, name in enumerate(clique):
            if schema.column(name).missing:
                counts = None if original is None else original.values
                found += _gaps(clique, axis, released.values, schema, counts)
    return sorted(found, key=lambda gaps: -gaps.share)


def _gaps(
    clique: Clique, axis: int, counts: np.ndarray, schema: Schema, original: np.ndarray | None
) -> list[GapsInGroup]:
    """Return the groups of one constraint in which the attribute of an axis is missing unusually often."""
    gap = schema.column(clique[axis]).gap_code
    mask, counts = (np.moveaxis(values, axis, -1) for values in (schema.structural_zeros[clique], counts))
    values = np.delete(mask, gap, axis=-1)
    constrained = values.any(axis=-1) & ~values.all(axis=-1) & ~mask[..., gap]
    shares, overall = _shares(counts, gap), float(counts[..., gap].sum() / max(float(counts.sum()), 1.0))
    flagged = constrained & (counts.sum(axis=-1) >= LEAST_RECORDS)
    flagged &= shares >= max(LEAST_SHARE, LEAST_RATIO * overall)
    before = None if original is None else _shares(np.moveaxis(original, axis, -1), gap)
    others = [name for place, name in enumerate(clique) if place != axis]
    return [
        GapsInGroup(
            clique[axis],
            ", ".join(
                f"{joined((name,), schema.domain)} = {shortened(schema.labels(name)[code])}"
                for name, code in zip(others, codes, strict=True)
            ),
            float(shares[tuple(codes)]),
            overall,
            None if before is None else float(before[tuple(codes)]),
        )
        for codes in np.argwhere(flagged).tolist()
    ]


def _shares(counts: np.ndarray, gap: int) -> np.ndarray:
    """Return the share of the last axis's missing values in each group."""
    whole = counts.sum(axis=-1)
    return np.divide(counts[..., gap], whole, out=np.zeros(whole.shape), where=whole > 0)


def missing_section(source: Projectable, schema: Schema, real: Projectable | None = None) -> str:
    """Return the section on missing values beside constraints; empty if no group has unusually many."""
    found = gaps_in_groups(source, schema, real)
    if not found:
        return ""
    heads = ["column", "group", "missing in the group", "missing in all records"]
    heads += [] if real is None else ["missing in the original group"]
    rows = []
    for gaps in found:
        row = [joined((gaps.column,), schema.domain), gaps.group, f"{gaps.share:.1%}", f"{gaps.overall:.1%}"]
        rows.append(row if gaps.original is None else [*row, f"{gaps.original:.1%}"])
    return section(
        "Missing values beside constraints",
        paragraph(
            "In these groups a constraint rules out values, but not the missing one, and the release has many missing "
            "values. If a missing value cannot occur there either, list "
            "null among the impossible values of the constraint."
        ),
        table(heads, rows),
    )
