"""The compiled kernels of record synthesis: counting, rewriting records, coordinate descent, and consistent tables.

`take_records`, which chooses the records to rewrite, is in `pgmest.sampling.kernels`. Python code calls both, because a
kernel must not call a kernel of another file: numba's cache on disk is checked against the kernel's own file only.

Records are rows of codes, shape (records, attributes), so that copying a record copies a few adjacent bytes.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined, reducing, reduction


@compiled
def count_cells(rows, axes, strides, cells, counts):
    """Fill cells[i] with the row-major cell of record i in a marginal, and counts with the number in each cell."""
    counts[:] = 0
    for i in range(len(rows)):
        cell = 0
        for a in range(len(axes)):
            cell += np.int64(rows[i, axes[a]]) * strides[a]
        cells[i] = cell
        counts[cell] += 1


@compiled
def copy_records(rows, victims, sources):
    """Overwrite each victim with a copy of a source; both are in record order, so memory access is sequential."""
    for j in range(len(victims)):
        for a in range(rows.shape[1]):
            rows[victims[j], a] = rows[sources[j], a]


@compiled
def rewrite_records(rows, victims, filled, axes, strides, sizes):
    """Move victim j to the cell filled[j] of a marginal; the victim keeps its codes of other attributes."""
    for j in range(len(victims)):
        for a in range(len(axes)):
            rows[victims[j], axes[a]] = (filled[j] // strides[a]) % sizes[a]


START, NEIGHBOR, DISTANCE, FIRST, LAST = range(5)
"""The columns of a link, see `change_codes`."""
OTHER, STEP, PEER = range(3)
"""The columns of a member, see `change_codes`."""


@inlined
def _offset(record, members, begin, end):
    """Return the sum of code times stride over the members begin..end-1."""
    cells = np.uint64(0)
    for m in range(begin, end):
        cells += np.uint64(record[members[m, OTHER]]) * members[m, STEP]
    return cells


@inlined
def _row_start(record, links, members, k):
    """Return the start of the row of link k that belongs to the record's codes of the other attributes.

    The first other attribute is handled without a loop, because most tables are two-way.
    """
    cell = links[k, START] + np.uint64(record[links[k, NEIGHBOR]]) * links[k, DISTANCE]
    second = links[k, FIRST] + np.uint64(1)
    if second < links[k, LAST]:
        cell += _offset(record, members, second, links[k, LAST])
    return cell


@compiled
def change_codes(rows, order, sizes, first, links, members, costs, weights, gain):
    """Give each code of the records the value that lowers the weighted squared distance to all tables most.

    The distance is the sum of w (count - target)^2 over all cells. A table is stored once for each of its attributes a,
    transposed so that the codes of a are adjacent. This copy is called a link of a.

    Args:
        rows: the records, shape (records, attributes); changed in place.
        order: the positions of the records to visit, in order.
        sizes: the number of codes of each attribute.
        first: the links of attribute a are first[a]..first[a + 1] - 1.
        links: for each link its start in `costs`, the first other attribute of its table, that attribute's stride (0 if
            there is no other attribute), its first member, and its last member + 1. Unsigned, because numba tests
            signed indices for negative values, which makes the kernel three times as slow.
        members: for each other attribute of a link's table the attribute, its stride in the link, and the link of that
            attribute to the same table. Unsigned.
        costs: for each cell of each link the increase of the distance by one more record, w (2 (count - target) + 1).
        weights: for each cell of each link its w.
        gain: workspace with an entry for each code of the largest attribute.

    Returns:
        the number of changes.
    """
    moved = 0
    for place in order:
        record = rows[place]
        for a in range(len(sizes)):
            n, old, own = np.uint64(sizes[a]), np.uint64(record[a]), np.float32(0.0)
            begin, end = np.uint64(first[a]), np.uint64(first[a + 1])
            for v in range(n):
                gain[v] = 0.0
            for k in range(begin, end):
                cell = _row_start(record, links, members, k)
                for v in range(n):
                    gain[v] += costs[cell + v]
                own += weights[cell + old]
            # Without the record itself its cell would cost 2 w less. The excess of 1e-4 avoids changes by rounding
            # error.
            new, least = old, gain[old] - np.float32(2.0001) * own
            for v in range(n):
                if v != old and gain[v] < least:
                    new, least = v, gain[v]
            if new == old:
                continue
            moved += 1
            for k in range(begin, end):
                cell = _row_start(record, links, members, k)
                left, entered = np.float32(-2.0) * weights[cell + old], np.float32(2.0) * weights[cell + new]
                costs[cell + old] += left
                costs[cell + new] += entered
                for m in range(links[k, FIRST], links[k, LAST]):  # the table's copies for its other attributes
                    code, link = np.uint64(record[members[m, OTHER]]), members[m, PEER]
                    record[a] = old
                    costs[_row_start(record, links, members, link) + code] += left
                    record[a] = new
                    costs[_row_start(record, links, members, link) + code] += entered
            record[a] = new
    return moved


@inlined
def _gains(costs, cells, links, width, gain):
    """Set gain[v] to the sum over links k of costs[cells[k] + v], for v < width, a multiple of four."""
    at = np.uint64(0)
    while at + np.uint64(8) <= width:  # eight adjacent sums stay in one vector register
        a = b = c = d = e = f = g = h = np.float32(0.0)
        for k in range(np.uint64(links)):
            cell = cells[k] + at
            a += costs[cell]
            b += costs[cell + np.uint64(1)]
            c += costs[cell + np.uint64(2)]
            d += costs[cell + np.uint64(3)]
            e += costs[cell + np.uint64(4)]
            f += costs[cell + np.uint64(5)]
            g += costs[cell + np.uint64(6)]
            h += costs[cell + np.uint64(7)]
        gain[at], gain[at + np.uint64(1)], gain[at + np.uint64(2)], gain[at + np.uint64(3)] = a, b, c, d
        gain[at + np.uint64(4)], gain[at + np.uint64(5)], gain[at + np.uint64(6)], gain[at + np.uint64(7)] = e, f, g, h
        at += np.uint64(8)
    if at < width:
        a = b = c = d = np.float32(0.0)
        for k in range(np.uint64(links)):
            cell = cells[k] + at
            a += costs[cell]
            b += costs[cell + np.uint64(1)]
            c += costs[cell + np.uint64(2)]
            d += costs[cell + np.uint64(3)]
        gain[at], gain[at + np.uint64(1)], gain[at + np.uint64(2)], gain[at + np.uint64(3)] = a, b, c, d


@compiled
def change_attribute(rows, a, size, width, others, begins, links, scales, targets, costs, weights, cells, gain):
    """Give attribute a of each record, in order, the code that lowers the distance to all two-way tables with a most.

    The kernel does for one attribute and two-way tables what `change_codes` does for all attributes. It computes the
    costs of these tables from scratch, so only one attribute's tables are in memory at a time.

    Args:
        rows: the records, shape (records, attributes); changed in place.
        a: the attribute to change.
        size: the number of codes of a.
        width: `size` rounded up to a multiple of four.
        others, begins: for each table its other attribute, and the start of its costs; unsigned.
        links: for each table the number of codes of the other attribute, the start of the table in `targets`, and the
            strides there of the other attribute and of a.
        scales: for each table the factor of the weights of its cells, float32.
        targets: the target counts of all tables.
        costs, weights: workspace of `width` entries for each code of each other attribute.
        cells, gain: workspace of one entry for each table, and of `width` entries.

    Returns:
        the number of changes.
    """
    records, many, step = np.uint64(len(rows)), np.uint64(len(links)), np.uint64(width)
    costs[:] = 0.0
    for i in range(records):
        record, own = rows[i], np.uint64(rows[i, a])
        for k in range(many):
            costs[begins[k] + np.uint64(record[others[k]]) * step + own] += np.float32(1.0)
    for k in range(many):
        for u in range(links[k, 0]):
            begin, from_target = np.int64(begins[k]) + u * width, links[k, 1] + u * links[k, 2]
            for v in range(size):
                target = targets[from_target + v * links[k, 3]]
                weight = scales[k] / np.sqrt(target + np.float32(1.0))
                costs[begin + v] = weight * (np.float32(2.0) * (costs[begin + v] - target) + np.float32(1.0))
                weights[begin + v] = weight
    moved = 0
    for i in range(records):
        record, old = rows[i], np.uint64(rows[i, a])
        for k in range(many):
            cells[k] = begins[k] + np.uint64(record[others[k]]) * step
        _gains(costs, cells, many, step, gain)
        new = old
        for v in range(np.uint64(size)):
            if gain[v] < gain[new]:
                new = v
        if new == old:
            continue
        own = np.float32(0.0)
        for k in range(many):
            own += weights[cells[k] + old]
        if gain[new] >= gain[old] - np.float32(2.0001) * own:  # as in change_codes
            continue
        moved += 1
        for k in range(many):
            costs[cells[k] + old] -= np.float32(2.0) * weights[cells[k] + old]
            costs[cells[k] + new] += np.float32(2.0) * weights[cells[k] + new]
        record[a] = new
    return moved


@inlined
def _center(table, shape):
    """Subtract the mean along each axis from a row-major table, in place."""
    stride = table.size
    for a in range(len(shape)):
        block, stride = stride, stride // shape[a]
        for start in range(0, table.size, block):
            for s in range(start, start + stride):
                mean = 0.0
                for i in range(shape[a]):
                    mean += table[s + i * stride]
                mean /= shape[a]
                for i in range(shape[a]):
                    table[s + i * stride] -= mean


@compiled
def ascend_dual(cliques, subsets, parts, shapes, maps, residuals, duals, table, change, variances):
    """Do one round of dual ascent over all cliques (local_nonnegativity.py); return the largest negative mass found.

    For each clique, a projected gradient step raises the multipliers of its negative cells and updates the residuals.

    Args:
        cliques: for each clique the start of its multipliers in `duals`, its number of cells, and its first subset and
            last subset + 1.
        subsets: for each subset of a clique the part, and the start in `maps` of the map from the clique's cells to the
            part's.
        parts: for each part the start of its residual, its number of cells, and the range of its shape in `shapes`.
        shapes, maps: see above.
        residuals, duals: changed in place.
        table, change: workspace with an entry for each cell of the largest clique.
        variances: the variance of each part's residual; a residual of variance 0 is fixed.
    """
    worst = 0.0
    for g in range(len(cliques)):
        begin, n, first, last = cliques[g]
        mu, step, negative, curvature = table[:n], change[:n], 0.0, 0.0
        mu[:] = 0.0
        for k in range(first, last):
            part, cell_of = subsets[k, 0], maps[subsets[k, 1] : subsets[k, 1] + n]
            residual = residuals[parts[part, 0] : parts[part, 0] + parts[part, 1]]
            share = parts[part, 1] / n
            for j in range(n):
                mu[j] += residual[cell_of[j]] * share
            # The largest eigenvalue of the dual's Hessian in this block; 1 / curvature is a safe step.
            curvature = max(curvature, variances[part] * share)
        moved = False
        for j in range(n):
            negative -= min(mu[j], 0.0)
            dual = max(0.0, duals[begin + j] - mu[j] / curvature) if curvature > 0.0 else 0.0
            step[j] = dual - duals[begin + j]
            moved = moved or step[j] != 0.0
            duals[begin + j] = dual
        worst = max(worst, negative)
        if not moved:
            continue
        for k in range(first, last):
            part, cell_of = subsets[k, 0], maps[subsets[k, 1] : subsets[k, 1] + n]
            if variances[part] == 0.0:
                continue
            gathered = mu[: parts[part, 1]]
            gathered[:] = 0.0
            for j in range(n):
                gathered[cell_of[j]] += step[j]
            _center(gathered, shapes[parts[part, 2] : parts[part, 3]])
            scale = variances[part] * parts[part, 1] / n
            for j in range(parts[part, 1]):
                residuals[parts[part, 0] + j] += gathered[j] * scale
    return worst


@reduction
def _sum(row):
    total = 0.0
    for j in range(len(row)):
        total += row[j]
    return total


@inlined
def _advance(counter, sizes, strides, at):
    """Advance the row-major index over all runs but the last; return its new position among the shared cells."""
    for k in range(len(sizes) - 2, -1, -1):
        counter[k] += 1
        at += strides[k]
        if counter[k] < sizes[k]:
            break
        at -= sizes[k] * strides[k]
        counter[k] = 0
    return at


@reducing
def _add_marginal(table, sizes, strides, marginal, counter):
    """Add a table's marginal on the shared attributes to `marginal`."""
    at, width = 0, sizes[-1]
    counter[:] = 0
    for start in range(0, len(table), width):
        row = table[start : start + width]
        if strides[-1] == 0:
            marginal[at] += _sum(row)
        else:
            for j in range(width):
                marginal[at + j] += row[j]
        at = _advance(counter, sizes, strides, at)


