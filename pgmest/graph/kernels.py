"""The compiled kernels of the elimination game: the costs of the vertices, and greedy runs.

A graph is held twice: as an adjacency matrix of zeros and ones, which answers in one step whether two vertices are
joined, and as neighbor lists, which take only as many steps to traverse as there are neighbors. The row of `near` of a
vertex has its neighbors in the first `degree` entries, in no particular order. Numbers of cells are floats, exact up
to 2^53; trees with more cells are too large for any use, so that their rounding does not matter.
"""

from __future__ import annotations

import math

import numpy as np

from pgmest._base.compiled import compiled, inlined


@inlined
def _list_neighbors(adjacent, near, degree):
    """Fill in the neighbor lists of an adjacency matrix."""
    for u in range(len(degree)):
        count = 0
        for v in range(len(degree)):
            if adjacent[u, v]:
                near[u, count] = v
                count += 1
        degree[u] = count


@inlined
def _cells_of(near, degree, sizes, vertex):
    """Return the cells of the clique that a vertex and its neighbors would form."""
    cells = sizes[vertex]
    for i in range(degree[vertex]):
        cells *= sizes[near[vertex, i]]
    return cells


@inlined
def _score(adjacent, near, degree, sizes, weights, fill, cells, vertex):
    """Fill in the costs of a vertex: the weight of its fill edges, and the cells of its clique."""
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
    """Fill in the neighbors and the costs of each vertex."""
    _list_neighbors(adjacent, near, degree)
    for vertex in range(len(sizes)):
        _score(adjacent, near, degree, sizes, weights, fill, cells, vertex)


@inlined
def _join(adjacent, near, degree, weights, fill, touched, u, w):
    """Add the fill edge u-w and return the number of common neighbors of u and w, which are marked as touched.

    The edge closes one missing pair at each common neighbor. A neighbor of only one end forms a new missing pair with
    the other end: this adds to the fill of the end that both are joined to.
    """
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
def eliminate(adjacent, near, degree, sizes, weights, fill, cells, touched, vertex):
    """Join the neighbors of a vertex, remove it, mark vertices whose costs may have changed; return the units of work.

    All arrays except `sizes` and `weights` are changed in place.
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
        # The missing pairs at u that go away are those of `vertex` and the neighbors of u that are not its own.
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


@inlined
def _record_separator(adjacent, near, degree, left, lasting, step, vertex):
    """Record the neighbors of a vertex as the separator of a step; return the last step whose separator is its clique.

    The separator of a step lies inside the clique of that step. So the clique of `vertex` is not maximal if it equals
    an earlier separator; otherwise the result is -1. `left` has a row for each step, with the number of vertices at
    the end; `lasting` is its transpose, so that the search over earlier steps reads contiguous memory.
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
    """Eliminate the vertex of least score times factor (the smallest clique breaks ties) until one clique is left.

    The score is the fill, or with `by_cells` the log of the cells of the clique (0 without fill). `order` receives the
    step of each vertex, -1 if it remains; `left` receives the neighbors of each vertex eliminated, with their number
    at the end. `score`, `touched` and `lasting` are work space. The graph, `fill` and `cells` are changed in place.

    Returns: the cells of the maximal cliques, the number of steps, and the units of work. The cells are negative if
        they would have reached the bound; an infinite bound never stops the run.
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
        if _record_separator(adjacent, near, degree, left, lasting, step, best) < 0:
            cost += cells[best]
        if cost >= bound and bound < np.inf:
            return -1.0, step, work
        order[best] = step
        if degree[best] == alive - 1:
            return cost, step + 1, work
        alive -= 1
        work += eliminate(adjacent, near, degree, sizes, weights, fill, cells, touched, best)
    return cost, n, work


@inlined
def _label_parts(near, degree, part, waiting):
    """Number the connected components of a graph in `part` and return their count. `waiting` is work space."""
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
    """Eliminate vertices while any has no fill; return the cells of their maximal cliques, and the number of steps."""
    total, steps = 0.0, 0
    _list_neighbors(adjacent, near, degree)
    alive[:] = 1
    for u in range(len(sizes)):
        _score(adjacent, near, degree, sizes, ones, fill, cells, u)
    u = 0
    while u < len(sizes):
        if not alive[u] or fill[u] != 0.0:
            u += 1
            continue
        if _record_separator(adjacent, near, degree, left, lasting, steps, u) < 0:
            total += cells[u]
        alive[u] = 0
        steps += 1
        eliminate(adjacent, near, degree, sizes, ones, fill, cells, touched, u)
        u = 0  # the removal may have left earlier vertices without fill
    return total, steps


@compiled
def best_of_three(
    given, sizes, worth, least, most, enough, rest, adjacent, lasting, left, near, touched, alive, axes, floats,
    counts, costs,
):  # fmt: skip
    """Return the cells of the tree that `find_elimination` would find with effort "low", without building the tree.

    Like that search, eliminate the vertices without fill first, then run the three heuristics on each component that
    remains and take the best per component.

    given: the adjacency matrix.
    worth, least, most: the stopping rule (elimination_order.py): units of work per cell, the least and the most work.
    enough: the number of cells with which no further heuristic is tried.
    rest, adjacent: work space for two graphs; lasting, left, near: as in `play`; touched, alive: flags of vertices.
    axes, floats: rows of vertices: (component, degree, search queue) and (fill, cells, score, ones).
    counts, costs: rows of components: (vertices alive, vertices in all, work, whether the next run plays it) and
        (cost of this run, least cost, cells of this run, cells of the best run).

    A cost compares runs as `find_elimination` does, which searches each component alone: a clique counts unless it is
    the separator of an earlier step in the component. The cells also leave out the separators of simplicial vertices,
    so that they add up to the size of the whole tree.
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
        played[part[u]] = alive[u]  # an eliminated vertex has no neighbors, so that it is a component by itself
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
            _list_neighbors(rest, near, degree)
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
            before = _record_separator(adjacent, near, degree, left, lasting, step, best)
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
            work[q] += eliminate(adjacent, near, degree, sizes, weights, fill, cells, touched, best)
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
    """Write `best_of_three` of the graph with one more clique to `found`, for each row asked for.

    rows: the vertices of the candidate cliques, padded with -1. given: a copy of the graph, which each candidate
    changes and restores.
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
