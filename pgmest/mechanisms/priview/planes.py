"""Covering designs for pairs from finite planes: small blocks of points that contain every pair of points.

In an affine plane of order q any two of the q^2 points are on exactly one of q^2 + q lines of q points. In a projective
plane q^2 + q + 1 points are on as many lines of q + 1 points. So 72 blocks of 8 cover 64 points, the design of PriView
(DPSyn section 3.2), and no design has fewer blocks. A plane whose points are groups covers more attributes: 3 blocks of
8 cover 12 attributes in three groups of 4, and 20 blocks of 8 cover 32 attributes in 16 groups of 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

ORDERS = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16)
"""The orders of the planes that are tried: the prime powers up to 16."""

_POWERS = {4: (2, (1, 1, 1)), 8: (2, (1, 1, 0, 1)), 9: (3, (2, 1, 1)), 16: (2, (1, 1, 0, 0, 1))}
"""The prime p of each q, and an irreducible polynomial over the integers mod p, lowest coefficient first."""

Block = tuple[int, ...]


def field_tables(q: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return the addition and multiplication tables of the field of q elements, numbered 0 (zero), 1 (one), ..., q - 1.

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
        for place in range(2 * degree - 1, degree - 1, -1):  # reduce x^degree by the monic modulus
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
    """Return the lines of the affine plane of order q over the points 0, ..., q^2 - 1.

    >>> affine_plane(2)
    [(0, 2), (1, 3), (0, 3), (1, 2), (0, 1), (2, 3)]
    """
    sums, products = field_tables(q)
    slanted = [tuple(x * q + sums[products[m][x]][b] for x in range(q)) for m in range(q) for b in range(q)]
    return slanted + [tuple(x * q + y for y in range(q)) for x in range(q)]


def projective_plane(q: int) -> list[Block]:
    """Return the lines of the projective plane of order q over the points 0, ..., q^2 + q.

    >>> projective_plane(2)
    [(0, 2, 4), (1, 3, 4), (0, 3, 5), (1, 2, 5), (0, 1, 6), (2, 3, 6), (4, 5, 6)]
    """
    lines = affine_plane(q)
    extended = [(*line, q * q + place // q) for place, line in enumerate(lines)]
    return [*extended, tuple(range(q * q, q * q + q + 1))]


def pair_designs() -> Iterator[tuple[int, list[Block]]]:
    """Yield covering designs for pairs, as the number of points and the blocks: finite planes, and all pairs of 2 to 7
    points."""
    for points in range(2, 8):
        yield points, [tuple(pair) for pair in itertools.combinations(range(points), 2)]
    for q in ORDERS:
        yield q * q, affine_plane(q)
        yield q * q + q + 1, projective_plane(q)
