"""The compiled kernels that count what each family adds to a table.

A family is a row of the parent table with its rows of the child table; rows of one family are adjacent.
"""

from __future__ import annotations

from pgmest._base.compiled import compiled
from pgmest.mechanisms.linked.pair_kernels import partner, partners
from pgmest.mechanisms.linked.pairing import MOST_COUNTED


@compiled
def add_members(first, sizes, parents, children, share, most, counts, lengths, averages):
    """Add each family's cells `parents[g] + children[i]` to a table, divided by their length, and their average.

    Args:
        first, sizes: the first child and the number of children of each family.
        parents, children: a family's and a child's part of the cell.
        share: the weight of one of n children, at n.
        most: the largest weight of one of n children in the lengths, at n.
        counts: a table of zeros for work, which is returned as zeros.
        lengths: the table to which each family adds its counts divided by their Euclidean length.
        averages: the table to which each family adds its counts divided by their number.
    """
    for g in range(len(sizes)):
        squares = 0.0
        for i in range(first[g], first[g] + sizes[g]):
            cell = parents[g] + children[i]
            squares += 2 * counts[cell] + 1
            counts[cell] += 1
        for i in range(first[g], first[g] + sizes[g]):
            cell = parents[g] + children[i]
            lengths[cell] += min(most[sizes[g]], 1 / squares**0.5)
            averages[cell] += share[sizes[g]]
        for i in range(first[g], first[g] + sizes[g]):
            counts[parents[g] + children[i]] = 0


@compiled
def add_pairs(first, sizes, ones, others, step, alike, share, most, counts, lengths, averages):
    """Add each family's cells `ones[i] * step + others[j]` of its pairs of children, as `add_members` does.

    Args:
        first, sizes, share, most, counts, lengths, averages: as for `add_members`, with the weights of pairs.
        ones, others: the codes of a child as the first and as the second of a pair.
        step: the number of codes of the second.
        alike: whether both are codes of the same attribute: then each pair counts once, in the cell of the smaller
            code first, for the lengths.
    """
    for g in range(len(sizes)):
        size = sizes[g]
        if size < 2:
            continue
        squares = 0.0
        for i in range(first[g], first[g] + size):
            for turn in range(partners(size)):
                j = partner(first[g], size, i, turn)
                averages[ones[i] * step + others[j]] += share[size]
                if alike and j < i:
                    continue
                cell = ones[i] * step + others[j]
                if alike and others[j] < ones[i]:
                    cell = others[j] * step + ones[i]
                squares += 2 * counts[cell] + 1
                counts[cell] += 1
        for i in range(first[g], first[g] + size):
            for turn in range(partners(size)):
                j = partner(first[g], size, i, turn)
                if alike and j < i:
                    continue
                cell = ones[i] * step + others[j]
                if alike and others[j] < ones[i]:
                    cell = others[j] * step + ones[i]
                lengths[cell] += min(most[size], 1 / squares**0.5)
        for i in range(first[g], first[g] + size):
            for turn in range(partners(size)):
                j = partner(first[g], size, i, turn)
                cell = ones[i] * step + others[j]
                counts[cell] = 0
                if alike:
                    counts[others[j] * step + ones[i]] = 0


@compiled
def add_numbers(first, sizes, codes, most, found, lengths, counts):
    """Add in how many families 1, 2, or at least MOST_COUNTED children have each code, and the same cut to a length.

    Args:
        first, sizes: the first child and the number of children of each family.
        codes: the code of each child.
        most: the largest weight of a family in the lengths.
        found: an array of zeros for work, as long as the number of codes, which is returned as zeros.
        lengths, counts: the tables, shape (codes, MOST_COUNTED); the lengths of a family have a Euclidean length of at
            most 1.
    """
    for g in range(len(sizes)):
        different = 0
        for i in range(first[g], first[g] + sizes[g]):
            different += found[codes[i]] == 0
            found[codes[i]] += 1
        for i in range(first[g], first[g] + sizes[g]):
            number = min(found[codes[i]], MOST_COUNTED)
            if number > 0:
                lengths[codes[i], number - 1] += min(most, 1 / different**0.5)
                counts[codes[i], number - 1] += 1
                found[codes[i]] = 0
