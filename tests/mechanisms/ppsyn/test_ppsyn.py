"""PPSyn: what it spends and measures, that it is as private as it claims, and the variant that is not."""

import numpy as np
import pytest

import pgmest as pg
from pgmest._base.errors import ArgumentError
from pgmest.mechanisms import Independent, PPSyn, PPSynAsPublishedNotPrivate
from pgmest.mechanisms.exponential_selection import distances
from pgmest.mechanisms.ppsyn.partitions import Partition
from pgmest.mechanisms.ppsyn.ppsyn import PartitionedMarginal
from pgmest.mechanisms.ppsyn.published import (
    LABEL,
    LARGEST_RHO,
    Question,
    TrueMarginals,
    exponential_mechanism,
    uniform_estimate,
)
from pgmest.privacy import AddRemove, Replace, Rho
from pgmest.queries.workloads import Item
from tests.mechanisms.auditing import DATA, NEIGHBOUR, audit_mechanism

CENSUS = pg.datasets.load("census").select(["age", "education-num", "sex", "hours-per-week", "income>50K"])
KINDS = [PPSyn, PPSynAsPublishedNotPrivate]


def error(result, data=CENSUS):
    pairs = pg.workloads.all_kway(data.domain, 2)
    return pg.evaluation.workload_error(data, result, pairs, norm="tv", per="record")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rho", [0.001, 1.0])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
def test_the_budget_is_spent_and_not_more(kind, rho, neighbors):
    result = kind(rho=rho, neighbors=neighbors, rounds=20, backend="simulation").fit(DATA, seed=0)
    assert result.ledger.total <= Rho(rho)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert [m.clique for m in result.measurements[3:]] == result.details["chosen"]


def test_it_costs_no_more_than_it_claims():
    mechanism = PPSyn(rho=0.5, rounds=3, fineness=0.5, max_iterations=3, backend="simulation")
    assert not audit_mechanism(mechanism, trials=40).contradicts(mechanism.budget())


