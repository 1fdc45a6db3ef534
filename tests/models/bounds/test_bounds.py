"""Bounds: against all tables of whole numbers written down, the truth inside, and contradictions named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import pgmest as pg
from pgmest.errors import ArgumentError, InconsistentMeasurementsError, ModelTooLarge, QueryError
from pgmest.inference.exact.structural_zeros import zero_potentials
from pgmest.models.bounds import TableBounds, answer_ends, check_facts
from pgmest.models.bounds.ends import noise_reach
from pgmest.models.bounds.program import minimize, proven_minimum
from pgmest.models.uncertainty import redraw

M = pg.LinearMeasurement
DOMAIN = pg.Domain({"a": 2, "b": 2, "c": 2})
CLIQUES = (("a", "b"), ("b", "c"))


def all_tables(most: int) -> np.ndarray:
    """Every table of whole numbers over DOMAIN with cells of at most `most`."""
    return np.array(list(itertools.product(range(most + 1), repeat=8)), dtype=float).reshape(-1, 2, 2, 2)


def compatible(tables: np.ndarray, measurements) -> np.ndarray:
    """Those within the ends of all measurements."""
    keep = np.ones(len(tables), dtype=bool)
    for m in measurements:
        answers = marginals(tables, m.clique).reshape(len(tables), -1)[:, : m.rows]
        keep &= np.all((answers >= m.low) & (answers <= m.high), axis=1)
    return tables[keep]


def marginals(tables: np.ndarray, names) -> np.ndarray:
    """Return the bounds over all tables at once, axes in the order of `names`."""
    order = [DOMAIN.attributes.index(name) + 1 for name in names]
    summed = tables.sum(axis=tuple(axis for axis in (1, 2, 3) if axis not in order), keepdims=True)
    moved = np.moveaxis(summed, order, range(1, len(order) + 1))
    return moved.reshape((len(tables), *(DOMAIN[name] for name in names)))


class TestAgainstAllTables:
    @pytest.mark.parametrize("seed", range(4))
    def test_the_ends_are_those_of_some_table_of_whole_numbers(self, seed) -> None:
        generator = np.random.default_rng(seed)
        truth = pg.Factor(DOMAIN, generator.integers(0, 2, DOMAIN.shape).astype(float))
        rounded = 2.0 * np.round(truth.project(CLIQUES[0]).values / 2.0)
        measurements = [
            M.rounded(rounded, CLIQUES[0], 2),
            M.exact(truth.project(CLIQUES[1]).values, CLIQUES[1]),
            M.exact([truth.project("c").values[0]], "c", query=[[1.0, 0.0]]),
        ]
        tables = compatible(all_tables(3), measurements)
        assert tables.max() < 3  # none was left out for being too large
        bounds = TableBounds(measurements, DOMAIN)
        for names in (("a", "b"), ("b",), ("c", "a"), ("a", "b", "c"), ()):
            low, high = bounds.of(names)
            answers = marginals(tables, names)
            assert np.all(low.values <= answers.min(0))
            assert np.all(answers.max(0) <= high.values)
            if names in (("a", "b"), ("b",), ()):  # on a tree of pairs the constraints are totally unimodular
                np.testing.assert_array_equal(low.values, answers.min(0))

    def test_frechet_bounds_of_a_pair_that_was_not_measured(self) -> None:
        low, high = TableBounds([M.exact([30, 70], "a"), M.exact([55, 45], "c")], DOMAIN).of(("a", "c"))
        np.testing.assert_array_equal(low.values, [[0, 0], [25, 15]])
        np.testing.assert_array_equal(high.values, [[30, 30], [55, 45]])

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10**6), st.sampled_from(["rounded", "random", "suppressed", "between", "exact"]))
    def test_the_truth_is_inside(self, seed, kind) -> None:
        generator = np.random.default_rng(seed)
        truth = pg.Factor(DOMAIN, generator.choice([0, 1, 3, 12, 90], DOMAIN.shape).astype(float))
        measurements = []
        for clique in CLIQUES:
            table = truth.project(clique).values
            below = 5 * np.floor(table / 5)
            up = generator.random(table.shape) < (table - below) / 5
            measurements.append(
                {
                    "rounded": lambda table=table, clique=clique: M.rounded(5 * np.round(table / 5), clique, 5),
                    "random": lambda below=below, up=up, clique=clique: M.rounded(
                        below + 5 * up, clique, 5, random=True
                    ),
                    "suppressed": lambda table=table, clique=clique: M.suppressed(
                        np.where((table > 0) & (table < 10), np.nan, table), clique, 10, least=1
                    ),
                    "between": lambda table=table, clique=clique: M.between(table // 2, 2 * table + 1, clique),
                    "exact": lambda table=table, clique=clique: M.exact(table, clique),
                }[kind]()
            )
        bounds = TableBounds(measurements, DOMAIN)
        prefix = pg.Kron({"a": pg.queries.prefix(2), "c": pg.queries.identity(2)})
        for query, exact in (
            (("a", "b"), truth.project(("a", "b")).values),
            (("a", "c"), truth.project(("a", "c")).values),
            (prefix, prefix.apply(truth.project(("a", "c")))),
        ):
            low, high = bounds.of(query)
            assert np.all(low.values <= exact + 1e-9)
            assert np.all(exact <= high.values + 1e-9)


class TestProof:
    def test_a_bound_holds_whatever_the_solver_says(self, monkeypatch) -> None:
        bounds = TableBounds([M.between([[3, 1], [0, 2]], [[5, 9], [4, 8]], CLIQUES[0]), M.exact([6, 9], "a")], DOMAIN)
        presolved, _ = bounds._program(("a", "b"))
        polytope = presolved.polytope
        objective = polytope.marginal(("a", "b"))[[0]].toarray().reshape(-1)
        multipliers = minimize(objective, presolved).multipliers
        assert multipliers is not None
        exact = proven_minimum(objective, polytope, multipliers)
        assert exact == pytest.approx(3.0)
        generator = np.random.default_rng(0)
        for scale in (1e-3, 1.0, 100.0):
            wrong = multipliers + scale * generator.normal(size=len(multipliers))
            assert proven_minimum(objective, polytope, wrong) <= exact + 1e-9


class TestAgainstOneProgramACell:
    """The same ends as scipy's linprog on the table of all cells, one objective at a time."""

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 4), st.sampled_from([1, 2]), st.booleans())
    def test_random_tables(self, seed, rows, columns, layers, fractions) -> None:
        generator = np.random.default_rng(seed)
        domain = pg.Domain({"a": rows, "b": columns, "c": layers})
        truth = pg.Factor(
            domain, generator.choice([0.0, 1.0, 2.0, 5.0, 40.0], domain.shape) * (0.37 if fractions else 1.0)
        )
        measurements = _published(truth, generator)
        bounds = TableBounds(measurements, domain, total=truth.values.sum())
        names = [("a", "b"), ("c",), ("b", "c"), ("a", "b", "c"), ("c", "a")][generator.integers(5)]
        weights = generator.integers(-2, 3, (2, domain.size(names))).astype(float)
        low, high = bounds.of(weights, names)
        expected = _by_linprog(measurements, domain, truth.values.sum(), names, weights)
        np.testing.assert_allclose(np.stack([low.values, high.values], axis=1), expected, atol=1e-5)
        low, high = bounds.of(names)
        units = _by_linprog(measurements, domain, truth.values.sum(), names, np.eye(domain.size(names)))
        inner, outer = np.ceil(units[:, 0] - 1e-5), np.floor(units[:, 1] + 1e-5)
        whole = inner <= outer
        np.testing.assert_allclose(low.datavector(), np.where(whole, inner, units[:, 0]), atol=1e-5)
        np.testing.assert_allclose(high.datavector(), np.where(whole, outer, units[:, 1]), atol=1e-5)

    def test_cells_that_no_end_decides_one_by_one(self) -> None:
        """Rounded margins of a hidden table, whose ends follow from all rows and columns together."""
        generator = np.random.default_rng(3)
        domain = pg.Domain({"a": 6, "b": 5, "c": 1})
        truth = pg.Factor(domain, generator.poisson(3.0, domain.shape).astype(float))
        measurements = [
            M.exact(truth.project("a").values, "a"),
            M.rounded(5 * np.round(truth.project("b").values / 5), "b", 5),
            M.suppressed(np.where(truth.values < 5, np.nan, truth.values), ("a", "b", "c"), 5),
        ]
        low, high = TableBounds(measurements, domain).of(("a", "b"))
        expected = _by_linprog(measurements, domain, None, ("a", "b"), np.eye(30))
        np.testing.assert_allclose(low.datavector(), np.ceil(expected[:, 0] - 1e-6))
        np.testing.assert_allclose(high.datavector(), np.floor(expected[:, 1] + 1e-6))


