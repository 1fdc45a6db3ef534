"""MST, and mechanisms on recoded records."""

import dataclasses
import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

import pgmest as pg
from pgmest import transforms
from pgmest.errors import ArgumentError
from pgmest.evaluation import workload_error
from pgmest.mechanisms import MST, Independent, Transformed
from tests.mechanisms.auditing import DATA, audit_mechanism
from tests.mechanisms.every import EVERY, made
from tests.privacy.interrupted import interrupted_after

CENSUS = pg.datasets.load("census").select(["age", "sex", "native-country", "relationship", "income>50K"])
PAIRS = pg.workloads.all_kway(CENSUS.domain, 2)
BUDGET = {"epsilon": 1.0, "delta": 1e-9, "backend": "simulation"}


def test_it_measures_a_tree_and_spends_everything():
    result = MST(**BUDGET).fit(CENSUS, seed=0, progress=False)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert nx.is_tree(nx.Graph(result.details["tree"]))
    assert [m.clique for m in result.measurements[5:]] == result.details["tree"]
    assert result.model.domain == CENSUS.domain


def test_it_beats_independence():
    baseline = Independent(**BUDGET).fit(CENSUS, seed=0, progress=False)
    result = MST(**BUDGET).fit(CENSUS, seed=0, progress=False)
    assert workload_error(CENSUS, result, PAIRS) < 0.8 * workload_error(CENSUS, baseline, PAIRS)


def test_where_no_value_is_rare_nothing_is_recoded():
    result = MST(**BUDGET, threshold=-math.inf).fit(CENSUS, seed=0, progress=False)
    assert all(m.query is None for m in result.measurements)
    compressed = MST(**BUDGET).fit(CENSUS, seed=0, progress=False)
    assert any(m.query is not None for m in compressed.measurements)


def test_a_workload_names_the_candidates():
    result = MST(**BUDGET).fit(CENSUS, [("age", "sex", "income>50K")], seed=0, progress=False)
    assert {name for pair in result.details["tree"] for name in pair} == {"age", "sex", "income>50K"}


@pytest.mark.parametrize("seed", range(6))
def test_each_selection_is_among_all_pairs_that_close_no_cycle(monkeypatch, seed):
    """The selections are those of a plain program, which lists the pairs between components each time."""
    rng = np.random.default_rng(seed)
    names = "abcdef"[: seed + 1]
    data = pg.Dataset.from_codes(rng.integers(0, 3, (80, len(names))), dict.fromkeys(names, 3))
    workload = [tuple(names[:3]), tuple(names[3:])] if seed == 5 else None
    seen, select = [], pg.privacy.Curator.select

    def recorded(curator, candidates, *rest, **options):
        chosen = select(curator, candidates, *rest, **options)
        seen.append((list(candidates), chosen))
        return chosen

    monkeypatch.setattr(pg.privacy.Curator, "select", recorded)
    tree = MST(**BUDGET).fit(data, workload, seed=seed, progress=False).details["tree"]
    pairs = [pair for clique in workload or [names] for pair in itertools.combinations(clique, 2)]
    graph = nx.Graph()
    graph.add_nodes_from(names)
    for options, chosen in seen:
        assert options == [(a, b) for a, b in pairs if not nx.has_path(graph, a, b)]
        graph.add_edge(*chosen)
    assert [chosen for _, chosen in seen] == tree
    assert not any(not nx.has_path(graph, a, b) for a, b in pairs)


def test_a_single_attribute_has_no_pairs():
    result = MST(**BUDGET).fit(CENSUS.select(["age"]), seed=0, progress=False)
    assert result.details["tree"] == []


def test_the_same_seed_gives_the_same_run_and_a_checkpoint_goes_on(tmp_path):
    whole = MST(**BUDGET).fit(CENSUS, seed=1, progress=False, checkpoint=tmp_path / "run")
    *answers, _ = (tmp_path / "run").read_text().splitlines()  # the last line has the time of the end
    interrupted_after(tmp_path / "run", 7)
    again = MST(**BUDGET).fit(CENSUS, seed=1, progress=False, checkpoint=tmp_path / "run")
    assert (tmp_path / "run").read_text().splitlines()[:-1] == answers
    assert np.array_equal(again.model.potentials.flat, whole.model.potentials.flat)


