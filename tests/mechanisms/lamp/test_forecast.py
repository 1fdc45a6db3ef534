"""The forecast: what it assumes, and that runs on real tables come out as it says."""

from __future__ import annotations

import math
from functools import reduce
from itertools import combinations

import numpy as np
import pytest

import pgmest as pg
from experiments.data import load
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms import LAMP
from pgmest.mechanisms.lamp.candidates import DEVIATION, SHARE_GRID
from pgmest.mechanisms.lamp.dependence import Dependence
from pgmest.mechanisms.lamp.emphasis import VISIBLE
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.remedies import forecast_of
from pgmest.mechanisms.lamp.scorer import COARSE_LEVEL
from pgmest.mechanisms.lamp.typical_tables import CLASSES, TYPICAL, typical_counts, typical_dependences
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.privacy import AddRemove
from pgmest.workloads import emphasized, marginals


def forecast(domain, records, workload=None, **parameters):
    known = pg.Domain(domain)
    return forecast_of(LAMP(**parameters), known, WorkloadDemand.of(known, workload), records)


def table(name):
    if name == "census":
        return pg.datasets.load("census")
    try:
        return load(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("name", "attributes", "epsilon", "delta", "persons"),
    [
        ("census", 11, 1.0, 1e-9, 1),
        ("census", 9, 2.0, 1e-9, 4),
        ("titanic", None, 2.0, 1e-9, 1),
        ("titanic", None, 1.0, 0.0, 1),  # all pairs are measured without scores
        ("acs/MA2019", 9, 1.0, 1e-9, 1),
    ],
)
def test_runs_on_real_tables_come_out_as_planned(name, attributes, epsilon, delta, persons):
    data, neighbors = table(name), AddRemove(persons)
    data = data.select(data.domain.attributes[:attributes])
    mechanism = LAMP(epsilon=epsilon, delta=delta, backend="simulation", records=20_000, neighbors=neighbors)
    plan = mechanism.plan(data.domain, data.records)
    result = mechanism.fit(data, seed=1, progress=False)

    def error(clique):
        scale = data.records / result.model.total
        return 0.5 * np.abs(result.project(clique).values * scale - data.project(clique).values).sum() / data.records

    measured = {measurement.clique for measurement in result.measurements if len(measurement.clique) == 2}
    one_way = np.mean([error((attribute,)) for attribute in data.domain])
    assert 0.5 < np.mean(list(plan.one_way_errors.values())) / one_way < 2
    assert plan.likely_error is not None
    assert 0.5 < plan.likely_error / np.mean([error(pair) for pair in measured]) < 2
    low, high = plan.likely
    assert low / 1.5 <= len(measured) <= 1.5 * high


def test_the_intervals_of_one_way_counts_hold_as_often_as_they_say():
    census = pg.datasets.load("census").select(["age", "sex", "education-num", "income>50K", "hours-per-week"])
    mechanism = LAMP(epsilon=0.5, backend="simulation", records=5000)
    widths = {t.clique[0]: t.half_width for t in mechanism.plan(census.domain, census.records).one_way}
    inside = []
    for seed in range(3):
        result = mechanism.fit(census, seed=seed, progress=False)
        for name in census.domain:
            inside += list(np.abs(result.project((name,)).values - census.project((name,)).values) <= widths[name])
    assert np.mean(inside) > 0.9


