"""`pg.marginals`, the front door of the exact oracle, and what it keeps between calls."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given, settings

from pgmest import CliqueVector, Domain
from pgmest._base.threads import set_threads
from pgmest.errors import ImpossibleModelError, MeasurementError
from pgmest.inference import kept_oracles
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.kept_oracles import marginals, marginals_and_log_partition
from tests.inference.exact.test_belief_propagation import ABCD, EXAMPLES
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")
INF = np.inf
quick = settings(max_examples=80, deadline=None)


@pytest.fixture
def compiled(monkeypatch):
    """The layouts compiled from here on, with nothing kept from before."""
    seen: list[object] = []
    original = PropagationPlan.of.__func__

    def counting(cls, layout, *args):
        seen.append(layout)
        return original(cls, layout, *args)

    monkeypatch.setattr(PropagationPlan, "of", classmethod(counting))
    monkeypatch.setattr(kept_oracles, "_oracles", type(kept_oracles._oracles)())
    return seen


@quick
@given(problems(magnitudes=(1.0,), zeros=(0.0, 0.1)))
def test_marginals_of_a_clique_vector(problem):
    assume(problem.possible)
    mu, log_partition = marginals_and_log_partition(problem.vector, 20.0)
    assert mu.layout == problem.layout
    assert np.allclose(mu.flat, problem.truth.run(problem.theta, 20.0)[0], rtol=0, atol=1e-9)
    assert np.isclose(log_partition, problem.truth.run(problem.theta)[1], rtol=1e-12, atol=1e-12)
    assert marginals(problem.vector, 20.0) == mu


def test_a_second_call_reuses_the_plan(compiled):
    theta = EXAMPLES["a cycle"].vector
    again = CliqueVector.random(Domain(ABCD), theta.cliques, seed=5)
    first = marginals(theta)
    kept = first.flat.copy()
    marginals(again)
    assert len(compiled) == 1
    assert np.array_equal(first.flat, kept)
    marginals(CliqueVector.random(Domain(ABCD), theta.cliques[:2], seed=5))
    assert len(compiled) == 2
    marginals(theta)
    assert len(compiled) == 2


def test_a_plan_is_compiled_anew_for_other_threads(compiled):
    theta = EXAMPLES["a cycle"].vector
    try:
        results = []
        for count in (1, 2, 2):
            set_threads(count)
            results.append(marginals(theta).flat)
    finally:
        set_threads(None)
    assert len(compiled) == 2
    assert np.allclose(results[0], results[1], rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "hold",
    [
        lambda mu: mu,
        lambda mu: mu.flat,
        lambda mu: mu.table(1),
        lambda mu: mu[("b", "a")],
        lambda mu: mu[("a", "b")].values[1:, ::2].T,
        lambda mu: memoryview(mu.flat),
        lambda mu: mu.flat.reshape(-1)[3:4],
        lambda mu: [*mu.values()],
        lambda mu: np.asarray(mu[("a", "b")]),
    ],
)
def test_marginals_that_somebody_holds_never_change(compiled, hold):
    first, second = (CliqueVector.random(Domain(ABCD), [("a", "b"), ("b", "c")], seed=seed) for seed in (1, 2))

    def read(held):
        parts = held if isinstance(held, list) else [held.flat if isinstance(held, CliqueVector) else held]
        return [np.array(part) for part in parts]

    held = hold(marginals(first, 100.0))
    before = read(held)
    for _ in range(3):
        marginals(second, 100.0)
    for left, right in zip(read(held), before, strict=True):
        assert np.array_equal(left, right)


def test_the_memory_of_marginals_that_nobody_holds_is_written_to_again(compiled):
    theta = CliqueVector.random(Domain(ABCD), [("a", "b"), ("b", "c")], seed=1)
    addresses = {marginals(theta).flat.ctypes.data for _ in range(5)}
    assert len(addresses) == 1
    both = [marginals(theta), marginals(theta)]
    assert not np.shares_memory(both[0].flat, both[1].flat)


def test_a_refused_run_leaves_nothing_behind(compiled):
    theta = CliqueVector.random(Domain(ABCD), [("a", "b"), ("b", "c")], seed=1)
    expected = marginals(theta).flat.copy()
    with pytest.raises(ImpossibleModelError):
        marginals(CliqueVector.of(theta.layout, np.full(theta.layout.cells, -INF)))
    assert np.array_equal(marginals(theta).flat, expected)


def test_few_plans_are_kept(compiled):
    vectors = [CliqueVector.zeros({"a": size}, ["a"]) for size in range(1, 40)]
    for theta in vectors:
        marginals(theta)
    assert len(kept_oracles._oracles) == kept_oracles._CACHED_ORACLES
    marginals(vectors[-1])
    assert len(compiled) == 39
    marginals(vectors[0])
    assert len(compiled) == 40


def test_oracles_with_large_tables_are_not_kept(compiled, monkeypatch):
    monkeypatch.setattr(kept_oracles, "_CACHED_CELLS", 3000)
    for size in (100, 110, 120, 4000, 130):
        marginals(CliqueVector.zeros({"a": size}, ["a"]))
        assert sum(kept.cells for kept in kept_oracles._oracles.values()) <= 3000
    assert len(compiled) == 5
    marginals(CliqueVector.zeros({"a": 130}, ["a"]))
    assert len(compiled) == 5
    marginals(CliqueVector.zeros({"a": 4000}, ["a"]))
    assert len(compiled) == 6


@pytest.mark.parametrize("bad", [np.nan, INF])
@pytest.mark.parametrize("position", [0, 3])
def test_potentials_that_are_no_logs_are_refused(bad, position):
    values = np.array([0.0, -INF, 1.0, 2.0])
    values[position] = bad
    theta = CliqueVector.of(Problem({"a": 2, "b": 2}, (("a",), ("b",))).layout, values)
    with pytest.raises(MeasurementError) as raised:
        marginals(theta)
    assert str(raised.value) == "the potentials hold NaN or +inf; only finite values and -inf are meaningful."


def test_impossible_potentials_are_refused():
    with pytest.raises(ImpossibleModelError, match=r"^the log-partition function is -inf"):
        marginals(CliqueVector({"a": 2}, {("a",): [-INF, -INF]}))


def test_several_python_threads_at_once():
    """They share one oracle, on tables large enough for their runs to meet."""
    layout = Problem(dict.fromkeys("abc", 60), (("a", "b", "c"), ("b",))).layout
    vectors = [CliqueVector.of(layout, np.random.default_rng(seed).normal(size=layout.cells)) for seed in range(4)]
    expected = [marginals(theta).flat for theta in vectors]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda theta: marginals(theta).flat, vectors * 10))
    for mu, alone in zip(found, expected * 10, strict=True):
        assert np.array_equal(mu, alone)
