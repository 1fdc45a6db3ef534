"""`pgmest warm-up`: programs that run, in the folder that is named."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pgmest._base.kernel_cache import PACKAGE
from pgmest.cli import warm_up
from pgmest.cli.main import main
from pgmest.errors import PgmestError

RUN_ALL = r"""
import importlib, re
from pgmest._base.kernel_cache import PACKAGE
from pgmest.cli.warm_up import USES
for use, program in USES.items():
    exec(compile(program, use, "exec"), {})
unused = []
for path in PACKAGE.rglob("*.py"):
    source = path.read_text(encoding="utf-8")
    kernels = re.findall(r"^@compiled\ndef (\w+)", source, re.MULTILINE)
    kernels = [kernel for kernel in kernels if source.count(f"{kernel}(") == 1]  # others are called by kernels
    name = ".".join(["pgmest", *path.relative_to(PACKAGE).with_suffix("").parts])
    module = importlib.import_module(name) if kernels else None
    unused += [f"{name}.{kernel}" for kernel in kernels if not getattr(module, kernel).signatures]
print(unused)
"""


def test_every_kernel_is_compiled_by_what_people_call():
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", RUN_ALL], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "[]"


def test_it_goes_where_the_environment_says(tmp_path, monkeypatch, capsys):
    seen = []
    monkeypatch.setenv("PGMEST_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(warm_up, "compile_all", lambda folder, processes: seen.append((folder, processes)))
    assert main(["warm-up", "--processes", "3"]) == 0
    assert seen == [(tmp_path / "kernels", 3)]
    assert f"kernels are ready in {tmp_path / 'kernels'}" in capsys.readouterr().out


def test_a_program_that_fails_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(warm_up, "USES", {"broken": "raise SystemExit('no compiler')"})
    with pytest.raises(PgmestError, match="compiling failed: no compiler"):
        warm_up.compile_all(tmp_path, 1)
    assert os.environ.get("PGMEST_CACHE_DIR") != str(tmp_path)


def test_without_a_folder_kernels_go_where_this_process_keeps_its_own(monkeypatch):
    monkeypatch.delenv("PGMEST_CACHE_DIR", raising=False)
    monkeypatch.setattr(
        warm_up, "USES", {"where": "import os; assert 'PGMEST_CACHE_DIR' not in os.environ, 'another folder'"}
    )
    warm_up.compile_all()


def test_what_is_compiled_is_this_package_whatever_lies_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "pgmest").mkdir()
    (tmp_path / "pgmest" / "__init__.py").write_text("raise SystemExit('another pgmest')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(PACKAGE.parent))
    monkeypatch.setattr(warm_up, "USES", {"where": f"import pgmest; assert pgmest.__path__ == [{str(PACKAGE)!r}]"})
    warm_up.compile_all(tmp_path / "kernels", 1)


def test_every_use_is_done_once_by_few_processes_and_said(tmp_path, monkeypatch, capsys):
    """The first group is begun first: the others need its kernels, except the second."""
    log = tmp_path / "log"
    uses = {name: f"import os; open({str(log)!r}, 'a').write('{name} %d\\n' % os.getpid())" for name in warm_up.USES}
    monkeypatch.setattr(warm_up, "USES", uses)
    warm_up.compile_all(tmp_path / "kernels", 2)
    done = [line.rsplit(" ", 1) for line in log.read_text().splitlines()]
    assert sorted(name for name, _ in done) == sorted(uses)
    assert len({process for _, process in done}) <= 2
    order = [name for name, _ in done]
    assert min(map(order.index, set(uses) - set(warm_up.GROUPS[1]))) == order.index(warm_up.GROUPS[0][0])
    said = capsys.readouterr().err
    assert all(f": {name} (" in said for name in uses)
    assert f"{len(uses)} of {len(uses)}: " in said


def test_groups_name_uses():
    names = [name for group in warm_up.GROUPS for name in group]
    assert set(names) <= set(warm_up.USES)
    assert len(set(names)) == len(names)