def test_the_audit_does_not_contradict_the_claim():
    mechanism = MST(rho=0.5, backend="simulation", method="auto")
    assert not audit_mechanism(mechanism).contradicts(mechanism.budget())


def test_a_threshold_that_is_no_number_is_refused():
    with pytest.raises(ArgumentError, match="threshold"):
        MST(**BUDGET, threshold=math.nan)


def test_any_mechanism_runs_on_recoded_records():
    steps = [
        lambda curator, spend: transforms.merge(curator.domain, ("sex", "income>50K"), "both"),
        transforms.compress_rare,
    ]
    result = Transformed(mechanism=MST(**BUDGET), steps=steps, share=0.3).fit(CENSUS, seed=0, progress=False)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert result.model.domain.attributes == CENSUS.domain.attributes
    table = CENSUS.project(("sex", "income>50K")).values
    assert np.abs(result.project(("sex", "income>50K")).values - table).sum() < 0.02 * CENSUS.records


def test_public_steps_cost_nothing():
    steps = [lambda curator, spend: transforms.bucketize(curator.domain, {"age": 10})]
    mechanism = Transformed(mechanism=Independent(**BUDGET), steps=steps, share=0.0)
    result = mechanism.fit(CENSUS, PAIRS, seed=0, progress=False)
    assert len(result.measurements) == 5
    assert result.ledger.remaining / result.ledger.budget < 1e-9


@pytest.mark.parametrize("parameters", [{}, {"mechanism": MST(**BUDGET), "share": 1.0}, {"rho": 1.0}])
def test_transformed_needs_a_mechanism_and_takes_its_budget(parameters):
    with pytest.raises(ArgumentError):
        Transformed(**parameters)


def test_the_budget_is_not_stated_twice():
    with pytest.raises(ArgumentError, match="give epsilon="):
        Transformed(mechanism=MST(**BUDGET), rho=1.0)


def test_what_is_stated_for_the_recoded_mechanism_holds_for_both():
    steps = [lambda curator, spend: pg.transforms.merge(curator.domain, ("sex", "income>50K"), "both")]
    inside, five = Independent(rho=0.5), pg.privacy.AddRemove(5)
    for here, there in ((five, None), (None, five), (five, five)):
        stated: dict[str, Any] = {} if here is None else {"neighbors": here}
        one = dataclasses.replace(inside, **({} if there is None else {"neighbors": there}))
        both = Transformed(mechanism=one, steps=steps, share=0.0, backend="simulation", **stated)
        assert (both.neighbors, both.inside.neighbors) == (five, five)
        assert (both.backend, both.inside.backend) == ("simulation", "simulation")
        result = both.fit(CENSUS, seed=0, progress=False)
        assert result.measurements[0].stddev > 5
    for other in (pg.privacy.Replace(), pg.privacy.AddRemove(2)):
        with pytest.raises(ArgumentError, match="stated in one of the two places"):
            Transformed(mechanism=dataclasses.replace(inside, neighbors=five), neighbors=other)


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"Transformed"}))
@pytest.mark.parametrize("estimator", [None, "pgm", "original"])
def test_a_model_that_cannot_be_recoded_back_is_refused_before_anything_is_paid(name, estimator):
    try:
        inside = made(name, **({} if estimator is None else {"estimator": estimator}))
    except TypeError:
        return  # the mechanism has one estimator
    assert inside.graphical == isinstance(inside.fit(DATA, seed=0, progress=False).model, pg.Model)
    for mechanism in (Transformed(mechanism=inside), Transformed(mechanism=Transformed(mechanism=inside))):
        if not inside.graphical:
            with pytest.raises(ArgumentError, match=r"whose model is a pgmest\.Model"):
                mechanism.fit(DATA, progress=lambda curator: pytest.fail("paid"))
