"""Whole-number weights (integerization): raked weights rounded up or down such that control totals stay met."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array, eye_array

from pgmest.errors import ControlError, plural
from pgmest.sampling.controlled import controlled_counts
from pgmest.sampling.facts import Facts
from pgmest.sampling.systematic import systematic
from pgmest.surveys.controls import Controls


def whole_weights(
    controls: Controls, codes: Mapping[str, np.ndarray], weights: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return whole numbers near the weights that meet the controls, shape (rows,).

    Rows in the same cells of all controls are rounded together: their sum is the sum of their weights, rounded up or
    down (controlled rounding, Cox 1987), where that can meet the controls. Within them each row's weight is rounded up
    or down (systematic sampling), so that expectations are the weights.

    Raises:
        ControlError: a weight is negative.

    Warns:
        UserWarning: no whole numbers meet all controls; says how many are missed and by how much.
    """
    if (weights < 0).any():
        raise ControlError('negative weights cannot be rounded: give bounds=, or use method="raking".')
    cells = [controls.cells(names, codes) for names in controls.tables]
    _, first, groups = np.unique(np.stack(cells), axis=1, return_index=True, return_inverse=True)
    groups = groups.reshape(-1)
    sums = np.bincount(groups, weights, minlength=len(first))
    n = round(float(weights.sum()))
    facts = [
        (Facts(names, csr_array(eye_array(table.size)), table.reshape(-1)), own[first])
        for (names, table), own in zip(controls.tables.items(), cells, strict=True)
    ]
    if not n:
        return np.zeros(len(weights))
    counts, unmet = controlled_counts(sums, facts, n, 1.0, generator)
    if unmet.size:
        warnings.warn(
            f"whole weights miss {plural(unmet.size, 'control')}, by {unmet.max():.4g} at most and {unmet.sum():.4g} "
            "in all, because no whole numbers for these respondents meet all of them.",
            stacklevel=3,
        )
    found = np.zeros(len(weights))
    order = np.argsort(groups, kind="stable")
    for rows, count in zip(np.split(order, np.cumsum(np.bincount(groups))[:-1]), counts, strict=True):
        if count:
            found[rows] = systematic(weights[rows], int(count), generator)
    return found
