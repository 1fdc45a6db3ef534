"""Levels of categories in drafts: a draft lists all that the type of a column declares, also those without a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pgmest.data.names import pandas_names, with_text_names
from pgmest.schema.frame_types import native
from pgmest.schema.guess import Guess
from pgmest.schema.identifiers import MOST_LISTED
from pgmest.schema.notation import quoted


def declared_levels(table: Any) -> dict[str, list[str]]:
    """Return the levels of the columns that are categories of texts in pandas, or enumerations in polars."""
    frame = native(table)
    if pandas_names(frame) is not None:
        frame = with_text_names(frame)
        kinds = dict(zip(frame.columns, frame.dtypes, strict=True))
    elif type(frame).__module__.partition(".")[0] == "polars":
        kinds = dict(frame.lazy().collect_schema())
    else:
        return {}
    found = {name: list(kind.categories) for name, kind in kinds.items() if hasattr(kind, "categories")}
    return {name: levels for name, levels in found.items() if all(isinstance(level, str) for level in levels)}


def with_levels(one: Guess, levels: Sequence[str]) -> Guess:
    """Return the guess about a column of labels with all levels of its type in their order; other guesses unchanged."""
    kept = list(dict.fromkeys(level.strip() for level in levels if level.strip() and level not in one.markers))
    if one.left_out or "type: categorical" not in one.lines or not 0 < len(kept) <= MOST_LISTED:
        return one
    return replace(
        one,
        lines=("type: categorical", f"values: [{', '.join(map(quoted, kept))}]"),
        notes=tuple(note for note in one.notes if "NOT LISTED" not in note),
        otherwise="outside: clip",
    )
