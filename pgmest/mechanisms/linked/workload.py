"""The workload of families: which tables of a parent, a child and two children matter, and how much."""

from __future__ import annotations

from itertools import combinations, product

from pgmest.errors import ArgumentError, listed
from pgmest.mechanisms.linked.families import Layout
from pgmest.tables.domain import Clique

MOST_CELLS = 20_000_000
"""The most cells of all tables of pairs together, each of which a run keeps in memory several times."""
IMPORTANCE = {"number": 0.3, "above": 1.0, "between": 1.0, "inside": 1.5, "across": 0.8}
"""The importance of the number of children, and of all tables together of a parent, of a parent and a child, of a
child, and of two children. How much of the budget is for parents does not depend on it (`parts`). The only table of a
parent without attributes is the number of children."""


def check_size(layout: Layout) -> None:
    """Raise ArgumentError if the tables of a workload have more than `MOST_CELLS` cells."""
    domain = layout.domain
    cells = sum(domain.size(clique) for clique in family_workload(layout))
    if cells > MOST_CELLS:
        name = max((*layout.parents, *layout.members), key=lambda one: domain[one])
        raise ArgumentError(
            f"the tables of pairs of attributes of {listed(layout.names)} have {cells:,} cells, more than "
            f"{MOST_CELLS:,}, mostly for '{name}' with {domain[name]:,} values: make its bins wider, list fewer "
            "values, or lower at_most."
        )


def family_workload(layout: Layout) -> dict[Clique, float]:
    """Return the weight of each table of a workload; the tables of a kind have equal weights.

    Of a pair of different attributes of two children without an order only one table is asked for, since that of the
    other way round is the same.

    >>> from pgmest.tables.domain import Domain
    >>> layout = Layout(Domain({"region": 4}), Domain({"age": 9}), ("households", "persons"), 8)
    >>> [" x ".join(clique) for clique in family_workload(layout)][1:3]
    ['households.region x number of persons', 'households.region x persons.age']
    """
    names, others = layout.members, layout.others
    kinds: dict[str, list[Clique]] = {
        "number": [(layout.number,)],
        "above": list(combinations(layout.parents, 2)) or [(layout.number,)],
        "between": list(product(layout.parents, names)),
        "inside": list(combinations(names, 2)),
        "across": [
            (one, other) for place, one in enumerate(names) for other in others[0 if layout.ordered else place :]
        ],
    }
    found = dict[Clique, float]()
    for kind, cliques in kinds.items():
        for clique in cliques:
            found[clique] = found.get(clique, 0.0) + IMPORTANCE[kind] / len(cliques)
    return found
