"""Intervals from drawn errors: one test over all kinds of models, structure, refusals and files."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, FileFormatError
from pgmest.inference.support.support import Support
from pgmest.models.errors.drawn_intervals import MOST_CALLS, MOST_CELLS, NOISE_DRAWS, drawn_answers, error_model_of
from pgmest.models.errors.error_model import _with_sum
from pgmest.models.errors.possible_values import TRIED, TRIED_TOTALS
from pgmest.tables.information import mutual_information
from tests.reliability.damage import header_of, members, with_header, write_members

DOMAIN = pg.Domain({"a": 4, "b": 3, "c": 5, "d": 2})
PAIRS = list(itertools.combinations(DOMAIN, 2))


def table_of(seed: int, records: int = 4000, domain: pg.Domain = DOMAIN) -> pg.Dataset:
    """Return records of a chain of attributes that depend on each other."""
    generator, columns = np.random.default_rng(seed), []
    for size in domain.shape:
        own = generator.choice(size, records, p=generator.dirichlet(np.full(size, 2.0)))
        copied = own if not columns else np.where(generator.random(records) < 0.4, columns[-1] % size, own)
        columns.append(copied)
    return pg.Dataset.from_codes(np.stack(columns, axis=1), domain)


def measured(data: pg.Dataset, seed: int, stddev: float = 12.0) -> list[pg.LinearMeasurement]:
    generator = np.random.default_rng(seed)
    tables = [data.project(pair).values for pair in (("a", "b"), ("b", "c"), ("c", "d"))]
    noisy = [table + generator.normal(0, stddev, table.shape) for table in tables]
    return [
        pg.LinearMeasurement(table, pair, stddev)
        for table, pair in zip(noisy, (("a", "b"), ("b", "c"), ("c", "d")), strict=True)
    ]


def estimated(data: pg.Dataset, seed: int):
    return pg.estimate(measured(data, seed), DOMAIN)


def regional(data: pg.Dataset, seed: int):
    return pg.estimate(measured(data, seed), DOMAIN, oracle="convex")


def supported(data: pg.Dataset, seed: int):
    public = table_of(seed + 1000)
    return pg.estimate(measured(data, seed), DOMAIN, prior=Support(public))


def by(name: str, **options):
    def fit(data: pg.Dataset, seed: int):
        mechanism = getattr(pg.mechanisms, name)(epsilon=2.0, delta=1e-9, backend="simulation", **options)
        workload = None if name != "HDMM" else pg.workloads.marginals(PAIRS)
        return mechanism.fit(data, workload, seed=seed, progress=False).model

    return fit


KINDS = {
    "exact": estimated,
    "regions": regional,
    "support": supported,
    "LAMP": by("LAMP"),
    "AIM": by("AIM"),
    "MST": by("MST"),
    "PrivSyn": by("PrivSyn"),
    "PrivBayes": by("PrivBayes", estimator="original"),
    "PriView": by("PriView", estimator="original"),
    "HDMM": by("HDMM", estimator="original"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_every_kind_of_model_hold(kind):
    """Of cells, sums of cells and means, 95 % intervals hold at least 85 % each, and are not absurdly wide."""
    held: dict[str, list[np.ndarray]] = {"cells": [], "boxes": [], "means": []}
    widths, errors = [], []
    for seed in range(4):
        data = table_of(seed)
        model = KINDS[kind](data, seed)
        for pair in PAIRS:
            exact = data.project(pair).values
            found = pg.interval(model, pair)
            assert (found.kind, found.level) == ("errors", 0.95)
            held["cells"].append((found.low.values <= exact + 1e-6) & (exact <= found.high.values + 1e-6))
            estimate = model.project(pair).values
            assert np.all((found.low.values <= estimate + 1e-9) & (estimate <= found.high.values + 1e-9))
            if found.basis == "measured":  # these attributes depend on no others, which nobody can know
                widths.append(found.width.values.ravel())
                errors.append((estimate - exact).ravel())
            box = pg.Kron({name: pg.queries.prefix(DOMAIN[name]) for name in pair})
            low, high = model.interval(box)
            truth = box.apply(exact)
            held["boxes"].append((low.values <= truth + 1e-6) & (truth <= high.values + 1e-6))
            low, high = model.interval(mean_of_second, pair)
            enough = exact.sum(axis=1) >= 50
            truth = mean_of_second(data.project(pair))
            held["means"].append(((low.values <= truth) & (truth <= high.values))[enough])
    shares = {name: float(np.mean(np.concatenate([part.ravel() for part in parts]))) for name, parts in held.items()}
    assert min(shares.values()) >= 0.85, shares
    assert np.mean(np.concatenate(widths)) <= 2 * 2 * 1.96 * np.sqrt(np.mean(np.square(np.concatenate(errors))))


def test_pairs_that_nobody_chose_may_depend_as_measured_ones_do():
    """The measured neighbors say nothing about attributes that copy each other past an independent one.

    Two of three measured pairs are independent, so that intervals for typical pairs hold less than 95 % here.
    """
    held = []
    for seed in range(6):
        generator = np.random.default_rng(seed)
        one, other = generator.integers(0, 4, (2, 3000))
        copies = [np.where(generator.random(3000) < 0.4, generator.integers(0, 4, 3000), one) for _ in range(3)]
        data = pg.Dataset.from_codes(np.stack([copies[0], other, *copies[1:]], axis=1), dict.fromkeys("abcd", 4))
        pairs = [("a", "b"), ("b", "c"), ("c", "d")]
        noisy = [data.project(pair).values + generator.normal(0, 5.0, (4, 4)) for pair in pairs]
        measurements = [pg.LinearMeasurement(table, pair, 5.0) for table, pair in zip(noisy, pairs, strict=True)]
        model = pg.estimate(measurements, data.domain)
        for pair in (("a", "c"), ("a", "d")):
            low, high = model.interval(pair)
            exact = data.project(pair).values
            held.append((low.values <= exact) & (exact <= high.values))
    assert np.mean(held) >= 0.7


def mean_of_second(table: pg.Factor) -> np.ndarray:
    """Return the mean code of the second attribute by the first one's code."""
    values = table.values
    return values @ np.arange(values.shape[1]) / np.maximum(values.sum(axis=1), 1.0)


