"""Products by kernels, up and down, against einsum and its derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.inference.exact import small_products
from pgmest.inference.exact.recycler import Recycler
from pgmest.inference.exact.small_products import Places, SmallProduct

GROUPS = ("row", "summed", "column", "kept", "left alone", "right alone")


@st.composite
def products(draw):
    """Labels of two tables in any order, the groups that their axes are of, and sizes."""
    group = draw(st.lists(st.sampled_from(GROUPS), min_size=1, max_size=7))
    names = "abcdefg"[: len(group)]
    sizes = {name: draw(st.integers(1, 4)) for name in names}
    of = {g: tuple(name for name, own in zip(names, group, strict=True) if own == g) for g in GROUPS}
    left = draw(st.permutations([n for g in ("row", "summed", "kept", "left alone") for n in of[g]]))
    right = draw(st.permutations([n for g in ("summed", "column", "kept", "right alone") for n in of[g]]))
    return tuple(left), tuple(right), of, sizes


@given(products(), st.sampled_from([1, 4, 64]), st.integers(0, 99))
@settings(max_examples=200, deadline=None)
def test_products_and_gradients_are_those_of_einsum(problem, inner, seed):
    left, right, of, sizes = problem
    rng = np.random.default_rng(seed)
    output = (*of["row"], *of["column"], *of["kept"])
    tables = [rng.random([sizes[name] for name in labels]) for labels in (left, right)]
    gradient = rng.random([sizes[name] for name in output])
    rows, columns, kept = (math.prod([sizes[name] for name in of[g]]) for g in ("row", "column", "kept"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_products, "INNER_CELLS", inner)
        step = SmallProduct(
            Places.of(0, left, (*of["row"], *of["summed"]), of["kept"], sizes),
            Places.of(1, right, (*of["summed"], *of["column"]), of["kept"], sizes),
            2,
            gradient.shape,
            (rows, columns, kept),
        )
    values: list[Any] = [*tables, None]
    gradients: list[Any] = [None, None, gradient]
    room = Recycler()
    step.up(values, room)
    step.down(values, gradients, room)
    equation = f"{''.join(left)},{''.join(right)}->{''.join(output)}"
    np.testing.assert_allclose(values[2], np.einsum(equation, *tables), rtol=1e-13)
    others = [name for name in sizes if name not in output]
    whole = np.ones([sizes[name] for name in others])  # the gradient does not depend on what is summed out
    for labels, other_labels, other, found in ((left, right, tables[1], 0), (right, left, tables[0], 1)):
        inputs = f"{''.join(output)},{''.join(other_labels)},{''.join(others)}->{''.join(labels)}"
        expected = np.einsum(inputs, gradient, other, whole)
        shared = [name for name in others if name not in labels and name not in other_labels]
        expected = expected / np.prod([sizes[name] for name in shared], dtype=float)
        np.testing.assert_allclose(gradients[found], expected, rtol=1e-12)
        assert gradients[found].shape == tables[found].shape
    assert gradients[2] is None
