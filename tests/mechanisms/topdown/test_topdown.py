"""TopDown: whole numbers that add up at every level, constraints that hold, budgets by level, and degenerate trees."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, ModelTooLarge, QueryError, UnknownAttributeError
from pgmest.mechanisms import TopDown
from pgmest.mechanisms.invariants import INVARIANTS
from pgmest.mechanisms.topdown.constraints import Limits, limits_of
from pgmest.mechanisms.topdown.least_squares import Family
from pgmest.mechanisms.topdown.spine import Spine
from pgmest.mechanisms.topdown.whole import Rounding
from pgmest.privacy import AddRemove, Replace
from pgmest.sampling.facts import UnmetFactsWarning
from pgmest.workloads import Item, Workload
from tests.mechanisms.repeating import check_cut_journal

TREE = pg.Hierarchy("area", {"state": [0, 0, 0, 1, 1], "county": [0, 1, 1, 2, 3]})
DOMAIN = pg.Domain({"sex": 2, "area": 5, "age": 3}).with_hierarchies(TREE)
RECORDS = np.random.default_rng(0).integers(0, (2, 5, 3), (400, 3))
DATA = pg.Dataset.from_codes(RECORDS, DOMAIN)
SPINE, DETAIL = Spine.of("area", 5, TREE), DOMAIN.without(("area",))
LEVELS = ("area@state", "area@county", "area")


def made(**options):
    return TopDown(**{"rho": 1.0, "backend": "simulation", **options})


def exact(data, *clique):
    return pg.LinearMeasurement.exact(data.project(clique).values, clique)


def refused(error, text, workload=None, **options):
    charged = []
    with pytest.raises(error, match=text):
        made(**options).fit(DATA, workload, seed=0, progress=charged.append)
    assert not charged


# -- what always holds -----------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(
    areas=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=6),
    sizes=st.lists(st.integers(1, 3), max_size=3),
    records=st.sampled_from([0, 1, 30, 300]),
    rho=st.sampled_from([1e-3, 0.1, 10.0]),
    held=st.lists(st.tuples(st.sampled_from(LEVELS), st.integers(0, 3), st.booleans()), max_size=2),
    options=st.fixed_dictionaries({"totals_first": st.booleans()}),
    replace=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_records_are_the_model_and_hold_what_is_known(areas, sizes, records, rho, held, options, replace, seed):
    rng = np.random.default_rng(seed)
    tree = pg.Hierarchy("area", {"state": [one for one, _ in areas], "county": [str(one) for one in areas]})
    details = {f"x{place}": size for place, size in enumerate(sizes)}
    domain = pg.Domain({"area": len(areas), **details}).with_hierarchies(tree)
    codes = [np.minimum(size - 1, rng.geometric(0.5, records) - 1) for size in domain.shape]
    data = pg.Dataset.from_codes(codes, domain)
    invariants = []
    for level, count, sharp in held:
        clique = (level, *list(details)[:count])
        values = data.project(clique).values
        if sharp and records:
            invariants.append(pg.LinearMeasurement.exact(values, clique))
        else:
            invariants.append(pg.LinearMeasurement.between(np.maximum(values - 1, 0), np.inf, clique))
    neighbors = Replace() if replace and records else AddRemove()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnmetFactsWarning)
        mechanism = made(rho=rho, invariants=invariants, neighbors=neighbors, **options)
        result = mechanism.fit(data, seed=seed, progress=False)
    found, sample = result.project(domain.attributes).values, result.sample(seed=seed)
    assert found.min() >= 0.0
    np.testing.assert_allclose(found, np.rint(found), atol=1e-6)
    np.testing.assert_array_equal(sample.project(domain.attributes).values, np.rint(found))
    for one in invariants:
        answers = sample.project(one.clique).values.reshape(-1)
        assert np.all((one.low <= answers) & (answers <= one.high))
    assert not isinstance(neighbors, Replace) or sample.records == records
    assert not result.measurements or result.ledger.remaining / result.ledger.budget < 1e-9


@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()], ids=["add", "replace"])
def test_the_cost_of_all_answers_is_that_of_brute_force(neighbors):
    result = made(neighbors=neighbors, level_shares={"all": 1, "state": 2, "county": 3, "area": 4}).fit(DATA, seed=0)
    cells = np.stack(np.unravel_index(np.arange(DOMAIN.size()), DOMAIN.shape), axis=1)
    vectors = []
    for code in cells:
        one = pg.Dataset.from_codes(code[None], DOMAIN)
        answers = [m.answer(one.project(m.clique)) / m.stddev for m in result.measurements]
        vectors.append(np.concatenate(answers))
    moves = vectors if isinstance(neighbors, AddRemove) else [one - other for one in vectors for other in vectors]
    worst = max(float(move @ move) / 2 for move in moves)
    assert worst == pytest.approx(float(result.ledger.total.exact[0]), rel=0.02)  # the grid of discrete noise


def test_little_noise_returns_the_records():
    for options in ({}, {"totals_first": False}, {"neighbors": Replace()}):
        result = made(rho=1e5, **options).fit(DATA, seed=0)
        np.testing.assert_array_equal(result.sample().project(DOMAIN).values, DATA.project(DOMAIN).values)


def test_counts_of_large_areas_are_not_biased_by_many_empty_cells():
    sparse = np.zeros((3000, 3), dtype=int)
    sparse[:, 1] = np.arange(3000) % 5
    wide = pg.Domain({"sex": 2, "area": 5, "age": 50}).with_hierarchies(TREE)
    data = pg.Dataset.from_codes(sparse, wide)
    means = [np.mean([made(rho=0.05).fit(data, seed=s).project("area").values for s in range(4)])]
    assert abs(means[0] - 600) < 15


# -- what is asked ---------------------------------------------------------------------------------------------------


def test_levels_and_questions_share_the_budget():
    result = made(level_shares={"all": 1, "state": 1, "county": 2, "area": 4}).fit(DATA, seed=0)
    costs = [float(entry.cost.exact[0]) for entry in result.ledger]
    assert result.details["levels"] == {"all": 1, "state": 2, "county": 4, "area": 5}
    assert result.details["questions"] == ((), ("sex",), ("age",), ("sex", "age"))
    assert [sum(costs[start : start + 4]) for start in range(0, 16, 4)] == pytest.approx([1 / 8, 1 / 8, 2 / 8, 4 / 8])
    assert costs[:4] == pytest.approx([1 / 24, 1 / 48, 1 / 48, 1 / 24])


def test_questions_can_be_named_or_come_from_a_workload():
    named = made(query_shares={(): 1, ("age", "sex"): 3}).fit(DATA, seed=0)
    assert named.details["questions"] == ((), ("sex", "age"))
    assert [float(entry.cost.exact[0]) for entry in named.ledger][:2] == pytest.approx([1 / 16, 3 / 16])
    items = Item(("area", "age"), weight=2.0), Item("age", pg.queries.prefix(3), 2.0), Item("area@county", weight=2.0)
    asked = made().fit(DATA, Workload(items), seed=0)
    assert asked.details["questions"] == ((), ("age",), ("sex",))
    weights = np.array([2.0, 2.0, 0.6, 2.0])  # of sex, which no item names, a tenth of what the items have
    assert [float(entry.cost.exact[0]) for entry in asked.ledger][:4] == pytest.approx(weights / weights.sum() / 4)
    assert [m.rows for m in asked.measurements[:4]] == [1, 3, 2, 3]
    total = made().fit(DATA, [("age", "sex")], seed=0)
    assert total.details["questions"] == ((), ("sex", "age"))


def test_other_queries_than_marginals_are_fitted():
    full = Item(("age", "sex"), pg.Kron({"age": pg.queries.prefix(3), "sex": pg.queries.identity(2)}))
    result = made(rho=1e6).fit(DATA, Workload((full,)), seed=0)
    np.testing.assert_array_equal(result.sample().project(DOMAIN).values, DATA.project(DOMAIN).values)


def test_the_number_of_records_is_not_asked_where_it_is_public():
    result = made(neighbors=Replace()).fit(DATA, seed=0)
    assert () not in [m.clique for m in result.measurements]
    assert result.sample().records == 400
    assert sum(float(entry.cost.exact[0]) for entry in result.ledger) == pytest.approx(1.0)


def test_the_spine_is_the_only_hierarchy_or_named():
    plain = pg.Dataset.from_codes(RECORDS, dict(DOMAIN))
    assert made(spine="age").fit(plain, seed=0).details["levels"] == {"all": 1, "age": 3}
    given = made(spine=TREE).fit(plain, seed=0)
    assert given.details["levels"] == {"all": 1, "state": 2, "county": 4, "area": 5}
    assert given.model.project("area@state").values.sum() == pytest.approx(given.model.total)
    with pytest.raises(ArgumentError, match="the domain has none: name the attribute of areas as spine="):
        made().fit(plain, seed=0)
    two = DOMAIN.with_hierarchies(pg.Hierarchy("age", {"old": [0, 0, 1]}))
    with pytest.raises(ArgumentError, match=r"those of area, age: .*--parameter spine=NAME on the command line"):
        made().fit(pg.Dataset.from_codes(RECORDS, two), seed=0)
    refused(UnknownAttributeError, "'county' is not an attribute", spine="county")


def test_levels_that_are_equal_count_once():
    tree = pg.Hierarchy("area", {"nation": [0] * 4, "all": [0, 0, 1, 1], "same": [1, 1, 0, 0], "leaf": [3, 2, 0, 1]})
    spine = Spine.of("area", 4, tree)
    assert spine.names == ("nation", "all", "area")
    assert [spine.size(level) for level in range(3)] == [1, 2, 4]
    assert spine.parents(2).tolist() == [0, 0, 1, 1]
    assert Spine.of("area", 1, None).names == ("area",)
    mixed = Spine.of("area", 4, pg.Hierarchy("area", {"state": [1, 0, 1, 0]}))
    assert mixed.order.tolist() == [1, 3, 0, 2]
    assert mixed.parents(2).tolist() == [0, 0, 1, 1]


# -- what is known ---------------------------------------------------------------------------------------------------


def test_what_is_known_of_small_areas_holds_for_large_ones():
    limits = limits_of(SPINE, DOMAIN, DETAIL, [exact(DATA, "area", "sex")], [], 400.0)
    assert [one.hard.sum() for one in limits] == [3, 2, 2, 2]
    by_state = DATA.project(("area@state", "sex")).values
    np.testing.assert_array_equal(limits[1].low, by_state)


def test_each_form_of_invariant_holds():
    whole = pg.Kron({"sex": [[1.0, 1.0]], "area": TREE_QUERY})
    known = [
        exact(DATA, "age", "area@county"),
        exact(DATA, "sex"),
        pg.LinearMeasurement.exact(whole.apply(DATA.project(("sex", "area"))).reshape(-1), ("area", "sex"), whole),
    ]
    sample = made(rho=1e-3, invariants=known).fit(DATA, seed=0).sample()
    for clique in (("age", "area@county"), ("sex",), ("area@state",)):
        np.testing.assert_array_equal(sample.project(clique).values, DATA.project(clique).values)


TREE_QUERY = pg.queries.compress(5, [0, 0, 0, 1, 1])


def test_bounds_of_any_matrix_hold():
    by_area, wide = DATA.project(("area", "sex")).values, DATA.project(("age", "area@county")).values
    more = np.zeros((5, 10))
    more[np.arange(5), 2 * np.arange(5)], more[np.arange(5), 2 * np.arange(5) + 1] = 1.0, -1.0
    measure, least = pg.LinearMeasurement, by_area[:, 0] - by_area[:, 1]
    known = [
        measure.at_least(least, ("area", "sex"), more),
        measure.at_most(wide, ("age", "area@county")),
        measure.at_most(by_area.sum(axis=1)[:2], "area", np.eye(5)[:2]),
        measure.at_least([DATA.records - 1], "sex", [[1.0, 1.0]]),
    ]
    sample = made(rho=1e-3, invariants=known).fit(DATA, seed=0).sample()
    found = sample.project(("area", "sex")).values
    assert np.all(found[:, 0] - found[:, 1] >= least)
    assert np.all(sample.project(("age", "area@county")).values <= wide)
    assert np.all(found.sum(axis=1)[:2] <= by_area.sum(axis=1)[:2])
    assert sample.records >= DATA.records - 1


def test_structural_zeros_hold_at_every_level():
    never = DATA.project(("area", "age")).values < 25
    data = DATA.take(~never[RECORDS[:, 1], RECORDS[:, 2]])
    result = made(rho=1e-3, structural_zeros={("area", "age"): never}).fit(data, seed=0)
    assert not result.project(("area", "age")).values[never].any()
    assert result.details["structural_zeros"].startswith("honored")


def test_counts_that_no_children_can_have_give_way_to_bounds():
    """No row but the sum of ends of two questions follows for a parent, which may then have too few records."""
    least = np.zeros((5, 2))
    least[[0, 1, 2], [0, 1, 0]] = 40
    most = np.full((5, 3), np.inf)
    most[:3, 1:] = 0
    known = [
        pg.LinearMeasurement.between(least, np.inf, ("area", "sex")),
        pg.LinearMeasurement.between(0, most, ("area", "age")),
    ]
    found = made(rho=1e-3, invariants=known).fit(DATA, seed=0).sample()
    assert np.all(found.project(("area", "sex")).values >= least)
    assert np.all(found.project(("area", "age")).values <= most)


@pytest.mark.parametrize("most", [1 << 17, 16])
def test_exact_tables_hold_where_few_of_many_cells_have_records(monkeypatch, most):
    """Children can only hold their tables by records of their parent's cells, few of the cells that might have any."""
    monkeypatch.setattr("pgmest.mechanisms.topdown.whole.MOST_CELLS", most)
    domain, generator = pg.Domain({"sex": 2, "home": 300, "job": 300}), np.random.default_rng(0)
    cells = generator.choice(domain.size(), 10, replace=False)
    records = np.zeros((2, domain.size()))
    records[np.arange(10) % 2, cells] = 1.0
    sex, job = np.repeat(np.eye(2), 300 * 300, axis=1), np.tile(np.repeat(np.eye(2), 150, axis=1), 600)
    rows = np.concatenate([sex, job])
    limits = Limits(rows, records @ rows.T, records @ rows.T, np.ones(records.shape, dtype=bool))
    family, tables = Family(np.zeros(2, dtype=int), records.sum(axis=0)[None]), np.full(records.shape, 1e-4)
    tables[1] *= np.where(job[0] == 1, 9.0, 1.0)
    found = Rounding(domain, (("home",),), generator).children(tables, family, limits, rows)
    assert np.array_equal(found.sum(axis=0), records.sum(axis=0))
    assert np.array_equal(found @ rows.T, records @ rows.T)


