"""Files are replaced whole or not at all, and errors name them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pgmest._base.files import atomic_path, read_text, write_atomically
from pgmest.errors import DataError, FileFormatError


def test_text_and_bytes_are_written(tmp_path):
    path = tmp_path / "file.txt"
    write_atomically(path, "größe\n")
    assert path.read_bytes() == "größe\n".encode()
    write_atomically(str(path), b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_the_temporary_file_lies_beside_and_ends_alike(tmp_path):
    with atomic_path(tmp_path / "table.csv.gz") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.endswith("table.csv.gz")
        temporary.write_text("x")
        assert not (tmp_path / "table.csv.gz").exists()
    assert (tmp_path / "table.csv.gz").read_text() == "x"


def test_the_longest_names_can_be_written(tmp_path):
    path = tmp_path / ("x" * 251 + ".npz")
    write_atomically(path, "x")
    assert path.read_text() == "x"


@pytest.mark.parametrize("error", [RuntimeError("stopped"), KeyboardInterrupt(), DataError("bad records")])
def test_a_failure_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half of the new")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_full_disk_leaves_the_old_file_and_is_named(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(FileFormatError) as raised, atomic_path(path):
        raise OSError(28, "No space left on device")
    assert str(raised.value) == (
        f"{path}: cannot be written: No space left on device. Check the folder and the free space."
    )
    with pytest.raises(FileFormatError) as raised, atomic_path(path):
        raise OSError("the writer gave up")
    assert "cannot be written: the writer gave up." in str(raised.value)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "none" / "file.txt"
    with pytest.raises(FileFormatError) as raised:
        write_atomically(path, "x")
    assert str(raised.value) == (
        f"{path}: cannot be written: No such file or directory. Check the folder and the free space."
    )


def test_a_file_where_a_folder_should_be_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileFormatError, match="cannot be written: Not a directory"):
        write_atomically(tmp_path / "file" / "inner", "x")


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileFormatError, match="cannot be written: Is a directory"):
        write_atomically(tmp_path / "folder", "x")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_path_with_a_null_character_is_an_error():
    with pytest.raises(FileFormatError, match=r"cannot be written: (lstat: )?embedded null"):
        write_atomically("a\0b", "x")
    with pytest.raises(FileFormatError, match=r"cannot be read: (open: )?embedded null"):
        read_text("a\0b")


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_usual_permissions_and_an_old_one_keeps_its_own(tmp_path):
    plain, written = tmp_path / "plain", tmp_path / "written"
    plain.write_text("x")
    write_atomically(written, "x")
    assert permissions(written) == permissions(plain)
    written.chmod(0o600)
    write_atomically(written, "y")
    assert permissions(written) == 0o600


def test_reading_errors_name_the_file(tmp_path):
    with pytest.raises(FileFormatError) as raised:
        read_text(tmp_path)
    assert str(raised.value) == f"{tmp_path}: cannot be read: Is a directory. Check the path."
    latin = tmp_path / "latin.txt"
    latin.write_bytes("é".encode("latin-1") + b"abc")
    with pytest.raises(FileFormatError) as raised:
        read_text(latin)
    assert str(raised.value) == f"{latin}: not UTF-8 text (invalid continuation byte). Save it as UTF-8."
