"""IDE Algorithm 2: groups, what they cost, and the choice of what to measure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, UnknownAttributeError
from pgmest.priors.ide.groups import systematic_sample
from pgmest.priors.ide.hierarchy import Level, measure_hierarchy, synthesize_hierarchy
from pgmest.priors.ide.workload import dependent_cliques, independent_attributes, normalized_information
from pgmest.privacy.budgets import Epsilon
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove
from tests.privacy.amounts import epsilon

DOMAIN = pg.Domain({"state": 2, "county": 4, "age": 3, "income": 3, "sex": 2})
PARENTS = np.array([0, 0, 1, 1])


def people(seed: int, records: int = 3000) -> pg.Dataset:
    """Counties 0, 1 in state 0 and 2, 3 in state 1; income follows age, more so in state 1; ages differ by county."""
    generator = np.random.default_rng(seed)
    county = generator.integers(0, 4, records)
    age = np.minimum(generator.binomial(2, 0.2 + 0.2 * county), 2)
    income = np.where(generator.random(records) < 0.3 + 0.3 * PARENTS[county], age, generator.integers(0, 3, records))
    return pg.Dataset.from_codes([PARENTS[county], county, age, income, generator.integers(0, 2, records)], DOMAIN)


def curator_of(data: pg.Dataset, epsilon: float, delta: int = 1) -> Curator:
    return Curator(data, Epsilon(epsilon), neighbors=AddRemove(delta), backend="simulation", seed=0)


LEVELS = (
    Level(("state",), (("age", "income"),), 0.4),
    Level(("county",), (("age",), ("sex",)), 0.6, parents=PARENTS),
)


def test_nearly_without_noise_what_was_measured_is_matched():
    private, public = people(0), people(1)
    measured = measure_hierarchy(curator_of(private, 100.0), LEVELS)
    made = synthesize_hierarchy(public, measured, prior_weight=0.01, max_sweeps=200, tolerance=1e-6, seed=0)
    np.testing.assert_allclose(made.totals, private.project("county").values, atol=0.5)
    np.testing.assert_array_equal(made.data.project("county").values, private.project("county").values)
    assert np.all(made.data.column("state") == PARENTS[made.data.column("county")])
    for clique in (("county", "age"), ("county", "sex")):
        assert np.abs(made.data.project(clique).values - private.project(clique).values).max() <= 3
    # counties are not consistent with their state's joint table to the last record, but near
    joint = ("state", "age", "income")
    assert np.abs(made.data.project(joint).values - private.project(joint).values).sum() < 0.05 * private.records


def test_each_level_is_charged_once_for_all_its_groups():
    curator = curator_of(people(0), 10.0, delta=7)
    measured = measure_hierarchy(curator, LEVELS)
    costs = [epsilon(entry.cost) for entry in curator.ledger]
    np.testing.assert_allclose(costs, [0.8, 3.2, 1.2, 2.4, 2.4])
    assert epsilon(curator.spent) == pytest.approx(10.0)
    scale = 7 / 2.4
    assert measured[1].marginals[0].stddev == pytest.approx(np.sqrt(2) * scale, rel=0.02)
    assert measured[1].marginals[0].clique == ("county", "age")


def test_depth_names_and_groups_that_do_not_exist():
    private, public = people(0), people(1)
    levels = (
        Level(("state",)),
        Level(("county",), parents=PARENTS),
        Level(("county", "sex"), (("income",),), 1.0),
    )
    measured = measure_hierarchy(curator_of(private, 100.0), levels)
    made = synthesize_hierarchy(public, measured, seed=0, pooling=10.0, max_support=100, threads=1)
    np.testing.assert_array_equal(
        made.data.project(("county", "sex")).values, private.project(("county", "sex")).values
    )
    assert np.all(made.data.column("state") == PARENTS[made.data.column("county")])
    gone = replace(levels[1], parents=np.array([0, -1, 1, 1]))
    again = synthesize_hierarchy(public, [measured[0], replace(measured[1], level=gone), measured[2]], seed=0)
    assert again.data.project("county").values[1] == 0


def test_threads_do_not_change_the_result():
    measured = measure_hierarchy(curator_of(people(0), 5.0), LEVELS)
    one, two = (synthesize_hierarchy(people(1), measured, seed=3, threads=threads) for threads in (1, 3))
    assert one.data == two.data


def test_pooling_uses_a_groups_own_records():
    """Without answers about age the counties of a state are alike, unless their own public records are pooled."""
    private, public = people(0), people(1)
    levels = (Level(("state",)), Level(("county",), share=1.0, parents=PARENTS))
    measured = measure_hierarchy(curator_of(private, 100.0), levels)
    truth = private.project(("county", "age")).values

    def error(pooling: float) -> float:
        made = synthesize_hierarchy(public, measured, pooling=pooling, seed=0)
        return float(np.abs(made.data.project(("county", "age")).values - truth).sum()) / private.records

    assert error(1.0) < 0.15 < error(np.inf)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ((), "levels"),
        ((Level(("state",), share=0.0),), "levels"),
        ((Level(("state",), share=0.6), Level(("county",), share=0.6, parents=PARENTS)), "share"),
        ((Level(("state",), share=0.5), Level(("county",), share=0.5)), "do not determine their parents"),
        ((Level(("county",), share=0.5, parents=PARENTS[:2]),), r"shape \(4,\)"),
        ((Level(("county",), (("age",),), 1.0, count_share=1.0),), "count_share"),
    ],
)
def test_what_is_wrong_with_levels_is_said_before_budget_is_spent(levels, words):
    curator = curator_of(people(0, 100), 1.0)
    with pytest.raises(ArgumentError, match=words):
        measure_hierarchy(curator, levels)
    with pytest.raises(UnknownAttributeError):
        measure_hierarchy(curator, (Level(("county",), (("agee",),), 1.0),))
    assert epsilon(curator.spent) == 0


def test_pooling_must_be_positive():
    measured = measure_hierarchy(curator_of(people(0, 100), 1.0), LEVELS)
    with pytest.raises(ArgumentError, match="pooling=0"):
        synthesize_hierarchy(people(1, 100), measured, pooling=0)


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), size=st.integers(1, 20))
@settings(deadline=None, max_examples=50)
def test_systematic_samples_have_their_expected_numbers(seed, count, size):
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.ones(size)) * (generator.random(size) < 0.8)
    weights[0] += 0.01
    drawn = np.bincount(systematic_sample(weights, count, generator), minlength=size)
    expected = count * weights / weights.sum()
    assert drawn.sum() == count
    assert np.all(np.abs(drawn - expected) < 1 + 1e-9)
    runs = np.abs(np.cumsum(drawn) - np.cumsum(expected))
    assert np.all(runs < 1 + 1e-6)


# -- the choice of the workload --------------------------------------------------------------------------------------


def test_normalized_information_by_hand():
    data = pg.Dataset.from_codes(np.array([[0, 0, 0], [1, 1, 0], [2, 1, 0], [0, 0, 0]]), {"a": 3, "b": 2, "c": 2})
    np.testing.assert_allclose(normalized_information(data), [[1, 1, 0], [1, 1, 0], [0, 0, 1]], atol=1e-12)


def test_dependent_attributes_form_cliques_of_limited_size():
    data = people(2)
    names = ("age", "income", "sex")
    assert dependent_cliques(data, names, threshold=0.05) == [("age", "income"), ("sex",)]
    assert dependent_cliques(data, names, threshold=0.05, max_cells=8) == [("age",), ("income",), ("sex",)]
    with pytest.raises(ArgumentError, match="threshold=0"):
        dependent_cliques(data, threshold=0)


def test_a_clique_too_large_is_taken_apart_at_its_weakest_edge():
    generator = np.random.default_rng(0)
    a = generator.integers(0, 4, 5000)
    b = np.where(generator.random(5000) < 0.9, a, generator.integers(0, 4, 5000))
    c = np.where(generator.random(5000) < 0.7, b, generator.integers(0, 4, 5000))
    data = pg.Dataset.from_codes([a, b, c], {"a": 4, "b": 4, "c": 4})
    assert dependent_cliques(data, threshold=0.01, max_cells=64) == [("a", "b", "c")]
    assert dependent_cliques(data, threshold=0.01, max_cells=63) == [("a", "b"), ("b", "c")]


def test_independent_attributes_vary_between_groups_and_do_not_repeat():
    data = people(3)
    doubled = pg.Dataset.from_codes([*data.columns, data.column("age")], {**dict(DOMAIN), "age again": 3})
    names = ("age", "age again", "income", "sex")
    assert independent_attributes(doubled, ("county",), names, count=3, threshold=0.5) == ["age", "income"]
    assert independent_attributes(doubled, ("county",), names, count=1) == ["age"]
