"""The compiled kernels of the search over families: exchanges of children, and changes of codes.

A family is a row of the parent table with its rows of the child table; rows of one family are adjacent. In `places`,
a table of attributes x and y has its first cell, and the steps of its cells from one code of x and of y to the next;
the first cell is -1 where there is no such table.

Children of a family that are `ordered` are paired with the next one; others, with all others, or those near them.
"""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined
from pgmest.mechanisms.linked.pair_kernels import partner, partners
from pgmest.mechanisms.linked.pairing import MOST_COUNTED
from pgmest.mechanisms.linked.rule_kernels import violations_beside

FIRST, STEP, OTHER_STEP = range(3)
"""The columns of `places`."""


@inlined
def _turns(size, ordered):
    """Return the number of turns of `_other`: over the others of a pair with a child, before and after it in order."""
    return 2 if ordered else partners(size)


@inlined
def _other(first, size, i, turn, ordered):
    """Return another child that is paired with child i of a family; -1 without one before or after it."""
    if not ordered:
        return partner(first, size, i, turn)
    j = i + 2 * turn - 1
    return j if first <= j < first + size else -1


@inlined
def _pair_share(size, ordered):
    """Return the weight of a pair in the averages of a family of this size."""
    return 1.0 / size if ordered else 1.0 / (size * partners(size))


@inlined
def _place_across(places_across, a, b, before):
    """Return the place of a table of attribute a of a child and attribute b of another one, which is before it or not.

    Returns:
        the first cell, and the steps to the next codes of a and of b.
    """
    if before:
        return places_across[b, a, FIRST], places_across[b, a, OTHER_STEP], places_across[b, a, STEP]
    return places_across[a, b, FIRST], places_across[a, b, STEP], places_across[a, b, OTHER_STEP]


@inlined
def _moved(cell, amount, off, weights):
    """Add an amount to a cell's difference from its target; return the change of the distance."""
    change = weights[cell] * amount * (2 * off[cell] + amount)
    off[cell] += amount
    return change


@inlined
def _weighed(cell, amount, off, weights):
    """Return what `_moved` would return, and change nothing."""
    return weights[cell] * amount * (2 * off[cell] + amount)


@inlined
def _code_of_both(i, a, first, size, children):
    """Return the code of an attribute that the children before and after child i share; -1 if they share none."""
    if first < i < first + size - 1 and children[i - 1, a] == children[i + 1, a]:
        return children[i - 1, a]
    return -1


@inlined
def _others(i, a, code, start, size, children):
    """Return how many children of a family, besides child i, have a code of attribute a."""
    found = 0
    for j in range(start, start + size):
        found += j != i and children[j, a] == code
    return found


@inlined
def _moved_number(start, code, others, sign, off, weights, done):
    """Add or remove one of the children with a code, besides others, in a table of numbers; return the change."""
    cell = start + code * MOST_COUNTED + others
    change = 0.0
    if others < MOST_COUNTED:
        change += _moved(cell, sign, off, weights) if done else _weighed(cell, sign, off, weights)
        if others > 0:
            change += _moved(cell - 1, -sign, off, weights) if done else _weighed(cell - 1, -sign, off, weights)
    return change


@inlined
def move_code(i, a, sign, g, rows, tables):
    """Add (sign 1) or remove (sign -1) what the code of attribute a of child i adds; return the change of distance."""
    first, sizes, parents, children = rows
    ordered, places_above, places_inside, places_across, numbers, off, weights = tables
    change, size, code = 0.0, sizes[g], children[i, a]
    if numbers[a] >= 0:
        others = _others(i, a, code, first[g], size, children)
        change += _moved_number(numbers[a], code, others, sign, off, weights, True)
    for h in range(parents.shape[1]):
        if places_above[h, a, FIRST] >= 0:
            cell = (
                places_above[h, a, FIRST]
                + parents[g, h] * places_above[h, a, STEP]
                + code * places_above[h, a, OTHER_STEP]
            )
            change += _moved(cell, sign, off, weights)
    for b in range(children.shape[1]):
        if b != a and places_inside[a, b, FIRST] >= 0:
            cell = (
                places_inside[a, b, FIRST]
                + code * places_inside[a, b, STEP]
                + children[i, b] * places_inside[a, b, OTHER_STEP]
            )
            change += _moved(cell, sign, off, weights)
    if size > 1:
        share = sign * _pair_share(size, ordered)
        for turn in range(_turns(size, ordered)):
            j = _other(first[g], size, i, turn, ordered)
            if j < 0:
                continue
            for b in range(children.shape[1]):
                start, one, other = _place_across(places_across, a, b, ordered and j < i)
                if start >= 0:
                    change += _moved(start + code * one + children[j, b] * other, share, off, weights)
                    if a == b and not ordered:
                        change += _moved(start + children[j, b] * one + code * other, share, off, weights)
    return change


