"""The number of threads, and the tasks that run on them."""

from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pytest

from pgmest._base.threads import behind, get_threads, idle_threads, run_in_turn, run_together, set_threads
from pgmest.errors import ArgumentError


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """Neither an environment variable nor an earlier call decides."""
    monkeypatch.delenv("PGMEST_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    set_threads(None)
    yield
    set_threads(None)


def test_the_default_is_the_number_of_processors():
    expected = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert get_threads() == expected


def test_the_number_can_be_chosen():
    set_threads(3)
    assert get_threads() == 3
    set_threads(None)
    assert get_threads() != 0


def test_the_environment_decides_unless_a_number_is_chosen(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert get_threads() == 5
    monkeypatch.setenv("PGMEST_THREADS", "7")
    assert get_threads() == 5  # it was read before
    set_threads(None)
    assert get_threads() == 7
    set_threads(2)
    assert get_threads() == 2


@pytest.mark.parametrize("value", ["", "0", "-1", "many", "2.5"])
def test_an_environment_that_says_nothing_is_ignored(monkeypatch, value):
    expected = get_threads()
    monkeypatch.setenv("PGMEST_THREADS", value)
    set_threads(None)
    assert get_threads() == expected


@pytest.mark.parametrize("count", [0, -1, 1.0, "2", True, [2], np.nan])
def test_the_number_is_a_positive_integer(count):
    set_threads(4)
    with pytest.raises(ArgumentError) as raised:
        set_threads(count)
    assert str(raised.value) == (
        f"count={count!r} is not valid: it must be a positive integer, or None for the default."
    )
    assert get_threads() == 4


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_get_one_thread_each(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(get_threads) == 1


def test_tasks_run_at_the_same_time():
    everyone = threading.Barrier(3, timeout=600)
    names = []

    def task() -> None:
        everyone.wait()  # passes only when all three have come
        names.append(threading.current_thread().name)

    run_together([task] * 3)
    assert len(set(names)) == 3
    assert threading.current_thread().name in names


def test_one_task_runs_here():
    seen = []
    run_together([lambda: seen.append(threading.current_thread())])
    assert seen == [threading.current_thread()]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_in_any_task_is_raised_when_all_are_done(failing):
    done = []

    def task(number: int) -> None:
        if number == failing:
            raise RuntimeError(f"task {number}")
        done.append(number)

    with pytest.raises(RuntimeError, match=f"task {failing}"):
        run_together([lambda number=number: task(number) for number in range(3)])
    assert sorted([*done, failing]) == [0, 1, 2]
    run_together([lambda: None] * 3)


def double_in_two_threads(number: int) -> int:
    results = []
    run_together([lambda: results.append(number)] * 2)
    return sum(results)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_forked_process_makes_its_own_pool():
    assert double_in_two_threads(1) == 2
    process = multiprocessing.get_context("fork").Process(target=double_in_two_threads, args=(2,))
    process.start()
    process.join(timeout=600)
    process.kill()  # if it still waits for a thread that only its parent has
    assert process.exitcode == 0


# -- in turn, and in the background -----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_tasks_in_turn_are_all_done(threads):
    done = []
    run_in_turn(((lambda number=number: done.append(number)) for number in range(20)), threads)
    assert sorted(done) == list(range(20))
    assert threads > 1 or done == list(range(20))
    run_in_turn((), threads)


def test_tasks_in_turn_are_made_when_there_is_room_for_them():
    made, done, ahead = [], [], []

    def tasks():
        for number in range(30):
            made.append(number)
            ahead.append(len(made) - len(done))
            yield lambda: done.append(0)

    run_in_turn(tasks(), 3)
    assert max(ahead) <= 5  # three run or wait, one came too many before one was done, and one is being made


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_turn_is_raised_when_those_that_began_are_done(threads):
    begun, done = [], []

    def task(number: int) -> None:
        begun.append(number)
        if number == 4:
            raise RuntimeError(f"task {number}")
        done.append(number)

    with pytest.raises(RuntimeError, match="task 4"):
        run_in_turn(((lambda number=number: task(number)) for number in range(100)), threads)
    assert sorted([*done, 4]) == sorted(begun)
    assert len(begun) < 100


def test_work_behind_is_done_in_order_on_another_thread():
    set_threads(2)
    done = []
    with behind(lambda item: done.append((item, threading.current_thread()))) as hand_over:
        for item in range(5):
            hand_over(item)
        assert len(done) >= 4  # an item is taken when the one before is done
        assert (get_threads(), idle_threads()) == (2, 1)
    assert [item for item, _ in done] == list(range(5))
    assert threading.current_thread() not in {thread for _, thread in done}
    assert idle_threads() == 2


def test_one_thread_works_at_once():
    set_threads(1)
    done = []
    with behind(done.append) as hand_over:
        hand_over(7)
        assert done == [7]
        assert idle_threads() == 1


def hand_all_over(work, items):
    with behind(work) as hand_over:
        for item in items:
            hand_over(item)


@pytest.mark.parametrize("failing", [0, 2])
def test_an_error_behind_is_raised_at_the_next_item_or_the_end(failing):
    set_threads(2)

    def work(item: int) -> None:
        if item == failing:
            raise RuntimeError(f"item {item}")

    with pytest.raises(RuntimeError, match=f"item {failing}"):
        hand_all_over(work, range(3))
    assert idle_threads() == 2


def test_an_interruption_waits_for_the_work_behind():
    set_threads(2)
    done, go_on = [], threading.Event()

    def work(item: int) -> None:
        go_on.wait(timeout=600)
        done.append(item)

    def items():
        yield 1
        threading.Timer(0.05, go_on.set).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hand_all_over(work, items())
    assert done == [1]