def test_parents_change_no_more_than_children_need():
    """The parent's table of sex and work leaves no children with their tables; then its one-way tables stay."""
    domain = pg.Domain({"sex": 2, "work": 2, "old": 2})
    detail = np.indices((2, 2, 2)).reshape(3, -1)
    rows = np.array([detail[axis] == value for axis in (0, 1) for value in (0, 1)], dtype=np.float64)
    known = np.array([[5.0, 0, 5, 0], [0, 5, 0, 5]])  # all of one sex and work in each area
    limits = Limits(rows, known, known, np.ones((2, 8), dtype=bool))
    sums = np.array([0.0, 0, 1, 4, 1, 4, 0, 0])  # which the parent's table says of none
    above = np.concatenate([rows, detail[2:] == 1])
    rounding = Rounding(domain, (), np.random.default_rng(0))
    found = rounding.children(np.tile(sums / 2, (2, 1)), Family(np.zeros(2, dtype=int), sums[None]), limits, above)
    assert np.array_equal(found @ rows.T, known)
    assert np.array_equal(found.sum(axis=0) @ above.T, above @ sums)


def test_a_fact_that_no_records_hold_leaves_the_others_as_they_are():
    """Twice a count is never odd."""
    odd = pg.LinearMeasurement.exact([401.0], ("sex",), np.array([[2.0, 0.0]]))
    with pytest.warns(UnmetFactsWarning, match="1 exact answer does not hold"):
        found = made(rho=0.01, invariants=[exact(DATA, "area", "age"), odd]).fit(DATA, seed=0)
    assert found.details[INVARIANTS].startswith("not held: sex")
    low, high = found.interval(("area", "age"))
    assert np.array_equal(low.values, high.values)


