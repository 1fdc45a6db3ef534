"""The page of the papers: every entry names what exists, says why it differs, and is what the page shows."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from experiments.papers import page, tries
from experiments.papers.__main__ import main, papers
from experiments.papers.entry import (
    CANNOT_BE,
    DIFFERS,
    NOT_TRIED,
    REPRODUCED,
    ROOT,
    algorithm,
    count,
    impossible,
    number,
    require,
    require_test,
    statement,
)
from experiments.papers.paper import Paper, Run, Runs, Step, steps_of

PAPERS = papers()


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_every_entry_names_files_that_exist_and_says_why_it_differs(paper):
    for entry in paper.entries:
        if entry.kind() != NOT_TRIED:
            assert not entry.file or (ROOT / entry.file).is_file(), (entry.item, entry.file)
        if entry.kind() in {DIFFERS, CANNOT_BE}:
            assert entry.reason(), (entry.item, entry.what)
        if entry.tested:
            require_test(entry.tested)


def test_the_page_is_the_one_that_the_command_writes():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(PAPERS)


# -- the parts ---------------------------------------------------------------------------------------------------------


HERE = "tests/experiments/test_papers.py::test_numbers_have_one_rule"


@pytest.mark.parametrize(
    ("ours", "kind"),
    [(2.0, REPRODUCED), (2.5, REPRODUCED), (1.6, REPRODUCED), (2.6, DIFFERS), (1.5, DIFFERS),
     ([9.0, 2.0, 1.9], REPRODUCED), ([2.0, 9.0, 9.0], DIFFERS)],
)  # fmt: skip
def test_numbers_have_one_rule(ours, kind):
    entry = number("Figure 1", "error", 2.0, lambda: ours, "README.md", because="of this", tested=HERE)
    assert entry.kind() == kind
    assert entry.verdict() == (kind if kind == REPRODUCED else f"differs: of this (tested by `{HERE}`)")


def test_a_number_is_shown_with_its_ratio_over_the_seeds():
    outcome = number("Figure 1", "x", 4.0, lambda: [3.0, 2.0, 9.0], "README.md", unit="x").outcome()
    assert (outcome.text, outcome.interval, outcome.far) == ("3x", "0.75 (0.5 to 2.25)", pytest.approx(4 / 3))
    assert number("Figure 1", "x", 4.0, lambda: 8.0, "README.md").outcome().interval == "2"


def test_nothing_but_the_number_carries_it():
    """A cause and a test of it change no verdict, and no argument of `number` can."""
    for because, tested in (("", ""), ("a reason", ""), ("a reason", HERE)):
        entry = number("Figure 1", "x", 27.0, lambda: 11.5, "README.md", because=because, tested=tested)
        assert entry.kind() == DIFFERS
    assert not {"within", "others"} & set(inspect.signature(number).parameters)


@pytest.mark.parametrize(("ours", "kind"), [(17_116, DIFFERS), (17_716, REPRODUCED), (17_717, DIFFERS)])
def test_counts_are_equal_or_differ(ours, kind):
    assert count("Table 1", "queries", 17_716, lambda: ours, "README.md").kind() == kind


def test_a_statement_may_have_a_ratio_by_seed():
    entry = statement("Figure 3", "x", "L2 is better", lambda: ("0.2 against 0.1", False, [2.0, 1.9, 2.2]), "README.md")
    assert (entry.outcome().interval, entry.outcome().far) == ("2 (1.9 to 2.2)", 2.0)
    assert statement("Figure 3", "x", "y", lambda: ("z", True), "README.md").outcome().interval == "-"


def test_a_cause_that_is_not_tested_or_not_known_is_called_so():
    assert number("Figure 1", "error", 2.0, lambda: 9.0, "README.md").verdict() == "differs: **cause not known**"
    untested = number("Figure 1", "error", 2.0, lambda: 9.0, "README.md", because=lambda: "the table")
    assert untested.verdict() == "differs: the table (**not tested**)"


def test_a_difference_whose_tested_causes_are_refuted_is_counted_as_such():
    reason = "cause not found; tested and refuted: a larger limit, 0.2 as well"
    refuted = number("Figure 1", "error", 2.0, lambda: 9.0, "README.md", because=lambda: reason, tested=HERE)
    assert (
        refuted.verdict()
        == f"differs: **cause not found**; tested and refuted: a larger limit, 0.2 as well (tested by `{HERE}`)"
    )
    known = number("Figure 1", "error", 2.0, lambda: 9.0, "README.md", because="a larger limit", tested=HERE)
    assert [entry.has_cause() for entry in (refuted, known)] == [False, True]
    assert "| X | 0 | 2 | 0 | 0 | 0 | 1 | - |" in page.page([Paper("x", "X", "A title", (), (refuted, known))])


@pytest.mark.parametrize("tested", ["python -m experiments.nowhere", HERE + "_else"])
def test_a_test_of_a_cause_must_exist(tested):
    with pytest.raises(AssertionError, match="experiments/papers names"):
        number("Figure 1", "error", 2.0, lambda: 9.0, "README.md", because="x", tested=tested).verdict()
    require_test("python -m experiments.papers pgm --step figure1")


def test_missing_results_are_not_tried_and_other_errors_are_raised():
    def missing() -> Any:
        raise FileNotFoundError("no such table")

    def broken() -> tuple[str, bool]:
        raise ValueError("a bug")

    assert number("Figure 1", "error", 2.0, missing, "README.md").verdict() == NOT_TRIED
    lacking = statement("Figure 1", "it rises", "yes", missing, "README.md", because="x", lacking=lambda: "an hour")
    assert lacking.verdict() == f"{NOT_TRIED}: an hour"
    with pytest.raises(ValueError, match="a bug"):
        statement("Figure 1", "it rises", "yes", broken, "README.md").verdict()


def test_an_algorithm_must_exist_and_have_tests_that_exist():
    known = "tests/experiments/test_papers.py::test_an_algorithm_must_exist_and_have_tests_that_exist"
    assert algorithm("Algorithm 1", "x", "experiments/papers/page.py: page", [known]).verdict() == "reproduced"
    with pytest.raises(AssertionError, match="nowhere"):
        algorithm("Algorithm 1", "x", "experiments/papers/page.py: nowhere", [known]).verdict()
    with pytest.raises(AssertionError, match="test_none"):
        algorithm("Algorithm 1", "x", "experiments/papers/page.py: page", [known + "_test_none"]).verdict()
    require("experiments/papers/paper.py: Paper.run")
    changed = algorithm(
        "Algorithm 1", "x", "experiments/papers/page.py: page", [known], because="y", as_published=False
    )
    assert changed.verdict() == f"differs: y (tested by `{known}`)"


def test_a_table_escapes_what_would_break_it_and_links_relative_to_the_page():
    entries = (
        statement("Figure 1", "a | b", "||x||", lambda: ("1\n2", True), "experiments/results/pgm_figure1.md"),
        impossible("Figure 2", "its table", "a bar", "it is not public"),
        statement("Figure 3", "c", "d", lambda: ("e", False), "README.md", because="f"),
    )
    shown = page.page([Paper("x", "X", "A title", (), entries)])
    assert "a \\| b" in shown
    assert "\\|\\|x\\|\\|" in shown
    assert "(results/pgm_figure1.md)" in shown
    assert "| X | 1 | 1 | 0 | 1 | 1 | 0 | - |" in shown
    assert "| all | 1 | 1 | 0 | 1 | 1 | 0 |  |" in shown
    lines = [line for line in shown.splitlines() if line.startswith("| Figure")]
    assert [line[2:10] for line in lines] == ["Figure 3", "Figure 2", "Figure 1"]
    assert all(line.count(" | ") == 6 for line in lines)


def test_the_page_names_the_largest_differences_first():
    entries = [number("Table", f"item {ours:g}", 1.0, lambda ours=ours: ours, "README.md") for ours in (1.0, 2.0, 0.1)]
    entries.append(statement("Table", "in words", "x", lambda: ("y", False), "README.md"))
    shown = page.page([Paper("x", "X", "A title", (), entries)])
    assert "1. X, Table, item 0.1: 1 in the paper, 0.1 here, a ratio of 0.1." in shown
    assert "2. X, Table, item 2: 1 in the paper, 2 here, a ratio of 2." in shown
    assert "3. X" not in shown
    assert "3 entries differ, 1 of them in words, without a ratio." in shown


def test_steps_run_in_order_or_by_name_and_a_try_keeps_apart():
    ran = []
    paper = Paper("x", "X", "t", (Step("a", lambda run: ran.append(("a", run.quick))), Step("b", ran.append)), ())
    paper.run(Run(quick=True), only=["a"])
    assert ran == [("a", True)]
    assert Run(quick=True).results != Run().results
    assert Run(quick=True).cells != Run().cells
    assert (Run(quick=True).few(5, 1), Run().few(5, 1)) == (1, 5)


def test_steps_are_found_by_name_when_they_run(monkeypatch):
    ran = []
    monkeypatch.setattr("experiments.dpsyn.steps.views", ran.append)
    (step,) = steps_of("experiments.dpsyn.steps", ["views"])
    step.run(Run(quick=True))
    assert (step.name, ran) == ("views", [Run(quick=True)])


def test_what_a_try_takes_is_kept_for_each_paper(tmp_path):
    table = tmp_path / "quick.csv"
    assert tries.seconds_of(table) == {}
    tries.record("pgm", 61.4, table)
    tries.record("ide", 9.0, table)
    tries.record("pgm", 58.7, table)
    assert tries.seconds_of(table) == {"pgm": 59, "ide": 9}


@pytest.mark.parametrize("arguments", [["pgm", "--record"], ["pgm", "--quick", "--record", "--step", "figure1"]])
def test_only_a_whole_try_is_recorded(arguments, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["papers", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert "--record is for a whole try" in capsys.readouterr().err


class _Cell:
    def __init__(self, name: str):
        self.name, self.runs = name, 0

    def row(self) -> dict[str, object]:
        self.runs += 1
        return {"value": self.runs, "path": [1.0, 0.5]}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results and stored rows in a temporary folder."""
    monkeypatch.setattr("experiments.papers.paper.PUBLISHED", tmp_path / "results")
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


