"""Structural zeros: impossible and only-possible combinations, and attributes that are functions of others."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import zeros
from pgmest.errors import ArgumentError, CodeRangeError, ImpossibleModelError, ShapeError, UnknownAttributeError
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.functional_dependencies import CollapsedOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.exact.structural_zeros import collapse, zero_potentials
from pgmest.tables.clique_vector import Layout
from tests.estimation.full_table import fitted_table, least_squares_optimum, marginal_matrix
from tests.inference.brute_force_oracle import BruteForceOracle

pytestmark = pytest.mark.filterwarnings("error")
DOMAIN = pg.Domain({"district": 6, "state": 3, "income": 3, "sex": 2})
STATES = [0, 0, 1, 1, 2, 2]
STATE = zeros.function("state", of="district", codes=STATES)


def noisy(domain: pg.Domain, cliques: list[tuple[str, ...]], table: np.ndarray, stddev: float, seed: int = 0):
    generator = np.random.default_rng(seed)
    return [
        pg.LinearMeasurement(exact + generator.normal(0, stddev, exact.shape), clique, stddev)
        for clique in cliques
        for exact in [marginal_matrix(domain, clique) @ table]
    ]


def districts(seed: int = 0) -> np.ndarray:
    """A joint table over DOMAIN, flat, in which each district lies in one state."""
    table = np.random.default_rng(seed).gamma(0.5, 40.0, DOMAIN.shape)
    keep = np.zeros(DOMAIN.shape, dtype=bool)
    keep[np.arange(6), STATES] = True
    return np.where(keep, table, 0.0).reshape(-1)


class TestCombinations:
    def test_impossible_ones_have_no_mass_in_answers_and_records(self) -> None:
        domain = pg.Domain({"sex": 2, "pregnant": 2, "age": 3})
        cliques = [("sex", "age"), ("age", "pregnant")]
        rules = [
            zeros.impossible(("sex", "pregnant"), [(0, 1)]),
            zeros.impossible(("pregnant", "sex"), np.array([[False, False], [False, False]])),
            zeros.impossible("age", [2]),
        ]
        model = pg.estimate(noisy(domain, cliques, np.full(12, 20.0), 3.0), domain, structural_zeros=rules, total=240.0)
        table = model.project(("sex", "pregnant", "age")).values
        assert table[0, 1].sum() == 0.0
        assert table[:, :, 2].sum() == 0.0
        records = model.sample(5000, seed=0).project(("sex", "pregnant", "age")).values
        assert records[table == 0].sum() == 0

    def test_only_is_the_complement_of_impossible(self) -> None:
        domain = pg.Domain({"a": 2, "b": 3})
        possible = [(0, 0), (1, 1), (1, 2)]
        rest = [pair for pair in itertools.product(range(2), range(3)) if pair not in possible]
        expected = zero_potentials([zeros.impossible(("a", "b"), rest)], domain)
        assert zero_potentials([zeros.only(("a", "b"), possible)], domain) == expected
        flags = np.isfinite(expected["a", "b"].values)
        assert zero_potentials([zeros.only(("a", "b"), flags)], domain) == expected
        assert zero_potentials({("a", "b"): rest}, domain) == expected
        assert zero_potentials({("a", "b"): ~flags}, domain) == expected

    def test_rules_about_the_same_attributes_add_up(self) -> None:
        domain = pg.Domain({"a": 2, "b": 2})
        both = zero_potentials(
            [zeros.impossible(("a", "b"), [(0, 1)]), zeros.only(("b", "a"), [(0, 0), (1, 0)])], domain
        )
        assert both.cliques == (("a", "b"),)
        assert np.isneginf(both["a", "b"].values).tolist() == [[False, True], [True, True]]

    def test_the_optimum_is_that_of_the_full_table(self) -> None:
        domain = pg.Domain({"a": 3, "b": 2, "c": 2})
        table = np.random.default_rng(1).gamma(1.0, 30.0, domain.shape)
        table[0, 1] = table[2, :, 0] = 0
        rules = [
            zeros.impossible(("a", "b"), [(0, 1)]),
            zeros.only(("c", "a"), [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)]),
        ]
        measured = noisy(domain, [("a", "b"), ("b", "c"), ("a",)], table.reshape(-1), 4.0)
        model = pg.estimate(measured, domain, structural_zeros=rules, total=table.sum(), tolerance=1e-7)
        joint = model.project(domain.attributes).values
        assert joint[table == 0].sum() == 0
        possible = fitted_table(
            domain, [m.clique for m in measured], [model.project(m.clique).datavector() for m in measured],
            (table > 0).astype(float).reshape(-1),
        )  # fmt: skip
        np.testing.assert_allclose(joint.reshape(-1), possible, atol=1e-3)

    @pytest.mark.parametrize(
        ("rule", "error", "text"),
        [
            (zeros.impossible(("sex", "age"), [(0, 0)]), UnknownAttributeError, "'age' is not an attribute"),
            (zeros.only("sex", [2]), CodeRangeError, "sex"),
            (zeros.impossible(("sex", "state"), [(0, 0, 0)]), ArgumentError, "a tuple of 2 integer codes"),
            (zeros.only("sex", np.array([True])), ShapeError, "Give one flag per cell"),
            (zeros.function("state", of="district", codes=[0, 1]), ArgumentError, "expected one for each of 6 codes"),
            (zeros.function("state", of="district", codes=[0.5] * 6), ArgumentError, "integers from 0 to 2"),  # pyright: ignore[reportArgumentType]
            (zeros.function("state", of="district", codes=[3] * 6), CodeRangeError, "state"),
            (zeros.function("state", of="district", codes={0: 1}), ArgumentError, "must have the keys 0..5"),
            (zeros.function("land", of="district", codes=[3] * 6), UnknownAttributeError, "land"),
            ("sex", ArgumentError, "rules from pgmest.zeros"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, rule, error, text) -> None:
        with pytest.raises(error, match=re.escape(text)):
            pg.estimate([pg.LinearMeasurement([1.0, 2.0], "sex")], DOMAIN, structural_zeros=[rule])

    def test_one_rule_or_none(self) -> None:
        domain, empty = pg.Domain({"a": 2}), zeros.impossible("a", [0])
        assert np.isneginf(zero_potentials(empty, domain)["a",].values).tolist() == [True, False]
        for nothing in (None, {}, []):
            assert len(zero_potentials(nothing, domain)) == 0

    def test_nothing_possible_is_an_error(self) -> None:
        with pytest.raises(ImpossibleModelError):
            pg.estimate([pg.LinearMeasurement([1.0, 2.0], "sex")], DOMAIN, structural_zeros=[zeros.only("sex", [])])


class TestFunctions:
    @pytest.mark.parametrize("codes", [STATES, dict(enumerate(STATES)), lambda code: code // 2, np.array(STATES)])
    def test_codes_in_any_form(self, codes) -> None:
        assert zeros.function("state", of="district", codes=codes).table(DOMAIN).tolist() == STATES

    @pytest.mark.parametrize(
        "cliques",
        [
            [("district", "income"), ("state", "sex"), ("state", "income")],
            [("district", "state", "sex"), ("state", "income", "sex")],
            [("state", "income"), ("state", "sex")],
            [("district",), ("state",), ("income", "sex")],
            [("state", "district"), ("district", "sex"), ("sex", "income")],
        ],
    )
    def test_the_optimum_is_that_of_the_full_table(self, cliques) -> None:
        table = districts()
        measured = noisy(DOMAIN, cliques, table, 3.0)
        total = float(table.sum())
        model = pg.estimate(measured, DOMAIN, structural_zeros=[STATE], total=total, tolerance=1e-6)
        joint = model.project(DOMAIN.attributes).datavector()
        assert joint[table == 0].sum() == 0.0
        assert joint.sum() == pytest.approx(total)
        best = restricted_optimum(measured, total)
        assert model.report.loss == pytest.approx(best, rel=1e-4, abs=1e-4)
        marginals = [model.project(clique).datavector() for clique in cliques]
        entropic = fitted_table(DOMAIN, cliques, marginals, (table > 0).astype(float))
        np.testing.assert_allclose(joint, entropic, atol=2e-3 * total / len(table))

    def test_records_obey(self) -> None:
        measured = noisy(DOMAIN, [("district", "income"), ("state", "sex")], districts(), 3.0)
        model = pg.estimate(measured, DOMAIN, structural_zeros=[STATE])
        for method in ("round", "multinomial"):
            records = model.sample(4000, method=method, seed=1)
            counts = records.project(("district", "state")).values
            assert counts.sum() == counts[np.arange(6), STATES].sum() == 4000

    def test_the_tree_is_no_wider_than_without_the_attribute(self) -> None:
        domain = pg.Domain({"puma": 60, "state": 12, "a": 5, "b": 5, "c": 5})
        rule = zeros.function("state", of="puma", codes=lambda code: code // 5)
        cliques = [
            ("puma", "a"),
            ("state", "a", "b"),
            ("puma", "c"),
            ("state", "c"),
            ("b", "c"),
            ("puma", "state", "b"),
        ]
        measured = [pg.LinearMeasurement(np.ones(domain.project(c).shape), c, 1.0) for c in cliques]
        plain = pg.estimate(measured, domain, structural_zeros={("puma", "state"): rule.mask(domain)}, max_iterations=1)
        model = pg.estimate(measured, domain, structural_zeros=[rule], max_iterations=1)
        merged = [tuple("puma" if name == "state" else name for name in clique) for clique in cliques]
        without = pg.JunctionTree.from_cliques(domain, [tuple(dict.fromkeys(clique)) for clique in merged])
        assert model.junction_tree.total_cells <= without.total_cells + 60 * 12
        assert model.junction_tree.total_cells * 4 < plain.junction_tree.total_cells

    def test_the_determined_attribute_stays_where_that_is_cheaper(self) -> None:
        domain = pg.Domain({"puma": 500, "state": 10, "a": 20, "b": 20})
        rule = zeros.function("state", of="puma", codes=lambda code: code // 50)
        measured = [
            pg.LinearMeasurement(np.ones(domain.project(c).shape), c, 1.0) for c in [("state", "a"), ("state", "b")]
        ]
        model = pg.estimate(measured, domain, structural_zeros=[rule], max_iterations=1)
        assert model.junction_tree.total_cells == 2 * 10 * 20 + 500 * 10

    def test_a_table_over_both_gets_narrower_in_any_case(self) -> None:
        domain = pg.Domain({"puma": 500, "state": 10, "a": 200, "b": 2})
        rule = zeros.function("state", of="puma", codes=lambda code: code // 50)
        cliques = [("state", "a"), ("state", "puma", "b")]
        layout = Layout.of(domain, [*cliques, rule.attributes])
        found = collapse(layout, [rule])
        assert found is not None
        assert found.cliques == (("state", "a"), ("puma", "b"), ("puma", "state"))

    def test_chains(self) -> None:
        domain = pg.Domain({"age": 8, "decade": 4, "old": 2, "sex": 2, "income": 3})
        rules = [
            zeros.function("old", of="decade", codes=[0, 0, 1, 1]),
            zeros.function("decade", of="age", codes=lambda age: age // 2),
        ]
        cliques = [("old", "sex", "income"), ("age", "income"), ("age", "sex"), ("decade", "sex", "old")]
        measured = noisy(domain, cliques, np.full(domain.size(), 5.0), 2.0)
        model = pg.estimate(measured, domain, structural_zeros=rules)
        table = model.project(("age", "decade", "old")).values
        age = np.arange(8)
        assert table.sum() == pytest.approx(table[age, age // 2, age // 4].sum())
        assert np.count_nonzero(table) == 8
        assert set(model.cliques) >= {("age", "decade"), ("decade", "old"), ("age", "sex", "income")}

    @pytest.mark.parametrize("circle", [("a", "b"), ("a", "b", "c")])
    def test_circles_are_refused(self, circle) -> None:
        domain = pg.Domain(dict.fromkeys("abcd", 2))
        rules = [
            zeros.function(one, of=other, codes=[0, 1])
            for one, other in zip(circle, circle[1:] + circle[:1], strict=True)
        ]
        rules.insert(0, zeros.function("d", of="a", codes=[0, 1]))
        with pytest.raises(ArgumentError, match="form a cycle"):
            pg.estimate([pg.LinearMeasurement([1.0, 2.0], "a")], domain, structural_zeros=rules)
        with pytest.raises(ArgumentError, match="of itself"):
            zeros.function("a", of="a", codes=[0, 1])

    @pytest.mark.parametrize("method", ["mirror_flow", "lbfgs", "mirror_descent", "dual_averaging"])
    def test_every_solver_takes_them(self, method) -> None:
        cliques = [("district", "income"), ("state", "sex"), ("state", "income")]
        model = pg.estimate(
            noisy(DOMAIN, cliques, districts(), 3.0), DOMAIN, structural_zeros=[STATE], method=method, max_iterations=30
        )
        counts = model.project(("district", "state")).values
        assert counts.sum() == pytest.approx(counts[np.arange(6), STATES].sum())

    def test_with_a_prior_and_a_warm_start(self) -> None:
        cliques = [("district", "income"), ("state", "sex"), ("state", "income")]
        measured = noisy(DOMAIN, cliques, districts(), 3.0)
        prior = pg.estimate(measured[:1], DOMAIN)
        model = pg.estimate(measured, DOMAIN, structural_zeros=[STATE], prior=prior)
        again = pg.estimate(measured, DOMAIN, structural_zeros=[STATE], prior=prior, init=model)
        np.testing.assert_allclose(
            again.project(("state", "income")).values, model.project(("state", "income")).values, atol=0.5
        )


def restricted_optimum(measured: list[pg.LinearMeasurement], total: float) -> float:
    """The least loss of tables over DOMAIN in which each district lies in its state: tables without the state."""
    free = DOMAIN.project(("district", "income", "sex"))
    merged = []
    for m in measured:
        rest = tuple(name for name in m.clique if name != "state")
        clique = tuple(dict.fromkeys(("district", *rest))) if "state" in m.clique else rest
        matrix = np.stack([lay_out(clique, m.clique, cells) for cells in np.eye(free.size(clique))], axis=1)
        merged.append(pg.LinearMeasurement(m.values, clique, m.stddev, query=matrix))
    return least_squares_optimum(free, merged, total)[0]


def lay_out(clique: tuple[str, ...], target: tuple[str, ...], cells: np.ndarray) -> np.ndarray:
    """A table over `clique`, in which districts stand for states, as a table over `target`, record by record."""
    found = np.zeros(DOMAIN.project(target).shape)
    for codes in np.ndindex(*DOMAIN.project(clique).shape):
        record = dict(zip(clique, codes, strict=True))
        if "district" in record:
            record["state"] = STATES[record["district"]]
        found[tuple(record[name] for name in target)] += cells.reshape(DOMAIN.project(clique).shape)[codes]
    return found.reshape(-1)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_collapsed_oracle_agrees_with_the_full_table(data) -> None:
    sizes = {name: data.draw(st.integers(1, 4)) for name in "abcde"}
    domain = pg.Domain(sizes)
    order = data.draw(st.permutations("abcde"))
    rules = []
    for position, name in enumerate(order[1:], start=1):
        if data.draw(st.booleans()):
            of = data.draw(st.sampled_from(order[:position]))
            codes = data.draw(st.lists(st.integers(0, sizes[name] - 1), min_size=sizes[of], max_size=sizes[of]))
            rules.append(zeros.function(name, of=of, codes=codes))
    clique = st.lists(st.sampled_from("abcde"), max_size=3, unique=True)
    cliques = [tuple(one) for one in data.draw(st.lists(clique, max_size=5))]
    layout = Layout.of(domain, [*cliques, *(rule.attributes for rule in rules)])
    found = collapse(layout, rules)
    if found is None:
        return
    base = zero_potentials(rules, domain).expand(layout.cliques).flat
    theta = np.random.default_rng(0).normal(size=layout.cells) + base
    oracle, truth = CollapsedOracle(ExactOracle(PropagationPlan.of(found.inner)), found), BruteForceOracle(layout)
    mu, log_partition = oracle.run(theta, 7.0)
    expected, expected_log_partition = truth.run(theta, 7.0)
    np.testing.assert_allclose(mu, expected, atol=1e-12)
    assert log_partition == pytest.approx(expected_log_partition)
    assert oracle.maximum(theta) == pytest.approx(truth.maximum(theta))
    direction = np.random.default_rng(1).normal(size=layout.cells)
    step = 1e-5
    slope = (truth.run(theta + step * direction, 7.0)[0] - truth.run(theta - step * direction, 7.0)[0]) / (2 * step)
    np.testing.assert_allclose(oracle.covariance(direction), slope, atol=1e-6)
    joint = truth.log_joint(theta)
    best = oracle.max_marginals(theta)
    for position, names in enumerate(layout.cliques):
        cells = slice(*layout.offsets[position : position + 2])
        np.testing.assert_allclose(best[cells], joint.max(set(domain) - set(names)).transpose(names).datavector())
