"""The compiled kernels of a chain: the gradient of the Student prior, and products of the metric with vectors."""

from __future__ import annotations

from pgmest._base.compiled import compiled, inlined, reduction

START, CELLS, AXIS, AXES, WHOLE, NUMBER = range(6)
"""Columns of a table of cliques: the first cell and how many, the first axis and how many, the row of the effect of the
clique as a whole, and the number of its scale."""


@reduction
def _outer(means, sizes, places, axis, axes, digits):
    """The effects of a row: the sum over all axes but the last."""
    found = 0.0
    for k in range(axes - 1):
        found += means[places[axis + k] + digits[k]]
    return found


@reduction
def _next_row(sizes, axis, axes, digits):
    for k in range(axes - 2, -1, -1):
        digits[k] += 1
        if digits[k] < sizes[axis + k]:
            return
        digits[k] = 0


@reduction
def _add_to_sums(value, places, axis, axes, digits, sums):
    for k in range(axes - 1):
        sums[places[axis + k] + digits[k]] += value


@reduction
def _row_sums(values, sums):
    """The sum of a row, whose values are added to those of the last axis."""
    total = 0.0
    for j in range(len(values)):
        total += values[j]
        sums[j] += values[j]
    return total


@inlined
def _sums(values, start, cells, width, last, sizes, places, axis, axes, digits, sums):
    """The sum of a clique's cells, which are added to the sums of each value of each of its axes."""
    digits[:] = 0
    total = 0.0
    for row in range(start, start + cells, width):
        added = _row_sums(values[row : row + width], sums[last : last + width])
        _add_to_sums(added, places, axis, axes, digits, sums)
        _next_row(sizes, axis, axes, digits)
        total += added
    return total


@reduction
def _row_interactions(away, outer, means, found):
    for j in range(len(found)):
        found[j] = away[j] - outer - means[j]


@reduction
def _pulls(variance, scatter, share, possible, degrees, pull):
    """Interactions become the pulls on them; the sum of their derivatives in the log of the scale."""
    moment = 0.0
    for cell in range(len(pull)):
        inside = pull[cell]
        precision = 1.0 / (variance + scatter[cell])
        scaled = precision * inside
        force = (degrees + 1.0) * scaled / (degrees + scaled * inside) * possible[cell]
        moment += variance * precision * (share[cell] - force * inside)
        pull[cell] = force
    return moment


@reduction
def _add_row(outer, last, pull):
    for j in range(len(pull)):
        pull[j] += outer + last[j]


@compiled
def student_gradient(
    cliques, sizes, places, away, variances, scatter, share, possible, degrees, precision, means, sums, digits, pull,
    moments,
):  # fmt: skip
    """The derivative of the energy of Student interactions and normal effects, in potentials and log scales.

    Args:
        cliques: shape (cliques, 6), see `START` and what follows.
        sizes, places: of each axis of each clique, its length and its first row among the effects.
        away: the potentials less their center.
        variances: of each scale, its square; the last is that of cliques that have none of their own.
        scatter, share, possible: of each cell, see `StudentCells`.
        degrees: of freedom; precision: of every effect.
        means, sums: a number for each effect, digits: one for each axis of a clique; all of these are overwritten.
        pull: the derivative in the potentials is written to it.
        moments: that in the log scales, without the prior of these.
    """
    means[:] = 0.0
    sums[:] = 0.0
    moments[:] = 0.0
    for c in range(len(cliques)):
        start, cells, axis, axes = cliques[c, START], cliques[c, CELLS], cliques[c, AXIS], cliques[c, AXES]
        whole, number = cliques[c, WHOLE], cliques[c, NUMBER]
        if axes == 0:  # all records together
            pull[start] = precision * away[start]
            continue
        width, last = sizes[axis + axes - 1], places[axis + axes - 1]
        total = _sums(away, start, cells, width, last, sizes, places, axis, axes, digits, means)
        for k in range(axes):
            for x in range(sizes[axis + k]):
                means[places[axis + k] + x] *= sizes[axis + k] / cells
        means[whole] = total / cells
        digits[:] = 0
        for row in range(start, start + cells, width):
            outer = _outer(means, sizes, places, axis, axes, digits) + (1.0 - axes) * means[whole]
            _row_interactions(away[row : row + width], outer, means[last : last + width], pull[row : row + width])
            _next_row(sizes, axis, axes, digits)
        end = start + cells
        moment = _pulls(
            variances[number], scatter[start:end], share[start:end], possible[start:end], degrees, pull[start:end]
        )
        total = _sums(pull, start, cells, width, last, sizes, places, axis, axes, digits, sums)
        if number < len(moments):
            moments[number] += moment
        for k in range(axes):
            for x in range(sizes[axis + k]):
                place = places[axis + k] + x
                sums[place] = (precision * means[place] - sums[place]) * sizes[axis + k] / cells
        rest = (precision * means[whole] - (1.0 - axes) * total) / cells
        digits[:] = 0
        for row in range(start, start + cells, width):
            outer = _outer(sums, sizes, places, axis, axes, digits) + rest
            _add_row(outer, sums[last : last + width], pull[row : row + width])
            _next_row(sizes, axis, axes, digits)


@reduction
def _dot(one, other):
    found = 0.0
    for k in range(len(one)):
        found += one[k] * other[k]
    return found


@reduction
def _add_row_and_dot(row, values, value, found):
    """The product of a row with values, while `value` times the row is added to `found`."""
    total = 0.0
    for k in range(len(row)):
        total += row[k] * values[k]
        found[k] += row[k] * value
    return total


@inlined
def _symmetric_product(triangle, values, found):
    """A symmetric matrix times a vector, from its lower triangle row after row: half of the memory is read."""
    found[:] = 0.0
    at = 0
    for i in range(len(values)):
        total = _add_row_and_dot(triangle[at : at + i], values[:i], values[i], found[:i])
        found[i] += total + triangle[at + i] * values[i]
        at += i + 1


@compiled
def add_shared(pointers, columns, entries, shares, starts, total, weights, triangle, values, moved, inside, found):
    """Add G^T C G values to `found`, for the shared marginals of `SharedRoot`.

    Args:
        pointers, columns, entries: J D by rows.
        shares, starts, total, weights: see `SharedRoot`.
        triangle: C's lower triangle, row after row.
        moved, inside: room for a number for each row.
    """
    rows, size = len(weights), len(values)
    for i in range(rows):
        product = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            product += entries[k] * values[columns[k]]
        moved[i] = product
    for block in range(len(starts)):
        begin, end = starts[block], starts[block + 1] if block + 1 < len(starts) else rows
        whole = 0.0
        for i in range(begin, end):
            whole += moved[i]
        for i in range(begin, end):
            moved[i] = weights[i] * (moved[i] - shares[i] * whole + values[size - 1] * total[i])
    _symmetric_product(triangle, moved, inside)
    for block in range(len(starts)):
        begin, end = starts[block], starts[block + 1] if block + 1 < len(starts) else rows
        whole = 0.0
        for i in range(begin, end):
            inside[i] *= weights[i]
            whole += inside[i] * shares[i]
            found[size - 1] += inside[i] * total[i]
        for i in range(begin, end):
            change = inside[i] - whole
            for k in range(pointers[i], pointers[i + 1]):
                found[columns[k]] += entries[k] * change


@compiled
def add_along(rows, weights, values, found):
    """Add R^T diag(weights) R values for a few long rows."""
    for i in range(len(rows)):
        row = rows[i]
        amount = weights[i] * _dot(row, values)
        for k in range(len(row)):
            found[k] += amount * row[k]
