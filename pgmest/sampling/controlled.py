"""Controlled rounding (Cox, JASA 1987): integer tables of the junction tree that hold facts.

The root is a clique with facts (`clique_tables`). From the root outwards, the expected table of each clique is fitted
to the separator's counts and to the facts, so that rounding keeps the facts on the margins it protects: it leaves whole
expectations as they are. Facts on margins that fit into neither chain of margins can be missed by a few records. What
is missed is left to an integer program (repair.py). The other tables are rounded last.

Records of a list, a support, are rounded in the same way. There single records are replaced (swaps.py) before the
integer program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pgmest.sampling.clique_tables import CliqueTable, held, project
from pgmest.sampling.facts import Facts
from pgmest.sampling.parts import repair_parts
from pgmest.sampling.repair import ChangingTable, FactRows
from pgmest.sampling.rounding import Network, parent_totals, round_tables
from pgmest.sampling.swaps import replace_records
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.margins import margin_cells

Distance = Callable[[Facts, np.ndarray, float], np.ndarray]
"""A function of facts, the records' answers and a scale that returns by how much each answer is off."""

FIT = 1e-9
"""A fitted table meets a fact to this share of its number of records."""

FIT_ROUNDS = 100
"""The most rounds of fitting; what they leave is repaired."""

IMPROVED = 0.95
"""Fitting ends when a round leaves more than this share of the error."""


