"""The section of the report on the levels of hierarchies."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pgmest as pg
from pgmest.evaluation import level_errors, report
from pgmest.evaluation.reports import levels
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
    assert "<summary>II: " in text[text.index("<h2>Levels of areas and codes</h2>") :].partition("</section>")[0]


@pytest.mark.parametrize("real", [None, REAL], ids=["public", "private"])
def test_the_tree_opens_to_its_members_with_margins_and_true_counts_for_the_owner(real):
    found = levels_section(MODEL, DOMAIN, {}, real)
    assert found.count("<details open>") == 1
    assert found.count("<details>") == 4  # two chapters, and two blocks of several values
    assert found.count("</details>") == 5
    assert "&lt;I&gt;: " in found
    margins = re.findall(r"III: ([\d,.]+) ± ([\d.]+)", found)
    assert len(margins) == 1
    assert float(margins[0][0]) == pytest.approx(MODEL.project("code@chapter").values[2], abs=1)
    assert 5 < float(margins[0][1]) < 20  # 1.96 x 5 x sqrt(2), less what the estimate gains
    assert ("true" in found) == (real is not None)
    if real is not None:
        assert f"true {REAL.project('code@chapter').values[0]:,.0f}" in found
        assert "<td>code@chapter</td><td" in found


def test_records_have_no_margins_and_wide_trees_no_leaves(monkeypatch):
    found = levels_section(some_data(1), DOMAIN, {"code": list("abcdef")}, REAL)
    assert "<li>b: " in found
    assert "±" not in found
    monkeypatch.setattr(levels, "MOST_LEAVES", 5)
    monkeypatch.setattr(levels, "MOST_OPEN", 2)
    found = levels_section(MODEL, DOMAIN, {})
    assert "<details open>" not in found
    assert found.count("<details>") == 3
    assert not levels_section(MODEL, pg.Domain(dict(DOMAIN)), {})


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

    found = levels_section(Release(), DOMAIN, {})
    assert "In 1 of 2 groups of code@block, noise hides" in found
    assert re.search(r"<summary>x: [^<]* \(2 values, not told apart\)", found)
    assert found.count("not told apart") == 1
    assert "noise hides" not in levels_section(MODEL, DOMAIN, {})


def test_tables_that_invariants_hold_are_exact_in_the_list_of_errors():
    """Those by level have their names, and no noise of a table that a finer invariant determines is listed."""
    mechanism = pg.mechanisms.MST(epsilon=1.0, backend="simulation", invariants=["code@chapter", "sex"])
    found = expected_errors(mechanism.fit(REAL, [("code",), ("code", "sex")], seed=0, progress=False), 900.0)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", found, re.DOTALL)]
    listed = {row[0]: row[-2:] for row in rows if row}
    assert listed["code@chapter"] == listed["sex"] == ["none", "exact"]
    assert listed["code × sex"][1].endswith("%")
    assert "are published without noise" in found
