"""The compiled kernels that round tables to integer counts and turn them into records (see pgmest/sampling).

A clique of the junction tree is seen as a table with a row per value of its separator and a column per value of its
new attributes. Randomness is a single 64-bit state, seeded by the caller, so that the same seed gives the same records.

Rounding is dependent rounding of a flow (Gandhi, Khuller, Parthasarathy, Srinivasan, JACM 2006; the flight phase of
the cube method of Deville and Tille, 2004). Cells are arcs of a network whose nodes are the classes of the margins to
protect, and the flow on an arc is the fractional part of its expected count. Arcs come one by one into a forest; one
that closes a cycle is resolved at once: flow is pushed around the cycle, one way or the other with the probabilities
that keep every expectation, until some arc of the cycle is 0 or 1 and leaves. At every node as much flows in as flows
out, before and after, so at the end all arcs are integers, each one its expectation rounded up or down.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined

PARENT, DIRECTION, ARC, STAMP, LEADER, SIZE, N_LINK = range(7)
"""Columns of a forest's links: the parent of a node (-1: none), 1 where their arc runs to the parent and -1 where it
comes from there, the arc's number (-1: not a cell), when the node was last seen, and the union-find structure of the
trees: a node nearer to its tree's leader, and the size of the tree, kept at the leader."""


# -- random numbers -------------------------------------------------------------------------------------------------

STEP = 0x9E3779B97F4A7C15
"""What a random number adds to the state, so that the state after any number of them is known beforehand."""

_STEP = np.uint64(STEP)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@inlined
def _number(z):
    """The number in [0, 1) of a state, with 53 random bits (SplitMix64: Steele, Lea, Flood, OOPSLA 2014)."""
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    z = z ^ (z >> _31)
    return float(np.int64(z >> _11)) * 2.0**-53


@inlined
def _uniform(state):
    """The next number."""
    state[0] += _STEP
    return _number(state[0])


# -- the forest of fractional arcs ------------------------------------------------------------------------------------


@inlined
def _leader(links, node):
    """The node that stands for the tree of this one."""
    while links[node, LEADER] != node:
        links[node, LEADER] = links[links[node, LEADER], LEADER]
        node = links[node, LEADER]
    return node


@inlined
def _meeting(links, node, other, stamp):
    """The first common ancestor of two nodes of a tree; both sides climb in turn, so that neither goes far beyond."""
    while True:
        if node >= 0:
            if links[node, STAMP] == stamp:
                return node
            links[node, STAMP] = stamp
            node = links[node, PARENT]
        node, other = other, node


@inlined
def _hang(links, flows, node, parent, direction, flow, arc, last):
    """Hang a node below `parent` by the given arc, reversing the links on the way from it up to `last`."""
    while True:
        above, its_direction, its_arc = links[node, PARENT], links[node, DIRECTION], links[node, ARC]
        its_flow = flows[node]
        links[node, PARENT], links[node, DIRECTION], links[node, ARC] = parent, direction, arc
        flows[node] = flow
        if node == last or above < 0:
            return
        node, parent, direction, flow, arc = above, node, -its_direction, its_flow, its_arc


@inlined
def _room(links, flows, node, top, sign, more, less):
    """How much more, and how much less, can flow along the path up to `top` (down from it for sign -1)."""
    while node != top:
        flow = flows[node]
        if links[node, DIRECTION] == sign:
            more, less = min(more, 1.0 - flow), min(less, flow)
        else:
            more, less = min(more, flow), min(less, 1.0 - flow)
        node = links[node, PARENT]
    return more, less


@inlined
def _push(links, flows, node, top, change):
    """Let `change` more flow along the path up to `top`; the node whose arc is now nearest to 0 or 1, and how near."""
    nearest, slack = -1, 2.0
    while node != top:
        flow = min(max(flows[node] + change * links[node, DIRECTION], 0.0), 1.0)
        flows[node] = flow
        if min(flow, 1.0 - flow) < slack:
            nearest, slack = node, min(flow, 1.0 - flow)
        node = links[node, PARENT]
    return nearest, slack


@inlined
def _settle(counts, arc, flow):
    if arc >= 0 and flow > 0.5:
        counts[arc] += 1.0


@inlined
def _join(links, flows, tail, head, flow, arc):
    """Join two trees by an arc, the smaller one hung below the larger; False if both nodes are in the same tree."""
    small, large = _leader(links, tail), _leader(links, head)
    if small == large:
        return False
    if links[small, SIZE] <= links[large, SIZE]:
        _hang(links, flows, tail, head, 1, flow, arc, -1)
    else:
        small, large = large, small
        _hang(links, flows, head, tail, -1, flow, arc, -1)
    links[small, LEADER] = large
    links[large, SIZE] += links[small, SIZE]
    return True