def test_a_try_and_a_fresh_run_take_nothing_from_the_published_table(results):
    cell = _Cell("one")
    runs = Runs("x", [cell], ("table",), lists=("path",))
    Run().write_table("table", Run().table(runs))
    (results / "cells" / "x" / "one.json").unlink()
    assert Run(quick=True, stored=True).rows(runs) == Run(fresh=True, stored=True).rows(runs) == []
    assert [cell.name for cell in Run(fresh=True).missing(runs)] == ["one"]


def test_single_runs_are_named_by_patterns_and_come_once(results):
    cells = [_Cell("fire-0.3-0"), _Cell("fire-1-0"), _Cell("loans-1-0")]
    paper = Paper("x", "X", "X.", (), (), runs=lambda how: [Runs("x", cells, ()), Runs("x", cells[:1], ())])

    def named(*patterns):
        return [cell.name for runs in paper.missing(Run(), patterns) for cell in runs.cells]

    assert named("*") == ["fire-0.3-0", "fire-1-0", "loans-1-0"]
    assert named("fire-1-*", "loans*") == ["fire-1-0", "loans-1-0"]


def test_the_report_of_a_try_says_so(results, monkeypatch):
    monkeypatch.setattr(Run, "results", property(lambda self: results / ("quick" if self.quick else "results")))
    for quick in (True, False):
        Run(quick).write_report("x", "# X\n")
    assert (results / "results" / "x.md").read_text() == "# X\n"
    assert (results / "quick" / "x.md").read_text().startswith("**A try")
