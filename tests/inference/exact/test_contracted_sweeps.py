"""Sweeps by contraction: the full joint table's marginals, or a refusal, and logarithms where it refuses."""

from __future__ import annotations

import itertools
import pickle
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, ImpossibleModelError, ShapeError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference import reference
from pgmest.inference.exact import (
    axes,
    contracted_sweeps,
    contraction_kernels,
    contraction_plan,
    max_contraction_kernels,
    subtrees,
    workspace,
)
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.contracted_sweeps import ContractedSweeps
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.exact.tree_messages import TreeMessages
from pgmest.tables.clique_vector import Layout
from tests.inference.exact.test_belief_propagation import EXAMPLES, indicators
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")
quick = settings(max_examples=150, deadline=None)

SIZES = {"a": 40, "b": 30, "c": 25, "d": 20, "e": 3}
PAIRS = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "c"), ("d", "e"))


def contracted(problem: Problem, total: float = 1.0) -> tuple[np.ndarray, float | None]:
    sweeps = ContractedSweeps.of(problem.layout, problem.plan().tree)
    mu = np.full(problem.layout.cells, np.nan)
    return mu, sweeps.run(problem.theta, total, mu)


def best_through_each_cell(problem: Problem) -> np.ndarray:
    joint = problem.truth.log_joint(problem.theta).values.reshape(-1)
    return np.array([joint[row > 0].max(initial=-np.inf) for row in indicators(problem)])


def assert_max_product_is_right(sweeps: ContractedSweeps, problem: Problem) -> None:
    best = np.full(problem.layout.cells, np.nan)
    wanted = best_through_each_cell(problem)
    close: dict[str, Any] = {"rtol": 1e-13, "atol": 1e-10}
    assert np.isclose(sweeps.maximum(problem.theta), problem.truth.maximum(problem.theta), **close)
    assert np.isclose(sweeps.max_marginals(problem.theta, best), problem.truth.maximum(problem.theta), **close)
    assert np.allclose(best, wanted, **close)


def _in_logs(layout, theta, total=1.0, tree=None):
    """The marginals by messages in logarithms, and the log-partition function."""
    tree = JunctionTree.from_cliques(layout.domain, layout.cliques) if tree is None else tree
    mu = np.empty(layout.cells)
    return mu, TreeMessages(layout, tree).run(theta, total, mu)


@pytest.mark.parametrize("name", [name for name, problem in EXAMPLES.items() if problem.cliques])
def test_examples(name):
    problem = EXAMPLES[name]
    mu, log_partition = contracted(problem, 250.0)
    assert np.allclose(mu, 250.0 * indicators(problem) @ problem.joint.reshape(-1), rtol=0, atol=1e-10)
    log_joint = problem.truth.log_joint(problem.theta).values
    assert log_partition == pytest.approx(np.log(np.exp(log_joint).sum()), rel=1e-13, abs=1e-13)


@quick
@given(problem=problems())
def test_the_max_product_agrees_with_the_full_table(problem):
    """At every magnitude, also where no record is possible: logarithms refuse nothing."""
    if problem.cliques:
        assert_max_product_is_right(ContractedSweeps.of(problem.layout, problem.plan().tree), problem)


@quick
@given(problem=problems())
def test_it_agrees_with_the_full_table_or_refuses(problem):
    if not problem.cliques:
        return
    mu, log_partition = contracted(problem)
    if log_partition is None:
        return
    assert problem.possible
    assert np.allclose(mu, indicators(problem) @ problem.joint.reshape(-1), rtol=0, atol=1e-10)
    largest = problem.truth.log_joint(problem.theta).values.max()
    expected = largest + np.log(np.exp(problem.truth.log_joint(problem.theta).values - largest).sum())
    assert log_partition == pytest.approx(expected, rel=1e-11, abs=1e-11)


