"""DualQuery: its accounting, its moves, both its answers, and what it says about itself."""

import random

import numpy as np
import pytest
from scipy.stats import chisquare

import pgmest as pg
from pgmest.errors import ArgumentError, ChargeError, ModelTooLarge
from pgmest.evaluation.workload_error import workload_error
from pgmest.mechanisms import DualQuery
from pgmest.mechanisms.dual_query import dual_query
from pgmest.mechanisms.dual_query.game import Game
from pgmest.mechanisms.dual_query.likelihood import DualQueryLoss
from pgmest.mechanisms.dual_query.query_rows import QueryRows
from pgmest.privacy import AddRemove, Curator, Epsilon, Replace, Rho, audit, exponential
from tests.privacy.interrupted import interrupted_after

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})
CLIQUES = (("a", "b"), ("c", "b"))
TRIALS = 500


def records(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    cells = rng.choice(DOMAIN.size(), size=count, p=rng.dirichlet(np.full(DOMAIN.size(), 0.4)))
    return pg.Dataset.from_codes(np.stack(np.unravel_index(cells, DOMAIN.shape), axis=1), DOMAIN)


def mechanism(**changes):
    return DualQuery(**{"epsilon": 1.0, "delta": 1e-3, "backend": "simulation", "samples": 20, **changes})


@pytest.mark.parametrize("stated", [{"epsilon": 2.0, "delta": 0}, {"rho": 0.3, "epsilon": None, "delta": None}, {}])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace(), AddRemove(records=3)])
@pytest.mark.parametrize("steps", [None, 5])
def test_the_whole_budget_is_spent_and_no_more(stated, neighbors, steps):
    result = mechanism(**stated, neighbors=neighbors, steps=steps, estimator="original").fit(
        records(), CLIQUES, seed=0, progress=False
    )
    assert result.ledger.total <= result.ledger.budget
    assert result.ledger.remaining / result.ledger.budget < 1e-6
    assert result.details["steps"] >= 2
    assert len([entry for entry in result.ledger if entry.kind == "select"]) == result.details["steps"] - 1


def test_the_schedule_is_that_of_the_formulas():
    one = mechanism(samples=50, eta=2.0)
    steps, eta = one.schedule(Epsilon(1.0), 50_000)
    assert 2 * 50 * steps * (steps - 1) / 50_000 <= 1 < 2 * 50 * (steps + 1) * steps / 50_000
    assert eta * 50 * steps * (steps - 1) / 50_000 == pytest.approx(1.0)
    steps, eta = one.schedule(Rho(0.05), 50_000, moved=2)
    each = [(2 * eta * t * 2 / 50_000) ** 2 / 8 for t in range(steps)]
    assert 50 * sum(each) == pytest.approx(0.05)
    assert eta >= 2.0
    assert mechanism(samples=50, eta=1e9).schedule(Rho(0.05), 100)[0] == 2


def test_the_pure_cost_is_that_of_the_transcript():
    result = mechanism(delta=0, neighbors=Replace(), estimator="original").fit(
        records(), CLIQUES, seed=0, progress=False
    )
    transcript = result.details["transcript"]
    assert transcript.epsilon == pytest.approx(1.0)
    assert transcript.total == 3000


def test_queries_are_drawn_with_the_probabilities_of_the_likelihood():
    data = records(500)
    rows = QueryRows(DOMAIN, CLIQUES)
    game = Game(rows, eta=1.5, total=500.0, steps=10)
    for code in range(3):
        game.play(np.zeros(4, int), {"a": code, "b": 1, "c": 0})
    places = exponential.draw(game.exponents()(data), game.unit_power, 20_000, random.Random(0).randrange)
    drawn = np.bincount(places, minlength=2 * rows.count)
    truth = pg.CliqueVector(DOMAIN, {clique: data.project(clique) for clique in CLIQUES})
    expected = []
    for query in range(2 * rows.count):
        game.play(np.full(4, query), {"a": 0, "b": 0, "c": 0})
        with_query = DualQueryLoss(game.transcript()).value(truth)
        game.queries.pop()
        game._records.pop()
        expected.append(with_query)
    probabilities = np.exp((min(expected) - np.array(expected)) / 4)
    assert chisquare(drawn, 20_000 * probabilities / probabilities.sum()).pvalue > 1e-3


def test_each_record_is_the_best_for_its_queries():
    rows = QueryRows(DOMAIN, CLIQUES)
    game = Game(rows, eta=1.0, total=10.0, steps=2)
    cells = game.cells(np.array([0, 0, 7, 7 + rows.count, rows.count + 3]))
    assert [(cell.clique, cell.codes, cell.weight) for cell in cells] == [
        (("a", "b"), (0, 0), 2.0),
        (("a", "b"), (1, 1), -1.0),
    ]


def test_the_graphical_model_is_closer_than_the_records():
    data, gains = records(), []
    for seed in range(3):
        errors = [
            workload_error(
                data,
                mechanism(estimator=estimator).fit(data, CLIQUES, seed=seed, progress=False),
                pg.workloads.marginals(CLIQUES),
            )
            for estimator in ("pgm", "original")
        ]
        gains.append(errors[1] / errors[0])
    assert np.mean(gains) > 1.2


