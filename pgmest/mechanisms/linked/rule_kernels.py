"""The compiled kernels that count the violations of rules in families, and repair families.

A family is a row of the parent table with its rows of the child table; rows of one family are adjacent.
"""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined


@inlined
def violations(g, first, sizes, parents, children, counted, among, limits, compared, allowed, rising, bars, barred):
    """Return by how many rows or pairs a family breaks rules.

    Args:
        g: the family.
        first, sizes: the first child and the number of children of each family.
        parents, children: the codes, shape (families, attributes) and (children, attributes).
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
    broken, start, size = 0, first[g], sizes[g]
    if rising >= 0:
        for i in range(start, start + size - 1):
            broken += children[i, rising] > children[i + 1, rising]
    for r in range(len(counted)):
        number = 0
        for i in range(start, start + size):
            number += among[r, children[i, counted[r]]]
        broken += max(0, limits[r, 0] - number) + max(0, number - limits[r, 1])
    for r in range(len(compared)):
        kinds = len(counted) + r
        for i in range(start, start + size):
            if among[kinds, children[i, compared[r, 0]]] == 1:
                for j in range(start, start + size):
                    lower = among[kinds, children[j, compared[r, 0]]] == 2
                    if lower and not allowed[r, children[i, compared[r, 1]], children[j, compared[r, 1]]]:
                        broken += 1
    for t in range(len(bars)):
        for i in range(start, start + size):
            cell = bars[t, 0]
            for p in range(1, bars.shape[1], 3):
                if bars[t, p] >= 0:
                    code = children[i, bars[t, p + 1]] if bars[t, p] == 1 else parents[g, bars[t, p + 1]]
                    cell += code * bars[t, p + 2]
            broken += barred[cell]
    return broken


@compiled
def count_violations(
    first, sizes, parents, children, counted, among, limits, compared, allowed, rising, bars, barred, broken
):
    """Set `broken` to the violations of each family; the other arguments are those of `violations`."""
    for g in range(len(sizes)):
        broken[g] = violations(
            g, first, sizes, parents, children, counted, among, limits, compared, allowed, rising, bars, barred
        )


@compiled
def repair_families(
    broken,
    draws,
    first,
    sizes,
    parents,
    children,
    counted,
    among,
    limits,
    compared,
    allowed,
    rising,
    bars,
    barred,
    attributes,
    codes,
):
    """Change codes of broken families one by one, each to one with the fewest violations, until none are left.

    Args:
        broken: the families.
        draws: a random number for each of them, by which equally good changes are chosen.
        attributes: the attributes that occur in rules.
        codes: the number of codes of each attribute.
        first, ..., barred: as for `violations`.
    """
    rows = (first, sizes, parents, children)
    rules = (counted, among, limits, compared, allowed, rising, bars, barred)
    for s in range(len(broken)):
        g, draw = broken[s], draws[s]
        start, size = first[g], sizes[g]
        left = violations(g, *rows, *rules)
        while left > 0:
            fewest, ties, child, attribute, value = left, 0, 0, 0, 0
            for i in range(start, start + size):
                for p in range(len(attributes)):
                    a = attributes[p]
                    kept = children[i, a]
                    for w in range(codes[a]):
                        children[i, a] = w
                        now = violations(g, *rows, *rules)
                        if now < fewest:
                            fewest, ties = now, 0
                        if now == fewest and now < left:
                            ties += 1
                            draw = (draw * 1103515245 + 12345) % (1 << 31)
                            if draw % ties == 0:
                                child, attribute, value = i, a, w
                    children[i, a] = kept
            if fewest == left:
                break
            children[child, attribute] = value
            left = fewest
