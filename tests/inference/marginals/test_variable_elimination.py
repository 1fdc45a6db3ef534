"""Marginals and factored queries by variable elimination, against the full joint table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest import CliqueVector, Domain, queries
from pgmest.errors import ModelTooLarge
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.marginals import calibrated_tree as calibration
from pgmest.inference.marginals import variable_elimination as elimination
from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.subtree import connecting_subtree
from pgmest.inference.marginals.variable_elimination import eliminate, eliminate_rows
from pgmest.queries import MatrixQuery
from pgmest.queries.matrices import as_matrix_query
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")
CHAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
CHAIN_CLIQUES = [("a", "b"), ("b", "c"), ("c", "d")]


@contextlib.contextmanager
def everything_wide() -> Iterator[None]:
    """Within this context every clique is contracted from its factors where the numbers allow it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "MATERIALIZED_CELLS", 1)
        patch.setattr(elimination, "MATERIALIZED_CELLS", 1)
        patch.setattr(elimination, "SMALL_CELLS", 0)
        patch.setattr(calibration, "CELLS_PER_OPERATION", 1e9)
        patch.setattr(elimination, "CELLS_PER_OPERATION", 1e9)
        yield


def calibrated(problem: Problem) -> CalibratedTree:
    return CalibratedTree(problem.vector, problem.plan())


def expected(problem: Problem, factors: Mapping[str, MatrixQuery | None], evidence: Mapping[str, int]) -> np.ndarray:
    """Return the answer from the joint table, one axis at a time."""
    names = list(problem.sizes)
    index = tuple(evidence.get(name, slice(None)) for name in names)
    left = [name for name in names if name not in evidence]
    table = problem.joint[index]
    summed = tuple(axis for axis, name in enumerate(left) if name not in factors)
    table = table.sum(axis=summed)
    left = [name for name in left if name in factors]
    table = table.transpose([left.index(name) for name in factors])
    for axis, query in enumerate(factors.values()):
        if query is not None:
            table = np.moveaxis(np.tensordot(query.matrix(), table, (1, axis)), 0, axis)
    return table


@st.composite
def questions(draw: st.DrawFn) -> tuple[Problem, dict[str, MatrixQuery | None], dict[str, int]]:
    problem = draw(problems())
    assume(problem.possible)
    names = draw(st.permutations(list(problem.sizes)))
    roles = {name: draw(st.sampled_from(["out", "given", "itself", "prefix", "matrix", "identity"])) for name in names}
    rng = np.random.default_rng(problem.seed)
    factors: dict[str, MatrixQuery | None] = {}
    for name in names:
        size = problem.sizes[name]
        if roles[name] == "itself":
            factors[name] = None
        elif roles[name] in ("prefix", "identity"):
            factors[name] = getattr(queries, roles[name])(size)
        elif roles[name] == "matrix":
            factors[name] = as_matrix_query(rng.uniform(-1, 1, (draw(st.integers(1, 3)), size)))
    evidence = {name: draw(st.integers(0, problem.sizes[name] - 1)) for name in names if roles[name] == "given"}
    return problem, factors, evidence


@given(questions())
@settings(max_examples=150, deadline=None)
def test_answers_equal_those_of_the_joint_table(question: tuple) -> None:
    problem, factors, evidence = question
    answer = eliminate(calibrated(problem), factors, evidence)
    np.testing.assert_allclose(answer, expected(problem, factors, evidence), rtol=0, atol=1e-10)


@given(questions(), st.sampled_from([0, 3, 12]))
@settings(max_examples=150, deadline=None)
def test_so_do_answers_from_the_factors_of_wide_cliques(question: tuple, exact: int) -> None:
    problem, factors, evidence = question
    with everything_wide(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "EXACT_SEARCH", exact)
        answer = eliminate(calibrated(problem), factors, evidence)
    np.testing.assert_allclose(answer, expected(problem, factors, evidence), rtol=0, atol=1e-10)


@given(problems(), st.data())
@settings(max_examples=60, deadline=None)
def test_queries_of_one_row_answered_together(problem: Problem, data: st.DataObject) -> None:
    assume(problem.possible and problem.sizes)
    names = data.draw(st.lists(st.sampled_from(list(problem.sizes)), min_size=1, unique=True))
    rng = np.random.default_rng(0)
    stacked = {name: as_matrix_query(rng.uniform(-1, 1, (5, problem.sizes[name]))) for name in names}
    answers = eliminate_rows(calibrated(problem), stacked)
    one_by_one = [
        expected(problem, {name: as_matrix_query(query.matrix()[[row]]) for name, query in stacked.items()}, {}).item()
        for row in range(5)
    ]
    np.testing.assert_allclose(answers, one_by_one, rtol=0, atol=1e-10)