@inlined
def move_child(i, j, sign, g, f, rows, tables, done):
    """Add or remove what child i of family g adds to tables of parents and children and of pairs of children.

    Child j of family f is the one that it changes places with: what is equal for both is left out, as it stays. Unless
    it is `done`, nothing is changed: the codes are those of j where they are added, and the sum of the changes of cells
    is returned, which is that of the distance if no cell changes twice.
    """
    first, sizes, parents, children = rows
    ordered, above, _, across, numbers, off, weights = tables
    change, size = 0.0, sizes[g]
    source = i if done or sign < 0 else j
    for a in range(children.shape[1]):
        code = children[source, a]
        if children[i, a] == children[j, a]:
            continue
        if numbers[a] >= 0:
            own = _others(i, a, code, first[g], size, children)
            if own != _others(j, a, code, first[f], sizes[f], children):  # otherwise the families change places, too
                change += _moved_number(numbers[a], code, own, sign, off, weights, done)
        for h in range(parents.shape[1]):
            if above[h, a, FIRST] >= 0 and parents[g, h] != parents[f, h]:
                cell = above[h, a, FIRST] + parents[g, h] * above[h, a, STEP] + code * above[h, a, OTHER_STEP]
                change += _moved(cell, sign, off, weights) if done else _weighed(cell, sign, off, weights)
    if size > 1:
        share = sign * _pair_share(size, ordered)
        for turn in range(_turns(size, ordered)):
            k = _other(first[g], size, i, turn, ordered)
            if k < 0:
                continue
            for a in range(children.shape[1]):
                code = children[source, a]
                if children[i, a] == children[j, a]:
                    continue
                for b in range(children.shape[1]):
                    start, one, other = _place_across(across, a, b, ordered and k < i)
                    if start >= 0:
                        cell = start + code * one + children[k, b] * other
                        change += _moved(cell, share, off, weights) if done else _weighed(cell, share, off, weights)
                        if a == b and not ordered:
                            cell = start + children[k, b] * one + code * other
                            change += _moved(cell, share, off, weights) if done else _weighed(cell, share, off, weights)
    return change


@inlined
def _exchange(children, i, j):
    """Exchange the codes of two children."""
    for a in range(children.shape[1]):
        code = children[i, a]
        children[i, a] = children[j, a]
        children[j, a] = code


@compiled
def exchange_children(order, partners, owners, rows, tables, rules):
    """Exchange each child with its partner, of a family of the same size, where that lowers the distance.

    Args:
        order, partners: the children, and the child to exchange each one with.
        owners: the family of each child.
        rows, tables, rules: the families, the tables, and the rules.

    Returns:
        the number of exchanges.
    """
    children, exchanges = rows.children, 0
    ruled = len(rules.counted) + len(rules.compared) + len(rules.bars) > 0 or rules.rising >= 0
    for s in range(len(order)):
        i, j = order[s], partners[s]
        g, f = owners[i], owners[j]
        if g == f:
            continue
        guess = 0.0
        for sign in (-1.0, 1.0):
            guess += move_child(i, j, sign, g, f, rows, tables, False)
            guess += move_child(j, i, sign, f, g, rows, tables, False)
        if not guess < -1e-12:
            continue
        before = 0
        if ruled:
            before = violations_beside(g, i, rows, rules) + violations_beside(f, j, rows, rules)
        change = move_child(i, j, -1.0, g, f, rows, tables, True)
        change += move_child(j, i, -1.0, f, g, rows, tables, True)
        _exchange(children, i, j)
        change += move_child(i, j, 1.0, g, f, rows, tables, True)
        change += move_child(j, i, 1.0, f, g, rows, tables, True)
        worse = not change < -1e-12
        if ruled and not worse:
            worse = violations_beside(g, i, rows, rules) + violations_beside(f, j, rows, rules) > before
        if worse:
            move_child(i, j, -1.0, g, f, rows, tables, True)
            move_child(j, i, -1.0, f, g, rows, tables, True)
            _exchange(children, i, j)
            move_child(i, j, 1.0, g, f, rows, tables, True)
            move_child(j, i, 1.0, f, g, rows, tables, True)
        else:
            exchanges += 1
    return exchanges