def test_where_measuring_costs_less_than_scores_all_pairs_are_measured():
    domain = {f"x{i}": 2 for i in range(8)}
    workload = emphasized(domain, None, [("x0", "x1")])
    plan = LAMP(epsilon=1.0).plan(domain, 2000, workload)
    assert plan.likely == (28, 28)
    assert "All are measured without scores" in str(plan)
    assert "cannot carry" not in str(plan)
    assert plan.to_json()["matters"] == [{"clique": ["x0", "x1"], "measured": True}]
    data = pg.Dataset.from_codes(np.random.default_rng(0).integers(2, size=(2000, 8)), pg.Domain(domain))
    result = LAMP(epsilon=1.0, backend="simulation", records=1000).fit(data, workload, seed=0, progress=False)
    assert sum(len(measurement.clique) == 2 for measurement in result.measurements) == 28


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_error_and_the_interval_of_a_table_that_matters_come_true(epsilon):
    pair = ("age", "income>50K")
    data = pg.datasets.load("census").select(["age", "sex", "education-num", "income>50K", "hours-per-week", "race"])
    data, workload = data.take(np.arange(8000)), emphasized(data.domain, None, [pair])
    mechanism = LAMP(epsilon=epsilon, backend="simulation", records=8000, neighbors=AddRemove(4))
    planned = next(t for t in mechanism.plan(data.domain, data.records, workload).tables if t.clique == pair)
    errors, inside = [], []
    for seed in range(3):
        result = mechanism.fit(data, workload, seed=seed, progress=False)
        off = np.abs(result.project(pair).values - data.project(pair).values)
        errors.append(off.sum() / (2 * data.records))
        inside.append(np.mean(off <= planned.half_width))
    assert 0.5 < planned.error / np.mean(errors) < 2
    assert np.mean(inside) > 0.9


@pytest.mark.parametrize("sizes", [(40, 9), (9, 90), (4, 5, 70)], ids=str)
@pytest.mark.parametrize("dependence", [0.0, 0.18])
def test_the_error_inside_groups_is_that_of_the_whole_table(sizes, dependence):
    """The sums over cells are those of the table; a simulated table has such errors after its groups are divided."""
    records, rng = 20_000.0, np.random.default_rng(0)
    kind = forecast(dict(zip("abc", sizes, strict=False)), int(records), epsilon=1.0).kind_of(sizes)
    sides = [typical_counts(size, 1.0) for size in kind.sizes]
    table = reduce(np.multiply.outer, sides)
    for level, finest in enumerate(kind.finest):
        found = kind.inside(level, dependence)
        groups = [own[min(level, len(own) - 1)] for own in map(nested_groups, sides)]
        inverse = [np.eye(int(labels[-1]) + 1)[labels] for labels in groups]
        share = reduce(np.multiply.outer, kind.alone[level])
        spread = table ** DEVIATION[False]
        systematic = 2 * records * min(dependence, kind.most)
        hidden = Dependence(VISIBLE * systematic, systematic).left_within(level, COARSE_LEVEL)
        scale = 0.0 if finest else hidden / (MEAN_ABSOLUTE * (spread * (1 - share)).sum())
        variances = (records * table + (scale * spread) ** 2) * (1 - share)
        assert found == pytest.approx(math.sqrt(float((table * variances).sum())), rel=1e-6, abs=1e-3)
        assert (found < 1e-6) == finest
        if not dependence:
            squares = []
            for _ in range(60):
                drawn = rng.poisson(records * table).astype(float)
                sums = drawn
                for axis, member in enumerate(inverse):
                    sums = np.moveaxis(np.tensordot(sums, member @ member.T, axes=(axis, 0)), -1, axis)
                squares.append(float((table * np.square(drawn - sums * share)).sum()))
            assert found == pytest.approx(math.sqrt(np.mean(squares)), rel=0.25, abs=1e-3)


@pytest.mark.parametrize("sizes", [(40, 9), (3, 4), (4, 5, 12)], ids=str)
def test_what_rare_cells_lose_is_missing_in_frequent_ones(sizes):
    """Over codes, cell by cell: the lost share of all deviations, times the deviations' mean over the records."""
    records, dependence, precision = 20_000.0, 0.1, 1 / 60.0**2
    kind = forecast(dict(zip("abc", sizes, strict=False)), int(records), epsilon=1.0).kind_of(sizes)
    table = reduce(np.multiply.outer, [typical_counts(size, 1.0) for size in kind.sizes])
    shape = table ** DEVIATION[table.size <= 64]
    deviations = 2 * records * dependence * shape / (MEAN_ABSOLUTE * shape.sum())
    kept = 1 - 1 / (1 + precision * (deviations**2 + records * table))
    lost = ((1 - kept) * deviations).sum() / deviations.sum()
    level = kind.finest.index(True)
    expected = lost * math.sqrt(float((table * deviations**2).sum()))
    assert kind.shrunk(level, dependence, precision) == pytest.approx(expected, rel=0.1)
    assert kind.shrunk(level, 0.0, precision) == 0.0
    assert kind.shrunk(level, dependence, 1e9) < 1e-3 * expected


