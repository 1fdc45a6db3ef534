"""Tables of another child of a family that follow from those of one child, which has a similar distribution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.public_tables import PublicTables
from pgmest.mechanisms.lamp.shrinkage import ipf_two_way
from pgmest.mechanisms.linked.families import Layout
from pgmest.tables.domain import Clique

SWEEPS = 30
"""The number of alternations between the margins of a table of three attributes."""
LEAST = 1e-6
"""The smallest share of a count that is divided between small and large families."""


class TwinTables(PublicTables):
    """Tables that follow from others, in place of those of a public table; all other pairs are independent."""

    def __init__(self, twins: Mapping[Clique, np.ndarray], counts: Mapping[str, np.ndarray]):
        self.twins: Mapping[Clique, np.ndarray] = twins
        self.counts: Mapping[str, np.ndarray] = counts

    def prepare(self, cliques: Iterable[Clique]) -> None:
        """Do nothing, as all tables are known."""

    def one_way(self, name: str, total: float) -> np.ndarray:
        return self.counts[name]

    def pair(self, clique: Clique, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        table = self.twins.get(clique)
        total = float(rows.sum())
        if table is None:
            return np.outer(rows, columns) / total
        smoothed = table * (total / table.sum()) + 1e-9 * total / table.size
        return ipf_two_way(smoothed, rows, columns)


def twin_tables(evidence: Evidence, layout: Layout) -> dict[Clique, np.ndarray]:
    """Return tables of another child's attributes that follow from those of one child.

    Children of one family are exchangeable, since the averages are over all of them. Another child is there if a family
    has two children or more, so its tables are those of a child, less those of the families of one child. Which part of
    a pair's table is theirs is estimated with the largest entropy (`_part`).
    """
    if not layout.others:
        return {}
    if layout.ordered:
        return _next_tables(evidence, layout)
    place = {answer.clique: at for at, answer in enumerate(evidence.answers) if not answer.public}
    sizes = evidence.counts(layout.number)
    few = float(sizes[:2].sum())
    single: dict[str, np.ndarray] = {}
    found: dict[Clique, np.ndarray] = {}

    def table(clique: Clique) -> np.ndarray:
        return evidence.table(place[clique], tuple(np.arange(layout.domain[name]) for name in clique))

    for name, other in zip(layout.members, layout.others, strict=True):
        clique = layout.number, name
        counts, several = evidence.counts(name), evidence.counts(other)
        if clique in place:
            known = table(clique)
            single[name] = known[:2].sum(axis=0)
        else:
            single[name] = np.append(np.maximum(counts[:-1] - several[:-1], LEAST * counts[:-1]), counts[-1])
            known = np.outer(sizes, np.append(several[:-1], 0.0)) / max(float(several[:-1].sum()), 1e-9)
        twin = known.copy()
        twin[:2] = 0.0
        twin[:2, -1] = sizes[:2]
        found[layout.number, other] = twin
    twin_of = dict(zip(layout.members, layout.others, strict=True))
    for clique in place:
        one, other = clique[0], clique[-1]
        if len(clique) != 2 or other not in twin_of or one == layout.number:
            continue
        known = table(clique)
        if one in twin_of:
            part = _part(known, single[one], single[other])
            twin = known - part
            twin[-1], twin[:, -1] = 0.0, 0.0
            twin[-1, -1] = part.sum()
            found[twin_of[one], twin_of[other]] = twin
        else:
            above = (one, layout.number)
            rows = table(above)[:, :2].sum(axis=1) if above in place else evidence.counts(one) * few / evidence.total
            part = _part(known, rows, single[other])
            twin = known - part
            twin[:, -1] = part.sum(axis=1)
            found[one, twin_of[other]] = twin
    return found


def _next_tables(evidence: Evidence, layout: Layout) -> dict[Clique, np.ndarray]:
    """Return tables of the next child's attributes that follow from those of one child, as if all children were alike.

    Of n children n - 1 are next ones. `TwinTables.pair` then gives the tables the counts of single attributes.
    """
    place = {answer.clique: at for at, answer in enumerate(evidence.answers) if not answer.public}
    sizes = evidence.counts(layout.number)
    share = np.maximum(np.arange(len(sizes)) - 1, 0) / np.maximum(np.arange(len(sizes)), 1)
    found: dict[Clique, np.ndarray] = {}

    def table(clique: Clique) -> np.ndarray:
        return evidence.table(place[clique], tuple(np.arange(layout.domain[name]) for name in clique))

    twin_of = dict(zip(layout.members, layout.others, strict=True))
    for name, other in twin_of.items():
        clique = layout.number, name
        counts = evidence.counts(name)[:-1]
        known = table(clique)[:, :-1] if clique in place else np.outer(sizes, counts / max(float(counts.sum()), 1e-9))
        twin = np.maximum(known, 0.0) * share[:, None]
        found[layout.number, other] = np.column_stack([twin, np.maximum(sizes - twin.sum(axis=1), 0.0)])
    usual = float(sizes @ share) / max(float(sizes[1:].sum()), 1e-9)
    for clique in place:
        one, other = clique[0], clique[-1]
        if len(clique) != 2 or other not in twin_of or one == layout.number:
            continue
        known = np.maximum(table(clique), 0.0)
        twin = known * usual
        if one in twin_of:
            twin[-1], twin[:, -1] = 0.0, 0.0
            twin[-1, -1] = max(float(known.sum() - twin.sum()), 0.0)
            found[twin_of[one], twin_of[other]] = twin
        else:
            twin[:, -1] = known.sum(axis=1) - twin[:, :-1].sum(axis=1)
            found[one, twin_of[other]] = twin
    return found


def _part(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the part of a table that has these margins, if the part and the rest have the largest entropy."""
    table = np.maximum(table, 1e-9)
    above, aside = table.sum(axis=1), table.sum(axis=0)
    rows = np.clip(rows, LEAST * above, (1 - LEAST) * above)
    columns = np.clip(columns, LEAST * aside, (1 - LEAST) * aside)
    columns = np.minimum(columns * (rows.sum() / columns.sum()), (1 - LEAST) * aside)
    part = table * (rows.sum() / table.sum())
    rest = table - part
    for _ in range(SWEEPS):
        part = part * (rows / part.sum(axis=1))[:, None]
        rest = rest * ((above - rows) / rest.sum(axis=1))[:, None]
        part = part * (columns / part.sum(axis=0))
        rest = rest * ((aside - columns) / rest.sum(axis=0))
        whole = table / (part + rest)
        part, rest = part * whole, rest * whole
    return part
