"""Planes as covering designs: lines that hold each two points exactly once, and as few views as are published."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.mechanisms.priview.design import cover, plane_cover, subsets_of
from pgmest.mechanisms.priview.planes import ORDERS, affine_plane, field_tables, pair_designs, projective_plane


@pytest.mark.parametrize("q", ORDERS)
def test_the_tables_are_those_of_a_field(q):
    sums, products = field_tables(q)
    everything = list(range(q))
    assert sums[0] == products[1] == everything
    for table, rows in ((sums, range(q)), (products, range(1, q))):
        for row in rows:
            assert sorted(table[row]) == everything  # each equation has one solution
            assert [table[other][row] for other in everything] == table[row]
    for a, b, c in itertools.islice(itertools.product(everything, repeat=3), 600):
        assert products[a][sums[b][c]] == sums[products[a][b]][products[a][c]]
        assert products[products[a][b]][c] == products[a][products[b][c]]


@pytest.mark.parametrize("q", ORDERS)
def test_each_two_points_are_on_exactly_one_line(q):
    for points, lines, on in ((q * q, affine_plane(q), q), (q * q + q + 1, projective_plane(q), q + 1)):
        assert {len(set(line)) for line in lines} == {on}
        pairs = [frozenset(pair) for line in lines for pair in itertools.combinations(line, 2)]
        assert len(pairs) == len(set(pairs)) == points * (points - 1) // 2


@pytest.mark.parametrize(("attributes", "views"), [(12, 3), (32, 20), (57, 57), (64, 72)])
def test_binary_attributes_in_views_of_eight_need_no_more_views_than_is_published(attributes, views):
    domain = pg.Domain({f"a{place}": 2 for place in range(attributes)})
    found = cover(domain, subsets_of([domain.attributes], domain, 2), 2**8)
    assert len(found) <= views
    assert max(map(len, found)) <= 8


@given(st.lists(st.integers(1, 6), min_size=2, max_size=14), st.integers(6, 300))
def test_views_from_planes_hold_every_pair_within_the_limit(sizes, max_cells):
    domain = pg.Domain({f"a{place}": size for place, size in enumerate(sizes)})
    views = plane_cover(domain, domain.attributes, max_cells)
    if views is None:
        assert max(domain.size(pair) for pair in itertools.combinations(domain, 2)) > 1
        return
    assert all(domain.size(view) <= max_cells for view in views)
    for pair in itertools.combinations(domain, 2):
        assert any(set(pair) <= set(view) for view in views)
    assert not any(set(one) < set(other) for one, other in itertools.permutations(views, 2))


def test_a_plane_is_not_taken_where_not_all_pairs_are_wanted():
    domain = pg.Domain({f"a{place}": 2 for place in range(64)})
    chain = [frozenset(pair) for pair in itertools.pairwise(domain)]
    assert len(cover(domain, chain, 2**8)) <= 32


def test_designs_are_of_different_sizes():
    assert len({points for points, _ in pair_designs()}) > 20
