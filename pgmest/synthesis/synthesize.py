"""`synthesize`: records from tables; parts that share no attribute are synthesized separately and joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, at_least
from pgmest.synthesis.appending import append, gyo_reduction
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
    """Return n records, in random order, whose marginals are close to the tables.

    Attributes that only one table contains are appended at the end, given the table's other attributes. The remaining
    tables are split into parts that share no attribute, and the parts are synthesized separately. If the tables have a
    junction tree, no part remains, and the records match the tables up to rounding.

    >>> from pgmest.tables.factor import Factor
    >>> ab, bc = Factor({"a": 2, "b": 2}, [[6, 0], [0, 4]]), Factor({"b": 2, "c": 2}, [[0, 6], [4, 0]])
    >>> synthesize([ab, bc], {"a": 2, "b": 2, "c": 2}, 10, seed=0).project(("a", "c")).values
    array([[0., 6.],
           [4., 0.]])

    Args:
        tables: tables of counts, which should be consistent (`consistent_tables`); negative counts count as 0.
        domain: the attributes; an attribute in no table is uniform.
        n: the number of records.
        method: the method for the remaining parts: "gum", "local_search", "mcf", or a method object.
        seed: the seed of the synthesis, or a generator.
        callback: see `pgmest.synthesis.gum.Callback`; it is called for each remaining part.

    Raises:
        ArgumentError: `n` is not an integer of at least 0, or the method is unknown.
        UnknownAttributeError: a table has an attribute that the domain lacks.
    """
    known, given = as_domain(domain), list(tables)
    synthesizer = SYNTHESIS_METHODS[method]() if isinstance(method, str) and method in SYNTHESIS_METHODS else method
    if isinstance(synthesizer, str):
        raise ArgumentError.of("method", method, SYNTHESIS_METHODS)
    n = at_least("n", n, 0)
    generator = np.random.default_rng(seed)
    cliques = [known.clique(table.domain) for table in given]
    core, appended = gyo_reduction(cliques)
    columns: dict[str, np.ndarray] = {}
    for part in _parts([clique for clique, _ in core]):
        names = {name for position in part for name in core[position][0]}
        inside = known.project(known.ordered(names))
        pieces = [given[core[position][1]].project(core[position][0]) for position in part]
        made = synthesizer.records(pieces, inside, n, generator, callback)
        order = generator.permutation(n)
        columns.update((name, column[order]) for name, column in zip(inside, made, strict=True))
    for step in appended:
        columns[step.attribute] = append(columns, step, given[step.table], n, generator)
    for name, size in known.items():
        if name not in columns:
            columns[name] = generator.permutation(np.arange(n) % size).astype(code_type(size))
    order = generator.permutation(n)
    return Dataset.from_codes([columns[name][order] for name in known], known, trusted=True)


def _parts(cliques: Sequence[Clique]) -> list[list[int]]:
    """Return the positions of the cliques in groups such that no two groups share an attribute."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(len(cliques)))
    graph.add_edges_from((position, name) for position, clique in enumerate(cliques) for name in clique)
    groups = [sorted(one for one in group if isinstance(one, int)) for group in nx.connected_components(graph)]
    return sorted(groups, key=lambda positions: positions[-1])