def test_a_matrix_too_large_to_write_down_is_applied_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "DENSE_ENTRIES", 1)
    monkeypatch.setattr(elimination, "SMALL_CELLS", 0)
    problem = Problem(dict(CHAIN), tuple(CHAIN_CLIQUES))
    factors = {"d": queries.prefix(4), "a": queries.prefix(2), "b": queries.mean(3)}
    monkeypatch.setattr(MatrixQuery, "matrix", lambda self: pytest.fail("written down"))
    answer = eliminate(calibrated(problem), factors)
    monkeypatch.undo()
    np.testing.assert_allclose(answer, expected(problem, factors, {}), atol=1e-12)


def test_a_wide_clique_is_never_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six pairs of four attributes make one clique of 40^4 cells; three-way answers come from the pairs."""
    domain = Domain(dict.fromkeys("abcd", 40))
    pairs = [(x, y) for x in "abcd" for y in "abcd" if x < y]
    tree = CalibratedTree(CliqueVector.random(domain, pairs, seed=0))
    monkeypatch.setattr(tree.oracle, "clique_table", lambda position: pytest.fail("written down"))
    table = eliminate(tree, dict.fromkeys("abcd", queries.compress(40, lambda code: code // 20)))
    assert table.shape == (2, 2, 2, 2)
    triple = eliminate(tree, dict.fromkeys("abc", None))
    halves = triple.reshape(2, 20, 2, 20, 2, 20).sum(axis=(1, 3, 5))
    np.testing.assert_allclose(table.sum(axis=3), halves, rtol=1e-10)
    measured = tree.probabilities[("a", "b")].values
    np.testing.assert_allclose(triple.sum(axis=2), measured, atol=1e-12)


def test_potentials_too_large_for_factors_fall_back_to_the_table() -> None:
    problem = Problem({"a": 3, "b": 3, "c": 3}, (("a", "b"), ("b", "c"), ("a", "c")), magnitude=1e4)
    with everything_wide():
        tree = calibrated(problem)
        assert tree.factors(0) is None
        np.testing.assert_allclose(eliminate(tree, dict.fromkeys("abc")), problem.joint, atol=1e-10)


def test_an_answer_too_large_is_refused_before_it_is_made() -> None:
    domain = Domain(dict.fromkeys("abcde", 100))
    tree = CalibratedTree(CliqueVector.zeros(domain, []))
    with pytest.raises(ModelTooLarge) as caught:
        eliminate(tree, dict.fromkeys("abcde"))
    assert str(caught.value) == (
        "the answer about a, b, c, d, e needs a table of 10,000,000,000 cells (80 GB). "
        "Ask about fewer attributes at a time, or use queries with fewer rows."
    )


def test_a_table_too_large_on_the_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "LARGEST_TABLE", 5)
    monkeypatch.setattr(elimination, "SMALL_CELLS", 0)
    tree = CalibratedTree(CliqueVector.zeros(CHAIN, CHAIN_CLIQUES))
    with pytest.raises(ModelTooLarge, match=r"^the answer about a, d needs a table of \d+ cells"):
        eliminate(tree, {"a": queries.total(2), "d": queries.total(4)})


class TestSubtree:
    tree = JunctionTree.from_cliques(CHAIN, CHAIN_CLIQUES)

    def cliques(self, asked: str) -> set[tuple[str, ...]]:
        return {self.tree.cliques[position] for position in connecting_subtree(self.tree, frozenset(asked)).cliques}

    def test_of_attributes_in_one_clique_is_that_clique(self) -> None:
        subtree = connecting_subtree(self.tree, frozenset("ab"))
        assert (len(subtree.cliques), subtree.parents, subtree.kept) == (1, (-1,), (("a", "b"),))

    def test_connects_them_by_the_path(self) -> None:
        assert self.cliques("ad") == {("a", "b"), ("b", "c"), ("c", "d")}
        assert self.cliques("ac") == {("a", "b"), ("b", "c")}

    def test_keeps_what_is_asked_or_shared(self) -> None:
        subtree = connecting_subtree(self.tree, frozenset("ac"))
        assert sorted(subtree.kept) == [("a", "b"), ("b", "c")]
        assert sorted(subtree.separators) == [(), ("b",)]

    def test_of_unconnected_attributes_has_a_root_for_each(self) -> None:
        forest = JunctionTree.from_cliques(CHAIN, [("a", "b")])
        subtree = connecting_subtree(forest, frozenset("acd"))
        assert subtree.parents == (-1, -1, -1)
        assert sorted(subtree.kept) == [("a",), ("c",), ("d",)]
