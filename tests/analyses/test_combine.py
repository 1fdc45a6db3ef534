"""Combining rules: the formulas by hand, coverage by simulation, and results of other libraries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.analyses.combine import combine
from pgmest.analyses.sampled_tables import SampledTables
from pgmest.errors import ArgumentError
from pgmest.surveys import SurveyEstimate, jackknife

TRIALS, TABLES = 1000, 10


class TestFormulas:
    RESULTS = ((10.0, 1.0), (12.0, 2.0), (14.0, 3.0))  # mean 12, within 2, between 4

    @pytest.mark.parametrize(
        ("rule", "variance", "degrees"),
        [
            ("noise_aware", 4 * 4 / 3, 2.0),
            ("fully_synthetic", 4 * 4 / 3 - 2, 2 * (1 - 2 / (16 / 3)) ** 2),
            ("partially_synthetic", 2 + 4 / 3, 2 * (1 + 2 / (4 / 3)) ** 2),
            ("multiple_imputation", 2 + 16 / 3, 2 * (1 + 2 / (16 / 3)) ** 2),
            ("simple", 2 * (1 + 1 / 3), np.inf),
        ],
    )
    def test_by_hand(self, rule, variance, degrees) -> None:
        found = combine(self.RESULTS, rule=rule)
        assert (float(found.estimate), float(found.within), float(found.between)) == (12.0, 2.0, 4.0)
        assert float(found.stddev) == pytest.approx(np.sqrt(variance))
        assert float(found.degrees) == pytest.approx(max(degrees, 1.0))
        assert found.tables == 3

    @pytest.mark.parametrize("units", [4, 41])
    def test_degrees_of_the_analyses_count(self, units) -> None:
        """Barnard and Rubin's for missing values; the least of the tables' own, if nothing is between them."""
        results = [SurveyEstimate(np.array(q), np.array(np.sqrt(u)), units - 1.0) for q, u in self.RESULTS]
        found = combine(results, rule="multiple_imputation")
        plain = combine(self.RESULTS, rule="multiple_imputation")
        observed = (units - 1) * units / (units + 2) * 2 / (2 + 16 / 3)
        assert float(found.stddev) == pytest.approx(float(plain.stddev))
        assert float(found.degrees) == pytest.approx(max(1 / (1 / float(plain.degrees) + 1 / observed), 1))
        assert float(combine(results, rule="simple").degrees) == pytest.approx(units - 1)
        assert float(combine(results, rule="fully_synthetic").degrees) < units - 1
        noise = combine(results, rule="noise_aware")  # sampling is 2 of 16 / 3
        assert float(noise.degrees) == pytest.approx(1 / (1 / 2 + (2 / (16 / 3)) ** 2 / (units - 1)))

    def test_estimates_of_few_clusters_with_imputed_values_hold(self) -> None:
        """Five clusters of four members, a quarter of them imputed from their cluster, 20 times."""
        rng, held, clusters = np.random.default_rng(0), 0, np.repeat(np.arange(5), 4)
        for _ in range(300):
            y = rng.normal(size=5)[clusters] + rng.normal(size=20)
            sampled, results = jackknife(np.ones(20), clusters=clusters), []
            for _ in range(20):
                filled = y.reshape(5, 4).copy()
                filled[:, 3] = filled[:, :3].mean(axis=1) + np.sqrt(4 / 3) * rng.normal(size=5)
                results.append(sampled.estimate(lambda w, v=filled: np.average(v.ravel(), weights=w)))
            low, high = combine(results, rule="multiple_imputation").interval()
            held += bool(low < 0 < high)
        assert held / 300 > 0.92

    def test_tables_with_weights_know_how_far_draws_are_apart(self) -> None:
        tables = SampledTables(range(3), weight="weight", spread=5.0)
        found = combine(self.RESULTS, tables=tables)
        assert (found.rule, float(found.between)) == ("multiple_imputation", 4.0 * 25)
        assert float(found.stddev) == pytest.approx(np.sqrt(2 + 4 / 3 * 100))
        assert tables.changed("abc").spread == 5.0
        with pytest.raises(ArgumentError, match="differ in their weights alone"):
            combine(self.RESULTS, rule="noise_aware", tables=tables)
        equal = [(3.0, 1.0)] * 3
        with pytest.raises(ArgumentError, match="weight each row by the column 'weight'"):
            combine(equal, tables=tables)
        (note, _) = combine([(3.0, 0.0)] * 3, tables=tables).notes
        assert "weight each row by the column 'weight'" in note
        close = [(10 + place / 1e4, 1.0) for place in range(8)]
        assert "or give tables= if they have weights" in combine(close).notes[0]

    def test_tables_know_what_they_are_about(self) -> None:
        given, domain = pg.LinearMeasurement.exact(pg.Factor({"a": 2}, [30.0, 20.0]), "a"), pg.Domain({"a": 2, "b": 2})
        noisy = pg.LinearMeasurement(np.array([24.0, 26.0]), ("b",), 3.0)
        model = pg.estimate([given, noisy], domain)
        tables = model.sample_tables(3, seed=0)
        results = [(t.project("b").values[1], 1.0) for t in tables]
        assert (tables.about, combine(results, tables=tables).rule) == ("table", "multiple_imputation")
        assert combine(results, tables=tables, rule="noise_aware").rule == "noise_aware"
        tables = model.sample_tables(3, about="population", seed=0)
        assert (tables.changed("abc").about, combine(self.RESULTS, tables=tables).rule) == ("population", "noise_aware")

    def test_a_negative_variance_is_replaced(self) -> None:
        found = combine([(1.0, 5.0), (1.1, 5.0)], rule="fully_synthetic")
        assert float(found.stddev) == pytest.approx(np.sqrt(5.0))
        same = combine([(1.0, 0.0), (1.0, 0.0)], rule="fully_synthetic")
        assert float(same.stddev) == 0.0
        assert same.p_values() == pytest.approx(0.0)

    def test_arrays_covariances_and_text(self) -> None:
        pairs = [(np.array([1.0, 2.0]), np.diag([0.1, 0.2])), (np.array([1.2, 2.4]), np.diag([0.1, 0.4]))]
        found = combine(pairs)
        np.testing.assert_allclose(found.within, [0.1, 0.3])
        assert repr(found).splitlines()[0] == "Combined from 2 tables, rule noise_aware"
        low, high = found.interval(0.9)
        np.testing.assert_allclose(0.5 * (low + high), found.estimate)
        assert np.all((found.p_values() > 0) & (found.p_values() < 1))


class TestTablesThatAreGiven:
    RESULTS = tuple((float(value), 0.1) for value in (1.0, 1.4, 0.8, 1.1, 1.3, 0.9, 1.2, 0.7))

    @pytest.mark.parametrize(
        ("names", "told"),
        [((), ["a and b", "c and d"]), (("const", "C(a)[T.1]"), ["a and b"]), (("x y",), ["a and b", "c and d"])],
        ids=["no names", "an attribute in a formula", "other names"],
    )
    def test_pairs_that_no_answer_is_about_are_told(self, names: tuple[str, ...], told: list[str]) -> None:
        tables = SampledTables(range(8), [("a", "b"), ("c", "d")])
        params = pd.Series([1.0] * len(names), index=names) if names else np.ones(1)
        results = [SimpleNamespace(params=params + shift, bse=0.1 * params) for shift in np.linspace(0, 1, 8)]
        (note,) = [note for note in combine(results, tables=tables).notes if "no answer is about" in note]
        assert [pair in note for pair in ("a and b", "c and d")] == [pair in told for pair in ("a and b", "c and d")]
        assert combine(results, tables=SampledTables(range(8))).notes == combine(results).notes

    def test_tables_that_lost_their_facts_are_refused(self) -> None:
        tables = SampledTables(range(8))
        wrongs: list[Any] = [tables[:8], list(tables), 8]
        for wrong in wrongs:
            with pytest.raises(ArgumentError, match="the list that sample_tables returned"):
                combine(self.RESULTS, tables=wrong)
        with pytest.raises(ArgumentError, match="4 results of 8 tables"):
            combine(self.RESULTS[:4], tables=tables)
        changed = SampledTables(range(2), [("a", "b")]).changed("xy")
        assert (list(changed), changed.unmeasured) == (["x", "y"], (("a", "b"),))

    def test_models_and_results_return_tables_that_know_their_pairs(self) -> None:
        data = pg.Dataset.from_codes(
            np.random.default_rng(0).integers(0, 2, (300, 3)), pg.Domain({"a": 2, "b": 2, "c": 2})
        )
        measured = [pg.LinearMeasurement(data.project(pair), pair, 5.0) for pair in (("a", "b"), ("b", "c"))]
        model = pg.estimate(measured, data.domain)
        assert model.sample_tables(2, seed=0).unmeasured == (("a", "c"),)

    def test_chains_that_disagree_widen_the_interval_and_the_result_says_so(self) -> None:
        generator, covered, plain = np.random.default_rng(0), 0, 0
        for _ in range(200):  # four chains, each stuck near a draw of its own
            centers = generator.normal(0.0, 1.0, 4).repeat(10)
            values = centers + generator.normal(0.0, 0.1, 40)
            found = combine([(value, 1e-6) for value in values])
            assert "no independent draws" in repr(found)
            low, high = found.interval()
            covered += low <= 0 <= high
            plain += abs(values.mean()) <= 1.96 * values.std() / np.sqrt(40)
        assert plain < 120 < 180 < covered

    def test_chains_that_agree_are_left_alone(self) -> None:
        generator = np.random.default_rng(1)
        alarms = 0
        for _ in range(300):
            values = generator.normal(0.0, 1.0, (40, 3))
            alarms += bool(combine([(value, np.ones(3)) for value in values]).notes)
        assert alarms <= 3
        constant = [(np.array([value, 2.0]), np.array([1.0, 0.0])) for value in generator.normal(0.0, 1.0, 40)]
        assert combine(constant).notes == ()

    def test_only_the_components_that_differ_are_widened(self) -> None:
        generator = np.random.default_rng(2)
        values = generator.normal(0.0, 1.0, (40, 2))
        before = combine([(value, np.ones(2)) for value in values])
        values[:, 1] += 50.0 * np.repeat(np.arange(4), 10)
        found = combine([(value, np.ones(2)) for value in values])
        assert found.stddev[0] == before.stddev[0]
        assert found.stddev[1] > 50
        assert "in 1 of 2 components" in repr(found)


class TestResultsThatDoNotCarryIt:
    """Results of one table, of tables that are too close, and of fits that failed."""

    def test_one_table_several_times_is_refused(self) -> None:
        for rule in ("noise_aware", "fully_synthetic", "partially_synthetic", "simple"):
            with pytest.raises(ArgumentError, match=r"one table and not of several draws.*sample_tables"):
                combine([(0.1 + 0.2, 0.5)] * 6, rule=rule)
            with pytest.raises(ArgumentError, match="one table"):
                combine([(np.array([1.0, 0.0]), np.array([1.0, 0.0]))] * 6, rule=rule)
        found = combine([(0.3, 0.5)] * 6, rule="multiple_imputation")
        assert "exact answers" in repr(found)
        assert found.stddev == pytest.approx(np.sqrt(0.5))
        assert combine([(0.3, 0.0)] * 6).notes == ()

    def test_a_part_without_weights_is_told(self) -> None:
        tables = SampledTables(range(6), weight="weight", spread=5.0)
        results = [(np.array([one, 0.3]), np.ones(2)) for one in (0.3, 0.4, 0.5, 0.3, 0.4, 0.5)]
        assert "1 of 2 components are equal in all tables" in combine(results, tables=tables).notes[0]

    def test_results_without_variances_may_be_of_tables_with_weights(self) -> None:
        results = [(one, 0.0) for one in (0.3, 0.4, 0.5, 0.3, 0.4, 0.5)]
        assert "far too small without tables=" in combine(results).notes[0]
        assert not combine(results, tables=SampledTables(range(6), weight="weight", spread=5.0)).notes

    def test_tables_that_are_closer_than_independent_records_get_the_larger_error(self) -> None:
        """Systematic samples of one model hardly differ, so that nothing may be subtracted from their variance."""
        generator, n = np.random.default_rng(0), 400
        values = 0.1 * generator.normal(0.0, n**-0.5, 20)
        for rule in ("noise_aware", "fully_synthetic"):
            found = combine([(value, 1 / n) for value in values], rule=rule)
            assert "less than independent records" in repr(found)
            assert found.stddev == combine([(value, 1 / n) for value in values], rule="multiple_imputation").stddev
            assert found.stddev**2 > 1 / n

    def test_tables_of_independent_records_are_not_too_close(self) -> None:
        generator = np.random.default_rng(1)
        alarms = sum(
            bool(combine([(value, np.ones(4)) for value in generator.normal(0.0, 1.0, (m, 4))]).notes)
            for m in (5, 6, 7, 20)
            for _ in range(150)
        )
        assert alarms <= 2

    def test_a_failed_fit_is_named(self) -> None:
        for estimate, variance in ((np.nan, 1.0), (1.0, np.nan), (1.0, np.inf), (1.0, -1.0)):
            with pytest.raises(ArgumentError, match=r"results\[2\] has .*merge rare categories"):
                combine([(1.0, 1.0), (2.0, 1.0), (estimate, variance)])
        fits = [SimpleNamespace(params=np.array([1.0, 2.0 + i]), bse=np.array([0.1, 0.2])) for i in range(3)]
        fits[1].bse[1] = np.nan
        with pytest.raises(ArgumentError, match=r"results\[1\] .*of component \[1\]"):
            combine(fits)

    def test_a_fit_with_a_huge_variance_is_named_and_widens(self) -> None:
        values = np.random.default_rng(2).normal(0.0, 1.0, (10, 2))
        usual = [(value, np.ones(2)) for value in values]
        separated = [*usual[:4], (values[4], np.array([1.0, 1e5])), *usual[5:]]
        found = combine(separated)
        assert "results [4]" in repr(found)
        assert found.stddev[1] > 10 * combine(usual).stddev[1]

    def test_few_tables_are_noted(self) -> None:
        assert "4 tables are few" in repr(combine([(float(value), 0.1) for value in range(4)]))
        assert "few" not in repr(combine([(float(value), 0.1) for value in range(5)]))


class TestCoverage:
    """A mean of normal records, mean 0 and variance 1, of which n = 100 are in the table."""

    n = 100

    def covered(self, rule: str, draw) -> float:
        generator, held = np.random.default_rng(0), 0
        for _ in range(TRIALS):
            observed = generator.normal(0, 1 / np.sqrt(self.n))
            low, high = combine([(q, 1 / self.n) for q in draw(generator, observed)], rule=rule).interval()
            held += low <= 0 <= high
        return float(held / TRIALS)

    def test_fully_synthetic_tables(self) -> None:
        def draw(generator, observed):
            truths = observed + generator.normal(0, 1 / np.sqrt(self.n), TABLES)
            return truths + generator.normal(0, 1 / np.sqrt(self.n), TABLES)

        assert self.covered("fully_synthetic", draw) >= 0.94  # with few degrees of freedom, by design conservative

    def test_one_fitted_model(self) -> None:
        def draw(generator, observed):
            return observed + generator.normal(0, 1 / np.sqrt(self.n), TABLES)

        assert self.covered("simple", draw) == pytest.approx(0.95, abs=0.015)

    @pytest.mark.parametrize("noise", [0.02, 0.3])
    def test_noise_aware_tables(self, noise) -> None:
        """Noise on the table's mean; draws of that mean, then independent records around it, or the table itself."""

        def population(generator, observed):
            center = observed + generator.normal(0, noise)
            truths = center + generator.normal(0, noise, TABLES)
            return truths + generator.normal(0, 1 / np.sqrt(self.n), TABLES)

        def table(generator, observed):
            return observed + generator.normal(0, noise) + generator.normal(0, noise, TABLES)

        assert self.covered("noise_aware", population) == pytest.approx(0.95, abs=0.025)
        assert self.covered("multiple_imputation", table) == pytest.approx(0.95, abs=0.025)
        assert self.covered("simple", population) < (0.9 if noise > 0.1 else 0.97)  # it does not know of noise


