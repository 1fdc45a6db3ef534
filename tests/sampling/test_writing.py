"""Streaming to files, and the functions that take a model."""

import gzip
import io
import sys

import numpy as np
import pytest

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError, FileFormatError, OptionalDependencyError
from pgmest.models.exact import Model
from pgmest.sampling import write_samples
from pgmest.tables.clique_vector import CliqueVector

SIZES = {"age": 120, "a, b": 2, "c": 300}


@pytest.fixture
def model(calibrated):
    made = calibrated(SIZES, [("age", "a, b"), ("c",)], total=41.7)
    return Model(CliqueVector.of(made.oracle.layout, made.theta), made.total)


def test_the_default_number_of_records_is_the_total(model):
    assert model.sample().records == 42
    assert sum(part.records for part in model.sample_batches(batch=5)) == 42


def test_samples_are_those_of_one_batch(model):
    assert [model.sample(100, "multinomial", seed=1)] == list(model.sample_batches(100, 100, "multinomial", seed=1))


@pytest.mark.parametrize("n", [-5, 1.5])
def test_a_wrong_number_of_records(model, n, tmp_path):
    for call in (model.sample, model.sample_batches, lambda n: write_samples(model, n, tmp_path / "x.csv")):
        with pytest.raises(ArgumentError, match=f"n={n} is not valid: it must be an integer of at least 0"):
            call(n)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.parquet", "X.CSV"])
def test_a_file_holds_the_records_of_the_batches(model, name, tmp_path, monkeypatch):
    monkeypatch.setattr("pgmest.sampling.writing.BATCH", 300)
    write_samples(model, 1_000, tmp_path / name, seed=2)
    expected = Dataset.concat(model.sample_batches(1_000, 300, seed=2))
    assert Dataset.load(tmp_path / name, model.domain) == expected
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_text_of_a_csv_file(calibrated, tmp_path):
    model = calibrated({"a, b": 12, "c": 2}, [("a, b", "c")], theta={("a, b", "c"): one_cell((12, 2), (10, 1))})
    write_samples(model, 3, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_bytes() == b'"a, b",c\n10,1\n10,1\n10,1\n'


def one_cell(shape, cell):
    table = np.full(shape, -np.inf)
    table[cell] = 0.0
    return table


def test_compressed_files_do_not_depend_on_the_time(model, tmp_path):
    for name in ("x.csv.gz", "y.csv.gz"):
        write_samples(model, 10, tmp_path / name, seed=0)
    assert (tmp_path / "x.csv.gz").read_bytes() == (tmp_path / "y.csv.gz").read_bytes()


def test_no_records_leave_the_names_of_the_columns(model, tmp_path):
    from pyarrow import parquet

    write_samples(model, 0, tmp_path / "x.csv.gz")
    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()) == b'age,"a, b",c\n'
    write_samples(model, 0, tmp_path / "x.parquet")
    table = parquet.read_table(tmp_path / "x.parquet")
    assert (table.num_rows, table.column_names) == (0, list(SIZES))


def test_parquet_columns_have_the_type_of_their_codes(model, tmp_path, monkeypatch):
    from pyarrow import parquet

    monkeypatch.setattr("pgmest.sampling.writing.BATCH", 4)
    write_samples(model, 10, tmp_path / "x.parquet")
    file = parquet.ParquetFile(tmp_path / "x.parquet")
    assert [str(field.type) for field in file.schema_arrow] == ["uint8", "uint8", "uint16"]
    assert file.num_row_groups == 3


def test_a_failure_leaves_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("old")

    whole = model.sample_batches

    def fails_after_one(*arguments):
        yield Dataset.concat(whole(5, 5))
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model), "sample_batches", fails_after_one)
    with pytest.raises(KeyboardInterrupt):
        write_samples(model, 10, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "problem"), [("x.txt", "not a kind of table file"), ("no/x.csv", "cannot be written")]
)
def test_paths_that_cannot_be_written(model, name, problem, tmp_path):
    with pytest.raises(FileFormatError, match=problem):
        write_samples(model, 10, tmp_path / name)


def test_records_without_attributes_have_no_file(calibrated, tmp_path):
    with pytest.raises(DataError, match="the domain has no attributes, so there are no columns to write"):
        write_samples(calibrated({}, [()]), 3, tmp_path / "x.csv")


def test_parquet_without_pyarrow(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OptionalDependencyError, match=r"writing Parquet files needs the package 'pyarrow'"):
        write_samples(model, 3, tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_shows_on_a_terminal_only(model, tmp_path, monkeypatch, capfd):
    write_samples(model, 10, tmp_path / "x.csv")
    assert capfd.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    write_samples(model, 10, tmp_path / "x.csv")
    assert "x.csv: 100%" in terminal.getvalue()


@pytest.mark.parametrize("reader", ["pandas", "polars", "duckdb"])
def test_other_readers_find_the_codes_in_parquet_files(model, tmp_path, reader, monkeypatch):
    """Codes are packed by an encoding that not every writer uses."""
    library, path = pytest.importorskip(reader), tmp_path / "x.parquet"
    monkeypatch.setattr("pgmest.sampling.writing.BATCH", 300)
    write_samples(model, 1000, path, seed=0)
    read = library.from_parquet(str(path)).df() if reader == "duckdb" else library.read_parquet(path)
    expected = Dataset.concat(model.sample_batches(1000, seed=0, batch=300))
    for name in model.domain:
        assert np.array_equal(np.asarray(read[name]), expected.column(name))
