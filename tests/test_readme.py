"""The README: its Python runs, its commands exist, its files are there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pgmest.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_python_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert re.search("converged|Ledger", capsys.readouterr().out)
    assert (tmp_path / "synthetic.csv").exists()


@pytest.mark.parametrize("block", re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
def test_commands_run_in_an_empty_folder(block, tmp_path):
    (tmp_path / "bin").mkdir()
    for name, module in (("python", ""), ("pgmest", "-m pgmest")):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        script.chmod(0o755)
    (tmp_path / "empty").mkdir()
    path = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        ["sh", "-e", "-c", block], cwd=tmp_path / "empty", env=os.environ | path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "empty" / "synthetic_people.csv").exists()


def test_one_screen_decides():
    assert len(README.splitlines()) <= 100


def test_links_and_paths_lead_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", README)
    paths = re.findall(r"`((?:pgmest|docs|experiments)/[^`]*)`", README)
    local = [link for link in links if not link.startswith("http")]
    missing = [path for path in local + paths if not (ROOT / path).exists()]
    assert missing == []


def test_commands_exist():
    blocks = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    used = set(re.findall(r"^pgmest (\w+)", blocks, re.MULTILINE))
    assert used
    assert used <= set(COMMANDS)


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^ {4}make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile
