"""The models of linked tables as files: a folder with one for each table, and for pairs of rows of one parent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgmest.errors import ArgumentError, PgmestError
from pgmest.schema.linked.schema import LinkedSchema
from pgmest.schema.schema import Schema
from pgmest.tables.domain import Domain


def save_models(result: Any, schema: LinkedSchema, privacy: Any, folder: str | Path) -> None:
    """Write the models of a `LinkedResult`, with their columns and the privacy statement, to files of a folder.

    Args:
        result: the result.
        schema: the schema of the tables.
        privacy: the privacy statement, as JSON values.
        folder: a folder, which is made if its own folder exists: households.npz, persons.npz, pairs_of_persons.npz.

    Raises:
        ArgumentError: the folder is a file, or cannot be made; or the result has no models.
        FileFormatError: a file cannot be written.
    """
    if not hasattr(result, "model_of"):
        raise ArgumentError(f"a {type(result).__name__} has no models; that of LinkedLAMP has.")
    folder = Path(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        raise ArgumentError.of("folder", str(folder), "a folder for the models of linked tables") from None
    for name in result.counted:
        model = result.model_of(name)
        described = _described(schema, model.domain)
        model.describe(privacy=privacy, **({} if described is None else {"schema": described}))
        model.save(folder / f"{name.replace(' ', '_')}.npz")


def _described(schema: LinkedSchema, domain: Domain) -> Mapping[str, Any] | None:
    """Return the description of a model's attributes as columns of one table; None if a constraint codes them."""
    columns = {}
    for name in domain:
        table, _, column = name.removeprefix("another of ").removeprefix("next of ").partition(".")
        part = schema.parts.get(table)
        known = {} if part is None else part.schema.description["columns"]
        columns[name] = known.get(column, {"type": "integer", "min": 0, "max": domain[name] - 1})
    try:
        made = Schema.from_dict({"columns": columns})
    except PgmestError:
        return None
    return made.description if made.domain == domain else None
