"""Tables with names, labels or masks as values: put in the order of the clique and the codes, or refused."""

from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pgmest as pg
from pgmest.errors import MeasurementError, ShapeError, TotalError

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})
RNG = np.random.default_rng(0)
COLUMNS = {name: RNG.permutation(np.resize(np.arange(size), 60)) for name, size in DOMAIN.items()}
FRAME = pd.DataFrame(COLUMNS)
DATA = pg.Dataset.from_frame(FRAME, DOMAIN)


@dataclass
class Labeled:
    """The part of an xarray array that is read."""

    values: np.ndarray
    dims: tuple[str, ...]
    coords: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def shape(self):
        return self.values.shape

    def copy(self, data):
        return Labeled(data, self.dims, self.coords)

    def __add__(self, number):
        return self.copy(self.values + number)


MAKERS = {
    "exact": lambda table, clique: pg.LinearMeasurement.exact(table, clique),
    "noisy": lambda table, clique: pg.LinearMeasurement(table, clique, 2.0),
    "rounded": lambda table, clique: pg.LinearMeasurement.rounded(table, clique, 1),
    "suppressed": lambda table, clique: pg.LinearMeasurement.suppressed(table, clique, 0),
    "between": lambda table, clique: pg.LinearMeasurement.between(table, table, clique),
}


def published(made: pg.LinearMeasurement) -> np.ndarray:
    """The table that was given, from a measurement of any kind."""
    return made.values if made.published is None else made.published


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("clique", [*permutations("ab"), *permutations("abc", 2), *permutations("abc")])
def test_names_decide_the_order(kind, clique):
    """Whatever the order of the axes and of the codes along them, the measurement is that of the clique."""
    expected = DATA.project(clique).datavector()
    counts = FRAME.value_counts(list(reversed(clique)))  # a MultiIndex, by decreasing count
    full = pd.MultiIndex.from_product([range(DOMAIN[name]) for name in counts.index.names], names=counts.index.names)
    counts = counts.reindex(full[RNG.permutation(len(full))], fill_value=0)
    last = clique[-1]
    coordinates = {name: RNG.permutation(DOMAIN[name]) for name in clique}
    shuffled = DATA.project(tuple(reversed(clique))).values[np.ix_(*(coordinates[name] for name in reversed(clique)))]
    tables = [
        counts,
        counts.unstack(clique[0]),
        DATA.project(tuple(sorted(clique, reverse=True))),
        counts.unstack(last)[RNG.permutation(DOMAIN[last])],
        Labeled(shuffled, tuple(reversed(clique)), coordinates),
        Labeled(DATA.project(tuple(reversed(clique))).values, tuple(reversed(clique))),
    ]
    if len(clique) == 2:
        tables.append(pd.crosstab(FRAME[clique[1]], FRAME[clique[0]]))
    for table in tables:
        made = MAKERS[kind](table, clique)
        assert np.array_equal(published(made), expected)
        made.check(DOMAIN)


@pytest.mark.parametrize("kind", MAKERS)
def test_codes_decide_the_order(kind):
    counts = pd.Series([5.0, 7.0, 9.0], index=[2, 0, 1])
    for table in (counts, counts.astype("Int64"), counts.to_frame("count"), counts.rename(index=float)):
        assert published(MAKERS[kind](table, "a")).tolist() == [7.0, 9.0, 5.0]
    assert published(MAKERS[kind](pd.Series([5.0, 7.0], index=[True, False]), "b")).tolist() == [7.0, 5.0]


def test_tables_without_names_and_labels_count_by_position():
    flat, table = DATA.project(("a", "b")).datavector(), DATA.project(("a", "b")).values
    for values in (
        pd.Series(flat),
        pd.DataFrame(table),
        pl.Series(flat),
        pl.DataFrame(table),
        Labeled(table, ("dim_0", "dim_1")),
    ):
        assert np.array_equal(pg.LinearMeasurement(values, ("a", "b")).values, flat)
    assert np.array_equal(pg.LinearMeasurement(pd.Series(flat[:3]), "a").values, flat[:3])
    answers = pd.Series([1.0, 2.0], index=[7, 3])  # answers to a query have no codes
    assert pg.LinearMeasurement(answers, "a", query=[[1, 1, 0], [0, 0, 1]]).values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("table", "clique", "message"),
    [
        (pd.Series([1.0, 2.0], index=["f", "m"]), "b", "the labels 'f', 'm' for b, which are not codes"),
        (pd.Series([1.0, 2.0], index=[1, 2]), "b", "name 2 of the 3 cells"),
        (pd.Series([1.0, 2.0], index=[0, 10**12]), "b", "name 2 of the"),
        (pd.Series([1.0, 2.0], index=[0, 0]), "b", "name 2 of the 1 cells"),
        (pd.Series([1.0, 2.0, 3.0], index=[0, 0, 2]), "a", "name 2 of the 3 cells"),
        (pd.Series([1.0, 2.0], index=[-1, 0]), "b", "not codes"),
        (pd.Series([1.0, 2.0], index=[0.5, 1.0]), "b", "not codes"),
        (pd.Series([1.0, 2.0], index=pd.Index([0, 1], name="c")), "b", "'c', which are not the attributes"),
        (pd.crosstab(FRAME["a"], FRAME["c"]), ("a", "b"), "'a', 'c', which are not the attributes"),
        (pd.crosstab(FRAME["a"], FRAME["b"]), ("a", "b", "c"), "which are not the attributes"),
        (pd.crosstab(FRAME["a"], FRAME["b"], margins=True), ("a", "b"), "not codes"),
        (pd.crosstab(FRAME["a"], FRAME["b"]).rename_axis(columns=None), ("b", "a"), "others have no names"),
        (FRAME.value_counts(["a", "b"]).iloc[1:], ("a", "b"), "of the 6 cells"),
        (Labeled(np.ones((3, 2)), ("a", "x")), ("a", "b"), "'a', 'x', which are not the attributes"),
        (pg.Factor({"a": 3, "c": 4}, np.ones((3, 4))), ("a", "b"), "a Factor over"),
        (pd.Series(["x", "y"]), "b", "must be real numbers"),
        (pd.Series([1, None], dtype="Int64"), "b", "NaN or infinite"),
    ],
)
def test_tables_that_contradict_the_clique_are_refused(table, clique, message):
    with pytest.raises(MeasurementError, match=message) as caught:
        pg.LinearMeasurement(table, clique)
    assert len(str(caught.value)) < 400


