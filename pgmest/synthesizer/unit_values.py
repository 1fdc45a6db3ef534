"""Functions of linked tables that return a value for each row of the root, such as the age of the oldest person.

A function gets the synthetic tables, a mapping of names to dataframes. It may return a column, an array, or a dataframe
with the key and one more column. It is called again on some of the units, since the value of a unit must not depend on
other units: its errors would follow from those of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pgmest.errors import QueryError, excerpt, listed

Tables = Mapping[str, Any]
"""Linked tables as dataframes, by name."""


def unit_values(
    function: Callable[[Tables], Any], name: str, tables: Tables, part: Tables, root: str, key: str | None
) -> np.ndarray:
    """Return the value of a function for each row of the root, shape (units,).

    Args:
        function: the function.
        name: what errors call it.
        tables: the synthetic tables.
        part: those of some units, whose rows of the root are named by `key`.
        root: the name of the root.
        key: the column that tells its rows apart; None if there are several such columns.

    Raises:
        QueryError: the function raises an error, does not return one value for each unit, or one that is missing or
            not finite, or its values depend on other units.
    """
    found = _called(function, name, tables, root, key)
    if key is None:
        return found
    again = _called(function, name, part, root, key)
    keys, some = (_array(one[root][key]) for one in (tables, part))
    places = {value: place for place, value in enumerate(keys.tolist())}
    before = found[[places[value] for value in some.tolist()]]
    same = np.isclose(before, again, rtol=1e-9) if found.dtype.kind == "f" else before == again
    if not np.all(same):
        raise QueryError(
            f"{name} gives {int((~np.asarray(same)).sum()):,} of {len(again):,} rows of '{root}' another value where "
            f"other rows of '{root}' are left out (such as {excerpt(before[~same][0])} and "
            f"{excerpt(again[~same][0])}): the value of a row must follow from it and from what hangs on it alone, "
            "without random numbers, ranks or totals over all rows."
        )
    return found


def returned_by(function: Callable[[Tables], Any], name: str, tables: Tables) -> Any:
    """Return what a function returns; it gets copies of the tables, which it may change.

    Raises:
        QueryError: it raises an error, or returns nothing.
    """
    import narwhals as nw

    copies = {one: nw.from_native(table, eager_only=True).clone().to_native() for one, table in tables.items()}
    try:
        returned = function(copies)
    except Exception as error:
        raise QueryError(f"{name} raises {type(error).__name__} on the synthetic tables: {error}") from error
    if returned is None:
        raise QueryError(f"{name} returns nothing: does it lack a line with return?")
    return returned


def is_of_units(returned: Any, units: int, key: str | None) -> bool:
    """Return whether a function means to return a value for each unit: as many values, or values with keys."""
    import narwhals as nw

    column = nw.from_native(returned, allow_series=True, pass_through=True)
    if isinstance(column, nw.DataFrame | nw.LazyFrame):
        return True
    try:
        size = len(returned)
    except TypeError:
        return False
    named = getattr(getattr(returned, "index", None), "name", None)
    return size == units or (key is not None and named == key)


def allowed(values: np.ndarray, wanted: Any, name: str) -> np.ndarray:
    """Return 1.0 for each value that a condition allows, 0.0 for others, shape (units,).

    Args:
        values: numbers, truth values or texts, shape (units,).
        wanted: a value, several, or a range (low, high), both included, of which None leaves an end open.
        name: what errors call the values.

    Raises:
        QueryError: the condition is no such thing, has texts for numbers or numbers for texts, or allows no value.
    """
    ranged = isinstance(wanted, tuple)
    several = ranged or (isinstance(wanted, Iterable) and not isinstance(wanted, str | Mapping))
    ends: list[Any] = list(wanted) if several else [wanted]
    kind, kinds = (
        ("texts", str) if values.dtype.kind in "UO" else ("numbers", bool | int | float | np.bool_ | np.number)
    )
    known = [one for one in ends if not (ranged and one is None)]
    if (ranged and len(ends) != 2) or not all(isinstance(one, kinds) and one == one for one in known):
        raise QueryError(
            f"given= for '{name}' is {excerpt(wanted)}, and its values are {kind}: give one of them, a set of some, or "
            f"a range of two ends, such as {('a', None) if kind == 'texts' else (1, None)}."
        )
    low, high = ends if ranged else (None, None)
    if not (ranged or ends) or (low is not None and high is not None and low > high):
        raise QueryError(f"given= leaves '{name}' no value: {excerpt(wanted)}.")
    if not ranged:
        return np.isin(values, ends).astype(np.float64)
    found = np.ones(len(values), dtype=bool)
    found &= True if low is None else values >= low
    return (found & (True if high is None else values <= high)).astype(np.float64)


def _called(function: Callable[[Tables], Any], name: str, tables: Tables, root: str, key: str | None) -> np.ndarray:
    frame = tables[root]
    found = _aligned(returned_by(function, name, tables), name, frame, root, key)
    if found.ndim != 1 or len(found) != len(frame):
        shape = "a single value" if found.ndim == 0 else f"an array of shape {found.shape}"
        raise QueryError(
            f"{name} returns {shape}, not a value for each of the {len(frame):,} rows of '{root}', from which counts, "
            'shares and means (measure="mean") are then taken: return a column, such as '
            "persons.groupby(key)[column].max()."
        )
    if found.dtype.kind not in "biufUO" or (found.dtype.kind == "O" and not all(map(_is_plain, found))):
        raise QueryError(f"{name} returns {excerpt(found.tolist())}: return numbers, truth values or texts.")
    missing = np.array([one is None or one != one for one in found.tolist()], dtype=bool)
    if missing.any() or (found.dtype.kind == "f" and np.isinf(found).any()):
        wrong = f"no value for {int(missing.sum()):,}" if missing.any() else "an infinite value for some"
        raise QueryError(
            f"{name} returns {wrong} of the {len(found):,} rows of '{root}': give each one, as by .fillna(0) where no "
            "such row hangs on it."
        )
    if found.dtype.kind == "O" and {type(one) for one in found} <= {bool, int, float, np.bool_}:
        found = found.astype(np.float64)
    return found


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | np.generic)


def _aligned(returned: Any, name: str, frame: Any, root: str, key: str | None) -> np.ndarray:
    """Return values in the order of the root's rows, if they come with keys."""
    import narwhals as nw

    column = nw.from_native(returned, allow_series=True, pass_through=True)
    if isinstance(column, nw.LazyFrame):
        column = column.collect()
    if isinstance(column, nw.DataFrame):
        others = [one for one in column.columns if one != key]
        if len(others) != 1:
            raise QueryError(f"{name} returns the columns {listed(column.columns)}: return one, beside the key.")
        values = column[others[0]].to_numpy()
        return _by_key(column[key].to_numpy(), values, name, frame, root, key) if key in column.columns else values
    if isinstance(column, nw.Series):
        index = getattr(returned, "index", None)
        if index is not None and not callable(index) and key is not None and not index.equals(frame.index):
            return _by_key(np.asarray(index), column.to_numpy(), name, frame, root, key)
        return column.to_numpy()
    return _array(returned)


def _by_key(keys: np.ndarray, values: np.ndarray, name: str, frame: Any, root: str, key: str | None) -> np.ndarray:
    """Return the values of the root's rows, each of which must be among the keys once."""
    wanted = _array(frame[key])
    places = {value: place for place, value in enumerate(keys.tolist())}
    lacking = sum(value not in places for value in wanted.tolist())
    if lacking or len(places) != len(keys) or len(keys) != len(wanted):
        wrong = f"no value for {lacking:,} of" if lacking else f"{len(keys):,} values for"
        raise QueryError(
            f"{name} returns {wrong} the {len(wanted):,} rows of '{root}': give each one, as by "
            f".reindex({root}['{key}'], fill_value=0) for those on which no such row hangs."
        )
    return values[[places[value] for value in wanted.tolist()]]


def _array(values: Any) -> np.ndarray:
    """Return values as an array; of kinds that do not go together, one of objects."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.asarray(values, dtype=object)
