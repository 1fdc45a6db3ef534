"""The errors of an estimate at each level of the hierarchies of its attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.evaluation.workload_error import marginal_errors
from pgmest.tables.domain import Domain
from pgmest.tables.hierarchy import SEPARATOR
from pgmest.workloads import Projectable

PAIR_CELLS = 1 << 20
"""Pairs with more cells than this are not compared."""


@dataclass(frozen=True)
class LevelError:
    """The errors at one level of an attribute, as shares of the records that would have to change cells.

    Attributes:
        name: the level, such as "diagnosis@chapter", or the attribute itself.
        groups: the number of its groups, or of values.
        single: the total variation distance of its table.
        pairs: the mean distance of its tables with each other attribute; NaN without such a table.
    """

    name: str
    groups: int
    single: float
    pairs: float

    def to_json(self) -> dict[str, Any]:
        """Return the errors as JSON values."""
        pairs = None if np.isnan(self.pairs) else self.pairs
        return {"name": self.name, "groups": self.groups, "error": self.single, "pair_error": pairs}


def level_errors(true: Projectable, estimated: Projectable, domain: Domain) -> list[LevelError]:
    """Return the errors of each attribute that has a hierarchy, from its coarsest level to its values.

    **Not private**, if the true records are not: the errors are computed without noise.

    >>> from pgmest import Dataset, Hierarchy
    >>> domain = Domain({"code": 3, "sex": 2}).with_hierarchies(Hierarchy("code", {"chapter": [0, 0, 1]}))
    >>> true = Dataset.from_codes([[0, 1, 2, 2], [0, 0, 1, 1]], domain)
    >>> estimated = Dataset.from_codes([[0, 0, 2, 2], [0, 0, 1, 1]], domain)
    >>> [(one.name, one.groups, one.single, one.pairs) for one in level_errors(true, estimated, domain)]
    [('code@chapter', 2, 0.0, 0.0), ('code', 3, 0.25, 0.25)]

    Args:
        true, estimated: as for `marginal_errors`, which scales the estimate to the true total.
        domain: the attributes, with their hierarchies.

    Raises:
        DataError: as for `marginal_errors`.
    """
    found = []
    for attribute, tree in domain.hierarchies.items():
        for level in (*tree.names, None):
            name = attribute if level is None else f"{attribute}{SEPARATOR}{level}"
            groups = domain[attribute] if level is None else tree.size(level)
            others = [other for other in domain if other != attribute and groups * domain[other] <= PAIR_CELLS]
            cliques = [(name,), *((name, other) for other in others)]
            errors = marginal_errors(true, estimated, cliques, rescale=True, domain=domain)
            pairs = float(np.mean([errors[clique] for clique in cliques[1:]])) if others else float("nan")
            found.append(LevelError(name, groups, errors[name,], pairs))
    return found
