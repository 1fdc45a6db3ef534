"""The model of maximum entropy with given tables that agree, in closed form as far as these hang together as a tree.

An attribute in one table only hangs on the rest of that table: with the rest fitted, p = p(rest) table / table(rest).
So such attributes are summed out first, tables that are then inside others are left out, and so on (Graham 1979; Yu and
Ozsoyoglu 1979). What is left is a core without such attributes, empty if the tables form a junction tree. Only the core
is fitted by rounds of iterative proportional fitting, from the product of its tables divided by what each shares with
those before it. For an answer about few attributes only those need be kept, and most cores are tiny.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from pgmest._base.errors import ImpossibleModelError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.plan import Plan
from pgmest.losses.base import cell_positions
from pgmest.models.exact import Model
from pgmest.solvers.ipf import fit_tables
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


def model_of_tables(
    tables: Mapping[Clique, Factor], domain: Domain, total: float, tolerance: float, rounds: int
) -> Model:
    """The model of maximum entropy on all attributes of the domain.

    Args:
        tables: marginals, in counts or fractions, that nearly agree where they overlap.
        domain: the attributes.
        total: the number of records.
        tolerance: the core is fitted until no table is further from its marginal than this (L1, of tables that sum
            to one) within a round.
        rounds: or for at most so many rounds over its tables.
    """
    core, remains = reduced(list(tables), ())
    fitted = _fitted_core(tables, core, domain, tolerance, rounds)
    potentials: dict[Clique, Factor] = {}
    for clique, table in tables.items():
        part = remains[clique]
        own = _conditional_logs(table.normalize(), part)
        if clique in core and part:
            own = own + fitted[part].expand(own.domain)
        potentials[clique] = own
    return Model(CliqueVector(domain, potentials), total)


def marginal_model(
    tables: Mapping[Clique, Factor], names: Sequence[str], domain: Domain, total: float, tolerance: float, rounds: int
) -> Model:
    """The same, of what bears on the attributes `names` alone: its marginals on these are those of the whole model."""
    core = reduced(list(tables), names)[0]
    bearing = connected(core, names)
    attributes = domain.ordered({*names, *(name for part in bearing.values() for name in part)})
    fitted = _fitted_core(tables, bearing, domain.project(attributes), tolerance, rounds)
    return Model(fitted, total)


def bearing_cells(cliques: Sequence[Clique], names: Sequence[str], domain: Domain) -> int:
    """How many cells the junction tree of `marginal_model` has."""
    bearing = connected(reduced(cliques, names)[0], names)
    attributes = {*names, *(name for part in bearing.values() for name in part)}
    return JunctionTree.from_cliques(
        domain.project(domain.ordered(attributes)), bearing.values(), effort="low"
    ).total_cells


def reduced(cliques: Sequence[Clique], keep: Collection[str]) -> tuple[dict[Clique, Clique], dict[Clique, Clique]]:
    """What is left of cliques once attributes in one of them only are summed out, and those inside others left out.

    >>> reduced([("a", "b"), ("b", "c", "d"), ("c", "e")], keep=("a", "e"))[0]
    {('a', 'b'): ('a', 'b'), ('b', 'c', 'd'): ('b', 'c'), ('c', 'e'): ('c', 'e')}
    >>> reduced([("a", "b"), ("b", "c", "d"), ("c", "e")], keep=("a",))
    ({('a', 'b'): ('a',)}, {('a', 'b'): ('a',), ('b', 'c', 'd'): ('b',), ('c', 'e'): ('c',)})

    Args:
        cliques: different ones.
        keep: attributes that are not summed out.

    Returns:
        of the cliques that are left, and of all, the attributes that were not summed out.
    """
    parts = {clique: set(clique) for clique in cliques}
    active = dict(parts)
    while True:
        seen = Counter(name for part in active.values() for name in part)
        alone = {name for name, count in seen.items() if count == 1}.difference(keep)
        for part in active.values():
            part -= alone
        inside = next((clique for clique, part in active.items() if _is_inside(clique, part, active)), None)
        if inside is not None:
            del active[inside]
        elif not alone:
            break
    remains = {clique: tuple(name for name in clique if name in part) for clique, part in parts.items()}
    return {clique: remains[clique] for clique in active if remains[clique]}, remains


def _is_inside(clique: Clique, part: set[str], active: Mapping[Clique, set[str]]) -> bool:
    return any(part <= other for holder, other in active.items() if holder != clique)


def connected(core: Mapping[Clique, Clique], names: Iterable[str]) -> dict[Clique, Clique]:
    """Those parts of a core that share attributes with `names`, also through others."""
    reached, found = set(names), {}
    while True:
        new = {clique: part for clique, part in core.items() if clique not in found and reached.intersection(part)}
        if not new:
            return {clique: part for clique, part in core.items() if clique in found}
        found.update(new)
        reached.update(name for part in new.values() for name in part)


def _conditional_logs(table: Factor, part: Clique) -> Factor:
    """log of the table given some of its attributes: -inf where it is zero, uniform given what has none of its mass."""
    given = table.project(part).expand(table.domain).values
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(table.values > 0, np.log(table.values / given), -np.inf)
    uniform = np.log(table.domain.project(part).size() / table.domain.size())
    return Factor.owning(table.domain, np.where(given > 0, logs, uniform))


def _fitted_core(
    tables: Mapping[Clique, Factor], core: Mapping[Clique, Clique], domain: Domain, tolerance: float, rounds: int
) -> CliqueVector:
    """The potentials of the core, on its parts."""
    projected = {part: tables[clique].project(part).normalize() for clique, part in core.items()}
    layout = Layout.of(domain, projected)
    target = np.concatenate([np.empty(0), *(projected[part].values.reshape(-1) for part in layout.cliques)])
    start, covered = np.zeros(layout.cells), set[str]()
    for part in _by_overlap(layout.cliques):
        shared = tuple(name for name in part if name in covered)
        start[cell_positions(layout, part)] = _conditional_logs(projected[part], shared).values.reshape(-1)
        covered.update(part)
    if len(core) > 1:
        tree = JunctionTree.from_cliques(domain, layout.cliques, effort="low")
        oracle = ExactOracle(Plan.of(layout, tree))
        try:
            fit_tables(oracle, start, target, tolerance, rounds)
        except ImpossibleModelError:  # the zeros of the tables contradict each other
            start[:] = 0.0
            fit_tables(oracle, start, target, tolerance, rounds)
    return CliqueVector.of(layout, start)


def _by_overlap(parts: Iterable[Clique]) -> Iterator[Clique]:
    """Each time the one that shares the most attributes with those before it (Prim): if the parts are the cliques of a
    junction tree, all it shares is then in one of them."""
    left, shared = list(parts), dict[Clique, int]()
    while left:
        chosen = max(left, key=lambda part: (shared.get(part, 0), len(part)))
        left.remove(chosen)
        for part in left:
            shared[part] = max(shared.get(part, 0), len(set(part).intersection(chosen)))
        yield chosen
