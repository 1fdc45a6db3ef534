"""Levels of hierarchies in place of attributes: every kind of model, measurements, workloads, intervals and files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import CodeRangeError, DuplicateAttributeError, QueryError, UnknownAttributeError
from pgmest.queries.levels import level_kron

CHAPTER, REGION = np.array([0, 0, 1, 0, 2, 1]), np.array([1, 0, 0, 1])
TREES = pg.Hierarchy("code", {"chapter": CHAPTER}), pg.Hierarchy("area", {"region": REGION})
DOMAIN = pg.Domain({"code": 6, "area": 4, "sex": 2}).with_hierarchies(*TREES)


def tables() -> dict[tuple[str, ...], pg.Factor]:
    return {pair: pg.Factor.random(DOMAIN.project(pair), seed=3) * 100 for pair in [("code", "area"), ("area", "sex")]}


def estimated(**options: Any) -> Any:
    table = pg.Factor.random(DOMAIN, seed=1) * 10
    noisy = [pg.LinearMeasurement(table.project(pair).values, pair, stddev=1.0) for pair in tables()]
    return pg.estimate(noisy, DOMAIN, **options)


@pytest.fixture(scope="module")
def model() -> Any:
    return estimated()


def by_hand(table: pg.Factor, names: tuple[str, ...]) -> np.ndarray:
    """Return the sums over groups, cell by cell."""
    groups = {"code": CHAPTER, "area": REGION}
    shape = [int(groups[n.split("@")[0]].max()) + 1 if "@" in n else table.domain[n] for n in names]
    found = np.zeros(shape)
    whole = table.project([name.split("@")[0] for name in names]).values
    for cell in np.ndindex(whole.shape):
        place = tuple(groups[n.split("@")[0]][code] if "@" in n else code for n, code in zip(names, cell, strict=True))
        found[place] += whole[cell]
    return found


NAMES = [("code@chapter",), ("sex", "code@chapter"), ("area@region", "code@chapter"), ("area@region", "code", "sex")]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("options", [{}, {"oracle": "convex"}, {"prior": "records"}])
def test_marginals_by_level_are_sums_over_groups(names, options):
    if options.get("prior"):
        options = {"prior": pg.Dataset.from_codes(list(np.indices(DOMAIN.shape).reshape(3, -1)), DOMAIN)}
    found = estimated(**options)
    whole = found.project(("code", "area", "sex"))
    one = found.project(names)
    assert one.domain.attributes == names
    assert np.allclose(one.values, by_hand(whole, names))
    assert all(
        np.allclose(a.values, by_hand(whole, b))
        for a, b in zip(found.project_many([names, "sex"]), [names, ("sex",)], strict=True)
    )
    assert np.allclose(found.answer(level_kron(found.domain, names)).values, one.values)


def test_data_are_counted_by_level():
    rng = np.random.default_rng(0)
    data = pg.Dataset.from_codes([rng.integers(size, size=50) for size in DOMAIN.shape], DOMAIN)
    whole = data.project(("code", "area", "sex"))
    for names in NAMES:
        assert np.array_equal(data.project(names).values, by_hand(whole, names))
        assert np.array_equal(data.project_many([names, ("sex",)])[0].values, by_hand(whole, names))


def test_evidence_may_be_a_group(model):
    whole = model.project(("code", "sex"))
    chapter = by_hand(whole, ("code@chapter", "sex"))
    assert np.allclose(model.project("sex", given={"code@chapter": 1}).values, chapter[1])
    with pytest.raises(QueryError, match="is given"):
        model.project("code", given={"code@chapter": 1})
    with pytest.raises(CodeRangeError):
        model.project("sex", given={"code@chapter": 3})


def test_queries_by_level(model):
    prefix = pg.queries.prefix(3)
    chapters = model.project("code@chapter").values
    assert np.allclose(model.answer(prefix, "code@chapter").values, np.cumsum(chapters))
    answer = model.answer(pg.Kron({"code@chapter": prefix, "sex": pg.queries.total(2)}))
    assert answer.domain.attributes == ("code@chapter", "sex")
    assert np.allclose(answer.values[:, 0], np.cumsum(chapters))
    pair = model.project(("code@chapter", "sex")).datavector()
    assert np.allclose(model.answer(np.eye(6)[2], ("code@chapter", "sex")).values, pair[2])
    with pytest.raises(QueryError, match="3 columns"):
        model.answer(pg.queries.prefix(6), "code@chapter")


def test_measurements_of_a_level_are_those_of_the_sums():
    counts = np.array([[30.0, 10.0], [20.0, 5.0], [8.0, 2.0]])
    by_group = pg.LinearMeasurement(counts, ("code@chapter", "sex"), stddev=0.1)
    matrix = np.eye(3)[CHAPTER].T
    by_sums = pg.LinearMeasurement(
        counts, ("code", "sex"), stddev=0.1, query=pg.Kron({"code": matrix, "sex": pg.queries.identity(2)})
    )
    models = [pg.estimate([one], DOMAIN, total=75) for one in (by_group, by_sums)]
    assert np.allclose(models[0].project(("code", "sex")).values, models[1].project(("code", "sex")).values)
    assert np.allclose(models[0].project(("code@chapter", "sex")).values, counts, atol=0.5)


def test_exact_totals_of_a_level_are_held():
    exact = pg.LinearMeasurement.exact([50, 30, 20], ("code@chapter",))
    noisy = pg.LinearMeasurement(np.full((6, 4), 4.0), ("code", "area"), stddev=2.0)
    found = pg.estimate([exact, noisy], DOMAIN)
    assert np.allclose(found.project("code@chapter").values, [50, 30, 20], atol=1e-7)
    assert found.sample(seed=0).project("code@chapter").values.tolist() == [50, 30, 20]


@pytest.mark.parametrize("kind", ["errors", "noise", "bounds"])
def test_intervals_by_level_are_those_of_the_sums(model, kind):
    low, high = pg.interval(model, ("code@chapter", "sex"), kind=kind)
    query = pg.Kron({"code": np.eye(3)[CHAPTER].T, "sex": pg.queries.identity(2)})
    other_low, other_high = pg.interval(model, query, kind=kind)
    assert low.domain.attributes == ("code@chapter", "sex")
    assert np.allclose(low.values, other_low.values)
    assert np.allclose(high.values, other_high.values)
    assert (low.values <= model.project(("code@chapter", "sex")).values + 1e-6).all()
    share = lambda table: table.values[0].sum() / table.values.sum()  # noqa: E731
    least, most = pg.interval(model, share, ("code@chapter", "sex"), kind="errors")
    assert least.values < share(model.project(("code@chapter", "sex"))) < most.values


def test_files_keep_levels(model, tmp_path):
    model.save(tmp_path / "model.npz")
    again = pg.load(tmp_path / "model.npz")
    assert np.allclose(again.project("code@chapter").values, model.project("code@chapter").values)
    low, _ = pg.interval(again, "code@chapter")
    assert low.domain.attributes == ("code@chapter",)


def test_models_of_equal_domains_keep_their_own_hierarchies():
    plain = pg.Domain(dict(DOMAIN))
    table = {pair: pg.LinearMeasurement(one.values, pair, stddev=1.0) for pair, one in tables().items()}
    for domain in (plain, DOMAIN, plain):
        found = pg.estimate(table.values(), domain)
        assert found.domain.hierarchies == domain.hierarchies


def test_workloads_by_level():
    workload = pg.workloads.as_workload(DOMAIN, pg.workloads.by_level(DOMAIN, [("code", "area")]))
    assert workload.cliques == (("code", "area"),) * 4
    assert [item.rows(DOMAIN) for item in workload] == [6, 12, 12, 24]
    assert workload.sensitivity() == 4


@pytest.mark.filterwarnings("ignore:MST uses the attributes of a workload only")
@pytest.mark.parametrize("mechanism", ["LAMP", "AIM", "MST", "HDMM"])
def test_mechanisms_take_workloads_by_level_and_answer_by_level(mechanism):
    rng = np.random.default_rng(0)
    data = pg.Dataset.from_codes([rng.integers(size, size=500) for size in DOMAIN.shape], DOMAIN)
    run = getattr(pg.mechanisms, mechanism)(epsilon=5.0, backend="simulation")
    result = run.fit(data, [("code@chapter", "sex"), ("area@region", "code")], seed=0, progress=False)
    found = result.project(("code@chapter", "sex"))
    assert np.allclose(found.values, by_hand(result.model.project(("code", "sex")), ("code@chapter", "sex")))
    assert np.abs(found.values - data.project(("code@chapter", "sex")).values).max() < 60
    low, high = result.interval("area@region")
    assert (low.values <= high.values).all()


def test_two_levels_of_one_attribute_are_refused(model):
    with pytest.raises(DuplicateAttributeError):
        model.project(("code@chapter", "code"))
    with pytest.raises(UnknownAttributeError, match="code@chapter"):
        model.project("code@chapters")


REGIONS = {"area@region": 1}


def test_every_kind_of_query_takes_given_levels(model):
    """The answer is that of the codes of the group, added up; axes are those of the query without the given level."""
    table = model.project(("code", "area", "sex")).values[:, REGION == 1].sum(axis=1)
    by_chapter = np.stack([table[group == CHAPTER].sum(axis=0) for group in range(3)])
    difference = pg.Kron({"sex": [[1, -1]]})
    for found, expected in [
        (model.project(("code@chapter", "sex"), REGIONS), by_chapter),
        (model.answer(difference, given=REGIONS), table.sum(axis=0)[:1] - table.sum(axis=0)[1:]),
        (model.answer([difference, difference], given=REGIONS)[1], table.sum(axis=0)[:1] - table.sum(axis=0)[1:]),
        (model.answer(np.eye(3), "code@chapter", REGIONS), by_chapter.sum(axis=1)),
        (model.project("sex", {**REGIONS, "code": 4}), table[4]),
        (model.project((), {"area@region": 0, "code@chapter": 2}), model.project((), {"code": 4}) - table[4].sum()),
    ]:
        assert np.allclose(found.values, getattr(expected, "values", expected))
    assert model.project(("code@chapter", "sex"), REGIONS).domain.attributes == ("code@chapter", "sex")


@pytest.mark.parametrize("kind", ["errors", "bounds"])
def test_intervals_take_given_levels(model, kind):
    """Ends are about the answers with the same given levels, and as those of the cells of the level."""
    whole = model.interval(("area@region", "sex"), kind=kind)
    for query, clique in [("sex", None), (pg.queries.identity(2), "sex"), (pg.Kron({"sex": np.eye(2)}), None)]:
        low, high = model.interval(query, clique, REGIONS, kind=kind)
        counts = model.project("sex", REGIONS).values
        assert low.values.shape == (2,)
        assert ((low.values <= counts) & (counts <= high.values)).all()
        assert np.allclose(high.values - low.values, whole.width.values[1], atol=1.0)
    one, several = (model.interval("sex", given=given, kind=kind) for given in (REGIONS, {**REGIONS, "code": 4}))
    assert (several.high.values < one.high.values).all()


def test_functions_of_a_model_read_given_levels(model):
    found = model.interval(lambda one: one.project("sex", REGIONS))
    assert np.allclose((found.low.values + found.high.values) / 2, model.project("sex", REGIONS).values, rtol=0.1)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"area@region": 2}, CodeRangeError),
        ({"area@region": True}, CodeRangeError),
        ({"area@region": "north"}, CodeRangeError),
        ({"area@country": 0}, UnknownAttributeError),
        ({"area@region": 0, "area": 1}, QueryError),
        ({"code@chapter": 0}, QueryError),
    ],
    ids=["out of range", "a truth value", "a label", "no level", "given twice", "asked and given"],
)
def test_given_levels_that_do_not_fit_are_refused_alike(model, given, error):
    query = pg.Kron({"code": np.ones((1, 6))})
    for ask in (model.project, model.interval, lambda _, given: model.answer(query, given=given)):
        with pytest.raises(error):
            ask("code", given=given)


def test_functions_of_a_table_have_no_given_levels(model):
    with pytest.raises(QueryError, match="'area@region' is given for a query of type function: give attributes"):
        model.interval(lambda table: table, "sex", REGIONS)


def test_matrices_on_several_attributes_take_given_levels(model):
    """An answer and its interval count the records of a region, as a Kron over both attributes does."""
    rows = np.arange(24.0).reshape(2, 12)
    answer = model.answer(rows, ("code", "sex"), REGIONS)
    table = model.project(("code", "sex"), REGIONS).values
    np.testing.assert_allclose(answer.values, rows @ table.ravel())
    for kind in ("errors", "bounds"):
        low, high = model.interval(rows, ("code", "sex"), REGIONS, kind=kind)
        assert low.domain == answer.domain
        assert np.all((low.values <= answer.values + 1e-6) & (answer.values <= high.values + 1e-6))


def test_intervals_have_the_axes_of_answers(model):
    for query, clique in ((np.eye(3), "code@chapter"), (pg.Kron({"code@chapter": np.eye(3)}), None)):
        answer = model.answer(query, clique)
        for kind in ("errors", "noise", "bounds"):
            assert model.interval(query, clique, kind=kind).low.domain == answer.domain
