"""The guide to the command line: its commands run, in order, and say nothing on standard error but what they should."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from pgmest.cli.main import main

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "command_line.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_its_commands_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ran = []
    for kind, text in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        if kind == "python" and "import pgmest" not in text:
            exec(text, {})
        for line in text.splitlines() if kind == "sh" else ():
            program, *arguments = shlex.split(line)
            assert program == "pgmest"
            assert main(arguments) == 0, capsys.readouterr().err
            ran.append(arguments[0])
    again = ["ledger", "synthesize", "ledger"]
    assert ran == ["schema", "info", "check", "plan", "synthesize", *again, "compare", "query", "sample"]
    assert len((tmp_path / "more.csv").read_text().splitlines()) == 100001
