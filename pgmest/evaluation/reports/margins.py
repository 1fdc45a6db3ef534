"""The section of a report on how far off the counts of each table are likely to be, in words for non-specialists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from pgmest._base.widths import joined
from pgmest.errors import ArgumentError
from pgmest.evaluation.reports.page import paragraph, section, table
from pgmest.measurements.measured_tables import MEASURED, MODELED, MeasuredCliques
from pgmest.models.errors.drawn_intervals import drawn_answers
from pgmest.queries import Kron
from pgmest.tables.domain import Clique

SHOWN = 30
"""The largest number of tables of each kind of evidence that the section lists."""

MOST_CELLS = 20_000
"""Tables with more cells than this are not listed: few of their counts are more than noise."""

NORMAL_95 = 1.96
"""Half of the width of a 95 % interval, in standard errors."""

EXACT = 1e-3
"""Counts with a smaller error than this are exact, such as invariants, in records."""

BASIS = {MEASURED: "measured", MODELED: "NOT measured: rests on the model"}


def likely_margins(source: Any, title: str = "How far off a count may be") -> str:
    """Return the section on the errors of counts of each attribute and pair; "" if the model has no intervals."""
    model = getattr(source, "model", source)
    known = MeasuredCliques.of(source)
    if known is None or getattr(model, "known_errors", None) is None:
        return ""
    rows, errors = [], {}
    try:
        for clique, evidence in _listed(model, known):
            errors[clique] = typical_error(model, clique)
            basis = basis_of(evidence, errors[clique])
            rows.append(
                (joined(clique, model.domain), *map(counted, np.array([1, NORMAL_95, 2]) * errors[clique]), basis)
            )
    except ArgumentError:  # the answers are of a kind from which no errors can be drawn
        return ""
    if not rows:
        return ""
    clique = max(errors, key=lambda one: (len(one), errors[one]))
    typical = errors[clique]
    example = (
        f"For example, a count in the table of {joined(clique, model.domain)} is typically off by about "
        f"{counted(typical)} records, so counts under {counted(2 * typical)} are mostly noise."
    )
    exact = " but those of tables that are held exactly" if min(errors.values()) < EXACT else ""
    parts = [
        paragraph(
            f"No count of the release is exact{exact}. The table says by how much a count is typically off, and within "
            "which distance 95 of 100 true counts are; counts below the last number are mostly noise. " + example
        ),
        paragraph(
            "Tables that were NOT measured rest on the model: their numbers assume that attributes depend on one "
            "another no more than the measured tables suggest. A stronger dependence would not be seen here."
        ),
        table(("table", "typically off by", "95 of 100 within", "mostly noise under", "based on"), rows, ("based on",)),
    ]
    pairs = len(model.domain) * (len(model.domain) - 1) // 2
    left = len(model.domain) + pairs - len(rows)
    if left > 0:
        parts.append(paragraph(f"{left:,} more attributes and pairs are not listed."))
    return section(title, *parts)


def typical_error(model: Any, query: Clique | Kron) -> float:
    """Return the root-mean-square error of a count, as a mean over the records: that of the counts that people read."""
    found = drawn_answers(model, query)
    counts, squares = np.maximum(found.answer.values, 0.0), np.mean(np.square(found.errors), axis=0)
    weights = counts if counts.sum() > 0 else np.ones_like(counts)
    return float(np.sqrt((squares * weights).sum() / weights.sum()))


def basis_of(evidence: str, error: float) -> str:
    """Return what the counts of a table are based on, in words, given their typical error."""
    return "held exactly" if error < EXACT else BASIS.get(evidence, "measured with some values merged")


def _listed(model: Any, known: MeasuredCliques) -> Iterator[tuple[Clique, str]]:
    """Yield the attributes and pairs that the section lists, measured ones first."""
    domain = model.domain
    for size in (1, 2):
        found: dict[str, list[Clique]] = {}
        for clique in itertools.combinations(domain, size):
            if domain.size(clique) <= MOST_CELLS:
                found.setdefault(known.evidence(clique), []).append(clique)
        for evidence in sorted(found, key=(MODELED.__eq__)):
            yield from ((clique, evidence) for clique in found[evidence][:SHOWN])


def counted(records: float) -> str:
    """Return a number of records as text."""
    return f"{records:,.0f}" if records >= 10 or records < EXACT else f"{records:.1f}"