def test_what_cannot_be_known_is_refused_before_anything_is_paid():
    noisy = pg.LinearMeasurement(np.ones(5), "area", stddev=1.0)
    refused(ArgumentError, "the invariant of area has noise", invariants=[noisy])
    pair = pg.LinearMeasurement.exact([3.0], "area", pg.queries.subset(5, [0, 3]))
    refused(QueryError, "values of 'area' that are no area of the spine", invariants=[pair])
    table = pg.LinearMeasurement.exact([3.0], ("area", "sex"), np.eye(10)[[0]] + np.eye(10)[[3]])
    refused(QueryError, "asks different queries in different areas", invariants=[table])
    more = pg.LinearMeasurement.exact(DATA.project("area@state").values + np.arange(2), "area@state")
    refused(ArgumentError, "contradict", invariants=[more], neighbors=Replace())
    apart = "the areas of level 'all' is contradictory: answers of at least 401 and at most 400"
    with pytest.raises(ArgumentError, match=apart):
        limits_of(SPINE, DOMAIN, DETAIL, [exact(DATA, "area"), more], [], None)
    never = [pg.zeros.impossible(("area",), [0, 1, 2])]
    with pytest.raises(ArgumentError, match="the areas of level 'state' is contradictory"):
        limits_of(SPINE, DOMAIN, DETAIL, [more], never, None)
    refused(UnknownAttributeError, "'region' is not", invariants=[pg.LinearMeasurement.exact([1.0], "region")])


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (ArgumentError, "level_shares=.* a share for each of", {"level_shares": {"state": 1.0}}),
        (ArgumentError, "level_shares=.* positive numbers", {"level_shares": {"state": 0.0}}),
        (ArgumentError, "query_shares=.* positive numbers", {"query_shares": {}}),
        (UnknownAttributeError, "'height' is not", {"query_shares": {"height": 1.0}}),
        (ArgumentError, "state the questions once", {"query_shares": {"age": 1.0}, "workload": [("age",)]}),
        (ModelTooLarge, "more than max_megabytes=0.0001", {"max_megabytes": 1e-4}),
    ],
)
def test_arguments_are_checked_before_anything_is_paid(error, text, options):
    refused(error, text, **options)


