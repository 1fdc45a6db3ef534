"""No exception that leaves a private run has exact counts or scores in the variables of its frames."""

from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.mechanisms import Independent
from pgmest.privacy import AddRemove, Curator, Epsilon, Rho
from pgmest.privacy.noise import OpenDP, Simulation
from pgmest.privacy.tracebacks import drop_frames
from tests.mechanisms.every import EVERY, made

SECRET = 1237
"""The number of records in one cell, which is seen nowhere else."""
DATA = pg.Dataset.from_codes(np.array([[0, 0, 0]] * SECRET + [[1, 2, 1]] * 5), {"a": 2, "b": 3, "c": 2})


def values_in(value: Any, depth: int = 4) -> set[float]:
    """The numbers in a variable: of arrays, tables, and containers of these."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return set(np.abs(value).ravel().tolist()[:1000])
    if isinstance(value, pg.Factor):
        return values_in(value.values)
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return {abs(float(value))}
    if depth and isinstance(value, dict):
        return set().union(*(values_in(v, depth - 1) for v in list(value.values())[:1000]))
    if depth and isinstance(value, list | tuple | set):
        return set().union(*(values_in(v, depth - 1) for v in list(value)[:1000]))
    return set()


def secrets_in(error: BaseException) -> list[tuple[str, str]]:
    """The variables with the secret count, in all frames of an exception and of those that it came from."""
    found, waiting, seen = [], [error], set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__context__, one.__cause__, *getattr(one, "exceptions", ())]
        trace = one.__traceback__
        while trace:
            frame = trace.tb_frame
            if "/tests/" not in frame.f_code.co_filename:  # whose variables are the owner's
                for name, value in list(frame.f_locals.items()):
                    if {SECRET, SECRET + 5, SECRET - 5} & values_in(value):
                        found.append((frame.f_code.co_name, name))
            trace = trace.tb_next
    return found


def failing(kind: type[BaseException], after: int = 0) -> Any:
    """A source of noise that fails, raised from another error whose frames have the exact numbers, too."""
    left = [after]

    def fail(self, exact, *arguments, **options):
        left[0] -= 1
        if left[0] >= 0:
            return REAL["add_noise"](self, exact, *arguments, **options)
        try:
            {}[None]
        except KeyError as error:
            raise kind("the noise fails") from error

    return fail


REAL = {name: getattr(Simulation, name) for name in ("add_noise", "noisy_max", "draw")}
REQUESTS = {
    "measure": lambda curator: curator.measure(("a", "b"), curator.budget / 4),
    "matrix": lambda curator: curator.measure(("a", "b"), curator.budget / 4, [[0.3] * 6]),
    "all": lambda curator: curator.measure_all(["a", "b", ("a", "b")], curator.budget / 4),
    "count": lambda curator: curator.count(curator.budget / 4),
    "values": lambda curator: curator.measure_values(
        lambda data: data.project("a").values, 2, 1.0, curator.budget / 4, label="x"
    ),
    "select": lambda curator: curator.select(
        ["x", "y"], lambda data: data.project("a").values, 1.0, curator.budget / 4
    ),
    "draw": lambda curator: curator.draw(
        lambda data: data.project("a").values.astype(int), 2, 1, -20, 1, curator.budget / 4, label="x"
    ),
    "frequent": lambda curator: curator.frequent(
        lambda data: {"x": int(data.project("a").values[0])}, curator.budget / 4, 1e-9, label="x"
    ),
}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError, MemoryError, GeneratorExit])
@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("backend", [Simulation, OpenDP])
def test_a_failure_while_noise_is_drawn_shows_no_count(monkeypatch, backend, request_, kind):
    for name in REAL:
        monkeypatch.setattr(backend, name, failing(kind))
    for budget in (Rho(1.0), Epsilon(1.0)):
        curator = Curator(DATA, budget, backend=backend.__name__.lower(), seed=0, threshold_delta=1e-6)
        with pytest.raises(kind, match="the noise fails") as caught:
            REQUESTS[request_](curator)
        assert secrets_in(caught.value) == []
        assert caught.value.__context__ is caught.value.__cause__ is None


@pytest.mark.parametrize("name", EVERY)
def test_no_mechanism_shows_a_count_in_a_traceback(monkeypatch, name):
    for after in (0, 1, 4):
        monkeypatch.setattr(Simulation, "add_noise", failing(RuntimeError, after))
        found = []
        try:
            made(name).fit(DATA, seed=0, progress=False)
        except RuntimeError as error:
            found = secrets_in(error)
        assert found == []


def test_a_failure_of_the_records_themselves_shows_no_count(monkeypatch):
    """Fail behind the curator in several places: counting, scores of a caller, a recoding."""

    def count(self, *arguments):
        exact = np.array([SECRET, 5])
        raise RuntimeError(f"{exact.dtype}")

    class Step:
        def encode(self, data):
            count(data)

    monkeypatch.setattr(type(DATA), "project", count)
    for ask in (lambda c: c.measure("a", Rho(0.1)), lambda c: c.through(Step())):
        with pytest.raises(RuntimeError, match="int64") as caught:
            ask(Curator(DATA, Rho(1.0)))
        assert secrets_in(caught.value) == []


def test_an_interrupted_run_shows_no_count_in_what_it_was_interrupted_by(monkeypatch):
    monkeypatch.setattr(OpenDP, "add_noise", failing(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt) as caught:
        Independent(rho=0.5, neighbors=AddRemove(2)).fit(DATA, seed=0, progress=False)
    assert secrets_in(caught.value) == []


def test_groups_of_exceptions_and_cycles_of_them_lose_their_frames():
    def broken(number):
        try:
            raise ValueError(number)
        except ValueError as error:
            return error

    one, two = broken(1), broken(2)
    one.__context__, two.__context__ = two, one
    group = ExceptionGroup("several", [one, broken(3)])
    drop_frames(group)
    for error in (*group.exceptions, two):
        assert error.__traceback__ is error.__context__ is None
