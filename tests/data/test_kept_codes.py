"""Codes beyond memory: the same in private files as in memory, and a full disk is an error before anything is paid."""

import errno
import os
import tempfile

import numpy as np
import pytest

from pgmest.data import kept_codes
from pgmest.data.kept_codes import KeptCodes
from pgmest.errors import DataError

KINDS = [np.dtype(np.uint8), np.dtype(np.uint16)]


def filled() -> KeptCodes:
    kept, rng = KeptCodes(KINDS), np.random.default_rng(0)
    for rows in (5, 0, 7, 1):
        kept.add([rng.integers(0, 200, rows), rng.integers(0, 900, rows)])
    return kept


@pytest.mark.parametrize("limit", [0, 20, 1000])
def test_codes_are_the_same_on_disk_and_no_file_has_a_name(limit, monkeypatch, tmp_path):
    expected = filled().columns()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(kept_codes, "MOST_IN_MEMORY", limit)
    found = filled().columns()
    assert not os.listdir(tmp_path)
    for before, after, kind in zip(expected, found, KINDS, strict=True):
        assert after.dtype == kind
        np.testing.assert_array_equal(after, before)


def test_no_rows():
    assert [len(column) for column in KeptCodes(KINDS).columns()] == [0, 0]


def test_a_full_disk_is_an_error_that_says_what_to_do(monkeypatch):
    class Full:
        def writelines(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    monkeypatch.setattr(kept_codes, "MOST_IN_MEMORY", 3)
    with pytest.raises(DataError, match=r"No space left on device.*TMPDIR"):
        filled()


def test_no_folder_for_temporary_files_is_the_same_error(monkeypatch):
    def nowhere():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    monkeypatch.setattr(kept_codes, "MOST_IN_MEMORY", 3)
    with pytest.raises(DataError, match=r"No usable temporary directory.*TMPDIR"):
        filled()


def test_columns_of_other_arrays_are_written(monkeypatch):
    monkeypatch.setattr(kept_codes, "MOST_IN_MEMORY", 0)
    kept = KeptCodes([np.dtype(np.int64)])
    kept.add([np.arange(10)[::2]])
    assert kept.columns()[0].tolist() == [0, 2, 4, 6, 8]


def test_columns_can_be_asked_for_again():
    kept = filled()
    for before, after in zip(kept.columns(), kept.columns(), strict=True):
        np.testing.assert_array_equal(after, before)
        assert len(after) == 13
