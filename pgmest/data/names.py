"""Names of columns that are no texts, such as the numbers of `pandas.DataFrame(array)`, and indexes of pandas."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from pgmest.errors import DataError, listed

PLAIN_INDEX = "iub"
"""The kinds of an index without a name that only counts the rows."""


def with_text_names(frame: Any) -> Any:
    """Return a dataframe with texts as the names of its columns; only those of pandas can have others.

    Raises:
        DataError: names have several levels, or differ as values but not as texts.
    """
    names = pandas_names(frame)
    if names is None or all(isinstance(name, str) for name in names):
        return frame
    if frame.columns.nlevels > 1:
        raise DataError(
            f"the table has names of {frame.columns.nlevels} levels, such as {tuple(names[0])}, but a column has one "
            "name. Join the levels: frame.columns = ['_'.join(map(str, name)) for name in frame.columns]."
        )
    texts = [str(name) for name in names]
    twice = {text for text in texts if texts.count(text) > 1}
    if twice:
        raise DataError(f"the table has several columns that read {listed(sorted(twice))}; keep or rename one of each.")
    renamed = frame.copy(deep=False)
    renamed.columns = texts
    return renamed


def pandas_names(frame: Any) -> list[Any] | None:
    """Return the names of the columns of a pandas frame; None for any other table."""
    pandas = sys.modules.get("pandas")  # loaded if there is a frame of it
    return list(frame.columns) if pandas and isinstance(frame, pandas.DataFrame) else None


def other_names(frame: Any) -> dict[str, Any]:
    """Return the names of a pandas frame that are no texts, by their texts."""
    return {str(name): name for name in pandas_names(frame) or () if not isinstance(name, str)}


def public_numbers(names: Mapping[str, Any], described: Container[str]) -> dict[str, int]:
    """Return the whole numbers among names of columns, for files: those of columns that a schema describes."""
    numbers = {text: name for text, name in names.items() if text in described}
    return {text: int(name) for text, name in numbers.items() if isinstance(name, int | np.integer)}


def are_numbers(names: Any) -> bool:
    """Return whether a JSON value is names of columns as `public_numbers` returns them."""
    return isinstance(names, dict) and all(type(name) is int for name in names.values())


def renamed(frame: Any, names: dict[str, Any]) -> Any:
    """Return a pandas frame with other names of some columns, of any type."""
    if not names or pandas_names(frame) is None:
        return frame
    frame.columns = [names.get(name, name) for name in frame.columns]
    return frame


def index_names(frame: Any) -> list[str]:
    """Return the names of the levels of a pandas frame's index."""
    return [str(name) for name in frame.index.names if name is not None] if pandas_names(frame) is not None else []


def index_note(frame: Any) -> str:
    """Return a note that the index of a pandas frame is left out, if it seems to hold more than numbers of rows."""
    if pandas_names(frame) is None:
        return ""
    index, named = frame.index, index_names(frame)
    if index.nlevels == 1 and not named and index.dtype.kind in PLAIN_INDEX:
        return ""
    shown = listed([repr(name) for name in named]) if named else f"of type {index.dtype}"
    return f"the index of the table ({shown}) is no column, so it is left out; frame.reset_index() would keep it"
