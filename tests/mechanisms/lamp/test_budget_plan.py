"""The plan of a budget and the report on a run."""

import json
import math

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.mechanisms import LAMP
from pgmest.mechanisms.lamp import level_forecast
from pgmest.mechanisms.lamp.budget_plan import MeasuredMarginal, measurement_report
from pgmest.mechanisms.lamp.remedies import forecast_of
from pgmest.mechanisms.lamp.tree_counts import level_parts
from pgmest.mechanisms.lamp.typical_tables import typical_counts
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand

DOMAIN = {"age": 85, "sex": 2, "income": 2, "nothing": 1}


def test_a_plan_spends_nothing_and_grows_with_the_budget():
    poor, rich = (LAMP(rho=rho).plan(DOMAIN, 10_000) for rho in (1e-9, 1.0))
    assert poor.independent_only
    assert "WARNING: this budget allows one-way marginals only" in str(poor)
    assert not rich.independent_only
    assert "WARNING" not in str(rich)
    assert rich.one_way_errors["age"] < poor.one_way_errors["age"]
    assert rich.score_stddev < poor.score_stddev
    assert ("age", "nothing") not in rich.least_dependence  # they cannot depend
    assert rich.least_dependence[("age", "sex")] == 0  # even the sampling error is worth measuring
    some = LAMP(rho=1e-5).plan(DOMAIN, 10_000)
    assert 0 < some.least_dependence[("sex", "income")] < some.least_dependence[("age", "sex")] <= 0.5


def test_the_plan_agrees_with_what_the_run_does_first():
    census = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    mechanism = LAMP(rho=0.1, backend="simulation", records=5000)
    plan = mechanism.plan(census.domain, census.records)
    measured = mechanism.fit(census, seed=0, progress=False).details["measured_marginals"]
    for marginal in measured[:3]:
        assert plan.first_stddev[marginal.clique[0]] == pytest.approx(marginal.stddev, rel=0.01)


def test_arguments_of_a_plan_are_checked():
    with pytest.raises(ArgumentError, match="records"):
        LAMP(rho=1.0).plan(DOMAIN, 0)
    assert LAMP(epsilon=1.0, delta=0).plan(DOMAIN, 100, workload=["age"]).least_dependence == {}


def test_the_report_says_what_was_measured_and_why():
    measured = [
        MeasuredMarginal(0, ("age",), (85,), 0.2, 3.0),
        MeasuredMarginal(1, ("age", "sex"), (8, 2), 0.5, 2.0, 0.3, 0.01),
        MeasuredMarginal(2, ("sex", "income"), (2, 2), 0.1, 5.0, 0.1, 0.02),
    ]
    lines = measurement_report(measured).splitlines()
    assert lines[0] == "20% of the budget for one-way marginals, the rest for 2 pairs and scores"
    assert lines[2].split() == ["age", "x", "sex", "1", "8x2", "50.00%", "0.3000", "0.0100"]
    assert measurement_report(measured[:1]).count("\n") == 0
    many = [MeasuredMarginal(1, ("a", "b"), (2, 2), 0.01, 1.0, 0.2, 0.1)] * 20
    assert measurement_report(many).endswith("and 8 measurements with less gain")


def test_a_plan_for_triples_tells_of_them_too():
    plan = LAMP(rho=1.0).plan(DOMAIN, 10_000, workload=[("age", "sex", "income")])
    assert set(plan.least_dependence) == {
        ("age", "sex"),
        ("age", "income"),
        ("sex", "income"),
        ("age", "sex", "income"),
    }
    assert "age x sex x income" in str(plan)
    assert "of 4 tables are likely to be measured" in str(plan)
    assert LAMP(rho=1.0).plan(DOMAIN, 100, pg.workloads.prefixes(DOMAIN, [("age",)], ["age"])).least_dependence == {}


def test_the_report_names_triples_and_the_public_table():
    measured = [MeasuredMarginal(3, ("a", "b", "c"), (2, 2, 2), 0.5, 2.0, 0.3, 0.01)]
    assert measurement_report(measured).splitlines()[0].endswith("the rest for 0 pairs, 1 triple and scores")
    assert "the public table gives the dependence of 2 pairs" in measurement_report(measured, 2)


def test_the_text_says_what_is_lost_and_what_would_help():
    domain = {"code": 600, "postal": 90, "age": 20, "sex": 2, "readmitted": 2}
    mechanism = LAMP(epsilon=1.0, neighbors=pg.privacy.AddRemove(4))
    plan = mechanism.plan(domain, 8000)
    text = " ".join(str(plan).split())
    assert text.startswith("LAMP with epsilon 1 and delta 1e-09 for 4 records of a person, added or removed together")
    assert "No record was read" in text
    assert plan.too_weak[0].clique == ("code", "postal")
    assert "code x postal, 54,000 cells: no reasonable budget is enough, or at most" in text
    assert "it takes epsilon" in text
    helps = text.split("What would help:")[1]
    assert all(text in helps for text in ("--matters", "epsilon 2:", "at_most 2 instead of 4", "coarser bins"))
    found = json.loads(json.dumps(plan.to_json()))
    assert found["likely_measured"] == list(plan.likely)
    assert len(found["tables"]) == 10
    assert found["too_weak"][0]["clique"] == ["code", "postal"]


