"""The section of a report on attributes with hierarchies: the errors at each level."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from pgmest._base.widths import joined
from pgmest.errors import PgmestError, listed, percent_text, plural
from pgmest.evaluation.level_errors import level_errors
from pgmest.evaluation.reports.margins import COLUMNS, basis_of, count_errors
from pgmest.evaluation.reports.page import paragraph, section, table
from pgmest.measurements.measured_tables import MeasuredCliques
from pgmest.queries.levels import level_kron, named_levels
from pgmest.tables.domain import Domain
from pgmest.tables.hierarchy import SEPARATOR, Hierarchy
from pgmest.workloads import Projectable

EVEN = "not_distinguished"
"""The key of `Result.details` with the branches whose values have even shares, since noise hides their differences."""
MOST_NAMED = 30
"""The most branches that are named."""


def levels_section(
    source: Projectable,
    domain: Domain,
    real: Projectable | None = None,
    heading: str = "Levels of areas and codes",
) -> str:
    """Return the section on the levels of attributes; "" if nothing is known about their errors.

    Args:
        source: the release.
        domain: the attributes, with their hierarchies.
        real: the private records; None for a page that may be published.
        heading: the heading of the section.
    """
    parts = []
    rows = list(_error_rows(source, getattr(source, "model", source), domain))
    if rows:
        columns = ("level", "groups", *COLUMNS, "based on")
        parts.append(table(columns, rows, texts=("based on",)))
    if real is not None and domain.hierarchies:
        errors = [
            (joined((one.name,), domain), f"{one.groups:,}", percent_text(one.single, 1), _share(one.pairs))
            for one in level_errors(real, source, domain)
        ]
        parts.append(
            paragraph("The share of the records that would have to be moved to make each table equal to the true one:")
        )
        parts.append(table(("level", "groups", "alone", "with another attribute, on average"), errors))
    for name, tree in domain.hierarchies.items():
        even = frozenset(getattr(source, "details", {}).get(EVEN, {}).get(name, ()))
        parts += _even(domain, tree, even)
    text = (
        "Some attributes have levels, such as the chapters of codes or the regions of areas. A level adds up the values"
        " in each of its groups; the counts of a group and of its members add up at every level."
    )
    return section(heading, paragraph(text), *parts) if parts else ""


def _even(domain: Domain, tree: Hierarchy, even: Collection[str]) -> list[str]:
    """Return the branches of the lowest level whose values cannot be distinguished, in words."""
    level = (tree.inner or tree.names)[-1]
    several = np.bincount(tree.groups(level)) > 1
    found = [text for text, some in zip(tree.texts(level), several, strict=True) if some and text in even]
    if not found:
        return []
    named = joined((f"{tree.attribute}{SEPARATOR}{level}",), domain)
    text = f"In {len(found):,} of {plural(int(several.sum()), 'group')} of {named}, noise hides how the values differ"
    return [
        paragraph(f"{text}: they have even shares of their group, or those of public data. {listed(found, MOST_NAMED)}")
    ]


def _names(tree: Hierarchy) -> list[str]:
    """Return the names of the levels, and that of the attribute itself as the last one."""
    return [*(f"{tree.attribute}{SEPARATOR}{level}" for level in tree.names), tree.attribute]


def _error_rows(source: Any, model: Any, domain: Domain) -> Iterator[tuple[str, ...]]:
    """Yield the errors to expect at each level, as far as the model knows them."""
    known = MeasuredCliques.of(source)
    if known is None or getattr(model, "known_errors", None) is None:
        return
    for tree in domain.hierarchies.values():
        for name in _names(tree):
            levels = named_levels(domain, name)
            evidence = known.evidence_by_level(levels)
            try:
                errors = count_errors(model, level_kron(domain, name))
            except PgmestError:  # the answers are of a kind from which no errors can be drawn
                return
            groups = levels[0].size or domain[name]
            yield joined((name,), domain), f"{groups:,}", *errors.texts, basis_of(evidence, errors.exact)


def _share(share: float) -> str:
    return "-" if np.isnan(share) else percent_text(share, 1)