@inlined
def _insert(links, flows, counts, tail, head, flow, arc, stamp, state):
    """Bring an arc into the forest; if it closes a cycle, resolve the cycle and settle the arc that leaves."""
    if _join(links, flows, tail, head, flow, arc):
        return
    top = _meeting(links, tail, head, stamp)
    more, less = _room(links, flows, head, top, 1, 1.0 - flow, flow)
    more, less = _room(links, flows, tail, top, -1, more, less)
    change = more if _uniform(state) * (more + less) < less else -less
    flow = min(max(flow + change, 0.0), 1.0)
    from_head, head_slack = _push(links, flows, head, top, change)
    from_tail, tail_slack = _push(links, flows, tail, top, -change)
    if min(flow, 1.0 - flow) <= min(head_slack, tail_slack):
        _settle(counts, arc, flow)
    elif head_slack <= tail_slack:
        _settle(counts, links[from_head, ARC], flows[from_head])
        _hang(links, flows, head, tail, -1, flow, arc, from_head)
    else:
        _settle(counts, links[from_tail, ARC], flows[from_tail])
        _hang(links, flows, tail, head, 1, flow, arc, from_tail)


# -- tables to integer tables -----------------------------------------------------------------------------------------


@compiled
def round_table(
    weights, totals, tail_row, tail_column, head_row, head_column, above, outwards, links, flows, sums, state, counts
):
    """Integer counts with row sums `totals`, each cell and each class its expectation rounded up or down.

    The expectation of cell (s, j) is totals[s] * weights[s, j] / sum_j weights[s, j]; a weight of 0 gives a count of 0.

    Args:
        weights, counts: shape (rows, columns); `counts` is filled.
        totals: shape (rows,), integers; zero wherever a row has no weight.
        tail_row, ..., head_column: the arc of cell (s, j) runs from node tail_row[s] + tail_column[j] to node
            head_row[s] + head_column[j].
        above: for each node of a margin the class of the next coarser margin it is part of, which has a lower number.
            -1 for the coarsest classes whose sum is an integer anyway.
        outwards: for each node, 1 where its arc comes from the node above, 0 where it runs there.
        links, flows, sums: workspace of one entry (a row of N_LINK for `links`) per node.
        state: of the random numbers, shape (1,).
    """
    flat = counts.reshape(counts.size)
    for node in range(above.size):
        links[node, PARENT], links[node, STAMP], sums[node] = -1, 0, 0.0
        links[node, LEADER], links[node, SIZE] = node, 1
    stamp = 0
    n_columns = counts.shape[1]
    for s in range(counts.shape[0]):
        mass = 0.0
        for j in range(n_columns):
            mass += weights[s, j]
        scale = totals[s] / mass if mass > 0.0 else 0.0
        for j in range(n_columns):
            expected = weights[s, j] * scale
            whole = np.floor(expected)
            counts[s, j] = whole
            if expected > whole:
                tail, head = tail_row[s] + tail_column[j], head_row[s] + head_column[j]
                sums[tail] += expected - whole
                sums[head] += expected - whole
                stamp += 1
                _insert(links, flows, flat, tail, head, expected - whole, s * n_columns + j, stamp, state)
    for node in range(above.size - 1, -1, -1):
        if above[node] >= 0:
            sums[above[node]] += sums[node]
            flow = sums[node] - np.floor(sums[node])
            tail, head = (above[node], node) if outwards[node] else (node, above[node])
            stamp += 1
            _insert(links, flows, flat, tail, head, flow, -1, stamp, state)
    for node in range(above.size):
        if links[node, PARENT] >= 0:  # integers up to rounding error by now
            _settle(flat, links[node, ARC], flows[node])
    _match_totals(weights, totals, counts)


@inlined
def _match_totals(weights, totals, counts):
    """Put right what floating point lost: nothing, unless counts come near 10^12."""
    for s in range(counts.shape[0]):
        missing = totals[s]
        for j in range(counts.shape[1]):
            missing -= counts[s, j]
        while abs(missing) >= 1.0:
            best = 0
            for j in range(counts.shape[1]):
                if (weights[s, j] > weights[s, best]) if missing > 0.0 else (counts[s, j] > counts[s, best]):
                    best = j
            change = max(missing, -counts[s, best])
            counts[s, best] += change
            missing -= change


# -- records ----------------------------------------------------------------------------------------------------------