@compiled
def change_codes(order, owners, rows, tables, rules, codes, ruled, costs, seen):
    """Give each code of each child, in this order, the value that minimizes the distance; return how many changed.

    Args:
        codes: the number of codes of each attribute of a child.
        ruled: whether each attribute occurs in a rule; a code that breaks more of them is not taken.
        costs, seen: arrays of zeros for work, as long as the largest number of codes.
        order, owners, rows, tables, rules: as for `exchange_children`.
    """
    first, sizes, parents, children = rows
    ordered, places_above, places_inside, places_across, numbers, off, weights = tables
    changed = 0
    for s in range(len(order)):
        i = order[s]
        g = owners[i]
        size = sizes[g]
        for a in range(children.shape[1]):
            code, number = children[i, a], codes[a]
            move_code(i, a, -1.0, g, rows, tables)
            costs[:number] = 0.0
            if numbers[a] >= 0:
                for j in range(first[g], first[g] + size):
                    seen[children[j, a]] += j != i
                for w in range(number):
                    cell = numbers[a] + w * MOST_COUNTED + seen[w]
                    if seen[w] < MOST_COUNTED:
                        costs[w] += weights[cell] * (2 * off[cell] + 1.0)
                        if seen[w] > 0:
                            costs[w] -= weights[cell - 1] * (2 * off[cell - 1] - 1.0)
                    seen[w] = 0
            for h in range(parents.shape[1]):
                if places_above[h, a, FIRST] >= 0:
                    start = places_above[h, a, FIRST] + parents[g, h] * places_above[h, a, STEP]
                    step = places_above[h, a, OTHER_STEP]
                    for w in range(number):
                        costs[w] += weights[start + w * step] * (2 * off[start + w * step] + 1.0)
            for b in range(children.shape[1]):
                if b != a and places_inside[a, b, FIRST] >= 0:
                    start = places_inside[a, b, FIRST] + children[i, b] * places_inside[a, b, OTHER_STEP]
                    step = places_inside[a, b, STEP]
                    for w in range(number):
                        costs[w] += weights[start + w * step] * (2 * off[start + w * step] + 1.0)
            if size > 1:
                share = _pair_share(size, ordered)
                twice = _code_of_both(i, a, first[g], size, children) if ordered else -1
                for turn in range(_turns(size, ordered)):
                    j = _other(first[g], size, i, turn, ordered)
                    if j < 0:
                        continue
                    for b in range(children.shape[1]):
                        start, step, other_step = _place_across(places_across, a, b, ordered and j < i)
                        if start < 0:
                            continue
                        same = 0  # partners before this one whose code adds to the same cells
                        for earlier in range(0 if ordered else turn):
                            same += children[partner(first[g], size, i, earlier), b] == children[j, b]
                        start += children[j, b] * other_step
                        for w in range(number):
                            cell = start + w * step
                            if a != b or ordered:
                                before = 1 if a == b and w == twice and j > i else same
                                costs[w] += weights[cell] * share * (2 * (off[cell] + before * share) + share)
                            elif w != children[j, b]:
                                costs[w] += 2 * weights[cell] * share * (2 * (off[cell] + same * share) + share)
                            else:
                                costs[w] += 4 * weights[cell] * share * (off[cell] + 2 * same * share + share)
            best, broken = code, 0
            if ruled[a]:
                broken = violations_beside(g, i, rows, rules)
            for w in range(number):
                if costs[w] < costs[best] - 1e-12:
                    if ruled[a]:
                        children[i, a] = w
                        if violations_beside(g, i, rows, rules) > broken:
                            continue
                    best = w
            children[i, a] = best
            changed += best != code
            move_code(i, a, 1.0, g, rows, tables)
    return changed