class TestDeviations:
    @pytest.mark.parametrize("noise", [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    def test_the_shape_of_the_values(self, noise):
        for values in (np.ones((3, 2)), np.ones(6)):
            if np.shape(noise) in (values.shape, (6,)):
                made = pg.LinearMeasurement(values, ("a", "b"), noise)
                assert np.asarray(made.stddev).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]

    def test_one_for_each_row_or_column(self):
        rows = pg.LinearMeasurement(np.ones((3, 2)), ("a", "b"), [[1.0], [2.0], [3.0]])
        assert np.asarray(rows.stddev).tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
        columns = pg.LinearMeasurement(np.ones((3, 2)), ("a", "b"), [[1.0, 2.0]])
        assert np.asarray(columns.stddev).tolist() == [1.0, 2.0] * 3

    def test_names(self):
        values, errors = DATA.project(("a", "b")), 1 + DATA.project(("b", "a"))
        made = pg.LinearMeasurement(values, ("b", "a"), errors)
        assert np.array_equal(made.stddev, 1 + made.values)
        frame = pd.crosstab(FRAME["a"], FRAME["b"])
        assert np.array_equal(pg.LinearMeasurement(frame, ("b", "a"), frame + 1).stddev, 1 + made.values)

    def test_arrays_follow_the_order_of_a_labeled_table(self):
        counts = pd.Series([5.0, 7.0, 9.0], index=[2, 0, 1])
        made = pg.LinearMeasurement(counts, "a", [0.5, 0.7, 0.9])
        assert (made.values.tolist(), np.asarray(made.stddev).tolist()) == ([7.0, 9.0, 5.0], [0.7, 0.9, 0.5])
        square = {"a": 3, "c": 3}
        table = pg.Factor(square, np.arange(9.0).reshape(3, 3))
        frame = pd.DataFrame(table.values, index=pd.RangeIndex(3, name="a"), columns=pd.RangeIndex(3, name="c"))
        for given in (table, frame, Labeled(table.values, ("a", "c"))):
            made = pg.LinearMeasurement(given, ("c", "a"), 1 + table.values)
            assert np.array_equal(made.stddev, 1 + made.values)
            for ends in ((given, table.values + 2), (table.values, given + 2)):
                made = pg.LinearMeasurement.between(*ends, ("c", "a"))
                assert (made.high - made.low).tolist() == [2] * made.rows

    @pytest.mark.parametrize("noise", [[1.0, 2.0, 3.0], np.ones((2, 3)), np.ones((3, 2, 1)), np.ones((1, 6))])
    def test_other_shapes_are_refused(self, noise):
        with pytest.raises(ShapeError, match="stddev"):
            pg.LinearMeasurement(np.ones((3, 2)), ("a", "b"), noise)

    def test_a_masked_deviation_is_refused(self):
        with pytest.raises(MeasurementError, match="stddev: 1 are masked"):
            pg.LinearMeasurement([1.0, 2.0], "b", np.ma.masked_equal([1.0, -9.0], -9.0))


class TestMasked:
    TABLE = np.ma.masked_equal([[10.0, -9.0], [30.0, 5.0], [-9.0, 8.0]], -9.0)

    @pytest.mark.parametrize("kind", MAKERS)
    def test_masked_cells_are_left_out(self, kind):
        made = MAKERS[kind](self.TABLE, ("a", "b"))
        assert published(made).tolist() == [10.0, 30.0, 5.0, 8.0]
        truth = np.array([[10.0, 77.0], [30.0, 5.0], [66.0, 8.0]])
        assert made.answer(pg.Factor(DOMAIN.project(("a", "b")), truth)).tolist() == [10.0, 30.0, 5.0, 8.0]
        made.check(DOMAIN)
        with pytest.raises(ShapeError):
            made.check(pg.Domain({"a": 2, "b": 3}))

    def test_deviations_go_with_their_cells(self):
        noise = np.arange(1.0, 7.0).reshape(3, 2)
        for given in (noise, np.ma.array(noise, mask=self.TABLE.mask), noise.reshape(-1)):
            assert np.asarray(pg.LinearMeasurement(self.TABLE, ("a", "b"), given).stddev).tolist() == [
                1.0,
                3.0,
                4.0,
                6.0,
            ]
        assert pg.LinearMeasurement(self.TABLE, ("a", "b"), 2.0).stddev == 2.0

    def test_ends_of_a_mask_of_either_side(self):
        made = pg.LinearMeasurement.between(self.TABLE, np.full((3, 2), 40.0), ("a", "b"))
        assert (made.low.tolist(), made.high.tolist()) == ([10.0, 30.0, 5.0, 8.0], [40.0] * 4)
        made = pg.LinearMeasurement.percentages(np.ma.masked_equal([20, -9], -9), "b", 50)
        assert (made.low.tolist(), made.high.tolist(), made.stated_total) == ([10.0], [10.0], 50.0)

    def test_estimates_see_the_other_cells(self):
        counts = pg.LinearMeasurement(np.ma.masked_equal([10.0, -999.0, 30.0], -999.0), "a", 0.1)
        with pytest.raises(TotalError, match="total="):
            pg.estimate([counts], DOMAIN)
        model = pg.estimate([counts, pg.LinearMeasurement([60.0], (), 0.1)], DOMAIN)
        assert np.allclose(model.project("a").values, [10, 20, 30], atol=0.5)

    def test_nothing_masked_and_everything_masked(self):
        assert pg.LinearMeasurement(np.ma.array([1.0, 2.0]), "b").query is None
        with pytest.raises(MeasurementError, match="no values"):
            pg.LinearMeasurement(np.ma.masked_all(2), "b")
        with pytest.raises(MeasurementError, match="answers to its query are masked"):
            pg.LinearMeasurement(np.ma.masked_equal([1.0, -9.0], -9.0), "b", query=np.eye(2)[::-1])


def test_a_stated_total_survives_files(tmp_path):
    made = pg.LinearMeasurement.percentages([12] * 7 + [14], "x", of=1000)
    for name in ("m.json", "m.npz"):
        pg.save_measurements(tmp_path / name, [made])
        assert pg.load_measurements(tmp_path / name, {"x": 8})[0].stated_total == 1000.0
    for total in (-1, np.nan, "many", True):
        with pytest.raises(MeasurementError, match="total must be"):
            pg.LinearMeasurement.between([1], [2], "x", total=total)  # pyright: ignore[reportArgumentType]


def test_bounds_use_the_stated_total():
    made = pg.LinearMeasurement.percentages([30, 70], "b", of=1000)
    low, high = pg.estimate([made], DOMAIN).bounds(())
    assert float(low) == float(high) == 1000.0


def test_messages_hold_no_tables():
    for make in (
        lambda: pg.LinearMeasurement("a", np.ones((50, 40))),
        lambda: pg.LinearMeasurement([["x"] * 40] * 50, ("a", "b")),
        lambda: pg.LinearMeasurement(np.ones(4), "a", query=np.full((4, 900), np.nan)),
        lambda: pg.LinearMeasurement([1.0], "a", noise=np.ones(1000)),  # pyright: ignore[reportArgumentType]
        lambda: pg.estimate([pg.LinearMeasurement([1.0, 2.0], "b")], DOMAIN, total=np.ones((50, 50))),  # pyright: ignore[reportArgumentType]
        lambda: pg.estimate([pg.LinearMeasurement([1.0, 2.0], "b")], DOMAIN, init=np.ones((50, 50))),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises((pg.errors.PgmestError, ValueError)) as caught:
            make()
        assert len(str(caught.value)) < 400
        assert str(caught.value).count("\n") == 0


def test_models_of_masked_tables_are_read_back(tmp_path):
    """The query of the cells that are not masked is sparse; dense and structured queries are read back as well."""
    table = np.ma.masked_equal([[10.0, -9.0], [30.0, 5.0], [-9.0, 8.0]], -9.0)
    kinds = [
        pg.LinearMeasurement(table, ("a", "b"), 2.0),
        pg.LinearMeasurement([20.0, 25.0], "b", 1.0, query=[[1.0, 0.0], [0.5, 1.0]]),
        pg.LinearMeasurement([20.0, 30.0, 60.0], "a", 1.0, query=pg.queries.prefix(3)),
    ]
    model = pg.estimate(kinds, DOMAIN, total=60)
    model.save(tmp_path / "model.npz")
    loaded = pg.load(tmp_path / "model.npz")
    for kept, made in zip(loaded.measurements, kinds, strict=True):
        assert np.array_equal(kept.values, made.values)
        truth = RNG.random(made.cells)
        assert np.allclose(kept.answer_cells(truth), made.answer_cells(truth))
    assert np.allclose(
        loaded.interval("a", kind="noise").low.values, model.interval("a", kind="noise").low.values, atol=1e-6
    )
