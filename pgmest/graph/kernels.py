"""The compiled kernels of the elimination game: what a vertex would cost, and a greedy run of it.

A graph is a matrix of zeros and ones, a row for each vertex, and beside it the neighbors of each vertex: the row of
`near` has them in its first `degree` entries, in no order. So a set is asked for a vertex in one step, and gone through
in as many as it has. Numbers of cells are floats, exact up to 2^53; what is larger, up to infinity, is no tree that
anybody could use.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.compiled import compiled, inlined


@inlined
def _list(adjacent, near, degree):
    for u in range(len(degree)):
        count = 0
        for v in range(len(degree)):
            if adjacent[u, v]:
                near[u, count] = v
                count += 1
        degree[u] = count


@inlined
def _cells_of(near, degree, sizes, vertex):
    """The cells of the clique that a vertex and its neighbors would make."""
    cells = sizes[vertex]
    for i in range(degree[vertex]):
        cells *= sizes[near[vertex, i]]
    return cells


@inlined
def _score(adjacent, near, degree, sizes, weights, fill, cells, vertex):
    """Fill in what a vertex costs: the weight of its fill edges, and the cells of its clique."""
    total = 0.0
    for i in range(degree[vertex]):
        u, missing = near[vertex, i], 0.0
        for j in range(i):
            w = near[vertex, j]
            if not adjacent[u, w]:
                missing += weights[w]
        total += weights[u] * missing
    fill[vertex] = total
    cells[vertex] = _cells_of(near, degree, sizes, vertex)


@compiled
def start(adjacent, near, degree, sizes, weights, fill, cells):
    """Fill in the neighbors of each vertex and what it costs."""
    _list(adjacent, near, degree)
    for vertex in range(len(sizes)):
        _score(adjacent, near, degree, sizes, weights, fill, cells, vertex)


@inlined
def _join(adjacent, near, degree, weights, fill, touched, u, w):
    """Add a fill edge, and mark the vertices that see both ends; how many these are."""
    pair, count, of_u, of_w = weights[u] * weights[w], 0, 0.0, 0.0
    for i in range(degree[u]):
        v = near[u, i]
        if adjacent[w, v]:
            fill[v] -= pair
            touched[v] = 1
            count += 1
        else:
            of_u += weights[v]
    for i in range(degree[w]):
        v = near[w, i]
        if not adjacent[u, v]:
            of_w += weights[v]
    fill[u] += weights[w] * of_u
    fill[w] += weights[u] * of_w
    adjacent[u, w] = adjacent[w, u] = 1
    near[u, degree[u]], near[w, degree[w]] = w, u
    degree[u] += 1
    degree[w] += 1
    return count


@inlined
def _eliminate(adjacent, near, degree, sizes, weights, fill, cells, touched, vertex):
    """Join the neighbors of a vertex and remove it, and mark the vertices whose costs may have changed.

    All but `sizes` and `weights` is changed in place. Returns the units of work.
    """
    n, work, many = len(sizes), 4, degree[vertex]
    touched[:] = 0
    for i in range(many):
        touched[near[vertex, i]] = 1
    if fill[vertex] != 0.0:
        for i in range(many):
            for j in range(i):
                u, w = near[vertex, i], near[vertex, j]
                if not adjacent[u, w]:
                    work += 2 + _join(adjacent, near, degree, weights, fill, touched, u, w) // 2
    touched[vertex] = 0
    for i in range(many):
        u, outside, at = near[vertex, i], 0.0, 0
        for j in range(degree[u]):
            v = near[u, j]
            if v == vertex:
                at = j
            elif not adjacent[vertex, v]:
                outside += weights[v]
        degree[u] -= 1
        near[u, at] = near[u, degree[u]]
        adjacent[u, vertex] = 0
        fill[u] -= weights[vertex] * outside
        cells[u] = _cells_of(near, degree, sizes, u)
    for i in range(many):
        adjacent[vertex, near[vertex, i]] = 0
    degree[vertex] = 0
    for v in range(n):
        work += touched[v]
    return work


@compiled
def eliminate(adjacent, near, degree, sizes, weights, fill, cells, touched, vertex):
    """One step of the game."""
    return _eliminate(adjacent, near, degree, sizes, weights, fill, cells, touched, vertex)


@inlined
def _leave(adjacent, near, degree, left, lasting, step, vertex):
    """Note the neighbors of a vertex as what a step leaves; the last step that left its whole clique, or -1.

    What a step leaves lies inside its clique, so such a clique is no maximal one. `lasting` is `left`, transposed.
    """
    found = -1
    for before in range(step):
        if lasting[vertex, before]:
            same = left[before, len(degree)] == degree[vertex] + 1
            for i in range(degree[vertex]):
                same = same and lasting[near[vertex, i], before]
            if same:
                found = before
    for v in range(len(degree)):
        left[step, v] = lasting[v, step] = adjacent[vertex, v]
    left[step, len(degree)] = degree[vertex]
    return found


@compiled
def play(
    adjacent, near, degree, sizes, weights, factors, by_cells, bound, fill, cells, score, touched, order, left, lasting
):
    """Eliminate the vertex of least score times factor, of several the one of the smallest clique, again and again.

    A score is the fill, or with `by_cells` the log of the clique's cells where there is fill. What is eliminated goes
    to `order`, its neighbors to the rows of `left`, with their number at the end, until one joins all the others.
    What comes before is changed in place, but for `sizes`, `weights` and `factors`; `score`, `touched` and `lasting`
    are work space.

    Returns: the cells of the maximal cliques, the number of steps, and the units of work. The cells are negative if
        they would have reached the bound; an infinite one is none.
    """
    n, cost, work = len(sizes), 0.0, 0
    touched[:] = 1
    order[:] = -1
    alive = n
    for step in range(n):
        best = -1
        for v in range(n):
            if order[v] < 0:
                if touched[v]:
                    score[v] = (math.log(cells[v]) if fill[v] != 0.0 else 0.0) if by_cells else fill[v]
                    score[v] *= factors[v]
                if best < 0 or score[v] < score[best] or (score[v] == score[best] and cells[v] < cells[best]):
                    best = v
        if _leave(adjacent, near, degree, left, lasting, step, best) < 0:
            cost += cells[best]
        if cost >= bound and bound < np.inf:
            return -1.0, step, work
        order[best] = step
        if degree[best] == alive - 1:
            return cost, step + 1, work
        alive -= 1
        work += _eliminate(adjacent, near, degree, sizes, weights, fill, cells, touched, best)
    return cost, n, work


@inlined
def _label_parts(near, degree, part, waiting):
    """Number the connected parts of a graph; how many there are. `waiting` is work space."""
    parts = 0
    part[:] = -1
    for first in range(len(part)):
        if part[first] >= 0:
            continue
        part[first], waiting[0], begins, ends = parts, first, 0, 1
        while begins < ends:
            u = waiting[begins]
            begins += 1
            for i in range(degree[u]):
                v = near[u, i]
                if part[v] < 0:
                    part[v] = parts
                    waiting[ends] = v
                    ends += 1
        parts += 1
    return parts


@inlined
def _leave_simplicial(adjacent, near, degree, sizes, ones, fill, cells, touched, alive, left, lasting):
    """Eliminate vertices without fill while there are any: the cells of their maximal cliques, and their number."""
    total, steps = 0.0, 0
    _list(adjacent, near, degree)
    alive[:] = 1
    for u in range(len(sizes)):
        _score(adjacent, near, degree, sizes, ones, fill, cells, u)
    u = 0
    while u < len(sizes):
        if not alive[u] or fill[u] != 0.0:
            u += 1
            continue
        if _leave(adjacent, near, degree, left, lasting, steps, u) < 0:
            total += cells[u]
        alive[u] = 0
        steps += 1
        _eliminate(adjacent, near, degree, sizes, ones, fill, cells, touched, u)
        u = 0  # others may have no fill now
    return total, steps


@compiled
def best_of_three(
    given,
    sizes,
    worth,
    least,
    most,
    enough,
    rest,
    adjacent,
    lasting,
    left,
    near,
    touched,
    alive,
    axes,
    floats,
    counts,
    costs,
):
    """The cells of the tree that the three heuristics find, part by part the best, as `find_elimination` with "low".

    Vertices without fill are eliminated first, as that does; what is left falls into parts. given: the graph. worth,
    least, most: of an effort (elimination_order.py): units of work a cell is worth, and the least and most. enough: no
    heuristic is tried after one with which the tree has so few cells. All others are work space: two matrices like the
    graph, `lasting`, `left` and neighbors, vectors of zeros and ones, rows of integers, `axes` (part, degree, and order
    of search), of floats (fill, cells, score, ones), and for each part counts (alive, all, work, whether it is played)
    and costs (of this run, the least, whole, and whole of the best).
    """
    n, part, degree = len(sizes), axes[0], axes[1]
    fill, cells, score, ones = floats[0], floats[1], floats[2], floats[3]
    remaining, members, work, played = counts[0], counts[1], counts[2], counts[3]
    cost, lowest, whole, best_whole = costs[0], costs[1], costs[2], costs[3]
    ones[:] = 1.0
    for u in range(n):
        for v in range(n):
            rest[u, v] = given[u, v]
    total, first = _leave_simplicial(rest, near, degree, sizes, ones, fill, cells, touched, alive, left, lasting)
    parts = _label_parts(near, degree, part, axes[2])
    work[:] = members[:] = played[:] = 0
    for u in range(n):
        members[part[u]] += alive[u]
        played[part[u]] = alive[u]  # what was eliminated has no neighbors, and is a part of its own
    lowest[:] = np.inf
    best_whole[:] = 0.0
    for run in range(3):
        weights = sizes if run == 2 else ones
        if run > 0:
            squares, anything = 0.0, False
            for q in range(parts):
                squares += float(members[q]) ** 2
            for q in range(parts):
                share = float(members[q]) ** 2 / squares if squares > 0.0 else 0.0
                budget = max(share * least, min(share * most, worth * min(lowest[q], 1e12)))
                played[q] = 1 if played[q] and work[q] < budget else 0
                anything = anything or played[q] == 1
            if not anything:
                break
            _list(rest, near, degree)
        cost[:] = whole[:] = 0.0
        for q in range(parts):
            remaining[q] = members[q]
        for u in range(n):
            alive[u] = touched[u] = played[part[u]]
            for v in range(n):
                adjacent[u, v] = rest[u, v]
            if alive[u]:
                _score(rest, near, degree, sizes, weights, fill, cells, u)
        for step in range(first, n):
            best = -1
            for v in range(n):
                if alive[v]:
                    if touched[v]:
                        score[v] = (math.log(cells[v]) if fill[v] != 0.0 else 0.0) if run == 1 else fill[v]
                    if best < 0 or score[v] < score[best] or (score[v] == score[best] and cells[v] < cells[best]):
                        best = v
            if best < 0:
                break
            q = part[best]
            before = _leave(adjacent, near, degree, left, lasting, step, best)
            whole[q] += cells[best] if before < 0 else 0.0
            cost[q] += cells[best] if before < first else 0.0
            over = cost[q] >= lowest[q] and lowest[q] < np.inf
            if over or degree[best] + 1 == remaining[q]:
                if not over and (run == 0 or cost[q] < lowest[q]):
                    lowest[q], best_whole[q] = cost[q], whole[q]
                for v in range(n):
                    if part[v] == q:
                        alive[v] = 0
                touched[:] = 0
                continue
            alive[best] = 0
            remaining[q] -= 1
            work[q] += _eliminate(adjacent, near, degree, sizes, weights, fill, cells, touched, best)
        found = total
        for q in range(parts):
            found += best_whole[q]
        if found <= enough:
            break
    for q in range(parts):
        total += best_whole[q]
    return total


@compiled
def best_with_each(rows, asked, found, graph, given, sizes, worth, least, most, enough, *space):
    """`best_of_three` of a graph with one more clique, for each of those asked for, into `found`.

    rows: cliques as vertices, filled up with -1; given: a copy of the graph, and again at the end.
    """
    for at in range(len(asked)):
        i = asked[at]
        for j in range(rows.shape[1]):
            for k in range(rows.shape[1]):
                if rows[i, j] >= 0 and rows[i, k] >= 0 and j != k:
                    given[rows[i, j], rows[i, k]] = 1
        found[i] = best_of_three(given, sizes, worth, least, most, enough, *space)
        for j in range(rows.shape[1]):
            for k in range(rows.shape[1]):
                if rows[i, j] >= 0 and rows[i, k] >= 0:
                    given[rows[i, j], rows[i, k]] = graph[rows[i, j], rows[i, k]]
