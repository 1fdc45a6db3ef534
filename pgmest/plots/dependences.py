"""The dependence of each pair of attributes in a release, as numbers and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.plots.style import draw_matrix, pyplot_for
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information
from pgmest.workloads import Projectable
from pgmest.workloads.answers import marginals

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def dependences(source: Projectable, attributes: Sequence[str]) -> np.ndarray:
    r"""Return the informational coefficient of correlation of each pair, sqrt(1 - exp(-2 I)) (Linfoot 1957), 0 to 1.

    I is the mutual information in nats. 0 is independence; for two normal variables the coefficient is the absolute
    correlation.

    Args:
        source: anything whose `project(clique)` is a Factor of counts; negative counts are treated as zero.
        attributes: the d attributes.

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
    """Draw the dependences of all pairs as a matrix with a row and a column for each attribute; dark is strong.

    Args:
        source: as for `dependences`.
        attributes: at least two, drawn in this order.
        title: a heading.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there are fewer than two attributes.
    """
    names = list(attributes)
    if len(names) < 2:
        raise ArgumentError.of("attributes", names, "at least two attributes")
    pyplot = pyplot_for("drawing dependences")
    matrix = dependences(source, names)
    np.fill_diagonal(matrix, np.nan)
    return draw_matrix(pyplot, matrix, names, title, "dependence, 0 (none) to 1", 1.0)