@settings(max_examples=200, deadline=None)
@given(
    problem=problems(),
    few=st.sampled_from([0, 8, 10**9]),
    long=st.sampled_from([1, 2, 8]),
    inner=st.sampled_from([1, 4, 64]),
    threads=st.sampled_from([1, 3]),
    large=st.sampled_from([1, 4096]),
)
def test_every_way_of_a_product_agrees_with_the_full_table(problem, few, long, inner, threads, large):
    """The result is the same with and without BLAS, for any cut of the maps, and with shared products and places."""
    if not problem.cliques:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction_plan, "FEW_OPERATIONS", few)
        patch.setattr(contraction_plan, "LONG_ROW", long)
        patch.setattr(axes, "INNER_CELLS", inner)
        patch.setattr(contracted_sweeps, "SHARED_OPERATIONS", 0)
        patch.setattr(contraction_plan, "SHARED_CELLS", 0)
        patch.setattr(subtrees, "FEW_ABOVE", 1.0)
        patch.setattr(workspace, "LARGE", large)
        sweeps = ContractedSweeps.of(problem.layout, problem.plan().tree, threads)
    mu = np.empty(problem.layout.cells)
    for _ in range(2):  # the second run finds what the first one left in the workspace
        log_partition = sweeps.run(problem.theta, 7.0, mu)
        if log_partition is not None:
            assert np.allclose(mu, 7.0 * indicators(problem) @ problem.joint.reshape(-1), rtol=0, atol=1e-10)
        assert_max_product_is_right(sweeps, problem)


