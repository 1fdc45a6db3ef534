"""Combinations that cannot occur in a family: in its parent, in a child, or in both, as tables over a layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pgmest.data.linked import LinkedDataset
from pgmest.data.linked_rules import Impossible
from pgmest.inference.exact.structural_zeros import zero_rules
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.linked.families import MEMBER, NUMBER, OTHER, PARENT, Layout
from pgmest.tables.domain import Clique

Zeros = Mapping[Clique, np.ndarray]
"""Attributes of a layout -> a boolean table over their codes, True where impossible."""


def family_zeros(linked: LinkedDataset, layout: Layout) -> dict[Clique, np.ndarray]:
    """Return the impossible combinations of the two tables of a layout, and of their rules.

    Args:
        linked: the linked tables.
        layout: the attributes of a parent and its children.
    """
    found: dict[Clique, np.ndarray] = {}
    parent, child = layout.names
    for name in (parent, child):
        for clique, mask in linked.tables[name].structural_zeros.items():
            _add(found, layout, tuple(f"{name}.{attribute}" for attribute in clique), mask)
    for rule in linked.rules:
        if isinstance(rule, Impossible) and rule.table == child:
            _add(found, layout, *_of_rule(rule, layout))
    return found


def _of_rule(rule: Impossible, layout: Layout) -> tuple[Clique, np.ndarray]:
    parent, child = layout.names
    sides = [(f"{parent}.{name}", codes) for name, codes in rule.above]
    if rule.sizes is not None:
        sides.append((layout.number, rule.sizes))
    sides += [(f"{child}.{name}", codes) for name, codes in ((rule.attribute, rule.codes), *rule.beside)]
    mask = np.ones((), dtype=bool)
    for name, codes in sides:
        size = layout.domain[name] - (layout.kind(name) == MEMBER)
        mask = np.logical_and.outer(mask, np.isin(np.arange(size), codes))
    return tuple(name for name, _ in sides), mask


def _add(found: dict[Clique, np.ndarray], layout: Layout, clique: Clique, mask: np.ndarray) -> None:
    """Add a table over codes without absent children, which are always possible."""
    present = [layout.kind(name) in (MEMBER, OTHER) for name in clique]
    mask = np.pad(np.asarray(mask, dtype=bool), [(0, int(one)) for one in present])
    ordered = layout.domain.ordered(clique)
    mask = mask.transpose([clique.index(name) for name in ordered])
    found[ordered] = found[ordered] | mask if ordered in found else mask


def possible_cells(zeros: Zeros, layout: Layout, max_megabytes: float) -> PossibleCells | None:
    """Return the impossible combinations as models hold them, also those of another child.

    Args:
        zeros: the impossible combinations of a parent and a child.
        layout: the attributes.
        max_megabytes: the size limit of models.
    """
    found, twin = dict(zeros), dict(zip(layout.members, layout.others, strict=False))
    for clique, mask in zeros.items():
        if twin and any(name in twin for name in clique):
            found[tuple(twin.get(name, name) for name in clique)] = mask
    return PossibleCells.of(layout.domain, zero_rules(found), max_megabytes)


def barred_cells(zeros: Zeros, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables with attributes of children as the kernels read them (`kernels.violations`)."""
    tables = {c: mask for c, mask in zeros.items() if any(layout.kind(name) == MEMBER for name in c)}
    width = max((len(clique) for clique in tables), default=1)
    bars = np.full((len(tables), 1 + 3 * width), -1, dtype=np.int64)
    cells, first = [np.zeros(1, dtype=bool)], 1  # never empty
    for place, (clique, mask) in enumerate(tables.items()):
        steps = np.cumprod([1, *mask.shape[:0:-1]])[::-1]
        bars[place, 0] = first
        for at, (name, step) in enumerate(zip(clique, steps, strict=True)):
            bars[place, 1 + 3 * at : 4 + 3 * at] = layout.kind(name) == MEMBER, layout.place(name), step
        cells.append(mask.ravel())
        first += mask.size
    return bars, np.concatenate(cells)


def barred_attributes(zeros: Zeros, layout: Layout) -> tuple[list[int], bool]:
    """Return the places of children's attributes in impossible combinations, and whether a parent's are beside them."""
    kinds: Sequence[Clique] = [c for c in zeros if any(layout.kind(name) == MEMBER for name in c)]
    inside = sorted({layout.place(name) for clique in kinds for name in clique if layout.kind(name) == MEMBER})
    return inside, any(layout.kind(name) in (PARENT, NUMBER) for clique in kinds for name in clique)
