"""A team of threads: each part that is offered is done once, by whoever comes, and help that does not help is left."""

from __future__ import annotations

import time

import numba
import numpy as np
import pytest

from pgmest._base import team as team_module
from pgmest._base.team import PERIOD, TRIALS, Team
from pgmest._base.team_kernels import (
    LEAVE,
    PARTS,
    PHASE,
    STAY,
    TABLE,
    address_of,
    finish,
    offer,
    parts_of,
    table_at,
    take,
    wait_for_all,
    wait_for_work,
)

CELLS = 64


@numba.njit(nogil=True)
def lead(team, table, offers):
    """Offer work 0, 1, ...: part p of work w adds w + p + 1 to cell p. What is missing after an offer is returned."""
    for work in range(offers):
        parts = parts_of(team, 1 + work % CELLS)
        before = table.sum()
        offer(team, work % 100, parts, address_of(table))
        part = take(team)
        while part >= 0:
            table[part] += work % 100 + part + 1
            finish(team)
            part = take(team)
        wait_for_all(team)
        if table.sum() - before != parts * (work % 100) + parts * (parts + 1) // 2:
            return work
    return -1


@numba.njit(nogil=True)
def assist(like, taken, team):
    work, part = wait_for_work(team)
    while part >= 0:
        table = table_at(team[TABLE], like)
        if part < team[PARTS]:
            table[part] += work + part + 1
            taken[0] += 1
        finish(team)
        work, part = wait_for_work(team)


def made(threads: int, linger: bool = True) -> tuple[Team, np.ndarray]:
    """A team that always asks for help, and a count of the parts that helpers took."""
    taken, like = np.zeros(1, dtype=np.int64), np.zeros(CELLS, dtype=np.int64)
    team = Team(threads, 1, lambda array: assist(like, taken, array), linger)
    assist(like, taken, team._array)  # compiled; it is to leave
    team._chosen = lambda: True  # type: ignore[method-assign]
    return team, taken


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_each_part_is_done_once(threads):
    """Offers of 1 to 20 parts in quick succession, in runs between which helpers come and go."""
    team, taken = made(threads)
    run, deadline = 0, time.monotonic() + 60.0
    while run < 60 or (taken[0] == 0 and time.monotonic() < deadline):
        table = np.zeros(CELLS, dtype=np.int64)
        with team as array:
            assert lead(array, table, 3000) == -1
        if run % 20 == 0:
            time.sleep(0.005)
        run += 1
    assert taken[0] > 0


def test_nobody_waits_for_a_helper_that_does_not_come():
    team = Team(4, 1, lambda array: None, linger=True)
    with team as array:
        assert lead(array, np.zeros(CELLS, dtype=np.int64), 1000) == -1


@pytest.mark.parametrize("linger", [True, False])
def test_helpers_leave_after_a_run_also_one_that_fails(linger):
    team, _ = made(2, linger)

    def stopped() -> None:
        with team as array:
            assert array[PHASE] == STAY
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    team._helpers[0].result(timeout=30)


def test_help_is_taken_where_it_is_faster(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(team_module.time, "perf_counter", lambda: clock[0])
    team = Team(2, 1, lambda array: None, linger=True)
    took = {STAY: 1.0, LEAVE: 2.0}
    phases = []
    for run in range(3 * PERIOD):
        if run == PERIOD:
            took = {STAY: 1.0, LEAVE: 1.02}  # what is gained would not be worth a processor
        if run == 2 * PERIOD:
            took = {STAY: 1.0, LEAVE: 1.5}
        with team as array:
            phases.append(int(array[PHASE]))
            clock[0] += took[phases[-1]] + (run % 3)  # other work disturbs some of them
    trial = [STAY] * TRIALS + [LEAVE] * TRIALS
    rest = PERIOD - len(trial)
    assert phases == trial + [STAY] * rest + trial + [LEAVE] * rest + trial + [STAY] * rest


def test_one_fast_run_does_not_decide(monkeypatch):
    """The first of a trial may be the only one in which nobody is in the way."""
    clock = [0.0]
    monkeypatch.setattr(team_module.time, "perf_counter", lambda: clock[0])
    team, phases = Team(2, 1, lambda array: None, linger=True), []
    for run in range(PERIOD):
        with team as array:
            phases.append(int(array[PHASE]))
            clock[0] += 0.8 if run == 0 else {STAY: 1.2, LEAVE: 1.0}[phases[-1]]
    assert phases == [STAY] * TRIALS + [LEAVE] * (PERIOD - TRIALS)
