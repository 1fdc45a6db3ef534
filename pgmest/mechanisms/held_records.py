"""Records that hold invariants in whole numbers, for mechanisms whose model is a list of records.

The records fit the invariants closely already, as they fit all tables. As few of them as possible are changed until
they hold them exactly: an integer program says how many records each cell of the invariants' attributes loses or gains
(`pgmest.sampling.parts`), and records move from the first to the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.estimation.estimate import estimate
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.support import SupportModel
from pgmest.privacy.curator import Curator
from pgmest.sampling.facts import Facts, held_facts
from pgmest.sampling.parts import repair_parts
from pgmest.sampling.repair import ChangingTable, FactRows
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain

KNOWN_STDDEV = 0.01
"""The standard deviation, in records, of invariants among noisy answers, which then count for more than any noise."""

MOST_TABLES, MOST_CELLS = 3, 100_000
"""The most attributes and cells of a margin of an invariant that is used as an answer."""

MOST_LISTED = 1 << 17
"""If the invariants' attributes have more cells than this, only cells with records, and those of records drawn from a
model of the invariants, may have records."""

TRIED = 50
"""The records of a cell that are tried until one may move without becoming impossible."""


def known_tables(curator: Curator) -> list[LinearMeasurement]:
    """Return the one-way marginals, pairs and triples that invariants determine, as answers of very little noise."""
    found: dict[Clique, LinearMeasurement] = {}
    for one in curator.invariants:
        if curator.known(one.clique) is None:
            continue
        for size in range(1, min(MOST_TABLES, len(one.clique)) + 1):
            for names in combinations(curator.domain.ordered(one.clique), size):
                table = curator.known(names)
                if table is not None and names not in found and curator.domain.size(names) <= MOST_CELLS:
                    found[names] = LinearMeasurement(table.values, names, KNOWN_STDDEV)
    return list(found.values())


def model_with_invariants(
    records: Dataset, total: float, curator: Curator, generator: np.random.Generator
) -> SupportModel:
    """Return the model of records, which hold the curator's invariants in whole numbers.

    Args:
        records: the records, as many as `total` rounded, or a multiple of that.
        total: the estimated number of records, which is rounded if there are invariants.
        curator: the curator.
        generator: the random generator.
    """
    facts = held_facts(curator.invariants) or None
    if facts is not None:
        total = max(1, round(total))
        records = with_invariants(records, records.records // total, curator, generator)
    return SupportModel(Support(records), CliqueVector.zeros(records.domain, []), total, facts=facts)


def with_invariants(records: Dataset, times: int, curator: Curator, generator: np.random.Generator) -> Dataset:
    """Return records that hold the curator's invariants, or miss them by as little as the search finds.

    Args:
        records: the records.
        times: the number of records for each one that the invariants are about.
        curator: the curator with invariants and structural zeros, which no changed record breaks.
        generator: the random generator.
    """
    facts = held_facts(curator.invariants)
    scaled = [replace(one, values=one.values * times) for one in facts]
    columns = [np.array(column) for column in records.columns]
    fixed = {name for one in scaled for name in one.clique}
    free = [name for name in records.domain if name not in fixed]
    for together in _connected(scaled, curator.structural_zeros):
        _hold(columns, records.domain, together, free, curator, generator)
    return Dataset.from_codes(columns, records.domain, trusted=True)


def _connected(facts: Sequence[Facts], rules: Sequence[Rule]) -> list[list[Facts]]:
    """Return the facts in groups without common attributes or rules; those about no attributes are left out."""
    groups: list[tuple[set[str], list[Facts]]] = []
    links = [(set(one.clique), [one]) for one in facts if one.clique]
    for names, members in [*links, *((set(rule.attributes), []) for rule in rules)]:
        joined = [group for group in groups if not group[0].isdisjoint(names)]
        if members or joined:
            about = (names if members else set()).union(*(group[0] for group in joined))
            groups = [group for group in groups if group not in joined]
            groups.append((about, [*members, *(one for group in joined for one in group[1])]))
    return [members for _, members in groups]


def _hold(
    columns: list[np.ndarray],
    domain: Domain,
    facts: Sequence[Facts],
    free: Sequence[str],
    curator: Curator,
    generator: np.random.Generator,
) -> None:
    """Change the codes of some attributes in as few records as possible, such that facts about these hold.

    Args:
        columns: the codes of the records by attribute, which change.
        domain: the attributes.
        facts: the facts.
        free: the attributes that no fact is about.
        curator: the curator with structural zeros.
        generator: the random generator.
    """
    names = domain.ordered({name for one in facts for name in one.clique})
    cells, place = _cells(columns, domain, names, curator)
    counts = np.bincount(place, minlength=len(cells[0])).astype(np.float64)
    codes = dict(zip(names, cells, strict=True))
    about = [(number, _place(codes, one.clique, domain)) for number, one in enumerate(facts)]
    possible = ~_broken(codes, curator.structural_zeros, domain)
    before, whole = counts.copy(), np.zeros(len(counts), dtype=np.int64)
    table = ChangingTable(counts, before, possible, np.arange(len(counts)), about, [(0, whole, 1)])
    repair_parts([table], [FactRows(one.matrix, *one.ends(1.0)) for one in facts], generator)
    change = np.rint(counts - before).astype(np.int64)
    sources, goals = (np.repeat(np.arange(len(change)), np.maximum(sign * change, 0)) for sign in (-1, 1))
    moves = _Moves(columns, domain, dict(zip(names, cells, strict=True)), place, free, curator.structural_zeros)
    for source, goal in _matched(cells, sources, goals):
        moves.move(source, goal, generator)


def _cells(
    columns: Sequence[np.ndarray], domain: Domain, names: Clique, curator: Curator
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the codes of the cells that may have records, one array for each attribute, and the cell of each record.

    If the attributes have too many cells, these are the cells of the records and of a sample of the invariants' model,
    which holds them.
    """
    sizes = [domain[name] for name in names]
    own = [columns[domain.axes((name,))[0]].astype(np.int64) for name in names]
    if domain.size(names) <= MOST_LISTED:
        return list(np.indices(sizes).reshape(len(names), -1)), np.ravel_multi_index(own, sizes)
    inside = [one for one in curator.invariants if set(one.clique) <= set(names)]
    rules = [rule for rule in curator.structural_zeros if set(rule.attributes) <= set(names)]
    model = estimate(inside, domain.project(names), total=curator.fixed_total, structural_zeros=rules)
    drawn = model.sample(seed=0)
    both = np.stack([np.concatenate([mine, other]) for mine, other in zip(own, drawn.columns, strict=True)])
    cells, place = np.unique(both, axis=1, return_inverse=True)
    return list(cells), place.reshape(-1)[: len(own[0])]


