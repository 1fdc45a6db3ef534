"""Dependences: how strongly each pair of attributes goes together in a release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.evaluation.plots.style import COLORS, pyplot_for, shown, style
from pgmest.queries.workloads import Projectable
from pgmest.queries.workloads.answers import marginals
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NAMED = 60
"""Of more attributes the names would not be legible."""


def dependences(source: Projectable, attributes: Sequence[str]) -> np.ndarray:
    r"""The informational coefficient of correlation of each pair, sqrt(1 - exp(-2 I)) (Linfoot 1957), 0 to 1.

    I is their mutual information in nats. 0 is independence; of two normal variables it is the absolute correlation.

    Args:
        source: anything whose `project(clique)` is a Factor of counts; counts below zero are taken as zero.
        attributes: d of them.

    Returns:
        a symmetric array of shape (d, d), with ones on the diagonal.
    """
    pairs = list(combinations(attributes, 2))
    found = np.eye(len(attributes))
    places = {name: place for place, name in enumerate(attributes)}
    for (a, b), table in zip(pairs, marginals(source, pairs), strict=True):
        clipped = Factor(table.domain, np.maximum(table.values, 0.0))
        information = mutual_information(clipped, (a,), (b,)) if clipped.values.any() else 0.0
        found[places[a], places[b]] = found[places[b], places[a]] = np.sqrt(-np.expm1(-2 * max(information, 0.0)))
    return found


def draw_dependences(source: Projectable, attributes: Iterable[str], title: str = "") -> Figure:
    """The dependences of all pairs as a matrix with a row and a column for each attribute; dark is strong.

    Args:
        source: as for `dependences`.
        attributes: at least two, drawn in this order.
        title: a heading.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: fewer than two attributes.
    """
    names = list(attributes)
    if len(names) < 2:
        raise ArgumentError.of("attributes", names, "at least two attributes")
    pyplot = pyplot_for("drawing dependences")
    matrix = dependences(source, names)
    np.fill_diagonal(matrix, np.nan)
    side = 2.0 + 0.3 * min(len(names), MOST_NAMED)
    with pyplot.rc_context(style()):
        figure, axes = pyplot.subplots(figsize=(side + 0.8, side), layout="constrained")
        image = axes.imshow(matrix, cmap=COLORS, vmin=0.0, vmax=1.0)
        if len(names) <= MOST_NAMED:
            axes.set_xticks(range(len(names)), [shown(name) for name in names], rotation=90)
            axes.set_yticks(range(len(names)), [shown(name) for name in names])
        axes.set_title(title)
        figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, label="dependence, 0 (none) to 1")
    return figure