def test_it_beats_independent_attributes():
    rough = error(Independent(rho=0.01, backend="simulation").fit(CENSUS, seed=0))
    fine = error(PPSyn(rho=0.01, rounds=20, backend="simulation").fit(CENSUS, seed=0))
    assert fine < 0.7 * rough


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_repeat_runs(kind):
    mechanism = kind(rho=0.05, rounds=6, backend="simulation")
    one, two, other = (mechanism.fit(DATA, seed=seed).project(("a", "b")).values for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_repeats_what_was_paid(tmp_path, kind):
    class Interrupted(Exception):
        """Stands for a machine that fails."""

    def fail(curator):
        if len(curator.ledger) == 4:
            raise Interrupted

    mechanism = kind(rho=0.05, rounds=6, backend="opendp")
    with pytest.raises(Interrupted):
        mechanism.fit(DATA, seed=3, checkpoint=tmp_path / "run", progress=fail)
    whole = mechanism.fit(DATA, seed=3, checkpoint=tmp_path / "run")
    again = mechanism.fit(DATA, seed=3, checkpoint=tmp_path / "run")
    assert whole.ledger.total <= Rho(0.05)
    assert np.array_equal(whole.project(("a", "b")).values, again.project(("a", "b")).values)


def test_noise_makes_boxes_coarser():
    boxes = {}
    for rho in (0.0005, 0.5):
        result = PPSyn(rho=rho, rounds=8, backend="simulation").fit(CENSUS, [("age", "hours-per-week")], seed=0)
        pairs = [m for m in result.measurements[2:] if len(m.clique) == 2]
        boxes[rho] = max(m.rows for m in pairs) if pairs else 0
    assert 0 < boxes[0.0005] < boxes[0.5] <= CENSUS.domain.size(("age", "hours-per-week"))
    every = PPSyn(rho=0.0005, rounds=8, fineness=0, backend="simulation").fit(CENSUS, seed=0)
    assert all(m.query is None for m in every.measurements)


def test_dimensions_limit_what_is_measured():
    triple = [("age", "sex", "income>50K")]
    sizes = {
        d: max(
            map(
                len,
                PPSyn(rho=1.0, rounds=5, dimensions=d, backend="simulation").fit(CENSUS, triple, 0).details["chosen"],
            )
        )
        for d in (1, 2, 3)
    }
    assert sizes[1] == 1
    assert sizes[2] == 2
    assert sizes[3] == 3


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
        ({"dimensions": 0}, "dimensions=0 is not valid"),
        ({"rounds": 0}, "rounds=0 is not valid"),
        ({"one_way": 1.0}, "one_way=1.0 is not valid"),
        ({"measuring": 0}, "measuring=0 is not valid"),
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


# -- the published variant -------------------------------------------------------------------------------------------


def test_the_published_variant_says_that_it_is_not_private():
    result = PPSynAsPublishedNotPrivate(rho=0.1, rounds=5, backend="simulation").fit(DATA, seed=0)
    labels = [entry.label for entry in result.ledger if entry.kind == "release"]
    assert set(labels) == {LABEL}
    assert len(labels) == len(result.details["chosen"])
    assert result.details["private"] is False
    assert "NOT PRIVATE" in str(result)


def asked_of(data, candidates, estimated, eta=0.5, rho_exp=1e9):
    """What Algorithm 2 releases, without randomness."""
    truth = TrueMarginals(tuple(candidates), eta, AddRemove())
    question = Question(tuple(candidates), estimated, rho_exp, np.zeros(len(candidates)))
    return truth.answer(truth.prepare(data), question)


def test_the_published_budget_tells_neighbors_apart():
    model = [np.full((2, 3), 2.5)]
    asked = [asked_of(data, [("a", "b")], model) for data in (DATA, NEIGHBOUR)]
    assert asked[0]["rho"] != asked[1]["rho"]


def test_algorithm_2_by_hand():
    data = pg.Dataset.from_codes(np.array([[0, 0]] * 10 + [[1, 1]] * 30), {"a": 2, "b": 2})
    # a: contribution 20, of which half may be error. Both cells: 4 / (pi 100); merged they leave 20. Score 1571.
    asked = asked_of(data, [("a",)], [np.array([20.0, 20.0])])
    assert (asked["boxes"], asked["count"], asked["candidate"]) == ([0, 1], 2, 0)
    assert asked["rho"] == pytest.approx(4 / (np.pi * 100))
    # a and b: its contribution is 40, and it costs less for each count of it.
    pair = [("a",), ("a", "b")]
    asked = asked_of(data, pair, [np.array([20.0, 20.0]), np.full((2, 2), 10.0)])
    scores = [20 / (4 / (np.pi * 100)), 40 / asked["rho"]]
    assert asked["candidate"] == int(np.argmax(scores)) == 1
    # What the model has right contributes nothing, and is not selected.
    asked = asked_of(data, pair, [np.array([10.0, 30.0]), np.full((2, 2), 10.0)])
    assert asked["candidate"] == 1
    assert asked_of(data, [("a",)], [np.array([10.0, 30.0])])["rho"] == LARGEST_RHO


def test_the_exponential_mechanism_selects_as_often_as_it_says():
    rng, scores = np.random.default_rng(0), np.array([0.0, 1.0, 2.0])
    drawn = [exponential_mechanism(scores, 0.5, 1.0, rng.gumbel(size=3)) for _ in range(20_000)]
    expected = np.exp(scores)  # epsilon = sqrt(8 / 2) = 2, halved
    assert np.bincount(drawn) / 20_000 == pytest.approx(expected / expected.sum(), abs=0.015)


def test_the_scores_drown_the_exponential_mechanism():
    """Why the published selection is an argmax: with a sensitivity of 1 a score is thousands of Gumbel deviations."""
    even = np.full((85, 2), CENSUS.records / 170)
    asked = asked_of(CENSUS, [("age", "sex")], [even], eta=0.7)
    score = np.abs(CENSUS.project(("age", "sex")).values - even).sum() / asked["rho"]
    assert np.sqrt(8 * 1e-6) / 2 * score > 1e3  # for a rho_exp of a millionth


def test_the_estimate_of_a_cell_is_its_share_of_the_interval():
    noisy = pg.LinearMeasurement([6.0, 1.0], ("a",), 2.0)
    estimate = uniform_estimate(noisy, Partition(np.array([0, 0, 0, 1]), 2))
    assert estimate.values.tolist() == [2.0, 2.0, 2.0, 1.0]
    assert (estimate.stddev, estimate.query) == (2.0, None)


def test_algorithm_1_spends_as_it_says():
    mechanism = PPSynAsPublishedNotPrivate(rho=0.1, rounds=10, backend="simulation")
    result = mechanism.fit(CENSUS, [("age", "sex"), ("income>50K", "sex")], seed=0)
    one_way = [e.cost.rho for e in result.ledger if e.kind == "measure"][:3]
    parts = np.array([CENSUS.domain[name] for name in ("age", "sex", "income>50K")]) ** (2 / 3)
    assert sorted(one_way) == pytest.approx(sorted(0.01 * parts / parts.sum()))
    selections = [entry.cost.rho for entry in result.ledger if entry.kind == "release"]
    assert selections == pytest.approx([0.1 * 0.1 / 10] * len(selections))
    assert len(selections) <= 9 * 10
    assert result.ledger.remaining.rho < 1e-12


def test_the_published_form_learns_the_workload():
    workload = [("age", "income>50K"), ("education-num", "income>50K")]
    pairs = pg.workloads.marginals(workload)
    fitted = PPSynAsPublishedNotPrivate(rho=0.1, backend="simulation").fit(CENSUS, workload, seed=0)
    alone = Independent(rho=0.1, backend="simulation").fit(CENSUS, workload, seed=0)
    errors = [pg.evaluation.workload_error(CENSUS, one, pairs, norm="tv", per="record") for one in (fitted, alone)]
    assert errors[0] < 0.6 * errors[1]
