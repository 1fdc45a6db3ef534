"""Code books: values that a schema takes from a file, `values: {file: codes.csv, column: code}`.

With `levels: [chapter, block]` these columns of the file are the levels of the values, from the coarsest to the finest.
They are read with the schema, and are part of its description from then on, so that models and copies of the schema
need no file. A schema that is not itself the text of a file, such as that inside a model, opens none.
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


def with_code_books(node: SchemaNode, folder: Path | None) -> SchemaNode:
    """Return a schema, or one of linked tables, in which each list that is in a file has its values.

    Args:
        node: the schema.
        folder: the folder that files are relative to, which is that of the schema; None if no file may be opened.

    Raises:
        SchemaError: a file may not be opened, cannot be read, lacks the column, has no value, or has one twice.
    """
    fields = node.value if isinstance(node.value, dict) else {}
    for key, read_one in (("tables", _read_table), ("columns", _read)):
        inner = fields.get(key)
        if inner is not None and isinstance(inner.value, dict):
            read = {name: read_one(name, one, folder) for name, one in inner.value.items()}
            if any(read[name] is not one for name, one in inner.value.items()):
                fields = {**fields, key: replace(inner, value=read)}
    return node if fields is node.value or not fields else replace(node, value=fields)


def _read_table(_: str, table: SchemaNode, folder: Path | None) -> SchemaNode:
    return with_code_books(table, folder)


def _read(name: str, column: SchemaNode, folder: Path | None) -> SchemaNode:
    if not isinstance(column.value, dict):
        return column
    found: dict[str, SchemaNode] = {}
    for key in LISTS:
        if key in column.value and isinstance(column.value[key].value, dict):
            node = column.value[key].called(f"column '{name}': {key}")
            found[key], levels = _values(node, folder)
            if levels is not None and "hierarchy" in column.value:
                node.fail("has levels, and the column has hierarchy: leave one of them out.")
            found |= {} if levels is None else {"hierarchy": levels}
    return replace(column, value={**column.value, **found}) if found else column


def _values(node: SchemaNode, folder: Path | None) -> tuple[SchemaNode, SchemaNode | None]:
    """Return the list of values in a file, and the groups of its levels if it names some."""
    if folder is None:
        node.fail("must be a list: only the file of a schema can name another file (Schema.load reads it).")
    fields = node.fields(("file", "column", "levels", *OPTIONS), ("file",))
    path = folder / fields["file"].text()
    if path.exists() and not path.is_file():
        node.fail(f"cannot be read: {path} is no file.")  # a pipe or a device may never end
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
