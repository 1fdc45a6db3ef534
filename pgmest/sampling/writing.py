"""Streaming records to a file: batch after batch, so that memory does not grow with the number of records."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from pgmest._base.errors import DataError, OptionalDependencyError
from pgmest._base.files import atomic_path
from pgmest._base.threads import behind
from pgmest.data.dataset import Dataset
from pgmest.data.frames import GZIP_LEVEL
from pgmest.data.table_file import file_format
from pgmest.tables.domain import Domain

TEXT_ROWS = 1 << 16
"""Rows turned into text at a time, so that the text stays in cache."""


def write_batches(batches: Iterable[Dataset], domain: Domain, n: int, path: str | Path) -> None:
    """Write datasets over `domain`, n records in all, as one `.csv`, `.tsv` (either `.gz`, too) or `.parquet` file.

    A batch is written while the next one is made, where there is more than one thread: two are in memory. Progress
    shows on a terminal. Until the file is complete it has another name, so that after a crash the old file
    or none is there.

    Raises:
        FileFormatError: another ending, or the file cannot be written.
        OptionalDependencyError: a Parquet file, and no pyarrow.
        DataError: a domain without attributes, whose records no table can hold.
    """
    from tqdm import tqdm

    kind = file_format(path)
    if not domain:
        raise DataError("the domain has no attributes, so there are no columns to write; add one to the domain.")
    opened = _parquet_file if kind == ".parquet" else _csv_file
    with (
        atomic_path(path) as temporary,
        opened(temporary, domain, kind) as write,
        tqdm(total=n, unit=" records", unit_scale=True, desc=Path(path).name, disable=None) as progress,
        behind(write) as write_behind,
    ):
        for dataset in batches:
            write_behind(dataset)
            progress.update(len(dataset))


@contextlib.contextmanager
def _csv_file(path: Path, domain: Domain, kind: str) -> Iterator[Callable[[Dataset], None]]:
    """A function that appends a dataset to the CSV file; the first line names the attributes."""
    header = io.StringIO()
    separator = "\t" if kind.startswith(".tsv") else ","
    csv.writer(header, delimiter=separator, lineterminator="\n").writerow(domain)
    with contextlib.ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("wb"))
        if kind.endswith(".gz"):
            file = stack.enter_context(gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0))  # type: ignore[assignment]
        file.write(header.getvalue().encode("utf-8"))
        fields = _code_texts(domain, separator.encode())

        def write(dataset: Dataset) -> None:
            for start in range(0, len(dataset), TEXT_ROWS):
                rows = slice(start, start + TEXT_ROWS)
                file.write(_rows_as_text([column[rows] for column in dataset.columns], fields))

        yield write


def _code_texts(domain: Domain, separator: bytes) -> list[np.ndarray]:
    """For each attribute the text of its codes with the delimiter or line end that follows, padded with zero bytes."""
    endings = [separator] * (len(domain) - 1) + [b"\n"]
    return [np.char.add(np.arange(size).astype("S"), end) for size, end in zip(domain.shape, endings, strict=True)]


def _rows_as_text(columns: list[np.ndarray], fields: list[np.ndarray]) -> bytes:
    """The rows as lines of CSV: fixed-width fields side by side, then without their padding."""
    layout = [(f"f{position}", field.dtype) for position, field in enumerate(fields)]
    rows = np.empty(len(columns[0]), dtype=layout)
    for (name, _), column, field in zip(layout, columns, fields, strict=True):
        rows[name] = field[column]
    text = rows.view(np.uint8)
    return text[text != 0].tobytes()


@contextlib.contextmanager
def _parquet_file(path: Path, domain: Domain, kind: str) -> Iterator[Callable[[Dataset], None]]:
    """A function that appends a dataset to the Parquet file as a row group, in the type of its codes."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise OptionalDependencyError.of("pyarrow", "writing Parquet files") from None
    empty = Dataset.from_codes(np.empty((0, len(domain)), dtype=np.uint8), domain)

    def as_table(dataset: Dataset) -> Any:
        return pa.table(dict(zip(domain, map(pa.array, dataset.columns), strict=True)))

    # codes packed as they are: a dictionary of them would take twice as long, and a quarter less room
    encoding: Any = dict.fromkeys(domain, "DELTA_BINARY_PACKED")
    with parquet.ParquetWriter(path, as_table(empty).schema, use_dictionary=False, column_encoding=encoding) as writer:
        yield lambda dataset: writer.write_table(as_table(dataset))
