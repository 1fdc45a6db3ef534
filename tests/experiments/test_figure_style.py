"""The one style of the figures: what is drawn is what was given, with its spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

pytest.importorskip("matplotlib")

from experiments.figure_style import (
    COLORS,
    DPI,
    MARKERS,
    dots,
    legend,
    lines,
    log_axes,
    offset,
    panels,
    paper_marks,
    reference,
    save,
    summary,
    titles,
)

TABLE = pd.DataFrame(
    [{"epsilon": e, "method": m, "error": e * k + s / 10, "table": t} for e in (0.1, 1.0) for k, m in enumerate("ab", 1)
     for s in range(5) for t in ("x", "y")]
)  # fmt: skip


def test_a_point_is_the_median_and_its_spread_the_range_or_an_interval():
    values = [1.0, 5.0, 2.0, np.nan, None]
    assert summary(values) == (2.0, 1.0, 5.0)
    center, low, high = summary(values, "interval")
    expected = stats.t.interval(0.95, 2, np.mean([1, 5, 2]), stats.sem([1, 5, 2]))
    assert (center, low, high) == pytest.approx((np.mean([1, 5, 2]), *expected))
    assert summary([3.0], "interval") == (3.0, 3.0, 3.0)
    assert np.isnan(summary([np.nan])).all()


def test_lines_go_through_medians_and_the_band_is_the_range():
    _, [axes] = panels(1)
    lines(axes, TABLE, "epsilon", "error", "method", order=("b", "missing", "a"), log="xy")
    drawn = {line.get_label(): line for line in axes.get_lines()}
    assert list(drawn) == ["b", "a"]
    np.testing.assert_allclose(np.asarray(drawn["b"].get_ydata()), [0.1 * 2 + 0.2, 2 + 0.2])
    assert axes.get_xscale() == axes.get_yscale() == "log"
    band = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (band.min(), band.max()) == pytest.approx((0.2, 2.4))


def test_dots_stand_side_by_side_in_the_order_asked_for():
    _, [axes] = panels(1)
    dots(axes, TABLE.query("epsilon == 1.0"), "table", "error", "method", order=("a", "b"), places=("y", "x"))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["y", "x"]
    containers: list[Any] = axes.containers
    first, second = (container.lines[0].get_xdata() for container in containers)
    np.testing.assert_allclose(first, [offset(0, 2), 1 + offset(0, 2)])
    np.testing.assert_allclose(second - first, offset(1, 2) - offset(0, 2))


def test_a_figure_has_one_legend_outside_and_is_saved_sharp(tmp_path):
    from PIL import Image

    figure, axes = panels(3, columns=2, width=3.0, height=2.0)
    assert len(axes) == 3
    for one in axes:
        lines(one, TABLE, "epsilon", "error", "method")
    reference(axes[0], 1.0, "uniform table")
    paper_marks(axes[0], [1.0], [1.2])
    titles(axes[0], "title", "epsilon", "error")
    legend(figure, axes, title="method")
    [key] = figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["a", "b", "uniform table", "paper"]
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


def test_colors_and_markers_are_distinct():
    assert len(set(COLORS)) == len(COLORS) == len(MARKERS) == len(set(MARKERS))
