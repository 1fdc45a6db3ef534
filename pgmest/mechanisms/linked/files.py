"""The entries of linked tables with the noisy answers behind them in the file of a `LinkedModel` (`models/files.py`).

Each table has its codes and the rows on which its rows hang. Each run has the codes of parents and children, the noisy
tables of parents, the lengths and the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmest._base.npz import Unreadable, number, objects, whole
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import ArgumentError
from pgmest.measurements.checks import LARGEST_ANSWER, SMALLEST_STDDEV
from pgmest.measurements.files.read import decode_measurements
from pgmest.mechanisms.linked.families import MEMBER, OTHER, Families, Layout
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.lengths import MeasuredLengths
from pgmest.mechanisms.linked.numbers import MeasuredNumbers
from pgmest.mechanisms.linked.pairing import MOST_COUNTED
from pgmest.models.files import (
    dataset_tree,
    distances_tree,
    domain_tree,
    measurements_tree,
    read_dataset,
    read_distances,
    read_domain,
)
from pgmest.tables.domain import Clique, Domain

Tree = Mapping[str, Any]

LARGEST_ENTRY = 1e6
"""The largest entry of a query on parents, and the largest length to which families are cut: queries that are measured
have contrasts and sums, whose entries are at most 1, and lengths are at most those of the largest family."""


def linked_tree(model: LinkedDataset, runs: Mapping[str, FamilyModel]) -> dict[str, Any]:
    """Describe linked tables and the runs on them.

    Raises:
        ArgumentError: an answer cannot be written to a file.
    """
    tables = [
        {
            "name": name,
            "parent": table.parent,
            "at_most": table.at_most,
            "ordered": table.ordered,
            "order_by": table.order_by,
            **domain_tree(table.domain),
            "codes": dataset_tree(table.dataset.columns, table.rows, table.domain),
            "parent_rows": None if table.parent is None else model.link(name)[1],
        }
        for name, table in model.tables.items()
    ]
    return {"tables": tables, "runs": [{"child": child, **_run_tree(run)} for child, run in runs.items()]}


def _run_tree(run: FamilyModel) -> dict[str, Any]:
    layout, above = run.layout, measurements_tree(run.above)
    if isinstance(above, str):
        raise ArgumentError(f"the linked tables cannot be saved, as {above}.")
    lengths = [
        {
            "clique": list(one.clique),
            "groups": [labels.tolist() for labels in one.groups],
            "values": one.values,
            "stddev": float(one.stddev),
            "averaged": bool(one.averaged),
            "cut": float(one.cut),
        }
        for one in run.lengths
    ]
    return {
        "layout": {
            "parent": domain_tree(layout.parent),
            "child": domain_tree(layout.child),
            "names": list(layout.names),
            "at_most": layout.at_most,
            "ordered": layout.ordered,
            "rising": layout.rising,
            "counted": list(layout.counted),
        },
        "parents": dataset_tree(run.families.parents.T, len(run.families.parents), _codes(layout, layout.parents, 0)),
        "children": dataset_tree(run.families.children.T, len(run.families.children), _codes(layout, layout.members)),
        "total": float(run.total),
        "total_stddev": float(run.total_stddev),
        "above": above,
        "lengths": lengths,
        "numbers": [
            {"name": one.name, "values": one.values, "stddev": float(one.stddev), "cut": float(one.cut)}
            for one in run.numbers
        ],
        "scored": distances_tree(run.scored),
    }


def read_linked(tree: Tree) -> tuple[LinkedDataset, dict[str, FamilyModel]]:
    """Return the tables and the runs that `linked_tree` described.

    Raises:
        Unreadable, PgmestError, KeyError, TypeError, ...: the description is wrong.
    """
    most = tree["most_values"]
    layouts = [_layout(entry["layout"], most) for entry in objects(tree, "runs")]
    domains = [read_domain(entry, most) for entry in objects(tree, "tables")]
    limits = [0 if entry["parent"] is None else whole(entry, "at_most", 1) for entry in objects(tree, "tables")]
    values = sum(sum(domain.shape) for domain in (*domains, *(layout.domain for layout in layouts))) + sum(limits)
    if values > most:
        raise Unreadable(f"its attributes and numbers of rows have {values:,} values, more than {most:,}")
    tables = {entry["name"]: _table(entry, domain) for entry, domain in zip(tree["tables"], domains, strict=True)}
    linked = LinkedDataset(tables)
    runs = {entry["child"]: _run(entry, layout) for entry, layout in zip(tree["runs"], layouts, strict=True)}
    if len(tables) != len(domains) or len(runs) != len(layouts):
        raise Unreadable("it has a table or a run twice")
    _check(linked, runs)
    return linked, runs


def _table(entry: Tree, domain: Domain) -> LinkedTable:
    if not isinstance(entry["name"], str) or not isinstance(entry["ordered"], bool):
        raise Unreadable("the name or the order of a table is wrong")
    data = read_dataset(domain, entry["codes"])
    if entry["parent"] is None:
        return LinkedTable(data)
    order = {"ordered": entry["ordered"], "order_by": entry["order_by"]}
    return LinkedTable(data, entry["parent"], entry["parent_rows"], entry["at_most"], **order)


def _layout(fields: Tree, most: float) -> Layout:
    at_most, ordered, rising = whole(fields, "at_most", 1), fields["ordered"], fields["rising"]
    parent, child = (read_domain(fields[name], most) for name in ("parent", "child"))
    one, other = fields["names"]
    if not (isinstance(one, str) and isinstance(other, str) and isinstance(ordered, bool) and at_most <= most):
        raise Unreadable("the names, the order or the limit of a run are wrong")
    layout = Layout(parent, child, (one, other), at_most, ordered, rising, tuple(fields["counted"]))
    if not set(layout.counted) <= set(layout.domain) or not (rising is None or rising in child):
        raise Unreadable("a run counts or orders what is no attribute")
    return layout


def _run(entry: Tree, layout: Layout) -> FamilyModel:
    """Return a run; its codes are never those of absent parents or children."""
    names = ((layout.parents, 0), (layout.members, 1))
    parents, children = (
        np.array(read_dataset(_codes(layout, *which), entry[part]).columns, dtype=np.int64).reshape(len(which[0]), -1).T
        for part, which in zip(("parents", "children"), names, strict=True)
    )
    if not layout.members:
        children = np.zeros((entry["children"].shape[1], 0), dtype=np.int64)
    if int(parents[:, -1].sum()) != len(children):
        raise Unreadable("its families have other numbers of children than there are")
    for one in objects(entry, "above"):
        _check_entries(one.get("query"))
    return FamilyModel(
        Families(layout, np.ascontiguousarray(parents), np.ascontiguousarray(children)),
        tuple(_lengths(one, layout) for one in objects(entry, "lengths")),
        decode_measurements(entry["above"], layout.domain),
        number(entry, "total", 0, LARGEST_ANSWER),
        number(entry, "total_stddev", 0, LARGEST_ANSWER),
        tuple(_numbers(one, layout) for one in objects(entry, "numbers")),
        scored=read_distances(layout.domain, entry["scored"]),
    )


def _codes(layout: Layout, names: Clique, absent: int = 1) -> Domain:
    """Return the attributes of parents or of children, without the code of those who are absent."""
    return Domain({name: layout.domain[name] - absent for name in names})


def _lengths(fields: Tree, layout: Layout) -> MeasuredLengths:
    clique, groups, averaged = tuple(fields["clique"]), _groups(fields, layout), fields["averaged"]
    if not isinstance(averaged, bool):
        raise Unreadable("a length does not say what was measured")
    values = _values(fields, tuple(int(labels[-1]) + 1 for labels in groups))
    return MeasuredLengths(clique, groups, values, _stddev(fields), averaged, number(fields, "cut", 0, LARGEST_ENTRY))


def _groups(fields: Tree, layout: Layout) -> tuple[np.ndarray, ...]:
    """Return the groups of a length's codes."""
    clique, groups = fields["clique"], tuple(np.array(labels) for labels in fields["groups"])
    if not 1 <= len(clique) <= 2 or len(groups) != len(clique) or layout.is_above(tuple(clique)):
        raise Unreadable("a length has other attributes than groups")
    for name, labels in zip(clique, groups, strict=True):
        if labels.shape != (layout.domain[name],) or labels.dtype.kind != "i":
            raise Unreadable(f"a length has no group for each code of {name}")
        present = labels[: len(labels) - (layout.kind(name) in (MEMBER, OTHER))]
        every = range(min(labels[-1] + 1, len(labels)))
        if set(labels.tolist()) != set(every) or present.max() > present[-1]:
            raise Unreadable(f"a length has wrong groups of {name}")
    return groups


