"""Bounds: against all tables of whole numbers written down, the truth inside, and contradictions named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, InconsistentMeasurementsError, ModelTooLarge, QueryError
from pgmest.models.bounds import TableBounds, answer_ends
from pgmest.models.bounds.ends import noise_reach
from pgmest.models.bounds.program import proven_minimum
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
        from pgmest.models.bounds import program

        bounds = TableBounds([M.between([[3, 1], [0, 2]], [[5, 9], [4, 8]], CLIQUES[0])], DOMAIN)
        right = bounds.of("a")
        polytope, high = bounds._polytope(("a",))
        objective = polytope.objective(("a",), np.array([1.0, 0.0]))
        exact = proven_minimum(objective, polytope, high)
        assert exact == pytest.approx(4.0)
        generator, true_solve = np.random.default_rng(0), program.solve
        for scale in (1e-3, 1.0, 100.0):

            def liar(*arguments, scale=scale):
                found = true_solve(*arguments)
                wrong = found.multipliers + scale * generator.normal(size=len(found.multipliers))
                return program.Solution(found.status, found.point, wrong)

            monkeypatch.setattr(program, "solve", liar)
            assert proven_minimum(objective, polytope, high) <= exact + 1e-9
            monkeypatch.setattr(program, "solve", true_solve)
        assert right.low.values.tolist() == [4.0, 2.0]


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

    def test_estimates_of_inconsistent_tables_compromise(self) -> None:
        model = pg.estimate([M.exact([30, 70], "a"), M.exact([34, 70], "a")], DOMAIN, total=102.0)
        np.testing.assert_allclose(model.project("a").values, [32, 70], atol=0.1)
        with pytest.raises(InconsistentMeasurementsError):
            model.bounds("a")


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

    def test_models_from_files(self, tmp_path) -> None:
        pg.estimate([M.exact([3, 4], "a")], DOMAIN).save(tmp_path / "model.npz")
        with pytest.raises(ArgumentError, match="TableBounds"):
            pg.load(tmp_path / "model.npz").bounds("a")
