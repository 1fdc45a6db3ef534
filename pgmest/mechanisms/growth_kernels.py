"""The compiled kernels of TreeGrowth: the cells of a tree along an elimination order with one more clique.

Attributes are numbered by their place in the order, and sets of them are rows of 64-bit words. Numbers of cells are
floats, exact up to 2^53; trees with more cells are too large for any use, so that their rounding does not matter.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined

_ONE = np.uint64(1)
_WORD = np.uint64(63)


@inlined
def _lowest(words):
    """Return the first member of a set, -1 for an empty one."""
    for k in range(len(words)):
        word = words[k]
        if word != np.uint64(0):
            found = 0
            low = word & (~word + _ONE)
            for shift in (32, 16, 8, 4, 2, 1):
                if low >> np.uint64(shift):
                    low = low >> np.uint64(shift)
                    found += shift
            return 64 * k + found
    return -1


@inlined
def _copy(words, target):
    for k in range(len(words)):
        target[k] = words[k]


@inlined
def _add(words, member):
    words[member >> 6] |= _ONE << (np.uint64(member) & _WORD)


@inlined
def _remove(words, member):
    words[member >> 6] &= ~(_ONE << (np.uint64(member) & _WORD))


@inlined
def _product(words, sizes):
    """Return the cells of a table over a set."""
    cells = 1.0
    for k in range(len(words)):
        word, place = words[k], 64 * k
        while word != np.uint64(0):
            if word & _ONE:
                cells *= sizes[place]
            word = word >> _ONE
            place += 1
    return cells


@compiled
def eliminate_in_order(adjacent, order, all_sizes, sizes, left, cells, maximal, work):
    """Triangulate a graph along an order and return the cells of the maximal cliques.

    adjacent: the adjacency matrix of the attributes of the domain. all_sizes: their numbers of values.
    sizes, left, cells, maximal: filled in by place: the number of values, the separator (the later attributes joined by
        the elimination), the cells of the clique, and whether the clique is maximal.
    work: one row of words.
    """
    n = len(order)
    left[:] = np.uint64(0)
    for p in range(n):
        sizes[p] = all_sizes[order[p]]
        for q in range(n):
            if adjacent[order[p], order[q]] and p != q:
                _add(left[p], q)
    for p in range(n):
        _copy(left[p], work)
        q = _lowest(work)
        while q >= 0:
            _remove(work, q)
            for k in range(len(work)):
                left[q, k] |= left[p, k]
            _remove(left[q], q)
            _remove(left[q], p)
            q = _lowest(work)
        cells[p] = sizes[p] * _product(left[p], sizes)
    maximal[:] = 1
    for p in range(n):  # a separator that equals the whole clique of its first member makes that clique not maximal
        q = _lowest(left[p])
        if q >= 0:
            _copy(left[q], work)
            _add(work, q)
            same = True
            for k in range(len(work)):
                same = same and work[k] == left[p, k]
            if same:
                maximal[q] = 0
    total = 0.0
    for p in range(n):
        if maximal[p]:
            total += cells[p]
    return total


@inlined
def _with_clique(arriving, total, sizes, left, cells, maximal):
    """Return the cells with one more clique, whose attributes are `arriving`; that set is overwritten.

    The loop walks up the elimination tree. At each place the arriving attributes are merged into the separator; the
    clique of the place counts unless the clique that arrives from the place before contains it. The walk ends where a
    separator already holds all that arrive.
    """
    first, words = True, left.shape[1]
    place = _lowest(arriving)
    while place >= 0:
        whole, same, more = not first, True, 1.0
        for k in range(words):  # the attribute of this place is eliminated here, so it leaves `arriving`
            if k == place >> 6:
                _remove(arriving, place)
            if left[place, k] & ~arriving[k]:
                whole = False  # the clique here has an attribute that the previous clique lacks
        for k in range(words):
            new, at = arriving[k] & ~left[place, k], 64 * k
            if new:
                same = False
            while new != np.uint64(0):
                if new & _ONE:
                    more *= sizes[at]
                new = new >> _ONE
                at += 1
        if maximal[place] and (not same or whole):
            total -= cells[place]
        if same:
            break
        if not whole:
            total += cells[place] * more
        for k in range(words):
            arriving[k] |= left[place, k]
        first = False
        place = _lowest(arriving)
    return total if total < np.inf else np.inf


@compiled
def cells_with(rows, asked, total, place, sizes, left, cells, maximal, work, least):
    """Lower `least` to the cells with one more clique, for each row asked for (attributes, padded with -1)."""
    for at in range(len(asked)):
        i = asked[at]
        work[:] = np.uint64(0)
        for j in range(rows.shape[1]):
            if rows[i, j] >= 0:
                _add(work, place[rows[i, j]])
        found = _with_clique(work, total, sizes, left, cells, maximal)
        if found < least[i]:
            least[i] = found


@compiled
def undecided(rows, asked, least, enough, attribute, found):
    """Write the rows asked for that have more than `enough` cells and hold an attribute to `found`; return their count.

    attribute: the attribute, -1 for any.
    """
    count = 0
    for at in range(len(asked)):
        i = asked[at]
        if least[i] > enough:
            holds = attribute < 0
            for j in range(rows.shape[1]):
                holds = holds or rows[i, j] == attribute
            if holds:
                found[count] = i
                count += 1
    return count


@compiled
def covered_cliques(rows, asked, joined, found):
    """Write to `found` whether all attributes of each clique asked for are joined pairwise."""
    for at in range(len(asked)):
        i, all_joined = asked[at], True
        for j in range(rows.shape[1]):
            for k in range(j):
                if rows[i, j] >= 0 and rows[i, k] >= 0:
                    all_joined = all_joined and joined[rows[i, j], rows[i, k]] != 0
        found[at] = all_joined