def _numbers(fields: Tree, layout: Layout) -> MeasuredNumbers:
    if fields["name"] not in layout.members:
        raise Unreadable("it has numbers of what is no attribute of a child")
    values = _values(fields, (layout.domain[fields["name"]] - 1, MOST_COUNTED))
    return MeasuredNumbers(fields["name"], values, _stddev(fields), number(fields, "cut", 0, LARGEST_ENTRY))


def _values(fields: Tree, shape: tuple[int, ...]) -> np.ndarray:
    values = fields["values"]
    if values.shape != shape or values.dtype != np.float64 or not (np.abs(values) <= LARGEST_ANSWER).all():
        raise Unreadable("it has noisy answers that are no counts, or not one for each group")
    return values


def _stddev(fields: Tree) -> float:
    return number(fields, "stddev", SMALLEST_STDDEV, LARGEST_ANSWER)


def _check_entries(query: Any) -> None:
    """Raise Unreadable if a number in the description of a query is larger than any that is measured."""
    waiting = [query]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int | float | np.ndarray) and not np.all(np.abs(value) <= LARGEST_ENTRY):
            raise Unreadable(f"a measured query has the entry {value!r}")


def _check(linked: LinkedDataset, runs: Mapping[str, FamilyModel]) -> None:
    """Raise Unreadable unless there is a run for each child table, about its parent and itself."""
    if not runs or set(runs) != set(linked.order[1:]):
        raise Unreadable("it has not one run for each table that hangs on another")
    for child, run in runs.items():
        names, own = run.layout.names, linked.tables[child]
        parts = ((names[0], run.layout.parent), (names[1], run.layout.child))
        if names != (own.parent, child) or (run.layout.ordered, run.layout.rising) != (own.ordered, own.order_by):
            raise Unreadable(f"its run on '{child}' is about other tables")
        if any(_lacking(linked.tables[name].domain, domain) for name, domain in parts):
            raise Unreadable(f"its run on '{child}' has other attributes than the tables")
    first = next(iter(runs.values()))
    if len(linked) != len(first.families.parents):
        raise Unreadable(f"it has {len(linked):,} rows of '{linked.root}', and other families")


def _lacking(own: Domain, seen: Domain) -> bool:
    """Return whether a run lacks an attribute of several codes of a table, or has them in another order."""
    known = tuple(name for name in own if name in seen)
    return known != tuple(seen)[: len(known)] or not set(own.varying) <= set(known)
