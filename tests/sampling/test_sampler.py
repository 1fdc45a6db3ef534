"""Sampler: records that match the model on every clique of the tree and across it, whole or in batches."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pgmest._base.threads import set_threads
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, ImpossibleModelError
from pgmest.sampling import sampler
from pgmest.sampling.sampler import Sampler

METHODS = ("round", "multinomial")


@pytest.fixture
def small_blocks(monkeypatch):
    """Make records few at a time, so that small draws go through several blocks."""
    monkeypatch.setattr(sampler, "RECORD_BLOCK", 2)
    monkeypatch.setattr(sampler, "LARGEST_BLOCK", 2)


# -- the guarantee of "round" -----------------------------------------------------------------------------------------


@st.composite
def model_arguments(draw):
    """Sizes, cliques and potentials: forests, cycles, duplicates, values of one kind, impossible cells."""
    sizes = {name: draw(st.integers(1, 4)) for name in "abcde"[: draw(st.integers(1, 5))]}
    cliques = draw(st.lists(st.permutations(list(sizes)).map(lambda names: tuple(names[:2])), max_size=6))
    cliques = list(dict.fromkeys(cliques)) + [tuple(sizes)[:3]] * draw(st.integers(0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    spread = draw(st.sampled_from([0.0, 1.0, 30.0]))
    theta = {}
    for clique in dict.fromkeys(cliques):
        table = rng.normal(0.0, spread, [sizes[name] for name in clique])
        table[rng.random(table.shape) < 0.3] = -np.inf
        table[(0,) * len(clique)] = 0.0  # one record is always possible
        theta[clique] = table
    return sizes, list(theta), theta


@settings(max_examples=150, deadline=None)
@given(model_arguments(), st.integers(0, 300), st.integers(0, 10**6))
def test_cells_are_their_expectation_given_the_separator_rounded(calibrated, arguments, n, seed):
    model = calibrated(*arguments)
    data = Sampler(model.oracle).draw(n, "round", seed)
    tree, joint = model.oracle.plan.tree, model.joint
    separators = dict(zip((child for _, child in tree.edges), tree.separators, strict=True))
    assert data.records == n
    for index, clique in enumerate(tree.cliques):
        truth, counts, separator = joint.project(clique), data.project(clique), separators.get(index, ())
        expected = (data.project(separator) * (truth / truth.project(separator))).transpose(clique).values
        assert np.abs(counts.values - expected).max() < 1 + 1e-9
        assert (counts.values[truth.values == 0] == 0).all()


@given(model_arguments(), st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_independent_records_are_possible_ones(calibrated, arguments, seed):
    model = calibrated(*arguments)
    data = Sampler(model.oracle).draw(50, "multinomial", seed)
    impossible = model.joint.values == 0
    assert (data.project(model.domain).values[impossible] == 0).all()


def test_a_census_sized_model_is_matched_within_a_few_records(calibrated):
    sizes = dict(age=85, work=9, weight=100, school=16, marital=7, job=15, relation=6, race=5, sex=2, gain=100)
    pairs = [("marital", "relation"), ("work", "job"), ("age", "marital"), ("school", "job"), ("age", "relation")]
    pairs += [("age", "school"), ("marital", "sex"), ("relation", "gain"), ("job", "race"), ("school", "race")]
    model = calibrated(sizes, [*((name,) for name in sizes), *pairs], total=1.0)
    data = Sampler(model.oracle).draw(50_000, seed=0)
    tree = model.oracle.plan.tree
    for clique in model.oracle.layout.cliques:
        expected = 50_000 * model.oracle.clique_table(tree.containing(clique)).project(clique).values
        error = np.abs(data.project(clique).values - expected)
        assert error.max() < 8  # the standard deviation of independent records is up to 150
        assert error.mean() < 1.5


# -- dependence across the tree ---------------------------------------------------------------------------------------


def chain(sizes, strength):
    """Potentials of a chain of attributes that tend to be equal."""
    return {pair: strength * np.eye(sizes[pair[0]], sizes[pair[1]]) for pair in itertools.pairwise(sizes)}


@pytest.mark.parametrize("method", METHODS)
def test_the_ends_of_a_chain_depend_as_in_the_model(calibrated, method):
    sizes = {"a": 4, "b": 4, "c": 4, "d": 4}
    theta = chain(sizes, 4.0)
    model = calibrated(sizes, list(theta), theta)
    n = 200_000
    ends = Sampler(model.oracle).draw(n, method, seed=1).project(("a", "d")).values / n
    truth = model.joint.project(("a", "d")).values
    assert np.trace(truth) > 0.7
    assert np.abs(ends - truth).max() < 5 * np.sqrt(0.25 / n)


@pytest.mark.parametrize("method", METHODS)
def test_a_cycle_that_needed_a_fill_edge(calibrated, method):
    model = calibrated({"a": 3, "b": 3, "c": 3, "d": 3}, ["ab", "bc", "cd", "da"], spread=2.0)
    n = 300_000
    data = Sampler(model.oracle).draw(n, method, seed=2)
    assert model.oracle.plan.tree.fill_edges
    assert np.abs(data.project(tuple("abcd")).values / n - model.joint.values).max() < 5 * np.sqrt(0.25 / n)


def test_each_record_has_the_models_distribution(calibrated, small_blocks):
    """Over seeds, whole records come out as often as the model says, from each of several blocks."""
    sizes = {"a": 2, "b": 3, "c": 2}
    model = calibrated(sizes, ["ab", "bc"], spread=1.5)
    prepared, draws, n = Sampler(model.oracle), 3_000, 5
    rng = np.random.default_rng(0)
    codes = np.stack([prepared.draw(n, "round", rng).codes for _ in range(draws)])
    for position in range(n):
        records = Dataset.from_codes(codes[:, position], model.domain)
        observed = records.project(tuple("abc")).values.reshape(-1)
        assert stats.chisquare(observed, draws * model.joint.values.reshape(-1)).pvalue > 1e-4


# -- independent records ----------------------------------------------------------------------------------------------


def test_independent_records_pass_a_chi_square_test(calibrated):
    model = calibrated({"a": 3, "b": 4, "c": 2, "d": 3}, ["ab", "bc", "d"], spread=1.0)
    n = 100_000
    data = Sampler(model.oracle).draw(n, "multinomial", seed=3)
    observed = data.project(tuple("abcd")).values.reshape(-1)
    assert stats.chisquare(observed, n * model.joint.values.reshape(-1)).pvalue > 1e-3


def test_independent_records_vary_as_they_should(calibrated):
    """The variance of a count is n p (1 - p); rounded counts vary by less than 1/4 where they are at a root."""
    model = calibrated({"a": 2}, ["a"], theta={("a",): np.log([0.3, 0.7])})
    prepared = Sampler(model.oracle)
    counts = {
        method: [prepared.draw(101, method, seed).project("a").values[0] for seed in range(2_000)] for method in METHODS
    }
    assert np.var(counts["multinomial"]) == pytest.approx(101 * 0.21, rel=0.15)
    assert set(counts["round"]) == {30, 31}
    assert np.mean(counts["round"]) == pytest.approx(30.3, abs=0.05)


# -- order, seeds, types ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_records_is_random(calibrated, method):
    model = calibrated({"a": 2, "b": 2, "c": 2}, ["ab", "bc"], spread=0.5)
    data = Sampler(model.oracle).draw(100_000, method, seed=4)
    for column in data.columns:
        values = column.astype(float)
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.02
        assert abs(np.corrcoef(values, np.arange(len(values)))[0, 1]) < 0.02


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_records(calibrated, method):
    prepared = Sampler(calibrated({"a": 5, "b": 6}, ["ab"]).oracle)
    first = prepared.draw(100, method, seed=1)
    assert prepared.draw(100, method, seed=1) == first
    assert prepared.draw(100, method, seed=2) != first
    rng = np.random.default_rng(1)
    assert prepared.draw(100, method, rng) == first
    assert prepared.draw(100, method, rng) != first


def test_columns_have_the_smallest_type_of_their_codes(calibrated):
    sizes = {"a": 2, "b": 300, "c": 1}
    data = Sampler(calibrated(sizes, ["ab", "c"]).oracle).draw(1_000, seed=0)
    assert [column.dtype for column in data.columns] == [code_type(size) for size in sizes.values()]
    assert not any(column.flags.writeable for column in data.columns)
    assert data == Dataset.from_codes([*data.columns], sizes)  # which checks the codes


def test_later_runs_of_the_oracle_do_not_matter(calibrated):
    model = calibrated({"a": 3, "b": 3}, ["ab"])
    prepared = Sampler(model.oracle)
    before = prepared.draw(50, seed=0)
    model.oracle.run(np.zeros(9), 1.0)
    assert prepared.draw(50, seed=0) == before


# -- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "batch", "sizes"), [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (3, 4, [3]), (0, 4, [])])
def test_batches_have_the_sizes_asked_for(calibrated, method, n, batch, sizes):
    prepared = Sampler(calibrated({"a": 3, "b": 2}, ["ab"]).oracle)
    assert [part.records for part in prepared.batches(n, batch, method, seed=0)] == sizes


@pytest.mark.parametrize("batch", [1, 7, 100, 5_000])
def test_batches_together_match_the_model_as_one_draw_does(calibrated, batch):
    model = calibrated({"a": 4, "b": 5, "c": 3}, ["ab", "bc"])
    n = 5_003 if batch > 1 else 503
    parts = list(Sampler(model.oracle).batches(n, batch, seed=0))
    tree = model.oracle.plan.tree
    root = tree.cliques[0]
    truth = model.joint.project(root).values
    assert np.abs(Dataset.concat(parts).project(root).values - n * truth).max() < 1
    for part in parts:
        assert np.abs(part.project(root).values - part.records * truth).max() < 3


def test_blocks_within_a_draw_change_nothing(calibrated, small_blocks):
    model = calibrated({"a": 4, "b": 5, "c": 3}, ["ab", "bc"])
    root = model.oracle.plan.tree.cliques[0]
    data = Sampler(model.oracle).draw(1_001, seed=0)
    assert np.abs(data.project(root).values - 1_001 * model.joint.project(root).values).max() < 1


@pytest.mark.parametrize("method", METHODS)
def test_the_first_batch_of_very_many_records_comes_at_once(calibrated, method):
    prepared = Sampler(calibrated({"a": 3, "b": 2}, ["ab"]).oracle)
    batches = prepared.batches(10**12, 1_000, method, seed=0)
    assert [next(batches).records, next(batches).records] == [1_000, 1_000]


# -- the edges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_no_records_are_an_empty_dataset(calibrated, method):
    data = Sampler(calibrated({"a": 3, "b": 2}, ["ab"]).oracle).draw(0, method)
    assert (data.records, len(data.column("a"))) == (0, 0)


@pytest.mark.parametrize("method", METHODS)
def test_a_domain_without_attributes(calibrated, method):
    assert Sampler(calibrated({}, [()]).oracle).draw(3, method).records == 3


@pytest.mark.parametrize("method", METHODS)
def test_attributes_in_no_clique_are_uniform(calibrated, method):
    model = calibrated({"a": 2, "b": 4, "c": 2}, ["ac"])
    counts = Sampler(model.oracle).draw(40_000, method, seed=0).project("b").values
    assert np.abs(counts - 10_000).max() < (1 if method == "round" else 500)


@pytest.mark.parametrize("n", [-1, 2.0, "3", None, True])
def test_a_wrong_number_of_records(calibrated, n):
    prepared = Sampler(calibrated({"a": 2}, ["a"]).oracle)
    with pytest.raises(ArgumentError) as caught:
        prepared.draw(n)
    assert str(caught.value) == f"n={n!r} is not valid: it must be an integer of at least 0."


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("threads", [2, 5])
def test_any_number_of_threads_makes_the_same_records(calibrated, small_blocks, method, threads):
    sizes = {"a": 3, "b": 300, "c": 2, "d": 4}
    prepared = Sampler(calibrated(sizes, ["ab", "bc", "d"], spread=1.0).oracle)

    def records():
        return Dataset.concat(prepared.batches(50, 15, method, seed=4)), prepared.draw(21, method, seed=4)

    try:
        set_threads(1)
        expected = records()
        set_threads(threads)
        assert records() == expected
    finally:
        set_threads(None)


RECORDS_OF_SEED_3 = {
    "round": [[2, 1, 0], [0, 1, 1], [1, 1, 1], [2, 1, 1], [2, 0, 1], [1, 1, 0], [2, 1, 1]],
    "multinomial": [[2, 0, 0], [2, 0, 0], [2, 1, 1], [2, 1, 0], [0, 1, 1], [2, 1, 1], [1, 1, 0]],
}


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_makes_the_records_that_it_always_made(calibrated, small_blocks, method):
    """Computed before blocks were made at the same time."""
    potentials = {("a", "b"): np.arange(6.0).reshape(3, 2) / 3, ("b", "c"): np.arange(4.0).reshape(2, 2) / 2}
    model = calibrated({"a": 3, "b": 2, "c": 2}, list(potentials), potentials)
    assert Sampler(model.oracle).draw(7, method, seed=3).codes.tolist() == RECORDS_OF_SEED_3[method]


def test_wrong_batches_are_refused_before_any_is_drawn(calibrated):
    prepared = Sampler(calibrated({"a": 2}, ["a"]).oracle)
    with pytest.raises(ArgumentError, match="batch=0 is not valid: it must be an integer of at least 1"):
        prepared.batches(10, 0)
    with pytest.raises(ArgumentError, match="method='gibbs' is not valid: it must be one of 'round', 'multinomial'"):
        prepared.batches(10, method="gibbs")


def test_an_oracle_run_for_a_total_of_zero(calibrated):
    model = calibrated({"a": 2}, ["a"], total=0.0)
    with pytest.raises(
        ImpossibleModelError, match=r"the table over \('a',\) sums to 0, .* Run the oracle with a positive"
    ):
        Sampler(model.oracle)
