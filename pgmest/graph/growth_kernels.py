"""The compiled kernels of TreeGrowth: what one more clique does to a tree along an elimination order.

Attributes are numbered by their place in the order, and sets of them are rows of 64-bit words. Numbers of cells are
floats, exact up to 2^53; what is larger, up to infinity, is no tree that anybody could use.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined

_ONE = np.uint64(1)
_WORD = np.uint64(63)


@inlined
def _lowest(words):
    """The first member of a set; -1 of an empty one."""
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
    """The cells of a table over a set."""
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
    """Triangulate a graph along an order; the cells of the maximal cliques.

    adjacent: zeros and ones, a row for each attribute of the domain; all_sizes: of these. Filled in, by place: sizes,
    what each attribute leaves joined (`left`), the cells of its clique, and whether no other clique holds that.
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
    for p in range(n):
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
    """The cells with one more clique, whose attributes are `arriving`, which is used up."""
    first, words = True, left.shape[1]
    place = _lowest(arriving)
    while place >= 0:
        whole, same, more = not first, True, 1.0
        for k in range(words):  # from here on `arriving` has what joins: all but the attribute itself
            if k == place >> 6:
                _remove(arriving, place)
            if left[place, k] & ~arriving[k]:
                whole = False  # else what arrives is a larger clique's part
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
    """For the cliques asked for, rows of attributes filled up with -1, lower `least` to the cells with each of them."""
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
    """Those asked for, with more than `enough` cells so far, that hold an attribute (-1: any); how many are `found`."""
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
def inside(rows, asked, joined, found):
    """Whether all attributes of each clique asked for are joined pairwise."""
    for at in range(len(asked)):
        i, all_joined = asked[at], True
        for j in range(rows.shape[1]):
            for k in range(j):
                if rows[i, j] >= 0 and rows[i, k] >= 0:
                    all_joined = all_joined and joined[rows[i, j], rows[i, k]] != 0
        found[at] = all_joined