def test_pairs_of_many_values_are_less_certain_inside_their_groups():
    """A pair is less certain than noise makes it, and without groups by what shrinkage takes off alone."""
    few, many = (forecast({f"x{i}": size for i in range(6)}, 30_000, epsilon=1.0) for size in (2, 60))
    for found, inside in ((few, False), (many, True)):
        kind, pair = found.kind(("x0", "x1")), ("x0", "x1")
        candidate, share = kind.candidate((len(CLASSES) - 3,)), found.if_measured(pair).share
        level = candidate.level(share)
        precision = float(found.first.noise_model.interaction_precision(share, kind.shape(level)))
        variance = found._variance(kind, candidate, share, 0.18) - 1 / precision
        shrunk = kind.shrunk(level, 0.18, precision) ** 2
        assert variance == pytest.approx(shrunk + kind.inside(level, 0.18) ** 2)
        assert (kind.inside(level, 0.18) > 1.0) == inside
        assert found.if_measured(pair).half_width > 1.96 / math.sqrt(precision)


def test_dependences_that_are_not_worth_their_cost_do_not_widen_intervals():
    found = forecast({f"x{i}": 8 for i in range(12)}, 20_000, epsilon=0.5)
    pair = ("x0", "x1")
    kind, importance = found.kind(pair), found.tables[pair]
    least = found.least(kind, importance)
    assert TYPICAL[0.5] < least
    variances = {}
    for dependence in (TYPICAL[level] for level in (0.5, 0.75, 0.9, 0.95)):
        candidate = kind.candidate((int(np.abs(CLASSES - dependence).argmin()),))
        share = max(found.share_of(candidate, importance), SHARE_GRID[1])
        variances[dependence] = found._variance(kind, candidate, share, dependence)
    worth = [variance for dependence, variance in variances.items() if dependence >= least]
    assert 0 < len(worth) < len(variances)
    assert found._typical_variance(kind, importance) == pytest.approx(np.mean(worth))
    assert np.mean(worth) < np.mean(list(variances.values()))


def test_a_table_that_is_measured_gets_a_share_that_is_worth_its_cost():
    """With little budget for many tables, equal prices would give each of them next to nothing."""
    found, cheap = forecast({f"x{i}": 20 for i in range(24)}, 7_000, epsilon=0.3), 0
    for pair in (("x0", "x1"), ("x3", "x9")):
        kind, importance = found.kind(pair), found.tables[pair]
        for place in range(6, len(CLASSES)):
            candidate = kind.candidate((place,))
            share = found.share_if_measured(candidate, importance)
            assert share == found.left or candidate.reduction(share) >= found.worth
            cheap += share > found.share_of(candidate, importance)
    assert cheap > 10


def test_even_values_are_the_worst_case():
    found = forecast({"code": 600, "ward": 12, "sex": 2}, 8000, epsilon=1.0, neighbors=AddRemove(4)).one_way
    assert all(table.error <= table.worst <= 1 for table in found.values())
    assert found["code"].worst > 2 * found["code"].error
    rng, domain = np.random.default_rng(0), pg.Domain({"code": 600, "ward": 12, "sex": 2})
    columns = [rng.integers(size, size=8000).astype(np.uint16) for size in domain.shape]
    data = pg.Dataset.from_codes(columns, domain)
    mechanism = LAMP(epsilon=1.0, neighbors=AddRemove(4), backend="simulation", records=2000)
    result = mechanism.fit(data, seed=0, progress=False)
    scale = 8000 / result.model.total
    error = np.abs(result.project(("code",)).values * scale - data.project(("code",)).values).sum() / 16_000
    assert error < 1.3 * found["code"].worst


def test_the_number_of_pairs_grows_with_the_budget_and_the_records():
    domain = {f"x{i}": 2 + 3 * i for i in range(8)}
    counts = [len(forecast(domain, n, epsilon=e).measured()) for n, e in [(1000, 0.01), (1000, 1.0), (10**5, 1.0)]]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] > counts[1]


