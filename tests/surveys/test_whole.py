"""Whole households: totals are kept where whole numbers can, rounding is fair, and synthetic tables fit together."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.surveys import exchanges
from pgmest.surveys.exchanges import exchanged
from tests.surveys.household_tables import AGES, TENURES, amounts, frames
from tests.surveys.test_rake_households import HOMES, MARGINS, PEOPLE, seeds, totals_of


def keepable(matrix, weights):
    """Return whether some rounding of the weights up or down keeps all sums, rounded up or down."""
    low, high = np.floor(matrix.T @ weights + 1e-6), np.ceil(matrix.T @ weights - 1e-6)
    choices = [sorted({np.floor(weight + 1e-6), np.ceil(weight - 1e-6)}) for weight in weights]
    sums = np.array(list(itertools.product(*choices))) @ matrix
    return bool(np.all((low <= sums) & (sums <= high), axis=1).any())


@settings(max_examples=40)
@given(seeds(), st.data())
def test_totals_are_kept_where_a_rounding_keeps_them(seed, data):
    tenures, persons, design = seed
    true = np.array(
        data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 7.0]), min_size=len(design), max_size=len(design)))
    )
    tenure, age = totals_of(tenures, persons, true)
    homes, people = frames(tenures, persons)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        margins = {"households": {"tenure": tenure}, "persons": {"age": age}}
        found = pg.rake_households(homes, people, margins, key="home", weights=design)
    kept = keepable(found.problem.matrix.toarray(), found.pair_weights)
    with pytest.MonkeyPatch.context() as monkeypatch:
        if not kept:  # all steps would be made in vain
            monkeypatch.setattr(exchanges, "STEPS", 100)
        whole = found.whole(seed=3)
    assert not (kept and whole.off.any())
    made = whole.totals["whole"].to_numpy()
    counts = np.zeros(len(design))
    if len(whole.counts):
        counts[whole.counts["home"].to_numpy() - 100] = whole.counts["count"]
    assert np.allclose(made[: len(TENURES)], (amounts(tenures, persons).T @ counts)[: len(TENURES)])
    assert np.allclose(made[-len(AGES) :], (amounts(tenures, persons).T @ counts)[-len(AGES) :])


def test_rounding_is_fair():
    """The mean of a household's counts over many seeds is its weight."""
    generator = np.random.default_rng(0)
    size, seeds_tried = 60, 100
    homes = pd.DataFrame({"home": np.arange(size), "tenure": generator.choice(["own", "rent"], size)})
    people = pd.DataFrame({"home": np.repeat(np.arange(size), generator.integers(1, 5, size))})
    people["age"] = generator.choice(["child", "adult", "old"], len(people))
    margins = {
        "households": {"tenure": {"own": 14, "rent": 16}},
        "persons": {"age": {"adult": 25, "child": 22, "old": 26}},
    }
    design = generator.choice([1.0, 2.0, 5.0], size)
    found = pg.rake_households(homes, people, margins, key="home", weights=design)
    mean = np.zeros(size)
    for seed in range(seeds_tried):
        whole = found.whole(seed=seed)
        assert not whole.off.any()
        mean[whole.counts["home"].to_numpy()] += whole.counts["count"].to_numpy() / seeds_tried
    assert np.sqrt(np.mean((mean - found.row_weights) ** 2)) < 0.08
    assert found.whole(seed=5).counts.equals(found.whole(seed=5).counts)


def test_tables_fit_together():
    zones = pd.DataFrame({"tract": ["b", "a"], "county": ["x", "y"]})
    tenures = {("a", "own"): 3, ("a", "rent"): 4, ("b", "own"): 2, ("b", "rent"): 0}
    margins = {"households": {("tract", "tenure"): tenures}}
    homes = HOMES.set_index(pd.Index([9, 9, 8, 8]))
    tables = pg.rake_households(homes, PEOPLE, margins, key="home", zones=zones).whole(seed=0).tables()
    made, people = tables["households"], tables["persons"]
    assert made["home"].tolist() == list(range(9))
    assert made.groupby(["tract", "tenure"]).size().to_dict() == {("a", "own"): 3, ("a", "rent"): 4, ("b", "own"): 2}
    assert made["county"].tolist() == ["x", "x", "y", "y", "y", "y", "y", "y", "y"]
    assert list(people.columns) == list(PEOPLE.columns)
    for home, original in made[["home", "seed_home"]].itertuples(index=False):
        own, wanted = people[people["home"] == home], PEOPLE[PEOPLE["home"] == original]
        assert own.drop(columns="home").to_numpy().tolist() == wanted.drop(columns="home").to_numpy().tolist()


def test_no_households_at_all():
    margins = {"households": {"tenure": {"own": 0, "rent": 0}}}
    whole = pg.rake_households(HOMES, PEOPLE, margins, key="home").whole()
    assert len(whole.counts) == 0
    assert {name: len(table) for name, table in whole.tables().items()} == {"households": 0, "persons": 0}
    assert list(whole.tables()["households"].columns) == ["home", "tenure", "design", "seed_home"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_exchanges_repair_a_bad_beginning(seed):
    generator = np.random.default_rng(seed)
    found = pg.rake_households(HOMES, PEOPLE, MARGINS, key="home")
    rows = 40
    matrix = generator.integers(0, 3, size=(rows, 4)).astype(float)
    weights = generator.random(rows) * 0.5
    weights[: rows // 2] += 1.0
    start, zones = np.floor(weights), np.arange(rows) % 4
    made = exchanged(type(found.problem.matrix)(matrix), weights, start, zones, np.zeros(4), generator)
    sums, aims = matrix.T @ made, matrix.T @ weights
    assert np.all((np.floor(aims) <= sums) & (sums <= np.ceil(aims)))
    assert np.abs(made - weights).max() < 2.0
