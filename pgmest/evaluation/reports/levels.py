"""The section of a report on attributes with hierarchies: the errors at each level, and the tree, folded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.widths import joined
from pgmest.errors import PgmestError, listed, percent_text, plural
from pgmest.evaluation.level_errors import level_errors
from pgmest.evaluation.reports.margins import COLUMNS, EXACT, basis_of, count_errors, counted
from pgmest.evaluation.reports.page import bullets, details, paragraph, section, table
from pgmest.measurements.measured_tables import MeasuredCliques
from pgmest.models.error_bars import interval
from pgmest.queries.levels import level_kron, named_levels
from pgmest.tables.domain import Domain
from pgmest.tables.hierarchy import SEPARATOR, Hierarchy
from pgmest.workloads import Projectable

MOST_LEAVES = 3000
"""The tree of an attribute with more values than this is shown without them."""
EVEN = "not_distinguished"
"""The key of `Result.details` with the branches whose values have even shares, since noise hides their differences."""
MOST_OPEN = 30
"""A coarsest level with more groups than this is folded as a whole."""


@dataclass(frozen=True)
class LevelCounts:
    """The counts of the groups of a level, or of the values of the attribute.

    Attributes:
        released: the released counts, shape (groups,).
        margin: the distances within which 95 of 100 true counts are, shape (groups,); None if they are not known.
        true: the true counts, shape (groups,); None on a page that may be published.
    """

    released: np.ndarray
    margin: np.ndarray | None
    true: np.ndarray | None

    def text(self, group: int) -> str:
        """Return the counts of a group in words."""
        text = counted(self.released[group])
        if self.margin is not None:
            text += " exactly" if self.margin[group] < EXACT else f" ± {counted(self.margin[group])}"
        return text if self.true is None else f"{text}, true {self.true[group]:,.0f}"


def levels_section(
    source: Projectable,
    domain: Domain,
    labels: Mapping[str, Sequence[str]],
    real: Projectable | None = None,
    heading: str = "Levels of areas and codes",
) -> str:
    """Return the section on the levels of attributes; "" if no attribute has a hierarchy.

    Args:
        source: the release.
        domain: the attributes, with their hierarchies.
        labels: attribute -> the label of each code; codes are numbers where it has none.
        real: the private records; None for a page that may be published.
        heading: the heading of the section.
    """
    if not domain.hierarchies:
        return ""
    text = (
        "Some attributes have levels, such as the chapters of codes or the regions of areas. A level adds up the values"
    )
    parts = [
        paragraph(f"{text} in each of its groups; the counts of a group and of its members add up at every level.")
    ]
    model = getattr(source, "model", source)
    rows = list(_error_rows(source, model, domain))
    if rows:
        columns = ("level", "groups", *COLUMNS, "based on")
        parts.append(table(columns, rows, texts=("based on",)))
    if real is not None:
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
        parts.append(_tree(source, model, domain, tree, labels.get(name), real, even))
    return section(heading, *parts)


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
        paragraph(f"{text}: they have even shares of their group, or those of public data. {listed(found, MOST_OPEN)}")
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


def _counts(source: Projectable, model: Any, domain: Domain, name: str, real: Projectable | None) -> LevelCounts:
    level = named_levels(domain, name)[0]

    def summed(values: np.ndarray) -> np.ndarray:
        return values if level.groups is None else np.bincount(level.groups, values, minlength=level.size or 0)

    released = summed(source.project((level.attribute,)).values)
    true = None if real is None else summed(real.project((level.attribute,)).values)
    try:
        high = interval(model, level_kron(domain, name), kind="errors").high.values
    except (PgmestError, AttributeError):  # records, models of other libraries, and models without their answers
        return LevelCounts(released, None, true)
    return LevelCounts(released, np.maximum(high - released, 0.0), true)


def _tree(
    source: Projectable,
    model: Any,
    domain: Domain,
    tree: Hierarchy,
    labels: Sequence[str] | None,
    real: Projectable | None,
    even: Collection[str],
) -> str:
    """Return the tree of an attribute, whose groups open to their members."""
    names = _names(tree) if tree.values <= MOST_LEAVES else _names(tree)[:-1]
    counts = [_counts(source, model, domain, name, real) for name in names]
    groups = [tree.groups(level) for level in tree.names] + [np.arange(tree.values)]
    texts = [tree.texts(level) for level in tree.names] + [labels or tuple(map(str, range(tree.values)))]

    def shown(depth: int, codes: np.ndarray) -> str:
        found = list(dict.fromkeys(groups[depth][codes].tolist()))
        lines = {one: f"{texts[depth][one]}: {counts[depth].text(one)}" for one in found}
        if depth == len(names) - 1:
            return bullets(lines.values())
        inner = {one: codes[groups[depth][codes] == one] for one in found}
        lowest = depth == len(tree.names) - 1
        notes = {one: ", not told apart" if lowest and texts[depth][one] in even else "" for one in found}
        return "\n".join(
            details(f"{text}  ({plural(len(inner[one]), 'value')}{notes[one]})", shown(depth + 1, inner[one]))
            if len(inner[one]) > 1
            else bullets([text])
            for one, text in lines.items()
        )

    sizes = " > ".join(f"{size:,} {level}" for level, size in tree.sizes.items())
    title = f"{joined((tree.attribute,), domain)}: {sizes} > {plural(tree.values, 'value')}"
    return details(title, shown(0, tree.order), opened=tree.size(tree.names[0]) <= MOST_OPEN)


def _share(share: float) -> str:
    return "-" if np.isnan(share) else percent_text(share, 1)
