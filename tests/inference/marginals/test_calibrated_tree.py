"""Tables of a calibrated tree, against the full joint table."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest import CliqueVector, Domain
from pgmest.errors import ImpossibleModelError
from pgmest.inference.marginals import calibrated_tree as calibration
from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.contraction import contract
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")


def calibrated(problem: Problem) -> CalibratedTree:
    return CalibratedTree(problem.vector, problem.plan())


def expected(problem: Problem, names: tuple[str, ...]) -> np.ndarray:
    """The marginal of the joint table, axes in domain order."""
    return problem.joint.sum(axis=tuple(axis for axis, name in enumerate(problem.sizes) if name not in names))


@given(problems())
@settings(max_examples=80, deadline=None)
def test_marginals_and_conditionals_of_cliques(problem: Problem) -> None:
    assume(problem.possible)
    tree = calibrated(problem)
    for position, (clique, separator) in enumerate(zip(tree.tree.cliques, tree.separators, strict=True)):
        for names in {clique, clique[:1], clique[1:], separator}:
            np.testing.assert_allclose(tree.marginal(position, names), expected(problem, names), atol=1e-10)
        joint, given_ = expected(problem, clique), expected(problem, separator)
        shape = [tree.domain[name] if name in separator else 1 for name in clique]
        conditional = tree.conditional(position, clique, separator)
        np.testing.assert_allclose(conditional * given_.reshape(shape), joint, atol=1e-10)


@given(problems())
@settings(max_examples=80, deadline=None)
def test_the_product_of_the_factors_is_the_clique(problem: Problem) -> None:
    assume(problem.possible)
    tree = calibrated(problem)
    for position, (clique, separator) in enumerate(zip(tree.tree.cliques, tree.separators, strict=True)):
        for given_ in {(), separator}:
            factors = tree.factors(position, given_)
            if factors is None:
                assert problem.magnitude > 1
                continue
            assert all(table.values.max() <= 1.0 for table in factors.tables)
            product = contract(factors.tables, clique) * np.exp(factors.log_scale)
            np.testing.assert_allclose(product, tree.conditional(position, clique, given_), atol=1e-9)


def test_the_separators_go_with_the_junction_tree() -> None:
    tree = CalibratedTree(CliqueVector.zeros({"a": 2, "b": 3, "c": 2, "d": 4}, [("a", "b"), ("b", "c")]))
    found = dict(zip(tree.tree.cliques, tree.separators, strict=True))
    assert sorted(found.values()) == [(), (), ("b",)]
    assert found["d",] == ()


def test_tables_not_used_for_longest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "KEPT_CELLS", 30)
    problem = Problem(dict.fromkeys("abcd", 3), (("a", "b", "c"), ("c", "d")))
    tree = calibrated(problem)
    wide = tree.tree.cliques.index(("a", "b", "c"))
    for names in itertools.product([("a", "b"), ("b", "c"), ("a",), ("a", "b", "c"), ("c",)], repeat=2):
        for one in names:
            np.testing.assert_allclose(tree.marginal(wide, one), expected(problem, one), atol=1e-12)
            assert tree._tables.cells <= 30
            kept = {(where, name) for where, held in tree._tables.of_clique.items() for name in held}
            assert kept == set(tree._tables.by_key)


def test_handed_out_tables_are_read_only() -> None:
    tree = CalibratedTree(CliqueVector.zeros({"a": 2, "b": 3}, [("a", "b")]))
    for names in (("a", "b"), ("a",)):
        with pytest.raises(ValueError, match="read-only"):
            tree.marginal(0, names)[0] = 1.0


def test_many_threads_may_ask_at_once() -> None:
    problem = Problem(dict.fromkeys("abcdef", 3), (("a", "b", "c"), ("c", "d"), ("d", "e", "f")))
    tree = calibrated(problem)
    questions = [
        (i, names) for i, clique in enumerate(tree.tree.cliques) for names in itertools.combinations(clique, 2)
    ]
    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(lambda question: tree.marginal(*question), questions * 20))
    for (_, names), table in zip(questions * 20, tables, strict=True):
        np.testing.assert_allclose(table, expected(problem, names), atol=1e-12)


def test_an_impossible_model_is_refused() -> None:
    with pytest.raises(ImpossibleModelError, match="log-partition function is -inf"):
        CalibratedTree(CliqueVector(Domain({"a": 2}), {("a",): np.full(2, -np.inf)}))


@given(st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_marginals_sum_alike_whatever_they_are_summed_from(seed: int) -> None:
    """From the whole clique, from a measured table, or from a smaller table made before."""
    problem = Problem(dict.fromkeys("abc", 3), (("b", "a"), ("a", "c"), ("b", "c")), seed=seed)
    direct, stepwise = calibrated(problem), calibrated(problem)
    stepwise.marginal(0, ("a", "b", "c"))
    stepwise.marginal(0, ("a", "b"))
    np.testing.assert_allclose(direct.marginal(0, ("a",)), stepwise.marginal(0, ("a",)), rtol=1e-12)