class TestOtherLibraries:
    def test_statsmodels(self) -> None:
        results = [SimpleNamespace(params=np.array([1.0, 2.0 + i]), bse=np.array([0.1, 0.2])) for i in range(3)]
        found = combine(results)
        np.testing.assert_allclose(found.estimate, [1.0, 3.0])
        np.testing.assert_allclose(found.within, [0.01, 0.04])

    def test_statsmodels_itself(self) -> None:
        api = pytest.importorskip("statsmodels.api")
        generator = np.random.default_rng(0)
        fits = []
        for _ in range(3):
            x = generator.normal(size=(200, 2))
            fits.append(api.OLS(x @ [1.0, -2.0] + generator.normal(size=200), api.add_constant(x)).fit())
        np.testing.assert_allclose(combine(fits).estimate, [0.0, 1.0, -2.0], atol=0.3)

    def test_coefficients_in_another_order_are_matched_by_name(self) -> None:
        names, others = ["x", "g"], ["g", "x"]
        fits = [
            SimpleNamespace(params=pd.Series([1.0, 5.0], names), bse=pd.Series([0.1, 0.5], names)),
            SimpleNamespace(params=pd.Series([5.5, 1.5], others), bse=pd.Series([0.5, 0.1], others)),
        ]
        found = combine(fits)
        assert found.names == ("x", "g")
        np.testing.assert_allclose(found.estimate, [1.25, 5.25])
        np.testing.assert_allclose(found.within, [0.01, 0.25])

    def test_another_category_that_is_missing_from_a_table(self) -> None:
        fits = [pd.Series([1.0, 2.0], ["C(x)[T.b]", name]) for name in ("C(x)[T.c]", "C(x)[T.c]", "C(x)[T.d]")]
        results = [SimpleNamespace(params=one, bse=0.1 * one) for one in fits]
        with pytest.raises(ArgumentError, match=r"results\[2\] lacks C\(x\)\[T.c\]; results\[0\] lacks C\(x\)\[T.d\]"):
            combine(results)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ([[0, 0, 0, 0], [1, 2, 3, 4]], r"results\[1\]: no record of its table has const,"),
            ([[1, 1, 1, 1], [2, 2, 2, 2]], r"results\[1\]: the columns const, x of its design determine one another"),
        ],
    )
    def test_tables_that_do_not_determine_a_coefficient(self, columns, message) -> None:
        """Statsmodels gives an empty column the coefficient 0 with the standard error 0."""
        fits = []
        for design in ([[1, 1, 1, 1], [1, 2, 3, 5]], columns):
            model = SimpleNamespace(exog=np.transpose(design).astype(float), exog_names=["const", "x"])
            fits.append(SimpleNamespace(params=np.ones(2), bse=np.array([0.0, 0.1]), model=model))
        with pytest.raises(ArgumentError, match=message):
            combine(fits)

    def test_powers_of_years_are_no_singular_design(self) -> None:
        years, fits = np.arange(2000.0, 2020.0), []
        for place in range(3):
            model = SimpleNamespace(exog=np.stack([years**0, years, years**2], axis=1), exog_names=["c", "y", "y2"])
            fits.append(SimpleNamespace(params=np.ones(3) * place, bse=np.ones(3), model=model))
        assert combine(fits).names == ("c", "y", "y2")

    def test_series_dataframes_and_dictionaries_have_names(self) -> None:
        means = [pd.Series([1.0, 3.0 + i], index=["b", "a"]) for i in range(3)]
        variances = [pd.Series([0.3, 0.1], index=["a", "b"])] * 3  # in another order than the estimates
        for pairs in (zip(means, variances, strict=True), [(dict(m), dict(variances[0])) for m in means]):
            found = combine(list(pairs))
            assert found.names == ("b", "a")
            np.testing.assert_allclose(found.within, [0.1, 0.3])
        with pytest.raises(ArgumentError, match=r"results\[1\]: the estimates are about b, a, .* a, c"):
            combine([(means[0], variances[0]), (means[1], pd.Series([0.3, 0.1], index=["a", "c"]))])
        frames = [pd.DataFrame([[1.0, 2.0 + i], [3.0, 4.0]], index=["f", "m"], columns=["x", "y"]) for i in range(3)]
        found = combine([(one, 0.1 * one) for one in frames])
        assert found.names == ("f, x", "f, y", "m, x", "m, y")
        assert "m, y" in repr(found)
        nothing = frames[2] * np.array([[1, 1], [1, np.nan]])
        with pytest.raises(ArgumentError, match="of 'm, y'"):
            combine([(one, 0.1 * one) for one in (*frames[:2], nothing)])

    def test_a_covariance_dataframe(self) -> None:
        names = ["a", "b"]
        pairs = [
            (
                pd.Series([1.0 + i, 2.0], names),
                pd.DataFrame(np.diag([0.1, 0.2]), names, names).loc[["b", "a"], ["b", "a"]],
            )
            for i in range(3)
        ]
        np.testing.assert_allclose(combine(pairs).within, [0.1, 0.2])

    @pytest.mark.parametrize("result", [("x", 1.0), ({"a": "?"}, {"a": 1.0}), (1j, 1.0), ([1.0], [[1.0, 2.0]])])
    def test_results_that_are_no_numbers_or_of_two_shapes(self, result) -> None:
        with pytest.raises(ArgumentError, match=r"results\[0\]: the estimate"):
            combine([result, (1.0, 1.0)])


