"""The exact oracle against the full joint table, and `marginals`, its front door."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest import CliqueVector
from pgmest.errors import ArgumentError, ImpossibleModelError, ModelTooLarge
from tests.inference.brute_force_oracle import BruteForceOracle
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")
INF = np.inf
quick = settings(max_examples=80, deadline=None)

ABCD = {"a": 2, "b": 3, "c": 2, "d": 4}
EXAMPLES = {
    "one table": Problem({"a": 2, "b": 3}, (("a", "b"),)),
    "a chain": Problem(ABCD, (("a", "b"), ("b", "c"), ("c", "d"))),
    "a cycle": Problem(ABCD, (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))),
    "a star": Problem(ABCD, (("b", "a"), ("b", "c"), ("d", "b"))),
    "a forest": Problem(ABCD, (("a", "b"), ("c",))),
    "permuted": Problem(ABCD, (("a", "b"), ("b", "a"), ("a", "b"))),
    "nested": Problem(ABCD, (("a", "b", "c"), ("c", "a"), ("a",), ())),
    "everything": Problem(ABCD, (("d", "b", "a", "c"), ("a", "b"))),
    "one value each": Problem({"a": 1, "b": 1, "c": 2}, (("a", "b"), ("b", "c"))),
    "the empty clique": Problem(ABCD, ((),)),
    "no cliques": Problem(ABCD, ()),
    "no attributes": Problem({}, ()),
    "nothing at all": Problem({}, ((),)),
}


def cells(problem: Problem, clique: tuple[str, ...]) -> np.ndarray:
    """For each record of the domain, row-major, the cell of the clique it falls into."""
    names = list(problem.sizes)
    codes = np.indices(tuple(problem.sizes.values())).reshape(len(names), problem.layout.domain.size())
    cell = np.zeros(codes.shape[1], dtype=np.int64)
    for name in clique:
        cell = cell * problem.sizes[name] + codes[names.index(name)]
    return cell


def indicators(problem: Problem) -> np.ndarray:
    """Shape (cells, records): which cells each record falls into."""
    tables = [
        np.arange(size)[:, None] == cells(problem, clique)
        for clique, size in zip(problem.layout.cliques, problem.layout.sizes, strict=True)
    ]
    records = problem.layout.domain.size()
    return np.concatenate([np.empty((0, records)), *tables]).astype(float)


# -- marginals and the log-partition function -------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("total", [1.0, 250.0])
def test_examples(name, total):
    problem = EXAMPLES[name]
    mu, log_partition = problem.exact().run(problem.theta, total)
    assert np.allclose(mu, total * indicators(problem) @ problem.joint.reshape(-1), rtol=0, atol=1e-12 * total)
    log_joint = problem.truth.log_joint(problem.theta).values
    assert np.isclose(log_partition, np.log(np.exp(log_joint).sum()), rtol=1e-13, atol=1e-13)


def test_a_chain_by_hand():
    problem = Problem({"a": 2, "b": 2}, (("a",), ("a", "b")))
    mu, log_partition = problem.exact().run(np.log([1.0, 3.0, 1.0, 1.0, 1.0, 1.0]), 16)
    assert np.allclose(mu, [4, 12, 2, 2, 6, 6], rtol=1e-14)
    assert np.isclose(log_partition, np.log(8))


@quick
@given(problems(), st.integers(1, 3))
def test_it_agrees_with_brute_force(problem, threads):
    assume(problem.possible)
    mu, log_partition = problem.exact(threads).run(problem.theta)
    truth, expected = problem.truth.run(problem.theta)
    assert np.abs(mu - truth).max(initial=0) <= 1e-10
    assert abs(log_partition - expected) <= 1e-10 * max(1, abs(expected))
    assert (mu[np.isneginf(problem.theta)] == 0).all()


@quick
@given(problems())
def test_brute_force_is_what_its_name_says(problem):
    assume(problem.possible)
    mu, _ = problem.truth.run(problem.theta, 3.0)
    assert np.allclose(mu, 3 * indicators(problem) @ problem.joint.reshape(-1), rtol=0, atol=1e-9)
    features = np.where(indicators(problem) == 1, problem.theta[:, None], 0.0)
    assert np.isclose(problem.truth.maximum(problem.theta), features.sum(axis=0).max())


@pytest.mark.parametrize("name", EXAMPLES)
def test_potentials_of_any_size(name):
    """One record takes all: in log space nothing overflows, and its marginals are exactly 0 and 1."""
    problem = EXAMPLES[name]
    record = {attribute: size - 1 for attribute, size in problem.sizes.items()}
    last = [np.arange(size) == size - 1 for size in problem.layout.sizes]
    chosen = np.concatenate([np.empty(0), *last]).astype(float)
    for size in (1e4, 1e8, 1e300):
        for shift in (0.0, -size):
            oracle = problem.exact()
            mu, log_partition = oracle.run(size * chosen + shift)
            if any(n > 1 for n in problem.layout.sizes) and len(problem.layout.cliques) == 1:
                assert mu.tolist() == chosen.tolist()
            assert np.isfinite(mu).all()
            assert np.isfinite(log_partition)
            assert {k: v for k, v in oracle.map_record(size * chosen + shift).items() if k in used(problem)} == {
                k: v for k, v in record.items() if k in used(problem)
            }


def used(problem: Problem) -> set[str]:
    return {name for clique in problem.cliques for name in clique}


@quick
@given(problems(zeros=(0.5, 0.9, 1.0)))
def test_impossible_models_are_refused_and_nothing_is_ever_nan(problem):
    oracle = problem.exact()
    if problem.possible:
        mu, log_partition = oracle.run(problem.theta)
        assert np.isfinite(mu).all()
        assert np.isfinite(log_partition)
    else:
        with pytest.raises(ImpossibleModelError):
            oracle.run(problem.theta)
        with pytest.raises(ImpossibleModelError):
            problem.truth.run(problem.theta)
        assert oracle.maximum(problem.theta) == -INF


def test_the_text_for_impossible_models():
    problem = Problem({"a": 2, "b": 2}, (("a",), ("a", "b")))
    theta = np.array([-INF, 0, 0, 0, -INF, -INF])
    with pytest.raises(ImpossibleModelError) as raised:
        problem.exact().run(theta)
    assert str(raised.value) == (
        "the log-partition function is -inf: every record has some potential of -inf (or one is NaN or +inf). "
        "Check the structural zeros and the potentials."
    )
    with pytest.raises(ImpossibleModelError, match="every record has some potential of -inf"):
        problem.truth.run(theta)


def test_an_oracle_recovers_from_an_impossible_model():
    problem = EXAMPLES["a cycle"]
    oracle = problem.exact()
    expected = oracle.run(problem.theta)[0]
    with pytest.raises(ImpossibleModelError):
        oracle.run(np.full(problem.layout.cells, -INF))
    assert np.array_equal(oracle.run(problem.theta)[0], expected)


@quick
@given(problems(magnitudes=(1.0,)), st.data())
def test_the_order_of_attributes_and_cliques_does_not_matter(problem, data):
    assume(problem.possible)
    names = data.draw(st.permutations(list(problem.sizes)))
    cliques = data.draw(st.permutations(problem.layout.cliques))
    other = Problem({name: problem.sizes[name] for name in names}, tuple(cliques))
    theta = np.concatenate([np.empty(0), *(problem.vector[clique].datavector() for clique in cliques)])
    mu, log_partition = other.exact().run(theta)
    expected, expected_log = problem.exact().run(problem.theta)
    expected = CliqueVector.of(problem.layout, expected)
    assert np.isclose(log_partition, expected_log, rtol=1e-13, atol=1e-13)
    for clique, table in CliqueVector.of(other.layout, mu).items():
        assert np.allclose(table.values, expected[clique].values, rtol=0, atol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_the_marginals_are_the_gradient_of_the_log_partition_function(seed):
    problem = Problem(ABCD, (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b",)), zeros=0.05, seed=seed)
    oracle, v, h = problem.exact(), problem.direction(), 1e-5
    mu, _ = oracle.run(problem.theta)
    slope = (oracle.run(problem.theta + h * v)[1] - oracle.run(problem.theta - h * v)[1]) / (2 * h)
    assert np.isclose(mu @ v, slope, rtol=1e-8, atol=1e-8)


def test_a_run_writes_where_it_is_told_and_leaves_the_potentials():
    problem = EXAMPLES["a cycle"]
    for oracle in (problem.exact(), problem.truth):
        theta, out = problem.theta.copy(), np.full(problem.layout.cells, np.nan)
        mu, _ = oracle.run(theta, out=out)
        assert mu is out
        assert np.array_equal(mu, oracle.run(theta)[0])
        assert np.array_equal(theta, problem.theta)
    oracle = problem.exact()
    oracle.run(problem.theta)
    assert oracle.covariance(problem.direction(), out=out) is out
    assert oracle.max_marginals(problem.theta, out=out) is out


def test_read_only_potentials_give_the_same_marginals():
    problem = EXAMPLES["a cycle"]
    frozen = problem.theta.copy()
    frozen.flags.writeable = False
    assert np.array_equal(problem.exact().run(frozen)[0], problem.exact().run(problem.theta)[0])


def test_sweeps_are_counted():
    problem = EXAMPLES["a cycle"]
    oracle = problem.exact()
    oracle.run(problem.theta)
    oracle.maximum(problem.theta)
    oracle.map_record(problem.theta)
    oracle.covariance(problem.direction())
    assert oracle.calls == 4
    oracle.max_marginals(problem.theta)
    assert oracle.calls == 6


def test_brute_force_is_refused_on_large_domains():
    layout = Problem(dict.fromkeys("abcdefgh", 10), ()).layout
    with pytest.raises(ModelTooLarge) as raised:
        BruteForceOracle(layout)
    assert str(raised.value) == ("the joint table over 8 attributes is too large for brute force; use ExactOracle.")


# -- threads ----------------------------------------------------------------------------------------------------------


@quick
@given(problems())
def test_results_do_not_depend_on_threads(problem):
    assume(problem.possible)
    results = [problem.exact(threads) for threads in (1, 2, 3, 2)]
    runs = [oracle.run(problem.theta) for oracle in results]
    best = [oracle.maximum(problem.theta) for oracle in results]
    for mu, log_partition in runs[1:]:
        assert np.allclose(mu, runs[0][0], rtol=0, atol=1e-12)
        assert np.isclose(log_partition, runs[0][1], rtol=1e-12, atol=1e-12)
    assert np.array_equal(runs[1][0], runs[3][0])
    assert runs[1][1] == runs[3][1]
    assert np.allclose(best, best[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_wide_tables_are_shared_and_repeat_bit_for_bit(threads):
    """A measured table of a hundred thousand cells, and tables inside it."""
    sizes = {"a": 64, "b": 64, "c": 48, "d": 2}
    problem = Problem(sizes, (("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "a", "b", "c")), seed=3)
    first, again = problem.exact(threads).run(problem.theta), problem.exact(threads).run(problem.theta)
    assert np.array_equal(first[0], again[0])
    assert first[1] == again[1]
    log_joint = problem.truth.log_joint(problem.theta)
    joint = (log_joint - first[1]).exp()
    assert np.isclose(first[1], float(log_joint.logsumexp()), rtol=1e-13)
    for clique, table in CliqueVector.of(problem.layout, first[0]).items():
        assert np.allclose(table.values, joint.project(clique).values, rtol=0, atol=1e-13)


# -- the best record --------------------------------------------------------------------------------------------------


def potential_of(problem: Problem, record: dict[str, int]) -> float:
    return float(sum(float(table.condition({n: record[n] for n in c})) for c, table in problem.vector.items()))


@quick
@given(problems(), st.integers(1, 2))
def test_the_best_record_reaches_the_maximum(problem, threads):
    oracle = problem.exact(threads)
    largest = oracle.maximum(problem.theta)
    assert np.isclose(largest, problem.truth.maximum(problem.theta), rtol=1e-13, atol=1e-10)
    record = oracle.map_record(problem.theta)
    assert list(record) == list(problem.sizes)
    assert all(0 <= code < problem.sizes[name] for name, code in record.items())
    assert np.isclose(potential_of(problem, record), largest, rtol=1e-13, atol=1e-10)


@pytest.mark.parametrize("names", ["abc", "abcd"])
@pytest.mark.parametrize("large", [1.0, 1e4])
def test_the_best_record_is_one_record_where_many_are_equally_good(names, large):
    """In each clique two cells are equally good, but a choice in one clique leaves one cell in each of the others."""
    cycle = tuple(zip(names, names[1:] + names[0], strict=True))
    problem = Problem(dict.fromkeys(names, 2), cycle)
    differ, agree = large * (1 - np.eye(2)), large * np.eye(2)
    theta = np.concatenate(
        [(agree if clique == cycle[-1] else differ).reshape(-1) for clique in problem.layout.cliques]
    )
    assert (len(names) % 2 == 1) == (problem.truth.maximum(theta) == large * len(cycle))
    record = problem.exact().map_record(theta)
    assert problem.truth.log_joint(theta).values[tuple(record.values())] == problem.truth.maximum(theta)


@quick
@given(problems())
def test_max_marginals_are_the_best_potential_through_each_cell(problem):
    best = problem.exact().max_marginals(problem.theta)
    log_joint = problem.truth.log_joint(problem.theta).values.reshape(-1)
    expected = np.where(indicators(problem) == 1, log_joint, -INF).max(axis=1, initial=-INF)
    assert np.allclose(best, expected, rtol=1e-12, atol=1e-10)


@quick
@given(problems())
def test_the_maximum_leaves_the_last_run_as_it_was(problem):
    assume(problem.possible)
    untouched, disturbed = problem.exact(), problem.exact()
    untouched.run(problem.theta)
    disturbed.run(problem.theta)
    disturbed.max_marginals(problem.direction())
    disturbed.map_record(problem.direction(2))
    v = problem.direction(3)
    assert np.array_equal(disturbed.covariance(v), untouched.covariance(v))
    for i in range(len(untouched.plan.tree.cliques)):
        assert np.array_equal(disturbed.clique_table(i).values, untouched.clique_table(i).values)


# -- derivatives and tables -------------------------------------------------------------------------------------------


@quick
@given(problems(), st.sampled_from([1.0, 250.0]))
def test_covariance_is_that_of_the_joint_table(problem, total):
    assume(problem.possible)
    oracle, v = problem.exact(), problem.direction()
    oracle.run(problem.theta, total)
    found = oracle.covariance(v)
    features, p = indicators(problem), problem.joint.reshape(-1)
    mean = features @ p
    expected = total * (features @ (p * (v @ features)) - mean * (mean @ v))
    assert np.allclose(found, expected, rtol=0, atol=1e-9 * total)


@pytest.mark.parametrize("name", EXAMPLES)
def test_covariance_is_the_derivative_of_the_marginals_and_symmetric(name):
    problem = EXAMPLES[name]
    oracle, h = problem.exact(), 1e-5
    u, v = problem.direction(1), problem.direction(2)
    slope = (oracle.run(problem.theta + h * v)[0] - oracle.run(problem.theta - h * v)[0]) / (2 * h)
    oracle.run(problem.theta)
    along_u, along_v = oracle.covariance(u), oracle.covariance(v)
    assert np.allclose(along_v, slope, rtol=0, atol=1e-9)
    assert np.isclose(u @ along_v, v @ along_u, rtol=1e-12, atol=1e-13)
    assert v @ along_v >= -1e-13


def test_derivatives_and_tables_need_a_run():
    problem = EXAMPLES["a chain"]
    with pytest.raises(ArgumentError) as raised:
        problem.exact().covariance(problem.direction())
    assert str(raised.value) == "covariance needs the marginals of a run: call run(theta) first."
    with pytest.raises(ArgumentError) as raised:
        problem.exact().clique_table(0)
    assert str(raised.value) == "clique_table needs the marginals of a run: call run(theta) first."


@quick
@given(problems())
def test_clique_tables_are_the_marginals_of_the_tree(problem):
    assume(problem.possible)
    oracle = problem.exact()
    oracle.run(problem.theta, 5.0)
    for index, clique in enumerate(oracle.plan.tree.cliques):
        table = oracle.clique_table(index)
        assert table.domain == problem.layout.domain.project(clique)
        expected = np.bincount(cells(problem, clique), problem.joint.reshape(-1), table.values.size)
        assert np.allclose(table.datavector(), 5 * expected, rtol=0, atol=5e-10)
