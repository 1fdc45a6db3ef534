"""Linked tables with the noisy answers behind them, from the file that `LinkedModel.save` wrote (`files`)."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.linked import LinkedDataset
from pgmest.errors import PgmestError
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.file_entries import RunEntry, TableEntry, Take
from pgmest.mechanisms.linked.linked_model import LinkedModel
from pgmest.models.archive import LINKED_MODEL, MOST_VALUES, Unreadable, opened_archive, read_array, read_fields
from pgmest.tables.domain import Domain


def load(path: str | Path) -> LinkedModel:
    """Read linked tables with their noisy answers from the file that `save` wrote.

    Raises:
        FileFormatError: the file is missing, truncated, damaged, of a newer version, or something else.
    """
    with opened_archive(path, "a file of linked tables", "save(...)") as archive:
        return _read(archive)


def _read(archive: zipfile.ZipFile) -> LinkedModel:
    if sorted(archive.namelist()) != sorted(LINKED_MODEL.members):
        raise Unreadable(f"its members are not {', '.join(LINKED_MODEL.members)}")
    fields = read_fields(archive, LINKED_MODEL, ("about", "tables", "runs"))
    try:
        if not isinstance(fields["about"], dict):
            raise Unreadable("what it says about itself is wrong")
        tables = [TableEntry.of(entry) for entry in fields["tables"]]
        runs = [RunEntry.of(entry) for entry in fields["runs"]]
        sizes = [size for one in (*tables, *runs) for size in one.domain.shape]
        values = sum(sizes) + sum(one.at_most for one in tables)
        if values > MOST_VALUES:
            raise Unreadable(f"its attributes and numbers of rows have {values:,} values, more than {MOST_VALUES:,}")
        taken = {
            "codes": (code_type(max([1, *sizes])), sum(one.codes for one in (*tables, *runs))),
            "rows": (np.int64, sum(one.rows for one in tables if one.fields["parent"] is not None)),
            "answers": (np.float64, sum(one.answers for one in runs)),
        }
        members = {name: _taking(read_array(archive, f"{name}.npy", *of)) for name, of in taken.items()}
        linked = LinkedDataset({one.fields["name"]: one.table(members) for one in tables})
        made = {one.fields["child"]: one.run(members) for one in runs}
        _check(linked, made, len(tables), len(runs))
    except Unreadable:
        raise
    except PgmestError as error:
        raise Unreadable(str(error).rstrip(".")) from None
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise Unreadable(f"its description is wrong ({type(error).__name__}: {error})") from None
    return LinkedModel(linked, made, about=dict(fields["about"]))


def _check(linked: LinkedDataset, runs: Mapping[str, FamilyModel], tables: int, described: int) -> None:
    """Raise Unreadable unless there is a run for each child table, about its parent and itself."""
    if not runs or len(linked.tables) != tables or len(runs) != described or set(runs) != set(linked.order[1:]):
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


def _taking(numbers: np.ndarray) -> Take:
    """Return a function that returns the next of some numbers."""
    place = 0

    def take(count: int) -> np.ndarray:
        nonlocal place
        place += count
        return numbers[place - count : place]

    return take
