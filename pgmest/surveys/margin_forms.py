"""Totals by label from any form that users have them in: mappings, Series, cross tables, long tables and Factors."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgmest.data.frames import narrowed
from pgmest.errors import ArgumentError, excerpt, listed, plural
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


def as_label(item: Any) -> Any:
    """Return a label; None for all marks of missing values, of which no library finds one by another."""
    missing = type(item).__name__ in ("NAType", "NaTType") or (isinstance(item, float | np.floating) and item != item)
    return None if missing else item


def cell_totals(given: Any, names: Clique, free: bool) -> dict[tuple[Any, ...], float]:
    """Return the totals of one control by labels, each checked to be a count."""
    where = f"margins[{names[0]!r}]" if len(names) == 1 else f"margins[{names!r}]"
    pairs = _pairs(given, names, where)
    totals: dict[tuple[Any, ...], float] = {}
    for key, total in pairs:
        key = tuple(map(as_label, key))
        try:
            number = float(total)
        except (TypeError, ValueError):
            number = math.nan
        unknown = free and as_label(total) is None
        if not (0 <= number < math.inf or unknown) or isinstance(total, bool):
            raise ArgumentError.of(f"{where}[{excerpt(key, 40)}]", total, "a finite number of at least 0")
        try:
            repeated = key in totals
        except TypeError:
            raise ArgumentError.of(where, key, "a control by labels that can be keys of a dict") from None
        if repeated or len(key) != len(names):
            problem = "is there twice" if repeated else f"names {len(key)} labels for {plural(len(names), 'column')}"
            raise ArgumentError(f"{where}: the category {excerpt(key)} {problem}; give one total for each.")
        totals[key] = number
    if not totals:
        raise ArgumentError(f"{where} has no categories; give a total for each.")
    return totals


def _pairs(given: Any, names: Clique, where: str) -> list[tuple[tuple[Any, ...], Any]]:
    """Return pairs of labels and totals from a mapping, a Series, a cross table, a long table, or a Factor."""
    if isinstance(given, Mapping) and not isinstance(given, Factor):
        return _of_mapping(given, len(names))
    if isinstance(given, Factor):
        if set(given.domain) != set(names):
            raise ArgumentError(f"{where} is a table over {given.domain.attributes}; give one over {names}.")
        return [(cell, float(total)) for cell, total in np.ndenumerate(given.transpose(names).values)]
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, pandas.DataFrame) and _is_series(given, names):
        given = given.iloc[:, 0]
    if pandas is not None and isinstance(given, pandas.Series):
        return _ordered([(_key(index), total) for index, total in given.items()], given.index.names, names, where)
    if pandas is not None and isinstance(given, pandas.DataFrame) and not set(names) <= set(given.columns):
        pairs = [
            ((*_key(row), *_key(column)), given.iat[place, position])
            for place, row in enumerate(given.index)
            for position, column in enumerate(given.columns)
        ]
        return _ordered(pairs, [*given.index.names, *given.columns.names], names, where)
    if not hasattr(given, "columns"):
        raise ArgumentError.of(where, given, "a mapping of labels to totals, a Series, a table, or a Factor")
    long = narrowed(given, None)
    others = [name for name in long.columns if name not in names]
    if len(others) != 1 or not set(names) <= set(long.columns):
        raise ArgumentError(
            f"{where} is a table with the columns {listed(long.columns)}; give the columns {listed(names)} and one of "
            "totals."
        )
    keys = zip(*(long[name].to_list() for name in names), strict=True)
    return list(zip(keys, long[others[0]].to_list(), strict=True))


def _of_mapping(given: Mapping[Any, Any], depth: int) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the pairs of a mapping by label, by tuple of labels, or nested column by column."""
    pairs = []
    for label, total in given.items():
        if isinstance(total, Mapping):
            pairs += [((label, *inner), leaf) for inner, leaf in _of_mapping(total, depth - 1)]
        else:
            whole = isinstance(label, tuple) and (depth != 1 or len(label) == 1)
            pairs.append((label if whole else (label,), total))
    return pairs


def _is_series(table: Any, names: Clique) -> bool:
    """Return whether a pandas table is a Series, such as counts by label, as its only column."""
    return table.shape[1] == 1 and table.index.nlevels == len(names) and not set(names) <= set(table.columns)


def _key(label: Any) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


def _ordered(
    pairs: list[tuple[tuple[Any, ...], Any]], levels: Sequence[Any], names: Clique, where: str
) -> list[tuple[tuple[Any, ...], Any]]:
    """Return pairs with their labels in the order of the columns, if the levels of an index have names."""
    named = [level for level in levels if level is not None]
    if not named:
        return pairs
    if len(named) < len(levels):
        levels = [name if level is None else level for level, name in zip(levels, names, strict=False)]
    if len(levels) != len(names) or set(levels) != set(names):
        raise ArgumentError(f"{where} has the axes {listed(map(repr, levels))}; name them {listed(map(repr, names))}.")
    order = [list(levels).index(name) for name in names]
    return [(tuple(key[place] for place in order), total) for key, total in pairs]
