"""Margins of tables of children: against a dense solve of the projection, with sums that are noise or contradict."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.mechanisms.lamp.shrinkage import ipf_two_way
from pgmest.mechanisms.linked.reweighting import ChildSums
from pgmest.mechanisms.linked.sides import Sides, shrunk_sums, sized
from tests.mechanisms.linked.examples import random_families


def shares(table: np.ndarray) -> np.ndarray:
    """Return the sum over families of several children of the shares of their children with each code."""
    return sum((row / size for size, row in enumerate(table) if size > 1), np.zeros(table.shape[1]))


def sums_of(table: np.ndarray, errors: float = 0.0, factor: float = 1.0) -> ChildSums:
    values = np.stack([table.sum(axis=0), table[1] if len(table) > 1 else 0 * table[0], shares(table)], axis=1)
    draws = np.random.default_rng(9).standard_normal((2, *values.shape))
    return ChildSums(values * factor, draws * errors)


def projected(table: np.ndarray, rows: np.ndarray, wanted: ChildSums) -> np.ndarray:
    """Return the table of least relative entropy with sums of rows and of codes, by Newton's method on all of them."""
    sizes, codes = len(table), table.shape[1]
    cells = [(size, code) for size in range(sizes) for code in range(codes) if rows[size] > 0]
    adds = np.zeros((sizes + 3 * codes, len(cells)))
    for place, (size, code) in enumerate(cells):
        adds[size, place] = 1
        adds[sizes + code, place] = 1
        adds[sizes + codes + code, place] = size == 1
        adds[sizes + 2 * codes + code, place] = 1 / size if size > 1 else 0
    target = np.concatenate([rows, wanted.values.T.ravel()])
    start = np.array([table[cell] for cell in cells])
    point = np.zeros(len(target))

    def dual(at: np.ndarray) -> float:
        return float(target @ at - start @ np.exp(adds.T @ at))

    for _ in range(500):
        found = start * np.exp(adds.T @ point)
        off = target - adds @ found
        if np.abs(off).max() < 1e-9:
            break
        step, part = np.linalg.pinv(adds * found @ adds.T, rcond=1e-12) @ off, 1.0
        while dual(point + part * step) < dual(point) and part > 1e-12:
            part /= 2
        point = point + part * step
    result = np.zeros_like(table)
    for cell, value in zip(cells, found, strict=True):
        result[cell] = value
    assert np.abs(off).max() < 1e-6
    return result


