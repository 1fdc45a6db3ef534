"""The compiled kernels that round tables to integer counts, turn them into records, and rake weights.

A clique of the junction tree is a table with a row for each cell of its separator and a column for each cell of its new
attributes. All randomness comes from one 64-bit state, seeded by the caller, so a seed always gives the same records.

Rounding is dependent rounding of a flow (Gandhi, Khuller, Parthasarathy, Srinivasan, JACM 2006; the flight phase of the
cube method of Deville and Tille, 2004). The nodes of the network are the cells of the margins to protect, the arcs are
the cells of the table, and the flow on an arc is the fractional part of its expected count. Arcs are inserted one by
one into a forest. A cycle is resolved as soon as an arc closes it: flow is pushed around the cycle until the flow of
some arc is 0 or 1, and that arc is removed. The direction of the push is random, with probabilities that preserve all
expectations. Inflow equals outflow at every node before and after, so in the end all flows are integers, and each
count is its expectation rounded up or down.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined

PARENT, DIRECTION, ARC, STAMP, LEADER, SIZE, N_LINK = range(7)
"""The columns of a forest's links, and their number.

PARENT is the parent of a node (-1 for a root). The arc between them has a DIRECTION (1 to the parent, -1 from the
parent) and a number ARC (-1 if it is not a cell). STAMP is the number of the last search that visited the node. LEADER
and SIZE are the union-find structure of the trees: a node nearer to the tree's representative, and, at the
representative, the size of the tree.
"""


# -- random numbers -------------------------------------------------------------------------------------------------

STEP = 0x9E3779B97F4A7C15
"""The increment of the state for each random number; the state after any number of them is known in advance."""

_STEP = np.uint64(STEP)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@inlined
def _number(z):
    """Return the number in [0, 1) of a state, with 53 random bits (SplitMix64: Steele, Lea, Flood, OOPSLA 2014)."""
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    z = z ^ (z >> _31)
    return float(np.int64(z >> _11)) * 2.0**-53


@inlined
def _uniform(state):
    """Advance the state and return its number in [0, 1)."""
    state[0] += _STEP
    return _number(state[0])


# -- the forest of fractional arcs ------------------------------------------------------------------------------------


@inlined
def _leader(links, node):
    """Return the representative of the node's tree, and halve the path to it (union-find)."""
    while links[node, LEADER] != node:
        links[node, LEADER] = links[links[node, LEADER], LEADER]
        node = links[node, LEADER]
    return node


@inlined
def _common_ancestor(links, node, other, stamp):
    """Return the lowest common ancestor of two nodes of a tree.

    The two searches climb in turn, so that neither goes far beyond the ancestor.
    """
    while True:
        if node >= 0:
            if links[node, STAMP] == stamp:
                return node
            links[node, STAMP] = stamp
            node = links[node, PARENT]
        node, other = other, node


@inlined
def _attach(links, flows, node, parent, direction, flow, arc, last):
    """Make `node` a child of `parent` by the given arc, and reverse the links on the path from `node` up to `last`.

    With last = -1 the path ends at the root. The arc from `last` to its former parent is dropped.
    """
    while True:
        above, its_direction, its_arc = links[node, PARENT], links[node, DIRECTION], links[node, ARC]
        its_flow = flows[node]
        links[node, PARENT], links[node, DIRECTION], links[node, ARC] = parent, direction, arc
        flows[node] = flow
        if node == last or above < 0:
            return
        node, parent, direction, flow, arc = above, node, -its_direction, its_flow, its_arc


@inlined
def _residual_capacity(links, flows, node, top, sign, more, less):
    """Return the amounts by which the flow along the path from `node` up to `top` can grow and shrink.

    For sign -1 the flow runs down the path. The results are at most `more` and `less`.
    """
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
    """Add `change` to the flow along the path up to `top`.

    Return the node of the path whose arc to its parent is now nearest to 0 or 1, and that arc's distance from 0 or 1.
    """
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
    """Round the flow of an arc, which is 0 or 1 up to rounding error, and add it to the count of the arc's cell."""
    if arc >= 0 and flow > 0.5:
        counts[arc] += 1.0


@inlined
def _join(links, flows, tail, head, flow, arc):
    """Join two trees by an arc, the smaller below the larger; return False if both nodes are in the same tree."""
    small, large = _leader(links, tail), _leader(links, head)
    if small == large:
        return False
    if links[small, SIZE] <= links[large, SIZE]:
        _attach(links, flows, tail, head, 1, flow, arc, -1)
    else:
        small, large = large, small
        _attach(links, flows, head, tail, -1, flow, arc, -1)
    links[small, LEADER] = large
    links[large, SIZE] += links[small, SIZE]
    return True


@inlined
def _insert(links, flows, counts, tail, head, flow, arc, stamp, state):
    """Insert an arc into the forest; if it closes a cycle, push flow around the cycle and settle an arc that gets full.

    The push changes every flow by +more or -less. The probability of +more is less / (more + less), so the mean change
    is 0.
    """
    if _join(links, flows, tail, head, flow, arc):
        return
    top = _common_ancestor(links, tail, head, stamp)
    more, less = _residual_capacity(links, flows, head, top, 1, 1.0 - flow, flow)
    more, less = _residual_capacity(links, flows, tail, top, -1, more, less)
    change = more if _uniform(state) * (more + less) < less else -less
    flow = min(max(flow + change, 0.0), 1.0)
    from_head, head_slack = _push(links, flows, head, top, change)
    from_tail, tail_slack = _push(links, flows, tail, top, -change)
    if min(flow, 1.0 - flow) <= min(head_slack, tail_slack):
        _settle(counts, arc, flow)
    elif head_slack <= tail_slack:
        _settle(counts, links[from_head, ARC], flows[from_head])
        _attach(links, flows, head, tail, -1, flow, arc, from_head)
    else:
        _settle(counts, links[from_tail, ARC], flows[from_tail])
        _attach(links, flows, tail, head, 1, flow, arc, from_tail)


