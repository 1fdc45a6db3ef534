"""Families: tables against brute force, and what one family moves, against all neighbors of small tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pgmest.mechanisms.linked.families import OTHER, Families, Layout, shares
from pgmest.mechanisms.linked.lengths import MeasuredLengths, best_cut, ratio_range
from pgmest.mechanisms.linked.numbers import best_cut_of_numbers
from pgmest.mechanisms.linked.pairing import MOST_ALL, NEAR
from pgmest.mechanisms.linked.search import without_absent
from pgmest.tables.domain import Clique, Domain
from tests.mechanisms.linked.examples import random_families


def all_cliques(layout: Layout) -> list[Clique]:
    """Return all single attributes and pairs that a run may measure."""
    singles: list[Clique] = [(name,) for name in (*layout.members, *layout.others)]
    pairs = [pair for pair in itertools.combinations(layout.domain, 2) if not layout.is_above(pair)]
    kinds = [tuple(map(layout.kind, pair)) for pair in pairs]
    return singles + [pair for pair, kind in zip(pairs, kinds, strict=True) if OTHER not in kind or kind == (2, OTHER)]


def partners(size: int, i: int) -> list[int]:
    steps = range(1, size) if size <= MOST_ALL else [*range(1, NEAR + 1), *range(size - NEAR, size)]
    return [(i + step) % size for step in steps]


CUTS = (0.0, 0.2, 1.0, 1.7, 4.0)
"""Lengths to which families are cut."""


def brute_force(families: Families, clique: Clique, cut: float) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths and averages, counted family by family."""
    layout = families.layout
    shape = tuple(layout.domain[name] for name in clique)
    lengths, averages = np.zeros(shape), np.zeros(shape)
    alike = len(clique) == 2 and layout.is_across(clique) and layout.place(clique[0]) == layout.place(clique[1])
    alike = alike and not layout.ordered
    for g, size in enumerate(families.sizes):
        mine = families.children[families.first[g] : families.first[g] + size].tolist()
        if layout.ordered and layout.is_across(clique):
            members = list(itertools.pairwise([*mine, None])) or [(None, None)]
        elif not layout.is_across(clique):
            members = [(child, None) for child in mine] or [(None, None)]
        elif len(clique) == 1:
            members = [(None, child) for child in mine] if size > 1 else [(None, None)]
        else:
            members = [(mine[i], mine[j]) for i in range(size) for j in partners(size, i)] if size > 1 else []
            members = members or [(mine[0] if mine else None, None)]
        counts, present = np.zeros(shape), np.zeros(shape)
        for one, other in members:
            cell, there = [], True
            for name in clique:
                kind, place = layout.kind(name), layout.place(name)
                source = families.parents[g] if kind < 2 else one if kind == 2 else other
                cell.append(source[place] if source is not None else layout.domain[name] - 1)
                there = there and source is not None
            counts[tuple(cell)] += 1
            present[tuple(cell)] += there
        averages += counts / counts.sum()
        if present.any():
            weight = 1 / counts.sum() if layout.is_across(clique) else 1.0
            wanted = weight * (np.triu(counts, 1) + np.diag(np.diag(counts) / 2) if alike else present)
            short = wanted / max(cut, np.linalg.norm(wanted))
            lengths += short + np.triu(short, 1).T if alike else short
    return lengths, averages


@pytest.mark.parametrize("at_most", [1, 2, 4, 15])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ordered", [False, True])
def test_tables_are_those_of_brute_force(at_most: int, seed: int, ordered: bool) -> None:
    families = random_families(np.random.default_rng(seed), 7, at_most, ordered)
    for clique in all_cliques(families.layout):
        groups = [np.arange(families.layout.domain[name]) for name in clique]
        for cut in CUTS:
            lengths, averages = families.tables(clique, groups, cut)
            wanted = brute_force(families, clique, cut)
            assert np.allclose(lengths, wanted[0], atol=1e-5), clique
            assert np.allclose(averages, wanted[1], atol=1e-6), clique
        if not families.layout.is_across(clique):
            counts = families.tables(clique, groups, 100.0)[0] * 100
            assert np.allclose(families.counts(clique), without_absent(counts, families.layout, clique))


