"""Model: marginals, queries, conditioning and information, against the full joint table."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import pgmest as pg
from pgmest.errors import (
    ArgumentError,
    CodeRangeError,
    DomainError,
    DuplicateAttributeError,
    ImpossibleModelError,
    MeasurementError,
    ModelTooLarge,
    QueryError,
    UnknownAttributeError,
)
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.status import Status
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")
quick = settings(max_examples=60, deadline=None)
TOTAL = 500.0
REPORT = EstimationReport("mirror_descent", 12.5, 0.01, 8e-4, 100, 220, 0.5, Status.CONVERGED)


def model_of(problem: Problem) -> pg.Model:
    return pg.Model(problem.vector, TOTAL, plan=problem.plan())


def joint_of(problem: Problem) -> pg.Factor:
    return pg.Factor(problem.sizes, problem.joint * TOTAL)


def possible(problem: Problem) -> Problem:
    assume(problem.possible)
    return problem


def subsets(problem: Problem) -> st.SearchStrategy[tuple[str, ...]]:
    names = list(problem.sizes)
    return st.sampled_from([c for k in range(len(names) + 1) for c in itertools.permutations(names, k)])


def chain(total: float = 80.0) -> pg.Model:
    """a - b - c with two values each: P(b = 0) = 3/8; b and c agree three times out of four."""
    logs = {("a", "b"): np.log([[1.0, 3.0], [2.0, 2.0]]), ("b", "c"): np.log([[3.0, 1.0], [1.0, 3.0]])}
    return pg.Model(pg.CliqueVector({"a": 2, "b": 2, "c": 2}, logs), total)


class TestContents:
    def test_of_a_small_model(self) -> None:
        model = chain()
        assert model.cliques == (("a", "b"), ("b", "c"))
        assert model.domain == pg.Domain({"a": 2, "b": 2, "c": 2})
        assert model.log_partition == pytest.approx(np.log(32))
        np.testing.assert_allclose(model.marginals["a", "b"].values, [[10, 30], [20, 20]])
        np.testing.assert_allclose(model.marginals["b", "c"].values, [[22.5, 7.5], [12.5, 37.5]])
        assert set(model.junction_tree.cliques) == {("a", "b"), ("b", "c")}
        assert model.oracle.layout == model.potentials.layout

    def test_printing_shows_what_it_is_and_how_good(self) -> None:
        model = pg.Model(chain().potentials, 80, REPORT, total_stddev=2.5)
        assert str(model) == (
            "Model: 80.0 records (standard error 2.5), 3 attributes, 2 measured cliques\n"
            "  attributes   a (2), b (2), c (2)\n"
            "  cliques      a x b, b x c\n"
            "  tree         2 cliques, treewidth 1, 8 cells (64 bytes)\n"
            "  estimate     converged: mirror_descent, 100 iterations, 220 oracle calls, 0.5 s\n"
            "               loss 12.5, proven within 0.01 of the optimum (relative gap 0.0008)"
        )

    def test_printing_runs_no_inference(self) -> None:
        impossible = pg.CliqueVector({"a": 2}, {("a",): np.full(2, -np.inf)})
        assert str(pg.Model(impossible, 5.0)).startswith("Model: 5.0 records, 1 attribute, 1 measured clique\n")

    def test_it_is_calibrated_once_by_many_threads(self) -> None:
        model, barrier = chain(), threading.Barrier(8)

        def calibrated(_: int) -> int:
            barrier.wait()
            return id(model.calibrated)

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(calibrated, range(8)))) == 1
        assert model.oracle.calls == 1

    def test_a_plan_at_hand_is_used(self) -> None:
        potentials = chain().potentials
        plan = PropagationPlan.of(potentials.layout)
        assert pg.Model(potentials, 1.0, plan=plan).calibrated.plan is plan

    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
    def test_it_can_be_copied_and_sent_to_processes(self, duplicate) -> None:
        model = pg.Model(chain().potentials, 80, REPORT, 2.5)
        model.project("a")
        twin = duplicate(model)
        assert (twin.report, twin.total, twin.total_stddev) == (REPORT, 80, 2.5)
        np.testing.assert_array_equal(twin.project("c").values, model.project("c").values)

    def test_no_attributes_and_no_cliques(self) -> None:
        nothing = pg.Model(pg.CliqueVector.zeros({}, []), 7.0)
        assert float(nothing.project(())) == pytest.approx(7.0)
        assert nothing.map_record() == {}
        assert nothing.entropy() == 0.0
        free = pg.Model(pg.CliqueVector.zeros({"a": 2, "b": 1}, []), 7.0)
        np.testing.assert_allclose(free.project(("b", "a")).values, [[3.5, 3.5]])

    @pytest.mark.parametrize("total", [-1.0, np.nan, np.inf, True])
    def test_a_total_that_is_none(self, total: float) -> None:
        with pytest.raises(ArgumentError) as caught:
            pg.Model(chain().potentials, total)
        assert str(caught.value) == f"total={total!r} is not valid: it must be a number of records, at least 0."

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_potentials_that_are_none(self, bad: float) -> None:
        with pytest.raises(MeasurementError, match=r"^the potentials hold NaN or \+inf; only finite values and -inf"):
            pg.Model(pg.CliqueVector({"a": 2}, {("a",): np.array([0.0, bad])}), 1.0)

    def test_a_plan_for_other_cliques(self) -> None:
        with pytest.raises(ArgumentError, match=r"^plan was made for other cliques"):
            pg.Model(chain().potentials, 1.0, plan=PropagationPlan.of(pg.CliqueVector.zeros({"a": 2}, []).layout))


class TestMarginals:
    @given(problems().map(possible), st.data())
    @quick
    def test_any_marginal(self, problem: Problem, data: st.DataObject) -> None:
        names = data.draw(subsets(problem))
        found = model_of(problem).project(names)
        assert found.domain.attributes == names
        np.testing.assert_allclose(found.values, joint_of(problem).project(names).values, atol=1e-7)

    @given(problems().map(possible), st.data())
    @quick
    def test_many_at_once(self, problem: Problem, data: st.DataObject) -> None:
        cliques = data.draw(st.lists(subsets(problem), max_size=8))
        for clique, found in zip(cliques, model_of(problem).project_many(cliques), strict=True):
            assert found.domain == joint_of(problem).domain.project(clique)
            np.testing.assert_allclose(found.values, joint_of(problem).project(clique).values, atol=1e-7)

    @given(problems().map(possible), st.data())
    @quick
    def test_given_evidence(self, problem: Problem, data: st.DataObject) -> None:
        names = data.draw(subsets(problem))
        evidence = {name: size - 1 for name, size in problem.sizes.items() if name not in names}
        found = model_of(problem).project(names, given=evidence)
        np.testing.assert_allclose(
            found.values, joint_of(problem).condition(evidence).transpose(names).values, atol=1e-7
        )

    def test_one_name_counts_as_a_tuple(self) -> None:
        np.testing.assert_allclose(chain().project("b").values, [30, 50])
        np.testing.assert_allclose(chain().project_many(["b"])[0].values, [30, 50])

    def test_the_total(self) -> None:
        assert float(chain().project(())) == pytest.approx(80)

    @given(problems().map(possible), st.data())
    @quick
    def test_conditional_probabilities(self, problem: Problem, data: st.DataObject) -> None:
        names = data.draw(subsets(problem))
        cut = data.draw(st.integers(0, len(names)))
        found = model_of(problem).conditional(names[:cut], names[cut:])
        assert found.domain.attributes == names
        weights = joint_of(problem).project(names[cut:])
        np.testing.assert_allclose((found * weights).values, joint_of(problem).project(names).values, atol=1e-7)
        sums = found.sum(names[:cut]).values
        np.testing.assert_allclose(sums[weights.values > 1e-6], 1.0, atol=1e-9)
        assert not sums[weights.values == 0].any()

    def test_errors(self) -> None:
        model = chain()
        with pytest.raises(UnknownAttributeError, match=r"^'d' is not an attribute of the domain"):
            model.project(("a", "d"))
        with pytest.raises(DuplicateAttributeError):
            model.project(("a", "a"))
        with pytest.raises(DuplicateAttributeError):
            model.project_many([("a",), ("b", "b")])
        with pytest.raises(CodeRangeError, match=r"^evidence b=2 is not a code of 'b': give an integer in 0\.\.1\.$"):
            model.project("a", given={"b": 2})
        with pytest.raises(CodeRangeError):
            model.project("a", given={"b": 0.5})  # pyright: ignore[reportArgumentType]
        with pytest.raises(UnknownAttributeError):
            model.project("a", given={"x": 0})
        with pytest.raises(QueryError) as caught:
            model.project(("a", "b"), given={"b": 0})
        assert str(caught.value) == "'b' is in both the query and the evidence; leave it out of one of the two."
        huge = pg.Model(pg.CliqueVector.zeros(dict.fromkeys("abcde", 100), []), 1.0)
        with pytest.raises(
            ModelTooLarge, match=r"^the answer about a, b, c, d, e needs a table of 10,000,000,000 cells"
        ):
            huge.project(tuple("abcde"))
        with pytest.raises(ModelTooLarge, match=r"^the answer about a, b, c, d, e needs a table of"):
            huge.project_many(["a", tuple("abcde")])


class TestConditioning:
    @given(problems().map(possible), st.data())
    @quick
    def test_a_conditioned_model_is_the_slice_of_the_joint_table(self, problem: Problem, data: st.DataObject) -> None:
        known = data.draw(subsets(problem))
        evidence = {name: data.draw(st.integers(0, problem.sizes[name] - 1)) for name in known}
        slice_ = joint_of(problem).condition(evidence)
        model = model_of(problem)
        if slice_.values.sum() == 0:
            with pytest.raises(ImpossibleModelError):
                model.condition(evidence)
            return
        assume(slice_.values.sum() > 1e-9)
        conditioned = model.condition(evidence)
        assert conditioned.domain == slice_.domain
        assert conditioned.total == pytest.approx(float(slice_.sum()), rel=1e-9, abs=1e-7)
        joint = conditioned.project(slice_.domain.attributes)
        np.testing.assert_allclose(joint.values, slice_.values, atol=1e-7)

    def test_impossible_evidence(self) -> None:
        logs = {("a", "b"): np.array([[0.0, -np.inf], [0.0, 0.0]]), ("a",): np.zeros(2), ("c",): np.array([0, -np.inf])}
        model = pg.Model(pg.CliqueVector({"a": 2, "b": 2, "c": 2}, logs), 10.0)
        for evidence, text in (({"a": 0, "b": 1}, "a=0, b=1"), ({"c": 1}, "c=1")):
            with pytest.raises(ImpossibleModelError) as caught:
                model.condition(evidence)
            assert str(caught.value) == (
                f"the evidence {text} has probability 0 under the model, so conditional probabilities given it are "
                "undefined."
            )

    def test_bad_evidence(self) -> None:
        with pytest.raises(UnknownAttributeError):
            chain().condition({"x": 0})
        with pytest.raises(CodeRangeError):
            chain().condition({"a": -1})

    def test_on_every_attribute_it_leaves_a_number(self) -> None:
        left = chain().condition({"a": 0, "b": 1, "c": 1})
        assert (len(left.domain), left.total) == (0, pytest.approx(80 * 9 / 32))


class TestInformation:
    @given(problems().map(possible))
    @quick
    def test_log_probabilities(self, problem: Problem) -> None:
        assume(problem.sizes)
        records = np.indices(tuple(problem.sizes.values())).reshape(len(problem.sizes), -1).T
        log_joint = problem.truth.log_joint(problem.theta)
        expected = log_joint.datavector() - float(log_joint.logsumexp())
        found = model_of(problem).log_prob(pg.Dataset.from_codes(records, problem.sizes))
        assert not np.isnan(found).any()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)

    def test_log_probabilities_of_records_with_more_columns_in_another_order(self) -> None:
        records = pg.Dataset.from_codes(np.array([[2, 1, 0, 1], [0, 0, 1, 0]]), {"x": 3, "c": 2, "b": 2, "a": 2})
        np.testing.assert_allclose(np.exp(chain().log_prob(records)), [2 / 32, 3 / 32])

    def test_log_probabilities_many_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pgmest.models.information.LOOKUP_ROWS", 3)
        monkeypatch.setattr("pgmest.models.information.JOINED_CELLS", 1)
        records = pg.Dataset.from_codes(np.array([[0, 0, 0], [1, 1, 1]] * 5), dict.fromkeys("abc", 2))
        np.testing.assert_allclose(np.exp(chain().log_prob(records)), [3 / 32, 6 / 32] * 5)

    def test_log_probabilities_of_other_records(self) -> None:
        with pytest.raises(DomainError) as caught:
            chain().log_prob(pg.Dataset.from_codes(np.zeros((1, 2)), {"a": 2, "b": 5}))
        assert str(caught.value) == (
            "the records have 5 values of 'b', the model has 2; give records over the model's domain."
        )
        with pytest.raises(DomainError, match=r"^the records have no values of 'b', the model has 2"):
            chain().log_prob(pg.Dataset.from_codes(np.zeros((1, 1)), {"a": 2}))

    @given(problems().map(possible))
    @quick
    def test_entropy(self, problem: Problem) -> None:
        p = problem.joint[problem.joint > 0]
        assert model_of(problem).entropy() == pytest.approx(-(p @ np.log(p)), abs=1e-7)

    @given(problems(magnitudes=(1.0, 30.0)).map(possible), st.integers(0, 5), st.sampled_from([0.0, 0.1]))
    @quick
    def test_divergence(self, problem: Problem, seed: int, zeros: float) -> None:
        names = tuple(reversed(problem.sizes))
        cliques = (names[:2], names[1:3], names[:1])
        other = possible(Problem({name: problem.sizes[name] for name in names}, cliques, 2.0, zeros, seed))
        p, q = joint_of(problem), joint_of(other).transpose(tuple(problem.sizes))
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(p.values > 0, p.values / TOTAL * np.log(p.values / q.values), 0.0)
        found = model_of(problem).kl(model_of(other))
        assert found == pytest.approx(terms.sum(), abs=1e-8)
        assert model_of(problem).kl(model_of(problem)) == pytest.approx(0.0, abs=1e-8)

    def test_divergence_of_models_over_other_attributes(self) -> None:
        with pytest.raises(DomainError, match=r"^the divergence of models over different domains"):
            chain().kl(pg.Model(pg.CliqueVector.zeros({"a": 2}, []), 1.0))

    @given(problems().map(possible), st.data())
    @quick
    def test_mutual_information(self, problem: Problem, data: st.DataObject) -> None:
        names = data.draw(subsets(problem))
        cut = data.draw(st.integers(0, len(names)))
        p = joint_of(problem).project(names).normalize().values
        pa = p.sum(axis=tuple(range(cut, len(names))), keepdims=True)
        pb = p.sum(axis=tuple(range(cut)), keepdims=True)
        log_p, log_pa, log_pb = (np.log(np.where(p > 0, table, 1)) for table in (p, pa, pb))  # pa * pb may underflow
        expected = (p * (log_p - log_pa - log_pb)).sum()
        assert model_of(problem).mutual_information(names[:cut], names[cut:]) == pytest.approx(expected, abs=1e-8)

    def test_mutual_information_by_hand(self) -> None:
        both = pg.Model(pg.CliqueVector({"a": 2, "b": 2}, {("a", "b"): np.log([[1, 1e-300], [1e-300, 1]])}), 1.0)
        assert both.mutual_information("a", "b") == pytest.approx(np.log(2))
        with pytest.raises(DuplicateAttributeError):
            both.mutual_information("a", ("a", "b"))

    @given(problems().map(possible))
    @quick
    def test_the_most_probable_record(self, problem: Problem) -> None:
        model = model_of(problem)
        before = model.project(tuple(problem.sizes)).values
        record = model.map_record()
        assert list(record) == list(problem.sizes)
        assert problem.joint[tuple(record.values())] == pytest.approx(problem.joint.max(), rel=1e-9)
        np.testing.assert_array_equal(model.project(tuple(problem.sizes)).values, before)


class TestAnswers:
    def test_a_factored_query_with_negative_entries(self) -> None:
        answer = chain().answer(pg.Kron({"c": [[1, -1]], "a": pg.queries.prefix(2)}))
        assert answer.domain == pg.Domain({"c": 1, "a": 2})
        joint = chain().project(("c", "a")).values
        np.testing.assert_allclose(answer.values, [np.cumsum(joint[0] - joint[1])])

    def test_a_list_of_queries(self) -> None:
        first, second = chain().answer([pg.Kron({"a": np.eye(2)}), pg.Kron({})])
        np.testing.assert_allclose(first.values, [40, 40])
        assert float(second) == pytest.approx(80)
        assert chain().answer([]) == []

    def test_given_evidence(self) -> None:
        answer = chain().answer(pg.Kron({"a": pg.queries.mean(2)}), given={"b": 1})
        np.testing.assert_allclose(answer.values, [20])
        np.testing.assert_allclose(chain().answer([1, 0], "a", given={"b": 1}).values, [30])

    @pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array, aslinearoperator, pg.queries.as_query])
    def test_a_matrix_about_a_clique(self, wrap) -> None:
        matrix = np.array([[1.0, 0.0, -1.0, 2.0], [0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0]])
        answer = chain().answer(wrap(matrix), ("c", "a"))
        assert answer.domain == pg.Domain({"c,a": 3})
        np.testing.assert_allclose(answer.values, matrix @ chain().project(("c", "a")).datavector())

    def test_a_vector_is_one_row(self) -> None:
        answer = chain().answer([0.0, 2.0], "b")
        assert (answer.domain, answer.values.tolist()) == (pg.Domain({"b": 1}), [pytest.approx(100)])
        assert chain().answer([3.0], ()).domain == pg.Domain({"total": 1})

    def test_a_query_that_matches_no_cell_counts_none(self) -> None:
        nothing = pg.queries.subset(2, [])
        assert chain().answer(pg.Kron({"a": nothing, "c": np.eye(2)})).values.tolist() == [[0.0, 0.0]]

    def test_a_measurement_lends_its_query(self) -> None:
        model = chain()
        plain = pg.LinearMeasurement(np.zeros(4), ("c", "a"))
        np.testing.assert_array_equal(model.answer(plain).values, model.project(("c", "a")).values)
        kron = pg.Kron({"a": pg.queries.prefix(2), "c": np.eye(2)})
        factored = pg.LinearMeasurement(np.zeros(4), ("c", "a"), query=kron)
        np.testing.assert_array_equal(model.answer(factored).values, model.answer(kron).values)
        dense = pg.LinearMeasurement(np.zeros(2), ("c", "a"), query=np.ones((2, 4)))
        np.testing.assert_allclose(model.answer(dense).values, [80, 80])

    def test_errors(self) -> None:
        model = chain()
        with pytest.raises(UnknownAttributeError):
            model.answer(pg.Kron({"x": np.eye(2)}))
        with pytest.raises(QueryError, match=r"^the query on 'a': expected 2 columns"):
            model.answer(pg.Kron({"a": np.eye(3)}))
        with pytest.raises(QueryError, match="in both the query and the evidence"):
            model.answer(pg.Kron({"a": np.eye(2)}), given={"a": 0})
        with pytest.raises(QueryError, match="NaN or infinite"):
            model.answer([[np.nan, 0.0]], "a")
        with pytest.raises(QueryError) as caught:
            model.answer(np.eye(3), ("a", "b"))
        assert str(caught.value) == (
            "the query on ('a', 'b'): expected 4 columns, one per cell, got a matrix of shape (3, 3)."
        )
        with pytest.raises(QueryError) as caught:
            model.answer(np.eye(2))
        assert str(caught.value) == (
            "a query of type ndarray without clique= cannot be answered: give a pg.Kron, a list of Krons, or a query "
            "matrix with the clique= of its columns."
        )
        with pytest.raises(QueryError, match=r"^a query of type Kron with clique= cannot be answered"):
            model.answer(pg.Kron({"a": np.eye(2)}), "a")
        with pytest.raises(DuplicateAttributeError):
            model.answer(np.eye(4), ("a", "a"))


class TestSampling:
    def test_records_of_the_model(self) -> None:
        data = chain(4000).sample(seed=0)
        assert (data.records, data.domain) == (4000, chain().domain)
        np.testing.assert_allclose(data.project("b").values, [1500, 2500], atol=1)
        assert chain().sample(5, method="multinomial", seed=1) == chain().sample(5, method="multinomial", seed=1)

    def test_records_in_batches(self) -> None:
        batches = list(chain().sample_batches(25, batch=10, seed=0))
        assert [batch.records for batch in batches] == [10, 10, 5]
