"""The demand of a workload."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, UnknownAttributeError
from pgmest.mechanisms.lamp.workload_demand import MOST_ROWS, WorkloadDemand, evenly_spaced, sub_marginals

DOMAIN = pg.Domain({"a": 4, "b": 3, "c": 2})


def test_without_a_workload_all_pairs_matter_the_same():
    demand = WorkloadDemand.of(DOMAIN, None)
    assert demand.pairs == {("a", "b"): 1, ("a", "c"): 1, ("b", "c"): 1}
    assert demand.triples == {}
    assert not demand.has_range_queries


def test_items_that_ask_the_same_are_put_together_in_the_order_of_the_domain():
    demand = WorkloadDemand.of(
        DOMAIN, pg.workloads.marginals([("b", "a"), ("a", "b"), ("c", "b", "a")], [1.0, 2.0, 4.0])
    )
    assert [(asked.clique, asked.importance) for asked in demand.items] == [(("a", "b"), 3), (("a", "b", "c"), 4)]
    assert demand.pairs == {("a", "b"): 7, ("a", "c"): 4, ("b", "c"): 4}
    assert demand.triples == {("a", "b", "c"): 4}
    assert set(demand.items_by_marginal) == set(sub_marginals(("a", "b", "c")))
    assert len(demand.items_by_marginal["a", "b"]) == 2


def test_an_item_weighs_the_same_whatever_its_number_of_queries():
    prefixes = WorkloadDemand.of(DOMAIN, pg.workloads.prefixes(DOMAIN, [("a", "c")], ["a"])).items[0]
    assert prefixes.factors["a"] == pytest.approx(np.tril(np.ones((4, 4))) / 4)
    assert np.abs(prefixes.factors["a"]).sum(axis=0).max() == 1
    assert prefixes.inside(("c",)) == {}
    box = WorkloadDemand.of(DOMAIN, [pg.workloads.Item(("a",), pg.Kron({"a": pg.queries.interval(4, 1, 3)}), 2.0)])
    assert box.items[0].factors["a"].tolist() == [[0, 1, 1, 0]]
    assert box.has_range_queries


def test_an_attribute_that_is_summed_out_is_left_out():
    query = pg.Kron({"a": pg.queries.total(4), "b": pg.queries.prefix(3)})
    demand = WorkloadDemand.of(DOMAIN, [pg.workloads.Item(("a", "b"), query)])
    assert [asked.clique for asked in demand.items] == [("b",)]
    assert demand.pairs == {}


def test_of_many_rows_some_stand_for_all():
    domain = pg.Domain({"a": 500})
    rows = WorkloadDemand.of(domain, pg.workloads.ranges(domain, ["a"])).items[0].factors["a"]
    assert rows.shape == (MOST_ROWS, 500)
    every = pg.queries.all_range(500)
    mass = np.linspace(1, 2, 500)
    ranges_of_each_code = np.arange(1, 501) * np.arange(500, 0, -1)
    exact = every.apply(mass, 0).sum() / ranges_of_each_code.max()
    assert (rows @ mass).sum() == pytest.approx(exact, rel=0.15)
    assert evenly_spaced(5, 10).tolist() == [0, 1, 2, 3, 4]


def test_a_matrix_about_several_attributes_counts_as_their_table():
    demand = WorkloadDemand.of(DOMAIN, [pg.workloads.Item(("a", "c"), pg.queries.as_query(np.ones((2, 8))))])
    assert demand.items[0].factors == {}


@pytest.mark.parametrize("workload", [[], [("a", "z")], pg.workloads.marginals([("a", "b")], [0.0])])
def test_what_cannot_be_used_is_refused(workload):
    with pytest.raises((ArgumentError, UnknownAttributeError)):
        WorkloadDemand.of(DOMAIN, workload)