@pytest.mark.parametrize("ordered", [False, True])
def test_every_family_moves_lengths_and_averages_by_at_most_one(ordered: bool) -> None:
    layout = Layout(Domain({"r": 2}), Domain({"a": 2, "b": 2}), ("households", "persons"), 3, ordered)
    codes = list(itertools.product(range(2), range(2)))
    longest: dict[Clique, float] = {}
    for size in range(4):
        for region, *members in itertools.product(range(2), *[codes] * size):
            children = np.array(members, dtype=np.int64).reshape(size, 2)
            one = Families(layout, np.array([[region, size]]), children)
            for clique in all_cliques(layout):
                for coarse in (False, True):
                    groups = [np.arange(layout.domain[name]) for name in clique]
                    if coarse:  # all codes in one group, absent children in another
                        groups = [
                            np.where(g == g[-1], 1, 0) if layout.kind(n) > 1 else g
                            for n, g in zip(clique, groups, strict=True)
                        ]
                    for cut in CUTS:
                        lengths, averages = one.tables(clique, groups, cut)
                        free = np.triu(lengths) if layout.are_alike(clique, groups) else lengths
                        length = float(np.linalg.norm(free))
                        assert length <= 1 + 1e-12
                        assert lengths.min() >= 0
                        assert cut or length in (0.0, pytest.approx(1, abs=1e-12))
                        longest[clique] = max(longest.get(clique, 0.0), length)
                    assert averages.min() >= 0
                    assert averages.sum() <= 1
    assert min(longest.values()) == pytest.approx(1)  # the bound is met for every table


def test_every_family_moves_numbers_by_at_most_one() -> None:
    layout = Layout(Domain({}), Domain({"a": 4}), ("households", "persons"), 5)
    for size in range(6):
        for members in itertools.product(range(4), repeat=size):
            one = Families(layout, np.array([[size]]), np.array(members, dtype=np.int64).reshape(size, 1))
            wanted = np.zeros((4, 3))
            for code in set(members):
                wanted[code, min(members.count(code), 3) - 1] = 1
            for cut in (0.0, 1.0, 1.5, 2.0):
                lengths, counts = one.numbers("persons.a", cut)
                assert np.array_equal(counts, wanted)
                assert np.allclose(lengths, wanted / max(cut, float(np.linalg.norm(wanted)), 1e-9))
                assert np.linalg.norm(lengths) <= 1 + 1e-12


def test_longer_cuts_are_chosen_where_there_is_less_noise() -> None:
    families = random_families(np.random.default_rng(0), 400, 4)
    for clique in all_cliques(families.layout):
        groups = tuple(np.arange(families.layout.domain[name]) for name in clique)
        cuts = [best_cut(families.layout, clique, groups, families, 1.0, stddev) for stddev in (1e-3, 1.0, 1e3)]
        assert cuts == sorted(cuts, reverse=True)
        assert cuts[-1] < cuts[0]
    numbers = [best_cut_of_numbers(families.layout, "persons.a", families, 1.0, stddev) for stddev in (1e-3, 1e3)]
    assert numbers[0] > numbers[1]


@pytest.mark.parametrize("ordered", [False, True])
def test_cuts_are_no_shorter_if_it_is_unknown_how_alike_children_are(ordered: bool) -> None:
    families = random_families(np.random.default_rng(0), 400, 4, ordered)
    for clique in all_cliques(families.layout):
        groups = tuple(np.arange(families.layout.domain[name]) for name in clique)
        cuts = [best_cut(families.layout, clique, groups, families, 1.0, 30.0, unknown) for unknown in (0.0, 0.5, 9.0)]
        assert cuts == sorted(cuts)
        assert cuts[0] < cuts[-1]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("cut", [0.0, 0.02, 0.2, 1.0, 2.0])
