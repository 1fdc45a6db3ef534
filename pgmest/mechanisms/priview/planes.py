"""Covering designs for pairs from finite planes: blocks that hold every pair of points, with few points each.

In an affine plane of order q any two of its q^2 points are on one of q^2 + q lines of q points; in a projective plane
q^2 + q + 1 points are on as many lines of q + 1. So 64 points need 72 blocks of 8, the design of PriView (DPSyn section
3.2), and none has fewer. A plane with groups of attributes in place of its points covers more of them: 12 attributes
in three groups of 4 need 3 blocks of 8, 32 in 16 groups of 2 need 20.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

ORDERS = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16)
"""The prime powers up to 16: the orders of the planes that are tried."""

_POWERS = {4: (2, (1, 1, 1)), 8: (2, (1, 1, 0, 1)), 9: (3, (2, 1, 1)), 16: (2, (1, 1, 0, 0, 1))}
"""q -> the prime p, and an irreducible polynomial over the integers mod p, lowest coefficient first."""

Block = tuple[int, ...]


def field_tables(q: int) -> tuple[list[list[int]], list[list[int]]]:
    """Sums and products in the field of q elements, which are numbered 0 (zero), 1 (one), ..., q - 1.

    >>> field_tables(4)[1]
    [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]

    Args:
        q: one of `ORDERS`.
    """
    p, modulus = _POWERS.get(q, (q, (0, 1)))
    degree = len(modulus) - 1

    def digits(number: int) -> list[int]:
        return [number // p**place % p for place in range(degree)]

    def number(found: Sequence[int]) -> int:
        return sum(digit % p * p**place for place, digit in enumerate(found[:degree]))

    def product(a: int, b: int) -> int:
        found = [0] * (2 * degree)
        for i, j in itertools.product(range(degree), repeat=2):
            found[i + j] += digits(a)[i] * digits(b)[j]
        for place in range(2 * degree - 1, degree - 1, -1):  # x^degree is what the monic modulus says
            for i, coefficient in enumerate(modulus[:-1]):
                found[place - degree + i] -= found[place] * coefficient
            found[place] = 0
        return number(found)

    elements = range(q)
    sums = [[number([x + y for x, y in zip(digits(a), digits(b), strict=True)]) for b in elements] for a in elements]
    if degree == 1:
        return sums, [[a * b % q for b in elements] for a in elements]
    return sums, [[product(a, b) for b in elements] for a in elements]


def affine_plane(q: int) -> list[Block]:
    """The lines of the affine plane of order q, over points 0..q^2 - 1: each two points are on one of them.

    >>> affine_plane(2)
    [(0, 2), (1, 3), (0, 3), (1, 2), (0, 1), (2, 3)]
    """
    sums, products = field_tables(q)
    slanted = [tuple(x * q + sums[products[m][x]][b] for x in range(q)) for m in range(q) for b in range(q)]
    return slanted + [tuple(x * q + y for y in range(q)) for x in range(q)]


def projective_plane(q: int) -> list[Block]:
    """The lines of the projective plane of order q, over points 0..q^2 + q.

    >>> projective_plane(2)
    [(0, 2, 4), (1, 3, 4), (0, 3, 5), (1, 2, 5), (0, 1, 6), (2, 3, 6), (4, 5, 6)]
    """
    lines = affine_plane(q)
    extended = [(*line, q * q + place // q) for place, line in enumerate(lines)]
    return [*extended, tuple(range(q * q, q * q + q + 1))]


def pair_designs() -> Iterator[tuple[int, list[Block]]]:
    """Designs whose blocks hold every two points: the number of points, and the blocks.

    Planes; and all pairs of few points, which are designs, too.
    """
    for points in range(2, 8):
        yield points, [tuple(pair) for pair in itertools.combinations(range(points), 2)]
    for q in ORDERS:
        yield q * q, affine_plane(q)
        yield q * q + q + 1, projective_plane(q)