@pytest.mark.parametrize("estimator", ["pgm", "original"])
def test_a_seed_repeats_a_run_and_a_checkpoint_resumes_it(tmp_path, estimator):
    data, path = records(), tmp_path / "run.jsonl"
    one = mechanism(estimator=estimator)
    first = one.fit(data, CLIQUES, seed=3, progress=False)
    second = one.fit(data, CLIQUES, seed=3, progress=False, checkpoint=path)
    interrupted_after(path, len(path.read_text().splitlines()) // 2)
    third = one.fit(data, CLIQUES, seed=3, progress=False, checkpoint=path)
    for other in (second, third):
        np.testing.assert_array_equal(first.project(("a", "c")).values, other.project(("a", "c")).values)
    queries, others = (result.details["transcript"].queries for result in (first, third))
    np.testing.assert_array_equal(queries, others)


def test_an_interruption_keeps_the_records_made(monkeypatch):
    calls = []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return release(*args, **kwargs)

    release = pg.privacy.Curator.draw
    monkeypatch.setattr(pg.privacy.Curator, "draw", interrupted)
    result = mechanism(estimator="original").fit(records(), CLIQUES, seed=0, progress=False)
    assert result.details["steps"] == 4 < result.details["planned_steps"]
    assert result.ledger.remaining


def test_results_sample_records_and_scale_to_the_total():
    result = mechanism(estimator="original").fit(records(), CLIQUES, seed=0, progress=False)
    assert float(result.project(())) == pytest.approx(3000, rel=0.2)
    assert result.sample(17, seed=0).records == 17


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"samples": 0}, "samples=0 is not valid: it must be a positive integer."),
        ({"steps": 1}, "steps=1 is not valid: it must be an integer of at least 2, or None."),
        ({"eta": 0.0}, "eta=0.0 is not valid: it must be a positive number."),
        ({"time_limit": -1.0}, "time_limit=-1.0 is not valid: it must be a positive number."),
        ({"estimator": "lls"}, "estimator='lls' is not valid: it must be one of 'pgm', 'original'."),
    ],
)
def test_parameters_are_checked(changes, text):
    with pytest.raises(ArgumentError) as error:
        mechanism(**changes)
    assert str(error.value) == text


def test_a_tree_that_is_too_large_is_refused_before_anything_is_spent():
    domain = pg.Domain({name: 200 for name in "abcde"})
    data = pg.Dataset.from_codes(np.zeros((1, 5), int), domain)
    charged = []
    with pytest.raises(ModelTooLarge):
        mechanism().fit(data, pg.workloads.all_kway(domain, 2), seed=0, progress=charged.append)
    assert not charged


HERE, THERE = (pg.Dataset.from_codes(np.array([[1]] * 9 + [[code]]), {"b": 3}) for code in (1, 2))
"""Neighbors in the sense of Replace."""


def fitting(result):
    """Return how much better the sampled queries fit one table than the other: the sharpest statistic there is."""
    transcript = result.details["transcript"]
    loss = DualQueryLoss(transcript)
    here, there = (loss.value(pg.CliqueVector(data.domain, {("b",): data.project("b")})) for data in (HERE, THERE))
    return there - here


def test_an_audit_does_not_contradict_the_ledger_and_catches_a_rate_too_high(monkeypatch):
    """Return arbitrary records: they do not matter to privacy, so no search is needed."""
    monkeypatch.setattr(dual_query, "best_record", lambda domain, cells, rng, limit: ({"b": 0}, True))
    audited = mechanism(epsilon=3.0, delta=0, neighbors=Replace(), steps=2, samples=1, estimator="original")

    def run(data, seed):
        return audited.fit(data, [("b",)], seed=seed, progress=False)

    assert 0.1 < audit(run, HERE, THERE, statistic=fitting, trials=TRIALS // 2, threshold=0.0).epsilon <= 3.0
    game, draw = dual_query.Game, Curator.draw
    monkeypatch.setattr(dual_query, "Game", lambda rows, eta, *rest: game(rows, 10 * eta, *rest))
    with pytest.raises(ChargeError, match="please report"):
        run(HERE, 0)

    def understated(curator, exponents, candidates, moved, *rest, **options):
        return draw(curator, exponents, candidates, moved // 10, *rest, **options)

    monkeypatch.setattr(Curator, "draw", understated)
    assert audit(run, HERE, THERE, statistic=fitting, trials=TRIALS, threshold=0.0).epsilon > 3.0


@pytest.mark.parametrize("estimator", ["pgm", "original"])
def test_it_has_no_intervals_and_says_why_also_from_a_file(estimator, tmp_path):
    data = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, 2, (300, 3)), pg.Domain({"a": 2, "b": 2, "c": 2}))
    result = DualQuery(epsilon=1.0, delta=1e-9, backend="simulation", estimator=estimator).fit(
        data, seed=0, progress=False
    )
    result.model.save(tmp_path / "model.npz")
    for asked in (result, result.model, pg.load(tmp_path / "model.npz")):
        for call in (lambda one: one.interval("a"), lambda one: one.uncertainty("a"), lambda one: one.sample_tables(3)):
            with pytest.raises(ArgumentError, match=r"DualQuery publishes .* no noisy answers"):
                call(asked)