# -- tables to integer tables -----------------------------------------------------------------------------------------


@compiled
def round_table(
    weights, totals, tail_row, tail_column, head_row, head_column, above, outwards, links, flows, sums, state, counts
):
    """Fill `counts` with integers with row sums `totals`; each cell and node is its expectation rounded up or down.

    The expectation of cell (s, j) is totals[s] * weights[s, j] / sum_j weights[s, j]; a weight of 0 gives a count of 0.
    The network is that of `pgmest.sampling.rounding.Network`.

    Args:
        weights, counts: shape (rows, columns); `counts` is filled.
        totals: shape (rows,), integers; 0 for a row without positive weights.
        tail_row, ..., head_column: the arc of cell (s, j) runs from node tail_row[s] + tail_column[j] to node
            head_row[s] + head_column[j].
        above: for each node, the node that contains it in the next coarser margin, which has a lower number; -1 for a
            node whose sum is an integer already.
        outwards: for each node, 1 if its arc comes from the node above, 0 if its arc runs to the node above.
        links, flows, sums: workspace with one entry per node (in `links`, a row of N_LINK entries).
        state: the state of the random numbers, shape (1,).
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
        if links[node, PARENT] >= 0:  # the remaining arcs are integers up to rounding error
            _settle(flat, links[node, ARC], flows[node])
    _match_totals(weights, totals, counts)


@inlined
def _match_totals(weights, totals, counts):
    """Correct row sums for the errors of floating point, which occur only if counts are near 10^12."""
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
    """Write the table row of each record, the position of its separator values, to `cells`.

    The loop over attributes is the outer one, because then the inner loop is vectorized.
    """
    count = np.uint64(end - begin)
    for i in range(count):
        cells[i] = 0
    for k in range(separator.size):
        column, stride = columns[separator[k], begin:end], np.uint32(strides[k])
        for i in range(count):
            cells[i] += stride * np.uint32(column[i])


@inlined
def _assign(columns, begin, end, new, codes, cells):
    """Write the new attributes' codes of each record, given its table column in `cells`."""
    count = np.uint64(end - begin)
    for k in range(new.size):
        column = columns[new[k], begin:end]
        for i in range(count):
            column[i] = codes[np.uint64(cells[i]), np.uint64(k)]


@inlined
def _fill_deck(counts, deck, bounds):
    """Write each row's columns to `deck`, each as often as its count, and the row's range in the deck to `bounds`."""
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
    """Fill the new attributes of records first..last-1, such that the cells have the counts `counts`.

    The values of a row form a deck of cards, from which each record of the row draws one without replacement.

    Args:
        counts: shape (rows, columns), integers; a row's sum is the number of records with its separator values.
        columns: shape (attributes, records), codes; filled for the new attributes.
        separator, strides, new, codes: as in `pgmest.sampling.clique_tables.ColumnMap`.
        deck: workspace of at least last - first integers, of a type as small as the number of columns allows, so that
            it stays in cache.
        bounds: workspace of shape (rows, 2), uint64; unsigned, so that indices need no test for negative values.
        cells: workspace, uint32; its length is the number of records that are processed together.
        state: the state of the random numbers, shape (1,), which advances one step per record.
    """
    _fill_deck(counts, deck, bounds)
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
    """Fill the new attributes of records first..last-1 with independent values, given those of the separator.

    `cumulative` has shape (rows, columns): the cumulative sums of each row's weights. A value of weight 0 is never
    drawn. The other arguments are those of `deal_records`.
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
            while length > 1:  # branch-free bisection for the first column whose cumulative sum exceeds the target
                half = length >> 1
                low += half * int(sums[low + half - 1] <= target)
                length -= half
            cells[i] = low
        _assign(columns, begin, end, new, codes, cells)
    state[0] = z


@compiled
def take_records(cells, wanted, left, over, state, victims, sources):
    """Choose wanted[c] records of each cell c at random in one pass, and write their indices.

    If `wanted` records are still to be chosen among the `left` remaining records of a cell, the next record is chosen
    with probability wanted / left, so every subset is equally likely (selection sampling, Knuth's Algorithm S).

    Args:
        cells: the cell of each record.
        wanted: the number of records to choose in each cell; the kernel changes it.
        left: the number of records in each cell; the kernel changes it.
        over: for each cell, whether it has too many records.
        state: the state of the random numbers, shape (1,).
        victims: filled with the chosen records of cells that have too many records.
        sources: filled with the chosen records of the other cells.
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


@compiled
def rake(rows, columns, width, weights, target, counts, power, most):
    """Multiply each record's weight by (target / counts)^power of its cell; return the l1 distance before.

    rows, columns: The row and the column of each record's cell in a table with `width` columns.
    target: The target of each cell. counts: A work array of the same size. most: The largest ratio; its inverse is the
    smallest.
    """
    counts[:] = 0.0
    for i in range(len(weights)):
        counts[np.int64(rows[i]) * width + columns[i]] += weights[i]
    distance = 0.0
    for c in range(len(counts)):
        distance += abs(target[c] - counts[c])
        if counts[c] > 0:
            counts[c] = min(most, max(1.0 / most, target[c] / counts[c])) ** power
    for i in range(len(weights)):
        weights[i] *= counts[np.int64(rows[i]) * width + columns[i]]
    return distance