def test_a_query_of_several_attributes_must_be_a_product():
    item = Item(("age", "sex"), np.ones((1, 6)))
    refused(QueryError, "must be a pg.Kron", workload=Workload((item,)))


# -- degenerate trees ------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pgmest.mechanisms.notices.WeakPromiseWarning")
@pytest.mark.parametrize("sizes", [(1,), (1, 1), (4,), (3, 1)], ids=str)
@pytest.mark.parametrize("records", [0, 1, 50])
def test_small_domains(sizes, records):
    domain = pg.Domain(zip(("area", "x"), sizes, strict=False))
    data = pg.Dataset.from_codes(np.zeros((records, len(sizes)), dtype=int), domain)
    for options in ({"rho": 1e6}, {"epsilon": 1e4, "delta": 0, "rho": None}):
        result = made(spine="area", **options).fit(data, seed=0)
        np.testing.assert_array_equal(result.sample().project("area").values, data.project("area").values)


def test_pure_budgets_have_laplace_noise():
    result = TopDown(epsilon=1.0, delta=0, backend="simulation").fit(DATA, seed=0)
    assert {m.noise for m in result.measurements} == {"discrete_laplace"}
    assert result.sample().records == round(result.model.total)


def test_the_model_can_be_kept_in_a_file(tmp_path):
    result = made().fit(DATA, seed=0)
    result.model.save(tmp_path / "model.npz")
    again = pg.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.sample(seed=3).codes, result.sample(seed=3).codes)
    low, high = again.interval("area@county")
    assert np.all(low.values <= high.values)


