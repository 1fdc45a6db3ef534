"""The compiled kernels of pairs.py: find the clique at which each pair is computed, and copy its table."""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined

ELIMINATED, INSIDE, JOINED = 0, 1, 2
"""The ways to compute a pair: by variable elimination, from one clique, or by joining two branches of the tree."""


@inlined
def _smallest_holder(one, other, members, cells):
    """Return the first of the smallest cliques that hold both attributes, -1 if no clique does."""
    found = -1
    for q in range(len(cells)):
        if members[q, one] and members[q, other] and (found < 0 or cells[q] < cells[found]):
            found = q
    return found


@inlined
def _lowest_cover(one, other, home, parents, first, last, members):
    """Return the lowest clique that has both attributes in itself or below, -1 if no tree has both.

    `one` is the attribute whose home is deeper.
    """
    q = home[one]
    while q >= 0 and not members[q, other] and not first[q] <= first[home[other]] < last[q]:
        q = parents[q]
    return q


@inlined
def _branch(attribute, top, home, parents, members):
    """Return the child of `top` towards an attribute, -1 for an attribute of `top` itself."""
    if top >= 0 and members[top, attribute]:
        return -1
    q = home[attribute]
    while parents[q] != top:
        q = parents[q]
    return q


@inlined
def _largest_message(attribute, branch, home, parents, separators, size):
    """Return the cells of the largest message of an attribute from its home up to `branch`."""
    if branch < 0:
        return 0.0
    q, largest = home[attribute], 0.0
    while True:
        largest = max(largest, size * separators[q])
        if q == branch:
            return largest
        q = parents[q]


@compiled
def find(pairs, home, parents, depth, first, last, members, cells, separators, sizes, most, limits, way, place,
         branches, highest):  # fmt: skip
    """Find the way to compute each pair, and the clique at which it is computed.

    Args:
        pairs: the attributes, shape (pairs, 2).
        home: the topmost clique that holds each attribute.
        parents, depth: the parent (-1 for a root) and the depth of each clique.
        first, last: preorder numbers: the cliques at and below clique q have first[q] <= first[.] < last[q].
        members: whether a clique holds an attribute, shape (cliques, attributes).
        cells, separators: the cells of each clique, and of its separator from its parent.
        sizes: the number of values of each attribute.
        most: the most cells of a pair; larger tables are left to variable elimination.
        limits: a message may have at most limits[0] cells, or limits[1] times the cells of the pair.
        way, place, branches: the output for each pair. For INSIDE, `place` is the clique that holds it. For JOINED,
            `place` is the clique that joins the two `branches`, its children; -1 for an attribute of the clique itself.
        highest: the output for each attribute: the highest clique that sends it up, -1 if no clique does.
    """
    highest[:] = -1
    for p in range(len(pairs)):
        one, other = pairs[p, 0], pairs[p, 1]
        holder = _smallest_holder(one, other, members, cells)
        if holder >= 0:
            way[p], place[p] = INSIDE, holder
            continue
        if depth[home[one]] >= depth[home[other]]:
            top = _lowest_cover(one, other, home, parents, first, last, members)
        else:
            top = _lowest_cover(other, one, home, parents, first, last, members)
        size, largest = sizes[one] * sizes[other], 0.0
        for side in range(2):
            branches[p, side] = _branch(pairs[p, side], top, home, parents, members)
            message = _largest_message(
                pairs[p, side], branches[p, side], home, parents, separators, sizes[pairs[p, side]]
            )
            largest = max(largest, message)
        if size > most or largest > max(limits[0], limits[1] * size):
            way[p] = ELIMINATED
            continue
        way[p], place[p] = JOINED, top
        for side in range(2):
            branch, attribute = branches[p, side], pairs[p, side]
            if branch >= 0 and (highest[attribute] < 0 or depth[branch] < depth[highest[attribute]]):
                highest[attribute] = branch


@compiled
def copy_out(product, rows, columns, heights, widths, starts, flipped, flat):
    """Copy tables out of a product that contains many of them, each row-major, or column-major if flipped."""
    for p in range(len(rows)):
        at, r, c = starts[p], rows[p], columns[p]
        if flipped[p]:
            for j in range(widths[p]):
                for i in range(heights[p]):
                    flat[at] = product[r + i, c + j]
                    at += 1
        else:
            for i in range(heights[p]):
                for j in range(widths[p]):
                    flat[at] = product[r + i, c + j]
                    at += 1
