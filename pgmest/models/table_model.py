"""The model of maximum entropy with given tables that agree, in closed form as far as the tables form a tree.

An attribute in a single table depends on the others through the rest of that table alone: once the rest is fitted,
p = p(rest) table / table(rest). Such attributes are summed out first, then tables inside others are dropped, and so on
(Graham 1979; Yu and Ozsoyoglu 1979). The remaining tables are the core, which is empty if the tables form a junction
tree. Only the core is fitted by iterative proportional fitting, starting from the product of its tables, each divided
by its marginal on the attributes of those before it. For an answer about few attributes, all others are summed out, and
most cores are tiny.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from pgmest.errors import ImpossibleModelError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.losses.base import cell_positions
from pgmest.models.exact import Model
from pgmest.solvers.ipf import fit_tables
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


def model_of_tables(
    tables: Mapping[Clique, Factor], domain: Domain, total: float, tolerance: float, rounds: int
) -> Model:
    """Return the model of maximum entropy on all attributes of the domain.

    Args:
        tables: marginals, in counts or fractions, that nearly agree on shared attributes.
        domain: the attributes.
        total: the number of records.
        tolerance: the core is fitted until, within a round, no table is further than this from its marginal (L1, of
            tables that sum to one).
        rounds: the largest number of rounds over the core's tables.
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
    """Return the marginal of `model_of_tables` on some attributes, as a model of what affects them alone.

    Args:
        tables, domain, total, tolerance, rounds: as for `model_of_tables`.
        names: the attributes. The model's marginals on them are those of the whole model.
    """
    core = reduced(list(tables), names)[0]
    bearing = connected(core, names)
    attributes = domain.ordered({*names, *(name for part in bearing.values() for name in part)})
    fitted = _fitted_core(tables, bearing, domain.project(attributes), tolerance, rounds)
    return Model(fitted, total)


def bearing_cells(cliques: Sequence[Clique], names: Sequence[str], domain: Domain) -> int:
    """Return the number of cells of the junction tree of `marginal_model`."""
    bearing = connected(reduced(cliques, names)[0], names)
    attributes = {*names, *(name for part in bearing.values() for name in part)}
    return JunctionTree.from_cliques(
        domain.project(domain.ordered(attributes)), bearing.values(), effort="low"
    ).total_cells


def reduced(cliques: Sequence[Clique], keep: Collection[str]) -> tuple[dict[Clique, Clique], dict[Clique, Clique]]:
    """Reduce cliques by Graham's algorithm: sum out attributes of a single clique, drop cliques inside others, repeat.

    >>> reduced([("a", "b"), ("b", "c", "d"), ("c", "e")], keep=("a", "e"))[0]
    {('a', 'b'): ('a', 'b'), ('b', 'c', 'd'): ('b', 'c'), ('c', 'e'): ('c', 'e')}
    >>> reduced([("a", "b"), ("b", "c", "d"), ("c", "e")], keep=("a",))
    ({('a', 'b'): ('a',)}, {('a', 'b'): ('a',), ('b', 'c', 'd'): ('b',), ('c', 'e'): ('c',)})

    Args:
        cliques: cliques, each once.
        keep: the attributes that are not summed out.

    Returns:
        the attributes that were not summed out, of the cliques that remain, and of all cliques.
    """
    parts = {clique: set(clique) for clique in cliques}
    active = dict(parts)
    while True:
        seen = Counter(name for part in active.values() for name in part)
        alone = {name for name, count in seen.items() if count == 1}.difference(keep)
        for part in active.values():
            part -= alone
        within = (c for c, part in active.items() if any(part <= rest for other, rest in active.items() if other != c))
        inside = next(within, None)
        if inside is not None:
            del active[inside]
        elif not alone:
            break
    remains = {clique: tuple(name for name in clique if name in part) for clique, part in parts.items()}
    return {clique: remains[clique] for clique in active if remains[clique]}, remains


def connected(core: Mapping[Clique, Clique], names: Iterable[str]) -> dict[Clique, Clique]:
    """Return the parts of a core that shared attributes connect to `names`, directly or through other parts."""
    reached, found = set(names), {}
    while True:
        new = {clique: part for clique, part in core.items() if clique not in found and reached.intersection(part)}
        if not new:
            return {clique: part for clique, part in core.items() if clique in found}
        found.update(new)
        reached.update(name for part in new.values() for name in part)


def _conditional_logs(table: Factor, part: Clique) -> Factor:
    """Return the log of the table given the attributes `part`: -inf at zeros, uniform given codes without any mass."""
    given = table.project(part).expand(table.domain).values
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(table.values > 0, np.log(table.values / given), -np.inf)
    uniform = np.log(table.domain.project(part).size() / table.domain.size())
    return Factor.owning(table.domain, np.where(given > 0, logs, uniform))


def _fitted_core(
    tables: Mapping[Clique, Factor], core: Mapping[Clique, Clique], domain: Domain, tolerance: float, rounds: int
) -> CliqueVector:
    """Fit the core, and return its potentials on the parts of its cliques."""
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
        oracle = ExactOracle(PropagationPlan.of(layout, tree))
        try:
            fit_tables(oracle, start, target, tolerance, rounds)
        except ImpossibleModelError:  # the zeros of the tables contradict each other
            start[:] = 0.0
            fit_tables(oracle, start, target, tolerance, rounds)
    return CliqueVector.of(layout, start)


def _by_overlap(parts: Iterable[Clique]) -> Iterator[Clique]:
    """Yield the parts in Prim's order: each time the one that shares the most attributes with those before it.

    If the parts are the cliques of a junction tree, the shared attributes of each part are then inside an earlier part.
    """
    left, shared = list(parts), dict[Clique, int]()
    while left:
        chosen = max(left, key=lambda part: (shared.get(part, 0), len(part)))
        left.remove(chosen)
        for part in left:
            shared[part] = max(shared.get(part, 0), len(set(part).intersection(chosen)))
        yield chosen