_0, _1 = np.uint64(0), np.uint64(1)


@inlined
def _find_rows(columns, begin, end, separator, strides, cells):
    """The rows of records: the positions of their values on the separator. One attribute after the other is faster."""
    count = np.uint64(end - begin)
    for i in range(count):
        cells[i] = 0
    for k in range(separator.size):
        column, stride = columns[separator[k], begin:end], np.uint32(strides[k])
        for i in range(count):
            cells[i] += stride * np.uint32(column[i])


@inlined
def _assign(columns, begin, end, new, codes, cells):
    """Write the codes of the columns of the table that the records have been given."""
    count = np.uint64(end - begin)
    for k in range(new.size):
        column = columns[new[k], begin:end]
        for i in range(count):
            column[i] = codes[np.uint64(cells[i]), np.uint64(k)]


@inlined
def _lay_out(counts, deck, bounds):
    """Lay out the cards of each row, as many of a column as its count, and where in the deck they lie."""
    position = 0
    for s in range(counts.shape[0]):
        bounds[s, 0] = position
        for j in range(counts.shape[1]):
            end = position + int(counts[s, j])
            for place in range(position, end):
                deck[place] = j
            position = end
        bounds[s, 1] = position


@compiled
def deal_records(counts, columns, first, last, separator, strides, new, codes, deck, bounds, cells, state):
    """Give records first..last-1 their values of the new attributes, so that the cells come out as `counts`.

    Each row's values make a deck of cards, of which each of its records takes one at random.

    Args:
        counts: shape (rows, columns), integers; row sums are the numbers of records with those separator values.
        columns: shape (attributes, records), codes; filled for the new attributes.
        separator, strides: the attributes of the separator, and what a step of each adds to the row.
        new: the new attributes.
        codes: shape (columns of counts, new attributes), their codes.
        deck: workspace, at least last - first integers that hold 0..columns of counts - 1; small ones stay in cache.
        bounds: workspace of shape (rows, 2), uint64: unsigned, so that no index is checked for being negative.
        cells: workspace, uint32; that many records are made at a time.
        state: of the random numbers, shape (1,); it goes one step per record.
    """
    _lay_out(counts, deck, bounds)
    z = state[0]
    for begin in range(first, last, cells.size):
        end = min(begin + cells.size, last)
        _find_rows(columns, begin, end, separator, strides, cells)
        for i in range(np.uint64(end - begin)):
            row = np.uint64(cells[i])
            low = bounds[row, _0]
            z += _STEP
            left = float(np.int64(bounds[row, _1] - low))
            chosen = low + np.uint64(np.int64(_number(z) * left))
            cells[i] = deck[chosen]
            deck[chosen] = deck[low]
            bounds[row, _0] = low + _1
        _assign(columns, begin, end, new, codes, cells)
    state[0] = z


@compiled
def draw_records(cumulative, columns, first, last, separator, strides, new, codes, cells, state):
    """Give records first..last-1 independent values of the new attributes, given those of the separator.

    `cumulative` has shape (rows, columns): the running sums of each row's weights. A value of weight 0 is never drawn.
    The other arguments are those of `deal_records`.
    """
    n_columns = cumulative.shape[1]
    z = state[0]
    for begin in range(first, last, cells.size):
        end = min(begin + cells.size, last)
        _find_rows(columns, begin, end, separator, strides, cells)
        for i in range(np.uint64(end - begin)):
            sums = cumulative[np.uint64(cells[i])]
            z += _STEP
            target = _number(z) * sums[n_columns - 1]
            low, length = 0, n_columns
            while length > 1:  # bisection for the first column whose sum is above the target, without branches
                half = length >> 1
                low += half * int(sums[low + half - 1] <= target)
                length -= half
            cells[i] = low
        _assign(columns, begin, end, new, codes, cells)
    state[0] = z


@compiled
def take_records(cells, wanted, left, over, state, victims, sources):
    """Choose wanted[c] records of each cell c at random, in one pass: those of cells with too many are victims.

    A record of a cell with `left` records not yet looked at, `wanted` of which are still to be chosen, is chosen with
    probability wanted / left, which makes every subset equally likely. Both arrays are used up.
    """
    n_victims, n_sources = 0, 0
    for i in range(len(cells)):
        cell = cells[i]
        if wanted[cell] > 0:
            if _uniform(state) * left[cell] < wanted[cell]:
                wanted[cell] -= 1
                if over[cell]:
                    victims[n_victims] = i
                    n_victims += 1
                else:
                    sources[n_sources] = i
                    n_sources += 1
            left[cell] -= 1
