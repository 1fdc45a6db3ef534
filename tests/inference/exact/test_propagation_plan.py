"""PropagationPlan: which nodes there are, how their tables lie, and where everything lies in the arena."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from pgmest import Domain, Factor
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact import plan_columns as f
from pgmest.inference.exact.propagation_plan import BUFFERS, PropagationPlan
from pgmest.tables.clique_vector import Layout
from tests.inference.problems import EVERYTHING_SMALL, Problem, limited, limits, problems


def plan_of(sizes: dict[str, int], *cliques: str, **thresholds: int) -> PropagationPlan:
    """A plan over one-letter attributes: plan_of({"a": 2, "b": 3}, "ab", "b")."""
    with limited(thresholds):
        return PropagationPlan.of(Layout.of(Domain(sizes), [tuple(clique) for clique in cliques]))


def node_of(plan: PropagationPlan, axes: str) -> int:
    (node,) = [i for i, names in enumerate(plan.axes) if names == tuple(axes)]
    return node


def separator_axes(plan: PropagationPlan, node: int) -> tuple[str, ...]:
    """The attributes that a node shares with its parent, in the order of its own table."""
    parent = plan.nodes[node, f.PARENT]
    return tuple(name for name in plan.axes[node] if parent >= 0 and name in plan.axes[parent])


def entries_in_parent(plan: PropagationPlan, node: int) -> np.ndarray:
    """Return, from the maps, for each row and column of the parent's table, the entry of the node's separator."""
    parent, outer, inner = plan.nodes[node, [f.PARENT, f.UP_OUTER, f.UP_INNER]]
    n_out, n_in = plan.nodes[parent, [f.N_OUT, f.N_IN]]
    return plan.maps[outer : outer + n_out, None] + plan.maps[None, inner : inner + n_in]


# -- invariants of every plan -----------------------------------------------------------------------------------------


def check_tree(plan: PropagationPlan) -> None:
    parents = plan.nodes[:, f.PARENT]
    assert (parents < np.arange(len(parents))).all()
    for i in range(len(parents)):
        start, end = plan.nodes[i, [f.CHILDREN, f.CHILDREN_END]]
        assert sorted(plan.children[start:end].tolist()) == np.flatnonzero(parents == i).tolist()
    assert sorted(plan.clique_nodes) == np.flatnonzero(plan.nodes[:, f.SLOT] == 0).tolist()
    for clique, node in zip(plan.tree.cliques, plan.clique_nodes, strict=True):
        assert set(plan.axes[node]) == set(clique)


def check_measured(plan: PropagationPlan) -> None:
    """Each measured clique has one node with its potential; the other slots turn one for a large clique."""
    bases = plan.nodes[:, f.BASE]
    for clique, start in zip(plan.layout.cliques, plan.layout.offsets, strict=False):
        (node,) = [i for i in np.flatnonzero(bases == start) if plan.axes[i] == clique]
        assert plan.nodes[node, f.CELLS] == plan.layout.domain.size(clique)
    assert (bases >= 0).sum() == len(plan.layout.cliques)
    for i in np.flatnonzero((plan.nodes[:, f.SLOT] == 1) & (bases < 0)):
        below = plan.children[plan.nodes[i, f.CHILDREN] : plan.nodes[i, f.CHILDREN_END]]
        assert any(set(plan.axes[child]) == set(plan.axes[i]) for child in below)


def check_shapes(plan: PropagationPlan) -> None:
    for i, row in enumerate(plan.nodes):
        sizes = [plan.layout.domain[name] for name in plan.axes[i]]
        assert math.prod(sizes) == row[f.CELLS] == row[f.N_OUT] * row[f.N_IN] == row[f.SEPARATOR] * row[f.RESIDUAL]
        assert row[f.N_IN] in [math.prod(sizes[k:]) for k in range(len(sizes) + 1)]
        separator = separator_axes(plan, i)
        if row[f.SLOT]:
            assert plan.axes[i] == separator
        else:
            side = (
                plan.axes[i][: len(separator)] if row[f.FIRST] else plan.axes[i][len(plan.axes[i]) - len(separator) :]
            )
            assert side == separator
            part = row[f.RESIDUAL] if row[f.FIRST] else row[f.SEPARATOR]
            assert part % row[f.N_IN] == 0  # a row has one separator entry, or consecutive ones
        assert row[f.SEPARATOR] == plan.layout.domain.size(separator)


def check_maps(plan: PropagationPlan) -> None:
    """The maps say which separator entry a cell of the parent belongs to, and the kind says the same of a row."""
    domain = plan.layout.domain
    for i in np.flatnonzero(plan.nodes[:, f.PARENT] >= 0).tolist():
        parent = plan.nodes[i, f.PARENT]
        separator = domain.project(separator_axes(plan, i))
        numbers = Factor(separator, np.arange(separator.size()).reshape(separator.shape))
        expected = numbers.expand(domain.project(plan.axes[parent])).datavector()
        entries = entries_in_parent(plan, i)
        assert entries.reshape(-1).tolist() == expected.tolist()
        kind, block, column = plan.nodes[i, f.UP_KIND], plan.nodes[i, f.UP_BLOCK], np.arange(entries.shape[1])
        along = {
            f.CONSTANT: lambda column: 0 * column,
            f.CONTIGUOUS: lambda column: column,
            f.REPEATED: lambda column, block=block: column // block,
            f.TILED: lambda column, block=block: column % block,
        }
        if kind != f.GENERAL:
            assert (entries == entries[:, :1] + along[kind](column)).all()
        if kind in (f.REPEATED, f.TILED):
            assert len(column) % block == 0


def check_arena(plan: PropagationPlan) -> None:
    """Every region has its own place, and together they fill the arena."""
    regions: list[tuple[int, int]] = [(plan.scratch, BUFFERS * plan.row)]
    for row in plan.nodes:
        size = row[f.SEPARATOR]
        if row[f.MESSAGE_IN_THETA]:
            assert row[f.SLOT]
            assert row[f.MESSAGE] == row[f.BASE]
        else:
            assert row[f.MESSAGE] < plan.messages
            regions += [(row[f.MESSAGE] + copy * plan.messages, size) for copy in range(2)]
        regions += [(row[f.MARGINAL] + copy * plan.marginals, size) for copy in range(2)]
        starts = {int(row[name]) for name in (f.PEAK, f.WEIGHT) if row[name] not in (-1, row[f.MARGINAL])}
        regions += [(start, size) for start in starts]
        if row[f.TABLE] >= 0:
            regions.append((row[f.TABLE], row[f.CELLS]))
        assert plan.row >= row[f.N_IN]
        assert (row[f.PEAK] >= 0) == (row[f.SLOT] == 0)
    regions.sort()
    assert regions[0][0] == 0
    for (start, size), (following, _) in itertools.pairwise(regions):
        assert start + size == following
    assert regions[-1][0] + regions[-1][1] == plan.arena_cells


def check_spread(plan: PropagationPlan) -> None:
    """The marginals of a node's children lie one after the other."""
    for row in plan.nodes:
        position = row[f.SPREAD]
        for c in plan.children[row[f.CHILDREN] : row[f.CHILDREN_END]]:
            assert plan.nodes[c, f.MARGINAL] == position
            position += plan.nodes[c, f.SEPARATOR]
        assert position == row[f.SPREAD] + row[f.SPREAD_SIZE]


