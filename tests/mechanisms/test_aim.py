"""AIM, and the limit on its junction tree."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, JournalError
from pgmest.evaluation import workload_error
from pgmest.mechanisms import AIM, Independent
from pgmest.mechanisms.tree_limit import TreeLimit
from pgmest.privacy import Replace
from pgmest.privacy.store import adopt_file
from tests.mechanisms.auditing import audit_mechanism

CENSUS = pg.datasets.load("census").select(["age", "sex", "race", "relationship", "income>50K"])
PAIRS = pg.workloads.all_kway(CENSUS.domain, 2)


def fitted(seed=0, workload=None, **parameters):
    given = {"epsilon": 1.0, "delta": 1e-9, "backend": "simulation", "rounds": 12, **parameters}
    return AIM(**given).fit(CENSUS, workload, seed=seed, progress=False)


def test_it_spends_its_budget_on_the_one_ways_and_on_what_it_chose():
    result = fitted()
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    chosen = result.details["chosen"]
    assert [m.clique for m in result.measurements] == [(name,) for name in CENSUS.domain] + chosen
    assert all(len(clique) <= 2 for clique in chosen)


def test_it_beats_independence():
    mine = workload_error(CENSUS, fitted(), PAIRS)
    baseline = Independent(epsilon=1.0, delta=1e-9, backend="simulation").fit(CENSUS, seed=0)
    assert mine < 0.5 * workload_error(CENSUS, baseline, PAIRS)


def test_marginals_that_do_not_matter_are_not_measured_but_for_each_attribute_alone():
    wanted = ("age", "relationship")
    workload = pg.workloads.marginals(PAIRS.cliques, [float(clique == wanted) for clique in PAIRS.cliques])
    result = fitted(workload=workload)
    together = [m.clique for m in result.measurements if len(m.clique) > 1]
    assert together
    assert set(together) == {wanted}
    assert wanted in result.details["chosen"]


def test_a_workload_of_triples_also_measures_their_subsets():
    workload = [("age", "sex", "income>50K")]
    chosen = fitted(workload=workload).details["chosen"]
    assert all(set(clique) <= set(workload[0]) for clique in chosen)


def test_the_tree_stays_within_its_limit():
    tight = 0.002
    result = fitted(max_megabytes=tight)
    tree = pg.JunctionTree.from_cliques(CENSUS.domain, [m.clique for m in result.measurements])
    assert tree.megabytes <= tight


def test_the_same_seed_gives_the_same_run():
    first, second = fitted(seed=3), fitted(seed=3)
    assert first.details == second.details
    assert np.array_equal(first.model.potentials.flat, second.model.potentials.flat)


def test_a_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "run"
    whole = fitted()
    parameters = {"epsilon": 1.0, "delta": 1e-9, "backend": "simulation", "rounds": 12}
    AIM(**parameters).fit(CENSUS, seed=0, progress=False, checkpoint=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:9]))
    adopt_file(path)  # or else it is seen that answers were cut off
    resumed = AIM(**parameters).fit(CENSUS, seed=0, progress=False, checkpoint=path)
    assert resumed.details == whole.details
    assert path.read_text().splitlines(keepends=True)[:-1] == lines[:-1]  # the last line has the time of the end
    with pytest.raises(JournalError, match="this run asks"):
        AIM(**{**parameters, "rounds": 50}).fit(CENSUS, seed=0, progress=False, checkpoint=path)


def test_where_the_number_of_records_is_public_it_is_used():
    assert fitted(neighbors=Replace()).model.total == CENSUS.records


@pytest.mark.parametrize(
    "parameters",
    [{"rounds": 0}, {"max_megabytes": 0.0}, {"max_cells": 0}, {"max_iterations": 0}],
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ArgumentError, match=next(iter(parameters))):
        AIM(rho=1.0, **parameters)


def test_where_the_one_ways_do_not_fit_nothing_is_spent():
    charged = []
    mechanism = AIM(rho=1.0, max_megabytes=1e-9, backend="simulation")
    with pytest.raises(ArgumentError, match="max_megabytes"):
        mechanism.fit(CENSUS, [("age", "sex")], progress=charged.append)
    assert not charged


def test_the_audit_does_not_contradict_the_claim():
    report = audit_mechanism(AIM(rho=0.5, backend="simulation", rounds=5, method="auto"))
    assert not report.contradicts(AIM(rho=0.5).budget())


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 6), min_size=3, max_size=6),  # one value: two cliques may hold the same cells twice
    limit=st.floats(1e-5, 3e-2),
    seed=st.integers(0, 100),
)
def test_what_fits_would_stay_within_the_limit(sizes, limit, seed):
    domain = pg.Domain({f"x{i}": size for i, size in enumerate(sizes)})
    pairs = list(combinations(domain, 2))
    order = np.random.default_rng(seed).permutation(len(pairs))
    tree = TreeLimit(domain, [], limit)
    for position in order:
        options = tree.fitting(pairs)
        smallest = pg.JunctionTree.from_cliques(domain, tree.cliques).megabytes
        for clique in options:
            grown = pg.JunctionTree.from_cliques(domain, [*tree.cliques, clique]).megabytes
            assert grown <= max(limit, smallest) * 1.0000001
        if pairs[position] in options:
            tree.add(pairs[position])
    assert tree.tree.megabytes <= max(limit, pg.JunctionTree.from_cliques(domain, []).megabytes)


@pytest.mark.parametrize("seed", [1, 14, 16])  # along the orders at hand alone, each of these outgrows the limit
def test_a_wide_tree_stays_within_the_limit(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 3, 5, 8, 12, 20, 50], 24)
    domain = pg.Domain({f"x{i}": int(size) for i, size in enumerate(sizes)})
    pairs = list(combinations(domain, 2))
    tree = TreeLimit(domain, [], 0.3)
    for position in rng.permutation(len(pairs))[:150]:
        for pair in tree.fitting([pairs[position]]):
            tree.add(pair)
    assert tree.tree.megabytes <= 0.3
    assert pg.JunctionTree.from_cliques(domain, tree.cliques).megabytes <= 0.3  # what `estimate` finds


def test_levels_of_hierarchies_are_candidates_if_asked_for():
    rng = np.random.default_rng(0)
    code = rng.choice(60, 3000, p=np.arange(60, 0, -1) / 1830)
    sex = (rng.random(3000) < np.where(code % 6 < 3, 0.05, 0.95)).astype(int)
    domain = pg.Domain({"code": 60, "sex": 2}).with_hierarchies(pg.Hierarchy("code", {"chapter": np.arange(60) % 6}))
    data = pg.Dataset.from_codes([code, sex], domain)
    off = {}
    for levels in (False, True):
        given = {"epsilon": 0.3, "delta": 1e-9, "rounds": 6, "backend": "simulation", "levels": levels}
        results = [AIM(**given).fit(data, seed=seed, progress=False) for seed in range(4)]
        asked = {(one.clique, one.rows) for result in results for one in result.measurements}
        assert ((("code", "sex"), 12) in asked) == levels
        names = ("code@chapter", "sex")
        off[levels] = np.mean([np.abs((r.project(names) - data.project(names)).values).sum() for r in results])
    assert off[True] < 0.8 * off[False]
