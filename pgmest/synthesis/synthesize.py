"""`synthesize`: the way from tables to records; independent parts are made apart and joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.synthesis.appending import append, peel
from pgmest.synthesis.gum import Callback, GradualUpdate
from pgmest.synthesis.local_search import LocalSearch
from pgmest.synthesis.min_cost_flow import MinCostFlow
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.factor import Factor

SynthesisMethod = GradualUpdate | LocalSearch | MinCostFlow
SYNTHESIS_METHODS: dict[str, type[SynthesisMethod]] = {
    "gum": GradualUpdate,
    "local_search": LocalSearch,
    "mcf": MinCostFlow,
}


def synthesize(
    tables: Iterable[Factor],
    domain: Domain | Mapping[str, int],
    n: int,
    *,
    method: str | SynthesisMethod = "gum",
    seed: int | np.random.Generator | None = None,
    callback: Callback | None = None,
) -> Dataset:
    """n records whose marginals are close to the tables, in random order.

    Attributes that are in one table only are appended at the end, given the rest of it. What is left falls into
    parts that share no attribute; each is made by itself, and they are joined. Where a junction tree joins all tables
    nothing is left, and the records have the tables up to rounding.

    >>> from pgmest.tables.factor import Factor
    >>> ab, bc = Factor({"a": 2, "b": 2}, [[6, 0], [0, 4]]), Factor({"b": 2, "c": 2}, [[0, 6], [4, 0]])
    >>> synthesize([ab, bc], {"a": 2, "b": 2, "c": 2}, 10, seed=0).project(("a", "c")).values
    array([[0., 6.],
           [4., 0.]])

    Args:
        tables: of counts, which should agree where they overlap (`consistent_tables`); negative counts count as 0.
        domain: the attributes; those in no table are uniform.
        n: the number of records.
        method: for the parts with cycles: "gum", "local_search", "mcf", or an object with parameters of its own.
        seed: the same seed gives the same records.
        callback: see `pgmest.synthesis.gum.Callback`; called for each part with cycles.

    Raises:
        ArgumentError: `n` is not an integer of at least 0, or there is no such method.
        UnknownAttributeError: a table over other attributes.
    """
    known, given = as_domain(domain), list(tables)
    made_by = SYNTHESIS_METHODS[method]() if isinstance(method, str) and method in SYNTHESIS_METHODS else method
    if isinstance(made_by, str):
        raise ArgumentError.of("method", method, SYNTHESIS_METHODS)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ArgumentError.of("n", n, "an integer of at least 0")
    generator = np.random.default_rng(seed)
    cliques = [known.clique(table.domain) for table in given]
    core, appended = peel(cliques)
    columns: dict[str, np.ndarray] = {}
    for part in _parts([clique for clique, _ in core]):
        names = {name for position in part for name in core[position][0]}
        inside = known.project(known.ordered(names))
        pieces = [given[core[position][1]].project(core[position][0]) for position in part]
        made = made_by.records(pieces, inside, int(n), generator, callback)
        order = generator.permutation(int(n))
        columns.update((name, column[order]) for name, column in zip(inside, made, strict=True))
    for step in appended:
        columns[step.attribute] = append(columns, step, given[step.table], int(n), generator)
    for name, size in known.items():
        if name not in columns:
            columns[name] = generator.permutation(np.arange(n) % size).astype(code_type(size))
    order = generator.permutation(int(n))
    return Dataset.from_codes([columns[name][order] for name in known], known, trusted=True)


def _parts(cliques: Sequence[Clique]) -> list[list[int]]:
    """The positions of the cliques, grouped so that no two groups share an attribute."""
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while (one := above.setdefault(name, name)) != name:
            above[name] = name = above[one]
        return name

    for first, *others in filter(None, cliques):
        for other in others:
            above[root(other)] = root(first)
    groups: dict[str | int, list[int]] = {}
    for position, clique in enumerate(cliques):
        groups.setdefault(root(clique[0]) if clique else position, []).append(position)
    return sorted(groups.values(), key=lambda positions: positions[-1])