@settings(max_examples=150, deadline=None)
@given(problems(), limits())
def test_every_plan_is_consistent(problem, thresholds):
    with limited(thresholds):
        plan = problem.plan()
    for check in (check_tree, check_measured, check_shapes, check_maps, check_arena, check_spread):
        check(plan)


@settings(max_examples=30, deadline=None)
@given(problems())
def test_compiling_twice_gives_the_same_plan(problem):
    first, second = problem.plan(), problem.plan()
    assert first.axes == second.axes
    assert np.array_equal(first.nodes, second.nodes)
    assert np.array_equal(first.maps, second.maps)


# -- examples ---------------------------------------------------------------------------------------------------------


def test_a_small_plan_by_hand():
    plan = plan_of({"a": 2, "b": 3, "c": 4}, "ab", "b", "bc")
    assert plan.tree.cliques == (("b", "c"), ("a", "b"))
    assert plan.axes == (("a", "b"), ("b",), ("b", "c"))  # rooted at a b, so that b c lies with its separator first
    assert plan.clique_nodes == (2, 0)
    assert plan.nodes[0, [f.PARENT, f.CELLS, f.SEPARATOR, f.RESIDUAL, f.BASE]].tolist() == [-1, 6, 1, 6, 0]
    assert plan.nodes[1, [f.PARENT, f.CELLS, f.SEPARATOR, f.RESIDUAL, f.BASE]].tolist() == [0, 3, 3, 1, 6]
    assert plan.nodes[2, [f.PARENT, f.CELLS, f.SEPARATOR, f.RESIDUAL, f.BASE]].tolist() == [1, 12, 3, 4, 9]
    assert plan.nodes[:, f.SLOT].tolist() == [0, 1, 0]
    assert plan.nodes[1:, f.UP_KIND].tolist() == [f.TILED, f.CONTIGUOUS]
    assert repr(plan) == f"PropagationPlan(3 nodes, 18 cells, arena {plan.arena_cells * 8 / 1e6:.3g} MB)"


