"""Sums of products of labeled tables, against einsum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.inference.marginals import contraction
from pgmest.inference.marginals.contraction import Label, Table, contract, contraction_order, matrix_product, sum_axes

pytestmark = pytest.mark.filterwarnings("error")

LABELS = "abcdef"


@st.composite
def products(draw: st.DrawFn) -> tuple[list[Table], tuple[str, ...]]:
    sizes = {label: draw(st.integers(1, 3)) for label in LABELS}
    axes = draw(st.lists(st.lists(st.sampled_from(LABELS), unique=True, max_size=4), max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 100)))
    tables = [Table(tuple(names), rng.standard_normal([sizes[name] for name in names])) for names in axes]
    present = sorted({name for names in axes for name in names})
    output = draw(st.lists(st.sampled_from(present), unique=True)) if present else []
    return tables, tuple(output)


def by_einsum(tables: list[Table], output: tuple[str, ...]) -> np.ndarray:
    operands: list = []
    for table in tables:
        operands += [table.values, [LABELS.index(str(label)) for label in table.labels]]
    arguments: list[Any] = [1.0, [], *operands, [LABELS.index(label) for label in output]]
    return np.einsum(*arguments)


@given(products(), st.sampled_from([0, 2, 12]), st.sampled_from([0, 256]))
@settings(max_examples=200, deadline=None)
def test_a_contraction_is_the_einsum(product: tuple[list[Table], tuple[str, ...]], exact: int, tiny: int) -> None:
    tables, output = product
    contraction.contraction.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction, "EXACT_SEARCH", exact)
        patch.setattr(contraction, "_TINY_PRODUCT", tiny)
        np.testing.assert_allclose(contract(tables, output), by_einsum(tables, output), atol=1e-12)


def test_a_chain_is_contracted_from_its_short_end() -> None:
    labels = [("a", "b"), ("b", "c"), ("c", "d")]
    sizes: dict[Label, int] = {"a": 2, "b": 100, "c": 100, "d": 100}
    assert contraction_order(labels, ("a", "d"), sizes) == [(0, 1), (0, 1)]
    program = contraction.contraction(tuple(labels), ((2, 100), (100, 100), (100, 100)), ("a", "d"))
    assert program.operations == 2 * (2 * 100 * 100)
    assert program.largest == 100 * 100


def test_no_tables_make_one() -> None:
    assert contract([], ()) == 1.0


def test_a_lone_table_is_summed_and_transposed() -> None:
    table = Table(("a", "b", "c"), np.arange(24.0).reshape(2, 3, 4))
    np.testing.assert_array_equal(contract([table], ("c", "a")), np.arange(24.0).reshape(2, 3, 4).sum(axis=1).T)


@pytest.mark.parametrize("shape", [(70, 5, 40), (40, 5, 70), (64, 1, 64), (3, 500, 2)])
@pytest.mark.parametrize("unshared", [1 << 10, 1 << 18])
def test_a_product_in_pieces_is_the_product(
    shape: tuple[int, int, int], unshared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contraction, "UNSHARED_PRODUCT", unshared)
    monkeypatch.setattr(contraction, "_LEAST_ROWS", 2)
    rng = np.random.default_rng(0)
    a, b = rng.random((shape[0], shape[1])), rng.random((shape[1], shape[2]))
    np.testing.assert_allclose(matrix_product(a, b), np.einsum("ik,kj->ij", a, b), rtol=1e-13)
    np.testing.assert_allclose(matrix_product(b.T, a.T), np.einsum("ik,kj->ji", a, b), rtol=1e-13)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.data())
@settings(max_examples=100, deadline=None)
def test_sums_over_axes(shape: list[int], data: st.DataObject) -> None:
    array = np.random.default_rng(0).random((*shape, 40))
    axes = data.draw(st.lists(st.integers(0, len(shape)), unique=True))
    np.testing.assert_allclose(sum_axes(array, axes), array.sum(axis=tuple(axes)), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(700, 300), (300, 700)])
def test_a_product_in_pieces_keeps_its_precision(dtype, shape):
    rng = np.random.default_rng(0)
    a, b = rng.random((shape[0], 40)).astype(dtype), rng.random((40, shape[1])).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction, "UNSHARED_PRODUCT", 40 * 300 * 64)
        found = contraction.matrix_product(a, b)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, a @ b, rtol=1e-4)
