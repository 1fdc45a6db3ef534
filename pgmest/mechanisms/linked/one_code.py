"""Attributes of one code in linked tables: runs are made without them, and the result gets them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import Impossible, Older, Rule
from pgmest.mechanisms.linked.families import Layout
from pgmest.tables.domain import Domain


def without_constants(linked: LinkedDataset) -> LinkedDataset:
    """Return linked tables without their attributes of one code.

    Attributes by which rules count, compare or order rows stay.
    """
    rules = tuple(_without_conditions(rule, linked) for rule in linked.rules)
    kept = {(rule.table, name) for rule in rules for name in _about(rule)}
    tables = {}
    for name, table in linked.tables.items():
        kept |= {(name, table.order_by)}
        kept |= {(name, one) for clique, mask in table.structural_zeros.items() if np.all(mask) for one in clique}
        names = [one for one, size in table.domain.items() if size > 1 or (name, one) in kept]
        tables[name] = table if len(names) == len(table.domain) else _narrowed(table, names)
    return replace(linked, tables=tables, rules=rules)


def seen_by_runs(linked: LinkedDataset, layouts: Iterable[Layout]) -> LinkedDataset:
    """Return linked tables with the attributes that runs saw, and without rules."""
    seen: dict[str, Domain] = {}
    for layout in layouts:
        seen.update(zip(layout.names, (layout.parent, layout.child), strict=True))
    tables = {
        name: _narrowed(table, [one for one in table.domain if one in seen[name]])
        for name, table in linked.tables.items()
    }
    return replace(linked, tables=tables, rules=())


def with_constants(linked: LinkedDataset, whole: LinkedDataset) -> LinkedDataset:
    """Return linked tables with the attributes of one code that only `whole` has, and with its rules."""
    tables = {
        name: replace(table, dataset=table.dataset.with_constants(whole.tables[name].domain))
        for name, table in linked.tables.items()
    }
    return replace(linked, tables=tables, rules=whole.rules)


def layout_with_constants(layout: Layout, tables: Mapping[str, LinkedTable]) -> Layout:
    """Return the layout of a run with all attributes of its two tables."""
    parent, child = (
        Domain({**tables[name].domain, **own}).with_hierarchies(*tables[name].domain.hierarchies.values())
        for name, own in zip(layout.names, (layout.parent, layout.child), strict=True)
    )
    return replace(layout, parent=parent, child=child)


def _narrowed(table: LinkedTable, names: list[str]) -> LinkedTable:
    """Return a table with some of its attributes; the others must have one code."""
    found = {}
    for clique, mask in table.structural_zeros.items():
        left = [one for one in clique if one in names]
        if left:
            mask = np.asarray(mask).reshape([table.domain[one] for one in left])
            found[tuple(left)] = mask | found.get(tuple(left), False)
    return replace(table, dataset=table.dataset.select(names), structural_zeros=found)


def _without_conditions(rule: Rule, linked: LinkedDataset) -> Rule:
    """Return a rule without conditions that each row meets, as they are about attributes of one code."""
    if not isinstance(rule, Impossible):
        return rule
    own, parent = linked.tables[rule.table].domain, linked.link(rule.table)[0]
    above = tuple(one for one in rule.above if linked.tables[parent].domain[one[0]] > 1)
    first, *beside = [one for one in ((rule.attribute, rule.codes), *rule.beside) if own[one[0]] > 1] or [
        (rule.attribute, rule.codes)
    ]
    return replace(rule, attribute=first[0], codes=first[1], beside=tuple(beside), above=above)


def _about(rule: Rule) -> tuple[str, ...]:
    """Return the attributes of its table that a rule is about."""
    if isinstance(rule, Older):
        return rule.attribute, rule.column
    return (rule.attribute, *(name for name, _ in rule.beside)) if isinstance(rule, Impossible) else (rule.attribute,)
