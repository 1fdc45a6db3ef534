"""Rows of results as they come, so that a run that was stopped goes on where it was, on any machine.

Each single run is a cell with a name. Its row is kept as a JSON file the moment it is there. Reports put the rows into
tables among the results, with the name of the cell in the column `run` (`table_of`), and from these the rows can be had
again (`published_rows`): a checkout goes on where the committed tables are, without anything else.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from pgmest._base.files import write_atomically

Row = dict[str, Any]
RUN = "run"
"""The column that names the cell of a row."""


class Cell(Protocol):
    """One run of an experiment: `name` is unique and fit for a file, and says every setting; `row` runs it."""

    @property
    def name(self) -> str:
        """Names the file of the result."""
        ...

    def row(self) -> Row:
        """Run it: numbers, texts, and lists of numbers, all of the same length; fit for JSON."""
        ...


def rows_of(
    cells: Iterable[Cell],
    folder: Path,
    published: Mapping[str, Row] | None = None,
    fresh: bool = False,
    stored: bool = False,
) -> Iterator[Row]:
    """The row of each cell with its name in `run`: the stored one, the published one, or a new one, stored at once.

    Args:
        cells: the runs.
        folder: where rows are kept.
        published: rows by the names of their cells.
        fresh: run again what has a row.
        stored: run nothing, and leave out what has no row.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        row = None if fresh else known_row(cell, folder, published)
        if row is None and not stored:
            start = time.perf_counter()
            row = cell.row()
            write_atomically(folder / f"{cell.name}.json", json.dumps(row, indent=1))
            print(f"{cell.name}: {time.perf_counter() - start:.1f} s", flush=True)
        if row is not None:
            yield {RUN: cell.name, **row}


def known_row(cell: Cell, folder: Path, published: Mapping[str, Row] | None = None) -> Row | None:
    """The row of a cell that was run before; a stored one is newer than a published one."""
    path = folder / f"{cell.name}.json"
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    return (published or {}).get(cell.name)


def table_of(rows: Iterable[Row]) -> pd.DataFrame:
    """A line for each row; where rows have lists, a line for each of their places."""
    rows = list(rows)
    lists = list(dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, list)))
    table = pd.DataFrame(rows)
    return table.explode(lists, ignore_index=True).infer_objects() if lists else table


def published_rows(paths: Iterable[Path], lists: Sequence[str] = ()) -> dict[str, Row]:
    """The rows of tables made by `table_of`, by the names of their cells, without the columns that they leave empty.

    Args:
        paths: of tables; those that are not there, or have no column `run`, have no rows. Later ones come first.
        lists: the columns that are lists, in tables that have all of them.
    """
    found: dict[str, Row] = {}
    for path in paths:
        if path.is_file():
            found |= _rows_in(path, path.stat().st_mtime_ns, tuple(lists))
    return found


@functools.lru_cache(maxsize=16)
def _rows_in(path: Path, changed: int, lists: tuple[str, ...]) -> dict[str, Row]:
    """Those of one table; `changed` is when it was written, so that no older reading of it is used."""
    table = pd.read_csv(path)
    if RUN not in table:
        return {}
    found: dict[str, Row] = {}
    lists = lists if set(lists) <= set(table) else ()
    for name, lines in table.groupby(RUN, sort=False):
        first = lines.iloc[0].drop([RUN, *lists]).dropna().to_dict()
        found[str(name)] = first | {column: lines[column].tolist() for column in lists}
    return found