def _published(truth: pg.Factor, generator: np.random.Generator) -> list[pg.LinearMeasurement]:
    """Publish some marginals of a table: exact, rounded, suppressed, as sums, or in part."""
    found = []
    for names in (("a",), ("b", "a"), ("c",), ("b", "c"), ("a", "b", "c"), ("c", "a")):
        table = truth.project(names).values
        kind = generator.integers(7)
        if kind == 0:
            found.append(M.exact(table, names))
        elif kind == 1:
            found.append(M.between(np.floor(table / 5) * 5, np.floor(table / 5) * 5 + 5, names))
        elif kind == 2:
            hidden = table < 5
            found.append(M.between(np.where(hidden, 0, table), np.where(hidden, 5, table), names))
        elif kind == 3:
            query = generator.integers(-1, 2, (2, table.size)).astype(float)
            found.append(M.exact(query @ table.reshape(-1), names, query))
    return found


def _feasible_answers(measurements, domain, answers) -> bool:
    """Return whether some table has all the answers, given as (measurement, row), by a program on all cells."""
    cells = [pg.Factor(domain, cell) for cell in np.eye(domain.size()).reshape(-1, *domain.shape)]
    tables = [np.stack([m.answer(cell) for cell in cells], axis=1) for m in measurements]
    rows = np.array([tables[position][row] for position, row in answers]).reshape(-1, domain.size())
    low, high = (np.array([getattr(measurements[p], end)[row] for p, row in answers]) for end in ("low", "high"))
    matrix, limits = np.concatenate([-rows, rows]), np.concatenate([-low, high]) + 1e-7
    return linprog(np.zeros(domain.size()), A_ub=matrix, b_ub=limits).status == 0