@pytest.fixture(scope="module")
def lamp() -> pg.SupportModel:
    return KINDS["LAMP"](table_of(0), 0)


def test_the_function_the_methods_and_the_order_of_attributes(lamp):
    one, other = pg.interval(lamp, ("b", "a")), lamp.interval(("a", "b"))
    np.testing.assert_array_equal(one.low.values, other.low.values.T)
    assert tuple(one.low.domain) == ("b", "a")
    stddev = lamp.uncertainty(("a", "b")).stddev.values
    np.testing.assert_allclose(other.high.values - lamp.project(("a", "b")).values, 1.959964 * stddev, rtol=1e-6)
    narrow, wide = lamp.interval("c", level=0.5), lamp.interval("c", level=0.99)
    assert np.all(narrow.width.values < wide.width.values)


def test_given_codes_are_rows_of_the_larger_table(lamp):
    low, high = lamp.interval("c", given={"a": 1})
    answer = lamp.project("c", given={"a": 1}).values
    assert np.all((low.values <= answer) & (answer <= high.values))
    whole = lamp.interval(("a", "c"))
    np.testing.assert_allclose(high.values, whole.high.values[1], rtol=1e-9)


def test_a_population_is_less_certain_than_its_table(lamp):
    table, population = (lamp.interval("c", about=about).width.values for about in ("table", "population"))
    assert np.all(population > table)
    with pytest.raises(ArgumentError, match="about"):
        lamp.interval("c", about="world")


def test_impossible_cells_stay_empty():
    data = table_of(3)
    codes = np.stack([np.asarray(column) for column in data.columns], axis=1)
    kept = codes[~((codes[:, 0] == 0) & (codes[:, 1] == 2))]
    data = pg.Dataset.from_codes(kept, DOMAIN)
    model = pg.estimate(measured(data, 0), DOMAIN, structural_zeros=[pg.zeros.impossible(("a", "b"), [(0, 2)])])
    low, high = model.interval(("a", "b"))
    assert high.values[0, 2] == low.values[0, 2] == 0
    assert high.values[1, 2] > 0


ZEROS = [
    pg.zeros.impossible(("a", "b"), [(0, 2), (3, 0)]),
    pg.zeros.impossible(("d", "a", "c"), [(1, 1, 4)]),
    pg.zeros.impossible(("c", "d"), [(2, 0)]),
]


