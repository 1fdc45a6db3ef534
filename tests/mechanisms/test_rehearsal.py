"""Plans and limits of time: what to expect before paying, and what is kept when a run ends early."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
import threading
import time

import numpy as np
import pytest

import pgmest as pg
from pgmest.cli.main import main
from pgmest.errors import ArgumentError
from pgmest.mechanisms import prepared_run
from pgmest.mechanisms.notices import delta_warnings
from pgmest.mechanisms.registry import named_mechanism
from pgmest.mechanisms.rehearsal import made_up, rehearse
from pgmest.mechanisms.stopping import Stop, stopped_early

DOMAIN = pg.Domain({"a": 4, "b": 3, "c": 5})
DATA = made_up(DOMAIN, 500)
SCHEMA = """\
columns:
  age: {type: integer, min: 0, max: 99, width: 10}
  sex: {type: categorical, values: [F, M], other: x}
  zip: {type: integer, min: 0, max: 9999}
"""


@pytest.mark.parametrize("name", ["aim", "mst", "independent"])
def test_the_noise_planned_is_that_of_the_run(name):
    mechanism = named_mechanism(name, rho=0.2)
    plan = rehearse(mechanism, DOMAIN, 500)
    again = rehearse(mechanism, DOMAIN, 500)
    assert plan.tables == again.tables
    assert {(name,) for name in DOMAIN} <= {table.clique for table in plan.tables}
    assert all(table.mean_count == 500 / table.cells for table in plan.tables)


def test_more_budget_means_less_noise_and_fewer_warnings():
    def noise(rho, records):
        plan = rehearse(pg.mechanisms.Independent(rho=rho), DOMAIN, records)
        return plan.tables[0].stddev, plan.warnings

    assert noise(1.0, 1000)[0] == pytest.approx(noise(0.01, 1000)[0] / 10, rel=1e-6)
    assert not noise(1.0, 1000)[1]
    assert "noise exceeds the average count in 3 of 3 tables" in noise(1e-4, 100)[1][0]


def test_made_up_records_depend_on_the_domain_and_seed_alone():
    assert DATA.records == 500
    assert DATA.domain == DOMAIN
    assert np.array_equal(DATA.codes, made_up(DOMAIN, 500).codes)
    pair = DATA.project(("a", "c")).values / 500
    assert np.abs(pair - np.outer(pair.sum(1), pair.sum(0))).sum() > 0.1


@pytest.mark.parametrize(
    ("delta", "records", "asked"),
    [
        (0.5, None, True),
        (1e-3, None, True),
        (1e-9, None, False),
        (None, 5, False),
        (1e-5, 10**6, True),
        (1e-5, 50, False),
    ],
)
def test_a_delta_that_promises_nothing_is_questioned(delta, records, asked):
    assert bool(delta_warnings(delta, records)) is asked


@pytest.mark.parametrize("records", [0, -1, 2.5, True])
def test_a_guess_must_be_a_number_of_records(records):
    with pytest.raises(ArgumentError, match="records"):
        rehearse(pg.mechanisms.Independent(rho=0.1), DOMAIN, records)


def test_the_command(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(SCHEMA)
    arguments = ["plan", str(tmp_path / "s.yaml"), "--mechanism", "mst", "--epsilon", "1", "--records-expected", "2000"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "age x sex" in text or "sex" in text
    assert "noise on a cell of 10 records" in text
    assert "!  the noise exceeds" in text
    assert main([*arguments, "--delta", "0.5", "--json"]) == 0
    assert any("delta 0.5" in warning for warning in json.loads(capsys.readouterr().out)["warnings"])


def test_pairs_are_listed_however_many_columns_there_are():
    domain = pg.Domain({f"x{i}": 2 for i in range(45)})
    plan = rehearse(pg.mechanisms.MST(rho=1.0), domain, 2000)
    lines = str(plan).splitlines()
    assert sum(" x " in line for line in lines) == 20
    assert "... and 25 of single columns and 24 tables of several, with more noise" in lines


def test_a_rehearsal_that_a_limit_ends_says_so_and_what_matters_is_named():
    plan = rehearse(slow(), DOMAIN, 500, time_limit=0.2, matters=[("a",), ("a", "c")])
    assert plan.spent == pytest.approx(2 / 3)
    assert "The rehearsal was ended after 66.7 % of the budget" in str(plan)
    assert "* a is measured in the rehearsal" in str(plan)
    assert "!  a x c matters, but is NOT measured" in str(plan)
    assert plan.to_json()["matters"] == [{"clique": ["a"], "measured": True}, {"clique": ["a", "c"], "measured": False}]
    assert rehearse(pg.mechanisms.Independent(rho=0.1), DOMAIN, 500).spent == pytest.approx(1)


# -- ending early -----------------------------------------------------------------------------------------------------


class Slow(pg.mechanisms.Independent):
    """Measures one attribute after the other, and takes its time."""

    def run(self, curator, workload, rng):
        for name in curator.domain:
            curator.measure((name,), curator.budget / 3)
            if name == "b":
                while not curator.stopped:
                    time.sleep(0.01)
                time.sleep(0.01)
        raise AssertionError("not stopped")


def slow():
    return Slow(rho=0.3, backend="simulation")


def test_a_limit_of_time_keeps_what_was_paid_for(capsys):
    result = slow().fit(DATA, seed=0, time_limit=0.2)
    assert result.interrupted
    assert result.details["time_limit"] == 0.2
    assert [m.clique for m in result.measurements] == [("a",), ("b",)]
    assert result.model.project("a").values.sum() > 0
    assert "s of measuring are over, and the rest of the limit of 0.2 s" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_limit_of_time_in_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(slow().fit(DATA, seed=0, time_limit=0.1, progress=False)))
    thread.start()
    thread.join(30)
    assert found[0].interrupted
    assert len(found[0].measurements) == 2


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("limit", [60, 1e12, 1e308])
def test_a_run_that_is_faster_than_the_limit_is_left_alone(limit):
    result = pg.mechanisms.Independent(rho=0.1, backend="simulation").fit(DATA, seed=0, time_limit=limit)
    assert not result.interrupted
    assert "time_limit" not in result.details
    for clock in threading.enumerate():
        if isinstance(clock, threading.Timer):
            clock.join(30)
            assert not clock.is_alive(), "it would stop another run"


def test_ctrl_c_says_at_once_what_happens_next(capsys):
    threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
    result = slow().fit(DATA, seed=0)
    assert result.interrupted
    assert "time_limit" not in result.details
    text = capsys.readouterr().err
    assert "nothing more is asked of the data" in text
    assert "2 answers so far (66.7 % of the budget)" in text


def test_a_second_ctrl_c_aborts(monkeypatch):
    def conclude(self, curator):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.1)

    monkeypatch.setattr(Slow, "conclude", conclude)
    threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        slow().fit(DATA, seed=0)


def test_a_limit_that_is_over_before_anything_was_measured_is_an_error():
    class Idle(Slow):
        def run(self, curator, workload, rng):
            while not curator.stopped:
                time.sleep(0.01)

    with pytest.raises(ArgumentError, match="nothing was measured"):
        Idle(rho=0.1, backend="simulation").fit(DATA, seed=0, time_limit=0.05, progress=False)


@pytest.mark.parametrize("limit", [0, -1, float("inf"), float("nan"), "1", True])
def test_limits_that_are_none(limit):
    with pytest.raises(ArgumentError, match="time_limit"):
        slow().fit(DATA, seed=0, time_limit=limit)


def test_a_handler_of_another_program_stays(capsys):
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        curator = pg.privacy.Curator(DATA, pg.privacy.Rho(0.1), backend="simulation")
        with stopped_early(curator, None, silent=True):
            signal.raise_signal(signal.SIGINT)
        assert seen == [1]
        assert curator.stopped
        assert signal.getsignal(signal.SIGINT) is not before
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_time_limit_after_an_interruption_does_not_interrupt_again():
    curator = pg.privacy.Curator(DATA, pg.privacy.Rho(0.1), backend="simulation")
    with stopped_early(curator, 0.05, silent=True) as stop:
        curator.stopped = True
        time.sleep(0.2)
    assert (stop.timed_out, stop.early) == (False, False)


def test_an_interruption_after_the_run_has_ended_keeps_its_model(monkeypatch):
    @contextlib.contextmanager
    def late(curator, limit, silent, measuring):
        yield (stop := Stop(limit))
        stop.early = curator.stopped = True

    monkeypatch.setattr(prepared_run, "stopped_early", late)
    monkeypatch.setattr(pg.mechanisms.Independent, "conclude", lambda *_: pytest.fail("the model was thrown away"))
    assert pg.mechanisms.Independent(rho=0.1, backend="simulation").fit(DATA, seed=0, progress=False).interrupted


class ClosedTerminal(io.StringIO):
    """A terminal that is closed after a few writes."""

    left = 3

    def isatty(self):
        return True

    def write(self, text):
        self.left -= 1
        if self.left < 0:
            raise BrokenPipeError
        return len(text)


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_terminal_that_is_closed_during_the_run_loses_no_answer(monkeypatch, interrupted):
    def interrupt(curator):
        terminal.left = 0
        if len(curator.ledger) == 2:
            signal.raise_signal(signal.SIGINT)

    terminal = ClosedTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    mechanism = pg.mechanisms.Independent(rho=0.1, backend="simulation")
    result = mechanism.fit(DATA, seed=0, progress=interrupt if interrupted else None)
    assert len(result.measurements) == (1 if interrupted else 3)
    assert terminal.left < 0
