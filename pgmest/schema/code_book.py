"""Code books: values that a schema takes from a file, `values: {file: codes.csv, column: code}`.

With `levels: [chapter, block]` these columns of the file are the levels of the values, from the coarsest to the finest.
They are read with the schema, and are part of its description from then on, so that models and copies of the schema
need no file.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgmest.data.chunked_reader import read_pieces
from pgmest.data.table_file import OPTIONS, TableFile
from pgmest.data.values import Values
from pgmest.errors import PgmestError, listed
from pgmest.schema.notation import INTEGER, REAL, SchemaNode
from pgmest.schema.readings import text_of
from pgmest.schema.tally import SURROGATES

LISTS = ("values", "among")
"""The keys of columns whose lists may be in a file."""


def with_code_books(node: SchemaNode) -> SchemaNode:
    """Return a schema in which each list that is in a file has its values; files are relative to that of the schema.

    Raises:
        SchemaError: a file cannot be read, lacks the column, has no value, or has one twice.
    """
    fields = node.value if isinstance(node.value, dict) else {}
    columns = fields["columns"].value if "columns" in fields and isinstance(fields["columns"].value, dict) else {}
    read = {name: _read(name, column) for name, column in columns.items()}
    if all(read[name] is column for name, column in columns.items()):
        return node
    return replace(node, value={**fields, "columns": replace(fields["columns"], value=read)})


def _read(name: str, column: SchemaNode) -> SchemaNode:
    if not isinstance(column.value, dict):
        return column
    found: dict[str, SchemaNode] = {}
    for key in LISTS:
        if key in column.value and isinstance(column.value[key].value, dict):
            node = column.value[key].called(f"column '{name}': {key}")
            found[key], levels = _values(node)
            if levels is not None and "hierarchy" in column.value:
                node.fail("has levels, and the column has hierarchy: leave one of them out.")
            found |= {} if levels is None else {"hierarchy": levels}
    return replace(column, value={**column.value, **found}) if found else column


def _values(node: SchemaNode) -> tuple[SchemaNode, SchemaNode | None]:
    """Return the list of values in a file, and the groups of its levels if it names some."""
    fields = node.fields(("file", "column", "levels", *OPTIONS), ("file",))
    path = Path(node.source).parent / fields["file"].text()
    wanted = fields["column"].text() if "column" in fields else None
    try:
        options = {key: fields[key].plain() for key in OPTIONS if key in fields}
        pieces = list(read_pieces(TableFile(path, **options)))
    except PgmestError as error:
        node.fail(f"cannot be read: {error}")
    names = list(pieces[0]) if pieces else []
    if not names or (wanted is not None and wanted not in names):
        named = listed(map(repr, names)) if any(name != name.strip() for name in names) else listed(names)
        node.fail(f"cannot be read: {path} has no column '{wanted}'; its columns are: {named}.")
    column = names[0] if wanted is None else wanted
    items = _items(pieces, column)
    _check_decoded(node, path, items)
    texts = [text_of(item) or "" for item in items]
    while texts and not texts[-1]:  # blank lines at the end
        texts.pop()
    if not texts:
        node.fail(f"cannot be used: the column '{column}' of {path} has no values.")
    _check(node, f"the column '{column}' of {path}", texts)
    values = [replace(node, value=value) for value in _typed(items[: len(texts)], texts)]
    listed_values = replace(node, value=values)
    if "levels" not in fields:
        return listed_values, None
    levels = [item.text() for item in fields["levels"].items()]
    for name in levels:
        if name not in names or name == column or levels.count(name) > 1:
            fields["levels"].fail(
                f"names '{name}'; levels are columns of {path} besides '{column}', each once: {listed(names)}."
            )
    if not levels:
        fields["levels"].fail(f"names no column of {path}; they are: {listed(names)}.")
    groups = {name: [text_of(item) or "" for item in _items(pieces, name)[: len(texts)]] for name in levels}
    for labels in groups.values():
        _check_decoded(node, path, labels)
    _check_levels(node, path, groups)
    found: dict[str, dict[str, list[SchemaNode]]] = {name: {} for name in levels}
    for name, labels in groups.items():
        for label, value in zip(labels, values, strict=True):
            found[name].setdefault(label, []).append(value)
    lists = {
        name: replace(node, value={label: replace(node, value=some) for label, some in groups.items()})
        for name, groups in found.items()
    }
    return listed_values, replace(node, value=lists)


def _items(pieces: list[dict[str, Values]], column: str) -> list[Any]:
    return [item for piece in pieces for item in piece[column].with_nulls().tolist()]


def _check_decoded(node: SchemaNode, path: Path, items: list[Any]) -> None:
    """Raise SchemaError if a text has bytes that the encoding of the file lacks, so that no record would match it."""
    for number, item in enumerate(items, 1):
        if isinstance(item, str) and SURROGATES.search(item):
            shown = re.sub(f"{SURROGATES.pattern}+", "?", item)
            node.fail(
                f"cannot be read: {path} is not UTF-8 text in record {number} ({shown!r}). Save it as UTF-8, or say "
                "its encoding beside file:, such as encoding: cp1252."
            )


def _check_levels(node: SchemaNode, path: Path, groups: dict[str, list[str]]) -> None:
    """Raise SchemaError if a record has no group, or a group lies in two of a coarser level; counted from 1."""
    for name, labels in groups.items():
        if "" in labels:
            node.fail(
                f"cannot be used: the column '{name}' of {path} has no group in record {labels.index('') + 1}. Fill it "
                "in; a group of its own may have the text of the value."
            )
    for coarse, fine in itertools.pairwise(groups):
        first: dict[str, int] = {}
        for number, (above, label) in enumerate(zip(groups[coarse], groups[fine], strict=True)):
            before = first.setdefault(label, number)
            if groups[coarse][before] != above:
                node.fail(
                    f"cannot be used: levels of {path} are not nested: {label!r} of '{fine}' lies in "
                    f"{groups[coarse][before]!r} of '{coarse}' (record {before + 1}) and in {above!r} (record "
                    f"{number + 1}). Give the levels from the coarsest to the finest, and each group one parent."
                )


def _check(node: SchemaNode, where: str, texts: list[str]) -> None:
    """Raise SchemaError if a record has no value, or the value of an earlier one; records are counted from 1."""
    first: dict[str, int] = {}
    for number, text in enumerate(texts, 1):
        if not text:
            node.fail(f"cannot be used: {where} has no value in record {number}. Fill it in, or delete the record.")
        if first.setdefault(text, number) != number:
            node.fail(
                f"cannot be used: {where} has {text!r} in the records {first[text]} and {number}. Delete one of them, "
                "or name the column of the codes (column:)."
            )


def _typed(items: list[Any], texts: list[str]) -> list[Any]:
    """Return the values as a schema would list them: texts that are all plain numbers as numbers."""
    kinds = set(map(type, items))
    if kinds in ({int}, {bool}):
        return items
    if kinds != {str} and not kinds <= {int, float}:
        return texts
    if all(re.match(INTEGER, text) for text in texts):
        return [int(text) for text in texts]
    numeric = all(re.match(REAL, text) or re.match(INTEGER, text) for text in texts)
    return [float(text) for text in texts] if numeric else texts
