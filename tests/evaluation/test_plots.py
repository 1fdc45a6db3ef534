"""Pictures: each marginal is drawn from its own numbers and labeled."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import pgmest as pg
from pgmest.errors import ArgumentError, OptionalDependencyError
from pgmest.plots import (
    compare_marginals,
    dependences,
    draw_dependences,
    draw_marginals,
    draw_pair_errors,
)
from pgmest.plots.dependences import adjusted_information

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib.pyplot")
matplotlib.use("Agg")


class Table:
    """A joint table with marginals."""

    def __init__(self, values: np.ndarray):
        self.joint = pg.Factor({"age": 3, "sex": 2}, values)

    def project(self, attributes):
        return self.joint.project(attributes)


TRUE = Table(np.array([[4, 0], [3, 1], [0, 2]]))
ESTIMATED = Table(np.array([[3, 1], [3, 1], [1, 1]]))


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    matplotlib.pyplot.close("all")


def drawn(figure: Any, kind: type) -> list[Any]:
    """Return the parts of a kind, which matplotlib's annotations call artists of any kind."""
    return list(figure.findobj(kind))


def texts(figure) -> list[str]:
    return [text.get_text() for text in drawn(figure, matplotlib.text.Text) if text.get_text()]


def test_one_way_marginals_are_drawn_with_their_counts():
    figure = compare_marginals(TRUE, ESTIMATED, [("age",)])
    true, estimated = drawn(figure, matplotlib.patches.StepPatch)[:2]
    np.testing.assert_array_equal(true.get_data().values, [4, 4, 2])
    np.testing.assert_array_equal(estimated.get_data().values, [4, 4, 2])
    assert "total variation error 0.0000" in texts(figure)


def test_two_way_marginals_are_two_maps_on_one_scale():
    figure = compare_marginals(TRUE, ESTIMATED, [("sex", "age")])
    true, estimated = drawn(figure, matplotlib.image.AxesImage)
    np.testing.assert_array_equal(true.get_array(), [[4, 0], [3, 1], [0, 2]])
    np.testing.assert_array_equal(estimated.get_array(), [[3, 1], [3, 1], [1, 1]])
    assert true.norm is estimated.norm
    assert (true.norm.vmin, true.norm.vmax) == (0, 4)


def test_what_was_measured_is_said():
    figure = compare_marginals(TRUE, ESTIMATED, [("age",), ("age", "sex")], measured=[("age",)], title="A heading")
    found = texts(figure)
    assert "measured, total variation error 0.0000" in found
    assert "never measured, total variation error 0.2000" in found
    assert "A heading" in found


def test_many_marginals_are_laid_out(tmp_path):
    figure = compare_marginals(TRUE, ESTIMATED, [("age",)] * 5 + [("age", "sex")] * 3)
    figure.savefig(tmp_path / "picture.png")
    assert len(drawn(figure, matplotlib.image.AxesImage)) == 6
    assert len(drawn(figure, matplotlib.patches.StepPatch)) >= 10


def test_the_legend_is_above_the_names_of_the_marginals():
    figure = compare_marginals(TRUE, ESTIMATED, [("age",)] * 4)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    found: list[Any] = figure.findobj(matplotlib.text.Text)
    names = [text for text in found if text.get_text() == "age"]
    assert names
    assert not any(text.get_window_extent().overlaps(legend) for text in names)


@pytest.mark.parametrize("cliques", [[], [()], [("age", "sex", "income")]])
def test_only_one_and_two_way_marginals_can_be_drawn(cliques):
    with pytest.raises(ArgumentError, match="must be one or more cliques of one or two attributes each"):
        compare_marginals(TRUE, ESTIMATED, cliques)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OptionalDependencyError, match=r"pip install matplotlib"):
        compare_marginals(TRUE, ESTIMATED, [("age",)])