def test_the_empty_domain_has_one_cell():
    for cliques in ([], [()]):
        plan = PropagationPlan.of(Layout.of(Domain({}), cliques))
        assert plan.nodes[0, [f.PARENT, f.CELLS, f.SEPARATOR]].tolist() == [-1, 1, 1]


def test_attributes_in_no_clique_have_nodes_of_their_own():
    plan = plan_of({"a": 2, "b": 3, "c": 4}, "b")
    assert sorted(plan.axes) == [("a",), ("b",), ("c",)]
    assert (plan.nodes[:, f.PARENT] == -1).all()


def test_permuted_cliques_hang_one_below_the_other():
    plan = plan_of({"a": 2, "b": 3}, "ab", "ba")
    assert sorted(plan.axes) == [("a", "b"), ("b", "a")]
    assert plan.nodes[:, f.SLOT].tolist() == [0, 1]
    assert plan.nodes[1, f.PARENT] == 0


def test_a_slot_hangs_below_the_smallest_slot_that_holds_it():
    plan = plan_of({"a": 2, "b": 3, "c": 4, "d": 2}, "abcd", "abc", "bd", "b", "c")
    assert plan.axes[0] == ("a", "b", "c", "d")
    parents = {plan.axes[i]: plan.axes[plan.nodes[i, f.PARENT]] for i in range(1, 5)}
    assert parents[("a", "b", "c")] == ("a", "b", "c", "d")
    assert parents[("b", "d")] == ("a", "b", "c", "d")
    assert parents[("b",)] == ("b", "d")
    assert parents[("c",)] == ("a", "b", "c")


def test_a_clique_of_the_tree_hangs_below_a_slot_that_holds_its_separator():
    plan = plan_of({"a": 5, "b": 5, "c": 5, "d": 2}, "abc", "bc", "dc")
    assert plan.axes[plan.nodes[node_of(plan, "dc"), f.PARENT]] == ("b", "c")


def test_slots_without_children_send_their_potential_as_it_stands():
    plan = plan_of({"a": 2, "b": 3, "c": 4}, "abc", "ab", "b")
    assert plan.nodes[node_of(plan, "ab"), f.MESSAGE_IN_THETA] == 0
    assert plan.nodes[node_of(plan, "b"), f.MESSAGE_IN_THETA] == 1


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_measured_clique_keeps_its_axis_order_where_rows_are_long(order):
    plan = plan_of({"a": 40, "b": 40}, order)
    assert plan.axes[0] == tuple(order)
    assert plan.nodes[:, f.BASE].tolist() == [0]


@pytest.mark.parametrize("right", [{"c": 30, "d": 50}, {"c": 50, "d": 30}])
@pytest.mark.parametrize("left", [30, 60, 90])
def test_the_root_is_where_most_tables_are_aligned(left, right):
    """c b d has its separator b in the middle: it lies as it is measured only if it is the root."""
    plan = plan_of({"a": left, "b": 40, **right}, "ab", "cbd")
    assert plan.axes[0] == ("c", "b", "d")
    assert plan.nodes[:, f.BASE].tolist() == [left * 40, 0]
    assert plan.nodes[:, f.SLOT].tolist() == [0, 0]
    assert not plan.nodes[1, f.FIRST]