@pytest.mark.parametrize("seed", range(12))
def test_without_noise_the_table_is_the_projection_to_all_sums(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes, codes = int(generator.integers(3, 8)), int(generator.integers(2, 5))
    before, true = (generator.gamma(2.0, 20.0, (sizes, codes)) for _ in range(2))
    for table in (before, true):
        table[0] = 0
    if seed % 3 == 0:  # no families of one child, or of another size
        true[1 + seed // 3 % (sizes - 1)] = 0
    rows, wanted = true.sum(axis=1), sums_of(true)
    found = sized(before, rows, true.sum(axis=0), sums_of(true, factor=1.7))  # of more families than the table is about
    assert np.allclose(found, projected(before, rows, wanted), atol=2e-4 * rows.sum() / codes)
    assert np.allclose(sums_of(found).values, wanted.values, atol=1e-5 * rows.sum())
    assert np.allclose(found.sum(axis=1), rows)


def test_one_factor_for_each_code_would_miss_the_averages() -> None:
    true = np.array([[0.0, 0], [60, 40], [20, 80], [90, 210], [10, 190]])
    before = np.outer(true.sum(axis=1), [0.5, 0.5])
    uniform = ipf_two_way(before, true.sum(axis=1), true.sum(axis=0))
    assert np.abs(sums_of(uniform).values - sums_of(true).values)[:, 1:].max() > 5
    found = sized(before, true.sum(axis=1), true.sum(axis=0), sums_of(true))
    assert np.allclose(sums_of(found).values, sums_of(true).values, atol=1e-3)


def test_sums_that_may_be_noise_leave_one_factor_for_each_code() -> None:
    generator = np.random.default_rng(1)
    before, true = (generator.gamma(2.0, 20.0, (5, 4)) for _ in range(2))
    before[0] = true[0] = 0
    rows, counts = true.sum(axis=1), true.sum(axis=0)
    uniform = ipf_two_way(before, rows, counts, rounds=2000)
    for errors in (1e3, 1e9):
        assert np.allclose(sized(before, rows, counts, sums_of(true, errors)), uniform, atol=2e-4 * rows.sum())


def test_a_difference_counts_by_the_share_of_its_signal() -> None:
    scaled = np.array([[0.0, 0], [50, 50], [120, 80], [150, 150]])
    wanted = scaled + np.array([[0.0, 0], [8, -8], [20, -20], [0, 0]])
    for noise, share in ((0.0, 1.0), (4.0, 0.75), (8.0, 0.0), (50.0, 0.0)):
        draws = np.zeros((2, 2, 3))
        draws[..., 1], draws[..., 2] = noise, noise * 10 / 8
        single, several = shrunk_sums(scaled, ChildSums(sums_of(wanted).values, draws))
        assert np.allclose(single, [50 + 8 * share, 50 - 8 * share])
        assert np.allclose(several, shares(scaled) + np.array([10, -10]) * share)


@pytest.mark.parametrize("seed", range(8))
def test_zeros_and_sums_that_contradict_leave_a_table_with_its_rows(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes, codes = int(generator.integers(1, 7)), int(generator.integers(1, 5))
    for trial in range(25):
        table, values = generator.gamma(0.2, 50.0, (sizes, codes)), 50 * generator.standard_normal((codes, 3))
        table[generator.random(table.shape) < 0.4] = 0
        rows = np.floor(table.sum(axis=1) + generator.integers(0, 3, sizes)) * (generator.random(sizes) < 0.7)
        rows[0] = 0
        counts = generator.gamma(0.3, 1.0, codes) * (generator.random(codes) < 0.7)
        counts = counts * (rows.sum() / counts.sum()) if counts.any() else counts
        values = values * (trial % 4 > 0)
        with np.errstate(all="raise", under="ignore", divide="warn"):
            found = sized(table, rows, counts, ChildSums(values, np.zeros((2, codes, 3))))
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        assert np.allclose(found.sum(axis=1), rows)


@pytest.mark.parametrize("ordered", [False, True])
def test_tables_of_two_children_get_the_averages(ordered: bool) -> None:
    families = random_families(np.random.default_rng(0), 60, 5, ordered=ordered)
    layout = families.layout
    tables = {name: families.counts((layout.number, name)) + 1.0 for name in layout.members}
    other = random_families(np.random.default_rng(1), 60, 5, ordered=ordered)
    sums = {name: sums_of(other.counts((layout.number, name))) for name in layout.members}
    sides = Sides.of(families, sums, tables)
    clique = layout.members[0], layout.others[1]
    shape = tuple(layout.domain[name] - 1 for name in clique)
    before = np.random.default_rng(2).gamma(2.0, 5.0, shape)
    found = sides.scaled(before, clique, families)
    if ordered:
        assert np.array_equal(found, before)
        return
    several = float(before.sum())
    for axis, name in ((1, layout.members[0]), (0, layout.members[1])):
        wanted = shares(other.counts((layout.number, name)))
        assert np.allclose(found.sum(axis=axis), wanted * (several / wanted.sum()), atol=1e-3 * several)
    noisy = {name: sums_of(other.counts((layout.number, name)), 1e9) for name in layout.members}
    assert np.allclose(Sides.of(families, noisy, tables).scaled(before, clique, families), before, rtol=1e-9)
    inside = layout.members[0], layout.members[1]
    table = sides.scaled(np.ones(shape), inside, families)
    wanted = other.counts((inside[0],))
    assert np.allclose(table.sum(axis=1), wanted * (len(families.children) / wanted.sum()), atol=1e-3 * table.sum())
