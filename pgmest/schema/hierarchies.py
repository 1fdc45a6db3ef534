"""Hierarchies of columns: `hierarchy:` of a schema, which says the levels of a column from the coarsest to the finest.

    diagnosis: {type: categorical, values: [A00, A01, B20], other: other, hierarchy: {prefixes: [1], names: [chapter]}}
    diagnosis: {type: categorical, values: {file: codes.csv, column: code, levels: [chapter, block]}}   # code_book.py
    diagnosis: {..., hierarchy: {chapter: {I: [A00, A01], II: [B20]}}}  # values, ranges, or groups of finer levels
    puma: {..., hierarchy: {columns: [state]}}                          # by the constraint `determines`
    born: {type: date, ..., hierarchy: [year, month]}                   # or quarter, week, day, hour
    age: {type: integer, ..., hierarchy: {life: {minor: {min: 0, max: 17}, adult: {min: 18}}}}

At each level the label for others is a group, and missing values are one, unless a list names them. A hierarchy is
public, like all of a schema: none is learned from records.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pgmest.errors import PgmestError, listed
from pgmest.schema.bought import BoughtColumn
from pgmest.schema.categorical import Boolean, Categorical, written
from pgmest.schema.column import SchemaColumn
from pgmest.schema.constraints import codes_named
from pgmest.schema.date import STEP_UNITS, Dates
from pgmest.schema.grid import Grid
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import text_of
from pgmest.tables.domain import Clique
from pgmest.tables.hierarchy import Hierarchy

KEY = "hierarchy"
RULES = ("prefixes", "columns")
"""The keys of the rules that make levels; any other key is the name of a level with its groups."""
CALENDAR = ("year", "quarter", "month", "week", "day", "hour")
MISSING = "missing"
"""The label of missing values (`Schema.labels`)."""
MOST_LEVELS = 50
"""The most levels of a column."""

Labels = list[str | None]
"""The group of each code at a level; None for a code that no group names."""


def with_hierarchies(
    columns: Iterable[SchemaColumn],
    nodes: Mapping[str, SchemaNode],
    zeros: Mapping[Clique, np.ndarray],
    bought: Mapping[str, BoughtColumn],
) -> tuple[SchemaColumn, ...]:
    """Return the columns as they are coded, those that have a hierarchy with it.

    Args:
        columns: the columns that have codes.
        nodes: the descriptions of all columns, which may have the key `hierarchy`.
        zeros: the structural zeros of the constraints, from which `{columns: [...]}` takes its groups.
        bought: the columns that have no codes yet, whose hierarchies are checked.

    Raises:
        SchemaError: a hierarchy is not valid; the error names the line and the value.
    """
    known = {column.name: column for column in columns}
    for name, described in nodes.items():
        if not isinstance(described.value, dict) or KEY not in described.value:
            continue
        node = described.value[KEY].called(f"column '{name}': {KEY}")
        if name in bought:
            _check_bought(node, bought[name])
        elif name not in known:
            node.fail("cannot be used: the column is a total without codes of its own. Give its parts hierarchies.")
        else:
            known[name] = replace(known[name], hierarchy=_read(node, known, zeros, name))
    return tuple(known.values())


def _read(
    node: SchemaNode, columns: Mapping[str, SchemaColumn], zeros: Mapping[Clique, np.ndarray], name: str
) -> Hierarchy:
    column = columns[name]
    _check_number(node)
    levels = _levels(node, columns, zeros, column)
    labels = [*column.labels(), *([MISSING] if column.missing else [])]
    own = range(column.listed, column.size)  # the codes of others and of missing values
    for level, groups in levels.items():
        left = [labels[code] for code, group in enumerate(groups) if group is None and code not in own]
        if left:
            node.fail(f"leaves values in no group of '{level}': {listed(left, 6)}. Add them to a group.")
        taken = set(groups)
        for code in own:
            if groups[code] is None:
                groups[code] = _unused(labels[code], taken)
                taken.add(groups[code])
    try:
        return Hierarchy(name, {level: [str(group) for group in groups] for level, groups in levels.items()})
    except PgmestError as error:
        node.fail(f"cannot be used: {error}")


def _check_number(node: SchemaNode) -> None:
    """Raise SchemaError if a hierarchy has more than `MOST_LEVELS` levels, before any is made."""
    fields = node.value if isinstance(node.value, dict) else {}
    rules = [fields[key].value for key in RULES if key in fields and isinstance(fields[key].value, list)]
    if any(isinstance(levels, dict | list) and len(levels) > MOST_LEVELS for levels in (node.value, *rules)):
        node.fail(f"has more than {MOST_LEVELS} levels: leave some out.")


def _unused(label: str, taken: set[str | None]) -> str:
    """Return a label for the group of one code that no other group has."""
    for text in (label, f"{label} (no value)" if label == MISSING else f"{label} (not listed)"):
        if text not in taken:
            return text
    return _unused(f"{label}*", taken)


def _levels(
    node: SchemaNode, columns: Mapping[str, SchemaColumn], zeros: Mapping[Clique, np.ndarray], column: SchemaColumn
) -> dict[str, Labels]:
    """Return the groups at each level, from the coarsest to the finest."""
    if isinstance(node.value, list):
        return _calendar(node, column)
    fields = node.mapping("levels with their groups, a list such as [year, month], or {prefixes: [1, 3]}")
    rule = next((key for key in RULES if key in fields and not isinstance(fields[key].value, dict)), None)
    if rule is None:
        return _by_lists(node, column)
    if rule == "columns":
        return _by_columns(node.fields((rule,))[rule], columns, zeros, column)
    found = node.fields((rule, "names"))
    levels = _by_prefixes(found[rule], column)
    if "names" not in found:
        return levels
    names = [written_text(item) for item in found["names"].items()]
    if len(set(names)) != len(levels) or len(names) != len(levels):
        count = "one name" if len(levels) == 1 else f"{len(levels)} different names"
        found["names"].fail(f"must be {count}, one for each of prefixes, not {listed(names)}.")
    return dict(zip(names, levels.values(), strict=True))


def written_text(node: SchemaNode) -> str:
    """Return a single value as text."""
    return text_of(node.scalar()) or ""


# -- rules ---------------------------------------------------------------------------------------------------------


def _by_prefixes(node: SchemaNode, column: SchemaColumn) -> dict[str, Labels]:
    if not isinstance(column, Categorical) or isinstance(column, Boolean):
        node.fail("goes with type: categorical, whose values are codes.")
    lengths = [item.integer(1) for item in node.items()]
    if not lengths or any(a >= b for a, b in itertools.pairwise(lengths)):
        node.fail("must be growing numbers of characters, the coarsest level first, such as [1, 3].")
    texts = [written(value) for value in column.values]
    shortest, longest = min(texts, key=len), max(texts, key=len)
    if len(shortest) != len(longest) and not any(isinstance(value, str) for value in column.values):
        node.fail(
            f"goes with codes of one length, but {shortest} and {longest} are numbers of different lengths, as if "
            f'leading zeros had been lost. Write the values as texts, such as "{shortest.zfill(len(longest))}".'
        )
    found = {}
    for length in lengths:
        spelled: dict[str, str] = {}
        groups = [
            spelled.setdefault(t[:length].lower() if column.ignore_case else t[:length], t[:length]) for t in texts
        ]
        found[f"prefix{length}"] = [*groups, *[None] * (column.size - len(texts))]
    return found


def _calendar(node: SchemaNode, column: SchemaColumn) -> dict[str, Labels]:
    if not isinstance(column, Grid) or not isinstance(column.notation, Dates):
        node.fail("is a list of units of the calendar, which goes with type: date.")
    found: dict[str, Labels] = {}
    first, last = (ends.astype(f"M8[{STEP_UNITS[column.notation.step]}]") for ends in column.points)
    bins = column.labels()
    for item in node.items():
        unit = item.choice(CALENDAR)
        if unit in found:
            item.fail(f"names '{unit}' twice.")
        begins, ends = _periods(first, unit), _periods(last, unit)
        apart = np.flatnonzero(np.array(begins) != np.array(ends))
        if len(apart):
            item.fail(
                f"names '{unit}', but the bin {bins[apart[0]]} lies in several, {begins[apart[0]]} and "
                f"{ends[apart[0]]}: take bins within one (unit: {unit if unit in ('year', 'month') else 'day'}), or "
                "leave the level out."
            )
        found[unit] = [*begins, *[None] * (column.size - len(bins))]
    if not found:
        node.fail("names no level, such as [year, month].")
    return found


def _periods(times: np.ndarray, unit: str) -> list[str]:
    """Return the label of the period of the calendar that holds each time."""
    if unit in ("year", "month", "day", "hour"):
        kind = {"year": "Y", "month": "M", "day": "D", "hour": "h"}[unit]
        return [text.replace("T", " ") for text in times.astype(f"M8[{kind}]").astype(str).tolist()]
    if unit == "quarter":
        months = times.astype("M8[M]").astype(np.int64)
        return [f"{1970 + month // 12}-Q{month % 12 // 3 + 1}" for month in months.tolist()]
    weeks = (day.isocalendar() for day in times.astype("M8[D]").astype(object))
    return [f"{week.year}-W{week.week:02}" for week in weeks]


def _by_columns(
    node: SchemaNode, columns: Mapping[str, SchemaColumn], zeros: Mapping[Clique, np.ndarray], column: SchemaColumn
) -> dict[str, Labels]:
    """Return levels that are other columns, as the constraints `determines` say which value each code has of them."""
    if not isinstance(column, Categorical):
        node.fail("goes with type: categorical.")
    found: dict[str, Labels] = {}
    finer, groups = column, np.arange(len(column.values))
    for item in reversed(node.items()):
        name = item.text()
        target = columns.get(name)
        if not isinstance(target, Categorical):
            item.fail(f"names '{name}', which is no column of type categorical.")
        if name in found or name == column.name:
            item.fail(f"names '{name}' twice, or as its own level.")
        direct = (column.name, name) in zeros
        source, table = (column, zeros.get((column.name, name))) if direct else (finer, zeros.get((finer.name, name)))
        if table is None:
            item.fail(
                f"needs the constraint determines: {{from: {column.name}, to: {name}, table: {{...}}}}, since the map "
                "must be public: it is never learned from the records."
            )
        rows = np.arange(len(column.values)) if direct else groups
        groups = _determined(item, source, target, table, rows)
        labels = target.labels()
        found[name] = [*(labels[code] for code in groups), *[None] * (column.size - len(column.values))]
        finer = target
    return dict(reversed(found.items()))


def _determined(
    node: SchemaNode, source: Categorical, target: Categorical, impossible: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Return the code of the target that a constraint leaves to each of some codes of the source."""
    possible = ~impossible[rows, : target.regular]
    unclear = np.flatnonzero(possible.sum(axis=1) != 1)
    if len(unclear):
        few = listed(dict.fromkeys(source.labels()[code] for code in rows[unclear]), 6)
        node.fail(
            f"needs one value of '{target.name}' for each value of '{source.name}', but the constraint 'determines' "
            f"says none or several for {few}."
        )
    return possible.argmax(axis=1)