@pytest.mark.parametrize("name", ["LAMP", "PrivSyn", "MST", "AIM", "PPSyn", "PrivMRF"])
def test_impossible_cells_stay_empty_after_every_mechanism_that_honors_zeros(name, tmp_path):
    codes = np.stack(table_of(3).columns, axis=1).astype(int)
    a, b, c, d = codes.T
    broken = ((a == 0) & (b == 2)) | ((a == 3) & (b == 0)) | ((d == 1) & (a == 1) & (c == 4)) | ((c == 2) & (d == 0))
    data = pg.Dataset.from_codes(codes[~broken], DOMAIN)
    mechanism = getattr(pg.mechanisms, name)(epsilon=0.3, delta=1e-9, structural_zeros=ZEROS, backend="simulation")
    model = mechanism.fit(data, seed=0, progress=False).model
    model.save(tmp_path / "model.npz")
    for one in (model, pg.load(tmp_path / "model.npz")):
        pair, triple = one.interval(("b", "a")).high.values, one.interval(("a", "c", "d")).high.values
        assert pair[2, 0] == pair[0, 3] == triple[1, 4, 1] == 0
        assert not triple[:, 2, 0].any()
        assert pair[1, 0] > 0
        assert triple[1, 4, 0] > 0
        for table in one.sample_tables(3, seed=0):
            assert table.project(("a", "b")).values[[0, 3], [2, 0]].tolist() == [0, 0]
            assert table.project(("a", "c", "d")).values[1, 4, 1] == 0


def rewritten(path, name, value):
    """Replace an entry of the header of a file; the members that it named go with it."""
    contents = members(path)
    header = header_of(contents)
    holder = header["known"] if name in header.get("known", {}) else header
    assert name in holder
    holder[name] = value
    write_members(path, with_header(contents, header))


@pytest.mark.parametrize("cells", [5, [["a"]], [[["a"], [1]]], [[["a"], [-1, 5]]], [[["a"], ["x"]]], [[["no"], [1]]]])
def test_files_with_wrong_impossible_cells_are_refused(cells, lamp, tmp_path):
    lamp.save(tmp_path / "model.npz")
    rewritten(tmp_path / "model.npz", "impossible", cells)
    with pytest.raises(FileFormatError):
        pg.load(tmp_path / "model.npz")


def test_differences_may_be_negative_and_counts_may_not(lamp):
    low, _ = lamp.interval(("a", "c"))
    assert low.values.min() >= 0
    difference = pg.Kron({"a": [[1.0, -1.0, 0, 0]]})
    low, high = lamp.interval(difference)
    assert low.values[0] < lamp.answer(difference).values[0] < high.values[0]


FUNCTIONS = {
    "conditional": (lambda m: m.conditional("c", "a"), ("a", "c"), lambda t: t.project(("c", "a")) / t.project("a")),
    "given": (lambda m: m.project("c", given={"a": 1}).values, ("a", "c"), lambda t: t.values[1]),
    "ratio": (lambda m: m.project("d").values[1] / m.total, ("d",), lambda t: t.values[1] / t.values.sum()),
    "kron": (
        lambda m: m.answer(pg.Kron({"a": [[1, 1, 0, 0]]}), given={"d": 0}).values,
        ("a", "d"),
        lambda t: [t.values[:2, 0].sum()],
    ),
    "several": (
        lambda m: [m.project("a").values[0], m.answer([[1.0, 0, 1]], "b").values[0]],
        ("a", "b"),
        lambda t: [t.project("a").values[0], t.project("b").values[[0, 2]].sum()],
    ),
    "information": (
        lambda m: m.mutual_information("a", "b"),
        ("a", "b"),
        lambda t: mutual_information(t, ("a",), ("b",)),
    ),
}
"""Functions of a model, and the same as functions of the table that they read."""


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("about", ["table", "population"])
def test_a_function_of_a_model_is_one_of_the_table_that_it_reads(name, about):
    of_model, clique, of_table = FUNCTIONS[name]
    model = estimated(table_of(0), 0)
    for kind in ("errors", "auto"):
        found, other = model.interval(of_model, kind=kind, about=about), model.interval(of_table, clique, about=about)
        for one, same in zip(found, other, strict=True):
            np.testing.assert_allclose(one.values, same.values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda one: one.potentials, "potentials"),
        (lambda one: one.sample(3), "sample"),
        (lambda one: len(one.cliques), "cliques"),
        (lambda one: one.project("nobody"), "nobody"),
        (lambda one: np.eye(3), "a row of numbers"),
        (lambda one: one.project("c" if one.total > 3970 else "a"), "some tables"),
    ],
    ids=["potentials", "sample", "cliques", "unknown", "matrix", "changing"],
)
def test_functions_of_a_model_that_read_more_than_tables_are_refused(function, match):
    model = estimated(table_of(0), 0)
    total = model.interval(lambda one: one.total, kind="errors")
    assert total.low.values < model.total < total.high.values
    with pytest.raises(pg.errors.PgmestError, match=match):
        model.interval(function)
    with pytest.raises(ArgumentError, match="given="):
        model.interval(lambda one: one.project("a"), given={"b": 0})