def test_what_a_weak_table_takes_is_enough():
    domain = {"code": 120, "ward": 12, "sex": 2, "age": 20, "stay": 10, "year": 5}
    plan = LAMP(epsilon=0.3).plan(domain, 8000)
    weak = next(weak for weak in plan.too_weak if weak.clique == ("code", "ward"))
    assert weak.budget is not None
    assert weak.budget.startswith("epsilon ")
    epsilon = float(weak.budget.split()[1])
    assert 0.3 < epsilon < 100
    assert weak.values is not None
    assert 2 <= weak.values < 120
    rich = LAMP(epsilon=4 * epsilon).plan(domain, 8000)  # the table has a smaller share there, beside others
    assert ("code", "ward") not in {weak.clique for weak in rich.too_weak}
    coarse = LAMP(epsilon=0.3).plan({name: min(size, weak.values // 2) for name, size in domain.items()}, 8000)
    assert ("code", "ward") not in {weak.clique for weak in coarse.too_weak}


def test_tables_that_matter_are_named_with_what_becomes_of_them():
    domain = {"code": 600, "postal": 90, "age": 20, "sex": 2, "readmitted": 2}
    workload = pg.workloads.emphasized(domain, None, [("age", "readmitted"), ("code", "postal")])
    plan = LAMP(epsilon=1.0, neighbors=pg.privacy.AddRemove(4)).plan(domain, 8000, workload)
    text = " ".join(str(plan).split())
    assert plan.ahead == (("age", "readmitted"),)
    assert "* age x readmitted matters: it is measured in any case" in text
    assert "! code x postal matters, but the budget cannot carry it" in text
    assert plan.to_json()["matters"] == [
        {"clique": ["code", "postal"], "measured": False},
        {"clique": ["age", "readmitted"], "measured": True},
    ]
    assert "--matters" not in text


# -- by level of a hierarchy ---------------------------------------------------------------------------------------


def of_codes(order, workload=None, **options):
    """Return a plan for 60 codes in 12 blocks in 3 chapters, listed in an order, and two other attributes."""
    tree = pg.Hierarchy("code", {"chapter": order // 20, "block": order // 5})
    domain = pg.Domain({"code": 60, "sex": 2, "age": 6}).with_hierarchies(tree)
    return LAMP(**{"epsilon": 1.0, "delta": 1e-9, **options}).plan(domain, 10_000, workload)


def test_plans_have_a_line_for_each_level_whose_error_is_smaller_the_coarser_it_is():
    plan = of_codes(np.arange(60))
    found = {table.clique: table for table in plan.by_level}
    assert set(found) == {
        (f"code@{level}", *more) for level in ("chapter", "block") for more in ((), ("sex",), ("age",))
    }
    codes = {table.clique: table.error for table in (*plan.one_way, *plan.tables)}
    for more in ((), ("sex",), ("age",)):
        chapter, block = (found[f"code@{level}", *more] for level in ("chapter", "block"))
        assert 0 < chapter.error < block.error < codes["code", *more]
        assert more or 0 < chapter.half_width < 2 * block.half_width  # a chapter is the sum of four blocks
    assert found["code@chapter", "age"].cells == 18
    text = str(plan)
    assert [line.split()[0] for line in text.splitlines() if line.startswith("code")][:3] == [
        "code",
        "code@chapter",
        "code@block",
    ]
    assert "code@block x age" in text
    assert {tuple(one["clique"]) for one in plan.to_json()["by_level"]} == set(found)


def test_the_order_of_codes_does_not_matter_for_a_plan():
    shuffled = np.random.default_rng(0).permutation(60)
    assert str(of_codes(shuffled)) == str(of_codes(np.arange(60)))


def test_a_workload_says_which_levels_are_listed():
    asked = [("code@chapter", "sex"), ("code", "age")]
    pairs = [table.clique for table in of_codes(np.arange(60), asked).by_level if len(table.clique) == 2]
    assert pairs == [("code@chapter", "sex")]
    plain = LAMP(epsilon=1.0, delta=1e-9).plan({"code": 60, "sex": 2}, 10_000)
    assert plain.by_level == ()
    assert "by_level" not in plain.to_json()


@pytest.mark.parametrize("level", ["chapter", "block"])
def test_the_noise_of_a_level_is_that_of_least_squares_from_all_levels(level):
    """Compare with the covariance of least squares in which the number of records is known."""
    tree = pg.Hierarchy("code", {"chapter": np.arange(60) // 20, "block": np.arange(60) // 5})
    domain = pg.Domain({"code": 60, "sex": 2}).with_hierarchies(tree)
    forecast = forecast_of(LAMP(rho=0.1), domain, WorkloadDemand.of(domain, None), 10_000.0)
    groups = tree.size(level)
    rows, weights = [], []
    levels = [tree.groups("chapter"), tree.groups("block"), np.arange(60)]
    shares = np.maximum(0.2 * level_parts(levels, 1.0), [1 / 16, 0.0, 0.0])  # the coarsest of three levels has a 16th
    for labels, share in zip(levels, shares, strict=True):
        rows.append((labels == np.arange(labels.max() + 1)[:, None]).astype(float))
        weights += [float(forecast.first.noise_model.precision(share))] * len(rows[-1])
    matrix = np.concatenate([*rows, np.ones((1, 60))])
    precision = matrix.T @ (np.array([*weights, 1e6])[:, None] * matrix)
    members = (tree.groups(level) == np.arange(groups)[:, None]).astype(float)
    expected = np.diag(members @ np.linalg.inv(precision) @ members.T)
    assert level_forecast._variance(forecast, "code", 0.2, groups) == pytest.approx(expected.mean(), rel=1e-5)


def test_a_plan_with_a_tree_of_many_codes_says_what_fewer_values_would_gain():
    """Levels are of all codes, and the plan compares with a domain of 16 values each."""
    tree = pg.Hierarchy("code", {"chapter": np.arange(200) // 20})
    domain = pg.Domain({"code": 200, "sex": 2, "age": 6}).with_hierarchies(tree)
    for workload in (None, [("code@chapter", "sex"), ("code", "age")]):
        text = str(LAMP(epsilon=0.5, delta=1e-9).plan(domain, 5000, workload))
        assert ("16 values each, of code" in text) == (workload is None)
        assert "code@chapter x sex" in text


def test_the_error_in_the_number_of_records_is_divided_among_the_codes_of_an_attribute():
    """Many attributes of two codes are measured by contrasts, which say nothing about the number of records."""
    domain, widths = {f"x{place}": 2 for place in range(6)}, {}
    for relation in (pg.privacy.AddRemove(), pg.privacy.Replace()):
        mechanism = LAMP(rho=0.01, neighbors=relation)
        forecast = forecast_of(mechanism, pg.Domain(domain), WorkloadDemand.of(pg.Domain(domain), None), 5000.0)
        widths[type(relation).__name__] = forecast.one_way["x0"].half_width, forecast.total_variance
    assert widths["Replace"][1] == 0
    variance = widths["AddRemove"][1]
    assert widths["AddRemove"][0] > 1.96 * math.sqrt(variance) / 2 > 0


def test_planned_widths_of_attributes_of_few_codes_come_true():
    """Half of the error is that in the number of records."""
    generator = np.random.default_rng(0)
    data = pg.Dataset.from_codes(generator.integers(0, 2, (2000, 6)), {f"x{place}": 2 for place in range(6)})
    mechanism = LAMP(rho=0.01, backend="simulation", records=5000)
    planned = {table.clique: table.half_width for table in mechanism.plan(data.domain, 2000).one_way}
    errors, reported = [], []
    for seed in range(6):
        result = mechanism.fit(data, seed=seed, progress=False)
        for clique in planned:
            errors.append(np.mean(np.square(result.project(clique).values - data.project(clique).values)))
            low, high = result.interval(clique)
            reported.append(np.mean(high.values - low.values) / 2)
    assert len(set(planned.values())) == 1
    assert np.mean(list(planned.values())) == pytest.approx(np.mean(reported), rel=0.25)
    assert np.mean(list(planned.values())) == pytest.approx(1.96 * math.sqrt(np.mean(errors)), rel=0.35)


def test_tables_that_invariants_hold_are_planned_without_error():
    tree = pg.Hierarchy("code", {"chapter": [0, 0, 0, 1, 1, 1], "block": [0, 0, 1, 2, 2, 3]})
    domain = pg.Domain({"code": 6, "sex": 2, "age": 4}).with_hierarchies(tree)
    published = pg.LinearMeasurement.exact(np.array([400.0, 300, 200, 100]), ("age",))
    plan = LAMP(rho=0.01, invariants=[("code@block", "sex"), published]).plan(domain, 1000)
    exact = {table.clique for table in (*plan.one_way, *plan.tables, *plan.by_level) if table.half_width == 0}
    assert exact == {
        ("sex",), ("age",), ("code@chapter",), ("code@block",), ("code@chapter", "sex"), ("code@block", "sex")
    }  # fmt: skip
    assert all(table.error == 0 for table in plan.by_level if table.clique in exact)
    bounded = pg.LinearMeasurement.at_least(np.zeros(4), ("age",))
    plan = LAMP(rho=0.01, invariants=[bounded]).plan(domain, 1000)
    assert all(table.half_width > 0 for table in plan.one_way)


def test_the_margins_of_a_table_by_level_add_to_its_planned_width():
    """A small budget measures over few groups of codes, so that the errors of both attributes are most of a cell's."""
    plan = of_codes(np.arange(60), epsilon=0.1)
    found = {table.clique: table.half_width for table in (*plan.one_way, *plan.by_level)}
    for level, groups in (("chapter", 3), ("block", 12)):
        name = f"code@{level}"
        same = {one: np.square(typical_counts(size, 1.0)).sum() for one, size in ((name, groups), ("sex", 2))}
        assert found[name, "sex"] > math.hypot(found[name,] * same["sex"], found["sex",] * same[name])