def test_marginals_of_one_source():
    figure = draw_marginals(TRUE, ["age", "sex"], "A heading")
    assert [
        [bar.get_height() for bar in drawn(axes, matplotlib.patches.Rectangle)[:-1]] for axes in figure.axes[:2]
    ] == [
        [4, 4, 2],
        [7, 3],
    ]
    assert {"age", "sex", "A heading"} <= set(texts(figure))
    with pytest.raises(ArgumentError, match="at least one attribute"):
        draw_marginals(TRUE, [])


def test_bins_have_their_widths_categories_do_not_touch_and_intervals_are_lines():
    ends = {"age": (np.array([3.0, 2, 0]), np.array([5.0, 6, 4]))}
    figure = draw_marginals(TRUE, ["age"], widths={"age": np.array([10.0, 30.0])}, ends=ends)
    first, second, category = drawn(figure.axes[0], matplotlib.patches.Rectangle)[:3]
    assert second.get_width() == pytest.approx(3 * first.get_width())
    assert second.get_x() == pytest.approx(first.get_x() + first.get_width())
    assert category.get_x() > second.get_x() + second.get_width()
    (lines,) = drawn(figure.axes[0], matplotlib.collections.LineCollection)
    assert [sorted(line[:, 1]) for line in lines.get_segments()] == [[3, 5], [2, 6], [0, 4]]


def test_errors_of_pairs_are_a_symmetric_matrix():
    figure = draw_pair_errors({("b", "a"): 0.5, ("$c$", "b"): 0.1})
    (image,) = drawn(figure, matplotlib.image.AxesImage)
    np.testing.assert_array_equal(
        image.get_array().filled(np.nan), [[np.nan, np.nan, 0.1], [np.nan, np.nan, 0.5], [0.1, 0.5, np.nan]]
    )
    assert image.norm.vmax == 0.5
    assert {"$c$", "a", "b"} <= set(texts(figure))
    for wrong in ({}, {("a",): 0.1}):
        with pytest.raises(ArgumentError, match="pairs of attributes"):
            draw_pair_errors(wrong)


def test_dependences_of_known_tables():
    independent = pg.Factor({"a": 2, "b": 2}, [[10, 30], [20, 60]])
    copied = pg.Factor({"a": 2, "b": 2}, [[15, 0], [0, 5]])
    assert dependences(independent, ["a", "b"]) == pytest.approx(np.eye(2), abs=1e-6)
    assert dependences(copied, ["b", "a"])[0, 1] == pytest.approx(1.0)
    noisy = pg.Factor({"a": 2, "b": 2}, [[10, -3], [-1, 10]])
    assert dependences(noisy, ["b", "a"])[0, 1] == pytest.approx(1.0)
    constant = pg.Factor({"a": 1, "b": 3}, [[10, 20, 30]])
    assert dependences(constant, ["a", "b"])[0, 1] == 0
    assert np.isfinite(dependences(pg.Factor({"a": 2, "b": 2}, np.zeros((2, 2))), ["a", "b"])).all()


def codes_of(generator, values, records):
    return generator.choice(values, records, p=generator.dirichlet(np.full(values, 0.5)))


def entropy(*columns):
    shares = np.unique(np.stack(columns), axis=1, return_counts=True)[1] / len(columns[0])
    return -(shares * np.log(shares)).sum()


def largest_by_chance(generator, a, b):
    """Return the dependence that two independent columns exceed once in 10^9 tables, by the law of the G statistic."""
    shuffled = [entropy(a) + entropy(b) - entropy(a, generator.permutation(b)) for _ in range(5)]
    left, freedom = min(entropy(a), entropy(b)) - np.mean(shuffled), (len(set(a)) - 1) * (len(set(b)) - 1)
    freedom = min(freedom, len(a))  # in a table with fewer records than cells, each record is a deviation
    excess = (chi2.isf(1e-9, freedom) - freedom) / (2 * len(a))
    return np.sqrt(excess / left) if left > 0 else 1.0


