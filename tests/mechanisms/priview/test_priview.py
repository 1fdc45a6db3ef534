"""PriView: designs, the reconstruction of marginals, and the mechanism."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, ModelTooLarge, UnknownAttributeError
from pgmest.evaluation import workload_error
from pgmest.mechanisms import Independent, PriView
from pgmest.mechanisms.priview.design import best_cover, cover, random_views, subsets_of
from pgmest.mechanisms.priview.view import ViewModel
from pgmest.privacy import Replace
from tests.mechanisms.auditing import audit_mechanism
from tests.privacy.interrupted import interrupted_after

CENSUS = pg.datasets.load("census").select(["workclass", "sex", "race", "relationship", "income>50K", "education-num"])
PAIRS = pg.workloads.all_kway(CENSUS.domain, 2)
TRIPLES = pg.workloads.all_kway(CENSUS.domain, 3)
SMALL = pg.Domain({"a": 2, "b": 3, "c": 2, "d": 2})


def fitted(seed=0, workload=None, **parameters):
    given = {"epsilon": 1.0, "delta": 0, "backend": "simulation", **parameters}
    return PriView(**given).fit(CENSUS, workload, seed=seed, progress=False)


def joint(seed):
    """A full table over four attributes, and its consistent views on chosen sets."""
    rng = np.random.default_rng(seed)
    return pg.Factor(SMALL, rng.gamma(0.5, size=SMALL.shape)).normalize(1000)


# -- designs --------------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=8),
    strength=st.integers(1, 3),
    max_cells=st.integers(1, 300),
)
@settings(max_examples=60, deadline=None)
def test_a_cover_holds_every_set_in_views_of_limited_size(sizes, strength, max_cells):
    domain = pg.Domain({f"x{i}": size for i, size in enumerate(sizes)})
    wanted = subsets_of([domain.attributes], domain, strength)
    assert len(wanted) == len(list(combinations(domain, min(strength, len(domain)))))
    views = cover(domain, wanted, max_cells)
    assert all(any(part <= set(view) for view in views) for part in wanted)
    largest = max(domain.size(tuple(part)) for part in wanted)
    assert all(domain.size(view) <= max(max_cells, largest) for view in views)


def greedy_cover(domain, wanted, max_cells):
    """The greedy cover by its definition: every set is looked at again for each attribute that a view takes in."""
    waiting, views = set(wanted), []
    for largest in sorted(wanted, key=lambda part: -domain.size(tuple(part))):
        if largest not in waiting:
            continue
        view = set(largest)
        while True:
            lacking = [part - view for part in waiting if part - view]
            completed = Counter(name for part in lacking if len(part) == 1 for name in part)
            gained = completed or Counter(name for part in lacking for name in part)
            room = max_cells / domain.size(tuple(view))
            options = [(-gained[name], domain[name], place) for place, name in enumerate(domain) if gained[name]]
            options = [option for option in options if option[1] <= room]
            if not options:
                break
            view.add(domain.attributes[min(options)[-1]])
        waiting = {part for part in waiting if not part <= view}
        views.append(view)
    return {frozenset(view) for view in views if not any(view < other for other in views)}


@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=7),
    cliques=st.lists(st.sets(st.integers(0, 6), min_size=1, max_size=4), min_size=1, max_size=6),
    max_cells=st.integers(1, 100),
)
@settings(max_examples=100, deadline=None)
def test_a_cover_takes_in_what_covers_the_most(sizes, cliques, max_cells):
    domain = pg.Domain({f"x{i}": size for i, size in enumerate(sizes)})
    named = [tuple(f"x{i}" for i in sorted(clique) if i < len(sizes)) for clique in cliques]
    wanted = subsets_of([clique for clique in named if clique], domain, 3)
    if wanted:
        assert {frozenset(view) for view in cover(domain, wanted, max_cells)} == greedy_cover(domain, wanted, max_cells)


def test_a_covering_design_of_binary_attributes_is_small():
    domain = pg.Domain({f"x{i}": 2 for i in range(9)})
    views = cover(domain, subsets_of([domain.attributes], domain, 2), 8)
    assert len(views) <= 15  # the least is 12: the affine plane of order 3
    assert max(map(len, views)) == 3


def test_the_best_cover_has_larger_views_than_pairs():
    domain = pg.Domain({f"x{i}": 2 for i in range(12)})
    views = best_cover(domain, subsets_of([domain.attributes], domain, 2), 2 / 3)
    assert len(views) < 20
    wide = pg.Domain({"a": 1000, "b": 1000})
    assert best_cover(wide, subsets_of([wide.attributes], wide, 2), 2 / 3) == [("a", "b")]


def test_random_views_hold_every_attribute():
    domain = CENSUS.domain
    views = random_views(domain, domain.attributes, 100, 4, np.random.default_rng(0))
    assert len(views) >= 4
    assert {name for view in views for name in view} == set(domain)
    assert all(domain.size(view) <= 100 for view in views)


# -- reconstruction -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reconstruction", ["maxent", "least_norm", "lp"])
@pytest.mark.parametrize("seed", range(4))
def test_a_reconstructed_marginal_has_the_marginals_that_the_views_tell(reconstruction, seed):
    full = joint(seed)
    views = tuple(full.project(clique) for clique in (("a", "b"), ("c", "b"), ("a", "c"), ("d",)))
    model = ViewModel(SMALL, views, 1000.0, reconstruction)
    found = model.project(("d", "c", "b", "a"))
    assert found.domain.attributes == ("d", "c", "b", "a")
    assert found.values.min() >= 0
    for view in views:
        told = view.domain.attributes
        assert found.project(told).values == pytest.approx(view.values, abs=0.5)
        assert np.array_equal(model.project(told).values, view.values)


def test_maximum_entropy_and_least_norm_are_what_they_say():
    full = joint(7)
    views = tuple(full.project(clique) for clique in (("a", "b"), ("b", "c")))
    entropy = ViewModel(SMALL, views, 1000.0).project(("a", "b", "c")).values
    product = (views[0] * views[1] / views[0].project(("b",))).transpose(("a", "b", "c")).values
    assert entropy == pytest.approx(product, abs=1e-2)
    even = (pg.Factor({"a": 2, "b": 2}, [[30, 20], [20, 30]]), pg.Factor({"b": 2, "c": 2}, [[25, 25], [28, 22]]))
    found = ViewModel(pg.Domain({"a": 2, "b": 2, "c": 2}), even, 100.0, "least_norm").project(("a", "b", "c")).values
    sums = np.zeros((8, 8))  # the cells of ab, then those of bc
    for cell, (a, b, c) in enumerate(np.ndindex(2, 2, 2)):
        sums[2 * a + b, cell] = sums[4 + 2 * b + c, cell] = 1
    least = np.linalg.lstsq(sums, np.concatenate([view.datavector() for view in even]), rcond=None)[0]
    assert least.min() > 0
    assert found.reshape(-1) == pytest.approx(least, abs=1e-9)


def test_marginals_that_the_views_do_not_tell_are_uniform():
    model = ViewModel(SMALL, (pg.Factor({"a": 2}, [30, 10]),), 40.0)
    assert model.project(("c", "a")).values == pytest.approx(np.array([[15, 5], [15, 5]]))
    for reconstruction in ("least_norm", "lp"):
        found = ViewModel(SMALL, model.views, 40.0, reconstruction).project(("b",)).values
        assert found.sum() == pytest.approx(40)
    wide = pg.Domain({"a": 3000, "b": 3000})
    one_ways = tuple(pg.Factor({name: 3000}, np.ones(3000)) for name in wide)
    with pytest.raises(ModelTooLarge, match="9,000,000 cells"):
        ViewModel(wide, one_ways, 3000.0, "lp").project(("a", "b"))
    with pytest.raises(UnknownAttributeError):
        model.project(("z",))


# -- the mechanism --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [{"epsilon": 1.0, "delta": 0}, {"epsilon": 1.0, "delta": 1e-9}], ids=str)
@pytest.mark.parametrize("estimator", ["original", "pgm"])
def test_it_spends_its_budget_and_beats_independence(budget, estimator):
    result = fitted(estimator=estimator, **budget)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert [m.clique for m in result.measurements] == result.details["views"]
    baseline = Independent(backend="simulation", **budget).fit(CENSUS, seed=0)
    for workload in (PAIRS, TRIPLES):
        assert workload_error(CENSUS, result, workload) < 0.5 * workload_error(CENSUS, baseline, workload)


def test_views_agree_exactly():
    views = fitted(max_cells=500).model.views
    for one, other in combinations(views, 2):
        shared = tuple(name for name in one.domain if name in other.domain)
        assert np.abs(one.project(shared).values - other.project(shared).values).sum() < 0.01 * CENSUS.records
    assert all(view.values.min() >= 0 for view in views)


@pytest.mark.parametrize(
    "options",
    [{"design": "random", "max_cells": 200}, {"strength": 3}, {"reconstruction": "least_norm"}],
    ids=str,
)
def test_other_designs_and_reconstructions(options):
    result = fitted(**options)
    assert workload_error(CENSUS, result, TRIPLES, norm="tv", per="record") < 0.2
    if options.get("strength") == 3:
        views = result.details["views"]
        assert all(any(set(triple) <= set(view) for view in views) for triple in combinations(CENSUS.domain, 3))


def test_where_the_junction_tree_is_too_large_tables_agree_approximately():
    result = fitted(estimator="pgm", max_megabytes=1e-3)
    assert type(result.model).__name__ == "ApproximateModel"
    assert workload_error(CENSUS, result, PAIRS, norm="tv", per="record") < 0.1


def test_a_workload_says_what_to_cover():
    result = fitted(workload=[("sex", "race"), ("race", "income>50K")], max_cells=10)
    alone = [("education-num",), ("workclass",), ("relationship",)]  # the workload does not name them
    assert set(result.details["views"]) == {("sex", "race"), ("race", "income>50K"), *alone}


def test_records_have_the_views():
    result = fitted()
    records = result.sample(20_000, seed=0)
    assert records.records == 20_000
    pair = ("sex", "relationship")
    scale = 20_000 / result.model.total
    assert np.abs(records.project(pair).values - scale * result.project(pair).values).sum() < 0.02 * 20_000
    assert result.sample(50, seed=1) == result.sample(50, seed=1)
    assert "ViewModel" in str(result)


def test_where_the_number_of_records_is_public_it_is_used():
    assert fitted(neighbors=Replace()).model.total == CENSUS.records


def test_the_same_seed_gives_the_same_run_and_a_checkpoint_pays_once(tmp_path):
    first = fitted(design="random", seed=3)
    mechanism = PriView(epsilon=1.0, delta=0, backend="simulation", design="random")
    path = tmp_path / "run"
    mechanism.fit(CENSUS, seed=3, progress=False, checkpoint=path)
    lines = path.read_text().splitlines()
    interrupted_after(path, 3)
    resumed = mechanism.fit(CENSUS, seed=3, progress=False, checkpoint=path)
    assert path.read_text().splitlines()[:-1] == lines[:-1]  # the last line says when the run ended
    assert resumed.details == first.details
    for one, two in zip(first.model.views, resumed.model.views, strict=True):
        assert np.array_equal(one.values, two.values)


@pytest.mark.parametrize("budget", [{"epsilon": 1.0, "delta": 0}, {"rho": 0.5}], ids=str)
def test_the_audit_does_not_contradict_the_claim(budget):
    mechanism = PriView(**budget, backend="simulation")
    assert not audit_mechanism(mechanism).contradicts(mechanism.budget())


@pytest.mark.parametrize(
    "parameters",
    [
        {"strength": 0},
        {"max_cells": 0.5},
        {"design": "grid"},
        {"reconstruction": "l1"},
        {"estimator": "views"},
        {"max_megabytes": 0.0},
    ],
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ArgumentError, match=next(iter(parameters))):
        PriView(epsilon=1.0, delta=0, **parameters)
