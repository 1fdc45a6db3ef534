"""Lists of factored queries, against one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest import Kron, queries
from pgmest.inference.marginals import batches as workload
from pgmest.inference.marginals.batches import answer_all
from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.variable_elimination import eliminate
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")


@st.composite
def krons(draw: st.DrawFn, sizes: dict[str, int]) -> Kron:
    names = draw(st.lists(st.sampled_from(list(sizes)), unique=True)) if sizes else []
    factors = {}
    for name in names:
        n = sizes[name]
        rows = draw(st.sampled_from(["point", "mean", "identity", "matrix"]))
        if rows == "matrix":
            factors[name] = np.random.default_rng(n).uniform(-1, 1, (2, n))
        else:
            factors[name] = queries.point(n, n - 1) if rows == "point" else getattr(queries, rows)(n)
    return Kron(factors)


@given(problems(), st.data(), st.sampled_from([0, 1 << 17]), st.sampled_from([0, 4]), st.sampled_from([2, 256]))
@settings(max_examples=100, deadline=None)
def test_a_list_is_answered_like_each_of_its_queries(
    problem: Problem, data: st.DataObject, shared: int, few: int, together: int
) -> None:
    assume(problem.possible)
    evidence = {name: 0 for name in problem.sizes if data.draw(st.sampled_from([False, False, True]))}
    free = {name: size for name, size in problem.sizes.items() if name not in evidence}
    asked = data.draw(st.lists(krons(free), max_size=10))
    tree = CalibratedTree(problem.vector, problem.plan())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "SHARED_CELLS", shared)
        patch.setattr(workload, "FEW", few)
        patch.setattr(workload, "TOGETHER", together)
        answers = answer_all(tree, asked, evidence)
    for query, answer in zip(asked, answers, strict=True):
        assert answer.shape == query.answer_shape
        np.testing.assert_allclose(answer, eliminate(tree, query.factors, evidence), rtol=0, atol=1e-10)


def test_queries_on_the_same_attributes_share_one_marginal(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(dict.fromkeys("abcd", 3), (("a", "b"), ("b", "c"), ("c", "d")))
    monkeypatch.setattr(workload, "eliminate", lambda *arguments: pytest.fail("eliminated"))
    tree = CalibratedTree(problem.vector, problem.plan())
    forth, back = Kron({"a": queries.prefix(3), "d": np.eye(3)}), Kron({"d": np.eye(3), "a": queries.prefix(3)})
    one, other = answer_all(tree, [forth, back])
    np.testing.assert_array_equal(one, other.T)