@inlined
def _add_to_cells(table, sizes, strides, change, counter):
    """Add the change of each cell of the marginal to all cells of the table that it sums."""
    at, width = 0, sizes[-1]
    counter[:] = 0
    for start in range(0, len(table), width):
        row = table[start : start + width]
        if strides[-1] == 0:
            amount = change[at]
            for j in range(width):
                row[j] += amount
        else:
            for j in range(width):
                row[j] += change[at + j]
        at = _advance(counter, sizes, strides, at)


@compiled
def agree(values, steps, members, weights, sizes, strides, total, goal, marginals, counter):
    """Change tables, in place, to the nearest consistent ones that sum to the total (consistency.py).

    Args:
        values: the cells of all tables, one table after the other.
        steps: for each set of shared attributes, smallest first, its number of cells, its first member, and its last
            member + 1.
        members: for each table that contains a step's attributes, its start and end in `values`, and the start and end
            of its runs in `sizes` and `strides`.
        weights: the weight of each member in the average.
        sizes, strides: for each run of adjacent axes that are all shared, or all summed out, its number of cells, and
            its stride in the shared marginal (0 if it is summed out).
        total: the sum of every table.
        goal, marginals, counter: workspace for the average, for the members' marginals, and for an index.
    """
    for s in range(len(steps)):
        cells, first, last = steps[s]
        share = 0.0
        goal[:cells] = 0.0
        for m in range(first, last):
            begin, end, run, stop = members[m]
            here = marginals[(m - first) * cells : (m - first + 1) * cells]
            here[:] = 0.0
            _add_marginal(values[begin:end], sizes[run:stop], strides[run:stop], here, counter)
            share += weights[m]
            for c in range(cells):
                goal[c] += weights[m] * here[c]
        for c in range(cells):
            goal[c] = total if s == 0 else goal[c] / share  # the first set is empty: its marginal is the total
        for m in range(first, last):
            begin, end, run, stop = members[m]
            here = marginals[(m - first) * cells : (m - first + 1) * cells]
            for c in range(cells):
                here[c] = (goal[c] - here[c]) * (cells / (end - begin))
            _add_to_cells(values[begin:end], sizes[run:stop], strides[run:stop], here, counter)


