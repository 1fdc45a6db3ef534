"""The style of the pictures: one legend outside the axes, plain numbers, a sharp file."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from experiments.figure_style import COLORS, DPI, legend, log_axes, panels, save, titles


def test_a_figure_has_one_legend_outside_and_is_saved_sharp(tmp_path):
    from PIL import Image

    figure, axes = panels(3, columns=2, width=3.0, height=2.0)
    assert len(axes) == 3
    for one in axes:
        for label in "ab":
            one.plot([1, 2], [1, 2], label=label)
    titles(axes[0], "title", "epsilon", "error")
    legend(figure, axes)
    [key] = figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["a", "b"]
    save(figure, tmp_path / "folder" / "figure.png")
    with Image.open(tmp_path / "folder" / "figure.png") as image:
        assert image.size == pytest.approx((6.0 * DPI, 4.0 * DPI), abs=2)
    assert DPI >= 150
    right = key.get_window_extent().x0
    assert all(one.get_window_extent().x1 <= right for one in axes)


def test_log_axes_have_plain_numbers():
    figure, [axes] = panels(1)
    axes.plot([0.01, 1, 100], [1, 2, 3])
    log_axes(axes, "x")
    figure.canvas.draw()
    assert {"0.01", "1", "100"} <= {label.get_text() for label in axes.get_xticklabels()}


def test_colors_are_distinct():
    assert len(set(COLORS)) == len(COLORS)