def _by_linprog(measurements, domain, total, names, weights) -> np.ndarray:
    """The least and the largest of weighted sums, shape (sums, 2), by programs on the table of all cells."""
    cells = np.eye(domain.size()).reshape(-1, *domain.shape)
    rows = {names: np.stack([pg.Factor(domain, cell).project(names).datavector() for cell in cells], axis=1)}
    sums, ends = [np.ones((1, domain.size()))], [np.array([[total or 0.0, np.inf if total is None else total]])]
    for m in measurements:
        table = np.stack([m.answer(pg.Factor(domain, cell)) for cell in cells], axis=1)
        sums.append(table)
        ends.append(np.stack([m.low, m.high], axis=1))
    matrix, limits = np.concatenate(sums), np.concatenate(ends)
    finite = np.isfinite(limits[:, 1])
    matrix, limits = np.concatenate([-matrix, matrix[finite]]), np.concatenate([-limits[:, 0], limits[finite, 1]])
    found = []
    for row in weights @ rows[names]:
        pair = [linprog(sign * row, A_ub=matrix, b_ub=limits + 1e-9) for sign in (1, -1)]
        found.append([pair[0].fun, -pair[1].fun])
    return np.array(found)


class TestNoise:
    @pytest.mark.parametrize("noise", ["gaussian", "laplace", "discrete_gaussian", "discrete_laplace"])
    @pytest.mark.parametrize("stddev", [0.6, 3.0, 100.0])
    def test_boxes_hold_as_often_as_they_say(self, noise, stddev) -> None:
        generator, level = np.random.default_rng(1), 0.9
        blank = M(np.zeros(60_000), "x", stddev, noise=noise)
        if noise == "discrete_gaussian":
            steps = np.arange(-400 * int(stddev + 1), 400 * int(stddev + 1))
            mass = np.exp(-0.5 * (steps / stddev) ** 2)
            drawn = generator.choice(steps, 60_000, p=mass / mass.sum())
        else:
            drawn = redraw(blank, np.zeros(60_000), generator).values
        reach = noise_reach(blank, level)
        held = np.mean(np.abs(drawn) <= reach + 1e-9)
        assert held >= level - 0.006
        if "discrete" in noise:
            assert np.mean(np.abs(drawn) <= reach - 1) < level + 0.006  # the least such integer
        else:
            assert held == pytest.approx(level, abs=0.006)

    def test_all_answers_hold_together(self) -> None:
        generator, held = np.random.default_rng(2), 0
        blank = [M(np.zeros(20), "x", 5.0), M(np.zeros(10), "y", 3.0, noise="laplace")]
        ends = answer_ends(blank, 0.8)
        for _ in range(2000):
            drawn = [redraw(m, np.zeros(m.rows), generator).values for m in blank]
            held += all(np.all((low <= y) & (y <= high)) for y, (low, high) in zip(drawn, ends, strict=True))
        assert held / 2000 == pytest.approx(0.8, abs=0.03)

    def test_models_have_them_and_higher_levels_are_wider(self) -> None:
        table = pg.Factor(DOMAIN, np.full(DOMAIN.shape, 20.0))
        model = pg.estimate([M(table.project(c), c, 3.0) for c in CLIQUES], DOMAIN)
        narrow, wide = model.bounds(("a", "b"), level=0.5), model.interval(("a", "b"), level=0.99, kind="bounds")
        assert np.all(wide.low.values <= narrow.low.values)
        assert np.all(narrow.high.values <= wide.high.values)
        assert np.all(wide.width.values >= narrow.width.values + 1)
        assert (wide.kind, wide.level) == ("bounds", 0.99)
        assert np.all(narrow.low.values <= 40)
        unmeasured = model.bounds(("a", "c"), level=0.5)
        assert np.all(unmeasured.width.values > narrow.width.values)

    def test_zeros_given_totals_and_evidence(self) -> None:
        rules = [pg.zeros.function("b", of="a", codes=[0, 1])]
        model = pg.estimate([M.between([40, 50], [45, 55], "a")], DOMAIN, total=95.0, structural_zeros=rules)
        low, high = model.bounds(("a", "b"))
        assert low.values.tolist() == [[40, 0], [0, 50]]
        assert high.values.tolist() == [[45, 0], [0, 55]]
        low, high = model.bounds("a", given={"b": 1})
        assert (low.values.tolist(), high.values.tolist()) == ([0, 50], [0, 55])