def test_each_component_has_its_own_best_root():
    plan = plan_of({name: 40 for name in "abcdpqrs"}, "ab", "cbd", "pq", "rqs")
    roots = np.flatnonzero(plan.nodes[:, f.PARENT] < 0)
    assert sorted(plan.axes[i] for i in roots) == [("c", "b", "d"), ("r", "q", "s")]
    assert (plan.nodes[:, f.SLOT] == 0).all()


def test_a_clique_that_cannot_lie_as_measured_becomes_a_slot_of_itself():
    """b is in the middle of both: one of them must be a child, and its table needs the separator on one side."""
    plan = plan_of({name: 40 for name in "abcde"}, "abc", "dbe")
    assert plan.nodes[:, f.SLOT].tolist() == [0, 0, 1]
    assert set(plan.axes[1]) == set(plan.axes[2])
    assert plan.nodes[1, f.BASE] == -1


def test_rows_are_cut_at_a_limit():
    for limit in (1, 10, 100, 1000, 10_000):
        plan = plan_of({"a": 10, "b": 10, "c": 10}, "abc", ROW_CELLS=limit)
        assert plan.nodes[0, f.N_IN] == max(10, min(limit, 1000))


def test_large_tables_with_small_inputs_are_streamed():
    cliques = ("ab", "bc", "ca")
    sizes = {"a": 8, "b": 8, "c": 8}  # a table of 512 cells from 3 * 64
    assert plan_of(sizes, *cliques).nodes[0, f.TABLE] >= 0
    streamed = plan_of(sizes, *cliques, STREAM_CELLS=512, STREAM_RATIO=2)
    stored = plan_of(sizes, *cliques, STREAM_CELLS=513, STREAM_RATIO=2)
    assert streamed.nodes[0, f.TABLE] == -1
    assert stored.nodes[0, f.TABLE] >= 0
    assert stored.arena_cells - streamed.arena_cells == 512 - 1  # the streamed node keeps its one peak apart
    assert plan_of(sizes, *cliques, STREAM_CELLS=1, STREAM_RATIO=3).nodes[0, f.TABLE] >= 0


@pytest.mark.parametrize("thresholds", [{}, EVERYTHING_SMALL])
def test_a_table_that_is_itself_measured_lies_in_the_output(thresholds):
    plan = plan_of({"a": 8, "b": 8, "c": 8}, "abc", **thresholds)
    assert plan.nodes[0, [f.BASE, f.TABLE]].tolist() == [0, -1]
    assert plan.arena_cells < 512 + BUFFERS * plan.row


def test_the_default_threshold_streams_only_tables_beyond_the_cache():
    names = "abcd"
    cliques = list(itertools.combinations(names, 2))
    for size, stored in ((40, True), (50, False)):  # 20 MB and 50 MB
        plan = PropagationPlan.of(Layout.of(Domain(dict.fromkeys(names, size)), cliques))
        assert (plan.nodes[0, f.TABLE] >= 0) == stored


def test_equal_maps_are_kept_once():
    chain = [f"x{i}" for i in range(200)]
    cliques = list(zip(chain[:-2], chain[1:-1], chain[2:], strict=True))
    plan = PropagationPlan.of(Layout.of(Domain(dict.fromkeys(chain, 10)), cliques))
    assert len(plan.maps) < 5000


def test_the_tree_may_be_given():
    problem = Problem({"a": 2, "b": 2, "c": 2}, (("a", "b"), ("b", "c")))
    domain, cliques = problem.layout.domain, problem.layout.cliques
    tree = JunctionTree.from_cliques(domain, [("a", "b", "c")])
    plan = PropagationPlan.of(problem.layout, tree)
    assert plan.tree is tree
    assert len(plan.clique_nodes) == 1
    assert PropagationPlan.of(problem.layout).tree == JunctionTree.from_cliques(domain, cliques)


def test_the_arrays_are_read_only():
    plan = plan_of({"a": 2, "b": 3}, "ab", "b")
    before = pickle.loads(pickle.dumps(plan))
    assert len(plan.maps)
    for one in (plan, before, pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        for array in (one.nodes, one.children, one.maps):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
