"""PPSyn: what it spends and measures, and that it is as private as it claims."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.mechanisms import Independent, PPSyn
from pgmest.mechanisms.exponential_selection import distances
from pgmest.mechanisms.ppsyn.partitions import Partition
from pgmest.mechanisms.ppsyn.ppsyn import PartitionedMarginal
from pgmest.privacy import AddRemove, Replace, Rho
from pgmest.workloads import Item
from tests.mechanisms.auditing import DATA, audit_mechanism
from tests.mechanisms.repeating import check_failed_run, check_seeds

CENSUS = pg.datasets.load("census").select(["age", "education-num", "sex", "hours-per-week", "income>50K"])


def error(result, data=CENSUS):
    pairs = pg.workloads.all_kway(data.domain, 2)
    return pg.evaluation.workload_error(data, result, pairs, norm="tv", per="record")


@pytest.mark.parametrize("rho", [0.001, 1.0])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
def test_the_budget_is_spent_and_not_more(rho, neighbors):
    result = PPSyn(rho=rho, neighbors=neighbors, rounds=20, backend="simulation").fit(DATA, seed=0)
    assert result.ledger.total <= Rho(rho)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert [m.clique for m in result.measurements[3:]] == result.details["chosen"]


def test_it_costs_no_more_than_it_claims():
    mechanism = PPSyn(rho=0.5, rounds=3, fineness=0.5, max_iterations=3, backend="simulation")
    assert not audit_mechanism(mechanism).contradicts(mechanism.budget())


def test_it_beats_independent_attributes():
    rough = error(Independent(rho=0.01, backend="simulation").fit(CENSUS, seed=0))
    fine = error(PPSyn(rho=0.01, rounds=20, backend="simulation").fit(CENSUS, seed=0))
    assert fine < 0.7 * rough


def test_seeds_repeat_runs():
    check_seeds(PPSyn(rho=0.05, rounds=6, backend="simulation"))


def test_a_checkpoint_repeats_what_was_paid(tmp_path):
    check_failed_run(PPSyn(rho=0.05, rounds=6, backend="opendp"), tmp_path / "run", charges=4)


def test_noise_makes_boxes_coarser():
    boxes = {}
    for rho in (0.0005, 0.5):
        result = PPSyn(rho=rho, rounds=8, backend="simulation").fit(CENSUS, [("age", "hours-per-week")], seed=0)
        pairs = [m for m in result.measurements[2:] if len(m.clique) == 2]
        boxes[rho] = max(m.rows for m in pairs) if pairs else 0
    assert 0 < boxes[0.0005] < boxes[0.5] <= CENSUS.domain.size(("age", "hours-per-week"))
    every = PPSyn(rho=0.0005, rounds=8, fineness=0, backend="simulation").fit(CENSUS, seed=0)
    assert all(m.query is None for m in every.measurements)


def test_a_smaller_eta_makes_fewer_rounds():
    rounds = [
        len(PPSyn(rho=0.02, eta=eta, rounds=40, backend="simulation").fit(CENSUS, seed=0).details["chosen"])
        for eta in (0.3, 1.0)
    ]
    assert rounds[0] < rounds[1]


def test_the_score_by_hand():
    domain = pg.Domain({"a": 2, "b": 2})
    data = pg.Dataset.from_codes(np.array([[0, 0]] * 3 + [[1, 0]] * 2 + [[1, 1]] * 2), domain)
    below = pg.Dataset.from_codes(np.array([[0, 1]]), domain)  # the errors are [[3, -1], [2, 2]]

    def score(boxes):
        partition = Partition(np.array(boxes), max(boxes) + 1)
        candidate = PartitionedMarginal(
            item=Item(("a", "b")), weight=2.0, expected_error=0.5 * partition.count, partition=partition
        )
        return distances([candidate], below).evaluate(data, [candidate])

    assert score([0, 1, 2, 3]) == [2 * (8 - 2)]
    assert score([0, 0, 1, 1]) == [2 * (6 - 1)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eta": 0.0}, "eta=0.0 is not valid"),
        ({"eta": 1.5}, "eta=1.5 is not valid"),
        ({"rounds": 0}, "rounds=0 is not valid"),
        ({"fineness": -1}, "fineness=-1 is not valid"),
        ({"max_megabytes": 0}, "max_megabytes=0 is not valid"),
    ],
)
def test_parameters_out_of_range_are_refused(given, message):
    with pytest.raises(ArgumentError, match=message):
        PPSyn(rho=1.0, **given)


def test_where_no_pair_fits_the_one_way_marginals_are_measured_again():
    result = PPSyn(rho=1.0, rounds=3, max_megabytes=1e-9, backend="simulation").fit(DATA, seed=0)
    assert {len(clique) for clique in result.details["chosen"]} == {1}
    assert result.ledger.remaining / result.ledger.budget < 1e-9
