"""Workloads: their families have the queries they name, and any source answers them as the joint table would."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import queries
from pgmest.errors import ArgumentError, DuplicateAttributeError, QueryError, UnknownAttributeError
from pgmest.workloads import Item, Workload, answers, closure
from tests.estimation.full_table import marginal_matrix

DOMAIN = pg.Domain({"age": 5, "sex": 2, "job": 3, "pay": 4})
W = pg.workloads


def some_data(records: int = 200, seed: int = 0, weighted: bool = False) -> pg.Dataset:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, records) for size in DOMAIN.shape], axis=1)
    return pg.Dataset.from_codes(codes, DOMAIN, rng.random(records) if weighted else None)


def some_model(seed: int = 0) -> pg.Model:
    return pg.Model(pg.CliqueVector.random(DOMAIN, [("age", "sex"), ("sex", "job"), ("job", "pay")], seed=seed), 500.0)


def full_matrix(workload: Workload) -> list[np.ndarray]:
    """Every item as a matrix on the joint table, built from dense Kronecker products."""
    blocks = []
    for item in workload:
        order = item.query.attributes if isinstance(item.query, pg.Kron) else item.clique
        query = np.eye(DOMAIN.size(order)) if item.query is None else item.query.matrix()
        blocks.append(query @ marginal_matrix(DOMAIN, order))
    return blocks


EVERY_KIND = (
    W.all_kway(DOMAIN, 2)
    + 0.5 * W.prefixes(DOMAIN, [("job", "age"), ("sex", "job")], numeric=["age"])
    + W.ranges(DOMAIN, ["pay", ("pay", "sex")])
    + W.random_ranges(DOMAIN, 3, 20, seed=1)
    + Workload(
        (
            Item(("sex", "age"), np.arange(20.0).reshape(2, 10), 2.0),
            Item((), None),
            Item("age", queries.haar(5)),
            Item(("age", "job"), pg.Kron({"job": queries.total(3), "age": queries.prefix(5)})),
        )
    )
)


class Bare:
    """A source that can do nothing but project."""

    def __init__(self, source):
        self.source = source

    def project(self, attributes):
        return self.source.project(attributes)


@pytest.mark.parametrize("make", [some_data, lambda: some_data(weighted=True), some_model, lambda: Bare(some_data())])
def test_answers_agree_with_the_joint_table(make):
    source = make()
    joint = source.project(DOMAIN.attributes).datavector()
    for item, values, matrix in zip(EVERY_KIND, EVERY_KIND.answer(source), full_matrix(EVERY_KIND), strict=True):
        assert values.shape == (item.rows(DOMAIN),)
        np.testing.assert_allclose(values, matrix @ joint, atol=1e-9)


@pytest.mark.parametrize("make", [some_data, lambda: some_data(weighted=True), some_model])
def test_large_tables_are_never_written_down(make, monkeypatch):
    source = make()
    expected = EVERY_KIND.answer(source)
    monkeypatch.setattr(answers, "TABLE_CELLS", 5)
    monkeypatch.setattr(answers, "ANSWERED_CELLS", 12)
    monkeypatch.setattr(answers, "LOOKUP_ROWS", 64)
    wide = [place for place, item in enumerate(EVERY_KIND) if answers._factored(source, item)]
    assert len(wide) > 10
    for mine, theirs in zip(EVERY_KIND.answer(source), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


def test_each_marginal_is_made_once():
    asked = []

    class Counting(Bare):
        def project(self, attributes):
            asked.append(sorted(attributes))
            return self.source.project(attributes)

    source = Counting(some_data())
    repeated = W.marginals([("age", "sex"), ("sex", "age"), "age"]) + W.prefixes(DOMAIN, [("age", "sex")], ["age"])
    values = repeated.answer(source)
    assert sorted(asked) == [["age"], ["age", "sex"]]
    np.testing.assert_array_equal(values[0].reshape(5, 2), values[1].reshape(2, 5).T)


def test_families():
    assert W.all_kway(DOMAIN, 3).cliques == tuple(itertools.combinations(DOMAIN, 3))
    assert W.all_kway(DOMAIN, 2, max_cells=8).cliques == (("sex", "job"), ("sex", "pay"))
    assert W.ranges(DOMAIN, ["age", ("sex", "job")]).rows(DOMAIN) == 15 + 3 * 6
    assert W.ranges(DOMAIN, "age").cliques == (("age",),)
    triples = W.random_triples(DOMAIN, 3, seed=0)
    assert len(set(triples.cliques)) == 3
    assert triples.cliques == W.random_triples(DOMAIN, 3, seed=0).cliques
    extended = W.prefixes(DOMAIN, triples.cliques, ["age"])
    assert extended.cliques == triples.cliques
    assert [item.query is None for item in extended] == ["age" not in clique for clique in triples.cliques]
    np.testing.assert_array_equal(
        W.prefixes(DOMAIN, ["age"], ["age"])[0].answer(pg.Factor({"age": 5}, [1, 2, 3, 4, 5])), [1, 3, 6, 10, 15]
    )


def test_a_wide_domain_is_not_enumerated(monkeypatch):
    monkeypatch.setattr("pgmest.workloads.families.ENUMERATED", 10)
    wide = {f"a{i}": 2 + i % 3 for i in range(50)}
    chosen = W.random_kway(wide, 3, 40, seed=0, max_cells=30).cliques
    assert len(set(chosen)) == 40
    assert all(pg.Domain(wide).size(clique) <= 30 for clique in chosen)
    with pytest.raises(ArgumentError, match="max_cells=2"):
        W.random_kway(wide, 3, 1, seed=0, max_cells=2)


def test_every_range_is_as_likely():
    boxes = W.random_ranges({"age": 3}, 1, 3000, seed=0)
    counts = np.zeros((3, 4))
    for item in boxes:
        assert isinstance(item.query, pg.Kron)
        spec = item.query.factors["age"].spec
        counts[spec["start"], spec["stop"]] += 1
    np.testing.assert_allclose(counts[np.triu_indices(3)[0], np.triu_indices(3)[1] + 1] / 3000, 1 / 6, atol=0.03)


def test_weights_scale_and_add_up():
    workload = 2 * (W.marginals(["age"], [3.0]) + W.marginals(["sex"])) * 0.5
    assert workload.weights == (3.0, 1.0)
    assert workload[1:].cliques == (("sex",),)


def test_closure():
    assert closure([("b", "a"), "c"]) == ((), ("b",), ("a",), ("c",), ("b", "a"))
    workload = W.marginals([("age", "sex"), ("sex", "job")], [1.0, 2.0])
    assert workload.closure() == {
        ("age",): 1.0,
        ("sex",): 3.0,
        ("job",): 2.0,
        ("age", "sex"): 1.0 * 2 + 2.0 * 1,
        ("sex", "job"): 1.0 * 1 + 2.0 * 2,
    }


@settings(max_examples=40, deadline=None)
@given(
    cliques=st.lists(st.sets(st.sampled_from(DOMAIN.attributes), min_size=1), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_relevance_is_the_weighted_overlap(cliques, seed):
    weights = np.random.default_rng(seed).random(len(cliques))
    workload = W.marginals([tuple(sorted(clique)) for clique in cliques], weights)
    expected = {
        frozenset(part)
        for clique in cliques
        for size in range(1, len(clique) + 1)
        for part in itertools.combinations(sorted(clique), size)
    }
    relevance = workload.closure()
    assert {frozenset(clique) for clique in relevance} == expected
    for clique, value in relevance.items():
        overlap = sum(weight * len(members & set(clique)) for weight, members in zip(weights, cliques, strict=True))
        assert value == pytest.approx(overlap)


@pytest.mark.parametrize("order", [1, 2])
def test_sensitivity_bounds_what_one_record_moves(order):
    stacked = np.vstack([item.weight * block for item, block in zip(EVERY_KIND, full_matrix(EVERY_KIND), strict=True)])
    exact = np.linalg.norm(stacked, order, axis=0).max()
    assert EVERY_KIND.sensitivity(order) >= exact - 1e-9
    simple = W.all_kway(DOMAIN, 2) + 2 * W.prefixes(DOMAIN, [("age", "pay")], ["age", "pay"])
    stacked = np.vstack([item.weight * block for item, block in zip(simple, full_matrix(simple), strict=True)])
    assert simple.sensitivity(order) == pytest.approx(np.linalg.norm(stacked, order, axis=0).max())


def test_an_item_as_a_kron():
    assert Item(("age", "sex")).kron(DOMAIN).answer_shape == (5, 2)
    assert Item("age", queries.prefix(5)).kron(DOMAIN).answer_shape == (5,)
    with pytest.raises(QueryError, match="not a Kronecker product"):
        Item(("age", "sex"), np.ones((1, 10))).kron(DOMAIN)


def test_what_callers_give_becomes_a_workload():
    assert W.as_workload(DOMAIN, None).cliques == W.all_kway(DOMAIN, 2).cliques
    assert W.as_workload({"age": 5}, None).cliques == (("age",),)
    assert W.as_workload(DOMAIN, [("age", "sex"), "pay"]).cliques == (("age", "sex"), ("pay",))
    assert W.as_workload(DOMAIN, EVERY_KIND) is EVERY_KIND


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Item(("age", "age")), DuplicateAttributeError, "more than once"),
        (lambda: Item("age", None, -1.0), ArgumentError, "finite number of at least 0"),
        (lambda: Item("age", pg.Kron({"sex": [[1, 1]]})), QueryError, "exactly the clique's"),
        (lambda: Item(("age", 3)), ArgumentError, "attribute names"),  # pyright: ignore[reportArgumentType]
        (lambda: Workload((("age",),)), ArgumentError, "Item values"),  # pyright: ignore[reportArgumentType]
        (lambda: W.marginals(["age"], [1, 2]), ArgumentError, "one number for each of the 1 cliques"),
        (lambda: W.all_kway(DOMAIN, 5), ArgumentError, "an integer in 0..4"),
        (lambda: W.random_triples(DOMAIN, 5), ArgumentError, "from 1 to 4"),
        (lambda: W.ranges(DOMAIN, ["wage"]), UnknownAttributeError, "'wage' is not an attribute"),
        (lambda: W.as_workload(DOMAIN, "age"), ArgumentError, "an iterable of cliques"),
        (lambda: W.as_workload(DOMAIN, []), ArgumentError, "workload is empty"),
        (lambda: W.as_workload(DOMAIN, Workload((Item("age", np.ones((1, 4))),))), QueryError, "expected 5 columns"),
        (lambda: EVERY_KIND.sensitivity(3), ArgumentError, "one of 1, 2"),
        (lambda: float("nan") * EVERY_KIND, ArgumentError, "finite number"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    "given",
    [
        "age",
        b"age",
        3,
        2.5,
        Ellipsis,
        [3],
        [None],
        [("age", "sex"), 7],
        [b"age"],
        [np.zeros(2)],
        {("age",): 2.0},
        [(1,)],
    ],
    ids=repr,
)
def test_what_is_no_workload_is_refused(given):
    with pytest.raises(ArgumentError):
        W.as_workload(DOMAIN, given)


def test_a_workload_in_which_nothing_matters_is_refused():
    for weightless in (0 * W.all_kway(DOMAIN, 2), [Item("age", weight=0.0)]):
        with pytest.raises(ArgumentError, match="no item of positive weight"):
            W.as_workload(DOMAIN, weightless)
    some = W.as_workload(DOMAIN, [Item("age", weight=0.0), Item(("age", "sex"), weight=2.0), "pay"])
    assert some.weights == (0.0, 2.0, 1.0)
    assert W.as_workload(DOMAIN, (clique for clique in [{"age"}, ["sex", "age"]])).cliques == (("age",), ("sex", "age"))