def controlled_tables(
    domain: Domain, tables: Sequence[CliqueTable], networks: Sequence[Network], n: int, scale: float, state: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return integer tables as `round_tables` does, which hold the tables' facts if that is possible.

    Args:
        domain, tables, networks, n, state: as for `round_tables`.
        scale: the factor from the facts to counts of n records.

    Returns:
        the tables, and the distances of the facts that are missed, in records.
    """
    made: dict[int, np.ndarray] = {}
    expected: dict[int, np.ndarray] = {}
    for index in held([bool(table.facts) for table in tables], [table.parent for table in tables]):
        totals = parent_totals(domain, tables, index, made, n)
        expected[index] = fitted(domain, tables[index], totals, scale)
        made[index] = networks[index].round(expected[index], totals, state)
    if _off(domain, tables, made, scale, Facts.outside).size:
        generator = np.random.default_rng(int(state[0]))
        changing, facts = _changing(domain, tables, made, expected, scale)
        repair_parts(changing, facts, generator)
    unmet = _off(domain, tables, made, scale, Facts.unmet)
    return round_tables(domain, tables, networks, [table.weights for table in tables], n, state, made), unmet


def fitted(domain: Domain, table: CliqueTable, totals: np.ndarray, scale: float) -> np.ndarray:
    """Return the table's weights, fitted to the totals of its rows and to its known margins by iterative scaling."""
    families = [_family(domain, table, facts) for facts in table.margins]
    cells = _with_totals(table.weights, totals)
    found = fit_cells(cells, [(groups, facts.values * scale) for groups, facts in families], totals)
    emptied = (totals > 0.0) & ~(found.sum(axis=1) > 0.0)  # what holds no facts must hold totals
    found[emptied] = cells[emptied]
    return found


def fit_cells(cells: np.ndarray, families: Sequence[tuple[np.ndarray, np.ndarray]], totals: np.ndarray) -> np.ndarray:
    """Return cells of shape (rows, columns) scaled to the sums of groups and of rows, as far as that is possible.

    Args:
        cells: the expected counts, with the right row sums.
        families: the group of each cell, flat, or -1; and the sum of each group.
        totals: the row sums.
    """
    before = np.inf
    for _ in range(FIT_ROUNDS):
        flat, error = cells.reshape(-1), 0.0
        for groups, wanted in families:
            sums = np.bincount(groups + 1, flat, minlength=len(wanted) + 1)[1:]
            error = max(error, float(np.abs(sums - wanted).max(initial=0.0)))
        if error <= FIT * totals.sum() or error > IMPROVED * before:
            break
        before = error
        for groups, wanted in families:
            sums = np.bincount(groups + 1, flat, minlength=len(wanted) + 1)[1:]
            factors = np.divide(np.maximum(wanted, 0.0), sums, out=np.ones(len(wanted)), where=sums > 0.0)
            flat = flat * np.concatenate([[1.0], factors])[groups + 1]
        cells = _with_totals(flat.reshape(cells.shape), totals)
    return cells


def _with_totals(weights: np.ndarray, totals: np.ndarray) -> np.ndarray:
    mass = weights.sum(axis=1)
    return weights * np.divide(totals, mass, out=np.zeros(len(totals)), where=mass > 0.0)[:, None]


def _family(domain: Domain, table: CliqueTable, facts: Facts) -> tuple[np.ndarray, Facts]:
    """Return the row of the facts that counts each cell of the table, flat; -1 without one."""
    groups = facts.groups
    assert groups is not None
    return groups[table_positions(domain, table, facts.clique)], facts


def controlled_counts(
    weights: np.ndarray,
    facts: Sequence[tuple[Facts, np.ndarray]],
    n: int,
    scale: float,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return how often each record of a list occurs among n, in proportion to its weight, such that facts hold.

    Args:
        weights: the weight of each record; a record of weight 0 does not occur.
        facts: facts, each with the cell of every record in the facts' table.
        n: the number of records to choose.
        scale: the factor from the facts to counts of n records.
        generator: the source of randomness.

    Returns:
        whole numbers, and the distances of the facts that are missed, in records.
    """
    families = [(one.groups[cells], one.values * scale) for one, cells in facts if one.groups is not None]
    families.sort(key=lambda family: -len(family[1]))
    totals = np.array([float(n)])
    expected = fit_cells(_with_totals(weights.reshape(1, -1), totals), families, totals)
    state = generator.integers(2**64, size=1, dtype=np.uint64)
    counts = _groups_network(families[:2], len(weights)).round(expected, totals, state).reshape(-1)

    def off(distance: Distance) -> np.ndarray:
        sums = [(one, np.bincount(cells, counts, minlength=one.matrix.shape[1])) for one, cells in facts]
        every = np.concatenate([distance(one, one.matrix @ held, scale) for one, held in sums])
        return every[every > 0.0]

    if off(Facts.outside).size:
        grouped = [(one.groups[cells], *one.ends(scale)) for one, cells in facts if one.groups is not None]
        replace_records(counts, expected.reshape(-1), grouped, generator)
    if off(Facts.outside).size:
        cells, classes = np.unique(np.stack([cells for _, cells in facts]), axis=1, return_inverse=True)
        about = list(enumerate(cells))
        together = [(0, np.zeros(cells.shape[1], dtype=np.int64), 1)]
        rows = [FactRows(one.matrix, *one.ends(scale)) for one, _ in facts]
        possible = weights > 0.0
        table = ChangingTable(counts, expected.reshape(-1), possible, classes.reshape(-1), about, together)
        repair_parts([table], rows, generator)
    return counts.astype(np.int64), off(Facts.unmet)


def _groups_network(families: Sequence[tuple[np.ndarray, np.ndarray]], cells: int) -> Network:
    """Return the network that keeps the whole sums of at most two families of groups of cells in one row."""
    ends, above, outwards = [np.ones(cells), np.zeros(cells)], [[-1, -1]], [[1, 0]]
    nodes = 2
    for side, (groups, wanted) in enumerate(families):  # the last node of a family is that of cells in no group
        ends[side] = nodes + np.where(groups < 0, len(wanted), groups)
        above.append([1 - side] * (len(wanted) + 1))
        outwards.append([1 - side] * (len(wanted) + 1))
        nodes += len(wanted) + 1
    arrays = ([0], ends[0], [0], ends[1], np.concatenate(above), np.concatenate(outwards))
    return Network(*(np.asarray(array, dtype=np.int32) for array in arrays))


def table_positions(domain: Domain, table: CliqueTable, margin: Clique) -> np.ndarray:
    """Return the position of each cell of a table in a margin of it, flat."""
    rows, columns = margin_cells(domain, table.separator, margin), margin_cells(domain, table.new, margin)
    return (rows[:, None] + columns[None, :]).reshape(-1)


def _off(
    domain: Domain, tables: Sequence[CliqueTable], made: Mapping[int, np.ndarray], scale: float, distance: Distance
) -> np.ndarray:
    """Return the distances of the counts' answers from the facts that they miss."""
    off = [
        distance(facts, facts.matrix @ project(domain, tables[index].attributes, counts, facts.clique), scale)
        for index, counts in made.items()
        for facts in tables[index].facts
    ]
    every = np.concatenate([np.zeros(0), *off])
    return every[every > 0.0]


def _changing(
    domain: Domain,
    tables: Sequence[CliqueTable],
    made: Mapping[int, np.ndarray],
    expected: Mapping[int, np.ndarray],
    scale: float,
) -> tuple[list[ChangingTable], list[FactRows]]:
    """Return the tables with facts, and the facts, for `repair`; the counts are views of those in `made`."""
    changing, rows = [], []
    for index, counts in made.items():
        table = tables[index]
        children = [child for child in made if tables[child].parent == index]
        separators = [(child, tables[child].separator, -1) for child in children]
        if table.parent < 0 or table.separator:
            separators.append((index, table.separator, 1))
        known = {name for facts in table.facts for name in facts.clique}
        known.update(name for _, separator, _ in separators for name in separator)
        names = tuple(name for name in table.attributes if name in known)
        joints = [(number, margin_cells(domain, names, margin), sign) for number, margin, sign in separators]
        about = []
        for facts in table.facts:
            about.append((len(rows), margin_cells(domain, names, facts.clique)))
            rows.append(FactRows(facts.matrix, *facts.ends(scale)))
        classes = table_positions(domain, table, names)
        flat = counts.reshape(-1)
        possible = table.weights.reshape(-1) > 0.0
        changing.append(ChangingTable(flat, expected[index].reshape(-1), possible, classes, about, joints))
    return changing, rows