def test_independent_columns_seldom_show_a_dependence():
    generator = np.random.default_rng(0)
    tables = [
        pg.Factor({"a": 3, "b": 4}, np.histogram2d(*generator.integers(0, (3, 4), (400, 2)).T, bins=(3, 4))[0])
        for _ in range(400)
    ]
    assert np.mean([adjusted_information(table) > 0 for table in tables]) < 0.02


@given(
    seed=st.integers(0, 2**32),
    sizes=st.tuples(st.sampled_from([2, 3, 12, 100, 600]), st.sampled_from([2, 7, 90, 800])),
    records=st.sampled_from([200, 1000, 8000]),
)
def test_shuffled_columns_show_nothing_and_one_that_another_determines_shows_one(seed, sizes, records):
    generator = np.random.default_rng(seed)
    a, b = (codes_of(generator, values, records) for values in sizes)
    domain = pg.Domain({"a": sizes[0], "b": sizes[1], "copy": sizes[0], "coarse": sizes[0]})
    data = pg.Dataset.from_codes([a, generator.permutation(b), generator.permutation(sizes[0])[a], a // 2], domain)
    found = dependences(data, ["a", "b", "copy", "coarse"])
    assert found[0, 1] == 0.0 or found[0, 1] < largest_by_chance(generator, a, b)
    varied = len(set(a)) < records / 4 and np.bincount(a).max() < records - 5
    if varied:
        assert found[0, 2] == pytest.approx(1.0)
    if varied and np.bincount(a // 2).max() < records - 5:
        assert found[0, 3] == pytest.approx(1.0)


def test_long_names_stay_different_in_pictures():
    names = [f"How satisfied are you with the {what} that you get in our canteen?" for what in ("food", "rooms")]
    table = pg.Factor(dict.fromkeys(names, 2), [[10, 30], [20, 60]])
    for figure in (
        compare_marginals(table, table, [(names[0],), (names[1],), tuple(names)]),
        draw_marginals(table, names),
        draw_dependences(table, names),
    ):
        figure.canvas.draw()
        shown = [text for text in texts(figure) if "How" in text]
        assert max(map(len, shown)) <= 2 * 28 + 3
        assert any("food" in text for text in shown)
        assert any("rooms" in text for text in shown)


def test_dependence_grows_with_the_correlation():
    generator = np.random.default_rng(0)
    x, noise = generator.normal(size=(2, 8000))
    edges = np.arange(-2, 2, 0.5)
    columns = {"x": x, "weak": 0.3 * x + 0.95 * noise, "strong": 0.9 * x + 0.44 * noise}
    data = pg.Dataset.from_codes([np.digitize(c, edges) for c in columns.values()], dict.fromkeys(columns, 9))
    _, weak, strong = dependences(data, list(columns))[0]
    assert 0.1 < weak < 0.3 < strong < 0.9


def test_dependences_are_drawn_with_their_names():
    figure = draw_dependences(TRUE, ["age", "sex"])
    (image,) = drawn(figure, matplotlib.image.AxesImage)
    assert image.get_array()[0, 1] == pytest.approx(dependences(TRUE, ["age", "sex"])[0, 1])
    figure.canvas.draw()
    assert {"age", "sex"} <= set(texts(figure))
    with pytest.raises(ArgumentError, match="at least two attributes"):
        draw_dependences(TRUE, ["age"])


@pytest.mark.parametrize("name", ["年齢", "العمر", "возраст", "💰", "a\tb", "a\u200bb"])
def test_no_text_becomes_empty_boxes(name, recwarn):
    table = pg.Factor({name: 2, "b": 2}, [[10, 30], [20, 60]])
    labels = {name: [f"{name} {code}" for code in range(2)]}
    for figure in (
        compare_marginals(table, table, [(name,), (name, "b")], labels=labels),
        draw_marginals(table, [name], labels=labels),
        draw_dependences(table, [name, "b"]),
        draw_pair_errors({(name, "b"): 0.1}),
    ):
        figure.canvas.draw()
    assert [str(warning.message) for warning in recwarn if "missing from font" in str(warning.message)] == []