@settings(max_examples=100, deadline=None)
@given(
    cliques=st.lists(
        st.permutations("abcd").flatmap(lambda names: st.sampled_from([names[:2], names[:3]])), max_size=6
    ),
    sizes=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    few=st.sampled_from([0, 10**9]),
    seed=st.integers(0, 100),
)
def test_tables_times_tables_of_some_of_their_axes(cliques, sizes, few, seed):
    """Pairs and triples in every order that meet in one clique, by rows of a single cell and more."""
    cliques = list({frozenset(names): tuple(names) for names in [*cliques, "ab", "bc", "cd", "da", "ac"]}.values())
    vector = pg.CliqueVector.random(pg.Domain(zip("abcd", sizes, strict=True)), cliques, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction_plan, "FEW_OPERATIONS", few)
        patch.setattr(contraction_plan, "LONG_ROW", 1)
        sweeps = ContractedSweeps.of(vector.layout, JunctionTree.from_cliques(vector.domain, [tuple("abcd")]))
    theta, mu = np.array(vector.flat), np.empty(vector.layout.cells)
    expected, log_partition = _in_logs(vector.layout, theta, 3.0)
    assert sweeps.run(theta, 3.0, mu) == pytest.approx(log_partition, rel=1e-12, abs=1e-12)
    assert np.allclose(mu, expected, rtol=1e-11)
    best, top = reference.max_marginals(vector)
    assert sweeps.max_marginals(theta, mu) == pytest.approx(top)
    assert np.allclose(mu, best.flat, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("orders", [*itertools.product(("ab", "ba"), ("bc", "cb"), ("ac", "ca"))])
def test_large_matrices_are_cut_into_pieces(orders, monkeypatch):
    """Every way in which three tables of a cycle can lie, with more operations than one call of BLAS is given."""
    monkeypatch.setattr(contracted_sweeps, "SHARED_OPERATIONS", 0)
    sizes = {"a": 300, "b": 330, "c": 70}
    vector = pg.CliqueVector.random(pg.Domain(sizes), [tuple(order) for order in orders], seed=0)
    tree = JunctionTree.from_cliques(vector.domain, [("a", "b", "c")])
    mu, theta = np.empty(vector.layout.cells), np.array(vector.flat)
    scores = np.sum([vector[clique].expand(vector.domain).values for clique in vector], axis=0)
    best = [pg.Factor(vector.domain, scores).max(set("abc").difference(clique)) for clique in vector.layout.cliques]
    wanted = [table.transpose(clique).datavector() for table, clique in zip(best, vector.layout.cliques, strict=True)]
    joint = np.exp(scores)
    total = joint.sum()
    tables = [pg.Factor(vector.domain, joint).project(clique).datavector() for clique in vector.layout.cliques]
    for threads in (1, 2):
        sweeps = ContractedSweeps.of(vector.layout, tree, threads)
        assert sweeps.run(theta, 10.0, mu) == pytest.approx(np.log(total), rel=1e-13)
        assert np.allclose(mu, np.concatenate(tables) * 10.0 / total, rtol=1e-11)
        assert sweeps.max_marginals(theta, mu) == pytest.approx(scores.max(), rel=1e-14)
        assert np.allclose(mu, np.concatenate(wanted), rtol=1e-13)


def test_a_star_of_hundreds_of_cliques_keeps_its_numbers_in_range():
    """Each message into the center could be near 1e-6 at its maximum, if it were not divided by it."""
    leaves = [f"x{i}" for i in range(400)]
    cliques = [("center", leaf) for leaf in leaves]
    layout = Layout.of(pg.Domain({"center": 3, **dict.fromkeys(leaves, 2)}), cliques)
    theta = np.random.default_rng(0).normal(size=layout.cells) - 12.0
    mu = np.empty(layout.cells)
    assert (
        ContractedSweeps.of(layout, JunctionTree.from_cliques(layout.domain, cliques)).run(theta, 1.0, mu) is not None
    )
    expected, _ = _in_logs(layout, theta)
    assert np.allclose(mu, expected, rtol=1e-10)


@pytest.mark.parametrize("first", [-np.inf, -300.0, -25.0, 0.0, 25.0])
@pytest.mark.parametrize("levels", [1, 3])
def test_a_long_message_whose_first_cells_are_unlike_the_others(first, levels):
    """They are all that is looked at where they seem to be in range."""
    sizes = {"a": 70, "b": 80, **{f"x{i}": 3 for i in range(levels + 1)}}
    cliques = [("a", "b", f"x{i}") for i in range(levels + 1)]
    layout = Layout.of(pg.Domain(sizes), cliques)
    assert sizes["a"] * sizes["b"] > contraction_kernels.SHORT
    tables = np.random.default_rng(0).normal(size=(len(cliques), 70 * 80, 3))
    tables[:, : contraction_kernels.SHORT] += first
    theta, mu = tables.reshape(-1).copy(), np.empty(layout.cells)
    tree = JunctionTree.from_cliques(layout.domain, cliques)
    found = ContractedSweeps.of(layout, tree).run(theta, 1.0, mu)
    expected, log_partition = _in_logs(layout, theta, tree=tree)
    assert found == pytest.approx(log_partition, rel=1e-12)
    assert np.allclose(mu, expected, rtol=1e-10, atol=1e-300)


def test_helpers_change_no_bit(monkeypatch):
    """Products of many sizes, each cut into parts: helped and not, again and again, while helpers come and go."""
    monkeypatch.setattr(contracted_sweeps, "SHARED_OPERATIONS", 1)
    monkeypatch.setattr(contraction_plan, "FEW_OPERATIONS", 0)
    sizes = {"a": 2, "b": 3, "c": 5, "d": 7, "e": 4, "f": 6}
    layout = Layout.of(pg.Domain(sizes), [*itertools.combinations(sizes, 2)])
    theta = np.random.default_rng(0).normal(size=layout.cells)
    sweeps = ContractedSweeps.of(layout, JunctionTree.from_cliques(layout.domain, [tuple(sizes)]), threads=3)
    found = {helped: np.empty((2, layout.cells)) for helped in (True, False)}
    space = sweeps._workspace
    for number in range(600):
        for helped, (mu, best) in found.items():
            for team in (space.sums, space.maxima):
                monkeypatch.setattr(team, "_chosen", lambda helped=helped: helped)
            mu[:] = best[:] = np.nan
            sweeps.run(theta, 1.0, mu)
            sweeps.max_marginals(theta, best)
        assert np.array_equal(found[True], found[False])
        if number % 100 == 0:
            time.sleep(0.002)  # they leave
    assert np.allclose(found[True][0], _in_logs(layout, theta)[0], rtol=1e-10)


@pytest.mark.parametrize("threads", [2, 3])
def test_subtrees_are_shared_between_threads(threads, monkeypatch):
    monkeypatch.setattr(contraction_plan, "SHARED_CELLS", 0)
    names = [f"x{i}" for i in range(60)]
    cliques = [*itertools.pairwise(names), *((name,) for name in names[::7]), ("x30", "y"), ("y", "z")]
    layout = Layout.of(pg.Domain({**dict.fromkeys(names, 3), "y": 9, "z": 9}), cliques)
    theta, mu = np.random.default_rng(0).normal(size=layout.cells), np.empty(layout.cells)
    tree = JunctionTree.from_cliques(layout.domain, cliques)
    sweeps = ContractedSweeps.of(layout, tree, threads)
    assert len(sweeps.plan.shares) > 1
    expected, expected_log = _in_logs(layout, theta, 5.0)
    best = reference.max_marginals(pg.CliqueVector.of(layout, theta))[0].flat
    for run in (sweeps, ContractedSweeps(sweeps.plan), pickle.loads(pickle.dumps(sweeps))):
        assert run.run(theta, 5.0, mu) == pytest.approx(expected_log, rel=1e-13)
        assert np.allclose(mu, expected, rtol=1e-10)
        assert run.max_marginals(theta, mu) == pytest.approx(best.max(), rel=1e-13)
        assert np.allclose(mu, best, rtol=1e-12, atol=1e-12)


@quick
@given(magnitude=st.sampled_from([1.0, 50.0, 300.0, 1e4]), seed=st.integers(0, 1000), zeros=st.sampled_from([0.0, 0.3]))
def test_the_oracle_is_right_at_every_magnitude(magnitude, seed, zeros):
    sizes = {"a": 3, "b": 2, "c": 4, "d": 2}
    problem = Problem(sizes, (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c",)), magnitude, zeros, seed)
    oracle = problem.exact()
    if not problem.possible:
        with pytest.raises(ImpossibleModelError):
            oracle.run(problem.theta)
        return
    mu, _ = oracle.run(problem.theta)
    assert np.allclose(mu, indicators(problem) @ problem.joint.reshape(-1), rtol=0, atol=1e-10)


def test_maxima_that_exclude_one_another_are_refused_and_run_in_logarithms():
    """Each table's maximum is at a pair of values that the other tables hold to be exp(-900) times as likely."""
    far = np.array([[0.0, -900.0], [-900.0, -1.0]])
    problem = Problem({"a": 2, "b": 2}, (("a", "b"), ("b",), ("a",)))
    theta = np.concatenate([far.reshape(-1), [-900.0, 0.0], [0.0, -900.0]])
    assert ContractedSweeps.of(problem.layout, problem.plan().tree).run(theta, 1.0, np.empty(8)) is None
    oracle = problem.exact()
    mu, log_partition = oracle.run(theta)
    scores = far + np.array([-900.0, 0.0])[None, :] + np.array([0.0, -900.0])[:, None]
    expected = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    assert np.allclose(mu[:4], expected.reshape(-1), atol=1e-12)
    assert log_partition == pytest.approx(scores.max() + np.log(np.exp(scores - scores.max()).sum()))


def test_a_wide_cycle_agrees_with_messages_in_logarithms():
    vector = pg.CliqueVector.random(pg.Domain(SIZES), PAIRS, seed=0)
    tree = JunctionTree.from_cliques(vector.domain, (*PAIRS, ("a", "b", "c", "d")))
    oracle = ExactOracle(PropagationPlan.of(vector.layout, tree), threads=1)
    mu, log_partition = oracle.run(np.array(vector.flat), 1000.0)
    expected, expected_log = _in_logs(vector.layout, np.array(vector.flat), 1000.0, tree)
    assert np.allclose(mu, expected, rtol=1e-11)
    assert log_partition == pytest.approx(expected_log, rel=1e-13)


def test_what_reads_messages_agrees_with_the_full_table():
    problem = Problem({"a": 3, "b": 2, "c": 4, "d": 2}, (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")))
    oracle, total = problem.exact(), 50.0
    mu, _ = oracle.run(problem.theta, total)
    before = mu.copy()
    direction = np.random.default_rng(0).normal(size=problem.layout.cells)
    p = indicators(problem)
    joint = problem.joint.reshape(-1)
    covariance = (p * joint) @ p.T - np.outer(p @ joint, p @ joint)
    for position, clique in enumerate(oracle.plan.tree.cliques):
        table = oracle.clique_table(position)
        axes = tuple(axis for axis, name in enumerate(problem.sizes) if name not in clique)
        truth = pg.Factor(problem.layout.domain, problem.joint).project(table.domain.attributes)
        assert np.allclose(table.values, total * truth.values, atol=1e-10), axes
    for _ in range(2):
        assert np.allclose(oracle.covariance(direction), total * covariance @ direction, atol=1e-10)
        assert np.allclose(oracle.run(problem.theta, total, mu)[0], before, atol=1e-12)


def test_calibrated_trees_of_a_cycle():
    vector = pg.CliqueVector.random(pg.Domain({"a": 3, "b": 2, "c": 4}), [("a", "b"), ("b", "c"), ("c", "a")], seed=1)
    model = pg.Model(vector, 10.0)
    truth = pg.Factor(vector.domain, np.exp(np.sum([vector[c].expand(vector.domain).values for c in vector], axis=0)))
    assert np.allclose(model.project(("c", "a")).values, truth.normalize(10.0).project(("c", "a")).values)


def test_roots_of_a_forest_keep_their_values_until_the_way_down(monkeypatch):
    """The max-product reads them again, so that nothing else may have their place by then."""
    monkeypatch.setattr(workspace, "LARGE", 1)
    cycles = ["abcd", "efgh", "ijkl"]
    cliques = [pair for cycle in cycles for pair in zip(cycle, cycle[1:] + cycle[0], strict=True)]
    layout = Layout.of(pg.Domain(dict.fromkeys("".join(cycles), 6)), cliques)
    theta, best = np.random.default_rng(0).normal(size=layout.cells), np.empty(layout.cells)
    sweeps = ContractedSweeps.of(layout, JunctionTree.from_cliques(layout.domain, cliques))
    sweeps.max_marginals(theta, best)
    assert np.allclose(best, reference.max_marginals(pg.CliqueVector.of(layout, theta))[0].flat, atol=1e-12)


@pytest.mark.parametrize("fault", ["short", "long", "float32", "strided", "read-only"])
def test_an_output_that_does_not_fit_is_refused_and_nothing_is_written(fault):
    """Kernels know no bounds: they would write behind a short array."""
    problem = Problem({"a": 3, "b": 2, "c": 4}, (("a", "b"), ("b", "c")))
    oracle, cells = problem.exact(), problem.layout.cells
    out = {"short": np.ones(cells - 1), "long": np.ones(cells + 1), "float32": np.ones(cells, np.float32)}.get(fault)
    if out is None:
        out = np.ones(2 * cells)[::2] if fault == "strided" else np.ones(cells)
        out.flags.writeable = fault != "read-only"
    oracle.run(problem.theta)
    for call in (lambda: oracle.run(problem.theta, 1.0, out), lambda: oracle.max_marginals(problem.theta, out)):
        with pytest.raises((ShapeError, ArgumentError), match=r"^out"):
            call()
    with pytest.raises((ShapeError, ArgumentError), match=r"^out"):
        oracle.covariance(problem.theta, out)
    assert (out == 1.0).all()


def test_the_best_record_is_found_after_a_run_by_contraction():
    problem = Problem({"a": 3, "b": 2, "c": 4, "d": 2}, (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")))
    oracle = problem.exact()
    mu = oracle.run(problem.theta)[0].copy()
    record = oracle.map_record(problem.theta)
    scores = problem.truth.log_joint(problem.theta)
    assert scores.values[tuple(record[name] for name in scores.domain)] == scores.values.max()
    assert oracle.maximum(problem.theta) == pytest.approx(scores.values.max())
    assert np.array_equal(oracle.run(problem.theta)[0], mu)  # the max-product leaves nothing behind


def test_a_max_product_that_was_stopped_leaves_later_runs_right(monkeypatch):
    """Both products write to one workspace; whoever presses Ctrl-C goes on with the same oracle."""
    problem = Problem({"a": 3, "b": 2, "c": 4, "d": 2}, (("a", "b"), ("b", "c"), ("d",)))  # d is summed up alone
    sweeps, mu = ContractedSweeps.of(problem.layout, problem.plan().tree), np.empty(problem.layout.cells)
    sweeps.maximum(problem.theta)

    def stop(*given):
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(max_contraction_kernels, "downward_max", stop)
            with pytest.raises(KeyboardInterrupt):
                sweeps.max_marginals(problem.theta, mu)
        sweeps.run(problem.theta, 1.0, mu)
        assert np.allclose(mu, indicators(problem) @ problem.joint.reshape(-1), atol=1e-12)


def test_attributes_without_a_clique_count_in_the_partition_function():
    layout = Layout.of(pg.Domain({"a": 2, "b": 3, "c": 5}), [("a",)])
    sweeps = ContractedSweeps.of(layout, JunctionTree.from_cliques(layout.domain, [("a", "b")]))
    mu = np.empty(2)
    assert sweeps.run(np.log([1.0, 3.0]), 1.0, mu) == pytest.approx(np.log(4 * 15))
    assert np.allclose(mu, [0.25, 0.75])


def test_measured_cells_that_no_cache_holds_are_fetched_and_change_nothing():
    names = [f"a{i}" for i in range(140)]
    layout = Layout.of(pg.Domain(dict.fromkeys(names, 10)), list(zip(names, names[1:], names[2:], strict=False)))
    theta, mu = np.random.default_rng(0).normal(size=layout.cells), np.empty(layout.cells)
    assert layout.cells > contraction_kernels.FAR
    sweeps = ContractedSweeps.of(layout, JunctionTree.from_cliques(layout.domain, layout.cliques))
    expected, log_partition = _in_logs(layout, theta, 5.0)
    assert sweeps.run(theta, 5.0, mu) == pytest.approx(log_partition, rel=1e-13)
    assert np.allclose(mu, expected, rtol=1e-10)
