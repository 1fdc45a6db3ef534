"""mbi's constraints as structural zeros of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.adapters.mbi.names import Names
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.factor import Factor
from pgmest.tables.zeros import Function, impossible, only


def zero_rule(constraint: Any, names: Names) -> Any:
    """A rule of `pgmest.zeros`."""
    attributes = names.clique(constraint.domain.attributes)
    if constraint.mapping is not None:
        fine, coarse = attributes
        return Function(coarse, fine, np.asarray(constraint.mapping).tolist())
    rows = constraint.valid if constraint.invalid is None else constraint.invalid
    combinations = [tuple(map(int, row)) for row in np.asarray(rows)]
    return (only if constraint.invalid is None else impossible)(attributes, combinations)


def constraint_tables(constraints: Iterable[Any], names: Names) -> CliqueVector:
    """Log-potentials of all the constraints: 0 where allowed, -inf elsewhere."""
    tables: dict[frozenset[str], Factor] = {}
    for constraint in constraints:
        clique = names.clique(constraint.domain.attributes)
        shape = tuple(constraint.domain.shape)
        values = np.asarray(constraint.potential.values, dtype=np.float64)
        factor = Factor(dict(zip(clique, shape, strict=True)), values)
        first = tables.get(frozenset(clique))
        tables[frozenset(clique)] = factor if first is None else first + factor.transpose(first.domain)
    return CliqueVector(names.domain, {tuple(factor.domain): factor for factor in tables.values()})