class TestContradictions:
    def test_the_answers_that_contradict_are_named_and_none_is_idle(self) -> None:
        measurements = [
            M.exact([[10, 20], [30, 40]], ("a", "b")),
            M.exact([30, 70], "a"),
            M.exact([45, 60], "b"),
            M.exact([50, 50], "c"),
        ]
        with pytest.raises(InconsistentMeasurementsError, match="contradict each other") as caught:
            TableBounds(measurements, DOMAIN).check()
        answers = caught.value.answers
        assert (2, 0) in answers or (2, 1) in answers
        assert "measurements[2] (b)" in str(caught.value)
        for idle in answers:
            TableBounds([_without(m, p, answers, idle) for p, m in enumerate(measurements)], DOMAIN, total=None).check()

    def test_noise_that_a_higher_level_allows(self) -> None:
        far = [M([100.0, 100.0], "a", 5.0), M([112.0, 112.0], "a", 5.0), M([206.0], (), 30.0)]
        with pytest.raises(InconsistentMeasurementsError, match="higher level"):
            TableBounds(far, DOMAIN, level=0.05).of("a")
        TableBounds(far, DOMAIN, level=0.99).of("a")

    def test_estimates_of_inconsistent_tables_are_refused(self) -> None:
        with pytest.raises(InconsistentMeasurementsError):
            pg.estimate([M.exact([30, 70], "a"), M.exact([34, 70], "a")], DOMAIN, total=102.0)