# -- lists ---------------------------------------------------------------------------------------------------------


def _by_lists(node: SchemaNode, column: SchemaColumn) -> dict[str, Labels]:
    """Return levels whose groups are listed; a member is a value, a range, or a group of a finer level."""
    levels = {key: inner.called(f"{node.name}: {key}") for key, inner in node.mapping().items()}
    if not levels:
        node.fail("names no level, such as {chapter: {A: [A00, A01]}}.")
    codes = {label: [code] for code, label in enumerate(column.labels())} if isinstance(column, Categorical) else {}
    finer: dict[str, list[int]] = {}
    found: dict[str, Labels] = {}
    for level, inner in reversed(levels.items()):
        groups: Labels = [None] * column.size
        members: dict[str, list[int]] = {}
        for group, listing in _groups(inner, level).items():
            items = listing.items() if isinstance(listing.value, list) else [listing]
            for item in items:
                own = _members(item.called(f"{inner.name}: {group}"), column, codes, finer)
                members.setdefault(group, []).extend(own)
                _put(item.called(inner.name), groups, group, own)
        found[level] = groups
        finer = {**members, **finer}
    return dict(reversed(found.items()))


def _groups(node: SchemaNode, level: str) -> dict[str, SchemaNode]:
    """Return the groups of a level with what they list; a list in their place may be meant for a rule."""
    near = difflib.get_close_matches(level, RULES, n=1) if isinstance(node.value, list) else []
    if near:
        node.fail(f"is the name of a level, whose groups are a mapping, not a list. Did you mean '{near[0]}'?")
    return node.mapping("a mapping of groups to lists of values")