def test_a_person_with_more_records_is_like_a_smaller_budget():
    domain = {"a": 30, "b": 20, "c": 2}
    one, four = (forecast(domain, 5000, epsilon=1.0, neighbors=AddRemove(k)).if_measured(("a", "b")) for k in (1, 4))
    assert one.error < four.error
    assert one.least <= four.least
    assert one.half_width < four.half_width


def test_emphasis_lowers_the_error_of_a_table_and_raises_that_of_others():
    domain = {"a": 30, "b": 20, "c": 2, "d": 5, "e": 8}
    plain, weighted = (
        forecast(domain, 5000, workload, epsilon=1.0) for workload in (None, emphasized(domain, None, [("a", "c")]))
    )
    assert weighted.emphasized == [("a", "c")]
    assert set(weighted.ahead) == {("a", "c")}
    assert weighted.if_measured(("a", "c")).error < plain.if_measured(("a", "c")).error
    assert weighted.one_way["b"].error >= plain.one_way["b"].error
    heavy = forecast(domain, 5000, marginals(combinations(domain, 2), [50.0, *[1.0] * 9]), epsilon=1.0)
    assert heavy.emphasized == []


def test_what_the_budget_cannot_carry_is_not_measured_ahead():
    domain = {"code": 600, "postal": 90, "sex": 2}
    found = forecast(domain, 8000, emphasized(domain, None, [("code", "postal"), ("code", "sex")]), epsilon=0.5)
    assert set(found.emphasized) == {("code", "postal"), ("code", "sex")}
    assert ("code", "postal") not in found.ahead


def test_a_dependence_is_worth_its_cost_from_the_least_one_on():
    found = forecast({"a": 12, "b": 9, "c": 40, "d": 2}, 3000, epsilon=1.0)
    for pair in found.tables:
        kind, least = found.kind(pair), found.least(found.kind(pair), 1.0)
        paying = [found.pays(kind, place, 1.0) for place in range(int((kind.most > CLASSES).sum()))]
        assert paying == sorted(paying), pair
        assert least == (CLASSES[paying.index(True)] if any(paying) else math.inf)


@pytest.mark.parametrize(
    ("domain", "records", "workload"),
    [
        ({"a": 1}, 1, None),
        ({"a": 1, "b": 1}, 10, None),
        ({"a": 2, "b": 1}, 10, None),
        ({"a": 50_000, "b": 40_000, "c": 2}, 100, None),
        ({"a": 3, "b": 4}, 10**9, None),
        ({"a": 3, "b": 4, "c": 5, "d": 2}, 1000, [("a", "b", "c", "d")]),
        ({"a": 3, "b": 4, "c": 5}, 1000, ["a"]),
        ({"a": 3, "b": 4, "c": 5}, 1000, marginals([("a", "b", "c"), ("a", "b")], [100.0, 1.0])),
        ({"a": 10, "b": 4}, 1000, pg.workloads.prefixes({"a": 10, "b": 4}, [("a", "b")], ["a"])),
    ],
)
@pytest.mark.parametrize("budget", [{"epsilon": 1e-6}, {"epsilon": 1.0, "delta": 0}, {"rho": 0.1}, {"epsilon": 200.0}])
def test_plans_of_unusual_tables(domain, records, workload, budget):
    plan = LAMP(**budget).plan(domain, records, workload)
    assert str(plan).startswith("LAMP with ")
    assert "nan" not in str(plan)
    assert all(0 <= table.error <= 1 and table.half_width >= 0 for table in (*plan.one_way, *plan.tables))
    assert 0 <= plan.likely[0] <= plan.likely[1] <= len(plan.tables)
    assert not {"nan", "inf"} & set(str(plan.to_json()).replace(",", " ").split())


def test_the_assumptions():
    counts = typical_counts(5, 100)
    assert counts.sum() == pytest.approx(100)
    assert list(counts) == sorted(counts, reverse=True)
    drawn = typical_dependences(1000)
    assert np.quantile(drawn, 0.5) == pytest.approx(TYPICAL[0.5], abs=0.002)
    assert np.quantile(drawn, 0.95) == pytest.approx(TYPICAL[0.95], abs=0.01)
    assert len(list(combinations(range(3), 2))) == len(forecast({"a": 2, "b": 2, "c": 2}, 10, rho=1.0).tables)