class TestFacts:
    def test_feasible_facts_pass(self) -> None:
        truth = pg.Factor(DOMAIN, np.arange(8.0).reshape(2, 2, 2))
        facts = [M.exact(truth.project(names), names) for names in (("a", "b"), ("c", "b"), ("a",), ())]
        hidden = M.suppressed(np.where(truth.values < 5, np.nan, truth.values), ("a", "b", "c"), 5)
        check_facts([*facts, hidden, M([500.0, 500.0], "a", 1.0)], DOMAIN, total=28.0)
        check_facts([], DOMAIN)
        check_facts([M([1.0, 2.0], "a", 1.0)], DOMAIN)

    def test_positions_count_noisy_measurements(self) -> None:
        measurements = [M([9.0, 9.0], "a", 1.0), M.exact([30, 70], "a"), M([1.0, 1.0], "b", 3.0), M.exact([31], ())]
        with pytest.raises(InconsistentMeasurementsError, match="2 answers contradict each other:") as caught:
            check_facts(measurements, DOMAIN)
        assert caught.value.answers == ((1, 1), (3, 0))

    def test_a_suppressed_table_against_its_row_total(self) -> None:
        table = M.suppressed([[12, np.nan], [np.nan, 30]], ("a", "b"), 5)
        with pytest.raises(InconsistentMeasurementsError) as caught:
            check_facts([table, M.exact([40, 33], "a")], DOMAIN)
        assert caught.value.answers == ((0, 0), (0, 1), (1, 0))

    def test_structural_zeros_and_totals_are_named_if_they_are_needed(self) -> None:
        rules = [pg.zeros.impossible(("a", "b"), [(0, 0), (1, 0)])]
        zeros = zero_potentials(rules, DOMAIN)
        margins = [M.exact([1, 1], "a"), M.exact([1, 1], "b")]
        with pytest.raises(
            InconsistentMeasurementsError, match="This answer contradicts the structural zeros"
        ) as caught:
            check_facts(margins, DOMAIN, zeros=zeros)
        assert caught.value.answers == ((1, 0),)
        with pytest.raises(InconsistentMeasurementsError, match="the total of 9 records"):
            check_facts([M.exact([4, 4], "a")], DOMAIN, total=9.0, zeros=zeros)
        everything = zero_potentials([pg.zeros.impossible("a", [0, 1])], DOMAIN)
        with pytest.raises(InconsistentMeasurementsError, match="structural zeros"):
            check_facts([M.exact([5], ())], DOMAIN, zeros=everything)

    @pytest.mark.parametrize("wrong", [[45, 30], [20, 30]])
    def test_a_table_off_the_total_is_named_before_a_larger_one_that_contradicts_it_too(self, wrong) -> None:
        rounded = M.rounded([[5, 5], [10, 5], [15, 15], [0, 10]], ("a", "b"), base=5)
        with pytest.raises(InconsistentMeasurementsError, match="the total of 65 records") as caught:
            check_facts([rounded, M.exact(wrong, "b")], {"a": 4, "b": 2}, total=65.0)
        assert caught.value.answers == ((1, 0), (1, 1))

    def test_counts_below_zero(self) -> None:
        with pytest.raises(InconsistentMeasurementsError, match="impossible for counts") as caught:
            check_facts([M.between([8, -5], [8, -5], "a")], DOMAIN)
        assert caught.value.answers == ((0, 1),)

    def test_contradictions_of_single_equations_are_traced(self) -> None:
        """Cells of two tables, separators of a tree, and signs: what follows from ends leads back to answers."""
        domain = pg.Domain({"a": 3, "b": 3, "c": 2})
        measurements = [
            M.between([0, 0, 3], [4, 5, 9], "a"),
            M.exact([[1, 2], [1, 1], [0, 3]], ("b", "c")),
            M.exact([2.0, 1.0], ("a", "b"), [[1, -1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 0, 0, 0]]),
            M.exact([6.0], ("a", "b"), [[1, 0, 0, 0, 0, 0, 0, 0, 0]]),
        ]
        with pytest.raises(InconsistentMeasurementsError) as caught:
            check_facts(measurements, domain)
        assert set(caught.value.answers) in ({(0, 0), (3, 0)}, {(1, 0), (1, 1), (3, 0)})

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6))
    def test_against_linprog_and_every_named_answer_is_needed(self, seed) -> None:
        generator = np.random.default_rng(seed)
        domain = pg.Domain({"a": int(generator.integers(1, 4)), "b": 3, "c": int(generator.integers(1, 3))})
        truth = pg.Factor(domain, generator.choice([0.0, 1.0, 2.0, 9.0], domain.shape))
        facts = _published(truth, generator)
        wrong = [
            M.between(m.low + shift, m.high + shift, m.clique, m.query)
            for m, shift in zip(facts, generator.choice([0.0, 0.0, 0.0, 1.0, -1.0], len(facts)), strict=True)
        ]
        if not wrong:
            return
        every = [(position, row) for position, m in enumerate(wrong) for row in range(m.rows)]
        if _feasible_answers(wrong, domain, every):
            check_facts(wrong, domain)
            return
        with pytest.raises(InconsistentMeasurementsError) as caught:
            check_facts(wrong, domain)
        named = list(caught.value.answers)
        assert not _feasible_answers(wrong, domain, named)
        for idle in named:
            assert _feasible_answers(wrong, domain, [one for one in named if one != idle])

    def test_totals_that_are_no_numbers_of_records(self) -> None:
        for total in (-1.0, np.nan, np.inf):
            with pytest.raises(ArgumentError, match="total"):
                check_facts([M.exact([5], ())], DOMAIN, total=total)
            with pytest.raises(ArgumentError, match="total"):
                TableBounds([M.exact([5], ())], DOMAIN, total=total)

    @pytest.mark.parametrize("scale", [1e-6, 0.1, 1.0, 1e6, 1e12])
    def test_rounding_errors_are_no_contradiction(self, scale) -> None:
        truth = pg.Factor(DOMAIN, np.random.default_rng(0).random(DOMAIN.shape) * scale)
        facts = [M.exact(truth.project(names), names) for names in (("a", "b"), ("b", "c"), ("c", "a"), ("b",), ())]
        check_facts(facts, DOMAIN)

    def test_one_record_in_a_billion_is_one(self) -> None:
        with pytest.raises(InconsistentMeasurementsError):
            check_facts([M.exact([10**9, 5], "a"), M.exact([10**9, 6], "b")], DOMAIN)

    def test_no_three_way_table_has_these_pairs_although_all_agree(self) -> None:
        pairs = [
            M.exact(table, names)
            for table, names in (
                ([[1, 0], [0, 1]], ("a", "b")),
                ([[1, 0], [0, 1]], ("b", "c")),
                ([[0, 1], [1, 0]], ("a", "c")),
            )
        ]
        with pytest.raises(InconsistentMeasurementsError) as caught:
            check_facts(pairs, DOMAIN)
        assert {position for position, _ in caught.value.answers} == {0, 1, 2}
        assert len(caught.value.answers) == 3