def test_a_large_table_is_refused():
    domain = pg.Domain({"a": 1000, "b": MOST_CELLS // 1000 + 1})
    noisy = pg.LinearMeasurement(np.ones(1000), "a", 1.0), pg.LinearMeasurement(np.ones(domain["b"]), "b", 1.0)
    model = pg.estimate(noisy, domain)
    with pytest.raises(ArgumentError, match="fewer attributes"):
        model.interval(("a", "b"))


def test_an_attribute_that_was_not_measured_at_all_is_as_uncertain_as_it_is():
    model = pg.estimate(measured(table_of(0), 0), pg.Domain({**DOMAIN, "e": 3}))
    assert model.interval("e").kind == "bounds"
    width = model.interval("e", kind="errors").width.values
    assert np.all(width > model.total / 3)


def test_pickles_and_files_keep_the_intervals(lamp, tmp_path):
    found = lamp.interval(("a", "d"))
    lamp.save(tmp_path / "model.npz")
    for other in (pickle.loads(pickle.dumps(lamp)), pg.load(tmp_path / "model.npz")):
        again = other.interval(("a", "d"))
        np.testing.assert_allclose(again.low.values, found.low.values, atol=1e-6)
        np.testing.assert_allclose(again.high.values, found.high.values, rtol=1e-6)


@pytest.mark.parametrize("kind", ["MST", "AIM"])
def test_pickles_and_files_keep_what_selections_say_about_unmeasured_pairs(kind, tmp_path):
    model = KINDS[kind](table_of(0), 0)
    assert model.selections
    model.save(tmp_path / "model.npz")
    loaded = pg.load(tmp_path / "model.npz")
    loaded.save(tmp_path / "again.npz")
    for again in (pickle.loads(pickle.dumps(model)), loaded, pg.load(tmp_path / "again.npz")):
        for pair in PAIRS:
            found, other = model.interval(pair).high.values, again.interval(pair).high.values
            np.testing.assert_allclose(other, found, rtol=1e-6)


@pytest.mark.parametrize("bounds", [5, [[["a"], -1.0]], [[["a"], "x"]], [[["nobody"], 1.0]], [["a"]]])
def test_files_with_wrong_bounds_are_refused(bounds, tmp_path):
    model = KINDS["MST"](table_of(0), 0)
    model.save(tmp_path / "model.npz")
    rewritten(tmp_path / "model.npz", "bounds", bounds)
    with pytest.raises(FileFormatError):
        pg.load(tmp_path / "model.npz")


@pytest.mark.parametrize("kind", ["regions", "support", "PrivBayes", "PriView", "HDMM"])
def test_files_of_every_kind_keep_the_intervals(kind, tmp_path):
    model = KINDS[kind](table_of(0), 0)
    model.save(tmp_path / "model.npz")
    np.testing.assert_allclose(
        pg.load(tmp_path / "model.npz").interval(("a", "b")).high.values,
        model.interval(("a", "b")).high.values,
        rtol=1e-6,
    )


def test_a_conditioned_model_says_which_one_to_ask(lamp):
    with pytest.raises(ArgumentError, match="given="):
        lamp.condition({"a": 0}).interval("c")


def test_errors_agree_with_those_of_the_margins(lamp):
    drawn = error_model_of(lamp).draws(("a", "b", "c"), 50, seed=0)
    total = drawn.reshape(50, -1).sum(axis=1)
    stddev = lamp.known_errors.total_stddev
    assert np.sqrt(np.mean(total**2)) == pytest.approx(1.1 * stddev, rel=0.35, abs=1e-6)
    assert np.isfinite(drawn).all()


@pytest.mark.parametrize("records", [0, 1, 2])
def test_tables_of_few_records_have_intervals(records):
    data = pg.Dataset.from_codes(np.zeros((records, 4), dtype=int), DOMAIN)
    model = KINDS["LAMP"](data, 0)
    low, high = model.interval(("a", "b"))
    assert np.isfinite(low.values).all()
    assert np.all(high.values >= data.project(("a", "b")).values - 1e-9)


def test_the_same_question_has_the_same_interval_whatever_was_asked_before(lamp):
    fresh = pickle.loads(pickle.dumps(lamp))
    first = fresh.interval(("b", "d")).low.values
    lamp.interval(("a", "b", "c"))
    np.testing.assert_array_equal(lamp.interval(("b", "d")).low.values, first)


def test_a_frequent_code_is_as_certain_as_its_answer_among_many_uncertain_rare_ones():
    """Of 2,000 records all but 60 have one code: its interval is that of its noise, and holds."""
    true, widths, held = np.r_[1940.0, np.full(40, 1.5)], [], []
    for seed in range(60):
        noise = np.random.default_rng(seed).normal(0, 20, 42)
        answers = [pg.LinearMeasurement(true + noise[1:], ("x",), 20.0)]
        answers.append(pg.LinearMeasurement([2000 + 3 * noise[0]], (), 60.0))
        low, high = pg.interval(pg.estimate(answers, {"x": 41}), "x")
        widths.append(high.values[0] - low.values[0])
        held.append(low.values[0] <= 1940 <= high.values[0])
    assert np.mean(widths) < 2 * (2 * 1.96 * 20)
    assert np.mean(held) >= 0.85


def test_errors_add_up_to_those_of_the_total_where_those_of_the_codes_do_not_add_up_to_anything():
    wanted, counts = np.array([10.0, -10.0]), np.array([3.0, 1.0])
    for errors in (np.zeros((2, 2)), np.array([[5.0, -5.0], [1.0, -1.0]]), np.array([[5.0, 1.0], [2.0, 2.0]])):
        np.testing.assert_allclose(_with_sum(errors, wanted, counts).sum(axis=1), wanted)
    np.testing.assert_allclose(_with_sum(np.zeros((2, 2)), wanted, counts), [[7.5, 2.5], [-7.5, -2.5]])


def test_noise_alone_has_no_dependence_that_was_not_measured():
    errors = error_model_of(estimated(table_of(0), 0))
    alone, whole = (errors.draws(("a", "d"), 200, seed=0, hidden=hidden) for hidden in (False, True))
    for axis in (1, 2):  # the errors of the margins, which both have
        np.testing.assert_allclose(alone.sum(axis=axis), whole.sum(axis=axis), atol=0.01)
    rows, columns, total = alone.sum(axis=2), alone.sum(axis=1), alone.sum(axis=(1, 2))
    table = errors.tables.allowed(("a", "d"))
    within = [table / table.sum(axis=axis, keepdims=True) for axis in (1, 0)]
    apart = rows[:, :, None] * within[0] + columns[:, None] * within[1] - total[:, None, None] * table / table.sum()
    assert np.abs(alone - apart).mean() < 0.1 * np.abs(alone).mean()
    assert np.square(whole).mean() > 1.5 * np.square(alone).mean()


def test_a_sum_given_as_a_function_has_the_standard_error_of_its_noise():
    model = estimated(table_of(0), 0)
    drawn = drawn_answers(model, lambda table: table.values.sum(axis=1), ("a", "b"))
    counts = drawn_answers(model, pg.Kron({"a": pg.queries.identity(4), "b": np.ones((1, 3))}))
    assert drawn.noise is not None
    assert counts.noise is None
    np.testing.assert_allclose(drawn.noise, counts.stddev().values.reshape(-1), rtol=0.2)


def test_means_hold_where_noise_is_above_the_counts_and_few_codes_have_most_records():
    """Draws whose negative counts were only taken away held 65% of these means: they are more even than the table."""
    shares = np.r_[0.6, 0.2, np.full(14, 0.2 / 14)]
    table = np.stack([455.0 * shares, 845.0 * np.roll(shares, 1)])
    domain, held = pg.Domain({"a": 2, "b": 16}), []
    truth = mean_of_second(pg.Factor(domain, table))
    for seed in range(6):
        noise = np.random.default_rng(seed).normal(0.0, 200.0, table.shape)
        model = pg.estimate([pg.LinearMeasurement(table + noise, ("a", "b"), 200.0)], domain)
        low, high = pg.interval(model, mean_of_second, ("a", "b"))
        held += ((low.values <= truth) & (truth <= high.values)).tolist()
    assert np.mean(held) >= 0.85


@pytest.mark.parametrize("clique", [("a",), ("a", "b", "c")])
def test_a_function_is_called_a_few_hundred_times(lamp, clique):
    calls = []
    drawn_answers(lamp, lambda table: calls.append(table) or table.values.sum(), clique)
    usual = MOST_CALLS + NOISE_DRAWS + 2
    cells = lamp.domain.size(clique)
    assert usual < len(calls) <= usual + 3 * TRIED + TRIED_TOTALS + 2 * cells
    calls.clear()
    drawn_answers(lamp, lambda table: calls.append(table) or np.square(table.values / table.values.sum()).sum(), clique)
    assert usual < len(calls) < 1.2 * usual  # no more where tables of one cell do not tell the range


def test_the_basis_says_whether_one_measured_clique_holds_all_attributes():
    model = estimated(table_of(0), 0)
    expected = {("a",): "measured", ("b", "a"): "measured", ("a", "c"): "dependence", ("a", "b", "c"): "dependence"}
    assert {clique: model.interval(clique).basis for clique in expected} == expected
