"""The section of the report on the levels of hierarchies."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pgmest as pg
from pgmest.evaluation import level_errors, report
from pgmest.evaluation.reports.levels import levels_section
from pgmest.evaluation.reports.release import expected_errors
from pgmest.simulation import simulate_measurements

pytest.importorskip("matplotlib").use("Agg")

CHAPTERS = ["<I>", "<I>", "<I>", "II", "II", "III"]
TREE = pg.Hierarchy("code", {"chapter": CHAPTERS, "block": ["x", "x", "y", "z", "z", "w"]})
DOMAIN = pg.Domain({"code": 6, "sex": 2}).with_hierarchies(TREE)


def some_data(seed: int) -> pg.Dataset:
    rng = np.random.default_rng(seed)
    return pg.Dataset.from_codes(
        [rng.choice(6, 900, p=[0.3, 0.2, 0.1, 0.2, 0.1, 0.1]), rng.integers(0, 2, 900)], DOMAIN
    )


REAL = some_data(0)
MODEL = pg.estimate(simulate_measurements(REAL, [("code", "sex")], 5.0, seed=0), DOMAIN)


def test_the_page_has_the_levels_of_the_schema(tmp_path):
    columns = {"code": {"type": "categorical", "values": list("abcdef"), "outside": "clip"}}
    columns["code"]["hierarchy"] = {"chapter": {"I": ["a", "b", "c"], "II": ["d", "e", "f"]}}
    columns["sex"] = {"type": "categorical", "values": ["F", "M"], "outside": "clip"}
    text = report(None, MODEL, out=tmp_path / "page.html", schema=pg.Schema.from_dict({"columns": columns})).read_text()
    section = text[text.index("<h2>Levels of areas and codes</h2>") :].partition("</section>")[0]
    assert "<td>code@chapter</td>" in section


def rows_of(page):
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)]
    return [row for row in rows if row]


def test_the_errors_to_expect_at_each_level_are_listed_and_those_made_for_the_owner_alone():
    public = rows_of(levels_section(MODEL, DOMAIN))
    assert [row[:2] for row in public] == [["code@chapter", "3"], ["code@block", "4"], ["code", "6"]]
    assert all(2 < float(row[2]) < 10 for row in public)  # 0.67 x 5 x sqrt(2) of a code, more of a chapter
    private = rows_of(levels_section(MODEL, DOMAIN, REAL))
    assert private[:3] == public
    made = level_errors(REAL, MODEL, DOMAIN)
    assert [row[0] for row in private[3:]] == [one.name for one in made]
    assert [float(row[2].rstrip("%")) for row in private[3:]] == [
        pytest.approx(100 * one.single, abs=0.06) for one in made
    ]


def test_records_have_no_errors_to_expect():
    assert levels_section(some_data(1), DOMAIN) == ""
    assert [row[0] for row in rows_of(levels_section(some_data(1), DOMAIN, REAL))] == [
        "code@chapter",
        "code@block",
        "code",
    ]
    assert levels_section(MODEL, pg.Domain(dict(DOMAIN))) == levels_section(MODEL, pg.Domain(dict(DOMAIN)), REAL) == ""


def test_level_errors_are_those_of_tables_that_are_summed_by_hand():
    other = some_data(1)
    for one in level_errors(REAL, other, DOMAIN):
        name = one.name.partition("@")[2]
        groups = TREE.groups(name) if name else np.arange(6)
        mine, theirs = (np.zeros((groups.max() + 1, 2)) for _ in range(2))
        np.add.at(mine, groups, REAL.project(("code", "sex")).values)
        np.add.at(theirs, groups, other.project(("code", "sex")).values)
        assert one.groups == len(mine)
        assert one.single == pytest.approx(np.abs(mine.sum(1) - theirs.sum(1)).sum() / 1800)
        assert one.pairs == pytest.approx(np.abs(mine - theirs).sum() / 1800)


def test_branches_whose_values_noise_hides_are_named():
    class Release:
        domain, model = DOMAIN, MODEL
        details = {"not_distinguished": {"code": ("x", "w")}}  # noqa: RUF012
        project = staticmethod(MODEL.project)

    found = levels_section(Release(), DOMAIN)
    assert "In 1 of 2 groups of code@block, noise hides" in found
    assert "public data. x<" in found
    assert "noise hides" not in levels_section(MODEL, DOMAIN)


def test_tables_that_invariants_hold_are_exact_in_the_list_of_errors():
    """Those by level have their names, and no noise of a table that a finer invariant determines is listed."""
    mechanism = pg.mechanisms.MST(epsilon=1.0, backend="simulation", invariants=["code@chapter", "sex"])
    found = expected_errors(mechanism.fit(REAL, [("code",), ("code", "sex")], seed=0, progress=False), 900.0)
    listed = {row[0]: row[-2:] for row in rows_of(found)}
    assert listed["code@chapter"] == listed["sex"] == ["none", "exact"]
    assert listed["code × sex"][1].endswith("%")
    assert "are published without noise" in found
