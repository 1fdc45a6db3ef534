"""The compiled kernels of record synthesis: which cell each record is in, and rewriting records.

Which records to take is drawn by `take_records` of `pgmest.sampling.kernels`: numba keeps machine code on disk and
looks only at the file of a kernel to see whether it is current, so a kernel calls none of another file.

Records are rows of codes, shape (records, attributes), so that a record copied is a few neighboring bytes.
"""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled, inlined, reduction


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
    """Each victim becomes a copy of a source; both are in record order, so memory is read and written in order."""
    for j in range(len(victims)):
        for a in range(rows.shape[1]):
            rows[victims[j], a] = rows[sources[j], a]


@compiled
def rewrite_records(rows, victims, filled, axes, strides, sizes):
    """Each victim moves to a cell of the marginal, and keeps its codes of other attributes."""
    for j in range(len(victims)):
        for a in range(len(axes)):
            rows[victims[j], axes[a]] = (filled[j] // strides[a]) % sizes[a]


START, NEIGHBOR, DISTANCE, FIRST, LAST = range(5)
"""The columns of a link."""
OTHER, STEP, PEER = range(3)
"""The columns of a member."""


@inlined
def _further(record, members, begin, end):
    """What the members from `begin` to `end` add to where their codes begin."""
    cells = np.uint64(0)
    for m in range(begin, end):
        cells += np.uint64(record[members[m, OTHER]]) * members[m, STEP]
    return cells


@inlined
def _beginning(record, links, members, k):
    """Where the codes begin that go with those of the record's other attributes: of pairs without a loop, for speed."""
    cell = links[k, START] + np.uint64(record[links[k, NEIGHBOR]]) * links[k, DISTANCE]
    second = links[k, FIRST] + np.uint64(1)
    if second < links[k, LAST]:
        cell += _further(record, members, second, links[k, LAST])
    return cell


@compiled
def change_codes(rows, order, sizes, first, links, members, costs, weights, gain):
    """Give each code of these records the value that lowers the weighted squared distance to all tables most.

    Each table lies once for each of its attributes a, the codes of a that go with codes of the others next to each
    other: a link. The distance is the sum of w (count - target)^2. `costs` has what one more record in a cell would add
    to it, w (2 (count - target) + 1), `weights` has w. Returns the number of changes.

    rows: the records, shape (records, attributes), changed in place; order: the places of those to be looked at;
    first: the links of a are first[a] to first[a + 1]; gain: space for as many numbers as an attribute has values;
    links, members: unsigned, for then no index is checked for being negative, which would be three times as slow. A
    link's row: its start, the first other attribute of its table, the step of its codes (0 where there is no other),
    its first member, and the one after its last. A member's, of each other attribute of the table: which, the step of
    its codes, and the link to the same table that has its codes side by side.
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
                cell = _beginning(record, links, members, k)
                for v in range(n):
                    gain[v] += costs[cell + v]
                own += weights[cell + old]
            new, least = old, gain[old] - np.float32(2.0001) * own  # where it is costs less once it has left
            for v in range(n):
                if v != old and gain[v] < least:
                    new, least = v, gain[v]
            if new == old:
                continue
            moved += 1
            for k in range(begin, end):
                cell = _beginning(record, links, members, k)
                left, entered = np.float32(-2.0) * weights[cell + old], np.float32(2.0) * weights[cell + new]
                costs[cell + old] += left
                costs[cell + new] += entered
                for m in range(links[k, FIRST], links[k, LAST]):
                    code, link = np.uint64(record[members[m, OTHER]]), members[m, PEER]
                    record[a] = old
                    costs[_beginning(record, links, members, link) + code] += left
                    record[a] = new
                    costs[_beginning(record, links, members, link) + code] += entered
            record[a] = new
    return moved


@inlined
def _gains(costs, cells, links, width, gain):
    """gain[v] = the sum over links of costs[cells + v], for v < width, a multiple of four."""
    at = np.uint64(0)
    while at + np.uint64(8) <= width:  # eight sums in a row are one register
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
def change_attribute(rows, a, size, width, others, begins, links, targets, costs, weights, cells, gain):
    """Give the attribute a of each record, in order, the code that lowers the distance to all pairs with a most.

    As `change_codes` does, for one attribute and tables of two attributes only, which need be at hand for no other.

    rows: the records, shape (records, attributes), changed in place; size: the codes of a; width: the same, rounded up
    to a multiple of four; others, begins: for each table its other attribute, and where its costs start, unsigned;
    links: how many codes the other one has, where the table starts in targets, and how far apart the codes of the other
    and of a lie there; costs, weights: space for `width` numbers for each code of each other attribute; cells, gain:
    for one number a table, and for `width` ones. Returns the number of changes.
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
                weight = np.float32(1.0) / np.sqrt(target + np.float32(1.0))
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
        if gain[new] >= gain[old] - np.float32(2.0001) * own:  # where it is costs less once it has left
            continue
        moved += 1
        for k in range(many):
            costs[cells[k] + old] -= np.float32(2.0) * weights[cells[k] + old]
            costs[cells[k] + new] += np.float32(2.0) * weights[cells[k] + new]
        record[a] = new
    return moved


@inlined
def _center(table, shape):
    """Take the mean along each axis off a row-major table."""
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
def raise_negative(cliques, subsets, parts, shapes, maps, residuals, duals, table, change, spread):
    """One round of dual ascent over all cliques (local_nonnegativity.py); the largest negative mass that it met.

    Rows of `cliques`: start of the duals, cells, first and last of the clique's subsets. Rows of `subsets`: the part,
    start of the map from the clique's cells to the part's. Rows of `parts`: start of the residual, its cells, first and
    last of its shape. `spread` is the variance of each part's residual; the last three arrays but one are work space.
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
            curvature = max(curvature, spread[part] * share)
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
            if spread[part] == 0.0:
                continue
            gathered = mu[: parts[part, 1]]
            gathered[:] = 0.0
            for j in range(n):
                gathered[cell_of[j]] += step[j]
            _center(gathered, shapes[parts[part, 2] : parts[part, 3]])
            scale = spread[part] * parts[part, 1] / n
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
    """The next index of all runs but the last one, and where it is among the shared cells; row-major."""
    for k in range(len(sizes) - 2, -1, -1):
        counter[k] += 1
        at += strides[k]
        if counter[k] < sizes[k]:
            break
        at -= sizes[k] * strides[k]
        counter[k] = 0
    return at


@inlined
def _add_marginal(table, sizes, strides, marginal, counter):
    """Add what a table says of the shared cells to `marginal`."""
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
def _move_marginal(table, sizes, strides, change, counter):
    """Add the change of each shared cell to all the table's cells in it."""
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
    """Move tables, in place, to the nearest ones that agree and sum to the total (consistency.py).

    steps: for each set of shared attributes, smallest first, its cells and its first and last member. members: of each
    table that has them where it starts and ends in `values`, and where its runs do in `sizes` and `strides`: its
    neighboring axes that are all shared, or none, are one run, with its cells and its stride in the shared cells, 0 if
    it is summed out. weights: of each member in the average. The last three arrays are work space.
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
            goal[c] = total if s == 0 else goal[c] / share
        for m in range(first, last):
            begin, end, run, stop = members[m]
            here = marginals[(m - first) * cells : (m - first + 1) * cells]
            for c in range(cells):
                here[c] = (goal[c] - here[c]) * (cells / (end - begin))
            _move_marginal(values[begin:end], sizes[run:stop], strides[run:stop], here, counter)


@reduction
def _sum_above(row, amount):
    """The sum of the entries above an amount, and how many they are."""
    held, kept = 0.0, 0
    for j in range(len(row)):
        held += row[j] if row[j] > amount else 0.0
        kept += 1 if row[j] > amount else 0
    return held, kept


@compiled
def onto_simplexes(values, starts, total):
    """Each stretch of `values` moved to the nearest one without negative entries and with that sum, in place.

    One amount is taken off every entry that stays positive; which these are is found by dropping those that would not,
    again and again (Michelot 1986).
    """
    for t in range(len(starts) - 1):
        row = values[starts[t] : starts[t + 1]]
        amount, count, kept = (_sum(row) - total) / row.size, -1, row.size
        while kept != count:
            count = kept
            held, kept = _sum_above(row, amount)
            if kept > 0:  # none is left only where the total is 0, and then all entries become 0
                amount = (held - total) / kept
        for j in range(row.size):
            row[j] = max(row[j] - amount, 0.0)


@compiled
def most_negative(values, starts):
    """The largest sum of negative entries of any stretch."""
    most = 0.0
    for t in range(len(starts) - 1):
        negative = 0.0
        for j in range(starts[t], starts[t + 1]):
            negative -= min(values[j], 0.0)
        most = max(most, negative)
    return most
