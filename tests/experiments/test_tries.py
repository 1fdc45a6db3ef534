"""`--quick` of each paper: run to its end on the real tables, apart from the published results."""

from __future__ import annotations

import re

import pytest

from experiments.papers.__main__ import papers
from experiments.papers.entry import ROOT
from experiments.papers.paper import A_TRY, Run

PUBLISHED = ROOT / "experiments" / "results"
TABLES = {"pgm": ("titanic100", "adult14", "stroke"), "ide": ("acs/IL_OH",), "ppsyn": ("adult14", "BR2000"),
          "dpsyn": ("fire", "acs-ipums23")}  # fmt: skip


@pytest.mark.tries
@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.key)
def test_a_try_makes_every_report_and_its_pictures_and_nothing_else(paper, shared_data, tmp_path, monkeypatch):
    for name in TABLES[paper.key]:
        shared_data(name)
    before = {path: path.stat().st_mtime_ns for path in PUBLISHED.rglob("*")}
    monkeypatch.setattr(Run, "results", property(lambda self: tmp_path / "results"))
    monkeypatch.setattr(Run, "cells", property(lambda self: tmp_path / "cells"))
    paper.run(Run(quick=True))
    shown = {path.name for path in (tmp_path / "results").glob("*.md")}
    entries = {entry.file.rsplit("/", 1)[-1] for entry in paper.entries if entry.file.startswith("experiments/results")}
    assert entries <= shown
    for report in (tmp_path / "results").glob("*.md"):
        text = report.read_text(encoding="utf-8")
        assert text.startswith(A_TRY), report.name
        assert not re.search(r"\bnan\b", text), report.name
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
            assert (report.parent / picture).is_file(), (report.name, picture)
    assert {path: path.stat().st_mtime_ns for path in PUBLISHED.rglob("*")} == before