def _place(codes: dict[str, np.ndarray], clique: Clique, domain: Domain) -> np.ndarray:
    """Return the row-major cell of a table that each combination of codes is in."""
    return np.ravel_multi_index([codes[name] for name in clique], domain.project(clique).shape)


def _broken(codes: dict[str, np.ndarray], rules: Sequence[Rule], domain: Domain) -> np.ndarray:
    """Return which combinations of codes break a rule about some of these attributes."""
    broken = np.zeros(len(next(iter(codes.values()))), dtype=bool)
    for rule in rules:
        names = domain.clique(rule.attributes)
        if set(names) <= set(codes):
            broken |= np.asarray(rule.mask(domain))[tuple(codes[name] for name in names)]
    return broken


def _matched(cells: Sequence[np.ndarray], sources: np.ndarray, goals: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of a cell that loses a record and one that gains it, which differ in few attributes."""
    pairs: list[tuple[int, int]] = []
    for source in sources:
        away = sum((codes[goals] != codes[source]).astype(np.int64) for codes in cells)
        nearest = int(np.argmin(away))
        pairs.append((int(source), int(goals[nearest])))
        goals = np.delete(goals, nearest)
    return pairs


@dataclass(eq=False)
class _Moves:
    """Moves of records between cells.

    Attributes:
        columns: the codes of the records by attribute, which change.
        domain: the attributes.
        codes: the codes of each cell, by attribute.
        place: the cell of each record.
        free: the attributes that may change, too, so that a record does not become impossible.
        rules: the structural zeros.
    """

    columns: list[np.ndarray]
    domain: Domain
    codes: dict[str, np.ndarray]
    place: np.ndarray
    free: Sequence[str]
    rules: Sequence[Rule]

    def move(self, source: int, goal: int, generator: np.random.Generator) -> None:
        """Move a random record of a cell to another cell, if possible one that changes in no other attribute.

        If all records that are tried would be impossible, one of them takes the free attributes of a record of the
        goal, or another code of a free attribute.
        """
        inside = np.flatnonzero(self.place == source)
        tried = generator.permutation(inside)[:TRIED]
        after = {name: self.columns[axis][tried] for axis, name in enumerate(self.domain)}
        after |= {name: np.full(len(tried), codes[goal]) for name, codes in self.codes.items()}
        broken = _broken(after, self.rules, self.domain)
        chosen = int(np.argmin(broken))
        record = {name: codes[chosen : chosen + 1] for name, codes in after.items()}
        if broken[chosen]:
            record = next(
                (other for other in self._others(record, goal) if not _broken(other, self.rules, self.domain)[0]),
                record,
            )
        for axis, name in enumerate(self.domain):
            self.columns[axis][tried[chosen]] = record[name][0]
        self.place[tried[chosen]] = goal

    def _others(self, record: dict[str, np.ndarray], goal: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield records with other codes of the free attributes."""
        for donor in np.flatnonzero(self.place == goal)[:TRIED]:
            own = {name: self.columns[axis][donor : donor + 1] for axis, name in enumerate(self.domain)}
            yield record | {name: own[name] for name in self.free}
        for name in self.free:
            for code in range(self.domain[name]):
                yield record | {name: np.array([code])}
