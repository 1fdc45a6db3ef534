"""The compiled kernels of pairs.py: where each pair of attributes is computed, and how its table is copied out."""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined

ELIMINATED, INSIDE, JOINED = 0, 1, 2
"""How a pair is computed: by variable elimination, from one clique, or where two parts of the tree are joined."""


@inlined
def _smallest_holder(one, other, members, cells):
    """The first of the smallest cliques that hold both attributes, -1 if none does."""
    found = -1
    for q in range(len(cells)):
        if members[q, one] and members[q, other] and (found < 0 or cells[q] < cells[found]):
            found = q
    return found


@inlined
def _lowest_cover(one, other, home, parents, first, last, members):
    """The lowest clique that has each attribute in itself or below itself, -1 where no tree has both.

    `one` is the attribute whose home is deeper.
    """
    q = home[one]
    while q >= 0 and not members[q, other] and not first[q] <= first[home[other]] < last[q]:
        q = parents[q]
    return q


@inlined
def _branch(attribute, top, home, parents, members):
    """The clique below `top` towards an attribute; -1 for an attribute of `top` itself."""
    if top >= 0 and members[top, attribute]:
        return -1
    q = home[attribute]
    while parents[q] != top:
        q = parents[q]
    return q


@inlined
def _largest_message(attribute, branch, home, parents, separators, size):
    """Cells of the largest message that carries an attribute up from its home, through `branch`."""
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
    """Where each pair is computed.

    Args:
        pairs: attributes, shape (pairs, 2).
        home: of each attribute the topmost clique that holds it.
        parents, depth: of each clique; -1 above a root.
        first, last: the cliques at and below clique q are those with first[q] <= first[.] < last[q].
        members: whether a clique holds an attribute, shape (cliques, attributes).
        cells, separators: of each clique the cells of its table, and of what it shares with its parent.
        sizes: of each attribute.
        most: a table of more cells is left to variable elimination.
        limits: messages of at most limits[0] cells are always sent, and those of limits[1] times the pair's cells.
        way, place, branches: written for each pair. JOINED: at clique `place`, of the branches below it, -1 for an
            attribute of its own. INSIDE: of clique `place`.
        highest: written for each attribute: the highest clique that sends it up, -1 if none does.
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
    """Copy tables out of a product that holds many, each row-major or, where flipped, column-major."""
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
