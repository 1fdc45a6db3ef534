"""Parquet files of packed codes, read by every library that is at hand."""

import io

import numpy as np
import pytest

from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.sampling import packed_parquet
from pgmest.sampling.packed_parquet import PackedParquet, packed
from pgmest.sampling.writing import write_batches
from pgmest.tables.domain import Domain

pytest.importorskip("pyarrow")
SIZES = {"one": 1, "two": 2, "größe, 3": 3, "a": 7, "b": 100, "c": 256, "d": 257, "e": 5000, "f": 1 << 16}
DOMAIN = Domain(SIZES)


def random_records(n, domain=DOMAIN, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(size, size=n).astype(code_type(size)) for size in domain.shape]
    for column, size in zip(columns, domain.shape, strict=True):
        column[: min(n, 2)] = size - 1
    return Dataset.from_codes(columns, domain)


def by_pyarrow(path):
    from pyarrow import parquet

    return parquet.read_table(path)


def by_polars(path):
    return pytest.importorskip("polars").read_parquet(path)


def by_duckdb(path):
    return pytest.importorskip("duckdb").sql(f"from '{path}'").to_arrow_table()


def by_pandas(path):
    return pytest.importorskip("pandas").read_parquet(path)


@pytest.mark.parametrize("read", [by_pyarrow, by_polars, by_duckdb, by_pandas])
@pytest.mark.parametrize("rows", [[], [0], [1], [8], [13, 1, 24, 1000], [70_001]])
def test_every_reader_finds_the_records(read, rows, tmp_path):
    batches = [random_records(n, seed=n) for n in rows]
    write_batches(batches, DOMAIN, sum(rows), tmp_path / "x.parquet")
    expected = Dataset.concat(batches) if batches else random_records(0)
    table = read(tmp_path / "x.parquet")
    assert list(table.columns if read in (by_polars, by_pandas) else table.column_names) == list(SIZES)
    assert Dataset.from_frame(table, DOMAIN) == expected


def test_large_batches_are_several_row_groups(tmp_path, monkeypatch):
    from pyarrow import parquet

    monkeypatch.setattr(packed_parquet, "ROWS_OF_A_GROUP", 100)
    records = random_records(250)
    write_batches([records], DOMAIN, 250, tmp_path / "x.parquet")
    file = parquet.ParquetFile(tmp_path / "x.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [100, 100, 50]
    assert Dataset.load(tmp_path / "x.parquet", DOMAIN) == records


def test_readers_know_the_types_and_the_least_and_greatest_codes(tmp_path):
    from pyarrow import parquet

    records = random_records(1000)
    write_batches([records], DOMAIN, 1000, tmp_path / "x.parquet")
    file = parquet.ParquetFile(tmp_path / "x.parquet")
    kinds = {"uint8" if size <= 256 else "uint16" for size in SIZES.values()}
    assert {str(field.type) for field in file.schema_arrow} == kinds
    for position, column in enumerate(records.columns):
        chunk = file.metadata.row_group(0).column(position)
        found = chunk.statistics
        assert (found.min, found.max, found.null_count) == (column.min(), column.max(), 0)
        assert chunk.compression == "SNAPPY"
    assert file.metadata.created_by.startswith("pgmest")


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1])
def test_attributes_of_very_many_values_are_written_too(size, tmp_path):
    domain = Domain({"a": size, "b": 2})
    records = random_records(100, domain)
    write_batches([records], domain, 100, tmp_path / "x.parquet")
    assert Dataset.load(tmp_path / "x.parquet", domain) == records


@pytest.mark.parametrize("size", [1, 2, 5, 200, 256, 257, 1000, 1 << 16])
def test_packed_codes_are_bits_lowest_first(size):
    codes = random_records(21, Domain({"a": size})).columns[0]
    width = max(1, (size - 1).bit_length())
    bits = "".join(f"{code:0{width}b}"[::-1] for code in [*codes.tolist(), 0, 0, 0])
    expected = [int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8)]
    assert list(packed(codes, size)) == [width, 3 << 1 | 1, *expected]


def test_many_columns_and_row_groups():
    """Lists of 15 and more have another form."""
    from pyarrow import parquet

    domain = Domain({f"column {i}": 3 for i in range(200)})
    batches = [random_records(5, domain, seed=seed) for seed in range(20)]
    file = io.BytesIO()
    import pyarrow as pa

    writer = PackedParquet(file, domain, lambda data: pa.compress(data, "snappy", asbytes=True))
    for batch in batches:
        writer.append(batch.columns)
    writer.close()
    file.seek(0)
    assert Dataset.from_frame(parquet.read_table(file), domain) == Dataset.concat(batches)