def _members(
    node: SchemaNode, column: SchemaColumn, codes: Mapping[str, list[int]], finer: Mapping[str, list[int]]
) -> list[int]:
    if node.value is None:
        return codes_named(node, column)
    if isinstance(node.value, dict):
        return _range(node, column)
    text = written_text(node)
    if text in codes:
        return codes[text]
    if text in finer:
        return finer[text]
    return codes_named(node, column)


def _range(node: SchemaNode, column: SchemaColumn) -> list[int]:
    """Return the codes of a range, which must hold whole bins."""
    inside = codes_named(node, column)
    if isinstance(column, Grid):
        read = column.notation.number_of
        least = read(node.value["min"]) if "min" in node.value else column.low
        most = read(node.value["max"], last=True) if "max" in node.value else column.high
        for code in column.bins_of(np.array([least, most])).tolist():
            if code not in inside and (code != inside[-1] + 1 or column.starts[code] != most):
                node.fail(f"cuts the bin {column.labels()[code]} in two: take bounds where bins end.")
    return inside


def _put(node: SchemaNode, groups: Labels, group: str, codes: Sequence[int]) -> None:
    for code in codes:
        if groups[code] not in (None, group):
            node.fail(f"puts {node.shown} into two groups, {groups[code]!r} and {group!r}.")
        groups[code] = group