def test_the_range_of_ratios_is_that_of_families_alike_and_different(cut: float, ordered: bool) -> None:
    sizes = np.array([0, 1, 2, 2, 3, 5, 14])
    codes = np.arange(sizes.sum())
    layout = Layout(Domain({}), Domain({"a": len(codes), "b": len(codes)}), ("households", "persons"), 14, ordered)
    different, same = (Families(layout, sizes[:, None], np.stack([part, part], axis=1)) for part in (codes, 0 * codes))
    a, b = layout.members
    for clique in ((a,), (a, b), (layout.others[0],), (a, layout.others[0]), (a, layout.others[1])):
        groups = tuple(np.arange(layout.domain[name]) for name in clique)
        alike = layout.are_alike(clique, groups)
        sums = [families.tables(clique, groups, cut)[0] for families in (different, same)]
        sums = [(np.triu(table) if alike else table).sum() for table in sums]
        assert ratio_range(same, clique, alike, cut) == pytest.approx(sums[0] / sums[1] - 1, abs=1e-6)


@pytest.mark.parametrize("ordered", [False, True])
def test_neighbors_differ_by_what_one_family_adds(ordered: bool) -> None:
    families = random_families(np.random.default_rng(3), 6, 4, ordered)
    for left_out in range(6):
        kept = np.arange(6) != left_out
        fewer = Families(families.layout, families.parents[kept], families.children[kept[families.owners]])
        for clique in all_cliques(families.layout):
            groups = [np.arange(families.layout.domain[name]) for name in clique]
            more, less = families.tables(clique, groups), fewer.tables(clique, groups)
            moved = more[0] - less[0]
            moved = np.triu(moved) if families.layout.are_alike(clique, groups) else moved
            assert np.linalg.norm(moved) <= 1 + 1e-9
            assert np.abs(more[1] - less[1]).sum() <= 1 + 1e-9


def test_of_children_in_order_the_table_with_the_next_one_has_the_margin_of_all() -> None:
    families = random_families(np.random.default_rng(4), 50, 6, ordered=True)
    for one, other in itertools.product(families.layout.members, families.layout.others):
        groups = [np.arange(families.layout.domain[name]) for name in (one, other)]
        both = families.tables((one, other), groups)[1]
        assert np.allclose(both.sum(axis=1), families.tables((one,), groups[:1])[1], atol=1e-6)
        assert np.allclose(both.sum(axis=0), families.tables((other,), groups[1:])[1], atol=1e-6)


def test_shares_sum_to_at_most_one_and_are_on_the_grid() -> None:
    for pairs in (False, True):
        weights = shares(2000, pairs)
        sizes = np.arange(2001)
        number = sizes * np.where(sizes <= MOST_ALL, sizes - 1, 2 * NEAR) if pairs else sizes
        assert (weights * number <= 1).all()
        assert (weights[2:] * number[2:] > 0.999).all()
        assert (weights * 2.0**30 == np.floor(weights * 2.0**30)).all()


def test_lengths_say_the_same_of_averages_whatever_the_number_of_families_of_the_model() -> None:
    families = random_families(np.random.default_rng(5), 60, 4)
    twice = Families(families.layout, np.tile(families.parents, (2, 1)), np.tile(families.children, (2, 1)))
    for clique in all_cliques(families.layout):
        groups = tuple(np.arange(families.layout.domain[name]) for name in clique)
        lengths, averages = twice.tables(clique, groups)
        answer = MeasuredLengths(clique, groups, lengths, 1.0, averaged=False)
        assert np.allclose(answer.averages(families, 120.0).values, averages.ravel())
        few, many = answer.averages(families, 120.0), answer.averages(twice, 120.0)
        assert np.allclose(few.stddev, many.stddev)
        assert np.max(many.stddev) <= 1
