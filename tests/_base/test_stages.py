"""Stages and deadlines: which run code belongs to, what it is told about time, and which estimates end by it."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest

import pgmest as pg
from pgmest._base.progress import duration_text
from pgmest._base.stages import (
    begun,
    ending_in,
    in_command,
    out_of_time,
    possible_rounds,
    rounds_in_time,
    stage,
    time_left,
)
from pgmest.mechanisms import Independent, duration
from pgmest.mechanisms.adaptive import Annealing
from pgmest.mechanisms.duration import TYPICAL_RECORDS, announce, expected_seconds, measuring_time
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.solvers.status import Status

DOMAIN = pg.Domain({"a": 3, "b": 3, "c": 3})
DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, 3, (200, 3)), DOMAIN)


def test_without_a_run_there_is_no_limit():
    stage("nothing listens")
    assert time_left() == math.inf
    assert not out_of_time()
    assert not in_command()


def test_the_nearest_deadline_holds_and_ends_with_its_block():
    with begun("a run") as run:
        with ending_in(1000.0), ending_in(2000.0):
            assert 900 < time_left() <= 1000
        with ending_in(1000.0):
            with ending_in(0.0):
                assert time_left() == 0
                assert out_of_time()
            assert not out_of_time()
        assert run.cut_short
        assert time_left() == math.inf


def test_a_run_within_a_run_is_the_same_and_threads_have_none():
    seen = []
    with begun("pgmest synthesize") as outer, begun("MST") as inner:
        assert inner is outer
        assert in_command()
        stage("reading")
        assert str(outer).startswith("pgmest synthesize: 0 s, reading")
        outer.share = 0.25
        assert "25 % of the budget spent" in str(outer)
        with ending_in(0.0):
            thread = threading.Thread(target=lambda: seen.append(time_left()))
            thread.start()
            thread.join()
    assert seen == [math.inf]


@pytest.mark.parametrize("method", ["auto", "mirror_descent", "mirror_flow", "lbfgs"])
def test_an_estimate_ends_at_the_deadline_with_the_best_so_far(method):
    pairs = (("a", "b"), ("b", "c"))
    noisy = [pg.LinearMeasurement(DATA.project(pair).datavector() + 0.3, pair, 1e-9) for pair in pairs]
    with ending_in(0.0) as run:
        model = pg.estimate(noisy, DOMAIN, method=method, tolerance=1e-300, max_iterations=10**9)
        assert run.cut_short
    assert model.report.status in (Status.TIME, Status.EARLY)
    assert not np.isnan(model.project(("a", "c")).values).any()
    if method != "mirror_flow":
        assert "limit of time" in model.report.message


def test_rounds_go_to_the_last_one_where_time_is_short():
    assert list(rounds_in_time(3)) == [1, 2, 3]
    with ending_in(math.inf) as run:
        run.measuring_until, run.expected = time.perf_counter() + 1000, 900.0
        assert list(rounds_in_time(3)) == [1, 2, 3]
        assert not run.cut_short
        run.expected = 2000.0
        assert list(rounds_in_time(3)) == [3]
        assert run.cut_short
        run.expected, seen = 0.0, []
        for number in rounds_in_time(4):
            seen.append(number)
            run.measuring_until = -math.inf
        assert seen == [1, 4]


def test_rounds_of_unknown_number_cost_what_spends_the_budget_in_time():
    second_ago = time.perf_counter() - 1
    assert possible_rounds(100.0, 5, second_ago) == 100
    with ending_in(math.inf) as run:
        assert possible_rounds(100.0, 5, second_ago) == 100
        run.measuring_until = time.perf_counter() + 10
        assert possible_rounds(100.0, 0, second_ago) == 100
        assert possible_rounds(20.0, 5, second_ago) == 20
        assert not run.cut_short
        assert possible_rounds(100.0, 5, second_ago) == pytest.approx(50, rel=0.1)
        assert run.cut_short
        run.measuring_until = time.perf_counter() - 10
        assert possible_rounds(100.0, 5, second_ago) == 1
        curator = pg.privacy.Curator(DATA, pg.privacy.Rho(1.0), backend="simulation", seed=0)
        schedule = Annealing(pg.privacy.Rho(0.01))
        assert schedule.following(curator).budget == pg.privacy.Rho(0.01)
        assert schedule.following(curator).last


def test_a_limit_of_time_leaves_no_budget_unspent_where_a_last_round_is_possible(monkeypatch):
    monkeypatch.setitem(duration.ESTIMATES, "LAMP", lambda domain, records: (1e9, 0.1))
    names = dict.fromkeys("abcdef", 15)
    codes = np.random.default_rng(0).integers(0, 15, (300, 1)) + np.random.default_rng(1).integers(0, 2, (300, 6))
    data = pg.Dataset.from_codes(np.minimum(codes, 14), names)
    result = pg.mechanisms.LAMP(rho=0.05, backend="simulation").fit(data, seed=0, time_limit=1e6, progress=False)
    assert {marginal.round for marginal in result.details["measured_marginals"]} == {0, 3}
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert result.details["time_limit"] == 1e6
    assert not result.interrupted


class Endless(Independent):
    """Estimates for ever, once all is paid."""

    def run(self, curator, workload, rng):
        curator.measure_all([("a", "b"), ("b", "c")], curator.remaining)
        return estimate_measured(curator, tolerance=1e-300, max_iterations=10**9, method="mirror_descent")


def test_a_limit_ends_the_last_estimate_too(capsys):
    result = Endless(rho=1e6, backend="simulation").fit(DATA, seed=0, time_limit=0.5)
    assert result.details["time_limit"] == 0.5
    assert not result.interrupted  # all answers were measured
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert "the limit of 0.5 s made the run shorter" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["LAMP", "MST", "AIM"])
def test_mechanisms_end_with_a_model_when_there_is_no_time_left(name):
    mechanism = getattr(pg.mechanisms, name)(rho=1.0, backend="simulation")
    curator = pg.privacy.Curator(DATA, pg.privacy.Rho(1.0), backend="simulation", seed=0)
    curator.measure_all([("a",), ("b",), ("c",), ("a", "b")], pg.privacy.Rho(0.5))
    with ending_in(0.0):
        model = mechanism.conclude(curator)
        assert abs(model.sample(200, seed=0).project(("a",)).values.sum() - 200) < 1


@pytest.mark.parametrize("limit", [0.01, 30.0, 1e9])
@pytest.mark.parametrize("name", ["LAMP", "MST", "AIM", "Independent"])
def test_at_least_half_of_a_limit_is_for_measuring(name, limit):
    mechanism = getattr(pg.mechanisms, name)(rho=1.0)
    for domain in (DATA.domain, None):
        assert limit / 2 <= measuring_time(expected_seconds(mechanism, domain, None), limit) < limit


def test_a_long_run_is_announced_with_a_limit_to_take(capsys):
    wide = pg.Domain(dict.fromkeys(map(str, range(900)), 9))
    mechanism = pg.mechanisms.LAMP(rho=1.0)
    announce(mechanism, DATA.domain, None, None)
    announce(mechanism, None, None, None)
    assert capsys.readouterr().err == ""
    announce(mechanism, wide, None, None)
    said = capsys.readouterr().err
    assert "LAMP on 900 attributes takes about " in said
    assert " for 100,000 records." in said
    assert "time_limit=" in said
    announce(mechanism, wide, 250, None)
    assert " for 250 records." in capsys.readouterr().err
    with begun("pgmest synthesize"):
        announce(mechanism, wide, None, None)
        assert "--most-seconds" in capsys.readouterr().err
    announce(mechanism, wide, None, 60.0)
    assert "would end it earlier" not in capsys.readouterr().err


def test_expected_times_grow_with_the_sizes():
    domains = [pg.Domain(dict.fromkeys(map(str, range(k)), 9)) for k in (1, 20, 100)]
    for name in ("LAMP", "MST", "AIM"):
        mechanism = getattr(pg.mechanisms, name)(rho=1.0)
        times = np.array([[sum(expected_seconds(mechanism, d, n) or ()) for n in (0, 10**5, 10**7)] for d in domains])
        assert (np.diff(times, axis=0) >= 0).all()
        assert (np.diff(times, axis=1) >= 0).all()
    assert expected_seconds(pg.mechanisms.Independent(rho=1.0), DOMAIN, 5) is None
    assert expected_seconds(pg.mechanisms.LAMP(rho=1.0), None, 5) is None
    assert expected_seconds(pg.mechanisms.AIM(rho=1.0), DOMAIN, None) == expected_seconds(
        pg.mechanisms.AIM(rho=1.0), DOMAIN, TYPICAL_RECORDS
    )


@pytest.mark.parametrize(("neighbors", "public"), [(pg.privacy.AddRemove(1), False), (pg.privacy.Replace(1), True)])
def test_only_a_public_number_of_records_plans_a_run(monkeypatch, capsys, neighbors, public):
    asked = []

    def estimate(domain, records):
        asked.append(records)
        return 1e9, 0.1

    monkeypatch.setitem(duration.ESTIMATES, "MST", estimate)
    for number in (200, 201):
        data = pg.Dataset.from_codes(np.zeros((number, 3), dtype=np.uint8), DATA.domain)
        mechanism = pg.mechanisms.MST(rho=1.0, backend="simulation", neighbors=neighbors)
        mechanism.fit(data, seed=0, time_limit=100.0)
        said = capsys.readouterr().err
        assert (f"{number}" in said) is public
        assert set(asked) == {number if public else TYPICAL_RECORDS}
        asked.clear()
    assert duration_text(0.4) == "0.4 s"