class TestRefusals:
    @pytest.mark.parametrize(
        ("results", "options", "message"),
        [
            ([(1.0, 1.0)], {}, "at least two"),
            ([], {"rule": "simple"}, "at least one"),
            ([(1.0, 1.0), ([1.0, 2.0], [1.0, 1.0])], {}, "different shapes"),
            ([(1.0, -1.0), (1.0, 1.0)], {}, "at least 0"),
            ([(np.nan, 1.0), (1.0, 1.0)], {}, "finite"),
            ([1.0, 2.0], {}, "float"),
            ([SimpleNamespace(coef_=np.ones(2), intercept_=1.0)] * 2, {}, "give the coefficients and their variances"),
            ([(1.0, 1.0), (1.0, 1.0)], {"rule": "rubin"}, "rule"),
        ],
    )
    def test_of_arguments(self, results, options, message) -> None:
        with pytest.raises(ArgumentError, match=message):
            combine(results, **options)

    def test_levels(self) -> None:
        with pytest.raises(ArgumentError, match="level"):
            combine([(1.0, 1.0), (2.0, 1.0)]).interval(1.0)


def test_results_that_are_no_list():
    nothing: Any = None
    with pytest.raises(ArgumentError, match=r"results=None is not valid: .* a result for each table"):
        combine(nothing)


@pytest.mark.parametrize("level", [95, "0.95", None])
def test_levels_that_are_no_share(level):
    with pytest.raises(ArgumentError, match=r"level=.*such as 0\.95"):
        combine([(1.0, 0.5), (2.0, 0.5)]).interval(level)
