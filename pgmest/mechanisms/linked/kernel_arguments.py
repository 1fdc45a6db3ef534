"""The arguments of the kernels about families, as named tuples: the rows, the rules, and the tables of a search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Families as arrays; rows of one family are adjacent.

    Attributes:
        first, sizes: the first child and the number of children of each family.
        parents, children: the codes, shape (families, attributes) and (children, attributes).
    """

    first: np.ndarray
    sizes: np.ndarray
    parents: np.ndarray
    children: np.ndarray


class Rules(NamedTuple):
    """The rules that families keep.

    Attributes:
        counted: for each rule about a number of children, its attribute.
        among: for each rule, whether each code of its attribute counts, shape (rules, codes); for rules that compare
            children, 1 for the higher ones and 2 for the lower ones, after the rules about numbers.
        limits: the least and the largest number of each rule about numbers.
        compared: for each rule that compares, its attribute and the attribute whose codes are compared.
        allowed: for each rule that compares, the pairs of codes that may stand together.
        rising: the attribute whose codes never fall from one child to the next; -1 without one.
        bars: for each table of impossible combinations, its first cell in `barred`, and for each of its attributes
            whether it is a child's, its place, and the step of its codes; shape (tables, 1 + 3 * attributes), -1 for
            no attribute.
        barred: whether each cell is impossible.
    """

    counted: np.ndarray
    among: np.ndarray
    limits: np.ndarray
    compared: np.ndarray
    allowed: np.ndarray
    rising: int
    bars: np.ndarray
    barred: np.ndarray


class Tables(NamedTuple):
    """The tables that a search compares with their targets.

    In `above`, `inside` and `across`, a table of attributes x and y has its first cell, and the steps of its cells from
    one code of x and of y to the next; the first cell is -1 where there is no such table.

    Attributes:
        ordered: whether children are in order: then they are paired with the next one only.
        above, inside, across: the places of tables of a parent's and a child's attribute, of two attributes of a child,
            and of one attribute each of two children.
        numbers: for each attribute, the first cell of its table of numbers of children with a code, or -1.
        off, weights: for each cell, the difference from the target, and the weight of its square.
    """

    ordered: bool
    above: np.ndarray
    inside: np.ndarray
    across: np.ndarray
    numbers: np.ndarray
    off: np.ndarray
    weights: np.ndarray
