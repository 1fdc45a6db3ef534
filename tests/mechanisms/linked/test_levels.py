"""Levels of hierarchies in linked tables: answers, intervals, errors and reports of persons.work@sector."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DuplicateAttributeError, UnknownAttributeError
from pgmest.evaluation.linked_errors import linked_errors
from pgmest.mechanisms.linked import LinkedLAMP
from tests.mechanisms.linked.examples import households

AREA = pg.Hierarchy("area", {"state": ["N", "S", "N", "S"]})
WORK = pg.Hierarchy("work", {"sector": [0, 1, 0, 2, 1], "kind": [0, 1, 0, 2, 3]})
ABOVE = pg.Domain({"area": 4, "code": 2}).with_hierarchies(AREA)
INSIDE = pg.Domain({"work": 5, "code": 3}).with_hierarchies(WORK)
SIZES = np.random.default_rng(0).integers(4, size=500)
DATA = households(SIZES, ABOVE, INSIDE, 3)


@pytest.fixture(scope="module")
def result():
    return LinkedLAMP(epsilon=2.0, backend="simulation").fit(DATA, seed=0, progress=False)


def grouped(values, tree, level):
    return np.stack([values[tree.groups(level) == one].sum(axis=0) for one in range(tree.size(level))])


@pytest.mark.parametrize("level", ["sector", "kind"])
@pytest.mark.parametrize("name", ["work", "persons.work"])
def test_levels_add_up_codes_and_have_intervals(result, name, level):
    asked = f"{name}@{level}"
    assert np.allclose(result.project(asked).values, grouped(result.project(name).values, WORK, level))
    both = result.project((asked, "area@state")).values
    pair = result.project((name, "area")).values
    assert np.allclose(both, grouped(grouped(pair, WORK, level).T, AREA, "state").T)
    low, high = result.interval((asked, "persons.code"))
    assert (low.values <= result.project((asked, "persons.code")).values).all()
    assert (high - low).values.shape == (WORK.size(level), 3)


@pytest.mark.parametrize("level", ["sector", "kind"])
def test_groups_are_as_certain_as_the_sums_of_their_codes_or_more(result, level):
    """On average over runs: each interval has errors of its own, estimated from the noise of its answers."""
    runs = [result, *(LinkedLAMP(epsilon=2.0, backend="simulation").fit(DATA, seed=s, progress=False) for s in (1, 2))]
    codes = np.mean([grouped(one.interval("work").width.values, WORK, level) for one in runs], axis=0)
    assert (np.mean([one.interval(f"work@{level}").width.values for one in runs], axis=0) < 1.1 * codes).all()


def test_levels_of_parents_count_households(result):
    model = result.model_of("households")
    counts = model.project("households.area@state").values
    assert np.allclose(counts, grouped(result.project("area").values, AREA, "state"))
    assert counts.sum() == pytest.approx(model.total)


@pytest.mark.parametrize("wrong", ["work@state", "wrok@sector", "code@sector"])
def test_levels_that_no_table_has_are_refused(result, wrong):
    with pytest.raises((UnknownAttributeError, ArgumentError)):
        result.project(wrong)
    with pytest.raises(DuplicateAttributeError):
        result.project(("work@sector", "work"))


def test_errors_by_level_are_those_of_the_grouped_tables():
    other = households(SIZES, ABOVE, INSIDE, 3, seed=1)
    found = linked_errors(DATA, other).errors
    assert set(found["persons"]["levels"]) == {"work@sector", "work@kind"}
    shares = [one.tables["persons"].dataset.project("work").values / SIZES.sum() for one in (DATA, other)]
    expected = 0.5 * np.abs(grouped(shares[0] - shares[1], WORK, "sector")).sum()
    assert found["persons"]["levels"]["work@sector"] == pytest.approx(expected)
    assert set(found["households"]["levels"]) == {"area@state"}


SCHEMA = {
    "tables": {
        "homes": {
            "key": "hid",
            "columns": {"area": {"type": "categorical", "values": ["N1", "N2", "S1"], "outside": "error"}},
        },
        "persons": {
            "parent": "homes",
            "key": "hid",
            "at_most": 3,
            "columns": {"work": {"type": "categorical", "values": ["A01", "A02", "B10"], "outside": "error"}},
        },
    }
}
SCHEMA["tables"]["homes"]["columns"]["area"]["hierarchy"] = {"prefixes": [1], "names": ["state"]}
SCHEMA["tables"]["persons"]["columns"]["work"]["hierarchy"] = {"prefixes": [1], "names": ["sector"]}


@pytest.mark.usefixtures("blank_pictures")
def test_a_schema_of_linked_tables_answers_and_reports_by_level(tmp_path):
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    pytest.importorskip("matplotlib").use("Agg")
    homes = pd.DataFrame({"hid": range(300), "area": rng.choice(["N1", "N2", "S1"], 300)})
    persons = pd.DataFrame({"hid": np.repeat(range(300), 2), "work": rng.choice(["A01", "A02", "B10"], 600)})
    tables = {"homes": homes, "persons": persons}
    made = pg.Synthesizer(epsilon=5.0, backend="simulation").fit(tables, SCHEMA, seed=0, progress=False)
    found = made.interval(("work@sector", "homes.area@state"))
    assert found[["work@sector", "homes.area@state"]].to_numpy().tolist() == [[a, b] for a in "AB" for b in "NS"]
    counts = made.interval("persons.work")["count"]
    assert made.interval("persons.work@sector")["count"].tolist() == pytest.approx([counts[:2].sum(), counts[2]])
    given = made.interval("homes.area", given={"persons.work@sector": "A"})
    assert given["count"].sum() == pytest.approx(counts[:2].sum())
    public = made.report(tmp_path / "public.html").read_text()
    section = public.partition("<h2>Levels of areas and codes of persons</h2>")[2].partition("</section>")[0]
    assert re.search(r"<td>persons.work@sector</td><td[^>]*>2</td><td[^>]*>[\d.,]+</td>", section)
    private = made.owner_report(tables, tmp_path / "private.html").read_text()
    section = private.partition("<h2>Levels of areas and codes of persons</h2>")[2].partition("</section>")[0]
    assert re.search(r"<td>work@sector</td><td[^>]*>2</td><td[^>]*>[\d.]+ ?%</td>", section)
