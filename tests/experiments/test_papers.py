"""The page of the papers: its verdicts follow one rule, and it is what its command writes."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from experiments.papers import page, report
from experiments.papers.__main__ import papers
from experiments.papers.line import CHANGED, DIFFERS, LETTER, REPRODUCED, Line, Result, compared, same
from experiments.papers.paper import Paper, Run, Runs
from experiments.papers.reading import RESULTS, ROOT, rows

PAPERS = papers()


def test_the_page_is_the_one_that_the_command_writes():
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.page(PAPERS)
    assert len(text.splitlines()) <= 110
    assert len(text.split()) <= 3500


def test_every_line_names_a_report_that_is_there():
    for paper in PAPERS:
        for line in paper.lines:
            assert line.report in report.REPORTS, line.item


@pytest.mark.parametrize("name", report.REPORTS)
def test_reports_are_those_that_the_command_writes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.write()
    assert (tmp_path / f"{name}.md").read_text() == (RESULTS / f"{name}.md").read_text()


def test_what_differs_says_what_was_tested_or_that_nothing_was():
    for paper in PAPERS:
        for line in paper.lines:
            if line.verdict() == DIFFERS:
                assert line.cells()[3], line.claim


def test_figure_2a_says_at_which_budgets_there_are_more_seeds():
    """Its two forms have more than one seed at different budgets."""
    (line,) = (line for paper in PAPERS for line in paper.lines if line.claim == "the gain grows as epsilon falls")
    for way, (text, _) in zip(("published", "ours"), line.results().values(), strict=True):
        seeds = Counter(rows("pgm_figure2a", way=way)["epsilon"])
        several = [f"{epsilon:g}" for epsilon in sorted(seeds) if seeds[epsilon] > 1]
        assert text.endswith(f"(1 seed but at {' and '.join(several)})")


def result(holds):
    return lambda: Result("0.1", holds)


@pytest.mark.parametrize(
    ("forms", "verdict"),
    [
        ({LETTER: True}, REPRODUCED), ({LETTER: True, "a change": False}, REPRODUCED), ({LETTER: False}, DIFFERS),
        ({LETTER: False, "a change": True}, CHANGED), ({"a change": True}, CHANGED), ({"a change": False}, DIFFERS),
    ],
)  # fmt: skip
def test_only_the_letter_reproduces(forms, verdict):
    line = Line("Figure 1", "x", {form: result(holds) for form, holds in forms.items()})
    assert line.verdict() == verdict
    assert Line("Figure 1", "x", line.forms, apart="a fit").verdict() == "a fit"


def test_a_line_shows_the_letter_apart_from_the_changes():
    line = Line("Figure 1", "x", {"a change": result(True)}, remark="cause not tested", letter="not public", report="r")
    assert line.cells() == (
        "[Figure 1](results/r.md)", "x", "not public", "*a change*: 0.1; cause not tested", f"**{CHANGED}**",
    )  # fmt: skip


@pytest.mark.parametrize(("ours", "holds"), [(2.0, True), (2.5, True), (1.6, True), (2.6, False), (1.5, False)])
def test_numbers_have_one_rule(ours, holds):
    assert same(ours, 2.0) == holds
    assert compared({"adult": ours, "stroke": 9.0}, {"adult": 2.0}, "x").holds == holds
    assert not compared({"adult": ours}, {"adult": ours, "loans": 2.0}).holds


def test_three_numbers_of_a_paper():
    lines = [Line("1", "x", {LETTER: result(holds)}) for holds in (True, True, False)]
    lines += [Line("2", "a | b", {"y": result(True)}), Line("3", "x", {}, apart="open")]
    paper = Paper("x", "X", "A title", "", {}, list, lines, lambda: ["It holds."], ["y"])
    text = page.page([paper])
    assert "| X | 0 of 0 | 2, and 1 with a change | 1 |" in text
    assert "1. It holds." in text
    assert "a \\| b" in text
    assert "- X: y." in text


def test_the_architecture_names_files_that_exist_for_each_algorithm_of_a_paper():
    text = page.ARCHITECTURE.read_text(encoding="utf-8").split("## Where a paper's algorithm is")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 30
    for algorithm, files, form in rows:
        folder = ""
        for name in re.findall(r"`([^`:]+)[^`]*`", files):
            place = name.replace("PGM/", "experiments/pgm_icml2019/published/")
            roots = [ROOT / place, ROOT / "pgmest" / place, ROOT / folder / place, ROOT / "pgmest" / folder / place]
            assert any(root.exists() for root in roots), (algorithm, name)
            folder = place.rpartition("/")[0] or folder
        assert form.startswith(("letter", "changed: ")), algorithm


# -- runs --------------------------------------------------------------------------------------------------------------


class _Cell:
    def __init__(self, name: str):
        self.name, self.runs = name, 0

    def row(self) -> dict[str, object]:
        self.runs += 1
        return {"value": self.runs, "path": [1.0, 0.5]}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results and stored rows in a temporary folder."""
    monkeypatch.setattr("experiments.papers.paper.RESULTS", tmp_path / "results")
    monkeypatch.setattr(Run, "cells", property(lambda self: tmp_path / "cells"))
    return tmp_path


def test_rows_are_stored_and_run_once(results):
    runs = Runs("x", [_Cell("one")], ())
    assert Run(stored=True).rows(runs) == []
    first = {"run": "one", "value": 1, "path": [1.0, 0.5]}
    assert Run().rows(runs) == Run().rows(runs) == [first]
    assert Run(fresh=True).rows(runs) == [first | {"value": 2}]
    assert Run(stored=True).rows(runs) == [first | {"value": 2}]


def test_a_run_goes_on_from_the_published_table(results):
    cell = _Cell("one")
    runs = Runs("x", [cell], ("table",), lists=("path",))
    Run().write_table("table", Run().table(runs))
    (results / "cells" / "x" / "one.json").unlink()
    both = Runs("x", [*runs.cells, _Cell("two")], ("table",), lists=("path",))
    assert [cell.name for cell in Run().missing(both)] == ["two"]
    assert [(row["run"], row["value"], row["path"]) for row in Run().rows(both)] == [
        ("one", 1, [1.0, 0.5]), ("two", 1, [1.0, 0.5]),
    ]  # fmt: skip
    assert cell.runs == 1
    assert [cell.name for cell in Run(fresh=True).missing(runs)] == ["one"]


def test_steps_run_in_order_or_by_name():
    ran = []
    steps = {"a": lambda how: ran.append("a"), "b": lambda how: ran.append("b")}
    paper = Paper("x", "X", "t", "", steps, list, (), list, ())
    paper.run(Run())
    paper.run(Run(), only=["b"])
    assert ran == ["a", "b", "b"]


def test_single_runs_are_named_by_patterns_and_come_once(results):
    cells = [_Cell("fire-0.3-0"), _Cell("fire-1-0"), _Cell("loans-1-0")]
    paper = Paper("x", "X", "X.", "", {}, lambda: [Runs("x", cells, ()), Runs("x", cells[:1], ())], (), list, ())

    def named(*patterns):
        return [cell.name for runs in paper.missing(Run(), patterns) for cell in runs.cells]

    assert named("*") == ["fire-0.3-0", "fire-1-0", "loans-1-0"]
    assert named("fire-1-*", "loans*") == ["fire-1-0", "loans-1-0"]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_the_kept_tables_have_rows_of_the_runs(paper):
    """So that a checkout goes on from them, and reruns nothing that the page shows."""
    for runs in paper.runs():
        assert len(Run().missing(runs)) < len(runs.cells), runs.folder
