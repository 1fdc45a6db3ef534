"""The folder of compiled kernels: it survives if any folder is writable, and is never one that others can write to."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgmest._base import kernel_cache


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose installation and home cannot be written to, unless a test says so."""
    allowed: set[Path] = {tmp_path / "tmp"}
    (tmp_path / "tmp").mkdir()

    def writable(folder: Path) -> bool:
        if not any(one == folder or one in folder.parents for one in allowed):
            return False
        folder.mkdir(parents=True, exist_ok=True)
        return True

    monkeypatch.setattr(kernel_cache, "writable", writable)
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(kernel_cache, "PREPARED", tmp_path / "package" / "_kernels")
    monkeypatch.setattr(kernel_cache, "MEMORY", tmp_path / "memory")
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    for name in ("PGMEST_CACHE_DIR", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    kernel_cache.kernel_folder.cache_clear()
    yield SimpleNamespace(root=tmp_path, allowed=allowed)
    kernel_cache.kernel_folder.cache_clear()


def private(machine) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return machine.root / "tmp" / f"pgmest-kernels-{user}"


def test_numba_keeps_them_beside_the_source_where_it_can(machine):
    machine.allowed.add(machine.root / "package")
    assert kernel_cache.kernel_folder() is None
    assert kernel_cache.kernels_are_kept()


def test_else_in_the_home_and_else_in_a_private_temporary_folder(machine):
    assert kernel_cache.kernel_folder() == private(machine)
    kernel_cache.kernel_folder.cache_clear()
    machine.allowed.add(machine.root / "home")
    assert kernel_cache.kernel_folder() == machine.root / "home" / "pgmest"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
@pytest.mark.parametrize("how", ["open to others", "a link"])
def test_a_temporary_folder_that_others_may_fill_is_not_used(machine, how):
    if how == "a link":
        (machine.root / "tmp" / "elsewhere").mkdir(mode=0o700)
        private(machine).symlink_to(machine.root / "tmp" / "elsewhere")
    else:
        private(machine).mkdir()
        private(machine).chmod(0o777)
    assert kernel_cache.kernel_folder() is None
    assert not kernel_cache.kernels_are_kept()


def test_where_no_file_can_be_written_they_are_kept_in_memory(machine, monkeypatch):
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", nowhere)
    assert kernel_cache.kernel_folder() is None
    kernel_cache.kernel_folder.cache_clear()
    (machine.root / "memory").mkdir()
    machine.allowed.add(machine.root / "memory")
    assert kernel_cache.kernel_folder() == machine.root / "memory" / private(machine).name


def test_a_prepared_folder_that_cannot_be_written_is_copied_once(machine):
    kernels = machine.root / "package" / "_kernels"
    kernels.mkdir(parents=True)
    (kernels / "upward.nbc").write_bytes(b"code")
    inner = kernels / "exact_3f"
    inner.mkdir()
    (inner / "downward.nbc").write_bytes(b"code")
    inner.chmod(0o555)  # as whoever installs for others leaves it
    found = kernel_cache.kernel_folder()
    inner.chmod(0o755)
    assert found is not None
    assert found.parent == private(machine)
    assert (found / "upward.nbc").read_bytes() == b"code"
    assert not found.stat().st_mode & 0o077
    assert (found / "exact_3f").stat().st_mode & 0o700 == 0o700
    assert (found / "exact_3f" / "downward.nbc").read_bytes() == b"code"
    (found / "upward.nbc").write_bytes(b"mine")
    kernel_cache.kernel_folder.cache_clear()
    assert kernel_cache.kernel_folder() == found
    assert (found / "upward.nbc").read_bytes() == b"mine"


def test_the_environment_comes_first(machine, monkeypatch):
    machine.allowed.add(machine.root / "package")
    machine.allowed.add(machine.root / "named")
    monkeypatch.setenv("PGMEST_CACHE_DIR", str(machine.root / "named"))
    assert kernel_cache.kernel_folder() == machine.root / "named"


def test_numba_sees_the_folder_only_while_functions_are_declared(machine):
    config = SimpleNamespace(CACHE_DIR="theirs")
    with kernel_cache.numba_cache(config):
        assert str(private(machine)) == config.CACHE_DIR
    assert config.CACHE_DIR == "theirs"