def _without(measurement, position, answers, idle):
    """The measurement with only those ends that are named, but for one."""
    low, high = np.zeros(measurement.rows), np.full(measurement.rows, 1000.0)
    for where, row in answers:
        if where == position and (where, row) != idle:
            low[row], high[row] = measurement.low[row], measurement.high[row]
    return M.between(low, high, measurement.clique)


class TestRefusals:
    def test_questions(self) -> None:
        bounds = TableBounds([M.exact([3, 4], "a")], DOMAIN)
        with pytest.raises(QueryError):
            bounds.of(lambda model: model.total)
        with pytest.raises(QueryError):
            bounds.of(np.eye(3), "a")
        with pytest.raises(QueryError):
            bounds.of([pg.Kron({"a": pg.queries.identity(2)})])
        with pytest.raises(ArgumentError, match="level"):
            TableBounds([], DOMAIN, level=1.5)
        with pytest.raises(ArgumentError, match="nothing bounds the number of records"):
            TableBounds([M.between([3, 4], [5, np.inf], "a")], DOMAIN).of("b")
        with pytest.raises(ModelTooLarge):
            TableBounds([M.exact([3, 4], "a")], {"a": 2, "b": 1000, "c": 1000}, max_megabytes=1).of(("a", "b", "c"))

    def test_models_that_were_not_estimated(self) -> None:
        with pytest.raises(ArgumentError, match="TableBounds"):
            pg.Model(pg.CliqueVector.zeros(pg.Domain(DOMAIN), ["a"]), total=7.0).bounds("a")


def test_models_from_files_have_the_same_bounds(tmp_path) -> None:
    answers = [M.exact([3, 4], "a"), M.at_most([2, 5, 5][: DOMAIN["b"]], "b")]
    model = pg.estimate(answers, DOMAIN)
    model.save(tmp_path / "model.npz")
    for clique in ("a", "b", ("a", "b")):
        found, loaded = model.bounds(clique), pg.load(tmp_path / "model.npz").bounds(clique)
        np.testing.assert_array_equal(found.low.values, loaded.low.values)
        np.testing.assert_array_equal(found.high.values, loaded.high.values)