def as_lists(column: SchemaColumn) -> dict[str, dict[str, list[Any]]]:
    """Return the hierarchy of a categorical column as lists of values, as a schema may state it."""
    assert isinstance(column, Categorical)
    assert column.hierarchy is not None
    values = [*column.values, *([] if column.other is None else [column.other]), *([None] if column.missing else [])]
    tree = column.hierarchy
    return {
        level: {tree.label(level, one): [values[code] for code in tree.members(level, one)] for one in range(size)}
        for level, size in tree.sizes.items()
    }


# -- values that are bought ----------------------------------------------------------------------------------------


def _check_bought(node: SchemaNode, column: BoughtColumn) -> None:
    """Raise SchemaError if the hierarchy could be invalid after the purchase, which would stop a paid run."""
    rule = isinstance(node.value, dict) and "prefixes" in node.value
    if not column.labels:
        node.fail("needs public bounds: state them (min:, max:) instead of buying them, or leave the hierarchy out.")
    if not column.among and not rule:
        node.fail("of values that nobody listed is {prefixes: [...]}; others need a public list (among: [...]).")
    made = column.column(**{key: value for key, value in column.stand_in().items() if key == "values"})
    _read(node, {column.name: made}, {}, column.name)


def with_values(hierarchy: Any, kept: Iterable[str]) -> Any:
    """Return a hierarchy, as plain data of a schema, with these of its values only, and the groups that have some.

    >>> with_values({"chapter": {"I": ["A", "B"], "II": ["C"]}}, ["A"])
    {'chapter': {'I': ['A']}}
    """
    if not isinstance(hierarchy, Mapping) or not all(isinstance(groups, Mapping) for groups in hierarchy.values()):
        return hierarchy
    known, levels = set(kept), {}
    for level, groups in reversed(list(hierarchy.items())):
        lists = {group: items if isinstance(items, list) else [items] for group, items in groups.items()}
        left = {group: [one for one in items if one is None or text_of(one) in known] for group, items in lists.items()}
        levels[level] = {group: items for group, items in left.items() if items}
        known |= set(levels[level])
    return dict(reversed(levels.items()))
