"""The compiled kernels that count the violations of rules in families, and repair families.

A family is a row of the parent table with its rows of the child table; rows of one family are adjacent.
"""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined


@inlined
def _barred_rows(g, i, rows, rules):
    """Return in how many tables of impossible combinations child i of a family is."""
    broken, bars = 0, rules.bars
    for t in range(len(bars)):
        cell = bars[t, 0]
        for p in range(1, bars.shape[1], 3):
            if bars[t, p] >= 0:
                code = rows.children[i, bars[t, p + 1]] if bars[t, p] == 1 else rows.parents[g, bars[t, p + 1]]
                cell += code * bars[t, p + 2]
        broken += rules.barred[cell]
    return broken


@inlined
def _beyond(number, r, limits):
    """Return by how much a number of children is beyond the limits of rule r."""
    return max(0, limits[r, 0] - number) + max(0, number - limits[r, 1])


@inlined
def violations(g, rows, rules):
    """Return by how many rows or pairs a family breaks rules."""
    children, counted, among, compared, rising = rows.children, rules.counted, rules.among, rules.compared, rules.rising
    broken, start, size = 0, rows.first[g], rows.sizes[g]
    if rising >= 0:
        for i in range(start, start + size - 1):
            broken += children[i, rising] > children[i + 1, rising]
    for r in range(len(counted)):
        number = 0
        for i in range(start, start + size):
            number += among[r, children[i, counted[r]]]
        broken += _beyond(number, r, rules.limits)
    for r in range(len(compared)):
        kinds = len(counted) + r
        for i in range(start, start + size):
            if among[kinds, children[i, compared[r, 0]]] == 1:
                for j in range(start, start + size):
                    lower = among[kinds, children[j, compared[r, 0]]] == 2
                    if lower and not rules.allowed[r, children[i, compared[r, 1]], children[j, compared[r, 1]]]:
                        broken += 1
    for i in range(start, start + size):
        broken += _barred_rows(g, i, rows, rules)
    return broken


@inlined
def _falls(i, start, size, children, rising):
    """Return how often the codes of the attribute that never falls do so beside child i."""
    if rising < 0:
        return 0
    before = i > start and children[i - 1, rising] > children[i, rising]
    return before + (i + 1 < start + size and children[i, rising] > children[i + 1, rising])


@inlined
def violations_beside(g, i, rows, rules):
    """Return the violations of a family, as `violations` does, without some that do not depend on child i."""
    children, counted, among, compared = rows.children, rules.counted, rules.among, rules.compared
    start, size = rows.first[g], rows.sizes[g]
    broken = _barred_rows(g, i, rows, rules) + _falls(i, start, size, children, rules.rising)
    for r in range(len(counted)):
        number = 0
        for j in range(start, start + size):
            number += among[r, children[j, counted[r]]]
        broken += _beyond(number, r, rules.limits)
    for r in range(len(compared)):
        kinds = len(counted) + r
        kind, code = among[kinds, children[i, compared[r, 0]]], children[i, compared[r, 1]]
        if kind == 0:
            continue
        for j in range(start, start + size):
            other = children[j, compared[r, 1]]
            apart = not (rules.allowed[r, code, other] if kind == 1 else rules.allowed[r, other, code])
            broken += apart and among[kinds, children[j, compared[r, 0]]] == 3 - kind
    return broken


@compiled
def count_violations(rows, rules, broken):
    """Set `broken` to the violations of each family."""
    for g in range(len(rows.sizes)):
        broken[g] = violations(g, rows, rules)


@inlined
def _add_child(i, sign, children, rules, numbers, conflicts):
    """Add child i to the numbers of children of rules and to conflicts, or remove it (sign -1)."""
    counted, among, compared, allowed = rules.counted, rules.among, rules.compared, rules.allowed
    for r in range(len(counted)):
        numbers[r] += sign * among[r, children[i, counted[r]]]
    for r in range(len(compared)):
        kind, code = among[len(counted) + r, children[i, compared[r, 0]]], children[i, compared[r, 1]]
        for other in range(conflicts.shape[2]):
            if kind == 1:
                conflicts[1, r, other] += sign * (not allowed[r, code, other])
            elif kind == 2:
                conflicts[0, r, other] += sign * (not allowed[r, other, code])


@inlined
def _violations_left(g, i, rows, rules, numbers, conflicts):
    """Return `violations_beside` of child i, given the numbers and the conflicts of the other children."""
    children, counted, among, compared = rows.children, rules.counted, rules.among, rules.compared
    broken = _barred_rows(g, i, rows, rules) + _falls(i, rows.first[g], rows.sizes[g], children, rules.rising)
    for r in range(len(counted)):
        broken += _beyond(numbers[r] + among[r, children[i, counted[r]]], r, rules.limits)
    for r in range(len(compared)):
        kind = among[len(counted) + r, children[i, compared[r, 0]]]
        if kind > 0:
            broken += conflicts[kind - 1, r, children[i, compared[r, 1]]]
    return broken


@compiled
def repair_families(broken, draws, rows, rules, attributes, codes, numbers, conflicts):
    """Change codes of broken families one by one, each to one with the fewest violations, until none are left.

    Args:
        broken: the families.
        draws: a random number for each of them, by which equally good changes are chosen.
        attributes: the attributes that occur in rules.
        codes: the number of codes of each attribute.
        numbers: an array for work: for each rule about numbers, the number of children.
        conflicts: an array for work: for each rule that compares and each code, the number of lower children that
            conflict with a higher child of this code, then of higher ones with a lower child; shape (2, rules, codes).
    """
    children, seen = rows.children, (rows.children, rules, numbers, conflicts)
    for s in range(len(broken)):
        g, draw = broken[s], draws[s]
        start, size = rows.first[g], rows.sizes[g]
        numbers[:] = 0
        conflicts[:] = 0
        for i in range(start, start + size):
            _add_child(i, 1, *seen)
        left = violations(g, rows, rules)
        while left > 0:
            fewest, ties, child, attribute, value = left, 0, 0, 0, 0
            for i in range(start, start + size):
                _add_child(i, -1, *seen)
                others = left - _violations_left(g, i, rows, rules, numbers, conflicts)
                for p in range(len(attributes)):
                    a = attributes[p]
                    kept = children[i, a]
                    for w in range(codes[a]):
                        children[i, a] = w
                        now = others + _violations_left(g, i, rows, rules, numbers, conflicts)
                        if now < fewest:
                            fewest, ties = now, 0
                        if now == fewest and now < left:
                            ties += 1
                            draw = (draw * 1103515245 + 12345) % (1 << 31)
                            if draw % ties == 0:
                                child, attribute, value = i, a, w
                    children[i, a] = kept
                _add_child(i, 1, *seen)
            if fewest == left:
                break
            _add_child(child, -1, *seen)
            children[child, attribute] = value
            _add_child(child, 1, *seen)
            left = fewest
