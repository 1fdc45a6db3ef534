"""Trees of tables: each child table with its parent is a table of families, and families are put together to trees.

A parent table is extended by the numbers of rows of its other child tables, and a child table by the numbers of rows
that hang on it. So what the tables of one family say about the size of others is measured, too, and families of
another child table are found that belong to a row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable, evenly_spaced
from pgmest.data.linked_names import number_of
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.zeros import family_zeros
from pgmest.tables.domain import Domain

MOST_COMPARED = 1 << 22
"""The largest number of pairs of a row and a family that are compared at once."""


def family_table(linked: LinkedDataset, child: str) -> Families:
    """Return the families of a child table, with the numbers of rows of other tables as further attributes."""
    parent, rows = linked.link(child)
    others = [name for name in linked.children(parent) if name != child]
    above, inside = extended(linked, parent, others), extended(linked, child, linked.children(child))
    table, most = linked.tables[child], linked.most(child, parent)
    counted = tuple(
        f"{name}.{attribute}"
        for name, data in ((parent, above), (child, inside))
        for attribute in data.domain
        if attribute not in linked.tables[name].domain
    )
    layout = Layout(above.domain, inside.domain, (parent, child), most, table.ordered, table.order_by, counted)
    order, sizes = np.argsort(rows, kind="stable"), linked.sizes(child)
    parents = [*(np.asarray(column, dtype=np.int64) for column in above.columns), sizes.astype(np.int64)]
    children = np.empty((inside.records, len(inside.domain)), dtype=np.int64)
    for place, column in enumerate(inside.columns):
        children[:, place] = np.asarray(column)[order]
    return Families(layout, np.stack(parents, axis=1), children)


def extended(linked: LinkedDataset, name: str, children: tuple[str, ...] | list[str]) -> Dataset:
    """Return a table with the number of rows of each of these child tables as an attribute."""
    data = linked.tables[name].dataset
    numbers = {number_of(child): (linked.sizes(child), linked.most(child, name) + 1) for child in children}
    domain = Domain({**data.domain, **{key: size for key, (_, size) in numbers.items()}})
    domain = domain.with_hierarchies(*data.domain.hierarchies.values())
    columns = [*data.columns, *(sizes for sizes, _ in numbers.values())]
    if not columns:
        return Dataset.from_codes(np.empty((data.records, 0), dtype=np.int64), domain)
    return Dataset.from_codes(columns, domain, trusted=True)


def put_together(families: dict[str, Families], linked: LinkedDataset, generator: np.random.Generator) -> LinkedDataset:
    """Return linked tables of synthetic families.

    Args:
        families: the families of each child table, as `family_table` has them.
        linked: linked tables with the domains, limits and rules of the result; its rows are not used.
        generator: the generator for the choice among equally good families.
    """
    tables: dict[str, LinkedTable] = {}
    rows: dict[str, np.ndarray] = {}
    for child, made in families.items():
        parent = made.layout.names[0]
        above, own = linked.tables[parent], linked.tables[child]
        if parent not in rows:
            rows[parent] = made.parents[:, :-1]
            tables[parent] = LinkedTable(_dataset(rows[parent], above.domain))
        else:
            chosen = matched(rows[parent], made, linked, generator)
            made = _beside(rows[parent], made, chosen, linked, generator)
        rows[child], parent_rows = made.children, made.owners
        order = {"ordered": own.ordered, "order_by": own.order_by}
        tables[child] = LinkedTable(_dataset(rows[child], own.domain), parent, parent_rows, own.at_most, **order)
    return LinkedDataset({name: tables[name] for name in linked.order}, linked.rules)


def matched(rows: np.ndarray, families: Families, linked: LinkedDataset, generator: np.random.Generator) -> np.ndarray:
    """Return for each row of a parent table a family with as many equal codes as possible, of the wanted size first.

    Args:
        rows: the codes of the parent rows: its attributes, and then the numbers of rows of its child tables, of all or
            of all but one.
        families: the families of one of these child tables.
        linked: the linked tables.
        generator: the generator for the choice among equally good families.
    """
    own, wanted = len(linked.tables[families.layout.names[0]].domain), _wanted(rows, families, linked)
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    wishes, place = np.unique(np.column_stack([rows[:, :own], wanted]), axis=0, return_inverse=True)
    offered = np.column_stack([families.parents[:, :own], families.sizes])
    kinds, kind_of = np.unique(offered, axis=0, return_inverse=True)
    best = np.concatenate(
        [
            _nearest(wishes[start : start + max(1, MOST_COMPARED // len(kinds))], kinds)
            for start in range(0, len(wishes), max(1, MOST_COMPARED // len(kinds)))
        ]
    )
    by_kind = np.argsort(kind_of.ravel(), kind="stable")
    starts = np.searchsorted(kind_of.ravel()[by_kind], np.arange(len(kinds) + 1))
    kind = best[place.ravel()]
    at = generator.random(len(kind)) * (starts[kind + 1] - starts[kind])
    return by_kind[starts[kind] + at.astype(np.int64)]


def _wanted(rows: np.ndarray, families: Families, linked: LinkedDataset) -> np.ndarray:
    """Return the number of children that each row of a parent table is to have; arguments as for `matched`."""
    parent, child = families.layout.names
    own, siblings = len(linked.tables[parent].domain), list(linked.children(parent))
    order = siblings if rows.shape[1] == own + len(siblings) else siblings[1:]
    return rows[:, own + order.index(child)]


def _beside(
    rows: np.ndarray, families: Families, chosen: np.ndarray, linked: LinkedDataset, generator: np.random.Generator
) -> Families:
    """Return the chosen families with the codes of their parent rows, children that are possible with these, and as
    many as each row is to have where the rules allow them.

    A family of another number of children, as where noise hides the numbers of a table further down, gets them from its
    own ones, evenly spaced in their order: it loses some, or has some twice.
    """
    layout = replace(families.layout, at_most=linked.most(families.layout.names[1], families.layout.names[0]))
    rules = FamilyRules.of(linked.rules, layout, family_zeros(linked, layout))
    own, wanted = len(linked.tables[layout.names[0]].domain), _wanted(rows, families, linked)
    some = np.flatnonzero(families.sizes)
    parents, sizes = families.parents[chosen], families.sizes[chosen]
    parents[:, :own] = rows[:, :own]
    made = _of_sizes(layout, parents, families.children, families.first[chosen], sizes, sizes)
    if rules.across:
        made = rules.changed(made, generator)
    if not len(some) or np.array_equal(sizes, wanted):
        return made
    sources = np.where((sizes == 0) & (wanted > 0), generator.choice(some, len(chosen)), chosen)
    other = _of_sizes(layout, parents, families.children, families.first[sources], families.sizes[sources], wanted)
    other = rules.changed(other, generator) if rules.attributes else other
    kept = rules.broken(other) if rules.attributes else np.zeros(len(chosen), dtype=bool)
    both = np.concatenate([made.children, other.children])
    first = np.where(kept, made.first, len(made.children) + other.first)
    final = np.where(kept, made.sizes, wanted)
    return _of_sizes(layout, made.parents, both, first, final, final)


def _of_sizes(
    layout: Layout, parents: np.ndarray, children: np.ndarray, first: np.ndarray, sizes: np.ndarray, wanted: np.ndarray
) -> Families:
    """Return families of a wanted number of children, evenly spaced among adjacent ones.

    Args:
        layout, parents, children: as for `Families`; the parents' numbers of children are replaced.
        first, sizes: the place of the first child of each family among all, and how many there are.
        wanted: the number of children of each family.
    """
    return Families(layout, np.column_stack([parents[:, :-1], wanted]), children[evenly_spaced(first, sizes, wanted)])


def _nearest(wishes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Return for each wish the kind with the nearest size, and among these with the most equal codes."""
    far = np.abs(wishes[:, None, -1] - kinds[None, :, -1]) * (wishes.shape[1] + 1.0)
    return np.argmin(far + (wishes[:, None, :-1] != kinds[None, :, :-1]).sum(axis=2), axis=1)


def _dataset(rows: np.ndarray, domain: Domain) -> Dataset:
    """Return the attributes of a domain among columns that begin with them."""
    if not len(domain):
        return Dataset.from_codes(np.empty((len(rows), 0), dtype=np.int64), domain)
    return Dataset.from_codes([np.ascontiguousarray(rows[:, place]) for place in range(len(domain))], domain)
