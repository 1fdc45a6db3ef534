"""The compiled kernels of a chain: the gradient of the Student prior, and products of the metric with vectors."""

from __future__ import annotations

from pgmest._base.compiled import compiled, reducing, reduction

START, CELLS, AXIS, AXES, WHOLE, NUMBER = range(6)
"""The columns of a table of cliques: the first cell and the number of cells, the first axis and the number of axes, the
row of the effect of the whole clique, and the number of its scale."""


@reduction
def _outer(means, sizes, places, axis, axes, digits):
    """Return the sum of a row's effects over all axes but the last, which are constant along the row."""
    found = 0.0
    for k in range(axes - 1):
        found += means[places[axis + k] + digits[k]]
    return found


@reduction
def _next_row(sizes, axis, axes, digits):
    """Advance the codes of all axes but the last to the next row, like an odometer."""
    for k in range(axes - 2, -1, -1):
        digits[k] += 1
        if digits[k] < sizes[axis + k]:
            return
        digits[k] = 0


@reduction
def _add_to_sums(value, places, axis, axes, digits, sums):
    """Add a row's sum to the sums of its codes, for all axes but the last."""
    for k in range(axes - 1):
        sums[places[axis + k] + digits[k]] += value


@reduction
def _row_sums(values, sums):
    """Return the sum of a row, and add its values to the sums of the last axis."""
    total = 0.0
    for j in range(len(values)):
        total += values[j]
        sums[j] += values[j]
    return total


@reducing
def _sums(values, start, cells, width, last, sizes, places, axis, axes, digits, sums):
    """Return the sum of a clique's cells, and add the cells to the sums of each value of each axis."""
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
    """Write the interactions of a row: the cells without the effects."""
    for j in range(len(found)):
        found[j] = away[j] - outer - means[j]


@reduction
def _pulls(variance, scatter, share, possible, degrees, pull):
    """Replace interactions by the derivatives of their energy; return the sum of the derivatives in the log scale."""
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
    """Add the effects' part of the derivative to a row."""
    for j in range(len(pull)):
        pull[j] += outer + last[j]


@compiled
def student_gradient(
    cliques, sizes, places, away, variances, scatter, share, possible, degrees, precision, means, sums, digits, pull,
    moments,
):  # fmt: skip
    """Compute the derivative of the energy of Student interactions and normal effects, in potentials and log scales.

    Args:
        cliques: the table of cliques, shape (cliques, 6), with the columns START to NUMBER.
        sizes, places: for each axis of each clique, its length and its first row among the effects.
        away: the potentials minus their center.
        variances: the square of each scale; the last is for cliques without a scale that is drawn.
        scatter, share, possible: for each cell, see `StudentCells`.
        degrees: the degrees of freedom.
        precision: the prior precision of every effect.
        means, sums, digits: work arrays, with a number for each effect, and for each axis of a clique.
        pull: receives the derivative in the potentials.
        moments: receives the derivative in the log scales, without the prior of the log scales.
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
    """Return the inner product."""
    found = 0.0
    for k in range(len(one)):
        found += one[k] * other[k]
    return found


@reduction
def _add_row_and_dot(row, values, value, found):
    """Return the product of a row with values, and add `value` times the row to `found`."""
    total = 0.0
    for k in range(len(row)):
        total += row[k] * values[k]
        found[k] += row[k] * value
    return total


@reducing
def _symmetric_product(triangle, values, found):
    """Multiply a symmetric matrix by a vector, from its lower triangle by rows, which halves the memory traffic."""
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
        pointers, columns, entries: J D by rows (CSR).
        shares, starts, total, weights: see `SharedRoot`.
        triangle: the lower triangle of C, row after row.
        values: the vector.
        moved, inside: work arrays, with a number for each row.
        found: the array to which the product is added.
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
    """Add R^T diag(weights) R values to `found`, for a few long rows R."""
    for i in range(len(rows)):
        row = rows[i]
        amount = weights[i] * _dot(row, values)
        for k in range(len(row)):
            found[k] += amount * row[k]
