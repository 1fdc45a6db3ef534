"""Pictures: each marginal is drawn from its own numbers and labelled, and a tree is laid out without overlaps."""

import sys

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, OptionalDependencyError
from pgmest.plots import compare_distances, compare_marginals, draw_junction_tree, draw_marginals, draw_pair_errors

matplotlib = pytest.importorskip("matplotlib")
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


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def test_one_way_marginals_are_drawn_with_their_counts():
    figure = compare_marginals(TRUE, ESTIMATED, [("age",)])
    true, estimated = figure.findobj(matplotlib.patches.StepPatch)[:2]
    np.testing.assert_array_equal(true.get_data().values, [4, 4, 2])
    np.testing.assert_array_equal(estimated.get_data().values, [4, 4, 2])
    assert "total variation error 0.0000" in texts(figure)


def test_two_way_marginals_are_two_maps_on_one_scale():
    figure = compare_marginals(TRUE, ESTIMATED, [("sex", "age")])
    true, estimated = figure.findobj(matplotlib.image.AxesImage)
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
    assert len(figure.findobj(matplotlib.image.AxesImage)) == 6
    assert len(figure.findobj(matplotlib.patches.StepPatch)) >= 10


@pytest.mark.parametrize("cliques", [[], [()], [("age", "sex", "income")]])
def test_only_one_and_two_way_marginals_can_be_drawn(cliques):
    with pytest.raises(ArgumentError, match="must be one or more cliques of one or two attributes each"):
        compare_marginals(TRUE, ESTIMATED, cliques)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OptionalDependencyError, match=r"pip install 'pgmest\[plot\]'"):
        compare_marginals(TRUE, ESTIMATED, [("age",)])


def test_tree_shows_every_clique_and_separator(tmp_path):
    domain = pg.Domain({"a": 2, "b": 3, "c": 4, "d": 5})
    tree = pg.JunctionTree.from_cliques(domain, [("a", "b"), ("b", "c"), ("d",)])
    figure = draw_junction_tree(tree, "A tree")
    figure.savefig(tmp_path / "tree.png")
    found = texts(figure)
    assert {"a, b\n6 cells", "b, c\n12 cells", "d\n5 cells", "b", "A tree"} <= set(found)
    places = figure.axes[0].collections[0].get_offsets()
    assert len({tuple(place) for place in np.asarray(places)}) == 3


def test_marginals_of_one_source():
    figure = draw_marginals(TRUE, ["age", "sex"], "A heading")
    areas = [patch.get_data().values.tolist() for patch in figure.findobj(matplotlib.patches.StepPatch)]
    assert areas == [[4, 4, 2], [7, 3]]
    assert {"age", "sex", "A heading"} <= set(texts(figure))
    with pytest.raises(ArgumentError, match="at least one attribute"):
        draw_marginals(TRUE, [])


def test_errors_of_pairs_are_a_symmetric_matrix():
    figure = draw_pair_errors({("b", "a"): 0.5, ("$c$", "b"): 0.1})
    (image,) = figure.axes[0].get_images()
    np.testing.assert_array_equal(
        image.get_array().filled(np.nan), [[np.nan, np.nan, 0.1], [np.nan, np.nan, 0.5], [0.1, 0.5, np.nan]]
    )
    assert image.norm.vmax == 0.5
    assert {"$c$", "a", "b"} <= set(texts(figure))
    for wrong in ({}, {("a",): 0.1}):
        with pytest.raises(ArgumentError, match="pairs of attributes"):
            draw_pair_errors(wrong)


def test_distances_of_members_and_others():
    figure = compare_distances(np.array([0.0, 0.0, 0.3]), np.array([0.3, 0.3]))
    others, members = figure.findobj(matplotlib.patches.StepPatch)[:2]
    assert (others.get_data().values[[0, -1]].tolist(), members.get_data().values[[0, -1]].tolist()) == ([0, 2], [2, 1])
