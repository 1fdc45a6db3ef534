"""Streaming records to a file in batches, so that memory does not grow with the number of records."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from pgmest._base.files import atomic_path
from pgmest._base.memory import default_records
from pgmest._base.threads import behind
from pgmest.data.dataset import Dataset
from pgmest.data.frames import GZIP_LEVEL
from pgmest.data.table_file import file_format
from pgmest.errors import DataError, OptionalDependencyError, at_least
from pgmest.sampling.sampler import BATCH
from pgmest.tables.domain import Domain

TEXT_ROWS = 1 << 16
"""At most this many rows are formatted as text at a time, so that the text stays in cache."""


class Samplable(Protocol):
    """An object that draws records in batches, as every model does."""

    @property
    def total(self) -> float: ...

    @property
    def domain(self) -> Domain: ...

    def sample_batches(
        self, n: int | None, batch: int | None, method: str, seed: int | np.random.Generator | None, /
    ) -> Iterator[Dataset]: ...


def write_samples(
    model: Samplable,
    n: int | None,
    path: str | Path,
    *,
    method: str = "round",
    seed: int | np.random.Generator | None = None,
) -> None:
    """Write n records of a model as `.csv`, `.tsv` (both also as `.gz`) or `.parquet`, at constant memory.

    With more than one thread a batch is written while the next one is sampled, so two are in memory. Progress is shown
    on a terminal. The file has a temporary name until it is complete, so a crash leaves an old file as it was.

    Args:
        model: the model to sample from.
        n: the number of records; None for the model's total, rounded.
        path: the file; its ending selects the format.
        method, seed: as in `Model.sample_batches`, whose errors may be raised as well.

    Raises:
        FileFormatError: the ending is unknown, or the file cannot be written.
        OptionalDependencyError: pyarrow, needed for Parquet, is not installed.
        DataError: the domain has no attributes, so the file would have no columns.
    """
    from tqdm import tqdm

    size = default_records(model.total) if n is None else at_least("n", n, 0)
    batches, domain, kind = model.sample_batches(size, BATCH, method, seed), model.domain, file_format(path)
    if not domain:
        raise DataError("the domain has no attributes, so there are no columns to write; add one to the domain.")
    opened = _parquet_file if kind == ".parquet" else _csv_file
    with (
        atomic_path(path) as temporary,
        opened(temporary, domain, kind) as write,
        tqdm(total=size, unit=" records", unit_scale=True, desc=Path(path).name, disable=None) as progress,
        behind(write) as write_behind,
    ):
        for dataset in batches:
            write_behind(dataset)
            progress.update(len(dataset))


@contextlib.contextmanager
def _csv_file(path: Path, domain: Domain, kind: str) -> Iterator[Callable[[Dataset], None]]:
    """Open a CSV file, write the attributes as its first line, and yield a function that appends a dataset."""
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
    """Return, for each attribute, the text of its codes with the following delimiter or line end, padded with zeros."""
    endings = [separator] * (len(domain) - 1) + [b"\n"]
    return [np.char.add(np.arange(size).astype("S"), end) for size, end in zip(domain.shape, endings, strict=True)]


def _rows_as_text(columns: list[np.ndarray], fields: list[np.ndarray]) -> bytes:
    """Return the rows as lines of CSV: fixed-width fields are concatenated, then their zero bytes are removed."""
    layout = [(f"f{position}", field.dtype) for position, field in enumerate(fields)]
    rows = np.empty(len(columns[0]), dtype=layout)
    for (name, _), column, field in zip(layout, columns, fields, strict=True):
        rows[name] = field[column]
    text = rows.view(np.uint8)
    return text[text != 0].tobytes()


@contextlib.contextmanager
def _parquet_file(path: Path, domain: Domain, kind: str) -> Iterator[Callable[[Dataset], None]]:
    """Open a Parquet file and yield a function that appends a dataset as a row group, in the type of its codes."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise OptionalDependencyError.of("pyarrow", "writing Parquet files") from None
    empty = Dataset.from_codes(np.empty((0, len(domain)), dtype=np.uint8), domain)

    def as_table(dataset: Dataset) -> Any:
        return pa.table(dict(zip(domain, map(pa.array, dataset.columns), strict=True)))

    # Codes are packed without a dictionary, which would take twice the time to save a quarter of the size.
    encoding: Any = dict.fromkeys(domain, "DELTA_BINARY_PACKED")
    with parquet.ParquetWriter(path, as_table(empty).schema, use_dictionary=False, column_encoding=encoding) as writer:
        yield lambda dataset: writer.write_table(as_table(dataset))