@reduction
def _sum_above(row, amount):
    """Return the sum and the number of the entries above an amount."""
    held, kept = 0.0, 0
    for j in range(len(row)):
        held += row[j] if row[j] > amount else 0.0
        kept += 1 if row[j] > amount else 0
    return held, kept


@compiled
def onto_simplexes(values, starts, total):
    """Project each table in `values` onto the simplex of non-negative tables that sum to `total`, in place.

    The projection subtracts one amount from every entry that stays positive. The algorithm of Michelot (1986) finds
    these entries by repeatedly dropping those that would become negative.
    """
    for t in range(len(starts) - 1):
        row = values[starts[t] : starts[t + 1]]
        amount, count, kept = (_sum(row) - total) / row.size, row.size + 1, row.size
        while kept < count:  # rounding may let an entry come back, and go again, without end
            count = kept
            held, kept = _sum_above(row, amount)
            if kept > 0:  # 0 entries are kept only if the total is 0, and then all become 0
                amount = (held - total) / kept
        for j in range(row.size):
            row[j] = max(row[j] - amount, 0.0)


@compiled
def most_negative(values, starts):
    """Return the largest sum of negative entries of any table in `values`, as a positive number."""
    most = 0.0
    for t in range(len(starts) - 1):
        negative = 0.0
        for j in range(starts[t], starts[t + 1]):
            negative -= min(values[j], 0.0)
        most = max(most, negative)
    return most