# -- runs that end early ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("charges", [2, 5, 14])
@pytest.mark.parametrize("invariants", [(), [("area@state",)]], ids=["nothing held", "states held"])
def test_an_interrupted_run_keeps_what_was_paid(charges, invariants):
    """The answers before the interruption make a model, and what was not asked is not charged."""

    def stop(curator):
        if len(curator.ledger) == charges:
            raise KeyboardInterrupt

    mechanism = made(invariants=invariants)
    whole, cut = (mechanism.fit(DATA, seed=0, progress=one) for one in (False, stop))
    assert cut.interrupted
    assert not whole.interrupted
    assert len(cut.measurements) == charges - 1  # the last charge was not answered
    for one, other in zip(cut.measurements, whole.measurements, strict=False):
        assert np.array_equal(one.values, other.values)
    assert cut.ledger.budget == whole.ledger.budget
    assert [entry.cost for entry in cut.ledger] == [entry.cost for entry in whole.ledger][:charges]
    records = cut.sample(seed=0)
    assert abs(records.records - DATA.records) < 20
    if invariants:
        assert np.array_equal(records.project("area@state").values, DATA.project("area@state").values)


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    mechanism = made()
    check_cut_journal(
        mechanism, DATA, mechanism.fit(DATA, seed=0), tmp_path / "run", lines=6, query_shares={"sex": 1.0}
    )
