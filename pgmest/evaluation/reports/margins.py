"""The section of a report on how far off the counts of each table are likely to be, in words for non-specialists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.widths import joined
from pgmest.errors import ArgumentError, listed, plural
from pgmest.evaluation.reports.page import paragraph, section, subsection, table
from pgmest.measurements.measured_tables import MEASURED, MODELED, MeasuredCliques
from pgmest.models.errors.drawn_intervals import drawn_answers
from pgmest.queries import Kron
from pgmest.tables.domain import Clique

SHOWN = 30
"""The largest number of tables of each kind of evidence that the section lists."""

MOST_CELLS = 20_000
"""Tables with more cells than this are not listed: few of their counts are more than noise."""

SHOWN_COUNT = 0.5
"""Smaller counts are rounded to no record; whoever reads a table reads the others."""

MORE_THAN_NOISE = 2
"""A count is mostly noise if it is less than this many times its standard error."""

FEW = 0.05
"""The share of the counts that may be farther off than a distance that holds "95 of 100", or less certain."""

EXACT = 1e-3
"""Counts with a smaller error than this are exact, such as invariants, in records."""

COLUMNS = ("typically off by", "95 of 100 within", "large counts within")
"""The headings of the errors of a table."""

NAMED = 100
"""The most other tables that are named."""

BASIS = {MEASURED: "measured", MODELED: "NOT measured: rests on the model"}
MERGED, HELD = "measured with some values merged", "held exactly"
BASES = (HELD, MEASURED, MERGED, BASIS[MODELED])
"""What counts can be based on, in the order of the section."""


@dataclass(frozen=True)
class CountErrors:
    """The likely distances of the counts of a table from the true ones, in records.

    Attributes:
        typical: the median standard error of the counts that are shown (`SHOWN_COUNT`); large counts have their own.
        within: the distance within which 95 of 100 true counts are.
        large: the same, where each count weighs as much as it has records.
        noise: counts under this number are mostly noise: of those above, at most `FEW` are. Not below `typical`.
        exact: whether all counts are exact.
    """

    typical: float
    within: float
    large: float
    noise: float
    exact: bool

    @classmethod
    def of(cls, counts: np.ndarray, errors: np.ndarray) -> CountErrors:
        """Return the errors of a table.

        Args:
            counts: the released counts, shape (cells,).
            errors: plausible errors, shape (draws, cells).
        """
        shown = counts >= min(SHOWN_COUNT, counts.max())
        counts, errors = np.maximum(counts[shown], 0.0), np.abs(errors[:, shown])
        stddev = np.sqrt(np.mean(np.square(errors), axis=0))
        weights = counts if counts.sum() > 0 else np.ones_like(counts)
        typical = float(np.median(stddev))
        within, large = _reach(errors, np.ones_like(counts)), _reach(errors, weights)
        exact = bool(np.sqrt(np.mean(np.square(stddev))) < EXACT)
        return cls(typical, within, large, max(_noise(counts, stddev), typical), exact)

    @property
    def texts(self) -> tuple[str, str, str]:
        """The cells of a row, for `COLUMNS`."""
        return counted(self.typical), counted(self.within), counted(self.large)


def _reach(errors: np.ndarray, weights: np.ndarray) -> float:
    """Return the distance within which all but few of the errors are, where each count has a weight."""
    order = np.argsort(errors, axis=None)
    share = np.cumsum(np.broadcast_to(weights, errors.shape).ravel()[order])
    return float(errors.ravel()[order][np.searchsorted(share, (1 - FEW) * share[-1])])


def _noise(counts: np.ndarray, stddev: np.ndarray) -> float:
    """Return the number such that counts under it are mostly noise."""
    order = np.argsort(-counts, kind="stable")
    counts, least = counts[order], MORE_THAN_NOISE * stddev[order]
    noisy = np.cumsum(counts < least) / np.arange(1, len(counts) + 1)
    (certain,) = np.nonzero(noisy <= FEW)
    if not len(certain):
        return float(least[0])
    last = int(certain[-1])
    largest = max(counts[last + 1], least[last + 1]) if last + 1 < len(counts) else least[last]
    return float(min(largest, counts[last]))


@dataclass(frozen=True)
class TableErrors:
    """The likely errors of the counts of each attribute and pair.

    Attributes:
        model: the model.
        known: what was measured.
        errors: the errors of each table that a report lists, with what its counts are based on (`BASES`).
    """

    model: Any
    known: MeasuredCliques | None
    errors: dict[Clique, tuple[str, CountErrors]]

    @classmethod
    def of(cls, source: Any) -> TableErrors:
        """Return the errors of a release; of no table if its model has no intervals."""
        model = getattr(source, "model", source)
        known = MeasuredCliques.of(source)
        if known is None or getattr(model, "known_errors", None) is None:
            return cls(model, known, {})
        try:
            found = {clique: (evidence, count_errors(model, clique)) for clique, evidence in _listed(model, known)}
        except ArgumentError:  # the answers are of a kind from which no errors can be drawn
            return cls(model, known, {})
        return cls(
            model, known, {clique: (basis_of(evidence, one.exact), one) for clique, (evidence, one) in found.items()}
        )

    @property
    def measured(self) -> str:
        """The numbers of attributes and pairs that were measured, in words; "" if that is not known."""
        if self.known is None:
            return ""
        found = []
        for size, noun in ((1, "attribute"), (2, "pair")):
            cliques = list(itertools.combinations(self.model.domain, size))
            count = sum(self.known.evidence(clique) != MODELED for clique in cliques)
            found += [f"{count:,} of {plural(len(cliques), noun)}"] if cliques else []
        return ", ".join(found)

    @property
    def summary(self) -> str:
        """The typical errors of counts of measured tables and of others, in words; "" without any."""
        typical: dict[str, list[float]] = {"measured tables": [], "tables that were NOT measured": []}
        for basis, one in self.errors.values():
            typical["tables that were NOT measured" if basis == BASIS[MODELED] else "measured tables"].append(
                one.typical
            )
        return "; ".join(f"{_range(values)} records in {kind}" for kind, values in typical.items() if values)

    def section(self, title: str = "How far off a count may be") -> str:
        """Return the section of a report; "" without any errors."""
        if not self.errors:
            return ""
        domain, errors = self.model.domain, {clique: one for clique, (_, one) in self.errors.items()}
        clique = max(errors, key=lambda one: (len(one), errors[one].typical))
        example = (
            f"For example, a count in the table of {joined(clique, domain)} is typically off by about "
            f"{counted(errors[clique].typical)} records, and counts under {counted(errors[clique].noise)} are mostly "
            "noise."
        )
        exact = " but those of tables that are held exactly" if any(one.exact for one in errors.values()) else ""
        parts = [
            paragraph(
                f"No count of the release is exact{exact}. The table says by how much a count of at least one record "
                "is typically off (half of the counts have a smaller standard error), and within which distance 95 of "
                "100 true counts are. Large counts are few in most tables, and may be off by more: within the next "
                "distance are 95 of 100 if each count weighs as much as it has records. Counts below the last number "
                f"are mostly noise. {example}"
            ),
            paragraph(
                "Tables that were NOT measured rest on the model: their numbers assume that attributes depend on one "
                "another no more than the measured tables suggest. A stronger dependence would not be seen here."
            ),
            *([paragraph(self.model.rows_counted)] if getattr(self.model, "rows_counted", "") else []),
            *(self._group(basis) for basis in BASES if any(other == basis for other, _ in self.errors.values())),
        ]
        every = (clique for size in (1, 2) for clique in itertools.combinations(domain, size))
        left = [joined(clique, domain) for clique in every if clique not in errors]
        if left:
            parts.append(paragraph(f"Not listed, because they are many or large: {listed(left, NAMED)}."))
        return section(title, *parts)

    def _group(self, basis: str) -> str:
        """Return the errors of the tables whose counts are based on the same."""
        rows = [
            (joined(clique, self.model.domain), *one.texts, counted(one.noise))
            for clique, (other, one) in self.errors.items()
            if other == basis
        ]
        return subsection(f"{basis[0].upper()}{basis[1:]}", table(("table", *COLUMNS, "mostly noise under"), rows))


def count_errors(model: Any, query: Clique | Kron) -> CountErrors:
    """Return how far the counts of a table are likely to be off."""
    found = drawn_answers(model, query)
    return CountErrors.of(found.answer.values.ravel(), found.errors.reshape(len(found.errors), -1))


def basis_of(evidence: str, exact: bool) -> str:
    """Return what the counts of a table are based on, in words."""
    return HELD if exact else BASIS.get(evidence, MERGED)


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


def _range(values: list[float]) -> str:
    """Return the least and the largest of some numbers of records as text."""
    least, most = counted(min(values)), counted(max(values))
    return least if least == most else f"{least} to {most}"
