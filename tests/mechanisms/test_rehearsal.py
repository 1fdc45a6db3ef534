"""Plans and limits of time: what to expect before paying, and what is kept when a run ends early."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.cli.main import main
from pgmest.errors import ArgumentError
from pgmest.mechanisms import LAMP, prepared_run
from pgmest.mechanisms.made_up import made_up
from pgmest.mechanisms.notices import UnusedWorkloadWarning, delta_warnings
from pgmest.mechanisms.registry import named_mechanism
from pgmest.mechanisms.rehearsal import rehearse
from pgmest.mechanisms.remedies import too_weak
from pgmest.mechanisms.stopping import Stop, stopped_early
from pgmest.tables.distances import total_variation

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


def test_made_up_pairs_are_as_dependent_as_those_of_typical_tables():
    sizes = [2, 3, 5, 10, 20, 50, 100, 4, 6, 8, 12, 16, 2, 2, 30, 7]
    domain, found = pg.Domain({f"x{place}": size for place, size in enumerate(sizes)}), []
    for seed in range(4):
        data = made_up(domain, 100_000, seed)
        for pair in itertools.combinations(domain, 2):
            table = data.project(pair).values / data.records
            found.append(0.5 * np.abs(table - np.outer(table.sum(1), table.sum(0))).sum())
    quartiles = np.quantile(found, [0.25, 0.5, 0.75, 0.95])
    assert (0.5 * np.array([0.004, 0.03, 0.09, 0.25]) < quartiles).all()
    assert (quartiles < [0.02, 0.06, 0.15, 0.4]).all()


def test_made_up_records_keep_structural_zeros_where_some_can():
    rules = [pg.zeros.impossible(("a", "b"), [(0, 0), (1, 2)]), pg.zeros.only(("b", "c"), [(0, 1), (1, 1), (2, 4)])]
    data = made_up(DOMAIN, 3000, zeros=rules)
    assert data.records == 3000
    assert data.project(("a", "b")).values[[0, 1], [0, 2]].sum() == 0
    assert data.project(("b", "c")).values[[0, 1, 2], [1, 1, 4]].sum() == 3000


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
    with pytest.raises(ArgumentError, match="records"):
        pg.mechanisms.LAMP(rho=0.1).plan(DOMAIN, records)


def test_the_command(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(SCHEMA)
    arguments = ["plan", str(tmp_path / "s.yaml"), "--mechanism", "mst", "--epsilon", "1", "--records-expected", "2000"]
    arguments.append("--quick")
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "age x sex" in text or "sex" in text
    assert "noise on a cell of 10 records" in text
    assert "!  the noise exceeds" in text
    assert main([*arguments, "--delta", "0.5", "--json"]) == 0
    assert any("delta 0.5" in warning for warning in json.loads(capsys.readouterr().out)["warnings"])


def test_pairs_are_listed_however_many_columns_there_are():
    domain = pg.Domain({f"x{i}": 2 for i in range(45)})
    plan = rehearse(pg.mechanisms.MST(rho=1.0), domain, 2000, quick=True)
    lines = str(plan).splitlines()
    assert len(plan.pairs) == 45 * 44 // 2
    noise = next(place for place, line in enumerate(lines) if line.startswith("measured table"))
    assert sum(" x " in line for line in lines[noise:]) == 20
    assert "... and 25 of single columns and 24 tables of several, with more noise" in lines


def test_a_rehearsal_that_a_limit_ends_says_so_and_what_matters_is_named():
    workload = pg.workloads.emphasized(DOMAIN, None, [("a", "c")])
    with pytest.warns(UnusedWorkloadWarning):
        plan = rehearse(slow(), DOMAIN, 500, workload, time_limit=0.2)
    assert plan.spent == pytest.approx(2 / 3)
    assert "The rehearsal was ended after 66.7 % of the budget" in str(plan)
    assert "!  a x c matters, but is NOT measured" in str(plan)
    assert plan.to_json()["matters"] == [{"clique": ["a", "c"], "measured": False}]
    assert plan.remedies == ()
    assert rehearse(pg.mechanisms.Independent(rho=0.1), DOMAIN, 500).spent == pytest.approx(1)


# -- errors, what is lost, and what would help -----------------------------------------------------------------------


VISITS = {"code": 300, "postal": 60, "age": 20, "sex": 2, "readmitted": 2, "year": 1}


def test_errors_are_those_of_the_rehearsal_and_fall_with_the_budget():
    poor, rich = (rehearse(LAMP(rho=rho), pg.Domain(VISITS), 4000, quick=True) for rho in (1e-9, 1.0))
    assert poor.measured_pairs == 0
    assert "WARNING: this budget allows one-way marginals only" in str(poor)
    assert rich.measured_pairs > 0
    assert "WARNING" not in str(rich)
    for one, other in zip(poor.columns, rich.columns, strict=True):
        assert one.clique == other.clique
        assert one.cells == 1 or one.error > other.error > 0
    assert {table.clique for table in rich.pairs} == set(itertools.combinations([n for n in VISITS if n != "year"], 2))
    assert rich.mean_error < poor.mean_error


def test_planned_errors_of_columns_are_about_those_of_a_run():
    census = pg.datasets.load("census").select(["age", "sex", "education-num", "occupation"])
    mechanism = LAMP(rho=0.01, backend="simulation", records=5000)
    planned = {table.clique: table for table in mechanism.plan(census.domain, census.records, quick=True).columns}
    result = mechanism.fit(census, seed=0, progress=False)
    for name in ("age", "education-num", "occupation"):
        error = total_variation(census.project((name,)), result.project((name,)))
        assert 1 / 4 < planned[name,].error / error < 4


def test_half_widths_are_those_of_intervals_and_exact_tables_have_none():
    published = pg.LinearMeasurement.exact(np.array([400.0, 300, 200, 100]), ("a",))
    plan = rehearse(LAMP(rho=0.01, invariants=[published]), DOMAIN, 1000, quick=True)
    widths = {table.clique: (table.error, table.half_width) for table in plan.columns}
    assert widths["a",] == (pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-6))
    assert widths["b",][1] > 0
    bounded = pg.LinearMeasurement.at_least(np.zeros(4), ("a",))
    assert rehearse(LAMP(rho=0.01, invariants=[bounded]), DOMAIN, 1000, quick=True).columns[0].half_width > 0
    none = rehearse(pg.mechanisms.DualQuery(epsilon=1.0, time_limit=0.1), DOMAIN, 100, quick=True)
    assert {table.half_width for table in (*none.columns, *none.pairs)} == {None}


def test_a_plan_says_what_is_lost_and_what_would_help():
    mechanism = LAMP(epsilon=1.0, neighbors=pg.privacy.AddRemove(4))
    plan = rehearse(mechanism, pg.Domain(VISITS), 4000)
    assert rehearse(mechanism, pg.Domain(VISITS), 4000, quick=True).too_weak == plan.too_weak
    text = " ".join(str(plan).split())
    assert text.startswith("LAMP with epsilon 1 and delta 1e-09 for 4 records of a person, added or removed together")
    assert "No record was read" in text
    assert plan.too_weak[0].clique == ("code", "postal")
    assert "code x postal, 18,000 cells: no reasonable budget is enough, or at most" in text
    assert "it takes epsilon" in text
    helps = text.split("What would help:")[1]
    assert all(text in helps for text in ("--matters", "epsilon 2:", "at_most 2 instead of 4", "coarser bins"))
    saved = json.loads(json.dumps(plan.to_json()))
    assert len(saved["pairs"]) == 10
    assert saved["too_weak"][0]["clique"] == ["code", "postal"]
    assert saved["remedies"] == list(plan.remedies)


@pytest.mark.parametrize("budget", [{"epsilon": 0.3}, {"rho": 1e-3}])
def test_what_a_weak_table_takes_is_enough(budget: Any):
    domain, cliques, records = pg.Domain({"code": 120, "ward": 12, "sex": 2}), [("code", "ward"), ("ward", "sex")], 8000
    ((name, _),) = budget.items()
    (weak,) = too_weak(LAMP(**budget), domain, cliques, records)
    assert weak.clique == ("code", "ward")
    assert weak.budget is not None
    assert weak.values is not None
    assert weak.budget.startswith(f"{name} ")
    more: Any = float(weak.budget.split()[1])
    assert list(too_weak(LAMP(**{name: 1.05 * more}), domain, cliques, records)) == []
    assert len(list(too_weak(LAMP(**{name: 0.9 * more}), domain, cliques, records))) == 1
    for values, count in ((weak.values, 0), (weak.values + 1, 1)):
        fewer = pg.Domain({name: min(size, values) for name, size in domain.items()})
        assert len(list(too_weak(LAMP(**budget), fewer, cliques, records))) == count


def test_tables_that_matter_are_named_with_what_becomes_of_them():
    workload = pg.workloads.emphasized(VISITS, None, [("age", "readmitted"), ("code", "postal")])
    plan = rehearse(LAMP(epsilon=1.0, neighbors=pg.privacy.AddRemove(4)), pg.Domain(VISITS), 8000, workload, quick=True)
    text = " ".join(str(plan).split())
    assert "* age x readmitted matters: it is measured in the rehearsal" in text
    assert "! code x postal matters, but is NOT measured: the budget cannot carry it" in text
    found = {tuple(one["clique"]): one["measured"] for one in plan.to_json()["matters"]}
    assert found == {("code", "postal"): False, ("age", "readmitted"): True}


def test_a_workload_says_which_tables_are_planned():
    plan = rehearse(LAMP(rho=1.0), DOMAIN, 1000, [("a", "b", "c")], quick=True)
    assert [table.clique for table in plan.pairs] == [("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    assert "a x b x c" in str(plan)
    assert rehearse(LAMP(rho=1.0), DOMAIN, 100, ["a"], quick=True).pairs == ()
    prefixes = pg.workloads.prefixes(DOMAIN, [("a",)], ["a"])
    assert rehearse(LAMP(rho=1.0), DOMAIN, 100, prefixes, quick=True).pairs == ()


def of_codes(workload=None):
    """Return a plan for 60 codes in 12 blocks in 3 chapters, and two other attributes."""
    tree = pg.Hierarchy("code", {"chapter": np.arange(60) // 20, "block": np.arange(60) // 5})
    domain = pg.Domain({"code": 60, "sex": 2, "age": 6}).with_hierarchies(tree)
    return rehearse(LAMP(epsilon=1.0, delta=1e-9), domain, 10_000, workload, quick=True)


def test_plans_have_a_line_for_each_level_whose_error_is_smaller_the_coarser_it_is():
    plan = of_codes()
    levels = {table.clique: table for table in plan.by_level}
    assert set(levels) == {
        (f"code@{level}", *more) for level in ("chapter", "block") for more in ((), ("sex",), ("age",))
    }
    codes = {table.clique: table.error for table in (*plan.columns, *plan.pairs)}
    for more in ((), ("sex",), ("age",)):
        chapter, block = (levels[f"code@{level}", *more].error for level in ("chapter", "block"))
        assert 0 < chapter <= block <= codes["code", *more]
    assert levels["code@chapter", "age"].cells == 18
    text = str(plan)
    assert [line.split()[0] for line in text.splitlines() if line.startswith("code")][:3] == [
        "code",
        "code@chapter",
        "code@block",
    ]
    assert "code@block x age" in text
    assert {tuple(one["clique"]) for one in plan.to_json()["by_level"]} == set(levels)


def test_a_workload_says_which_levels_are_listed():
    asked = [("code@chapter", "sex"), ("code", "age")]
    assert [table.clique for table in of_codes(asked).by_level if len(table.clique) == 2] == [("code@chapter", "sex")]


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


def test_changes_of_a_transformed_mechanism_are_of_the_budget_inside():
    inside = pg.mechanisms.MST(rho=0.1)
    mechanism = pg.mechanisms.Transformed(mechanism=inside, steps=[pg.transforms.compress_rare])
    plan = rehearse(mechanism, pg.Domain({"a": 40, "b": 3, "c": 2}), 300)
    assert plan.remedies[0].startswith("rho 0.4: ")
    own = rehearse(inside, pg.Domain({"a": 40, "b": 3, "c": 2}), 300)
    assert plan.too_weak == own.too_weak
    assert plan.too_weak[0].budget is not None


@pytest.mark.parametrize("name", ["PMWPub", "LAMP"])
def test_a_change_of_the_domain_is_not_rehearsed_beside_public_records_over_it(name):
    domain = pg.Domain({"a": 40, "b": 3, "c": 2})
    public = pg.Dataset.from_codes(np.zeros((50, 3), dtype=int), domain)
    given: Any = {"PMWPub": {"public": public, "rounds": 2}, "LAMP": {"prior": public}}[name]
    plan = rehearse(getattr(pg.mechanisms, name)(epsilon=1.0, **given), domain, 300)
    assert any(text.startswith("epsilon 2: ") for text in plan.remedies)
    assert not any("coarser" in text for text in plan.remedies)
